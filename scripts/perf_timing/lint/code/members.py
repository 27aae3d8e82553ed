"""What a name stands for that a loop binds, or that is taken out of a list or a dictionary.

`for name, fn in cases.items():`, `for fn, label in [(a, "a"), (b, "b")]:`, `fn = cases[name]`: the
members that the file shows, be they in a literal, appended, or stored under a key. Others may come
from elsewhere; what is shown stands for them. In C++ these are the functions of a table whose rows
have one each: `cases.push_back({"a", [&] { a<<<g, b>>>(x); }}); for (auto& c : cases) c.run();`.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    callee_text,
    last_segment,
    loop_header,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node

_DEEPEST = 4  # names that stand for names
_MOST = 8  # members that are looked at
# What hands on the members of its first argument as they are.
_SAME = frozenset({"tqdm", "trange", "track", "list", "tuple", "sorted", "reversed", "iter", "set"})


def values(scopes: Scopes, name: Node, scope: Scope) -> list[Node]:
    """The values that a name has by a loop or a subscript; none if neither gives it."""
    if scopes.language == "cuda":
        return list(_of_table(scopes, name, scope))[:_MOST]
    return list(dict.fromkeys(_values(scopes, name, scope, 0)))[:_MOST]


# for (auto& row : table), for (const auto& [label, run] : table)
_EACH_ROW = re.compile(
    r"for\s*\(\s*(?:const\s+)?[\w:]+[\s*&]+(?:(\w+)|\[([\w\s,]*)\])\s*:\s*(\w+)\s*\)"
)


def _of_table(scopes: Scopes, name: Node, scope: Scope) -> Iterator[Node]:
    """The functions that the rows of a table of C++ hold: row.run(), run(), table[i].run()."""
    table = _table(name)
    if not table:
        return
    rows = [row for _, value in scopes.assignments(table, scope) for row in value.children]
    for added in ("push_back", "emplace_back"):
        for call in scopes.calls_by_name.get(added, []):
            if callee_text(call) == f"{table}.{added}":
                given = positional(call)
                rows += given if len(given) == 1 else [a.parent for a in given[:1] if a.parent]
    held = [_callables(scopes, row) for row in rows]
    if all(len(functions) == 1 for functions in held):
        yield from (functions[0] for functions in held)


def _table(name: Node) -> str:
    """The variable whose rows a loop around a name goes through, or that is indexed there."""
    found = re.match(r"(\w+)(\[)?", squeeze(name.text))
    if found is None or found[2]:
        return found[1] if found else ""
    for parent in name.ancestors():
        each = _EACH_ROW.match(loop_header(parent)) if parent.kind == "for" else None
        if each and found[1] in (each[1] or each[2].replace(",", " ")).split():
            return each[3]
    return ""


def _callables(scopes: Scopes, row: Node) -> list[Node]:
    """The lambdas and functions of the file in a row of a table, or the row if it is one."""
    parts = [row] if row.kind in ("lambda", "name") else row.children
    if row.kind == "call":  # Case("a", run), std::make_pair("a", run)
        parts = positional(row)
    bare = [p.children[0] if p.kind == "unary" and p.children else p for p in parts]
    return [p for p in bare if p.kind == "lambda" or _is_function(scopes, p)]


def _is_function(scopes: Scopes, node: Node) -> bool:
    return node.kind == "name" and squeeze(node.text) in scopes.functions


def is_listed(name: Node) -> bool:
    """Whether a name of Python is bound by a loop around it."""
    return name.kind == "name" and _binding(name) is not None


def _values(scopes: Scopes, value: Node, scope: Scope, depth: int) -> Iterator[Node]:
    if depth > _DEEPEST or scopes.language != "python":
        return
    if value.kind == "subscript" and value.children:
        yield from _members(scopes, value.children[0], scope, depth + 1)
        return
    if value.kind != "name" or "." in value.text:
        return
    bound = _binding(value)
    if bound is not None:
        yield from _at(scopes, *bound, scope, depth + 1)
        return
    made = scopes.definition(value, squeeze(value.text), scope)
    if made is not None and made.kind in ("subscript", "name"):
        yield from _values(scopes, made, scopes.scope_of(made), depth + 1)


def _binding(name: Node) -> tuple[list[int], Node] | None:
    """Where in the members of which iterable the loop around a name finds its value."""
    for parent in name.ancestors():
        header = parent.child("comp_for") if parent.kind == "comp" else parent
        if parent.kind not in ("for", "comp") or header is None or len(header.children) < 2:
            continue
        target, iterable = header.children[:2]
        if iterable.start <= name.start < iterable.end:
            continue
        place = _place(target, name.text)
        if place is not None:
            return place, iterable
    return None


def _place(target: Node, name: str) -> list[int] | None:
    """The positions that lead to a name in the target of a loop: [1, 0] in `i, (name, n)`."""
    if target.kind == "name":
        return [] if target.text == name else None
    for number, part in enumerate(target.children):
        found = _place(part, name)
        if found is not None:
            return [number, *found]
    return None


def _at(
    scopes: Scopes, place: list[int], iterable: Node, scope: Scope, depth: int
) -> Iterator[Node]:
    """The values at a place of the members of an iterable."""
    if iterable.kind == "call":
        yield from _of_call(scopes, place, iterable, scope, depth)
        return
    for member in _members(scopes, iterable, scope, depth, keys=iterable.kind == "dict"):
        yield from _part(member, place)


def _of_call(
    scopes: Scopes, place: list[int], call: Node, scope: Scope, depth: int
) -> Iterator[Node]:
    callee, given = callee_text(call), positional(call)
    short = last_segment(callee)
    function = call.children[0]
    if short in ("items", "values") and not given and function.kind in ("name", "attribute"):
        rest = place[1:] if short == "items" and place[:1] == [1] else place
        if short == "values" or place[:1] == [1]:
            for member in _of_receiver(scopes, call, scope, depth):
                yield from _part(member, rest)
    elif short == "enumerate" and given and place[:1] == [1]:
        yield from _at(scopes, place[1:], given[0], scope, depth + 1)
    elif short in ("zip", "product") and place and place[0] < len(given):
        yield from _at(scopes, place[1:], given[place[0]], scope, depth + 1)
    elif short in _SAME and given:
        yield from _at(scopes, place, given[0], scope, depth + 1)


def _of_receiver(scopes: Scopes, call: Node, scope: Scope, depth: int) -> Iterator[Node]:
    """The members of the object in front of .items()."""
    function = call.children[0]
    if function.kind == "attribute" and function.children:
        yield from _members(scopes, function.children[0], scope, depth + 1)
    else:
        key = squeeze(function.text).rpartition(".")[0]
        yield from _members_of(scopes, key, function, scope, depth + 1)


def _part(member: Node, place: list[int]) -> Iterator[Node]:
    for number in place:
        if member.kind not in ("tuple", "list") or number >= len(member.children):
            return
        member = member.children[number]
    yield member


def _members(
    scopes: Scopes, holder: Node, scope: Scope, depth: int, keys: bool = False
) -> Iterator[Node]:
    """The members of a list, or the values (the keys) of a dictionary, that an expression is."""
    if depth > _DEEPEST:
        return
    if holder.kind in ("list", "tuple", "set"):
        yield from holder.children
    elif holder.kind == "comp":
        yield from holder.children[:1]
    elif holder.kind == "dict":
        for pair in holder.children:
            if pair.kind == "pair" and len(pair.children) == 2:
                yield pair.children[0 if keys else 1]
    elif holder.kind == "call" and callee_text(holder) == "dict":
        for part in (k for c in holder.children if c.kind == "args" for k in c.children):
            if part.kind == "keyword" and len(part.children) > 1:
                yield part.children[-1]
    elif holder.kind == "binary":
        for child in holder.children:
            yield from _members(scopes, child, scope, depth + 1, keys)
    elif holder.kind == "name":
        yield from _members_of(scopes, squeeze(holder.text), holder, scope, depth + 1)


def _members_of(scopes: Scopes, key: str, at: Node, scope: Scope, depth: int) -> Iterator[Node]:
    """The members of what a variable holds, with those that are appended or stored in it."""
    if key in scope.parameters and not scopes.assignments(key, scope):
        for value in scopes.argument_values(scope, key)[:_MOST]:
            yield from _members(scopes, value, scopes.scope_of(value), depth + 1)
        return
    for _, value in scopes.assignments(key, scope):
        yield from _members(scopes, value, scopes.scope_of(value), depth + 1)
    yield from scopes.stored_in(key)
    for call in scopes.calls_by_name.get("append", []):
        given = positional(call)
        if given and callee_text(call) == f"{key}.append":
            yield given[0]


__all__ = ["is_listed", "values"]

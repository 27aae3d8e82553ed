"""How often a loop runs, and what a count says, as sums of terms that are held together.

`turns(loop)` and `told(count)` give a dictionary from each term to how often it is added; "" stands
for the number beside them: `range(warmup + n)` is {"warmup": 1, "n": 1, "": 0}.
"""

import re

from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    last_segment,
    loop_body,
    positional,
    squeeze,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures.quotients import integer, operator_between

Terms = dict[str, int]

_PASSES_ON = frozenset({"enumerate", "tqdm", "list", "iter", "track", "reversed"})
_WRAPS = frozenset({"int", "float", "double", "static_cast"})
_DEEPEST = 2


def turns(source: SourceFile, loop: Node, scope: Scope) -> Terms | None:
    """How often a `for` loop runs; None where its head does not say so."""
    if loop.kind != "for" or len(loop.children) < 2:
        return None
    if loop.tree.language == "python":
        return _members(source, loop.children[1], scope)
    return _counted(source, loop, scope)


def _members(source: SourceFile, over: Node, scope: Scope) -> Terms | None:
    """How many members a loop of Python goes through."""
    if over.kind in ("name", "attribute"):
        return {f"len({squeeze(over.text)})": 1, "": 0}
    if over.kind == "subscript" and len(over.children) > 1 and over.children[1].kind == "slice":
        cut = re.fullmatch(r"(\d*):(?:-(\d+))?", squeeze(over.children[1].text))
        inner = _members(source, over.children[0], scope) if cut else None
        missing = sum(int(part or 0) for part in cut.groups()) if cut else 0
        return _sum(inner, {"": missing}, -1) if inner is not None else None
    given = positional(over) if over.kind == "call" else []
    short = last_segment(callee_text(over)) if given else ""
    if short in _PASSES_ON:
        return _members(source, given[0], scope)
    if short in ("range", "trange") and len(given) < 3:
        last = told(source, given[-1], scope)
        return _sum(last, told(source, given[0], scope), -1) if len(given) == 2 else last
    parts = [_members(source, part, scope) for part in given] if short == "zip" else []
    known = [part for part in parts if part is not None]
    lists = {tuple(sorted(term for term in part if term)) for part in known}
    if not known or len(known) < len(given) or len(lists) > 1:
        return None
    return min(known, key=lambda part: part[""])


def _counted(source: SourceFile, loop: Node, scope: Scope) -> Terms | None:
    """How often a loop of C++ runs whose counter goes up by one."""
    body = loop_body(loop)
    head = [c for c in loop.children if c is not body]
    start = next((n for n in head[0].walk() if n.kind == "assign"), None)
    if start is None or len(head) < 3 or head[1].kind != "binary":
        return None
    counter, test = squeeze(start.children[0].text), head[1]
    steps = rf"({re.escape(counter)}\+\+|\+\+{re.escape(counter)}|{re.escape(counter)}\+=1)"
    order = operator_between(test)
    if not re.fullmatch(steps, squeeze(head[2].text)) or order not in ("<", "!=", "<="):
        return None
    if squeeze(test.children[0].text) != counter or start.children[-1].kind not in _FIRST:
        return None
    first, last = (told(source, n, scope) for n in (start.children[-1], test.children[1]))
    return _sum(_sum(last, first, -1), {"": int(order == "<=")}, 1)


_FIRST = ("number", "name", "binary", "cast")


def told(source: SourceFile, count: Node, scope: Scope, depth: int = 0) -> Terms:
    """What an expression adds up; what is not understood is one term."""
    value = integer(source, count, scope)
    if value is not None:
        return {"": value}
    if count.kind == "call" and last_segment(callee_text(count)) in _WRAPS and positional(count):
        return told(source, positional(count)[0], scope, depth)
    if count.kind == "cast" and count.children:
        return told(source, count.children[-1], scope, depth)
    sign = {"+": 1, "-": -1}.get(operator_between(count)) if count.kind == "binary" else None
    if sign is not None:
        one, two = (told(source, child, scope, depth) for child in count.children)
        return _sum(one, two, sign)
    if count.kind == "name" and depth < _DEEPEST:
        pairs = source.scopes.assignments(count.text, scope)
        if len(pairs) == 1 and pairs[0][1].kind in ("name", "binary", "call"):
            meant = told(source, pairs[0][1], scope, depth + 1)
            if all(re.fullmatch(r"(len\()?[\w.]+\)?", term) for term in meant if term):
                return meant
    return {squeeze(count.text): 1, "": 0}


def _sum(one: Terms, two: Terms, sign: int) -> Terms:
    terms = {t: one.get(t, 0) + sign * two.get(t, 0) for t in (*one, *two, "")}
    return {t: n for t, n in terms.items() if n or not t}


def difference(one: Terms, two: Terms) -> Terms:
    """What one sum of terms holds more than another."""
    return _sum(one, two, -1)


def is_about(one: Terms, two: Terms) -> bool:
    """Whether two sums have a term in common, other than their numbers."""
    return bool({t for t in one if t} & {t for t in two if t})


def text(terms: Terms) -> str:
    """A sum as people write it: warmup + n - 1."""
    parts = [f"{'- ' if n < 0 else '+ '}{t}" for t, n in terms.items() if t]
    parts += [f"{'-' if terms[''] < 0 else '+'} {abs(terms[''])}"] if terms.get("") else []
    return " ".join(parts).removeprefix("+ ") or "0"

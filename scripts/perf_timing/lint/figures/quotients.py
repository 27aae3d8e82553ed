"""Quotients with a measured time in them: times per call, and rates.

`quotients(source, region)` finds the products and quotients in which the value of a region stands,
taken apart into what is above the line and what is below it. `named(...)` expands a factor to every
name that it is computed from.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    last_segment,
    loop_body,
    operator,
    positional,
    squeeze,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.units.quantities import Number
from perf_timing.lint.units.quantity_names import macros_of

_WRAPS = frozenset({"float", "int", "double", "round", "max", "static_cast", "abs", "item"})


@dataclass(frozen=True)
class Quotient:
    """A chain of `*` and `/` with the time of a region in it.

    `rate` says that the time is below the line. `above` and `below` hold the factors, without the
    time itself.
    """

    node: Node
    region: Region
    rate: bool
    above: tuple[Node, ...]
    below: tuple[Node, ...]

    @property
    def counts(self) -> tuple[Node, ...]:
        """What the time is divided by, or what is divided by it."""
        return self.above if self.rate else self.below


@dataclass(frozen=True)
class CountedLoop:
    """A loop whose header says how often it runs: from `first` (None: 0) to `last`, exclusive."""

    node: Node
    first: Node | None
    last: Node


def quotients(source: SourceFile, region: Region, sums: bool = False) -> Iterator[Quotient]:
    """The quotients that the value of `region` stands in, in order of the source.

    With `sums`, also those of the variables that add up the values of many samples.
    """
    fate = fates.fate(source, region)
    names = fate.names | fate.sums if sums else set(fate.names)
    if region.kind == "event" and source.language == "cuda" and positional(region.delta):
        names.add(base_name(positional(region.delta)[0].text))
    scope = source.scopes.scope_of(region.delta)
    for node in scope.nodes:
        if not is_product(node) or is_product(node.parent):
            continue
        above, below = factors(node)
        known = {name for name in names if not _is_overwritten(source, name, region, node)}
        times_above = [n for n in above if _is_time(n, known, region)]
        times_below = [n for n in below if _is_time(n, known, region)]
        if len(times_above) + len(times_below) != 1:
            continue
        rest_above = tuple(n for n in above if n not in times_above)
        rest_below = tuple(n for n in below if n not in times_below)
        yield Quotient(node, region, bool(times_below), rest_above, rest_below)


def operator_between(node: Node) -> str:
    """The operator of a node with two children, or ""."""
    if len(node.children) != 2:
        return ""
    left, right = node.children
    return node.tree.text[left.end : right.start].strip(" \t\r\n\\()")


def is_product(node: Node | None) -> bool:
    """Whether a node is two factors with `*` or `/` between them."""
    return node is not None and node.kind == "binary" and operator_between(node) in ("*", "/", "//")


def whole_product(node: Node) -> Node:
    """The outermost chain of `*` and `/` that a node is a factor of; itself where there is none."""
    while node.parent is not None and is_product(node.parent):
        node = node.parent
    return node


def factors(node: Node) -> tuple[list[Node], list[Node]]:
    """What stands above and below the line in a chain of `*` and `/`; casts are looked through."""
    if is_product(node):
        above, below = factors(node.children[0])
        up, down = factors(node.children[1])
        if operator_between(node) == "*":
            return above + up, below + down
        return above + down, below + up
    if node.kind == "call" and last_segment(callee_text(node)) in _WRAPS and positional(node):
        given = positional(node)
        told = [value for value in given if value.kind != "number"]  # max(1, runs)
        return factors((told or given)[0])
    if node.kind == "cast" and node.children:
        return factors(node.children[-1])
    return [node], []


def _is_overwritten(source: SourceFile, name: str, region: Region, at: Node) -> bool:
    """Whether a name that holds the time of a region is given another before a place."""
    scope = source.scopes.scope_of(region.delta)
    after = range(region.delta.end, at.start)
    filled = (
        pair.call.start in after and base_name(positional(pair.call)[0].text) == name
        for pair in source.regions.pairs
        if source.language == "cuda" and pair.scope is scope and positional(pair.call)
    )
    return any(filled) or any(
        target.start in after
        and not exclusive(target, at)
        and not _is_added(target)
        and _is_unlike(value, name)
        for target, value in source.scopes.assignments(name, scope)
    )


def _is_added(target: Node) -> bool:
    """Whether a statement of C++ adds to a variable: total += ms."""
    return target.parent is not None and operator(target.parent) in ("+=", "-=")


def _is_unlike(value: Node, name: str) -> bool:
    """Whether a value is not made of what the variable held: ms = ms / 1000."""
    return all(leaf.text != name for leaf in value.walk() if leaf.kind == "name")


def _is_time(node: Node, names: Iterable[str], region: Region) -> bool:
    if node is region.delta:
        return True
    if node.kind == "name":
        return node.text in names and node.start > region.delta.start
    if node.kind == "binary" and operator_between(node) in ("+", "-"):
        return any(_is_time(child, names, region) for child in node.children)
    return False


def named(
    source: SourceFile,
    nodes: Iterable[Node],
    scope: Scope,
    depth: int = 4,
    arithmetic: bool = False,
) -> set[str]:
    """Every name and dotted name in `nodes`, and in what defines them within the file.

    With `arithmetic`, not those that calls are given: they are no factors.
    """
    found: set[str] = set()
    todo = [(node, depth) for node in nodes]
    while todo:
        node, left = todo.pop()
        for leaf in _computed_from(node) if arithmetic else node.walk():
            if leaf.kind not in ("name", "attribute", "subscript"):
                continue
            key = squeeze(leaf.text)
            if key in found:
                continue
            found.add(key)
            if leaf.kind == "name" and left:
                todo += [
                    (value, left - 1)
                    for around in scope.enclosing()
                    for _, value in source.scopes.assignments(key, around)
                ]
    return found


def _computed_from(node: Node) -> Iterator[Node]:
    """The nodes of an expression, of calls only what is called; conversions are looked through."""
    if node.kind == "call" and last_segment(callee_text(node)) not in _WRAPS | {"min"}:
        yield from node.children[0].walk()
        return
    yield node
    for child in node.children:
        yield from _computed_from(child)


def counted_loop(loop: Node) -> CountedLoop | None:
    """The bounds of `for i in range(a, b)`, also behind tqdm or enumerate, or `i = a; i < b`."""
    body = loop_body(loop)
    header = [c for c in loop.children if c is not body and c.kind != "else"]
    if loop.kind != "for":
        return None
    if loop.tree.language == "python":
        calls = [n for part in header[1:] for n in part.walk() if n.kind == "call"]
        ranges = [c for c in calls if last_segment(callee_text(c)) in ("range", "trange")]
        if len(ranges) != 1:
            return None
        bounds = positional(ranges[0])
        if len(bounds) == 1:
            return CountedLoop(loop, None, bounds[0])
        return CountedLoop(loop, bounds[0], bounds[1]) if len(bounds) == 2 else None
    return _cpp_loop(loop, header)


def _cpp_loop(loop: Node, header: list[Node]) -> CountedLoop | None:
    if len(header) < 2:
        return None
    start = next((n for n in header[0].walk() if n.kind == "assign"), None)
    test = header[1]
    if start is None or test.kind != "binary" or operator_between(test) not in ("<", "!="):
        return None
    if squeeze(test.children[0].text) != squeeze(start.children[0].text):
        return None
    first = start.children[-1]
    return CountedLoop(loop, None if first.text == "0" else first, test.children[1])


def integer(source: SourceFile, node: Node, scope: Scope, depth: int = 3) -> int | None:
    """The value of an integer literal, or of a name that is bound to one and to nothing else."""
    text = squeeze(node.text).replace("_", "")
    if node.kind == "number":
        try:
            value = float(text.rstrip("uUlLfF"))
        except ValueError:
            return None
        return int(value) if value == int(value) else None
    if node.kind == "name" and depth:
        for around in scope.enclosing():
            if node.text in around.parameters:
                return None
            pairs = source.scopes.assignments(node.text, around)
            if pairs:
                only = len(pairs) == 1 and pairs[0][1].parent is not None
                return integer(source, pairs[0][1], scope, depth - 1) if only else None
        macro = macros_of(source.scopes).get(node.text)
        if isinstance(macro, Number) and macro.value == int(macro.value):
            return int(macro.value)
    return None

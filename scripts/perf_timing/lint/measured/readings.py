"""Readings of a clock whose difference is not taken where they are named one by one.

A Python function may hand both on, for its caller to subtract: `return token, start, end` or
`spans.append((start, end))`. And a branch may read the clock once more before the difference is
taken: in the other case, the reading before it is the one that counts.
"""

from collections.abc import Iterator
from itertools import pairwise

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, target_key
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.clocks import Clocks

Difference = tuple[Node, Node, Node, Scope]


def handed_on(clocks: Clocks) -> Iterator[Difference]:
    """(value of the end, start reading, end reading, scope) of readings that are given away.

    They are all read in the function that gives them away, each under its name.
    """
    for scope in clocks.scopes.all if clocks.scopes.language == "python" else ():
        for node in scope.nodes:
            if node.kind in ("tuple", "dict") and _is_given_away(node):
                for (start, _), (end, value) in pairwise(_read_here(clocks, node, scope)):
                    yield value, start, end, scope


def _is_given_away(pair: Node) -> bool:
    """Whether a tuple or a dict is what a function returns, or a member that a list gains."""
    parent = pair.parent
    if parent is not None and parent.kind == "args":
        call = parent.parent
        return (
            call is not None and call.kind == "call" and last_segment(callee_text(call)) == "append"
        )
    return parent is not None and parent.kind == "return"


def _read_here(clocks: Clocks, pair: Node, scope: Scope) -> list[tuple[Node, Node]]:
    """(reading, where the pair names it), in the order of the readings; each once."""
    found: dict[int, tuple[Node, Node]] = {}
    for child in pair.children:
        value = child.children[-1] if child.kind == "pair" and child.children else child
        reading = clocks.clock_of(value, scope) if value.kind == "name" else None
        if (
            reading is not None
            and r.CLOCK in clocks.roles.of(reading, scope)
            and clocks.scopes.scope_of(reading) is scope
        ):
            found[id(reading)] = (reading, value)
    return sorted(found.values(), key=lambda one: one[0].start)


def before_branch(clocks: Clocks, difference: Difference) -> Iterator[Difference]:
    """The same difference with the reading that counts where a branch did not take a later one.

    t1 = clock(); if last: step(); t1 = clock(); print(t1 - t0)
    """
    delta, start, end, scope = difference
    name = delta.children[0] if delta.kind == "binary" else delta
    branch = next((p for p in end.ancestors() if p.kind in ("if", "elif", "else")), None)
    if name.kind != "name" or branch is None or branch.start <= delta.start < branch.end:
        return
    given = [
        (target, reading)
        for target, value in clocks.scopes.assignments(target_key(name), scope)
        if target.end <= branch.start
        and not exclusive(target, end)
        and (reading := clocks.clock_of(value, scope)) is not None
    ]
    if given and start.start < given[-1][1].start and len(branch.children) == 2:
        yield delta, start, given[-1][1], scope

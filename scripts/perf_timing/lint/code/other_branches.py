"""What the other branches of an `if` or `switch` read or record for the same difference."""

from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.facts import Node


def choice_around(node: Node, outside: Node) -> Node | None:
    """The outermost `if` or `switch` around a node that does not hold another, later one."""
    found = None
    for parent in node.ancestors():
        if holds(parent, outside):
            break
        if parent.kind in ("if", "switch"):
            found = parent
    return found


def holds(around: Node, node: Node) -> bool:
    """Whether a node lies within another."""
    return around.start <= node.start and node.end <= around.end


def begun_for(last: Node, starts: list[Node]) -> Node | None:
    """Which of some readings or records, in order, is the one before another in its branch."""
    before = (c for c in reversed(starts) if c.end <= last.start and not exclusive(c, last))
    return next(before, None)

"""What the rules ask about a file. (Grows; see LINT status.)"""

from dataclasses import dataclass

from perf_timing.lint.facts import Node, Tree
from perf_timing.lint.model import Unit


@dataclass(frozen=True)
class Report:
    """What a rule's `check` yields: the node to point at and what is wrong there.

    `note` replaces the rule's NOTE where given. `related` are (node, text) pairs of other places.
    """

    node: Node
    message: str
    note: str = ""
    related: tuple[tuple[Node, str], ...] = ()


class SourceFile:
    """One file as the rules see it."""

    def __init__(self, unit: Unit, tree: Tree) -> None:
        self.unit = unit
        self.tree = tree

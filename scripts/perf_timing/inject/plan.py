"""Insertions into a script, and how a line or a wrapped expression becomes one."""

import ast
from dataclasses import dataclass, field

from perf_timing.inject.facts import Fact
from perf_timing.inject.loops import Candidate, Finder
from perf_timing.inject.syntax import Loop

NAME = "_perf_timing"
MARK = "  # perf-timing"
# What goes first where several insertions meet at one offset.
CLOSING, AFTER, BLOCK, BEFORE, OPENING = range(5)


@dataclass(frozen=True)
class Options:
    """What the user asked to mark; `communication` is for scripts that run on several ranks."""

    phases: bool = False
    communication: bool = False
    items: str = ""


@dataclass(frozen=True, order=True)
class Insertion:
    """Text to insert at `offset`. `rank` is one of the constants above, `depth` orders equals."""

    offset: int
    rank: int
    depth: int
    number: int
    text: str = field(compare=False)


@dataclass
class Plan:
    """Insertions; `notes` says in words what is marked, `warnings` what could not be.

    `first_segment` names the phase that a step begins with, where it is not the usual one.
    """

    insertions: list[Insertion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    first_segment: str = ""


class Planner:
    """Collects the plan for one loop."""

    def __init__(self, finder: Finder, candidate: Candidate, options: Options) -> None:
        self.finder, self.candidate, self.options = finder, candidate, options
        self.source, self.syntax, self.facts = finder.source, finder.syntax, finder.facts
        self.loop: Loop = candidate.loop
        self.plan = Plan()
        self._wrapped: list[tuple[int, int]] = []
        self._aside: list[tuple[int, int]] = []

    def before(self, statement: ast.stmt, call: str) -> None:
        """A marked line before a statement that stands alone on its lines."""
        at = self.source.line_start(self.source.line_of(self.source.start(statement)))
        self._insert_line(at, BEFORE, self.syntax.indentation(statement), call)

    def after(self, statement: ast.stmt, call: str, indentation: str | None = None) -> None:
        """A marked line behind a statement that stands alone on its lines."""
        at = self.source.line_start((statement.end_lineno or 0) + 1)
        indentation = self.syntax.indentation(statement) if indentation is None else indentation
        self._insert_line(at, AFTER, indentation, call)

    def _insert_line(self, at: int, rank: int, indentation: str, call: str) -> None:
        line = f"{indentation}{NAME}.{call}{MARK}"
        text, newline = self.source.text, self.source.newline
        if at == len(text) and not text.endswith(("\n", "\r")):
            line = newline + line
        else:
            line += newline
        # Behind a block that ends here, what belongs to its inside comes first.
        self._insert(at, rank, -len(indentation) if rank == AFTER else 0, line)

    def wrap(self, node: ast.expr, prefix: str) -> None:
        """`_perf_timing.PREFIX` before an expression and a bracket behind it."""
        start, end = self.source.start(node), self.source.end(node)
        self._wrapped.append((start, end))
        self._insert(start, OPENING, -end, f"{NAME}.{prefix}")
        self._insert(end, CLOSING, -start, ")")

    def set_aside(self, block: list[ast.stmt]) -> None:
        """What a block does is no part of a step: nothing is marked in it."""
        self._aside.append((self.source.start(block[0]), self.source.end(block[-1])))

    def is_aside(self, start: int) -> bool:
        """Whether the code at an offset is no part of a step."""
        return any(first <= start < end for first, end in self._aside)

    def is_wrapped(self, start: int, end: int) -> bool:
        """Whether the extent overlaps one that is wrapped already."""
        return any(first < end and start < last for first, last in self._wrapped)

    def _insert(self, at: int, rank: int, depth: int, text: str) -> None:
        number = len(self.plan.insertions)
        self.plan.insertions.append(Insertion(at, rank, depth, number, text))

    def note(self, text: str) -> None:
        self.plan.notes.append(text)

    def warn(self, text: str) -> None:
        self.plan.warnings.append(text)

    def facts_of_step(self, *kinds: str) -> list[Fact]:
        """Facts in the loop's body and in the functions that it calls, without evaluation."""
        found = [
            fact
            for region in self.candidate.regions
            for fact in self.facts.within(*region, *kinds)
            if not self.finder.is_evaluation(fact, region, self.loop)
            and not self.is_aside(fact.start)
        ]
        return sorted(dict.fromkeys(found), key=lambda fact: fact.start)

    def is_evaluation(self, start: int, end: int, region: tuple[int, int]) -> bool:
        """Whether the code between two offsets of a region is that of an evaluation."""
        if self.is_aside(start):
            return True
        return self.finder.is_evaluation(Fact("code", start, end, ""), region, self.loop)

    def is_untrained(self, start: int, end: int, region: tuple[int, int]) -> bool:
        """Whether the code between two offsets of a region surely has no gradients.

        It may have some in loops over heads or parameters, other than in those over data to
        evaluate.
        """
        return any(
            b.start <= start and end <= b.end for b in self.facts.within(*region, "no-grad")
        ) or self.is_outside(start, end, region)

    def is_outside(self, start: int, end: int, _region: tuple[int, int]) -> bool:
        """Whether the code between two offsets is aside, or in a loop over data to evaluate."""
        loops = self.syntax.loops_around(self.finder.node(Fact("code", start, end, "")))
        inner = loops[: loops.index(self.loop)] if self.loop in loops else loops
        return self.is_aside(start) or any(self.finder.evaluates(loop) for loop in inner)

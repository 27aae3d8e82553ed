"""One measured region, and what rules have found out about it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ParamSpec, TypeVar, cast

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import Scope, loops_around
from perf_timing.lint.facts import Node

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def remembered(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """`function`, whose last argument is a region, worked out once for each region.

    Nearly every rule asks the same about a region; without this, a file of many regions would take
    time by the square of its length. The answer is shared: nobody may change it.
    """

    @functools.wraps(function)
    def recall(*arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        memory = cast(Region, arguments[-1]).memory
        if function not in memory:
            memory[function] = function(*arguments, **options)
        found: Answer = memory[function]
        return found

    return recall


@dataclass
class Region:
    """One measured region.

    `kind` is "clock", "event", "timeit" (the standard library's or IPython's) or "benchmark"
    (Google Benchmark). `scope` holds the measured code; `spans` are its stretches in order;
    `start` and `end` are the two readings (records), `report` is where to point for a wrong end.
    `delta` is the expression whose value is the time. `hooked`: the code between is run by a
    framework that calls the two functions.
    """

    kind: str
    scope: Scope
    start: Node
    end: Node
    report: Node
    delta: Node
    spans: tuple[tuple[int, int], ...]
    steps: list[Step] = field(default_factory=list)
    carried: bool = False
    hooked: bool = False
    periodic: bool = False  # a rate display: the start moves on when enough time has passed
    timer: Scope | None = None  # the function that reads the clock at the end, for a timer
    watch: bool = False  # between two calls that start and stop a stopwatch
    shown: bool = False  # a stopwatch for which there is also the region of its readings
    # What functions marked with `remembered` have found out about the region.
    memory: dict[Any, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    @cached_property
    def sample_loops(self) -> list[Node]:
        """The loops around the whole region: each iteration takes a sample."""
        around = {id(loop) for loop in loops_around(self.end)}
        return [loop for loop in loops_around(self.start) if id(loop) in around]

    @cached_property
    def cumulative(self) -> bool:
        """Read again and again against one start, as in a progress display: not a measurement."""
        if self.periodic:
            return True
        if self.kind != "clock" or self.carried or self.timer is not None or self.hooked:
            return False
        around = {id(loop) for loop in loops_around(self.start)}
        return any(
            id(loop) not in around and loop.kind != "comp" for loop in loops_around(self.delta)
        )

    @cached_property
    def wraps_measurement(self) -> bool:
        """Whether a helper that runs inside takes times itself: the run time of a program."""
        taken = {r.CLOCK, r.RECORD, r.ELAPSED}
        readings = {id(self.start), id(self.end)}
        return any(s.helpers and s.roles & taken and id(s.site) not in readings for s in self.steps)

    @property
    def is_plain(self) -> bool:
        """Two readings, or records, around code in view: the kind of region that loops repeat."""
        return self.kind in ("clock", "event") and not (
            self.carried or self.hooked or self.cumulative or self.wraps_measurement
        )

    @property
    def begins(self) -> int:
        """Where the measured code begins in `scope`: a timer takes its reading somewhere else."""
        return self.spans[0][0] if self.timer is not None else self.start.start

    def inner_loops(self, node: Node) -> list[Node]:
        """The loops around `node` that lie inside the region: they run once per window.

        So does one in whose first measured iteration the clock starts, and which ends before it
        stops: if i == warmup: start = time.time().
        """
        return [
            loop
            for loop in loops_around(node)
            if any(low <= loop.start and loop.end <= high for low, high in self.spans)
            or self._starts_in(loop)
        ]

    def _starts_in(self, loop: Node) -> bool:
        return (
            not self.carried
            and loop.kind != "comp"
            and loop.start < self.start.start < loop.end <= self.end.start
        )

    def holds(self, node: Node) -> bool:
        return any(low <= node.start and node.end <= high for low, high in self.spans)

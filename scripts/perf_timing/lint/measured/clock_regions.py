"""The regions between two readings of a clock in one function.

Each is found from a difference of clock values. A value that is assigned again later in the loop
is read in the next iteration (`end = time.time()` at the end of the body): the region then goes
around the loop. Readings in two functions make a timer: timer_regions.py.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.other_branches import begun_for, choice_around, holds
from perf_timing.lint.code.scopes import (
    Scope,
    common_loop,
    leaf_names,
    loop_body,
    loops_around,
    squeeze,
    target_key,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.measured import readings
from perf_timing.lint.measured.clock_differences import ClockDifferences
from perf_timing.lint.measured.region import Region
from perf_timing.lint.measured.timer_regions import Timer, TimerRegions


class ClockRegions:
    """The regions between readings of a clock; those of timers are left to `timers`."""

    def __init__(self, differences: ClockDifferences, timers: TimerRegions) -> None:
        self.differences = differences
        self.timers = timers
        self.clocks = differences.clocks
        self.scopes = differences.scopes

    def regions(self) -> Iterator[Region]:
        """The regions of all differences, and of the readings that a function hands on."""
        for delta, start, end, _ in self.differences.deltas:
            if end is start and not loops_around(end):
                continue
            where_start, where_end = self.scopes.scope_of(start), self.scopes.scope_of(end)
            if where_start is where_end:
                yield from self._same_scope(delta, start, end, where_end)
                yield from self._read_in_other_branches(delta, end, where_end)
            else:
                timer = Timer(delta, start, end, where_start, where_end)
                yield from self.timers.of_functions(timer)
        for value, start, end, scope in readings.handed_on(self.clocks):
            yield Region("clock", scope, start, end, end, value, ((start.end, end.end),))

    def _same_scope(self, delta: Node, start: Node, end: Node, scope: Scope) -> Iterator[Region]:
        target, later = self._later_start(delta, end, scope)
        loop = common_loop(end, later) if later is not None else None
        body = loop_body(loop) if loop is not None else None
        if (
            later is not None
            and body is not None
            and (start is end or not any(x is loop for x in loops_around(start)))
        ):
            spans = ((later.end, body.end), (body.start, end.end))
            region = Region("clock", scope, later, end, end, delta, spans, carried=True)
            region.periodic = target is not None and _is_periodic(delta, target)
            yield region
        elif (kept := self._kept_in(delta, scope)) is not None:
            spans = ((end.end, kept.end), (kept.start, end.end))
            yield Region("clock", scope, end, end, end, delta, spans, carried=True)
        elif start.start < end.start:
            function_yield = next(
                (n for n in scope.nodes if n.kind == "yield" and start.end < n.start < end.start),
                None,
            )
            region = Region("clock", scope, start, end, end, delta, ((start.end, end.end),))
            if function_yield is not None:
                yield from self.timers.of_generator(region, function_yield)
            else:
                yield region

    def _read_in_other_branches(self, delta: Node, end: Node, scope: Scope) -> Iterator[Region]:
        """The spans that other branches of C++ code read into the same two variables.

        if (tiled) { t0 = now(); a(); t1 = now(); } else { t0 = now(); b(); t1 = now(); }
        """
        if self.scopes.language != "cuda" or {child.kind for child in delta.children} != {"name"}:
            return
        choice = choice_around(end, delta)
        if choice is None:
            return
        given = [self.scopes.assignments(target_key(name), scope) for name in delta.children]
        read = [c for _, value in given[1] if (c := self.clocks.clock_of(value, scope)) is not None]
        for _, value in given[0]:
            last = self.clocks.clock_of(value, scope) if holds(choice, value) else None
            if last is None or last is end or not exclusive(last, end):
                continue
            begun = begun_for(last, read)
            if begun is not None and self.scopes.scope_of(last) is self.scopes.scope_of(begun):
                yield Region("clock", scope, begun, last, last, delta, ((begun.end, last.end),))

    def _later_start(self, delta: Node, end: Node, scope: Scope) -> tuple[Node | None, Node | None]:
        """Where the start value is replaced after the difference was taken, in its loop.

        That is (the target of the assignment, the reading that it takes).
        """
        key = target_key(delta.children[1])
        for target, value in self.scopes.assignments(key, scope):
            if target.start > delta.start and common_loop(target, delta) is not None:
                return target, self.clocks.clock_of(value, scope)
        return None, None

    def _kept_in(self, delta: Node, scope: Scope) -> Node | None:
        """The body of the loop in which the last reading is kept: `last, now = now, clock()`."""
        if {child.kind for child in delta.children} != {"name"}:
            return None
        end, start = (target_key(child) for child in delta.children)
        for target, value in self.scopes.assignments(start, scope):
            loop = common_loop(target, delta)
            if target.start < delta.start and loop is not None and squeeze(value.text) == end:
                return loop_body(loop)
        return None


def _is_periodic(delta: Node, reset: Node) -> bool:
    """Whether the start is read anew only where the difference exceeds some limit."""
    names = {target_key(p.children[0]) for p in delta.ancestors() if p.kind == "assign"}
    for parent in reset.ancestors():
        if parent.kind in ("if", "elif") and parent.children:
            condition = parent.children[0]
            mentioned = leaf_names(condition)
            if mentioned & names and re.search(r"[<>]", condition.text):
                return True
        if parent.kind in ("function", "lambda"):
            break
    return False

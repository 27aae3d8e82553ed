"""Measured regions: what lies between the two readings of a clock, or between two events.

What rules ask of them is here; each question is answered in a module of its own:

    clocks             which call read the clock whose value an expression has
    clock_differences  where two readings are subtracted
    clock_regions      the code between two readings in one function
    timer_regions      the uses of timers, whose readings lie in two functions; stopwatches
    events             names of events, their records, the pairs whose time is read
    event_regions      the code between the records of a pair
    library_regions    what timeit, IPython, Google Benchmark and other harnesses are given to time
    implied_work       device work in a region that only other files show, or nothing shows
    region             one region, and `remembered` for what is found out about it
"""

from collections.abc import Callable
from functools import cached_property

from perf_timing.lint.code.flow import Flow, Step
from perf_timing.lint.code.scopes import Scope, Scopes
from perf_timing.lint.facts import Node
from perf_timing.lint.measured import library_regions, timer_regions
from perf_timing.lint.measured.clock_differences import ClockDifferences
from perf_timing.lint.measured.clock_regions import ClockRegions
from perf_timing.lint.measured.clocks import Clocks
from perf_timing.lint.measured.event_regions import EventRegions
from perf_timing.lint.measured.events import Events, Pair
from perf_timing.lint.measured.region import Region, remembered
from perf_timing.lint.work.implied_work import ImpliedWork

# Each region of a function is held against the whole of it; beyond this product a file takes
# longer than ten seconds.
_MOST_VISITS = 8_000_000


class TooManyRegionsError(Exception):
    """A function holds more measured regions than can be judged in bounded time."""


class Regions:
    """All measured regions of a file."""

    def __init__(
        self, scopes: Scopes, flow: Flow, launches: Callable[[Node], str] = lambda _: ""
    ) -> None:
        """`launches` tells how a function of another file leaves the device (elsewhere_cpp.py)."""
        self.scopes = scopes
        self.flow = flow
        self.roles = flow.roles
        self._clocks = Clocks(scopes, flow.roles)
        self._differences = ClockDifferences(self._clocks)
        self._timers = timer_regions.TimerRegions(flow)
        self._events = Events(scopes, flow.roles)
        self._implied_work = ImpliedWork(flow, launches)

    @cached_property
    def all(self) -> list[Region]:
        """Every region, in the order of their ends; each pair of readings once.

        Raises TooManyRegionsError.
        """
        found: dict[tuple[int, int, int, int], Region] = {}
        for region in self._found():
            region.steps = self._steps(region)
            found.setdefault(
                (
                    region.start.start,
                    region.end.start,
                    region.scope.node.start,
                    region.spans[0][0] if region.timer else 0,
                ),
                region,
            )
        if sum(len(region.scope.nodes) for region in found.values()) > _MOST_VISITS:
            raise TooManyRegionsError
        timer_regions.mark_shown(found.values())
        return sorted(found.values(), key=lambda g: (g.end.start, g.start.start))

    def _found(self) -> tuple[Region, ...]:
        """The regions of every kind, still without steps; some of them twice."""
        return (
            *ClockRegions(self._differences, self._timers).regions(),
            *timer_regions.stopwatches(self.scopes),
            *library_regions.regions(self.scopes),
            *EventRegions(self._events).regions(),
        )

    def _steps(self, region: Region) -> list[Step]:
        """What happens in a region, without what ran when a function was first asked that caches.

        @lru_cache def buffer(): ...: its body runs once, and every call gives what it gave then.
        """
        steps = region.steps
        for low, high in region.spans:
            steps = steps + self.flow.between(region.scope, low, high)
        steps = [s for s in steps if not any(helper.remembers for helper in s.helpers)]
        return self._implied_work.completed(region, steps)

    @cached_property
    def harnessed(self) -> list[Region]:
        """Functions of the file that it hands to a benchmark helper, which times each call."""
        found = list(library_regions.harnessed(self.scopes, self.roles))
        for region in found:
            region.steps = self._steps(region)
        return found

    def is_used_apart(self, region: Region) -> bool:
        """Whether a region is that of a timer of which each use is a region by itself."""
        return region.timer is not None and any(other.watch for other in self.all)

    def tail(self, region: Region) -> list[Step]:
        """What a timer does between the end of the measured code and its closing reading."""
        return self._timers.tail(region)

    # Clocks

    def clock_of(self, node: Node, scope: Scope) -> Node | None:
        """The call that read the clock whose value `node` has, or None."""
        return self._clocks.clock_of(node, scope)

    @property
    def deltas(self) -> list[tuple[Node, Node, Node, Scope]]:
        """(difference, start reading, end reading, scope) of each difference of clock values."""
        return self._differences.deltas

    @property
    def deltas_from(self) -> dict[int, list[tuple[Node, Node]]]:
        """(difference, end reading) of each difference, by the id of its start reading."""
        return self._differences.deltas_from

    def differences(self, call: Node) -> list[Node]:
        """Where the difference is used that a call has written: took.tv_sec, up to the next one."""
        return self._differences.differences(call)

    # Events

    def event_names(self, node: Node, scope: Scope) -> frozenset[str]:
        """Names under which the file may know the event that `node` is."""
        return self._events.event_names(node, scope)

    @property
    def records(self) -> list[tuple[Node, Scope, frozenset[str]]]:
        """(call, scope, names of the event) of each call that records an event."""
        return self._events.records

    def recorded_event(self, call: Node) -> Node | None:
        """The node that names the event of a recording call."""
        return self._events.recorded_event(call)

    @property
    def pairs(self) -> list[Pair]:
        """Each elapsed-time call with its events and their records."""
        return self._events.pairs

    def elapsed_events(self, call: Node) -> tuple[Node, Node] | None:
        """The nodes of the start and the end event of an elapsed-time call."""
        return self._events.elapsed_events(call)


__all__ = ["Pair", "Region", "Regions", "TooManyRegionsError", "remembered"]

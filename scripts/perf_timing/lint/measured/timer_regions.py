"""The regions that a timer measures: where the file uses one whose readings lie in two functions.

`with Timer():`, `timer.start() ... timer.stop()`, an object of C++ that reads the clock again when
its block ends, a generator with `yield` between its readings, the hooks that a framework calls
around a step; and the calls that start and stop a stopwatch which the file need not show.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perf_timing.lint import roles as r
from perf_timing.lint.code import scoped_objects
from perf_timing.lint.code.flow import Flow, Step
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    base_name,
    callee_text,
    last_segment,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.clocks import is_member
from perf_timing.lint.measured.region import Region
from perf_timing.lint.measured.stopwatches import watches


@dataclass(frozen=True)
class Timer:
    """A difference of two readings of which `first` takes the one and `last` the other."""

    delta: Node
    start: Node
    end: Node
    first: Scope
    last: Scope


class TimerRegions:
    """The uses of a file's timers."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.scopes = flow.scopes
        self._tails: dict[tuple[int, int], list[Step]] = {}

    def tail(self, region: Region) -> list[Step]:
        """What a timer does between the end of the measured code and its closing reading."""
        return self._tails.get((region.spans[0][0], region.end.start), [])

    def of_generator(self, region: Region, point: Node) -> Iterator[Region]:
        """A function with `yield` between its readings: the region is each block that uses it."""
        tail = [
            s for s in self.flow.steps(region.scope) if point.end < s.position <= region.end.end
        ]
        for body, scope in self._with_blocks(region.scope.short_name):
            yield Region("clock", scope, region.start, region.end, region.end, region.delta,
                         ((body.start, body.end),), timer=region.scope)  # fmt: skip
            self._tails[(body.start, region.end.start)] = tail

    def of_functions(self, timer: Timer) -> Iterator[Region]:
        """Readings in two functions: regions where the file uses them, one after the other."""
        first, last = timer.first, timer.last
        if scoped_objects.is_destructor(last) and is_member(timer.start, first, last):
            for node, block, scope in scoped_objects.of_class(self.scopes, last.class_name):
                yield self._used(timer, scope, (node.end, block.end))
            return
        if first.class_name and first.class_name == last.class_name:
            if last.name == "__exit__":
                for body, scope in self._with_blocks(first.class_name):
                    yield self._used(timer, scope, (body.start, body.end))
                return
            yield from self._start_stop(timer)
        elif first.name and last.name and not first.class_name and not last.class_name:
            yield from self._start_stop(timer)
        if self._hooks(first, last):
            span = (last.node.start, timer.end.end)
            yield Region("clock", last, timer.start, timer.end, timer.end, timer.delta, (span,),
                         hooked=True, timer=last)  # fmt: skip

    def _used(self, timer: Timer, scope: Scope, span: tuple[int, int]) -> Region:
        end = timer.end
        self._tails[(span[0], end.start)] = [
            s
            for s in self.flow.steps(timer.last)
            if s.position <= end.end and r.CLOCK not in s.roles
        ]
        return Region("clock", scope, timer.start, end, end, timer.delta, (span,), timer=timer.last)

    def _start_stop(self, timer: Timer) -> Iterator[Region]:
        """Between a call of the function that reads the start and one of the other."""
        stops = self._method_sites(timer.last)
        for call in self._method_sites(timer.first):
            receiver = callee_text(call).rpartition(".")[0]
            scope = self.scopes.scope_of(call)
            later = [c for c in stops if c.start > call.end and self.scopes.scope_of(c) is scope
                     and callee_text(c).rpartition(".")[0] == receiver]  # fmt: skip
            if later:
                yield self._used(timer, scope, (call.end, later[0].start))

    def _with_blocks(self, name: str) -> Iterator[tuple[Node, Scope]]:
        """Blocks of `with` that enter what a function or a class returns, or an object of it."""
        for scope in self.scopes.all:
            for node in scope.nodes:
                body = node.child("block") if node.kind == "with" else None
                if body is None:
                    continue
                for item in node.children:
                    entered = item.children[0] if item.kind == "item" and item.children else None
                    if entered is not None and self._enters(entered, name, scope):
                        yield body, scope

    def _enters(self, entered: Node, name: str, scope: Scope) -> bool:
        if entered.kind == "call":
            return last_segment(callee_text(entered)) == name
        if name not in self.scopes.class_names:
            return False
        if entered.kind == "subscript":  # clocks = (Timer(), Timer()); with clocks[0]:
            made = self.scopes.definition(entered, base_name(entered.text), scope)
            members = made.children if made is not None and made.kind in ("tuple", "list") else []
            return bool(members) and all(
                m.kind == "call" and last_segment(callee_text(m)) == name for m in members
            )
        key = squeeze(entered.text)
        return entered.kind == "name" and self.scopes.class_of(key, scope, entered) == name

    def _method_sites(self, method: Scope) -> list[Node]:
        """Calls `x.method()` outside the class that can only mean this class's method.

        Of a function that is no method (`tic()`): all its calls.
        """
        if not method.class_name:
            return self.scopes.call_sites(method)
        found = []
        owners = [m for m in self.scopes.functions.get(method.short_name, []) if m.class_name]
        for call in self.scopes.calls_by_name.get(method.short_name, []):
            callee = callee_text(call)
            if "." not in callee or (callee.startswith("self.") and "." not in callee[5:]):
                continue
            scope = self.scopes.scope_of(call)
            target = self.scopes.called_function(call, scope)
            if target is method or (
                target is None
                and len(owners) == 1
                and method.short_name not in ("start", "stop", "get")
            ):
                found.append(call)
        return found

    def _hooks(self, first: Scope, last: Scope) -> bool:
        """Whether a framework calls the two functions around a step of its work."""
        names = (first.name or "", last.name or "")
        begin = re.match(r"on_(\w*?)_?(start|begin)$", names[0])
        finish = re.match(r"on_(\w*?)_?end$", names[1])
        if begin and finish and begin[1] == finish[1]:
            # A whole validation is a phase of a training.
            stepwise = bool(re.search(r"batch|step|predict|test", begin[1]))
            return stepwise and not self._called_in_turn(*names)
        text = self.scopes.tree.text
        outer = [
            scope.parent.name if scope.parent and scope.parent.name else scope.name
            for scope in (first, last)
        ]
        return all(outer) and bool(
            re.search(rf"register_forward_pre_hook\(.*\b{outer[0]}\b", text)
            and re.search(rf"register_forward_hook\(.*\b{outer[1]}\b", text)
        )

    def _called_in_turn(self, first: str, last: str) -> bool:
        """Whether the file itself calls two hooks right one after the other, around no step."""
        for scope in self.scopes.all:
            calls = [n for n in scope.nodes if n.kind in ("call", "launch")]
            begun = False
            for call in sorted(calls, key=lambda n: n.start):
                name = last_segment(callee_text(call))
                if begun and name == last:
                    return True
                begun = name == first and name != scope.name
        return False


def stopwatches(scopes: Scopes) -> Iterator[Region]:
    """Between the calls that start and stop a stopwatch, in the function that makes them."""
    for use in watches(scopes):
        kind = "event" if use.on_device else "clock"
        span = ((use.start.end, use.stop.end),)
        yield Region(kind, use.scope, use.start, use.stop, use.stop, use.value, span, watch=True)


def mark_shown(regions: Iterable[Region]) -> None:
    """Note the stopwatches whose clock readings the file shows: a region of their own."""
    shown = {(id(g.scope), g.spans[0][0]) for g in regions if g.timer is not None}
    for region in regions:
        region.shown = region.watch and (id(region.scope), region.spans[0][0]) in shown

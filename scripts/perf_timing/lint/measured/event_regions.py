"""The regions between the records of two events whose elapsed time a file reads.

One event a step, read in pairs, gives a region that goes around the loop. Where functions of the
file record the events that they are given, the region lies between the calls of these.
"""

import re
from collections.abc import Iterator
from functools import cached_property

from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.other_branches import begun_for, choice_around, holds
from perf_timing.lint.code.scopes import (
    Scope,
    argument,
    bare_operator,
    base_name,
    callee_text,
    loop_body,
    loops_around,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.events import Events, Pair
from perf_timing.lint.measured.region import Region


class EventRegions:
    """The regions between the records of a file's events."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.scopes = events.scopes

    def regions(self) -> Iterator[Region]:
        """The regions of all pairs of which the file shows the records."""
        for pair in self.events.pairs:
            start, end = pair.start, pair.end
            if start is None and end is not None and pair.call.kind == "call":
                yield from self._between_helpers(pair)
            if start is None or end is None:
                continue
            if start is end:
                yield from self._around(pair, start)
                continue
            one, two = self.scopes.scope_of(start), self.scopes.scope_of(end)
            if one is two and start.start < end.start:
                begin = self._taken_off(pair) or start
                yield Region(
                    "event", one, begin, end, pair.call, pair.call, ((begin.end, end.start),)
                )
                yield from self._in_other_branches(pair, end)

    def _in_other_branches(self, pair: Pair, end: Node) -> Iterator[Region]:
        """The spans that other branches of an `if` or `switch` record with the same events.

        switch (kind) { case 0: record(start); a(); record(stop); break; case 1: ... }
        """
        scope = self.scopes.scope_of(end)
        choice = choice_around(end, pair.call)
        if choice is None:
            return
        own = [(call, names) for call, where, names in self.events.records if where is scope]
        starts = [call for call, names in own if names & pair.start_names]
        for last, names in own:
            if last is end or not names & pair.end_names or not holds(choice, last):
                continue
            begun = begun_for(last, starts) if exclusive(last, end) else None
            if begun is not None:
                span = ((begun.end, last.start),)
                yield Region("event", scope, begun, last, pair.call, pair.call, span)

    def _taken_off(self, pair: Pair) -> Node | None:
        """The end of an earlier span from the same start whose time is taken off: now - before.

        The figure begins there.
        """
        earlier = [
            p
            for p in self.events.pairs
            if p.start is pair.start and p.end is not None and p.call.end <= pair.call.start
        ]
        name, scope = self._elapsed_name(pair.call), pair.scope
        if not earlier or not name:
            return None
        before = earlier[-1]
        kept = {
            target_key(target)
            for target, value in self._assignments(scope)
            if before.call.end <= value.start < pair.call.start
            and squeeze(value.text) == self._elapsed_name(before.call)
        }
        differences = (
            n
            for n in scope.nodes
            if n.kind == "binary" and n.start > pair.call.end and bare_operator(n) == "-"
        )
        taken = any(
            squeeze(n.children[0].text) == name and squeeze(n.children[1].text) in kept
            for n in differences
        )
        return before.end if taken else None

    @staticmethod
    def _assignments(scope: Scope) -> Iterator[tuple[Node, Node]]:
        for node in scope.nodes:
            if node.kind == "assign" and len(node.children) > 1:
                yield node.children[0], node.children[-1]

    def _elapsed_name(self, call: Node) -> str:
        """The variable that an elapsed-time call gives its value."""
        if re.search(r"EventElapsedTime", callee_text(call)):
            return base_name(positional(call)[0].text)
        parent = call.parent
        assigned = parent is not None and parent.kind == "assign" and parent.children[-1] is call
        return target_key(parent.children[0]) if parent is not None and assigned else ""

    def _between_helpers(self, pair: Pair) -> Iterator[Region]:
        """Between a call of a function that records the start and one of the function that ends it.

        begin(&start, &stop); kernel<<<...>>>(x); ms = finish(start, stop);
        """
        last = pair.scope
        name = self._parameter_key(pair.events[0])
        if not last.name or name not in last.parameters:
            return
        for site in self.scopes.call_sites(last):
            scope = self.scopes.scope_of(site)
            event = argument(site, last.parameters.index(name), name)
            begun = [
                call
                for call in self._begins
                if call.end <= site.start and self.scopes.scope_of(call) is scope
                and event is not None and self._begins_with(call, self._parameter_key(event))
            ]  # fmt: skip
            if begun:
                span = ((begun[-1].end, site.start),)
                yield Region("event", scope, begun[-1], site, site, site, span)

    def _parameter_key(self, event: Node) -> str:
        cpp = self.scopes.language == "cuda"
        return base_name(event.text.lstrip("&* ")) if cpp else squeeze(event.text)

    @cached_property
    def _begins(self) -> list[Node]:
        """Calls of functions of the file that record one event, which they are given."""
        found = []
        for _, where, names in self.events.records:
            if where.name and names & set(where.parameters) and self._records_in(where) == 1:
                found += self.scopes.call_sites(where)
        return sorted(found, key=lambda call: call.start)

    def _records_in(self, scope: Scope) -> int:
        return sum(where is scope for _, where, _ in self.events.records)

    def _begins_with(self, call: Node, event: str) -> bool:
        """Whether a call gives the event to the parameter that the function records."""
        function = self.scopes.called_function(call, self.scopes.scope_of(call))
        for _, where, names in self.events.records if function is not None else ():
            for name in names & set(where.parameters) if where is function else ():
                given = argument(call, where.parameters.index(name), name)
                if given is not None and self._parameter_key(given) == event:
                    return True
        return False

    def _around(self, pair: Pair, record: Node) -> Iterator[Region]:
        """One record in a loop, whose events are read in pairs: each iteration is measured."""
        loops = loops_around(record)
        body = loop_body(loops[0]) if loops else None
        if body is not None and pair.start_names != pair.end_names:
            spans = ((record.end, body.end), (body.start, record.start))
            scope = self.scopes.scope_of(record)
            yield Region("event", scope, record, record, pair.call, pair.call, spans, carried=True)

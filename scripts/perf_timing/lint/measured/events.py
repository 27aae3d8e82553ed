"""Events: the names under which a file knows each, who records it, and which pairs it reads.

A pair is found from the elapsed-time call, or from each call of a function that is given the events
whose time it reads.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from perf_timing.lint import roles as r
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    argument,
    base_name,
    callee_text,
    last_segment,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import expected_failures
from perf_timing.lint.roles import Roles


@dataclass(frozen=True)
class Pair:
    """An elapsed-time call with the records of its two events, where the file shows them.

    Where a function of the file reads the time of two events that it is given, `call` is each call
    of that function: `events` are what it passes.
    """

    call: Node
    events: tuple[Node, Node]
    scope: Scope
    start: Node | None  # the last record of the start event before the call
    end: Node | None
    start_names: frozenset[str]
    end_names: frozenset[str]


class Events:
    """The events of a file."""

    def __init__(self, scopes: Scopes, roles: Roles) -> None:
        self.scopes = scopes
        self.roles = roles

    def event_names(self, node: Node, scope: Scope) -> frozenset[str]:
        """Names under which the file may know the event that `node` is.

        Followed are: the target of a loop over a list, `zip` or `enumerate`, and tuples that are
        appended to a list. `spans#1` is the second member of the tuples of the list `spans`,
        `marks@start` what a dictionary, or each of its members, holds under a literal key.
        """
        found: set[str] = set()
        todo = [self._event_key(node)]
        while todo and len(found) < 12:
            key = todo.pop()
            if key in found or not key:
                continue
            found.add(key)
            todo += self._aliases(key, node, scope)
        return frozenset(found)

    def _event_key(self, node: Node) -> str:
        return self._event_key_of(node.text)

    def _event_key_of(self, code: str) -> str:
        text = squeeze(code).lstrip("&*(")
        index = re.match(r"([\w.]+)\[(-?\d+)\]$", text)
        if index:
            return f"{index[1]}#{index[2]}"
        pair = re.match(r"([\w.]+)\[[^\]]*\]\[(-?\d+)\]$", text)
        if pair:
            return f"{pair[1]}#{pair[2]}"
        member = re.match(r"([\w.]+)(\[[^\]]*\])*\[(['\"])(\w+)\3\]$", text)
        if member:  # events[name]["start"]
            return f"{member[1]}@{member[4]}"
        text = text.replace("this->", "self.")
        text = re.sub(r"\[.*", "", text)
        return text.rstrip(")")

    def _aliases(self, key: str, node: Node, scope: Scope) -> list[str]:
        found = []
        for parent in node.ancestors():
            heads = (
                [c for c in parent.children if c.kind == "comp_for"]
                if parent.kind == "comp"
                else [parent]
            )
            if parent.kind in ("for", "comp"):
                for head in heads:
                    if len(head.children) >= 2:
                        found += self._bound(key, head.children[0], head.children[1])
        base, mark, index = key.partition("#")
        for call in self.scopes.calls_by_name.get("append", []):
            args = positional(call)
            if args and self._event_key_of(callee_text(call).removesuffix(".append")) == base:
                if (
                    mark
                    and args[0].kind in ("tuple", "list")
                    and abs(int(index)) < len(args[0].children)
                ):
                    found.append(self._event_key(args[0].children[int(index)]))
                elif not mark and args[0].kind == "name":
                    found.append(self._event_key(args[0]))
        return found

    def _bound(self, key: str, target: Node, iterable: Node) -> list[str]:
        callee = callee_text(iterable) if iterable.kind == "call" else ""
        given = positional(iterable) if iterable.kind == "call" else []
        if callee == "enumerate" and given and target.kind == "tuple" and len(target.children) > 1:
            return self._bound(key, target.children[1], given[0])
        if target.kind in ("tuple", "list"):
            for number, part in enumerate(target.children):
                if squeeze(part.text) == key:
                    if last_segment(callee) == "pairwise" and given:
                        return [self._event_key(given[0])]
                    if callee == "zip" and number < len(given):
                        return [self._event_key(given[number])]
                    return [f"{self._event_key(iterable)}#{number}"]
        elif squeeze(target.text) == key:
            return [
                self._event_key(
                    given[0] if callee in ("reversed", "list", "tqdm") and given else iterable
                )
            ]
        return []

    @cached_property
    def records(self) -> list[tuple[Node, Scope, frozenset[str]]]:
        """(call, scope, names of the event) of each call that records an event."""
        found = []
        for call in self.scopes.calls:
            if call.kind != "call" or "ecord" not in callee_text(call):
                continue
            scope = self.scopes.scope_of(call)
            if r.RECORD in self.roles.of(call, scope):
                event = self.recorded_event(call)
                if event is not None:
                    found.append((call, scope, self.event_names(event, scope)))
                names = self._record_result(call)
                if names:
                    found.append((call, scope, names))
        return found

    def _record_result(self, call: Node) -> frozenset[str]:
        # before = stream.record(): the event is the call's value.
        parent = call.parent
        if parent is not None and parent.kind == "assign" and parent.children[-1] is call:
            return frozenset({target_key(parent.children[0])})
        return frozenset()

    def recorded_event(self, call: Node) -> Node | None:
        """The node that names the event of a recording call."""
        if self.scopes.language == "cuda" and last_segment(callee_text(call)) not in ("record",):
            given = positional(call)
            return given[0] if given else None
        function = call.children[0]
        if function.kind == "attribute":
            return function.children[0]
        if last_segment(callee_text(call)) == "record_event":
            given = positional(call)
            return given[0] if given else None
        return _receiver(function)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Each elapsed-time call with its events and their records."""
        found = []
        for call in self.scopes.calls:
            if call.kind != "call" or not re.search(
                r"lapsed|time_till|time_since", callee_text(call)
            ):
                continue
            scope = self.scopes.scope_of(call)
            if r.ELAPSED not in self.roles.of(call, scope) or scope.is_kernel:
                continue
            if expected_failures.is_expected(call, scope):
                continue
            events = self.elapsed_events(call)
            if events is None:
                continue
            sites = self._handed_events(events, scope)
            found += [self._pair(*site) for site in sites or [(call, events, scope)]]
        return found

    def _pair(self, call: Node, events: tuple[Node, Node], scope: Scope) -> Pair:
        names = [self.event_names(event, scope) for event in events]
        start, end = (self._last_record(call, scope, group) for group in names)
        return Pair(call, events, scope, start, end, names[0], names[1])

    def _handed_events(
        self, events: tuple[Node, Node], scope: Scope
    ) -> list[tuple[Node, tuple[Node, Node], Scope]]:
        """(call, events, scope) of each call of a function that is given both its events."""
        if self.scopes.language == "cuda":
            keys = [base_name(event.text) for event in events]
        else:
            keys = [squeeze(event.text) for event in events]
        if not scope.name or not set(keys) <= set(scope.parameters):
            return []
        if any(names & set(keys) for _, where, names in self.records if where is scope):
            return []
        found = []
        for site in self.scopes.call_sites(scope):
            given = [argument(site, scope.parameters.index(key), key) for key in keys]
            if given[0] is not None and given[1] is not None:
                found.append((site, (given[0], given[1]), self.scopes.scope_of(site)))
        return found

    def elapsed_events(self, call: Node) -> tuple[Node, Node] | None:
        """The nodes of the start and the end event of an elapsed-time call."""
        given = positional(call)
        short = last_segment(callee_text(call))
        if re.search(r"EventElapsedTime", short):
            return (given[1], given[2]) if len(given) >= 3 else None
        if short == "time_since":  # PyCUDA: end.time_since(start)
            receiver = _receiver(call.children[0])
            return (given[0], receiver) if receiver is not None and given else None
        if short in ("get_elapsed_time", "event_elapsed_time"):  # of CuPy and Numba
            return (given[0], given[1]) if len(given) >= 2 else None
        function = call.children[0]
        receiver = function.children[0] if function.kind == "attribute" else _receiver(function)
        return (receiver, given[0]) if receiver is not None and given else None

    def _last_record(self, call: Node, scope: Scope, names: frozenset[str]) -> Node | None:
        matching = [(c, s) for c, s, n in self.records if n & names]
        own = [c for c, s in matching if s is scope and c.end <= call.start]
        if own:
            return own[-1]
        around = [c for c, s in matching if s in list(scope.enclosing()) and c.end <= call.start]
        if around:
            return around[-1]
        members = [c for c, s in matching if scope.class_name and s.class_name == scope.class_name]
        if members:
            return members[-1]
        later = [c for c, s in matching if s is scope]
        return later[-1] if later else None


def _receiver(function: Node) -> Node | None:
    """The object in front of a method's name, cut from one dotted name."""
    text = function.text
    cut = max(text.rfind("."), text.rfind("->"))
    if cut < 0:
        return None
    node = Node("name", function.start, function.start + cut, function.tree)
    node.parent = function.parent
    return node

"""Where a file takes the difference of two readings of a clock.

By subtracting (`end - start`), by a function that is given both (`timersub(&end, &start, &took)`),
or by one that takes the start off a reading of its own (`dtime(start)`). A difference that is only
compared is a time limit, and none of these.
"""

import re
from functools import cached_property

from perf_timing.lint.code.scopes import (
    Scope,
    bare_operator,
    base_name,
    callee_text,
    last_segment,
    positional,
    target_key,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.measured import readings
from perf_timing.lint.measured.clocks import Clocks

# What a function is called that takes the difference of two times.
_SUBTRACTS = re.compile(r"sub(?!mit|mul|st)|diff|elapsed|interval|duration|delta", re.IGNORECASE)


class ClockDifferences:
    """The differences of readings of a clock in a file."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.scopes = clocks.scopes

    @cached_property
    def deltas_from(self) -> dict[int, list[tuple[Node, Node]]]:
        """(difference, end reading) of each difference, by the id of its start reading."""
        found: dict[int, list[tuple[Node, Node]]] = {}
        for delta, start, end, _ in self.deltas:
            found.setdefault(id(start), []).append((delta, end))
        return found

    @cached_property
    def deltas(self) -> list[tuple[Node, Node, Node, Scope]]:
        """(difference, start reading, end reading, scope) of each difference of clock values."""
        found: list[tuple[Node, Node, Node, Scope]] = []
        for scope in self.scopes.all:
            if scope.is_kernel:
                continue
            for node in scope.nodes:
                if node.kind == "binary" and bare_operator(node) == "-" and len(node.children) == 2:
                    end = self.clocks.clock_of(node.children[0], scope)
                    begun = self.clocks.clock_of(node.children[1], scope) if end else None
                    if begun is not None and end is not None and not self._is_deadline(node):
                        found += readings.before_branch(self.clocks, (node, begun, end, scope))
                        found.append((node, begun, end, scope))
                elif node.kind == "call" and (pair := self._handed_readings(node, scope)):
                    found.append((node, *pair, scope))
                elif node.kind == "call" and (begun := self.clocks.since(node, scope)) is not None:
                    found.append((node, begun, node, scope))
        return found

    def _handed_readings(self, call: Node, scope: Scope) -> tuple[Node, Node] | None:
        """The two readings that a C++ function is given to subtract: tvsub(&end, &start, &took).

        They are variables that gettimeofday() and its like have filled in the scope before, or that
        hold what a clock returned; the later is the end, in whatever order the function wants them.
        """
        if self.scopes.language != "cuda" or not _SUBTRACTS.search(last_segment(callee_text(call))):
            return None
        given = {base_name(argument.text): argument for argument in positional(call)}
        read = [self._reading(name, argument, scope) for name, argument in given.items()]
        known = {id(c): c for c in read if c is not None and c.end <= call.start}
        if len(known) != 2 or self._is_deadline(call):
            return None
        start, end = sorted(known.values(), key=lambda c: c.start)
        return start, end

    def _reading(self, name: str, argument: Node, scope: Scope) -> Node | None:
        """The reading in `scope` whose value an argument has, or None."""
        if name in self.clocks.fillers:
            return self.clocks.filled(name, argument, scope)
        if argument.kind != "name" or self.scopes.definition(argument, name, scope) is None:
            return None
        found = self.clocks.clock_of(argument, scope)
        return found if found is not None and self.scopes.scope_of(found) is scope else None

    def differences(self, call: Node) -> list[Node]:
        """Where the difference is used that a call has written: took.tv_sec, up to the next one."""
        scope = self.scopes.scope_of(call)
        names = {base_name(argument.text) for argument in positional(call)[2:]}
        again = (
            c.start
            for c in self.scopes.calls_by_name.get(last_segment(callee_text(call)), [])
            if c.start > call.start and self.scopes.scope_of(c) is scope
        )
        until = min(again, default=scope.node.end)
        return [
            node
            for name, nodes in scope.names.items()
            if name.partition(".")[0] in names
            for node in nodes
            if call.end < node.start < until
        ]

    def _is_deadline(self, delta: Node) -> bool:
        """Whether the difference is only compared: a time limit and not a measurement."""
        for parent in delta.ancestors():
            if parent.kind == "augassign" and parent.children:
                return self._moves_start(parent.children[0])
            if parent.kind == "compare" or (
                parent.kind == "binary" and bare_operator(parent)[:1] in ("<", ">")
            ):
                return bare_operator(parent)[:2] not in ("<<", ">>")
            if parent.kind not in ("binary", "args", "call", "attribute"):
                return False
        return False

    def _moves_start(self, target: Node) -> bool:
        """Whether a time is added to a reading, which leaves a pause out: start += clock() - t0."""
        pairs = self.scopes.assignments(target_key(target), self.scopes.scope_of(target))
        return any(
            self.clocks.clock_of(value, self.scopes.scope_of(value)) is value for _, value in pairs
        )

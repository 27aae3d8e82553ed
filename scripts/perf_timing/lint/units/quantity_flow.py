"""Follows times through a file and notes where their units contradict each other.

The statements of each function are run in order over an environment that maps variables to values
(quantities.py). At the end of a branch the environments are joined. What a function returns, what
attributes hold and what parameters are given is carried from one pass over the file to the next, so
that `timer.elapsed()` has the unit of the return statement it ends in. What the analysis assumes:

* A literal power of 1000 (or 1e-6 and so on) that multiplies or divides a time converts its unit;
  any other factor counts something. A literal that the file also uses as a number of iterations
  may do either.
* A name with a unit (`latency_ms`) is believed where nothing better is known.
* A branch on a name or text that speaks of units chooses the unit on purpose.
* A variable that is set on one path only keeps what it had on the other.

Units that come from a clock, an event or a benchmark helper contradict any label; a unit that only
a name declares contradicts the text that is printed beside it, but no other name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from perf_timing.lint.code.scopes import (
    Scope,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.units import time_sources
from perf_timing.lint.units.quantities import (
    OPAQUE,
    Conflict,
    Number,
    Quantity,
    Value,
    join,
    plain,
)
from perf_timing.lint.units.quantity_calls import Calls
from perf_timing.lint.units.quantity_names import (
    chooses,
    key_of,
)
from perf_timing.lint.units.quantity_values import (
    SKIP,
    Frame,
    Problem,
    Stored,
    Suspect,
    class_name_of,
    is_timed,
    item_of,
)
from perf_timing.lint.units.unit_labels import label_of_name

PASSES = 3


class QuantityFlow(Calls):
    """Runs a file and collects its problems."""

    def run(self) -> list[Problem]:
        """All problems, without duplicates, in order of the source."""
        scopes = [scope for scope in self.scopes.all if not scope.is_kernel]
        passed: dict[int, dict[tuple[int, str], list[Value]]] = {}
        active = scopes
        for _ in range(PASSES):
            self.problems, self.converted = [], []
            timed = set()
            for scope in active:
                self._given_now, self.met_time = defaultdict(list), False
                self._run_scope(scope)
                passed[id(scope)] = self._given_now
                if self.met_time:
                    timed.add(id(scope))
            self._given = defaultdict(list)
            for scope in scopes:
                for key, values in passed[id(scope)].items():
                    self._given[key] += values
            # Where no time was met, none is met in the next pass unless another scope hands one in.
            names = self._timed_names()
            if not (names or timed):
                break
            active = [s for s in scopes if id(s) in timed or self._may_meet_time(s, names)]
        unique = {(p.node.start, p.node.end, p.kind): p for p in self.problems}
        return sorted(unique.values(), key=lambda p: p.node.start)

    @cached_property
    def _words(self) -> dict[int, frozenset[str]]:
        return {}

    def _may_meet_time(self, scope: Scope, names: set[str]) -> bool:
        """Whether what is known of other scopes by now may bring a time into this one."""
        around = [*scope.enclosing()][1:]
        if any(is_timed(v) for s in around for v in self._final.get(id(s.node), {}).values()):
            return True
        own = id(scope.node)
        if any(is_timed(v) for p in scope.parameters for v in self._given.get((own, p), ())):
            return True
        return not names.isdisjoint(self._words_of(scope))

    def _words_of(self, scope: Scope) -> frozenset[str]:
        key = id(scope)
        if key not in self._words:
            self._words[key] = frozenset(re.findall(r"\w+", scope.node.text))
        return self._words[key]

    def _timed_names(self) -> set[str]:
        """Names of functions, members and globals that bring a time."""
        names = {name for (_, name), value in self._attributes.items() if is_timed(value)}
        names |= {name for name, value in self._globals.items() if is_timed(value)}
        return names | {
            scope.short_name
            for scope in self.scopes.all
            if is_timed(self._returns.get(id(scope.node)))
        }

    # Scopes

    def _run_scope(self, scope: Scope) -> None:
        frame = Frame(scope)
        if scope.node.kind == "lambda" and scope.node.child("block") is None:
            body = scope.node.children[-1] if scope.node.children else None
            if body is not None and body.kind != "params":
                frame.returns.append((body, self.value(body, frame)))
        elif scope.body is not None:
            self._block(scope.body, frame)
        elif scope.node.kind == "module":
            self._statements(scope.node.children, frame)
        self._close(frame)

    def _close(self, frame: Frame) -> None:
        for key, stored in frame.env.items():
            if isinstance(stored, Suspect):
                self.problems.append(stored.problem)
                frame.env[key] = OPAQUE
        scope = frame.scope
        self._final[id(scope.node)] = frame.env
        owner = class_name_of(scope)
        for key, stored in frame.env.items():
            if not isinstance(stored, Suspect) and (
                key.startswith("self.") or (self.cpp and owner)
            ):
                name = key.removeprefix("self.")
                known = self._attributes.get((owner, name))
                if isinstance(plain(stored), (Quantity, Number)) and not isinstance(
                    known, Quantity
                ):
                    self._attributes[owner, name] = stored
        if self.cpp and scope.node.kind != "module":
            self._keep_globals(frame)
        self._close_returns(frame)

    def _keep_globals(self, frame: Frame) -> None:
        """What a C++ function leaves in variables of the file."""
        outer = self._final.get(id(self.scopes.module.node), {})
        for key, stored in frame.env.items():
            if key in outer and key not in frame.types and isinstance(stored, Quantity):
                self._globals.setdefault(key, stored)

    def _close_returns(self, frame: Frame) -> None:
        values = [(node, plain(value)) for node, value in frame.returns]
        times = [(n, v) for n, v in values if isinstance(v, Quantity)]
        label = label_of_name(frame.scope.short_name) if frame.scope.name else None
        for node, value in times:
            if label is not None:
                self._check(value, label, node, frame.scope.short_name)
        if label is None and not chooses(frame.scope.parameters):
            self._compare_returns(times)
        result: Value = None
        for number, (_, returned) in enumerate(frame.returns):
            joined = join(result, returned) if number else returned
            result = None if isinstance(joined, Conflict) else joined
        if result is None and label is not None and label.kind == "time":
            result = label.quantity()
        self._returns[id(frame.scope.node)] = result

    def _compare_returns(self, times: Sequence[tuple[Node, Quantity]]) -> None:
        sure = [(n, v) for n, v in times if v.kind == "time" and v.definite and not v.declared]
        by_unit: dict[float, list[tuple[Node, Quantity]]] = defaultdict(list)
        for node, value in sure:
            by_unit[min(value.exponents)].append((node, value))
        if len(by_unit) < 2:
            return
        groups = sorted(by_unit.values(), key=lambda g: (len(g), -g[-1][0].start))
        (odd, value), (_, other) = groups[0][-1], groups[-1][-1]
        if value.origin is not other.origin:
            self.problems.append(Problem("returns", odd, value, other=other))

    # Statements

    def _block(self, block: Node, frame: Frame) -> None:
        self._statements(block.children, frame)

    def _statements(self, nodes: Iterable[Node], frame: Frame) -> None:
        for node in nodes:
            if frame.dead:
                return
            self._statement(node, frame)

    def _statement(self, node: Node, frame: Frame) -> None:
        kind = node.kind
        if kind in SKIP:
            return
        if kind == "if":
            self._if(node, frame)
        elif kind in ("for", "while"):
            self._loop(node, frame)
        elif kind in ("block", "with", "try", "else", "finally"):
            self._statements(node.children, frame)
        elif kind in ("switch", "match"):
            self._switch(node, frame)
        elif kind == "except":
            self._branch(node.children, frame)
        elif kind == "return":
            value = self.value(node.children[0], frame) if node.children else None
            if node.children:
                frame.returns.append((node.children[0], value))
            frame.dead = True
        elif kind == "raise":
            frame.dead = True
        elif kind == "jump":
            frame.dead = node.text != "pass"
        elif kind == "decl":
            self._declaration(node, frame)
        else:
            self.value(node, frame)

    def _branch(self, nodes: Sequence[Node], frame: Frame) -> dict[str, Stored] | None:
        """The environment after `nodes`; None where they leave the block. The frame stays."""
        before, frame.env = frame.env, dict(frame.env)
        self._statements(nodes, frame)
        after = None if frame.dead else frame.env
        frame.env, frame.dead = before, False
        return after

    def _if(self, node: Node, frame: Frame) -> None:
        branches: list[dict[str, Stored] | None] = []
        conditions: list[str] = []
        has_else = False
        pending = [node]
        while pending:
            part = pending.pop(0)
            body = []
            for position, child in enumerate(part.children):
                if child.kind == "elif" or (
                    child.kind == "else" and child.children and child.children[0].kind == "if"
                ):
                    pending.append(child if child.kind == "elif" else child.children[0])
                elif child.kind == "else":
                    has_else = True
                    branches.append(self._branch(child.children, frame))
                elif position == 0:
                    conditions.append(child.text)
                    self.value(child, frame)
                else:
                    body.append(child)
            branches.insert(len(conditions) - 1, self._branch(body, frame))
        if not has_else:
            branches.append(frame.env)
        alive = [branch for branch in branches if branch is not None]
        frame.dead = not alive
        if alive:
            chosen = chooses(re.findall(r"\w+", " ".join(conditions)))
            frame.env = _merge(alive, chosen)

    def _switch(self, node: Node, frame: Frame) -> None:
        cases = [c for c in node.walk() if c.kind == "case"]
        branches = [self._branch(case.children, frame) for case in cases]
        alive = [branch for branch in branches if branch is not None]
        # A case ends with break, which leaves the environment of the case unseen here.
        frame.env = _merge([frame.env, *alive], chosen=True)

    def _loop(self, node: Node, frame: Frame) -> None:
        before = dict(frame.env)
        body = node.child("block") or (node.children[-1] if node.children else None)
        header = [c for c in node.children if c is not body and c.kind != "else"]
        if (node.kind == "for" and not self.cpp and len(header) >= 2) or (
            node.kind == "for" and len(header) == 2 and ":" in node.text[: node.text.find("{") + 1]
        ):
            self._bind(header[0], item_of(self.value(header[1], frame)), frame)
        else:
            self._statements(header, frame)
        if body is not None:
            self._statements([body] if body.kind != "block" else body.children, frame)
        frame.dead = False
        for key, stored in before.items():
            frame.env.setdefault(key, stored)
        self._statements([c for c in node.children if c.kind == "else"], frame)

    def _declaration(self, node: Node, frame: Frame) -> None:
        first = next((c for c in node.children if c.kind in ("assign", "call")), None)
        type_text = node.tree.text[node.start : first.start if first else node.end]
        exponent = time_sources.duration_exponent(type_text, self._types)
        if exponent is None and first is None:
            exponent = time_sources.duration_exponent(type_text.rpartition(" ")[0], self._types)
        # A duration takes the unit of its declared type; an unknown type may convert it.
        typed = exponent is not None or not re.match(r"\s*((const|static)\s+)*auto\b", type_text)
        for child in node.children:
            name = child.children[0] if child.kind == "assign" and child.children else child
            if typed and name.kind == "name":
                frame.types[key_of(name)] = exponent
            if child.kind not in ("name", "targs"):
                self.value(child, frame)
            if name.kind == "name" and exponent is not None:
                self.met_time = True
                frame.env[key_of(name)] = time_sources.duration(exponent, child)


def _merge(branches: Sequence[dict[str, Stored]], chosen: bool) -> dict[str, Stored]:
    merged = dict(branches[0])
    for branch in branches[1:]:
        for key, stored in branch.items():
            if key not in merged or merged[key] is stored:
                merged[key] = stored
                continue
            merged[key] = _merge_value(merged[key], stored, chosen)
    return merged


def _merge_value(a: Stored, b: Stored, chosen: bool) -> Stored:
    if isinstance(a, Suspect):
        return a
    if isinstance(b, Suspect):
        return b
    joined = join(a, b)
    inner = plain(joined)
    if isinstance(inner, Conflict):
        same = inner.first.origin is inner.second.origin
        if chosen or same or inner.first.declared or inner.second.declared:
            return OPAQUE
    return joined

"""Which call read the clock whose value an expression has.

Values are followed from the names back to the calls: through attributes (`self.t0`), keys
(`times["start"]`), sums, scaled values, members and globals that another function has set, helpers
of the file that return a time, and C++ functions that write it where they are told to.
"""

import re
from functools import cached_property

from perf_timing.lint import roles as r
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    bare_operator,
    base_name,
    callee_text,
    last_segment,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.roles import Roles


class Clocks:
    """The readings of clocks in a file."""

    def __init__(self, scopes: Scopes, roles: Roles) -> None:
        self.scopes = scopes
        self.roles = roles
        self._returns: dict[int, bool] = {}

    def clock_of(self, node: Node, scope: Scope, depth: int = 0) -> Node | None:
        """The call that read the clock whose value `node` has, or None."""
        if depth > 6:
            return None
        if node.kind == "call":
            return self._clock_call(node, scope, depth)
        if node.kind in ("name", "subscript", "attribute"):
            return self._clock_variable(node, scope, depth)
        if node.kind == "binary":
            if bare_operator(node) == "-" or len(node.children) != 2:
                return None
            found = [self.clock_of(child, scope, depth + 1) for child in node.children]
            return next((call for call in found if call is not None), None)
        if node.kind in ("cond", "named", "cast"):
            found = [self.clock_of(child, scope, depth + 1) for child in node.children]
            return next((call for call in found if call is not None), None)
        return None

    def _clock_call(self, node: Node, scope: Scope, depth: int) -> Node | None:
        roles = self.roles.of(node, scope)
        if r.CLOCK in roles:
            return node
        function = self.scopes.called_function(node, scope)
        if self.returns_clock(function) or self.subtracts_from_clock(function):
            return node
        callee = callee_text(node)
        short = last_segment(callee)
        if short in (
            "float",
            "int",
            "double",
            "timestamp",
            "time_since_epoch",
            "duration",
            "duration_cast",
            "count",
            "time_point_cast",
            "static_cast",
            "round",
        ) or (function is None and "time_since_epoch" in node.text):
            for part in (*positional(node), *node.children[:1]):
                inner = part.children[0] if part.kind == "attribute" and part.children else part
                if inner.kind == "name" and inner is node.children[0] and "." in inner.text:
                    return self._clock_name(
                        squeeze(inner.text).rpartition(".")[0], node, scope, depth
                    )
                found = self.clock_of(inner, scope, depth + 1) if inner.kind != "args" else None
                if found is not None:
                    return found
        return None

    def returns_clock(self, function: Scope | None) -> bool:
        """Whether a function of the file returns a reading of a clock."""
        if function is None or function.is_kernel:
            return False
        key = id(function)
        if key not in self._returns:
            self._returns[key] = False
            self._returns[key] = self._returns_clock(function)
        return self._returns[key]

    def _returns_clock(self, function: Scope) -> bool:
        if (
            function.node.kind == "lambda"
            and function.body is not None
            and function.body.kind != "block"
        ):
            return self.clock_of(function.body, function) is not None
        for node in function.nodes:
            if node.kind == "return" and node.children:
                value = node.children[0]
                if self.clock_of(value, function) is not None:
                    return True
        return False

    def subtracts_from_clock(self, function: Scope | None) -> bool:
        """Whether a C++ function returns a reading less what it is given: dtime(start)."""
        if function is None or function.is_kernel or self.scopes.language != "cuda":
            return False
        given = [n.children[0] for n in function.nodes if n.kind == "return" and n.children]
        value = given[0] if len(given) == len(function.parameters) == 1 else None
        if value is None or value.kind != "binary" or len(value.children) != 2:
            return False
        return (
            bare_operator(value) == "-"
            and squeeze(value.children[1].text) == function.parameters[0]
            and self.clock_of(value.children[0], function) is not None
        )

    def since(self, call: Node, scope: Scope) -> Node | None:
        """The reading that a call takes off its own: dtime(start), where start = dtime(0)."""
        given = positional(call)
        if len(given) != 1 or given[0].kind == "number":
            return None
        function = self.scopes.called_function(call, scope)
        found = self.subtracts_from_clock(function) and self.clock_of(given[0], scope)
        return found or None

    def _clock_variable(self, node: Node, scope: Scope, depth: int) -> Node | None:
        key = target_key(node)
        if self.scopes.language == "cuda":
            key = re.sub(r"\.(tv_\w+|QuadPart|time|millitm)$", "", key)
        return self._clock_name(key, node, scope, depth)

    def _clock_name(self, key: str, at: Node, scope: Scope, depth: int) -> Node | None:
        filler = self.filled(key, at, scope)
        if filler is not None:
            return filler
        pairs = self.scopes.assignments(key, scope)
        before = [p for p in pairs if p[0].end <= at.start and not exclusive(p[0], at)]
        # Not the assignment that the name is read for: t = since(t).
        before = [p for p in before if not p[1].start <= at.start < p[1].end]
        own = [pair for pair in before if self.scopes.scope_of(pair[0]) is scope]
        local = any(self.scopes.scope_of(target) is scope for target, _ in pairs)
        if not local and not any(key in around.parameters for around in scope.enclosing()):
            # A global, or a member of the class: some other function has set it.
            pairs = before = [*pairs, *self._set_elsewhere(key, scope)]
        for target, value in reversed(own or before or pairs):
            found = self.clock_of(value, self.scopes.scope_of(target), depth + 1)
            if found is not None:
                return found
        return None

    def _set_elsewhere(self, key: str, scope: Scope) -> list[tuple[Node, Node]]:
        """Assignments to a global or a member in other functions (of the same class)."""
        found = []
        for target, value in self.scopes.assignments(key):
            setter = self.scopes.scope_of(target)
            if setter is scope or not is_member(target, setter, scope):
                continue
            declares = any(n.kind == "global" and key in n.text for n in setter.nodes)
            if self.scopes.language == "cuda" or declares:
                found.append((target, value))
        return found

    @cached_property
    def fillers(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        if self.scopes.language == "cuda":
            for call in self.scopes.calls:
                position = words.CPP_CLOCK_FILLERS.get(last_segment(callee_text(call)))
                args = positional(call)
                if position is not None and position < len(args):
                    found.setdefault(base_name(args[position].text), []).append(call)
        return found

    def filled(self, key: str, at: Node, scope: Scope) -> Node | None:
        calls = [
            c for c in self.fillers.get(base_name(key), []) if self.scopes.scope_of(c) is scope
        ]
        before = [c for c in calls if c.end <= at.start]
        found = before or calls
        return found[-1] if found else None


def is_member(target: Node, setter: Scope, scope: Scope) -> bool:
    """Whether a value is given in a function of a class, or in the class itself."""
    owner = scope.owner
    if setter.class_name != scope.class_name:
        return owner is not None and owner.start < target.start < owner.end
    return owner is None or setter.node.kind != "module" or owner.start < target.start < owner.end

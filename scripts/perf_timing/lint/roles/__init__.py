"""What one call or launch does that matters for a measurement.

A node has some of the roles of `names`. `python_calls` and `cpp_calls` list the questions about a
call in the order in which they are asked; each other module answers those about one kind of call.
Functions of the same file are not judged here; `flow` looks inside them.
"""

from perf_timing.lint.code.scopes import Scope, Scopes, callee_text, last_segment
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.cpp_calls import CppCalls
from perf_timing.lint.roles.cpp_runtime import CppRuntime
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import (
    ALLOC,
    ARITHMETIC,
    BLOCKING,
    CLOCK,
    COMPILE,
    COPY,
    ELAPSED,
    FILL,
    HARNESS,
    IO,
    JOIN,
    LIKELY,
    OPAQUE,
    PHASE,
    READ,
    RECORD,
    REPLAY,
    SETUP,
    SLEEP,
    UPLOAD,
    WAIT,
    WORK,
)
from perf_timing.lint.roles.python_calls import PythonCalls
from perf_timing.lint.work.devices import Devices

__all__ = [
    "ALLOC",
    "ARITHMETIC",
    "BLOCKING",
    "CLOCK",
    "COMPILE",
    "COPY",
    "ELAPSED",
    "FILL",
    "HARNESS",
    "IO",
    "JOIN",
    "LIKELY",
    "OPAQUE",
    "PHASE",
    "READ",
    "RECORD",
    "REPLAY",
    "SETUP",
    "SLEEP",
    "UPLOAD",
    "WAIT",
    "WORK",
    "Roles",
]


class Roles:
    """Answers `of(node, scope)` for calls, launches and operators."""

    def __init__(
        self,
        scopes: Scopes,
        devices: Devices,
        sync_helpers: frozenset[str] = frozenset(),
        gpu_helpers: frozenset[str] = frozenset(),
        whole: str = "",
    ) -> None:
        file = FileContext(scopes, devices, whole)
        runtime = CppRuntime(file)
        self._file = file
        self._sync_helpers = sync_helpers
        self._gpu_helpers = gpu_helpers
        self._python = PythonCalls(file, runtime, self._is_work)
        self._cpp = CppCalls(file, runtime)
        self._roles = (self._python if file.python else self._cpp).roles
        self._known: dict[int, frozenset[str]] = {}
        self.devices = devices
        self.evidence = file.evidence
        self.foreign = file.foreign

    def of(self, node: Node, scope: Scope) -> frozenset[str]:
        """The roles of a node."""
        found = self._known.get(id(node))
        if found is None:
            known = self._configured(node)
            found = frozenset(known or self._roles(node, scope))
            if self.foreign and not known:
                found -= {WORK, BLOCKING}
            self._known[id(node)] = found
        return found

    def receiver(self, call: Node, scope: Scope) -> str:
        """Where the object lives whose method a call of Python is, or that is called."""
        return self._file.receiver(call, scope)

    def formats(self, interpolation: Node, scope: Scope) -> bool:
        """Whether a tensor of the device becomes text, before a clock later in the text is read."""
        return self._python.output.formats(interpolation, scope)

    def is_operator(self, value: Node) -> bool:
        """Whether a value is a function of a library that works on the device's arrays."""
        return self._python.libraries.is_operator(value)

    def asks_size(self, node: Node) -> bool:
        """Whether a call of CUB asks how much memory it needs: it is given none, and no work."""
        return self._cpp.libraries.asks_size(node)

    def launches_by_name(self, callee: str) -> bool:
        """Whether a function that the file does not show is one that launches, by its name."""
        return self._cpp.unseen.launches_by_name(callee)

    def _is_work(self, node: Node, scope: Scope) -> bool:
        return WORK in self.of(node, scope)

    def _configured(self, node: Node) -> set[str]:
        """What the project's configuration says about a function's name."""
        if node.kind != "call" or not (self._sync_helpers or self._gpu_helpers):
            return set()
        name = callee_text(node)
        names = {name, last_segment(name), self._file.scopes.resolve(name)}
        if names & self._sync_helpers:
            return {WAIT}
        return {WORK} if names & self._gpu_helpers else set()

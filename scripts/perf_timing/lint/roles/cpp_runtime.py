"""Functions of the runtimes of CUDA and HIP, by their names without the vendor's prefix."""

import re
from functools import cached_property

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import base_name, callee_text, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import (
    ALLOC,
    BLOCKING,
    COMPILE,
    COPY,
    ELAPSED,
    RECORD,
    REPLAY,
    WAIT,
    WORK,
)


class CppRuntime:
    """Calls of the runtime, be it in C++ or by its bindings for Python."""

    def __init__(self, file: FileContext) -> None:
        self._scopes = file.scopes

    def roles(self, vendor: str, node: Node) -> set[str]:
        """What a function does: MemcpyAsync of cudaMemcpyAsync and hipMemcpyAsync."""
        if vendor in words.CPP_WAITS:
            return {WAIT}
        if vendor == "EventQuery" or vendor == "StreamQuery":
            looped = any(p.kind == "while" for p in node.ancestors())
            return {WAIT} if looped else set()
        if re.match(r"EventRecord(WithFlags)?$", vendor):
            return {RECORD}
        if re.match(r"EventElapsedTime(_v2)?$", vendor):
            return {ELAPSED}
        if vendor in words.CPP_BLOCKING:
            return {WORK, COPY} if "DeviceToDevice" in node.text else {BLOCKING, COPY}
        if vendor in words.CPP_ASYNC:
            return self._queued(vendor, node)
        if vendor in words.CPP_ALLOC:
            return {ALLOC}
        if words.COMPILERS_CPP.search("cuda" + vendor) or re.match(
            r"GraphInstantiate|ModuleLoad", vendor
        ):
            return {COMPILE}
        return set()

    def _queued(self, vendor: str, node: Node) -> set[str]:
        """What a function does that returns before it is done."""
        if "DeviceToHost" in node.text and self._into_pageable(node):
            return {BLOCKING, COPY}  # it returns when the copy is done
        roles = {WORK}
        if "Memcpy" in vendor or vendor == "MemPrefetchAsync":
            roles.add(COPY)
        if vendor == "GraphLaunch":
            roles.add(REPLAY)
        return roles

    def _into_pageable(self, copy: Node) -> bool:
        """Whether an asynchronous copy goes to memory of malloc, new, a vector or an array."""
        given = positional(copy)
        return bool(given) and base_name(given[0].text) in self._pageable

    @cached_property
    def _pageable(self) -> frozenset[str]:
        """Variables of a C++ file that hold memory of the host which nothing pins."""
        text = self._scopes.tree.text
        found = {first or second for first, second in words.CPP_PAGEABLE.findall(text)}
        pins = (c for c in self._scopes.calls if words.CPP_PINS.search(callee_text(c)))
        return frozenset(found - {base_name(arg.text) for c in pins for arg in positional(c)[:1]})

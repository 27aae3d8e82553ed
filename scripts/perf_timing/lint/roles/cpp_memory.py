"""Memory of C++: which variables hold that of the device, and what the host does to it."""

import re
from functools import cached_property

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import base_name, callee_text, last_segment, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import BLOCKING, FILL

# What is called like memory of the device, and declared as a number or text: float cpu_ms, gpu_ms;
_NUMBER = re.compile(
    r"\b(?:int|unsigned|float|double|long|bool|size_t|u?int\d+_t)\s+(?:\w+(?:\s*=\s*[\w.]+)?,\s*)*"
    r"((?:d|dev|gpu)_\w+)\s*[=;,)]"
)
_TEXT = re.compile(r"\b(?:char|string)\s+(?:\w+(?:\[\w*\])?,\s*)*((?:d|dev|gpu)_\w+)")


def allocated(call: Node) -> str:
    """The variable that an allocation fills: x of cudaMalloc((void **)&x, n)."""
    return base_name(re.sub(r"^\(\s*\w+\s*\*+\s*\)", "", positional(call)[0].text))


class CppMemory:
    """The variables of one file by the memory that they hold."""

    def __init__(self, file: FileContext) -> None:
        self._scopes = file.scopes

    def fills(self, call: Call) -> set[str] | None:
        """What a function of the host does to memory: that of the device it can reach, too."""
        if not words.CPP_HOST_MEMORY.match(call.callee):
            return None
        given = positional(call.node) if "cpy" in call.callee else []
        return {FILL} if given and base_name(given[0].text) in self._managed else set()

    def assigns(self, node: Node) -> set[str]:
        """What an assignment does: `h = d;` of vectors of Thrust waits for a copy."""
        return {BLOCKING} if self._copies_vector(node) else set()

    def is_on_device(self, names: set[str], place: Node, depth: int = 0) -> bool:
        """Whether one of some variables holds device memory, be it as a parameter.

        A function that chooses one of many kernels is given d_A, and calls it A.
        """
        if names & self._device_pointers:
            return True
        scope = self._scopes.scope_of(place)
        if depth > 2 or scope.node.kind != "function" or not names & set(scope.parameters):
            return False
        for site in self._scopes.call_sites(scope):
            taken = zip(scope.parameters, positional(site), strict=False)
            given = {base_name(value.text) for name, value in taken if name in names}
            if self.is_on_device(given, site, depth + 1):
                return True
        return False

    @cached_property
    def _device_pointers(self) -> frozenset[str]:
        """Variables that hold device memory: allocated as such, or named d_x."""
        found = set()
        text = self._scopes.tree.text
        if words.CPP_RUNTIME.search(text):  # a name alone tells nothing
            found |= set(re.findall(r"\b(?:d|dev|gpu)_\w+", text))
            found -= set(words.CPP_ON_HOST.findall(text)) | set(_NUMBER.findall(text))
            found -= set(_TEXT.findall(text))
        for call in self._scopes.calls:
            short = last_segment(callee_text(call))
            vendor = words.CPP_VENDOR.sub("", short)
            # What managed memory is given to may well run on the host.
            host = "Host" in vendor or "Managed" in vendor
            if vendor in words.CPP_ALLOC and not host and positional(call):
                found.add(allocated(call))
        return frozenset(found)

    @cached_property
    def _managed(self) -> frozenset[str]:
        """Variables that hold memory which both the host and the device reach."""
        return frozenset(
            allocated(call)
            for call in self._scopes.calls
            if "MallocManaged" in callee_text(call) and positional(call)
        )

    @cached_property
    def _thrust_vectors(self) -> dict[str, frozenset[str]]:
        """Names of Thrust's vectors by where they live: "host" and "device"."""
        named = re.findall(
            r"\b(host|device)_vector\s*<[^;{}()]*>[\s&*]+(\w+)", self._scopes.tree.text
        )
        return {place: frozenset(n for p, n in named if p == place) for place in ("host", "device")}

    def _copies_vector(self, node: Node) -> bool:
        """`host_vector<T> h = d;`, `h = d;`, `host_vector<T> h(d);`: the host waits for a copy."""
        host, device = self._thrust_vectors["host"], self._thrust_vectors["device"]
        if not (host and device and len(node.children) > 1):
            return False
        target = base_name(node.children[0].text)
        source = {base_name(n.text) for n in node.children[-1].walk() if n.kind == "name"}
        return (target in host and bool(source & device)) or (
            target in device and bool(source & host)
        )

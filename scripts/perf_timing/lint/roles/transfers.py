"""Copies between host and device that Python asks for: to(), cuda(), copy_(), device_put()."""

import re

from perf_timing.lint.code.scopes import Scope, keyword, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.loaders import Loaders
from perf_timing.lint.roles.names import BLOCKING, COPY, READ, UPLOAD, WORK
from perf_timing.lint.work.devices import DEVICE, HOST, UNKNOWN

_TO_DEVICE = re.compile(
    r"(^|_)(transfer|to_device|to_dev|to_gpu|move_to|send_to_device|batch_to_device)(_|$)"
)


def sends(call: Call) -> set[str] | None:
    """A function that moves what it is given, by its name: batch_to_device(batch)."""
    if "." in call.callee or not _TO_DEVICE.search(call.short):
        return None
    host = any(a.kind == "string" and "cpu" in a.text for a in positional(call.node))
    return {READ, COPY} if host else {COPY, READ, UPLOAD}


def puts(call: Call) -> set[str] | None:
    """Uploads of JAX and CuPy."""
    named = call.short in ("device_put", "asarray") and call.full.startswith(("jax.", "cupy."))
    return {COPY} if named else None


class Transfers:
    """Methods of tensors and models that copy them, by where they are and where they go."""

    def __init__(self, file: FileContext, loaders: Loaders) -> None:
        self._scopes = file.scopes
        self._devices = file.devices
        self._loaders = loaders

    def moves(self, call: Call) -> set[str] | None:
        """x.to(device), and x.to(dtype), which is work where x is."""
        if call.short != "to" or "." not in call.callee:
            return None
        node = call.node
        given = [*positional(node), *([d] if (d := keyword(node, "device")) else [])]
        if not given or all(self._devices.is_type(arg, call.scope) for arg in given):
            there = self._devices.of(node.children[0], call.scope) == DEVICE
            return {WORK} if there else set()
        if any(re.search(r"[\"']cpu[\"']", arg.text) for arg in given):
            return {READ, COPY}
        return self._upload(node, call.scope)

    def uploads(self, call: Call) -> set[str] | None:
        """x.cuda() and its like."""
        if (
            call.short not in ("cuda", "xpu", "to_device")
            or "." not in call.callee
            or call.callee.startswith("torch.cuda")
        ):
            return None
        return self._upload(call.node, call.scope)

    def copies_into(self, call: Call) -> set[str] | None:
        """x.copy_(y), if what it is told or given says that one side of it is on the host."""
        if call.short != "copy_":
            return None
        ahead = keyword(call.node, "non_blocking")
        if ahead is not None:
            # Who says that a copy blocks has one side of it on the host.
            return {WORK, COPY} if ahead.text != "False" else {BLOCKING, COPY}
        given = positional(call.node)
        if not given:
            return None
        there, here = self._source(call.node, call.scope), self._devices.of(given[0], call.scope)
        if (there, here) == (HOST, DEVICE):
            return {COPY, READ}
        # A copy that is not told to go ahead returns when it is done, be the memory pinned or not.
        uploads = here == HOST != there or self._loaders.holds(given[0], call.scope)
        return {COPY, READ, UPLOAD} if uploads else None

    def _upload(self, node: Node, scope: Scope) -> set[str]:
        waits = keyword(node, "non_blocking")
        if waits is not None and waits.text != "False":
            return {COPY}
        # A copy from pageable memory returns when it is done, behind all that was queued before.
        return set() if self._source(node, scope) == DEVICE else {COPY, READ, UPLOAD}

    def _source(self, node: Node, scope: Scope) -> str:
        """Where the object was, the method of which copies it."""
        function = node.children[0]
        if function.kind == "attribute":
            return self._devices.of(function.children[0], scope)
        if function.kind != "name":
            return UNKNOWN
        key = squeeze(function.text).rpartition(".")[0]
        before = [p for p in self._scopes.assignments(key, scope) if p[1].end < node.start]
        if not before:
            return UNKNOWN
        value = before[-1][1]
        return self._devices.of(value, self._scopes.scope_of(value))

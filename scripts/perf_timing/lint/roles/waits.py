"""Waits of Python: for the device, a stream or an event, and for a thread or another process."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import keyword, positional
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import CLOCK, JOIN, READ, SLEEP, WAIT
from perf_timing.lint.work.devices import RPC


def is_named_wait(short: str) -> bool:
    """Whether a function waits for the device by its name: sync_all, cudaStreamSynchronize."""
    return bool(words.WAIT_NAME.search(short) or words.CPP_ANY_WAIT.search(short))


def waits_for_device(call: Call) -> set[str] | None:
    """What waits for the device, by its module or its name."""
    if call.full in words.PYTHON_WAITS or call.callee in words.PYTHON_WAITS:
        return {WAIT}
    if call.full.startswith("asyncio."):
        return set()  # it waits for what the host does
    if words.CPP_ANY_WAIT.search(call.short):
        return {WAIT}  # cudart.cudaStreamSynchronize(), handle.EventSynchronize()
    if call.short in ("sync", "synchronize") or (
        words.WAIT_NAME.search(call.short) and not words.NO_WAIT_NAME.search(call.short)
    ):
        return {WAIT, CLOCK} if re.search(r"time", call.short) else {WAIT}
    return None


def spawns(call: Call) -> set[str] | None:
    """torch.multiprocessing.spawn joins the processes unless it is told not to."""
    if not call.full.endswith("multiprocessing.spawn"):
        return None
    joins = keyword(call.node, "join")
    return {READ, JOIN} if joins is None or joins.text != "False" else {SLEEP}


class Joins:
    """Waits for a thread, a queue, a handle or another process."""

    def __init__(self, file: FileContext) -> None:
        self._libraries = file.libraries

    def joins(self, call: Call) -> set[str] | None:
        """What such a wait returns: nothing that is on the device still."""
        short = call.short
        method = "." in call.callee
        if short in ("wait", "join", "result") and method and not positional(call.node):
            return {READ, JOIN}
        if words.JOIN_NAME.search(short):
            return {READ, JOIN}  # manager.offload_try_wait(), onboard_wait(handle)
        if call.full == f"{RPC}.rpc_sync" or (short == "to_here" and method):
            return {READ, JOIN}  # it returns when the other process has answered
        if short == "get" and method and not positional(call.node):
            return {READ} if "cupy" in self._libraries else {READ, JOIN}
        if words.OBJECT_COLLECTIVE.search(short):
            return {READ}  # objects of the host are exchanged: it returns when they are there
        return None


def waits_for_all(call: Call) -> set[str] | None:
    """A plain function of such a name waits for whatever is under way."""
    named = call.callee in ("wait", "fence", "drain", "barrier", "finish")
    return {WAIT} if named and not positional(call.node) else None


def sleeps(call: Call) -> set[str] | None:
    """What only lets time go by."""
    return {SLEEP} if call.short == "sleep" else None

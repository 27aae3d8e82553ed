"""Libraries of CUDA and HIP for C++: cuBLAS, CUB, Thrust, TensorRT, libtorch and their like."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import base_name, callee_text, last_segment, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call, is_cpp_method
from perf_timing.lint.roles.cpp_memory import allocated
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import BLOCKING, COPY, LIKELY, SETUP, WAIT, WORK


class CppLibraryCalls:
    """Calls of libraries, by their names."""

    def __init__(self, file: FileContext) -> None:
        self._scopes = file.scopes
        self._text = file.text

    def calls_library(self, call: Call) -> set[str] | None:
        """Functions of the vendors' libraries."""
        short = re.sub(r"\s*<.*", "", call.short, flags=re.DOTALL)
        if words.CPP_LIBRARY_WAITS.match(short):
            return {WAIT}
        if words.CPP_LIBRARY_ON_HOST.match(short):
            return {BLOCKING, COPY}
        if words.CPP_LIBRARY_VALUE.match(short):
            stays = "POINTER_MODE_DEVICE" in self._text
            return {WORK} if stays else {BLOCKING}
        if short.startswith("miopen") and "miopenEnableProfiling(" in self._text:
            # A handle that profiles waits for an event behind each kernel (handlehip.cpp).
            return {BLOCKING} if words.CPP_LIBRARY_WORK.match(short) else None
        if words.CPP_LIBRARY_WORK.match(short):
            return set() if self._draws_on_host(call, short) else {WORK}
        if words.CPP_SPARSE_ITERATES.match(short):
            return {BLOCKING}
        if words.CPP_SPARSE_WORK.match(short):
            return {WORK}
        if words.CPP_LIBRARY_COPY.match(short):
            return {BLOCKING, COPY}
        if words.CPP_LIBRARY_COPY_ASYNC.match(short):
            return {WORK, COPY}
        if words.CPP_CUB.match(call.callee):
            return set() if self.asks_size(call.node) else {WORK}
        if call.callee.startswith("thrust::"):
            return _thrust(call)
        return None

    def _draws_on_host(self, call: Call, short: str) -> bool:
        """Whether random numbers come from a generator that the function makes for the host."""
        made = rf"CreateGeneratorHost\(\s*&?\s*{re.escape(_first_text(call.node))}\s*,"
        return "rand" in short and re.search(made, call.scope.node.text) is not None

    def runs_module(self, call: Call) -> set[str] | None:
        """module.forward(inputs) of libtorch."""
        method = call.short == "forward" and is_cpp_method(call.callee)
        if not method or "torch" not in self._text:
            return None
        return {WORK} if self._is_moved(call.callee) else {WORK, LIKELY}

    def asks_size(self, node: Node) -> bool:
        """Whether a call of CUB asks how much memory it needs: it is given none, and no work."""
        name = base_name(_first_text(node))
        if name in ("nullptr", "NULL", "0"):
            return True
        scope = self._scopes.scope_of(node)
        return any(
            call.start > node.end
            and words.CPP_VENDOR.sub("", last_segment(callee_text(call))) in words.CPP_ALLOC
            and positional(call)
            and allocated(call) == name
            and self._scopes.scope_of(call) is scope
            for call in self._scopes.calls
        )

    def _is_moved(self, callee: str) -> bool:
        """Whether the file moves the module of libtorch whose method is called to a device."""
        moved = rf"\b{re.escape(base_name(callee))}\s*(?:\.|->)\s*to\(\s*([^;]*)"
        told = (found[1] for found in re.finditer(moved, self._text))
        return any(re.search(r"CUDA|[dD]evice", text) and "kCPU" not in text for text in told)


def _first_text(call: Node) -> str:
    """The first argument of a call, or ""."""
    given = positional(call)
    return given[0].text if given else ""


def _thrust(call: Call) -> set[str]:
    """An algorithm of Thrust waits, unless it is told not to and nothing comes back."""
    name = re.sub(r"<.*", "", call.callee)
    if words.CPP_THRUST_TOOLS.search(name):
        return set()
    lazy = "par_nosync" in _first_text(call.node)
    return {WORK} if lazy and not words.CPP_THRUST_VALUE.search(name) else {BLOCKING}


def tries_out(call: Call) -> set[str] | None:
    """Collectives, and what tries out which algorithm is the fastest."""
    if words.COLLECTIVE_CPP.match(call.short):
        return {WORK}
    return {BLOCKING} if words.CPP_TRIES_OUT.match(call.short) else None


def sets_up(call: Call) -> set[str] | None:
    """What makes a handle or a plan."""
    return {SETUP} if words.CPP_SETS_UP.match(call.short) else None


def runs_engine(call: Call) -> set[str] | None:
    """TensorRT's engines."""
    if call.short in ("enqueueV2", "enqueueV3") or _is_enqueued(call):
        return {WORK}
    blocking = call.short in ("executeV2", "execute") and "." not in call.callee
    return {BLOCKING} if blocking else None


def _is_enqueued(call: Call) -> bool:
    """Whether an engine is run on a stream: enqueue(node) is a queue of the host."""
    if call.short != "enqueue" or call.short == call.callee:
        return False
    name = r"context|ctx|engine|exec|trt|plugin|model|infer"
    engine = re.search(name, call.callee, re.IGNORECASE)
    return engine is not None or any("tream" in a.text for a in positional(call.node))

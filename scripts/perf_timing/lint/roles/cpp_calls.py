"""What C++ for CUDA or HIP does: the questions about a call, in the order of asking."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call, cpp_call, first_answer, is_cpp_method
from perf_timing.lint.roles.cpp_library_calls import (
    CppLibraryCalls,
    runs_engine,
    sets_up,
    tries_out,
)
from perf_timing.lint.roles.cpp_memory import CppMemory
from perf_timing.lint.roles.cpp_queues import CppQueues
from perf_timing.lint.roles.cpp_runtime import CppRuntime
from perf_timing.lint.roles.cpp_unseen import CppUnseen, keeps_house
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import (
    BLOCKING,
    CLOCK,
    COMPILE,
    COPY,
    ELAPSED,
    IO,
    JOIN,
    READ,
    RECORD,
    SLEEP,
    WAIT,
    WORK,
)

_STREAM = re.compile(r"(std::)?(cout|cerr|clog)\s*<<")


class CppCalls:
    """Calls, launches, assignments and output of one file."""

    def __init__(self, file: FileContext, runtime: CppRuntime) -> None:
        self._file = file
        self._scopes = file.scopes
        self._runtime = runtime
        self._memory = CppMemory(file)
        self.libraries = CppLibraryCalls(file)
        self.unseen = CppUnseen(file, self._memory)
        queues = CppQueues(file)
        self._questions = (
            self._reads_clock,
            self._calls_runtime,
            _waits_for_device,
            tries_out,
            self.libraries.calls_library,
            _compiles,
            sets_up,
            runs_engine,
            self.libraries.runs_module,
            _handles_event,
            _writes,
            self._memory.fills,
            self._expands_macro,
            _waits,
            _reads,
            queues.submits,
            queues.finishes,
            keeps_house,
            self.unseen.launches,
        )

    def roles(self, node: Node, scope: Scope) -> set[str]:
        """What a node does."""
        if node.kind == "call":
            return first_answer(self._questions, cpp_call(node, scope, self._scopes))
        if node.kind == "launch":
            return {WORK}
        if node.kind in ("assign", "declarator"):
            return self._memory.assigns(node)
        return {IO} if node.kind == "binary" and _streams_out(node) else set()

    def _reads_clock(self, call: Call) -> set[str] | None:
        if not self._is_clock(call):
            return None
        return {CLOCK, WAIT} if self._is_rocm_client_clock(call.short) else {CLOCK}

    def _calls_runtime(self, call: Call) -> set[str] | None:
        """A call of the runtime, or of a macro that is given the name of a wait."""
        if any(words.CPP_WAIT_FUNCTION.fullmatch(a.text) for a in positional(call.node)[:1]):
            return {WAIT}  # CHECK_AND_CALL(cudaDeviceSynchronize)
        vendor = words.CPP_VENDOR.sub("", call.short)
        found = self._runtime.roles(vendor, call.node) if vendor != call.short else None
        return found or None

    def _expands_macro(self, call: Call) -> set[str] | None:
        """A macro of the file, by its text."""
        text = self._scopes.macros.get(call.short)
        if text is None:
            return None
        if re.search(r"(Device|Stream|Event|Thread)Synchronize", text):
            return {WAIT}
        return {WORK} if "<<<" in text else set()

    def _is_clock(self, call: Call) -> bool:
        if call.short == "now":
            named = re.search(r"clock|chrono", call.full, re.IGNORECASE)
            return named is not None or "chrono" in self._file.text
        if words.CPP_CLOCK_HELPER.match(call.callee) and not positional(call.node):
            return True
        return call.full in words.CPP_CLOCKS or call.short in words.CPP_CLOCK_FILLERS

    def _is_rocm_client_clock(self, short: str) -> bool:
        """Whether get_time_us() is that of the clients of ROCm's libraries, which waits first."""
        return bool(re.fullmatch(r"get_time_(us|ms)", short)) and bool(
            re.search(r"\b(roc|hip)(sparse|solver|blas|fft|rand)_", self._file.text)
        )


def _streams_out(node: Node) -> bool:
    """Whether a statement of C++ writes to a stream of the terminal: std::cout << "done"."""
    inside = node.parent is not None and node.parent.kind in ("binary", "args")
    return not inside and _STREAM.match(node.text) is not None


def _waits_for_device(call: Call) -> set[str] | None:
    if words.CPP_ANY_WAIT.search(call.short) or call.short == "glFinish":
        return {WAIT}
    if words.SHOWS_FRAME.search(call.short):
        return {READ, JOIN}  # the queue of frames keeps the host at the pace of the device
    return None


def _compiles(call: Call) -> set[str] | None:
    return {COMPILE} if words.COMPILERS_CPP.search(call.short) else None


def _handles_event(call: Call) -> set[str] | None:
    """Events of libtorch."""
    if call.short == "elapsed_time":
        return {ELAPSED}
    return {RECORD} if call.short == "record" and is_cpp_method(call.callee) else None


def _writes(call: Call) -> set[str] | None:
    return {IO} if call.short in words.IO_CALLS else None


def _waits(call: Call) -> set[str] | None:
    """Waits by their names alone."""
    short = call.short
    if short in ("sleep_for", "usleep", "sleep"):
        return {SLEEP}
    if words.WAIT_NAME.search(short) and not words.NO_WAIT_NAME.search(short):
        return {WAIT}
    if short in ("get", "join", "wait") and is_cpp_method(call.callee):
        return {READ, JOIN}
    # Kokkos::fence(), execution_space().fence("sum")
    given = positional(call.node)
    labelled = len(given) < 2 and all(a.kind == "string" for a in given)
    return {WAIT} if short == "fence" and labelled else None


def _reads(call: Call) -> set[str] | None:
    """Copies to the host by their names alone."""
    if call.short == "item":
        return {READ}
    return {BLOCKING, COPY} if words.COPY_TO_HOST.search(call.short) else None

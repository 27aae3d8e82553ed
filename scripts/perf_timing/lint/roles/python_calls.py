"""What Python does: the questions about a call, in the order of asking."""

from collections.abc import Callable, Sequence

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope
from perf_timing.lint.facts import Node
from perf_timing.lint.roles import host_calls, kernels, library_calls, reads, transfers, waits
from perf_timing.lint.roles.allocations import Allocations, makes_nothing
from perf_timing.lint.roles.calls import Call, Question, first_answer, python_call
from perf_timing.lint.roles.cpp_runtime import CppRuntime
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.host_calls import HostCalls
from perf_timing.lint.roles.inference_calls import InferenceCalls, queues_engine
from perf_timing.lint.roles.kernels import Kernels
from perf_timing.lint.roles.library_calls import LibraryCalls
from perf_timing.lint.roles.loaders import Loaders
from perf_timing.lint.roles.names import CLOCK, COMPILE, ELAPSED, HARNESS, READ, RECORD
from perf_timing.lint.roles.operands import Operands, until_done
from perf_timing.lint.roles.output import Output
from perf_timing.lint.roles.reads import Conversions, Fetches
from perf_timing.lint.roles.training_calls import TrainingCalls
from perf_timing.lint.roles.transfers import Transfers
from perf_timing.lint.roles.waits import Joins

# What reads the time between two events, by its last name: of torch, CuPy, PyCUDA and Numba.
_ELAPSED_TIMES = frozenset(
    {"elapsed_time", "get_elapsed_time", "time_till", "time_since", "event_elapsed_time"}
)


class PythonCalls:
    """Calls and operators of one file."""

    def __init__(
        self, file: FileContext, runtime: CppRuntime, is_work: Callable[[Node, Scope], bool]
    ) -> None:
        self._file = file
        self._loaders = Loaders(file)
        self._kernels = Kernels(file)
        self._host = HostCalls(file)
        self._operands = Operands(file, self._loaders, self._kernels)
        self.libraries = LibraryCalls(file, runtime)
        self.output = Output(file)
        # Each list is about another side of a call; the first that names a role is believed.
        self._sides = (
            (_runs_harness,),
            self._about_waiting(is_work),
            (_handles_event,),
            (self.output.writes,),
            self._about_buffers(),
        )
        self._about_work = self._by_names()
        self._about_others = self._by_kinds()

    def roles(self, node: Node, scope: Scope) -> set[str]:
        """What a node does."""
        if node.kind == "binary":
            return self._operands.operator(node, scope)
        if node.kind != "call":
            return set()
        call = python_call(node, scope, self._file.scopes)
        if call.full in words.PYTHON_CLOCKS:
            return {CLOCK}
        if host_calls.works_on_host(call) is not None:
            return set()
        if host_calls.is_runtime(call.full) and not waits.is_named_wait(call.short):
            if call.short == "empty_cache":
                return {READ}  # it frees device memory, which waits for the device
            return _handles_event(call) or set()
        for questions in self._sides:
            found = first_answer(questions, call)
            if found:
                return found
        return self._work(call)

    def _work(self, call: Call) -> set[str]:
        """What a call gives the device to do."""
        for question in self._about_work:
            found = question(call)
            if found is not None:
                return found
        return until_done(call, first_answer(self._about_others, call), self._file.evidence)

    def _about_waiting(self, is_work: Callable[[Node, Scope], bool]) -> Sequence[Question]:
        """What the host waits for: the device, another thread, or a value that is read."""
        fetches = Fetches(self._file, self._loaders)
        moves = Transfers(self._file, self._loaders)
        conversions = Conversions(self._file, is_work)
        return (
            waits.waits_for_device,
            waits.spawns,
            reads.compares,
            Joins(self._file).joins,
            fetches.fetches,
            fetches.decodes,
            lambda call: reads.counts_rows(call, self._file.scopes),
            transfers.sends,
            waits.waits_for_all,
            moves.moves,
            moves.uploads,
            transfers.puts,
            reads.takes_arrays,
            conversions.casts,
            conversions.collects,
            conversions.summarizes,
            reads.brings_to_host,
            reads.decides,
            reads.sizes,
            waits.sleeps,
            reads.writes_media,
            conversions.measures,
        )

    def _about_buffers(self) -> Sequence[Question]:
        """What is made before there is work: code and buffers."""
        allocations = Allocations(self._file)
        return (_compiles, makes_nothing, allocations.clones, allocations.makes)

    def _by_names(self) -> Sequence[Question]:
        """What gives the device work, or gives it none, by what is called."""
        training = TrainingCalls(self._file)
        inference = InferenceCalls(self._file)
        moves = Transfers(self._file, self._loaders)
        return (
            self._host.handles_data,
            self.libraries.converts_for_mlx,
            self._kernels.launches,
            host_calls.calls_module,
            self.libraries.calls_runtime,
            host_calls.checks_status,
            self.libraries.communicates,
            self._kernels.launches_block,
            kernels.launches_tiles,
            self.libraries.stages,
            self.libraries.applies,
            kernels.replays,
            training.goes_back,
            training.steps,
            inference.predicts,
            inference.runs_session,
            queues_engine,
            host_calls.makes_tokens,
            moves.copies_into,
            training.trains,
        )

    def _by_kinds(self) -> Sequence[Question]:
        """What other calls do, of which `until_done` may know better."""
        return (
            host_calls.calls_method,
            library_calls.computes_arrays,
            self._host.makes_object,
            self._host.keeps_house,
            self._operands.runs_phase,
            self._operands.computes,
        )


def _runs_harness(call: Call) -> set[str] | None:
    """A benchmark helper, which waits and warms up by itself."""
    full = call.full
    if words.HARNESS.search(full):
        return {HARNESS}
    if call.short in ("timeit", "repeat", "autorange") and "." in full:
        if full.startswith("timeit."):
            return None
        # with timeit("forward"): a timer of another file, which neither waits nor repeats.
        parent = call.node.parent
        return None if parent is not None and parent.kind == "item" else {HARNESS}
    return {HARNESS} if full.endswith("cupyx.profiler.benchmark") else None


def _handles_event(call: Call) -> set[str] | None:
    """Events of the device: start.record(), start.elapsed_time(end)."""
    if call.short in _ELAPSED_TIMES:
        return {ELAPSED}
    records = (call.short == "record" and "." in call.callee) or call.short == "record_event"
    return {RECORD} if records else None


def _compiles(call: Call) -> set[str] | None:
    return {COMPILE} if words.COMPILERS.search(call.full) else None

"""Simulated torch.cuda: events, streams, graphs, memory, device properties."""

from __future__ import annotations

import types
import warnings
from typing import Any

from . import tensors
from .active import machine
from .machine import Capture, Mark
from .machine import Stream as Queue

UUID = "8f1d7a52-3c9e-4b1a-9d20-51a3d7c0e100"


def _index(where: Any) -> int:
    if where is None:
        return machine().device
    if isinstance(where, int):
        return where
    index = tensors.device(where).index
    return machine().device if index is None else index


def _need_gpu() -> None:
    if not machine().model.has_gpu:
        raise RuntimeError(
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU "
            "and installed a driver"
        )
    machine().need_context()


class Stream:
    """torch.cuda.Stream"""

    def __init__(
        self, device: Any = None, priority: int = 0, *, _queue: Queue | None = None, **_: Any
    ) -> None:
        _need_gpu()
        self.priority = priority
        if _queue is None:
            machine().host(5.0)
            _queue = machine().new_stream(_index(device))
        self._queue = _queue

    @property
    def cuda_stream(self) -> int:
        return self._queue.stream_id * 4096

    @property
    def stream_id(self) -> int:
        return self._queue.stream_id

    @property
    def device_index(self) -> int:
        return self._queue.device

    @property
    def device(self) -> tensors.device:
        return tensors.device("cuda", self._queue.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._queue is other._queue

    def __hash__(self) -> int:
        return hash(self._queue.stream_id)

    def synchronize(self) -> None:
        machine().sync_until(self._queue.tail_us)

    def query(self) -> bool:
        machine().host(machine().model.event_query_us)
        machine().forbid_in_capture()
        return machine().now >= self._queue.tail_us

    def wait_event(self, event: Event) -> None:
        machine().wait(event._mark, self._queue)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._outer = machine().stream
        machine().current[machine().device] = self._queue
        return self

    def __exit__(self, *_: object) -> None:
        machine().current[machine().device] = self._outer


class ExternalStream(Stream):
    """A stream from its address."""

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any) -> None:
        super().__init__(_queue=machine().streams[stream_ptr // 4096])


class Event:
    """torch.cuda.Event"""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        **newer: Any,
    ) -> None:
        if newer and (set(newer) != {"external"} or machine().model.torch_release < (2, 8)):
            raise TypeError(
                f"Event.__new__() got an unexpected keyword argument '{next(iter(newer))}'"
            )
        machine().host(machine().model.event_create_us)
        self.enable_timing = enable_timing
        self._mark = Mark()

    def record(self, stream: Stream | None = None) -> None:
        _need_gpu()
        machine().record(self._mark, stream._queue if stream is not None else None)

    def wait(self, stream: Stream | None = None) -> None:
        machine().wait(self._mark, stream._queue if stream is not None else machine().stream)

    def query(self) -> bool:
        if not self._mark.recorded:
            return True
        return machine().query(self._mark)

    def synchronize(self) -> None:
        if self._mark.recorded:
            machine().sync_until(self._mark.time_us)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`; torch's own errors."""
        machine().host(1.0)
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        marks = (self._mark, end_event._mark)
        if not all(mark.recorded for mark in marks):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if any(mark.capture is not None for mark in marks):
            raise RuntimeError("CUDA error: invalid argument")
        if any(mark.time_us > machine().now for mark in marks):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return machine().elapsed_us(*marks) / 1e3


class CUDAGraph:
    """torch.cuda.CUDAGraph"""

    def __init__(self, keep_graph: bool = False) -> None:
        if keep_graph and machine().model.torch_release < (2, 8):
            raise TypeError("CUDAGraph.__new__() got an unexpected keyword argument 'keep_graph'")
        _need_gpu()
        self._capture: Capture | None = None
        self._done = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        self._capture = machine().capture_begin(capture_error_mode)

    def capture_end(self) -> None:
        assert self._capture is not None
        machine().capture_end(self._capture)
        self._done = True
        if not self._capture.nodes:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be "
                "captured on wrong "
                "device or stream.",
                stacklevel=2,
            )

    def instantiate(self) -> None:
        machine().host(50.0)

    def replay(self) -> None:
        if not self._done or self._capture is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        machine().replay(self._capture)

    def reset(self) -> None:
        self._done, self._capture = False, None

    def pool(self) -> tuple[int, int]:
        return (0, 1)

    def debug_dump(self, _path: str) -> None:
        machine().host(100.0)

    def enable_debug_mode(self) -> None:
        machine().host(1.0)


class graph:  # noqa: N801 - torch's own spelling
    """torch.cuda.graph: capture everything that the block enqueues."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        **newer: Any,
    ) -> None:
        if newer:
            raise TypeError(
                f"graph.__init__() got an unexpected keyword argument '{next(iter(newer))}'"
            )
        self.cuda_graph, self.pool, self.mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = stream or Stream()

    def __enter__(self) -> None:
        synchronize()
        empty_cache()
        self.capture_stream.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.mode)

    def __exit__(self, *_: object) -> None:
        # As torch: the capture is ended also after an exception, and its own error then comes last.
        try:
            self.cuda_graph.capture_end()
        finally:
            self.capture_stream.__exit__()


def is_available() -> bool:
    return machine().model.has_gpu


def device_count() -> int:
    return machine().model.device_count if machine().model.has_gpu else 0


def current_device() -> int:
    _need_gpu()
    return machine().device


def set_device(where: Any) -> None:
    _need_gpu()
    index = _index(where)
    if not 0 <= index < machine().model.device_count:
        raise RuntimeError("CUDA error: invalid device ordinal")
    machine().device = index


class device:  # noqa: N801
    """torch.cuda.device: context manager."""

    def __init__(self, where: Any) -> None:
        self.index = _index(where)

    def __enter__(self) -> None:
        self.outer = machine().device
        set_device(self.index)

    def __exit__(self, *_: object) -> None:
        machine().device = self.outer


def current_stream(device: Any = None) -> Stream:
    _need_gpu()
    machine().host(0.3)
    return Stream(_queue=machine().stream)


def default_stream(device: Any = None) -> Stream:
    return Stream(_queue=machine().streams[0])


def set_stream(stream: Stream) -> None:
    machine().current[machine().device] = stream._queue


class _NoStream:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def stream(on: Stream | None) -> Any:
    return on if on is not None else _NoStream()


def synchronize(device: Any = None) -> None:
    _need_gpu()
    machine().sync_device()


def is_current_stream_capturing() -> bool:
    return machine().stream.capture is not None


def graph_pool_handle() -> tuple[int, int]:
    return (0, 1)


def get_device_properties(where: Any = None) -> types.SimpleNamespace:
    _need_gpu()
    model = machine().model
    facts: dict[str, Any] = {
        "name": model.name,
        "major": model.compute_capability[0],
        "minor": model.compute_capability[1],
        "total_memory": model.memory_bytes,
        "multi_processor_count": model.sm_count,
        "max_threads_per_multi_processor": 2048,
        "warp_size": 32,
        "L2_cache_size": model.l2_bytes,
        "regs_per_multiprocessor": 65536,
        "uuid": UUID,
    }
    if model.torch_release >= (2, 10):
        facts |= {"memory_clock_rate": 3_201_000, "memory_bus_width": 6144, "clock_rate": 1_980_000}
    return types.SimpleNamespace(**facts)


def get_device_name(where: Any = None) -> str:
    _need_gpu()
    return machine().model.name


def get_device_capability(where: Any = None) -> tuple[int, int]:
    _need_gpu()
    return machine().model.compute_capability


def empty_cache() -> None:
    machine().host(20.0)
    machine().free_blocks.clear()


def mem_get_info(where: Any = None) -> tuple[int, int]:
    machine().host(50.0)
    return machine().model.memory_bytes - machine().allocated, machine().model.memory_bytes


def memory_allocated(where: Any = None) -> int:
    return machine().allocated


def max_memory_allocated(where: Any = None) -> int:
    return machine().peak_allocated


def memory_reserved(where: Any = None) -> int:
    return machine().reserved


def reset_peak_memory_stats(where: Any = None) -> None:
    machine().peak_allocated = machine().allocated


def memory_stats(where: Any = None) -> dict[str, int]:
    return {
        "allocated_bytes.all.current": machine().allocated,
        "allocated_bytes.all.peak": machine().peak_allocated,
        "num_alloc_retries": 0,
        "num_device_alloc": machine().allocations_from_driver,
        "segment.all.allocated": machine().allocations_from_driver,
    }


def _sleep(cycles: int) -> None:
    _need_gpu()
    machine().spin(cycles)


def clock_rate(where: Any = None) -> int:
    machine().host(machine().model.nvml_call_us)
    if not machine().model.has_nvml:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported."
        )
    return int(machine().visible_mhz())


def temperature(where: Any = None) -> int:
    machine().host(machine().model.nvml_call_us)
    return 45


def power_draw(where: Any = None) -> int:
    machine().host(machine().model.nvml_call_us)
    return 300_000


class _Runtime:
    """torch.cuda.cudart()"""

    class cudaError:  # noqa: N801
        success = 0

    def cudaCtxResetPersistingL2Cache(self) -> int:  # noqa: N802
        machine().reset_persisting_l2()
        return 0

    def cudaProfilerStart(self) -> int:  # noqa: N802
        return 0

    def cudaProfilerStop(self) -> int:  # noqa: N802
        return 0

    def cudaDeviceSynchronize(self) -> int:  # noqa: N802
        synchronize()
        return 0


def cudart() -> _Runtime:
    return _Runtime()


def is_initialized() -> bool:
    return machine().context


def init() -> None:
    _need_gpu()


def manual_seed(seed: int) -> None:
    machine().data_rng.seed(seed)


manual_seed_all = manual_seed


def ipc_collect() -> None:
    machine().host(10.0)


def _lazy_init() -> None:
    _need_gpu()


def module() -> types.ModuleType:
    """A fresh torch.cuda."""
    built = types.ModuleType("torch.cuda")
    for name, value in globals().items():
        if getattr(value, "__module__", None) == __name__ and name not in (
            "module",
            "_index",
            "_NoStream",
        ):
            setattr(built, name, value)
    built.OutOfMemoryError = tensors.OutOfMemoryError
    built.CudaError = RuntimeError
    built.StreamContext = _NoStream
    memory = types.ModuleType("torch.cuda.memory")
    for name in (
        "memory_allocated",
        "max_memory_allocated",
        "empty_cache",
        "reset_peak_memory_stats",
    ):
        setattr(memory, name, globals()[name])
    built.memory = memory
    nvtx = types.ModuleType("torch.cuda.nvtx")
    nvtx.range_push = lambda message: machine().host(0.5)
    nvtx.range_pop = lambda: machine().host(0.5)
    nvtx.mark = lambda message: machine().host(0.5)
    nvtx.range = lambda message, *a, **k: _NoStream()
    built.nvtx = nvtx
    return built

"""The simulated machine: one host clock, in-order device streams, an L2 cache, clocks, graphs.

Work is placed on the timeline when it is enqueued: a start time can depend only on in-order streams
and recorded events, so nothing has to be revised later. Times are microseconds of virtual time.
"""

from __future__ import annotations

import bisect
import math
import random
import threading
import time as real_time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from .model import DeviceModel

CAPTURE_ERROR = (
    "CUDA error: operation not permitted when stream is capturing\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
CAPTURE_BROKEN = "CUDA error: operation failed due to a previous error during capture"
CAPTURE_UNJOINED = "CUDA error: capturing stream has unjoined work"


class RunLimit(BaseException):
    """The script would not end. Not an Exception, so that no script swallows it."""


@dataclass
class Kernel:
    """One piece of device work. `us`: all bytes in L2; `cold_us`: none of them."""

    name: str
    us: float
    cold_us: float
    accesses: tuple[tuple[int, int, bool], ...] = ()  # (buffer id, bytes, written)
    kind: str = "kernel"  # kernel | memset | memcpy
    fixed_time: bool = False  # does not follow the SM clock
    persisting: bool = False  # asks for a persisting L2 window


@dataclass
class Node:
    """A captured kernel and the nodes that it waits for."""

    kernel: Kernel
    depends: tuple[int, ...]


@dataclass
class Capture:
    """A capture under way, and afterwards the graph."""

    origin: Stream
    mode: str
    nodes: list[Node] = field(default_factory=list)
    broken: bool = False
    streams: list[Stream] = field(default_factory=list)
    plans: dict[Any, Any] = field(default_factory=dict)
    uploaded: bool = False
    scale: float = 1.0  # of its nodes' times


@dataclass
class Stream:
    """In-order queue. `tail_us`: when everything enqueued so far is finished."""

    stream_id: int
    device: int = 0
    tail_us: float = 0.0
    last: str = ""  # kind of the last thing enqueued: kernel | event | graph
    capture: Capture | None = None
    frontier: tuple[int, ...] = ()  # captured nodes that the next captured node waits for
    forked: bool = False


@dataclass
class Mark:
    """What cudaEventRecord leaves behind."""

    time_us: float = 0.0
    recorded: bool = False
    entry: int = 0  # how many things were enqueued before
    capture: Capture | None = None
    frontier: tuple[int, ...] = ()


class L2:
    """Least recently used, by buffer, with partial residency."""

    def __init__(self, capacity: int, persisting: bool) -> None:
        self.capacity = capacity
        self.persisting = persisting
        self.lines: OrderedDict[int, tuple[int, bool, bool]] = OrderedDict()
        self.total = 0

    def access(
        self, buffer: int, size: int, written: bool, pinned: bool = False
    ) -> tuple[int, int]:
        """Touch a buffer; (bytes that were resident, dirty bytes evicted)."""
        known = self.lines.get(buffer, (0, False, False))
        now = (min(size, self.capacity), known[1] or written, known[2] or pinned)
        self.lines[buffer] = now
        self.lines.move_to_end(buffer)
        self.total += now[0] - known[0]
        # A sweep longer than the cache finds nothing of its previous pass under LRU.
        hit = min(known[0], size) if size <= self.capacity else 0
        evicted = self._evict(buffer) if self.total > self.capacity else 0
        # A written sweep longer than the cache writes back all its bytes, whatever was there.
        return hit, 0 if written and size > self.capacity else evicted

    def _evict(self, newest: int) -> int:
        """Make room, oldest first; the dirty bytes that went."""
        dirty_bytes = 0
        for buffer in list(self.lines):
            size, dirty, pinned = self.lines[buffer]
            excess = self.total - self.capacity
            if excess <= 0:
                break
            if (pinned and self.persisting) or buffer == newest:
                continue
            gone = min(size, excess)
            self.total -= gone
            dirty_bytes += gone if dirty else 0
            if gone == size:
                del self.lines[buffer]
            else:
                self.lines[buffer] = (size - gone, dirty, pinned)
        excess = self.total - self.capacity
        if excess > 0:
            size, dirty, pinned = self.lines[newest]
            self.lines[newest] = (max(0, size - excess), dirty, pinned)
            self.total -= excess
        return dirty_bytes

    def state(self) -> Any:
        """What can be set again."""
        return self.lines.copy(), self.total

    def restore(self, state: Any) -> None:
        self.lines, self.total = state[0].copy(), state[1]

    def reset_persisting(self) -> None:
        self.lines = OrderedDict((b, (s, d, False)) for b, (s, d, _) in self.lines.items())


class Machine:
    """Host clock, streams, cache, clocks, allocator and profiler records of one run."""

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self.rng = random.Random(model.seed)
        self.data_rng = random.Random(model.seed + 1)
        self.now = 1_000_000.0
        self.started_real = real_time.monotonic()
        self.main_thread = threading.get_ident()
        self.calls = 0
        self.streams: list[Stream] = [Stream(0)]
        self.current: dict[int, Stream] = {0: self.streams[0]}
        self.device = 0
        self.context = False
        self.l2 = L2(model.l2_bytes, model.persisting_l2)
        self.queue: deque[float] = deque()
        self.entries = 0  # things enqueued so far, and how many they were at each wait
        self.waits: list[int] = []
        self.last_busy_end = -1e12
        self.load_began = 0.0
        self.heat_us = 0.0
        self.busy_us = 0.0
        self.captures: list[Capture] = []
        self.allocated = 0
        self.peak_allocated = 0
        self.reserved = 0
        self.free_blocks: dict[int, list[int]] = {}
        self.next_buffer = 1
        self.next_correlation = 1
        self.trace: list[dict[str, Any]] | None = None
        self.profile_sessions = 0
        self.loaded: set[str] = set()
        self.executed: dict[str, int] = {}
        self.syncs = 0
        self.allocations_from_driver = 0
        self.ops: dict[str, Any] = {}
        self.dsl: dict[str, dict[str, Any]] = {}

    # --- host -----------------------------------------------------------------------------------
    def host(self, us: float) -> None:
        """Spend host time; every simulated call passes here, so limits are checked here."""
        if self.model.host_jitter and us:
            us *= 1.0 + self.model.host_jitter * self.rng.random()
        self.now += us
        self.calls += 1
        if self.now > self.model.virtual_limit_s * 1e6:
            raise RunLimit(f"more than {self.model.virtual_limit_s:g} virtual seconds")
        if self.calls % 4096 == 0 and (
            real_time.monotonic() - self.started_real > self.model.real_limit_s
        ):
            raise RunLimit(f"more than {self.model.real_limit_s:g} real seconds")

    def sleep(self, seconds: float) -> None:
        if threading.get_ident() != self.main_thread:
            # Another thread waits for the main thread's virtual time, for a bounded real time.
            until, deadline = self.now + seconds * 1e6, real_time.monotonic() + 0.02
            while self.now < until and real_time.monotonic() < deadline:
                real_time.sleep(0.0005)
            return
        self.host(max(0.0, seconds) * 1e6 + 50.0)

    def need_context(self) -> None:
        """The first CUDA call of a process creates the context."""
        if not self.context:
            self.context = True
            self.host(self.model.context_ms * 1e3)

    # --- streams --------------------------------------------------------------------------------
    def new_stream(self, device: int = 0) -> Stream:
        stream = Stream(len(self.streams), device=device, tail_us=0.0)
        self.streams.append(stream)
        return stream

    @property
    def stream(self) -> Stream:
        if self.device not in self.current:
            self.current[self.device] = self.new_stream(self.device)
        return self.current[self.device]

    def capturing(self) -> Capture | None:
        return self.captures[-1] if self.captures else None

    def forbid_in_capture(self, message: str = CAPTURE_ERROR) -> None:
        """Raise as the driver does for a call that a capture forbids, and break the capture."""
        capture = self.capturing()
        if capture is not None and capture.mode != "relaxed":
            capture.broken = True
            raise RuntimeError(message)

    # --- clocks ---------------------------------------------------------------------------------
    def sm_mhz(self) -> float:
        """SM clock while the device is working."""
        model = self.model
        mhz = model.boost_mhz
        ramp, loaded = model.ramp_ms * 1e3, self.last_busy_end - self.load_began
        if 0 <= loaded < ramp:
            mhz *= model.ramp_start + (1.0 - model.ramp_start) * loaded / ramp
        return min(mhz, self._cap_mhz())

    def _cap_mhz(self) -> float:
        model = self.model
        if model.thermal_after_s is not None and self.heat_us > model.thermal_after_s * 1e6:
            return model.thermal_mhz
        if model.power_cap_after_s is not None and self.heat_us > model.power_cap_after_s * 1e6:
            over = self.heat_us / 1e6 - model.power_cap_after_s
            share = min(1.0, over / model.power_cap_fall_s) if model.power_cap_fall_s else 1.0
            return model.boost_mhz - share * (model.boost_mhz - model.power_cap_mhz)
        return model.boost_mhz

    def event_reasons(self) -> int:
        """NVML clock event reasons: 1 idle, 4 power cap, 0x20 software thermal slowdown."""
        model = self.model
        reasons = 0
        if self.now > self.last_busy_end + 2_000.0:
            reasons |= 0x1
        if model.thermal_after_s is not None and self.heat_us > model.thermal_after_s * 1e6:
            reasons |= 0x20
        elif model.power_cap_after_s is not None and self.heat_us > model.power_cap_after_s * 1e6:
            reasons |= 0x4
        return reasons

    def visible_mhz(self) -> float:
        """What NVML reads: the idle clock after a while without work."""
        idle_us = self.now - self.last_busy_end
        if not self.context or idle_us > self.model.idle_reset_s * 1e6:
            return self.model.idle_mhz
        return self.sm_mhz()

    def _begin_load(self, start: float) -> None:
        """Before the clock is read for work that starts now: a long idle time restarts the ramp."""
        idle = start - self.last_busy_end
        if idle > 0:
            self.heat_us = max(0.0, self.heat_us - idle)
        if idle > self.model.idle_reset_s * 1e6:
            self.load_began = self.last_busy_end = start

    def _account(self, start: float, end: float) -> None:
        added = max(0.0, end - max(start, self.last_busy_end))
        self.heat_us += added
        self.busy_us += added
        self.last_busy_end = max(self.last_busy_end, end)

    # --- kernels --------------------------------------------------------------------------------
    def nominal_us(self, kernel: Kernel) -> float:
        """Time at boost clock given what is in L2 now; touches the cache."""
        if not kernel.accesses:
            return kernel.us
        total = hit = dirty = 0
        for buffer, size, written in kernel.accesses:
            got, evicted = self.l2.access(buffer, size, written, pinned=kernel.persisting)
            total, hit, dirty = total + size, hit + got, dirty + evicted
        share = hit / total if total else 1.0
        us = kernel.cold_us + (kernel.us - kernel.cold_us) * share
        if self.model.writeback_fraction and dirty:
            us += self.model.writeback_fraction * dirty / self.model.hbm_bytes_per_us
        return us

    def noisy(self, us: float) -> float:
        if self.model.jitter:
            us *= 1.0 + self.rng.gauss(0.0, self.model.jitter)
        if self.model.spike_probability and self.rng.random() < self.model.spike_probability:
            us += self.model.spike_us * (0.5 + self.rng.random())
        return max(us, 0.0)

    def launch(self, kernel: Kernel, stream: Stream | None = None, host_us: float = 0.0) -> None:
        """Enqueue one kernel as a launch call does."""
        self.need_context()
        stream = stream or self.stream
        if kernel.name not in self.loaded:
            self.loaded.add(kernel.name)
            self.host(self.model.first_call_ms * 1e3)
        began = self.now
        profiled = self.model.profiler_launch_us if self.trace is not None else 0.0
        self.host(host_us + self.model.launch_us + profiled)
        self.executed[kernel.name] = self.executed.get(kernel.name, 0) + 1
        if stream.capture is not None:
            self._capture_node(kernel, stream)
            return
        self._admit()
        start = max(self.now + self.model.submit_latency_us, stream.tail_us + self._gap(stream))
        self._begin_load(start)
        scale = 1.0 if kernel.fixed_time else self.model.boost_mhz / self.sm_mhz()
        end = start + self.noisy(self.nominal_us(kernel) * scale)
        self._account(start, end)
        self._enqueued(stream, "kernel", end)
        if self.trace is not None:
            self._record(kernel, start, end, stream, self._runtime(kernel, began))

    def _gap(self, stream: Stream) -> float:
        if stream.last == "event":
            return self.model.event_kernel_us / 2
        return self.model.eager_gap_us

    def _admit(self) -> None:
        """Block the host while the launch queue is full."""
        queue = self.queue
        while queue and queue[0] <= self.now:
            queue.popleft()
        while len(queue) >= self.model.queue_limit:
            self.now = max(self.now, queue.popleft())

    def _enqueued(self, stream: Stream, kind: str, end: float) -> None:
        stream.tail_us = end
        stream.last = kind
        self.queue.append(end)
        self.entries += 1
        if self.model.serialize_launches:
            self.now = max(self.now, end)

    def spin(self, cycles: float, stream: Stream | None = None) -> None:
        """torch.cuda._sleep: a kernel that spins for so many SM cycles."""
        us = max(0.65, cycles / self.model.boost_mhz)
        self.launch(Kernel("spin_kernel(long)", us, us), stream)

    # --- events ---------------------------------------------------------------------------------
    def record(self, mark: Mark, stream: Stream | None = None) -> None:
        self.need_context()
        stream = stream or self.stream
        self.host(self.model.event_record_us)
        mark.recorded, mark.entry = True, self.entries
        if stream.capture is not None:
            mark.capture, mark.frontier = stream.capture, stream.frontier
            return
        mark.capture = None
        self._admit()
        wait = self.model.event_kernel_us / 2 if stream.last in ("kernel", "graph") else 0.0
        start = max(self.now + self.model.submit_latency_us, stream.tail_us + wait)
        step = self.model.event_resolution_us
        mark.time_us = math.floor(start / step) * step if step else start
        self._enqueued(stream, "event", start + self.model.event_us)

    def elapsed_us(self, start: Mark, end: Mark) -> float:
        """Time between two marks: the first gap is shorter near the end of what was queued."""
        elapsed_us = end.time_us - start.time_us
        at = bisect.bisect_right(self.waits, start.entry)
        behind = (self.waits[at] if at < len(self.waits) else self.entries) - start.entry
        if end.entry - start.entry < 2 or behind < self.model.fetched_ahead:
            return elapsed_us
        return elapsed_us + self.model.fetched_ahead_us

    def query(self, mark: Mark) -> bool:
        self.host(self.model.event_query_us)
        self.forbid_in_capture()
        return self.now >= mark.time_us

    def wait(self, mark: Mark, stream: Stream) -> None:
        """Make a stream wait for a mark; inside a capture this forks or joins it."""
        self.host(self.model.event_query_us)
        if not mark.recorded:
            return
        if mark.capture is not None and mark.capture in self.captures:
            if stream.capture is None:
                stream.capture, stream.forked, stream.frontier = mark.capture, True, ()
                mark.capture.streams.append(stream)
            stream.frontier = tuple(dict.fromkeys(stream.frontier + mark.frontier))
            return
        if stream.capture is None:
            stream.tail_us = max(stream.tail_us, mark.time_us)
        else:
            self.forbid_in_capture(
                "CUDA error: dependency created on uncaptured work in another stream"
            )

    # --- waits ----------------------------------------------------------------------------------
    def sync_until(self, us: float) -> None:
        self.need_context()
        self.forbid_in_capture()
        self.syncs += 1
        self.waits.append(self.entries)
        waited = us > self.now
        self.now = max(self.now, us)
        self.host(self.model.sync_us if waited else self.model.sync_us / 2)
        if self.trace is not None:
            self.trace.append(
                {
                    "name": "cudaDeviceSynchronize",
                    "cat": "cuda_runtime",
                    "start": self.now,
                    "end": self.now + 1,
                }
            )

    def sync_device(self) -> None:
        self.sync_until(max(stream.tail_us for stream in self.streams))

    # --- capture --------------------------------------------------------------------------------
    def capture_begin(self, mode: str) -> Capture:
        stream = self.stream
        if stream.stream_id == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. "
                "(However, after capture, it's ok to "
                "replay them on the default stream.)"
            )
        capture = Capture(stream, mode)
        stream.capture, stream.frontier, stream.forked = capture, (), False
        capture.streams.append(stream)
        self.captures.append(capture)
        return capture

    def _capture_node(self, kernel: Kernel, stream: Stream) -> None:
        capture = stream.capture
        assert capture is not None
        if capture.broken:
            raise RuntimeError(CAPTURE_BROKEN)
        capture.nodes.append(Node(kernel, stream.frontier))
        stream.frontier = (len(capture.nodes) - 1,)

    def capture_end(self, capture: Capture) -> None:
        reached: set[int] = set()
        stack = list(capture.origin.frontier)
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                stack.extend(capture.nodes[node].depends)
        unjoined = any(
            index not in reached for s in capture.streams if s.forked for index in s.frontier
        )
        for stream in capture.streams:
            stream.capture, stream.frontier, stream.forked = None, (), False
        self.captures.remove(capture)
        if capture.broken:
            raise RuntimeError(CAPTURE_BROKEN)
        if unjoined:
            raise RuntimeError(CAPTURE_UNJOINED)
        self.host(50.0 + self.model.graph_instantiate_us_per_node * len(capture.nodes))
        if self.model.graph_spread:
            capture.scale = 1.0 + self.rng.gauss(0.0, self.model.graph_spread)

    def reset_persisting_l2(self) -> None:
        """What the runtime and the driver each have a function for; waits for nothing queued."""
        self.host(5.0)
        self.l2.reset_persisting()

    # --- graph replay ---------------------------------------------------------------------------
    def _plan(self, graph: Capture) -> tuple[list[tuple[float, float]], float]:
        """Start (from the graph's) and length of every node at boost clock; touches the cache."""
        key = tuple(self.l2.lines.items())
        known = graph.plans.get(key)
        if known is None:
            spans: list[tuple[float, float]] = []
            for node in graph.nodes:
                before = [(spans[d], graph.nodes[d].kernel) for d in node.depends]
                ready = max((self._ready(*one) for one in before), default=0.0)
                spans.append((ready, self.nominal_us(node.kernel)))
            total = max((start + us for start, us in spans), default=0.0)
            known = graph.plans[key] = (spans, total, self.l2.state())
        spans, total, state = known
        self.l2.restore(state)
        return spans, total

    def _ready(self, span: tuple[float, float], kernel: Kernel) -> float:
        start, us = span
        gap_us = self.model.graph_gap_us
        if kernel.accesses and us < 10:
            gap_us += self.model.graph_memory_gap_us
        return start + max(us + gap_us, self.model.graph_min_period_us)

    def replay(self, graph: Capture) -> None:
        self.need_context()
        stream = self.stream
        began = self.now
        self.host(self.model.graph_launch_us)
        if stream.capture is not None:
            for node in graph.nodes:
                self._capture_node(node.kernel, stream)
            return
        self._admit()
        gap = self._gap(stream) if stream.tail_us else 0.0
        start = max(self.now + self.model.submit_latency_us, stream.tail_us + gap)
        if not graph.nodes:
            self._enqueued(stream, "graph", start)
            return
        spans, total = self._plan(graph)
        for node in graph.nodes if len(graph.nodes) < 64 else ():
            self.executed[node.kernel.name] = self.executed.get(node.kernel.name, 0) + 1
        begin = start + self.model.graph_start_us
        if not graph.uploaded:
            graph.uploaded = True
            begin += self.model.graph_upload_us
        self._begin_load(begin)
        scale = graph.scale * self.model.boost_mhz / self.sm_mhz()
        if self.trace is None:
            end = begin + self._noisy_total(spans, total) * scale
        else:
            end = self._replay_traced(graph, spans, begin, scale, stream, began)
        self._account(begin, end)
        self._enqueued(stream, "graph", end)

    def _noisy_total(self, spans: list[tuple[float, float]], total: float) -> float:
        if self.model.jitter:
            total += self.rng.gauss(
                0.0, self.model.jitter * math.sqrt(sum(us * us for _, us in spans))
            )
        expected = self.model.spike_probability * len(spans)
        spikes = int(expected) + (self.rng.random() < expected % 1.0)
        return total + sum(self.model.spike_us * (0.5 + self.rng.random()) for _ in range(spikes))

    def _replay_traced(
        self,
        graph: Capture,
        spans: list[tuple[float, float]],
        begin: float,
        scale: float,
        stream: Stream,
        began: float,
    ) -> float:
        runtime = {"name": "cudaGraphLaunch", "start": began, "end": self.now}
        correlation = self._correlation(runtime)
        late, end = 0.0, begin
        for node, (offset, us) in zip(graph.nodes, spans, strict=True):
            took = self.noisy(us)
            start = begin + (offset + late) * scale
            end = max(end, start + took * scale)
            self._record(node.kernel, start, start + took * scale, stream, correlation)
            late += took - us
        return end

    # --- profiler records -----------------------------------------------------------------------
    def _runtime(self, kernel: Kernel, began: float) -> int:
        name = {"memset": "cudaMemsetAsync", "memcpy": "cudaMemcpyAsync"}.get(
            kernel.kind, "cudaLaunchKernel"
        )
        return self._correlation({"name": name, "start": began, "end": self.now})

    def _correlation(self, runtime: dict[str, Any]) -> int:
        correlation = self.next_correlation
        self.next_correlation += 1
        if self.trace is not None:
            self.trace.append(runtime | {"cat": "cuda_runtime", "correlation": correlation})
        return correlation

    def _record(
        self, kernel: Kernel, start: float, end: float, stream: Stream, correlation: int
    ) -> None:
        category = {"memset": "gpu_memset", "memcpy": "gpu_memcpy"}.get(kernel.kind, "kernel")
        assert self.trace is not None
        self.trace.append(
            {
                "name": kernel.name,
                "cat": category,
                "start": start,
                "end": end,
                "stream": 7 if stream.stream_id == 0 else 7 + stream.stream_id,
                "device": stream.device,
                "correlation": correlation,
            }
        )

    # --- memory ---------------------------------------------------------------------------------
    def allocate(self, size: int) -> int:
        """Buffer id from the caching allocator; raises MemoryError when the device is full."""
        self.need_context()
        size = max(512, -(-size // 512) * 512)
        if self.allocated + size > self.model.memory_bytes:
            raise MemoryError(size)
        self.allocated += size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        blocks = self.free_blocks.get(size)
        if blocks:
            self.host(self.model.cached_malloc_us)
            return blocks.pop()
        self.host(self.model.malloc_us)
        self.allocations_from_driver += 1
        self.reserved += size
        self.next_buffer += 1
        return self.next_buffer

    def free(self, buffer: int, size: int) -> None:
        size = max(512, -(-size // 512) * 512)
        self.allocated -= size
        self.free_blocks.setdefault(size, []).append(buffer)

"""Simulated torch.profiler: sessions over the machine's records, and their Chrome trace."""

from __future__ import annotations

import enum
import json
import pathlib
import types
from typing import Any

from .active import machine

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


class DeviceType(enum.Enum):
    """torch.autograd.DeviceType"""

    CPU = 0
    CUDA = 1


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 2
    XPU = 1


class ProfilerAction(enum.Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class TimeRange:
    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FunctionEvent:
    """One record of prof.events(): times in microseconds."""

    def __init__(self, record: dict[str, Any], number: int) -> None:
        on_device = record["cat"] in DEVICE_CATEGORIES
        self.id = record.get("correlation", number)
        self.name = self.key = record["name"]
        self.time_range = TimeRange(record["start"], record["end"])
        self.device_type = DeviceType.CUDA if on_device else DeviceType.CPU
        self.device_index = record.get("device", 0)
        self.device_resource_id = record.get("stream", 1)
        self.count = 1
        self.is_async = False
        self.thread = 1
        self.kernels: list[Any] = []
        self.linked_correlation_id = record.get("correlation", 0)
        length = self.time_range.elapsed_us()
        self.device_time = self.device_time_total = self.self_device_time_total = (
            length if on_device else 0.0
        )
        self.cpu_time = self.cpu_time_total = self.self_cpu_time_total = (
            0.0 if on_device else length
        )
        self.is_user_annotation = record["cat"] == "user_annotation"

    cuda_time = property(lambda self: self.device_time)
    cuda_time_total = property(lambda self: self.device_time_total)


class Averaged:
    """One row of key_averages(); only the device_time names exist, as in torch."""

    def __init__(self, key: str, device_type: DeviceType) -> None:
        self.key, self.device_type, self.count = key, device_type, 0
        self.device_time_total = self.self_device_time_total = self.cpu_time_total = (
            self.self_cpu_time_total
        ) = 0.0

    device_time = property(lambda self: self.device_time_total / max(1, self.count))

    def add(self, event: FunctionEvent) -> None:
        self.count += 1
        self.device_time_total += event.device_time_total
        self.self_device_time_total += event.self_device_time_total
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total


class EventList(list):
    """torch.autograd.profiler_util.EventList"""

    def key_averages(self) -> EventList:
        rows: dict[tuple[str, DeviceType], Averaged] = {}
        for event in self:
            key = (event.name, event.device_type)
            rows.setdefault(key, Averaged(*key)).add(event)
        return EventList(rows.values())

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        return "\n".join(
            f"{row.key}  {row.device_time_total:.3f}us  {row.count}" for row in self[:row_limit]
        )


class KinetoEvent:
    """One record of prof.profiler.kineto_results.events(): times in nanoseconds."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def name(self) -> str:
        return str(self._record["name"])

    def device_type(self) -> DeviceType:
        return DeviceType.CUDA if self._record["cat"] in DEVICE_CATEGORIES else DeviceType.CPU

    def start_ns(self) -> int:
        return round(self._record["start"] * 1e3)

    def duration_ns(self) -> int:
        return round((self._record["end"] - self._record["start"]) * 1e3)

    def end_ns(self) -> int:
        return self.start_ns() + self.duration_ns()

    def correlation_id(self) -> int:
        return int(self._record.get("correlation", 0))

    linked_correlation_id = correlation_id

    def device_index(self) -> int:
        return int(self._record.get("device", 0))

    def device_resource_id(self) -> int:
        return int(self._record.get("stream", 1))

    def is_user_annotation(self) -> bool:
        return bool(self._record["cat"] == "user_annotation")

    def activity_type(self) -> str:
        return str(self._record["cat"])


class profile:  # noqa: N801 - torch's own spelling
    """torch.profiler.profile"""

    def __init__(
        self,
        activities: Any = None,
        schedule: Any = None,
        on_trace_ready: Any = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        **_: Any,
    ) -> None:
        self.activities = set(activities or ProfilerActivity)
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.step_num = 0
        self.records: list[dict[str, Any]] = []
        self.profiler = types.SimpleNamespace(
            kineto_results=types.SimpleNamespace(events=self._kineto)
        )

    def start(self) -> None:
        host = machine()
        host.host(20_000.0)
        if host.trace is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        host.trace = []

    def stop(self) -> None:
        host, model = machine(), machine().model
        host.sync_device()
        host.host(5_000.0)
        records, host.trace = host.trace or [], None
        host.profile_sessions += 1
        lost = model.profile_never_records or (
            model.first_profile_empty and host.profile_sessions == 1
        )
        device = [r for r in records if r["cat"] in DEVICE_CATEGORIES]
        if lost or ProfilerActivity.CUDA not in self.activities:
            device = []
        dropped = {id(r) for r in device[: model.profile_drops_head]}
        kept = {id(r) for r in device} - dropped
        self.records = [r for r in records if r["cat"] not in DEVICE_CATEGORIES or id(r) in kept]
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def step(self) -> None:
        self.step_num += 1
        machine().host(20.0)

    def events(self) -> EventList:
        return EventList(FunctionEvent(record, i) for i, record in enumerate(self.records))

    def _kineto(self) -> list[KinetoEvent]:
        return [KinetoEvent(record) for record in self.records]

    def key_averages(self, **_: Any) -> EventList:
        return self.events().key_averages()

    def export_chrome_trace(self, path: str) -> None:
        """Kineto's fields: ph X, cat, ts and dur in us, args.correlation, .stream, .device."""
        rows = []
        for record in self.records:
            args = {
                "External id": record.get("correlation", 0),
                "correlation": record.get("correlation", 0),
                "device": record.get("device", 0),
            }
            if "stream" in record:
                args["stream"] = record["stream"]
            rows.append(
                {
                    "ph": "X",
                    "cat": record["cat"],
                    "name": record["name"],
                    "pid": record.get("device", 0),
                    "tid": record.get("stream", 1),
                    "ts": round(record["start"], 3),
                    "dur": round(record["end"] - record["start"], 3),
                    "args": args,
                }
            )
        trace = {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": rows}
        pathlib.Path(path).write_text(json.dumps(trace))


class record_function:  # noqa: N801 - torch's own spelling
    """A named range; also on the device timeline as gpu_user_annotation."""

    def __init__(self, name: str, args: Any = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        machine().host(2.0)
        self.began = machine().now
        self.tail = machine().stream.tail_us
        return self

    def __exit__(self, *_: object) -> None:
        host = machine()
        ended = host.now
        host.host(2.0)
        if host.trace is not None:
            host.trace.append(
                {"name": self.name, "cat": "user_annotation", "start": self.began, "end": ended}
            )
            host.trace.append(
                {
                    "name": self.name,
                    "cat": "gpu_user_annotation",
                    "start": max(self.tail, self.began),
                    "end": host.stream.tail_us,
                    "stream": 7 + host.stream.stream_id,
                }
            )


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0) -> Any:
    return lambda step: ProfilerAction.RECORD


def module() -> types.ModuleType:
    """A fresh torch.profiler."""
    built = types.ModuleType("torch.profiler")
    for name in (
        "profile",
        "record_function",
        "ProfilerActivity",
        "ProfilerAction",
        "schedule",
        "DeviceType",
    ):
        setattr(built, name, globals()[name])
    built.supported_activities = lambda: set(ProfilerActivity)
    return built

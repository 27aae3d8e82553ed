"""Operations whose GPU time is known apart from the methods under test, and that truth.

The truth of an operation is what CUPTI records for its kernels (through torch.profiler), read
here by code that shares nothing with the templates; for clock-spinning kernels and copies
there are bounds from the clock and from the datasheet besides.
"""

import json
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Set-up code of the operations, one string for each, so that a rendered script holds only its own.
_ADD = """
import torch

torch.manual_seed(0)
a, b, c = (torch.rand({n}, device="cuda") for _ in range(3))
"""
_MATMUL = """
import torch

torch.manual_seed(0)
a, b, c = (torch.rand({n}, {n}, device="cuda").sub_(0.5).bfloat16() for _ in range(3))
"""
_COPY = """
import torch

a = torch.ones({n}, dtype=torch.int8, device="cuda")
c = torch.empty_like(a)
"""
_SOFTMAX = """
import torch

torch.manual_seed(0)
x = torch.rand(4096, {n}, device="cuda")


def softmax(x):
    shifted = x - x.amax(1, keepdim=True)
    exponents = shifted.exp()
    return exponents / exponents.sum(1, keepdim=True)
"""
_SLOW_PYTHON = """
import time

import torch

a = torch.rand(2**20, device="cuda")


def slow():
    until = time.perf_counter() + 50e-6
    while time.perf_counter() < until:
        pass
    torch.cuda._sleep(9000)
"""
_SIDE = """
import torch

side = torch.cuda.Stream()
a = torch.ones(2**20, device="cuda")


def forgets_side_stream():
    torch.cuda._sleep(500_000)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(700_000)
"""
_SYNC = """
import torch

a = torch.ones(2**22, device="cuda")


def synchronizes():
    return a.sum().item()
"""
_CHEAT = """
import torch

a = torch.ones(2**22, device="cuda")
cache = {}


def cached():
    if "result" not in cache:
        cache["result"] = a.sin()
    return cache["result"]
"""
_PERSISTING = """
import ctypes

import torch

x = torch.rand(2**20, device="cuda")
total = torch.empty((), device="cuda")
runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


class Window(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("num_bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit_property", ctypes.c_int),
        ("miss_property", ctypes.c_int),
        ("padding", ctypes.c_char * 32),
    ]


def persisting():
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    window = Window(x.data_ptr(), x.nbytes, 1.0, 2, 1)
    assert runtime.cudaStreamSetAttribute(stream, 1, ctypes.byref(window)) == 0
    torch.sum(x, 0, out=total)
    window = Window(0, 0, 0.0, 0, 0)
    assert runtime.cudaStreamSetAttribute(stream, 1, ctypes.byref(window)) == 0
"""
_HOT = """
import time

import torch

torch.manual_seed(0)
a, b, c = (torch.randn(8192, 8192, device="cuda").bfloat16() for _ in range(3))
until = time.perf_counter() + 4
while time.perf_counter() < until:  # the card heats up
    torch.matmul(a, b, out=c)
    torch.cuda.synchronize()
"""
_EMPTY = """
import torch

a = torch.ones(16, device="cuda")


def nothing():
    return a
"""


@dataclass(frozen=True)
class Operation:
    """`kind`: "op" (a figure is wanted) or "trap" (a flag, or a figure that is right)."""

    name: str
    setup: str
    call: str
    bytes: int | None = None
    flops: int | None = None
    kind: str = "op"


def _add(power: int) -> Operation:
    n = 2**power
    return Operation(f"add 2^{power}", _ADD.format(n=n), "torch.add(a, b, out=c)", bytes=3 * 4 * n)


def _matmul(n: int) -> Operation:
    return Operation(
        f"matmul {n}", _MATMUL.format(n=n), "torch.matmul(a, b, out=c)", flops=2 * n**3
    )


def _copy(mebibytes: int) -> Operation:
    n = mebibytes * 2**20
    return Operation(f"copy {mebibytes} MiB", _COPY.format(n=n), "c.copy_(a)", bytes=2 * n)


def _spin(cycles: int, about: str) -> Operation:
    return Operation(f"spin {about}", "import torch", f"torch.cuda._sleep({cycles})")


OPERATIONS = (
    _add(12),
    _add(18),
    _add(22),
    _add(25),
    _matmul(256),
    _matmul(1024),
    _matmul(8192),
    Operation("softmax 512", _SOFTMAX.format(n=512), "softmax(x)"),
    Operation("softmax 4096", _SOFTMAX.format(n=4096), "softmax(x)"),
    _spin(1000, "1 us"),
    _spin(9_000, "5 us"),
    _spin(38_000, "20 us"),
    _spin(196_000, "100 us"),
    _spin(9_900_000, "5 ms"),
    _copy(1),
    _copy(8),
    _copy(64),
    _copy(512),
    Operation("slow Python", _SLOW_PYTHON, "slow()"),
    Operation("side stream", _SIDE, "forgets_side_stream()", kind="trap"),
    Operation("synchronizes", _SYNC, "synchronizes()", kind="trap"),
    Operation("cached result", _CHEAT, "cached()", kind="trap"),
    Operation("persisting L2", _PERSISTING, "persisting()", kind="trap"),
    Operation("hot matmul 8192", _HOT, "torch.matmul(a, b, out=c)", flops=2 * 8192**3, kind="trap"),
    Operation("empty", _EMPTY, "nothing()", kind="trap"),
)


def load(operation: Operation) -> Callable[[], Any]:
    """The operation as a callable, its set-up run."""
    namespace: dict[str, Any] = {}
    exec(operation.setup, namespace)
    return eval(f"lambda: {operation.call}", namespace)


def flush_function() -> Callable[[], Any]:
    """The 256 MiB write flush that the truth of a cold call is read after."""
    import torch

    return torch.empty(2**28, dtype=torch.int8, device="cuda").zero_


def cupti_us(
    call: Callable[[], Any], flush: Callable[[], Any] | None, count: int
) -> dict[str, Any]:
    """Median over `count` calls of their kernels' time in us, and the kernels a call.

    {"busy_us": time with at least one kernel running, "kernels": number}. Activities are told
    apart by their order: every call has the same number, the flush is one and comes first.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(count):
                if flush:
                    flush()
                call()
            torch.cuda.synchronize()
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    spans = sorted((e["ts"], e["dur"]) for e in events if e.get("cat") in kinds)
    if len(spans) % count:
        print(f"{len(spans)} activities in {count} calls: some were lost", file=sys.stderr)
    each = len(spans) // count
    calls = [spans[i * each + bool(flush) : (i + 1) * each] for i in range(count)]
    busy = [_union_us(activities) for activities in calls]
    return {"busy_us": statistics.median(busy), "kernels": each - bool(flush)}


def _union_us(spans: list[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for start, duration in sorted(spans):
        total += max(0.0, start + duration - max(start, until))
        until = max(until, start + duration)
    return total

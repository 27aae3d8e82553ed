"""The virtual `time` module."""

from __future__ import annotations

import time as real
import types

from .active import machine

EPOCH_S = 1_700_000_000.0


def _read_us() -> float:
    machine().host(machine().model.clock_read_us)
    return machine().now


def module() -> types.ModuleType:
    """time with every clock read from the virtual host clock."""
    built = types.ModuleType("time")
    for name in (
        "gmtime",
        "localtime",
        "strftime",
        "struct_time",
        "asctime",
        "ctime",
        "mktime",
        "timezone",
    ):
        setattr(built, name, getattr(real, name))
    built.perf_counter = lambda: _read_us() / 1e6
    built.perf_counter_ns = lambda: round(_read_us() * 1e3)
    built.monotonic, built.monotonic_ns = built.perf_counter, built.perf_counter_ns
    built.process_time, built.process_time_ns = built.perf_counter, built.perf_counter_ns
    built.thread_time = built.perf_counter
    built.time = lambda: EPOCH_S + _read_us() / 1e6
    built.time_ns = lambda: round((EPOCH_S * 1e6 + _read_us()) * 1e3)
    built.sleep = lambda seconds: machine().sleep(seconds)
    return built

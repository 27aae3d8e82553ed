"""Where times come from, and in which unit: clocks, event times, benchmark helpers, chrono."""

import re

from perf_timing.lint.code.scopes import last_segment, positional
from perf_timing.lint.code.vocabulary import CPP_CLOCKS, PYTHON_CLOCKS
from perf_timing.lint.facts import Node
from perf_timing.lint.units.quantities import SECONDS, Quantity, Several, Value, time

# Functions by their last name, where the name alone says enough.
_BY_LAST_NAME = {
    "elapsed_time": "ms",
    "get_elapsed_time": "ms",
    "event_elapsed_time": "ms",
    "sdkGetTimerValue": "ms",
    "sdkGetAverageTimerValue": "ms",
    "total_seconds": "s",
    "time_sync": "s",  # the helpers of YOLO and its many descendants
    "time_synchronized": "s",
    "default_timer": "s",
}
_BY_FULL_NAME = re.compile(r"(^|\.)(cutlass|cute)\.testing\.benchmark$")
_MEASUREMENT = frozenset({"blocked_autorange", "adaptive_autorange"})
# Attributes of torch profiler rows, in microseconds.
PROFILER_ROW = re.compile(r"^(self_)?(cpu|cuda|device|xpu)_time(_total)?$")
FIELDS = {"tv_sec": "s", "tv_usec": "us", "tv_nsec": "ns"}
# The ratio of a duration's type to a second: microseconds::period::num, and ::den = 1,000,000;
# std::micro is that ratio.
PERIOD = re.compile(r"\b(?:std::)?(nano|micro|milli|)(?:seconds::period)?::(num|den)$")
PERIODS = {"nano": "1e9", "micro": "1e6", "milli": "1e3"}
# The first argument of these is filled with milliseconds.
FILLS_MS = re.compile(r"^(cuda|hip|cu|musa|mc)EventElapsedTime(_v2)?$")

# Without one of these in a file, nothing in it has a known unit.
_MAY_TIME = (
    *("perf_counter", "monotonic", "process_time", "thread_time", "time.time", "from time import"),
    *("import time", "elapsedTime", "elapsedtime", "elapsed_time", "elapsed_Time", "ElapsedTime"),
    *("do_bench", "bench_gpu_time", "timeit", "default_timer", "autorange", "total_seconds"),
    *("testing.benchmark", "time_sync", "_time_total", "device_time", "tv_sec", "tv_usec"),
    *("tv_nsec", "Wtime", "omp_get_wtime", "TimerValue", "GetTickCount", "CurrentTimeNanos"),
)
_CPP_MAY_TIME = (
    re.compile(r"chrono(?<!\wchrono)\b"),
    re.compile(r"clock(?<!\wclock)\s*\("),
)
# Helpers of other files whose name says that they read a clock in seconds.
_SECONDS_NOW = re.compile(r"\b(cpu_?|my)?[sS]econds?\s*\(\s*\)")
_SECONDS_CALL = re.compile(r"econds?\s*\(\s*\)")


def may_time(text: str, language: str) -> bool:
    """Whether anything in the text may have a known unit of time."""
    if any(word in text for word in _MAY_TIME):
        return True
    if any(pattern.search(text) for pattern in _CPP_MAY_TIME):
        return True
    return language == "cuda" and any(
        _SECONDS_NOW.search(text, max(0, call.start() - len("cpu_s")), call.end())
        for call in _SECONDS_CALL.finditer(text)
    )


_PERIOD = {
    "nanoseconds": -9.0, "microseconds": -6.0, "milliseconds": -3.0, "seconds": 0.0,
    "minutes": 1.778, "hours": 3.556, "nano": -9.0, "micro": -6.0, "milli": -3.0,
}  # fmt: skip
_DURATION = re.compile(r"\bduration\s*<\s*[\w\s:]+?(?:,\s*(?P<period>[\w:<>, ]+?))?\s*>\s*>*\s*$")


def of_call(name: str, full: str, call: Node, torch_timers: bool) -> Value:
    """What the call of `name` (`full` with imports resolved) returns, if it is a time.

    `torch_timers` says that the file uses torch.utils.benchmark, whose timeit returns an object.
    """
    last = last_segment(name)
    if call.tree.language == "cuda":
        return _of_cpp_call(last, full, call)
    unit = PYTHON_CLOCKS.get(full)
    if unit in SECONDS:
        return time(unit, call)
    if last in _MEASUREMENT or (last == "timeit" and torch_timers):
        return time("s", call, "measurement")
    if full in ("timeit.timeit", "timeit.repeat") or last == "timeit":
        return time("s", call)
    if _BY_FULL_NAME.search(full):
        return time("us", call)
    if FILLS_MS.match(last):
        return Several((None, time("ms", call)))
    if re.fullmatch(r"do_bench(_\w+)?|bench_gpu_time(_\w+)?", last):  # Triton and FlashInfer
        return time("ms", call)
    if last in _BY_LAST_NAME:
        return time(_BY_LAST_NAME[last], call)
    return None


def _of_cpp_call(last: str, full: str, call: Node) -> Value:
    if call.child("targs") is not None and full in CPP_CLOCKS:
        return None  # time<milliseconds>(f) is a template of the program, no clock of the library
    unit = CPP_CLOCKS.get(full)
    if unit in SECONDS:
        return time(unit, call)
    if unit == "ticks":
        return time("s", call, "ticks")
    if last == "now" and re.search(r"[cC]lock(::|$)", full.rpartition("now")[0]):
        return time("ns", call, "point")
    # One of many classes with a method of this name; only events are asked with another event.
    unknown = last in ("elapsed_time", "get_elapsed_time") and len(positional(call)) != 1
    if last in _BY_LAST_NAME and not unknown:
        return time(_BY_LAST_NAME[last], call)
    if _SECONDS_NOW.fullmatch(" ".join(call.text.split())):
        return time("s", call)
    return None


def duration_exponent(type_text: str, aliases: dict[str, str]) -> float | None:
    """The unit of a C++ duration type: -3 for `std::chrono::milliseconds`, `duration<T, milli>`."""
    text = " ".join(type_text.split())
    last = last_segment(text)
    seen = 0
    while re.fullmatch(r"\w+", last) and last in aliases and seen < 4:
        text, seen = aliases[last], seen + 1
        last = last_segment(text)
    found = _DURATION.search(text)
    if found:
        period = found["period"]
        return _PERIOD.get(last_segment(period)) if period else 0.0
    word = re.fullmatch(r"(?:const )?(?:std::)?(?:chrono::)?(\w+?)(?: const)?[ &]*", text)
    if word and word[1] in _PERIOD and word[1].endswith("s"):
        return _PERIOD[word[1]]
    return None


def duration(exponent: float, origin: Node) -> Quantity:
    """A C++ duration whose count() is a time with `exponent`."""
    return Quantity("duration", frozenset({exponent}), origin=origin)

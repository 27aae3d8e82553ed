"""What makes a figure untrustworthy, as its writer noticed or as the figures themselves show."""

from collections.abc import Mapping
from typing import Any

from perf_timing.report.estimates import median
from perf_timing.report.record import Flag, Record

# The figure is not the operation's device time, so no verdict can rest on it.
WITHHOLDING = {
    "host-bound": "the figure is launch cost",
    "below-floor": "the figure is below what the method can resolve",
    "above-peak": "the figure is faster than the device can be",
    "other-stream": "work is missing from the figure",
    "not-cold": "the cache was not as stated",
    "disagrees": "CUPTI records more time than the figure",
    "synchronizes": "the figure holds host waits",
    "cached-result": "the call returned an earlier result",
    "empty-work": "the call did no device work",
    "outputs-differ": "the versions do not compute the same",
}

DATA_BOUND_SHARE = 0.2  # of the step time, spent waiting for data
CLOCK_DRIFT = 0.02
PEAK_DOUBT = 0.02  # a peak is made from clocks as the driver rounds them


def why_withheld(record: Record, flag: Flag) -> str | None:
    """Why no verdict can rest on a record with this flag, None where one can."""
    if flag.code == "other-stream" and record.data["method"] == "device-span":
        return None  # a window over the whole device holds the work of every stream
    return WITHHOLDING.get(flag.code)


def all_flags(record: Record) -> tuple[Flag, ...]:
    """Flags that the record carries, and those that its own figures call for."""
    flags = list(record.flags)
    carried = {flag.code for flag in flags}
    for flag in _found_flags(record):
        if flag.code not in carried:
            flags.append(flag)
    return tuple(flags)


def _found_flags(record: Record) -> list[Flag]:
    data = record.data
    found = []
    if data.get("host_bound"):
        found.append(Flag("host-bound", "launch cost, not device time: use cuda-graph"))
    if data.get("converged") is False:
        found.append(Flag("not-converged", "the interval is wider than was asked for"))
    if record.kind == "op" and median(record.samples_us) <= 0:
        found.append(Flag("below-floor", "the median is not above zero: no time was resolved"))
    if data.get("outputs_match") is False:
        found.append(Flag("outputs-differ", "the variants do not compute the same"))
    clocks = clock_trace_mhz(record)
    if len(clocks) > 1 and max(clocks) > (1 + CLOCK_DRIFT) * min(clocks):
        text = f"SM clock moved between {min(clocks):.0f} and {max(clocks):.0f} MHz"
        found.append(Flag("clock-drift", text))
    return [*found, *_above_peak(data), *_loop_flags(record)]


def _loop_flags(record: Record) -> list[Flag]:
    data = record.data
    found = []
    # A writer that knows more than the two figures has judged: the device may work meanwhile.
    judged = any(flag.code.startswith("data-") for flag in record.flags)
    share = data_wait_over_step(data)
    if share is not None and share > DATA_BOUND_SHARE and not judged:
        text = f"data wait is {share:.2f} of step time, over {DATA_BOUND_SHARE:g}"
        found.append(Flag("data-bound", text))
    ranks, size = data.get("ranks"), data.get("world_size")
    if ranks is not None and size is not None and len(ranks) < size:
        missing = sorted(set(range(min(int(size), 4096))) - {int(r["rank"]) for r in ranks})
        names = ", ".join(map(str, missing[:16])) + (", ..." if len(missing) > 16 else "")
        found.append(Flag("missing-ranks", f"no answer from rank {names}"))
    return found


def data_wait_over_step(data: Mapping[str, Any]) -> float | None:
    """Data wait of a loop over its step time, None where unknown."""
    for key in ("data_wait_over_step", "data_wait_share"):
        if data.get(key) is not None:
            return float(data[key])
    return None


def _above_peak(data: Mapping[str, Any]) -> list[Flag]:
    """A rate above the peak cannot be true, save for bytes that a warm cache holds."""
    found = []
    for key, work, unit in (("gb_per_s", "bytes", "GB/s"), ("tflop_per_s", "flops", "TFLOP/s")):
        rate, peak = throughput(data, key), data.get(f"peak_{key}")
        if (
            rate
            and peak
            and rate > (1 + PEAK_DOUBT) * peak
            and not (work == "bytes" and data.get("cache") != "cold")
        ):
            text = f"{rate:.4g} {unit} is more than the device's peak of {peak:.4g}"
            found.append(Flag("above-peak", text))
    return found


def throughput(data: Mapping[str, Any], key: str) -> float | None:
    """GB/s or TFLOP/s (`key` is "gb_per_s" or "tflop_per_s") from the median of an op's samples."""
    work, scale = {"gb_per_s": ("bytes", 1e3), "tflop_per_s": ("flops", 1e6)}[key]
    amount = data.get(work)
    middle = median(data["samples_us"]) if amount and "samples_us" in data else 0.0
    return amount / (middle * scale) if amount and middle > 0 else None


def clock_trace_mhz(record: Record) -> list[float]:
    """SM clocks that were read beside the samples."""
    return [point[1] for point in record.data.get("clock_trace") or () if point[1] > 0]

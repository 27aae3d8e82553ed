"""Numbers as a person reads them: four significant digits, a unit on each, ASCII only."""

import math
from collections.abc import Sequence

from perf_timing.report.estimates import Interval, Summary

_UNITS = (("s", 1e6), ("ms", 1e3), ("us", 1.0))
DIGITS = 4
_TIME_DIGITS = 5  # of a figure with its spread: the fourth still differs between versions


def fixed(value: float, digits: int = DIGITS) -> str:
    """`value` with as many decimals as make `digits` significant ones, never fewer than none."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}" if value == 0 else str(value)
    if abs(value) >= 1e7 or abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{_decimals(value, digits)}f}"


def _decimals(value: float, digits: int) -> int:
    if value == 0:
        return digits - 1
    # Rounding first, so that 9.9999 counts as 10.00 and not as 9.9999.
    exponent = int(f"{abs(value):.{digits - 1}e}".split("e")[1])
    return max(0, digits - 1 - exponent)


def unit(value_us: float) -> tuple[str, float]:
    """Name of the unit that suits a time, and how many us it holds."""
    for name, scale in _UNITS:
        if value_us >= scale * 0.99995:
            return name, scale
    return _UNITS[-1]


def time(value_us: float) -> str:
    """93.21 us, 12.35 ms, 1.204 s."""
    name, scale = unit(value_us)
    return f"{fixed(value_us / scale)} {name}"


def latency(summary: Summary) -> str:
    """Median, IQR and count: 93.207 +/- 0.350 us (n=100)."""
    name, scale = unit(summary.median)
    value = summary.median / scale
    decimals = min(_decimals(value, _TIME_DIGITS), 6)
    spread = f"{summary.iqr / scale:.{decimals}f}"
    return f"{value:.{decimals}f} +/- {spread} {name} (n={summary.n})"


def times(values_us: Sequence[float], like_us: float) -> str:
    """Several times in the unit and with the decimals of `like_us`: 92.900 .. 93.900 us."""
    name, scale = unit(like_us)
    decimals = min(_decimals(like_us / scale, _TIME_DIGITS), 6)
    return " .. ".join(f"{value / scale:.{decimals}f}" for value in values_us) + f" {name}"


def interval(bounds: Interval | None, like_us: float) -> str:
    """Bounds of a time, or the word none."""
    return times(bounds, like_us) if bounds else "none"


def share_of(value: float, whole: float | None) -> str:
    """2160 (45.0 %): a rate and its share of the peak where that is known."""
    return f"{fixed(value)} ({percent(value / whole)})" if whole else fixed(value)


def percent(share: float) -> str:
    """45.0 %."""
    return f"{share * 100:.1f} %"


def ratio(value: float) -> str:
    """1.0312: enough decimals for a difference of 0.01 %."""
    return f"{value:.4f}" if 1e-3 < value < 1e3 else f"{value:.4g}"


def difference(value: float) -> str:
    """By how much a ratio of times is off one, in percent of the baseline: 3.1 %."""
    return f"{abs(value - 1) * 100:.{1 if abs(value - 1) >= 0.001 else 2}f} %"


def count(amount: float, noun: str) -> str:
    """1 call, 20 calls."""
    return f"{amount:g} {noun}{'' if amount == 1 else 's'}"


def size(amount: float) -> str:
    """12.3 GiB."""
    for name, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount >= scale:
            return f"{amount / scale:.1f} {name}"
    return f"{amount:.0f} B"


def printable(text: object) -> str:
    """One line without control characters, which a terminal would obey."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)

"""Median, its confidence interval, and the ratio of two medians, for samples taken in sequence.

Samples of a benchmark are not independent: clocks, heat and caches carry over from one to the next.
Intervals here widen by as much as the samples depend on each other.

Sources of the methods:

* interval of the median by order statistics: David and Nagaraja, Order Statistics (3rd ed.), 7.1;
* for dependent samples, the spread of the share of samples below the median takes the place of the
  binomial one: Heidelberger and Lewis, Operations Research 32 (1984), 185-209;
* that spread by a Bartlett kernel of 1.3 sqrt(n) lags with fixed-b critical values: Lazarus, Lewis,
  Stock and Watson, JBES 36 (2018), 541-559; the values are from Kiefer and Vogelsang, Econometric
  Theory 21 (2005), 1130-1164;
* interval of a ratio from the two intervals of its parts (MOVER, on the logarithms): Donner and
  Zou, Statistical Methods in Medical Research 21 (2012), 347-359.

tests/report/test_report_estimates.py shows the coverage by simulation.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Fewer samples have no 95 % interval of the median: the range of five covers it in 93.75 %.
MIN_SAMPLES_FOR_INTERVAL = 6

# Fewer samples cannot show how they depend on each other; their range is the interval at most.
SAMPLES_THAT_SHOW_DRIFT = 20

# A picosecond, in us: light crosses a third of a millimetre. Less is no time that was measured.
_NO_TIME_US = 1e-6


class Interval(NamedTuple):
    """A closed interval, in the unit of what it was made from."""

    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """Candidate's median over the baseline's; `interval` (95 %) is None where there is none."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Summary:
    """Statistics of samples, in their unit. No sample is left out; `outliers` are only counted."""

    n: int
    median: float
    ci95: Interval | None
    mean: float
    std: float
    minimum: float
    maximum: float
    p5: float
    p95: float
    iqr: float
    outliers: int


def quantile(ordered: Sequence[float], level: float) -> float:
    """Quantile of sorted samples by linear interpolation; raises ValueError without samples."""
    if not ordered:
        raise ValueError("a quantile needs at least one sample")
    position = level * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    part = position - below
    return ordered[below] * (1 - part) + ordered[above] * part


def median(samples: Sequence[float]) -> float:
    """Middle of the samples; raises ValueError without samples."""
    return quantile(sorted(samples), 0.5)


def summarize(samples: Sequence[float], doubt_us: float = 0.0) -> Summary:
    """Every figure that a report shows; raises ValueError without samples."""
    ordered = sorted(samples)
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    fence = 1.5 * (high - low)  # Tukey's
    mean = math.fsum(ordered) / len(ordered)
    square = math.fsum((value - mean) ** 2 for value in ordered)
    return Summary(
        n=len(ordered),
        median=quantile(ordered, 0.5),
        ci95=median_ci95(samples, doubt_us),
        mean=mean,
        std=math.sqrt(square / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
        minimum=ordered[0],
        maximum=ordered[-1],
        p5=quantile(ordered, 0.05),
        p95=quantile(ordered, 0.95),
        iqr=high - low,
        outliers=sum(not low - fence <= value <= high + fence for value in ordered),
    )


def median_ci95(samples: Sequence[float], doubt_us: float = 0.0) -> Interval | None:
    """95 % interval of the median of samples given in the order of measurement.

    Wider by `doubt_us`, to within which is known what was subtracted from all of them. Never
    narrower than the interval for independent samples, nor than the resolution of the clock
    that took them. None below MIN_SAMPLES_FOR_INTERVAL, and where the samples drift so much that
    their whole range does not hold the median with that confidence.
    """
    n = len(samples)
    if n < MIN_SAMPLES_FOR_INTERVAL:
        return None
    ordered = sorted(samples)
    rank = min(_independent_rank(n), _dependent_rank(samples, quantile(ordered, 0.5)))
    if rank < 1 and n >= SAMPLES_THAT_SHOW_DRIFT:
        return None
    rank = max(rank, 1)
    beyond = resolution(ordered) / 2 + doubt_us
    return Interval(ordered[rank - 1] - beyond, ordered[n - rank] + beyond)


def _independent_rank(n: int) -> int:
    """Largest r with P(r-th smallest <= median <= r-th largest) >= 95 %, by the binomial law."""
    log_half_n = n * math.log(2)
    tail, rank = 0.0, 0
    while True:
        # P(exactly `rank` of n below the median), through logarithms: 2**n overflows.
        chance = math.lgamma(n + 1) - math.lgamma(rank + 1) - math.lgamma(n - rank + 1)
        tail += math.exp(chance - log_half_n)
        if tail > 0.025:
            return rank
        rank += 1


def _dependent_rank(samples: Sequence[float], middle: float) -> int:
    """The same rank from the long-run variance of being below the median; below 1 if none."""
    n = len(samples)
    lags = min(n, math.ceil(1.3 * math.sqrt(n)))
    side = [(value > middle) - (value < middle) for value in samples]
    share = lags / n
    critical = 1.96 + 2.9694 * share + 0.416 * share**2 - 0.5324 * share**3
    # A side is twice the indicator "below the median" (less a constant), so its spread is halved.
    half_width = critical * math.sqrt(_long_run_variance(side, lags) / n) / 2
    return math.floor(n * (0.5 - half_width))


def _long_run_variance(values: Sequence[float], lags: int) -> float:
    """Bartlett-weighted sum of autocovariances about zero, as the mean square of moving sums."""
    total, square = 0.0, 0.0
    for end in range(len(values) + lags - 1):
        total += values[end] if end < len(values) else 0
        total -= values[end - lags] if end >= lags else 0
        square += total * total
    return square / (lags * len(values))


def resolution(ordered: Sequence[float]) -> float:
    """Step of the clock behind sorted samples, 0.0 where none shows.

    Where most samples repeat another one they lie on a grid, and the truth may be half a step off.
    """
    gaps = [
        after - before
        for before, after in itertools.pairwise(ordered)
        if after - before > 1e-6 * abs(after)
    ]
    if not gaps or len(gaps) + 1 > len(ordered) / 2:
        return 0.0
    return min(gaps)


def ratio_of_medians(
    baseline: Sequence[float],
    candidate: Sequence[float],
    doubts_us: tuple[float, float] = (0.0, 0.0),
) -> Ratio:
    """Median of `candidate` over that of `baseline`, both in us and in the order of measurement.

    Raises ValueError where a median is zero: such a time has no ratio.
    """
    below, above = median(baseline), median(candidate)
    if below < _NO_TIME_US or above < _NO_TIME_US:
        raise ValueError("a ratio needs medians above zero")
    first, second = median_ci95(baseline, doubts_us[0]), median_ci95(candidate, doubts_us[1])
    if first is None or second is None or min(first.low, second.low) < _NO_TIME_US:
        return Ratio(above / below, None)
    middle = math.log(above / below)
    down = math.hypot(math.log(above / second.low), math.log(first.high / below))
    up = math.hypot(math.log(second.high / above), math.log(below / first.low))
    return Ratio(above / below, Interval(math.exp(middle - down), math.exp(middle + up)))


def verdict(interval: Interval | None, margin: float) -> str:
    """What an interval of candidate time over baseline time says.

    "same" where it lies within 1 - margin .. 1 + margin, "faster" or "slower" where it lies wholly
    outside, "undecided" where it crosses a bound or does not exist.
    """
    if interval is None:
        return "undecided"
    least, most = 1 - margin, 1 + margin
    if interval.high < least:
        return "faster"
    if interval.low > most:
        return "slower"
    if least <= interval.low and interval.high <= most:
        return "same"
    return "undecided"

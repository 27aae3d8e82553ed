"""Two records side by side: what forbids it, the ratio, the verdict, and what weakens it."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from perf_timing._cli import UserError
from perf_timing.report.estimates import (
    MIN_SAMPLES_FOR_INTERVAL,
    SAMPLES_THAT_SHOW_DRIFT,
    Interval,
    Ratio,
    median,
    median_ci95,
    ratio_of_medians,
    verdict,
)
from perf_timing.report.flags import CLOCK_DRIFT, all_flags, clock_trace_mhz, why_withheld
from perf_timing.report.record import Record, read_flags

ALLOWABLE = ("device", "cache", "method")


@dataclass(frozen=True)
class Comparison:
    """Candidate against baseline. `ratio` is candidate time / baseline time.

    `verdict` is "undecided" where `withheld` says why; `interval_verdict` is what the interval
    alone would have said. `notes` weaken the verdict without withholding it.
    """

    baseline: str
    candidate: str
    quantity: str
    ratio: Ratio | None
    margin: float
    verdict: str
    interval_verdict: str
    withheld: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    paired: bool = False
    rate_ratio: float | None = field(default=None)  # items/s of candidate over baseline, of loops


def compare(
    baseline: Record, candidate: Record, *, margin: float, allow_different: Collection[str] = ()
) -> Comparison:
    """Candidate against baseline; raises UserError where they cannot be compared."""
    _refuse_unlike(baseline, candidate, allow_different)
    quantity, scale = "time per call", 1.0
    rate_ratio = None
    if baseline.kind == "loop":
        _refuse_other_steps(baseline, candidate)
        quantity, scale = _loop_quantity(baseline, candidate)
        rates = baseline.data.get("items_per_s"), candidate.data.get("items_per_s")
        rate_ratio = rates[1] / rates[0] if rates[0] and rates[1] else None
    ratio, withheld = _ratio(baseline, candidate, scale)
    said = verdict(ratio.interval if ratio else None, margin)
    doubts, notes = _clock_evidence(baseline, candidate, ratio, said, margin)
    withheld += doubts
    for record in (baseline, candidate):
        reasons, remarks = _trust(record)
        withheld += reasons
        notes += remarks
    return Comparison(
        baseline=baseline.label,
        candidate=candidate.label,
        quantity=quantity,
        ratio=ratio,
        margin=margin,
        verdict="undecided" if withheld else said,
        interval_verdict=said,
        withheld=tuple(withheld),
        notes=tuple(notes + _differences(baseline, candidate, allow_different)),
        rate_ratio=rate_ratio,
    )


def _trust(record: Record) -> tuple[list[str], list[str]]:
    """Reasons to withhold a verdict that rests on this record, and notes."""
    reasons, notes = [], []
    if MIN_SAMPLES_FOR_INTERVAL <= len(record.samples_us) < SAMPLES_THAT_SHOW_DRIFT:
        notes.append(f"{record.label} has {len(record.samples_us)} samples, too few to show drift")
    for flag in all_flags(record):
        if why := why_withheld(record, flag):
            reasons.append(f"{record.label} is {flag.code}: {why}")
        else:
            notes.append(f"{record.label} is flagged {flag.code}")
    return reasons, notes


def _ratio(baseline: Record, candidate: Record, scale: float) -> tuple[Ratio | None, list[str]]:
    try:
        doubts_us = baseline.doubt_us, candidate.doubt_us
        ratio = ratio_of_medians(baseline.samples_us, candidate.samples_us, doubts_us)
    except ValueError:
        return None, ["a median of zero has no ratio"]
    if ratio.interval is None:
        lone = [
            f"{record.label} has no 95 % interval: "
            + (
                f"fewer than {MIN_SAMPLES_FOR_INTERVAL} samples"
                if len(record.samples_us) < MIN_SAMPLES_FOR_INTERVAL
                else "its samples drift"
            )
            for record in (baseline, candidate)
            if median_ci95(record.samples_us) is None
        ]
        return Ratio(ratio.value * scale, None), lone or ["the medians have no ratio"]
    bounds = Interval(ratio.interval.low * scale, ratio.interval.high * scale)
    return Ratio(ratio.value * scale, bounds), []


def _loop_quantity(baseline: Record, candidate: Record) -> tuple[str, float]:
    """What is compared of two loops: steps, or items where the steps differ in size."""
    sizes = []
    for record in (baseline, candidate):
        items, steps = record.data.get("items"), record.data.get("steps")
        sizes.append(items / steps if items and steps else None)
    before, after = sizes
    if before is None or after is None or abs(after / before - 1) < 1e-3:
        return "wall time per step" if baseline.data.get("period_us") else "step time", 1.0
    return f"time per item ({before:.6g} and {after:.6g} items a step)", before / after


def _refuse_other_steps(baseline: Record, candidate: Record) -> None:
    one, other = (bool(r.data.get("period_us")) for r in (baseline, candidate))
    if one != other:
        raise UserError(
            f"cannot compare {baseline.path} and {candidate.path}: only one holds period_us,"
            " the wall time per step; --no-compare only shows them"
        )


def _refuse_unlike(baseline: Record, candidate: Record, allow: Collection[str]) -> None:
    pair = f"{baseline.path} and {candidate.path}"
    if baseline.kind != candidate.kind or baseline.kind == "compare":
        kinds = f"kinds {baseline.kind} and {candidate.kind}"
        raise UserError(f"cannot compare {pair}: {kinds}; --no-compare only shows them")
    for what, before, after in _conditions(baseline, candidate):
        if before != after and what not in allow:
            raise UserError(
                f"cannot compare {pair}: {what} is {before} and {after};"
                f" --allow-different {what} compares all the same, --no-compare only shows them"
            )


def _conditions(baseline: Record, candidate: Record) -> list[tuple[str, str, str]]:
    """(condition, its value in baseline, in candidate) of what has to be alike."""
    found = []
    for key in ("name", "sm_count", "memory_bytes", "compute_capability"):
        before, after = baseline.device(key), candidate.device(key)
        if key == "name" or (before is not None and after is not None and before != after):
            prefix = "" if key == "name" else f"{key} "
            sides = [f"{prefix}{value or 'unknown'}" for value in (before, after)]
            found.append(("device", sides[0], sides[1]))
    for what in ("cache", "method"):
        before, after = baseline.data.get(what), candidate.data.get(what)
        found.append((what, str(before or "not stated"), str(after or "not stated")))
    ways = [_way(record.data.get("cache_method")) for record in (baseline, candidate)]
    if all(ways):
        found.append(("cache", ways[0], ways[1]))
    return found


def _way(cache_method: str | None) -> str:
    """How the cache was made cold, without sizes and evidence, which vary from run to run."""
    return re.sub(r"\d[\d.]*", "N", (cache_method or "").split(";")[0]).strip()


def _clock_evidence(
    baseline: Record, candidate: Record, ratio: Ratio | None, said: str, margin: float
) -> tuple[list[str], list[str]]:
    """Reasons to withhold and notes from SM clocks.

    A difference that is gone when the times are counted in cycles may be one of clocks; one that
    is gone when they are not may be hidden by them. A verdict has to hold both ways.
    """
    before, after = _typical_clock(baseline), _typical_clock(candidate)
    if not before or not after or abs(after / before - 1) <= CLOCK_DRIFT or ratio is None:
        return [], []
    text = f"the SM clock was {before:.0f} MHz for the baseline and {after:.0f} MHz here"
    if ratio.interval is None:
        return [], [text]
    factor = after / before
    in_cycles = Interval(ratio.interval.low * factor, ratio.interval.high * factor)
    text += f"; counted in cycles the verdict is {verdict(in_cycles, margin)}"
    beside_samples = clock_trace_mhz(baseline) and clock_trace_mhz(candidate)
    if verdict(in_cycles, margin) == said or not beside_samples:
        return [], [text]
    return [text], []


def _typical_clock(record: Record) -> float | None:
    """Median SM clock in MHz while the samples were taken, else the one right after them."""
    trace = clock_trace_mhz(record)
    if trace:
        return median(trace)
    after = (record.data.get("clocks") or {}).get("after") or {}
    return after.get("sm_mhz")


def _differences(baseline: Record, candidate: Record, allowed: Collection[str]) -> list[str]:
    """What differs between two records and does not forbid the comparison."""
    pairs: list[tuple[str, Any, Any]] = [
        (what, b, c) for what, b, c in _conditions(baseline, candidate) if what in allowed
    ]
    pairs += [
        (key, baseline.data.get(key), candidate.data.get(key))
        for key in ("dims", "bytes", "flops", "world_size", "calls_per_sample")
    ]
    pairs += [(key, baseline.device(key), candidate.device(key)) for key in ("driver", "uuid")]
    first, second = baseline.data.get("versions") or {}, candidate.data.get("versions") or {}
    pairs += [(key, first.get(key), second.get(key)) for key in sorted({*first, *second})]
    return [
        f"{what} differs: {before} and {after}"
        for what, before, after in pairs
        if before is not None and after is not None and before != after
    ]


def recorded_pairs(record: Record, margin: float | None = None) -> list[Comparison]:
    """The paired comparisons of a record of kind compare.

    `margin` replaces the record's own; then the verdict is made anew from the recorded interval.
    """
    flags = {v["name"]: read_flags(v) for v in record.data["variants"]}
    own = record.data.get("margin")
    shared = list(all_flags(record))
    result = []
    for pair in record.data["pairs"]:
        low, high = pair["ratio_ci95_low"], pair["ratio_ci95_high"]
        interval = None if low is None else Interval(low, high)
        said = pair["verdict"] if margin is None else verdict(interval, margin)
        concerned = [(record.label, flag) for flag in shared]
        for name in (pair["baseline"], pair["candidate"]):
            concerned += [(name, flag) for flag in flags[name]]
        reasons = [(name, f.code, why_withheld(record, f)) for name, f in concerned]
        withheld = tuple(f"{name} is {code}: {why}" for name, code, why in reasons if why)
        value = pair["ratio_median"]
        result.append(
            Comparison(
                baseline=pair["baseline"],
                candidate=pair["candidate"],
                quantity="time per call",
                ratio=None if value is None else Ratio(value, interval),
                margin=margin if margin is not None else own if own is not None else 0.01,
                verdict="undecided" if withheld else said,
                interval_verdict=said,
                withheld=withheld,
                notes=tuple(f"{name} is flagged {code}" for name, code, why in reasons if not why),
                paired=True,
            )
        )
    return result

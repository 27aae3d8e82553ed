"""The report as one JSON document, schema `perf-timing-report/1`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from perf_timing.report.comparison import Comparison, recorded_pairs
from perf_timing.report.estimates import Summary, summarize
from perf_timing.report.flags import all_flags, throughput
from perf_timing.report.record import Record, read_flags

SCHEMA = "perf-timing-report/1"
_CARRIED = (
    "kind", "scenario", "name", "dims", "method", "cache", "cache_method", "device", "created",
    "items_per_s", "items", "steps", "data_wait_share", "data_wait_over_step", "mfu",
    "peak_memory_bytes", "ranks", "world_size", "slowest_rank", "lag_us", "missing_ranks",
    "outputs_match", "rounds", "peak_gb_per_s", "peak_tflop_per_s",
)  # fmt: skip


def as_json(
    records: Sequence[Record], comparisons: Sequence[Comparison], margin: float | None
) -> str:
    """Times in us, rates in GB/s and TFLOP/s, ratios as candidate time / baseline time."""
    recorded = [pair for r in records if r.kind == "compare" for pair in recorded_pairs(r, margin)]
    document = {
        "schema": SCHEMA,
        "records": [_record(record) for record in records],
        "comparisons": [_comparison(c) for c in [*recorded, *comparisons]],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _record(record: Record) -> dict[str, Any]:
    data = record.data
    shown: dict[str, Any] = {"file": record.path, "label": record.label}
    shown |= {key: data[key] for key in _CARRIED if key in data}
    shown["flags"] = [asdict(flag) for flag in all_flags(record)]
    if record.kind == "compare":
        shown["variants"] = [
            {
                "name": variant["name"],
                "summary": _summary(summarize(variant["samples_us"])),
                "flags": [asdict(flag) for flag in read_flags(variant)],
            }
            for variant in data["variants"]
        ]
        return shown
    if record.kind == "op":
        shown["summary"] = _summary(summarize(record.samples_us, record.doubt_us))
        shown["gb_per_s"] = throughput(data, "gb_per_s")
        shown["tflop_per_s"] = throughput(data, "tflop_per_s")
        return shown
    for key in ("step_us", "period_us", "data_wait_us", "copy_wait_us"):
        series = data.get(key)
        shown[key] = _summary(summarize(series["samples_us"])) if series else None
    return shown


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "n": summary.n,
        "median_us": summary.median,
        "ci95_low_us": summary.ci95.low if summary.ci95 else None,
        "ci95_high_us": summary.ci95.high if summary.ci95 else None,
        "mean_us": summary.mean,
        "std_us": summary.std,
        "min_us": summary.minimum,
        "max_us": summary.maximum,
        "p5_us": summary.p5,
        "p95_us": summary.p95,
        "iqr_us": summary.iqr,
        "outliers": summary.outliers,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    ratio = comparison.ratio
    interval = ratio.interval if ratio else None
    return {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "quantity": comparison.quantity,
        "paired": comparison.paired,
        "ratio": ratio.value if ratio else None,
        "ratio_ci95_low": interval.low if interval else None,
        "ratio_ci95_high": interval.high if interval else None,
        "items_per_s_ratio": comparison.rate_ratio,
        "margin": comparison.margin,
        "verdict": comparison.verdict,
        "interval_verdict": comparison.interval_verdict,
        "withheld": list(comparison.withheld),
        "notes": list(comparison.notes),
    }

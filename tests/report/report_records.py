"""Records of each kind, whole and valid, for tests to change."""

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

DEVICE = {
    "name": "NVIDIA H200",
    "index": 0,
    "uuid": "GPU-1",
    "driver": "580.65.06",
    "compute_capability": "9.0",
    "sm_count": 132,
    "l2_bytes": 52428800,
    "memory_bytes": 150754820096,
}
CLOCKS = {
    "sm_mhz": 1980,
    "memory_mhz": 3201,
    "temperature_c": 41,
    "power_w": 420.5,
    "event_reasons": None,
}
COMMON = {
    "schema": "perf-timing/1",
    "flags": [],
    "device": DEVICE,
    "versions": {"python": "3.11.2", "torch": "2.13.0", "cuda": "13.0"},
    "clocks": {"before": CLOCKS, "after": CLOCKS},
    "created": "2026-11-29T18:00:00+00:00",
}


def samples(median_us: float, n: int = 100, seed: int = 0, spread: float = 0.003) -> list[float]:
    """Log-normal samples about `median_us`, independent of each other."""
    chance = random.Random(seed)
    return [median_us * math.exp(spread * chance.gauss(0, 1)) for _ in range(n)]


def summary(values: list[float]) -> dict[str, Any]:
    return {
        "n": len(values),
        "median_us": statistics.median(values),
        "mean_us": statistics.fmean(values),
        "std_us": statistics.pstdev(values),
        "min_us": min(values),
        "max_us": max(values),
        "p5_us": min(values),
        "p95_us": max(values),
        "iqr_us": 0.1,
        "ci95_low_us": min(values),
        "ci95_high_us": max(values),
        "outliers": 0,
    }


def series(median_us: float, n: int = 60, seed: int = 0) -> dict[str, Any]:
    values = samples(median_us, n, seed)
    return {**summary(values), "samples_us": values}


def op_record(median_us: float = 93.2, seed: int = 0, n: int = 100, **changes: Any) -> Any:
    values = changes.pop("samples_us", None) or samples(median_us, n, seed)
    record = {
        **COMMON,
        "kind": "op",
        "scenario": "cuda-graph",
        "name": "add",
        "dims": "4096x4096 float32",
        "method": "graph-slope",
        "cache": "cold",
        "cache_method": "flush of 256 MiB",
        "samples_us": values,
        "summary": summary(values),
        "calls_per_sample": 20,
        "warmup": {"ms": 200, "calls": 2000},
        "converged": True,
        "host_bound": False,
        "host_us_per_call": 4.1,
        "floor_us": 0.65,
        "bytes": 201326592,
        "flops": 16777216,
        "gb_per_s": 2160.2,
        "tflop_per_s": 0.18,
        "peak_gb_per_s": 4800,
        "peak_tflop_per_s": 67,
    }
    return {**record, **changes}


def compare_record(ratio: float = 1.031, verdict: str = "slower", **changes: Any) -> Any:
    variants = []
    for name, median_us in (("one", 93.2), ("two", 93.2 * ratio)):
        values = samples(median_us)
        variants.append(
            {
                "name": name,
                "call": f"{name}(x)",
                "samples_us": values,
                "summary": summary(values),
                "host_us_per_call": 3.2,
                "flags": [],
            }
        )
    pair = {
        "baseline": "one",
        "candidate": "two",
        "ratio_median": ratio,
        "ratio_ci95_low": ratio - 0.002,
        "ratio_ci95_high": ratio + 0.002,
        "verdict": verdict,
    }
    record = {
        **COMMON,
        "kind": "compare",
        "scenario": "compare",
        "name": "softmax",
        "dims": "4096x4096 float32",
        "method": "graph-slope",
        "cache": "warm",
        "cache_method": None,
        "variants": variants,
        "rounds": 100,
        "pairs": [pair],
        "margin": 0.01,
        "outputs_match": True,
        "tolerance": {"rtol": 1e-3, "atol": 1e-5},
    }
    return {**record, **changes}


def loop_record(
    step_us: float = 34000.0, share: float = 0.19, seed: int = 0, **changes: Any
) -> Any:
    ranks = [
        {
            "rank": rank,
            "step_median_us": step_us * (1 + 0.01 * rank),
            "data_wait_median_us": step_us * share,
            "items": 15360,
            "wall_s": 2.1,
        }
        for rank in range(4)
    ]
    record = {
        **COMMON,
        "kind": "loop",
        "scenario": "loop",
        "name": "resnet50",
        "dims": "batch 256",
        "method": "event-window",
        "cache": None,
        "cache_method": None,
        "step_us": series(step_us, seed=seed),
        "data_wait_us": series(step_us * share, seed=seed + 50),
        "copy_wait_us": series(900.0),
        "phases": {"forward": series(11000.0), "backward": series(20000.0)},
        "items_per_s": 1024 / step_us * 1e6,
        "items": 61440,
        "steps": 60,
        "data_wait_share": share,
        "mfu": 0.412,
        "peak_memory_bytes": 31_000_000_000,
        "ranks": ranks,
        "world_size": 4,
    }
    return {**record, **changes}


def write(folder: Path, name: str, record: Any) -> str:
    """Path of a new file that holds `record`, or the text or bytes given in its place."""
    path = folder / name
    if isinstance(record, bytes):
        path.write_bytes(record)
    else:
        path.write_text(record if isinstance(record, str) else json.dumps(record), "utf-8")
    return str(path)

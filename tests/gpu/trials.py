"""How often `compare` is right, and how often an interval holds the median, on a GPU.

    python tests/gpu/trials.py --out FOLDER [--runs 40] [--repeats 50]

`compare` with its default options, on one version against itself and against 3 % more work, for
several kinds of work, half of the runs on a card that has just been heated; then repeats of one
benchmark, whose interval is held against the median of all samples. FOLDER gets trials.json.
Everything runs in one process.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).resolve().parent)]

import run_rendered  # noqa: E402

_SPIN = "import torch"
_COPY = """
import torch

a = torch.ones(100 * 2**20, dtype=torch.int8, device="cuda")
b = torch.empty_like(a)
c, d = a[: 64 * 2**20], b[: 64 * 2**20]
e, f = a[: 66 * 2**20], b[: 66 * 2**20]


def copy(source, target):
    return target.copy_(source)[:1024]
"""
_ADD = """
import torch

a, b, c = (torch.rand(103 * 2**16, device="cuda") for _ in range(3))
d, e, f = (whole[: 100 * 2**16] for whole in (a, b, c))


def add(one, two, total):
    return torch.add(one, two, out=total)[:1024]
"""
_MATMUL = """
import torch

torch.manual_seed(0)
a = torch.rand(1024, 4224, device="cuda").bfloat16()
b = torch.rand(4224, 1024, device="cuda").bfloat16()
c = torch.empty(1024, 1024, device="cuda", dtype=torch.bfloat16)


def chain(n):
    for _ in range(n):
        torch.matmul(a, b, out=c)
    return c
"""
# name -> (set-up, the call, the same with 3 % more work)
WORK = {
    "spin 20 us": (_SPIN, "torch.cuda._sleep(38_000)", "torch.cuda._sleep(39_140)"),
    "spin 5 us": (_SPIN, "torch.cuda._sleep(9_500)", "torch.cuda._sleep(9_785)"),
    "copy 64 MiB": (_COPY, "copy(c, d)", "copy(e, f)"),
    "33 matmuls": (_MATMUL, "chain(33)", "chain(34)"),
    "add 6.5 M": (_ADD, "add(d, e, f)", "add(a, b, c)"),
}
_HEATER: list[Any] = []


def heat(seconds: float) -> None:
    """Keep the card busy with large products."""
    import torch

    if not _HEATER:
        _HEATER.extend(torch.randn(8192, 8192, device="cuda").bfloat16() for _ in range(2))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        torch.matmul(*_HEATER)
        torch.cuda.synchronize()


def run(scenario: str, chosen: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The record of a scenario with these options; raises SystemExit where it has none."""
    done = run_rendered.run(scenario, chosen, folder)
    if done.record is None:
        raise SystemExit(done.errors)
    return {**done.record, "took_s": done.took_s}


def verdicts(runs: int, more: bool, folder: Path) -> list[dict[str, Any]]:
    """`runs` comparisons of a call with itself, or with 3 % more of it."""
    rows = []
    for number in range(runs):
        name = list(WORK)[number % len(WORK)]
        setup, call, longer = WORK[name]
        hot = number % 2 == 1
        if hot:
            heat(1.0)
        calls = [("one", call), ("two", longer if more else call)]
        record = run("compare", {"setup": setup, "calls": calls, "cache": "warm"}, folder)
        pair = record["pairs"][0]
        keys = ("verdict", "ratio_median", "ratio_ci95_low", "ratio_ci95_high")
        row = {key: pair[key] for key in keys} | {"work": name, "more": more, "hot": hot}
        flags = [f["code"] for part in (record, *record["variants"]) for f in part["flags"]]
        row |= {"rounds": record["rounds"], "took_s": record["took_s"], "flags": flags}
        rows.append(row)
        print(
            f"{name:12} {'+3 %' if more else 'same':5} {'hot ' if hot else 'cool'}"
            f" {row['ratio_median']:.4f} {row['ratio_ci95_low']:.4f} to"
            f" {row['ratio_ci95_high']:.4f} {row['verdict']} in {row['rounds']} rounds,"
            f" {row['took_s']:.1f} s {','.join(flags)}",
            flush=True,
        )
    return rows


def coverage(scenario: str, repeats: int, folder: Path) -> dict[str, Any]:
    """How many of the intervals of `repeats` runs hold the median of all their samples."""
    setup = "import torch\n\na, b, c = (torch.rand(2**22, device='cuda') for _ in range(3))"
    chosen = {"setup": setup, "call": "torch.add(a, b, out=c)", "cache": "warm"}
    records = [run(scenario, chosen, folder) for _ in range(repeats)]
    pooled_us = statistics.median(us for record in records for us in record["samples_us"])
    parts = [record["summary"] for record in records]
    held = sum(part["ci95_low_us"] <= pooled_us <= part["ci95_high_us"] for part in parts)
    medians = [part["median_us"] for part in parts]
    return {
        "scenario": scenario,
        "repeats": repeats,
        "pooled_us": pooled_us,
        "held": held,
        "least_us": min(medians),
        "most_us": max(medians),
        "intervals_us": [(part["ci95_low_us"], part["ci95_high_us"]) for part in parts],
        "subtracted_us": [(record["floor_us"], record["doubt_us"]) for record in records],
        "samples": [part["n"] for part in parts],
        "took_s": statistics.median(record["took_s"] for record in records),
        "converged": sum(record["converged"] for record in records),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--scenarios", default="detailed-event,cuda-graph")
    options = parser.parse_args()
    found: dict[str, Any] = {"verdicts": [], "coverage": []}
    options.out.mkdir(parents=True, exist_ok=True)

    def keep() -> None:
        (options.out / "trials.json").write_text(json.dumps(found), encoding="utf-8")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for more, right in ((False, ("same", "undecided")), (True, ("slower",))):
            rows = verdicts(options.runs, more, folder)
            found["verdicts"] += rows
            keep()
            count = sum(row["verdict"] in right for row in rows)
            print(f"{'+3 % work' if more else 'same work'}: {count} of {len(rows)} right")
        for scenario in options.scenarios.split(","):
            one = coverage(scenario, options.repeats, folder)
            found["coverage"].append(one)
            keep()
            print(
                f"{scenario}: {one['held']} of {one['repeats']} intervals hold the pooled median"
                f" {one['pooled_us']:.3f} us; medians {one['least_us']:.3f} to"
                f" {one['most_us']:.3f}; {one['took_s']:.1f} s each",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

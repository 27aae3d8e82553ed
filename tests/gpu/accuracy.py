"""Run every scenario, and every peer that is installed, over the truth kit; print error ratios.

    python tests/gpu/accuracy.py --out FOLDER [--ops add,copy] [--scenarios cuda-graph,...]

Everything runs in one process on one GPU. FOLDER gets accuracy.json (all rows),
accuracy.md (the table) and records.jsonl.gz (what the rendered scripts wrote).
"""

import argparse
import gc
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).resolve().parent)]

import run_rendered  # noqa: E402
import truth_kit  # noqa: E402
from truth_kit import Operation  # noqa: E402

WARM = ("simple-event", "detailed-event", "cuda-graph", "kernel-time")
COLD = ("detailed-event", "cuda-graph", "kernel-time", "triton")


def rendered(operation: Operation, scenario: str, cache: str, folder: Path) -> dict[str, Any]:
    """Render the scenario for the operation with default options, run it, return its record."""
    chosen: dict[str, Any] = {
        "setup": operation.setup,
        "call": operation.call,
        "name": operation.name,
        "cache": cache,
    }
    for name in ("bytes", "flops"):
        if getattr(operation, name):
            chosen[name] = str(getattr(operation, name))
    done = run_rendered.run(scenario, chosen, folder)
    if done.record is None:
        return {"stopped": done.errors[-300:], "took_s": done.took_s}
    call = done.script["_call"]
    flush = truth_kit.flush_function() if cache == "cold" else None
    truth = truth_kit.cupti_us(call, flush, _truth_count(call))
    return {**done.record, "took_s": done.took_s, "truth_us": truth["busy_us"]}


def _do_bench(call: Callable[[], Any]) -> float:
    from triton.testing import do_bench

    return 1e3 * do_bench(call, return_mode="median")


def _do_bench_cudagraph(call: Callable[[], Any]) -> float:
    from triton.testing import do_bench_cudagraph

    return 1e3 * do_bench_cudagraph(call, return_mode="median")


def _torch_benchmark(call: Callable[[], Any]) -> float:
    from torch.utils.benchmark import Timer

    timer = Timer("call()", globals={"call": call})
    return 1e6 * timer.blocked_autorange(min_run_time=0.2).median


def _cupyx(call: Callable[[], Any]) -> float:
    import cupyx.profiler

    return 1e6 * statistics.median(cupyx.profiler.benchmark(call, n_repeat=100).gpu_times[0])


def _cutlass_benchmark(call: Callable[[], Any]) -> float:
    from cutlass import testing

    return float(testing.benchmark(call, kernel_arguments=testing.JitArguments()))


def _seed_simple(call: Callable[[], Any]) -> float:
    import torch

    for _ in range(50):
        call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(100):
        call()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end) / 100


def _seed_detailed(call: Callable[[], Any]) -> float:
    import torch

    for _ in range(50):
        call()
    torch.cuda.synchronize()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(100)]
    for start, end in pairs:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return 1e3 * statistics.median(start.elapsed_time(end) for start, end in pairs)


# name -> (function, the cache state that its figure has)
PEERS: dict[str, tuple[Callable[[Callable[[], Any]], Any], str]] = {
    "do_bench": (_do_bench, "cold"),
    "do_bench_cudagraph": (_do_bench_cudagraph, "warm"),
    "torch.utils.benchmark": (_torch_benchmark, "warm"),
    "cupyx benchmark": (_cupyx, "warm"),
    "cutlass.testing": (_cutlass_benchmark, "warm"),
    "seed simple": (_seed_simple, "warm"),
    "seed detailed": (_seed_detailed, "warm"),
}


RECORDS: list[dict[str, Any]] = []  # as the rendered scripts wrote them, not yet in the file


def truths(operation: Operation) -> dict[str, dict[str, Any]]:
    """What CUPTI says, warm and cold, in the thermal state that a short run of calls makes."""
    call, flush = truth_kit.load(operation), truth_kit.flush_function()
    count = _truth_count(call)
    return {
        "warm": truth_kit.cupti_us(call, None, count),
        "cold": truth_kit.cupti_us(call, flush, count),
    }


def _truth_count(call: Callable[[], Any]) -> int:
    """Calls to take the truth of, after a fifth of a second of them."""
    import torch

    begin = time.perf_counter()
    calls = 0
    while time.perf_counter() - begin < 0.2:
        call()
        calls += 1
        torch.cuda.synchronize()
    return max(5, min(60, calls // 4))


def rows_of(operation: Operation, chosen: set[str], peers: bool, folder: Path) -> list[dict]:
    """One row for each method: figure, truth, ratio, flags."""
    import torch

    truth_us = truths(operation)
    rows = []
    for cache, names in (("warm", WARM), ("cold", COLD)):
        for scenario in names:
            if chosen and scenario not in chosen:
                continue
            record = rendered(operation, scenario, cache, folder)
            # Its own tensors: where they lie changes what a short cold call takes by 10 %.
            own_us = record.get("truth_us", truth_us[cache]["busy_us"])
            rows.append(_row(operation, scenario, cache, record, own_us))
            RECORDS.append({key: record[key] for key in record if key != "device"})
            gc.collect()
            torch.cuda.empty_cache()
    for name, (function, cache) in PEERS.items() if peers else ():
        call = truth_kit.load(operation)
        begin = time.perf_counter()
        try:
            found = function(call)
        except Exception as error:
            print(f"{name} cannot time {operation.name}: {str(error)[:120]}", file=sys.stderr)
            torch.cuda.synchronize()
            continue
        took_s = time.perf_counter() - begin
        for state, figure in (found if isinstance(found, dict) else {cache: found}).items():
            record = {"summary": {"median_us": figure}, "took_s": took_s}
            rows.append(_row(operation, name, state, record, truth_us[state]["busy_us"]))
    return rows


def cuda_bench_rows(names: set[str]) -> list[dict[str, Any]]:
    """nvbench's Python form, flushed and in a batch, at its defaults; it runs once a process."""
    from cuda import bench

    chosen = [one for one in truth_kit.OPERATIONS if one.name in names]
    calls = {f"op_{index}": truth_kit.load(one) for index, one in enumerate(chosen)}
    truth_us = [truths(one) for one in chosen]
    for name, call in calls.items():
        bench.register(_benched(name, call))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.json")
        begin = time.perf_counter()
        bench.run_all_benchmarks([sys.argv[0], "--quiet", "--json", str(path)])
        took_s = (time.perf_counter() - begin) / max(1, len(chosen))
        found = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    states = {one["name"]: one["states"][0]["summaries"] for one in found}
    rows = []
    for operation, name, truth in zip(chosen, calls, truth_us, strict=True):
        tags = {one["tag"]: one["data"][0].get("value") for one in states[name]}
        for cache, tag in (("cold", "nv/cold/time/gpu/mean"), ("warm", "nv/batch/time/gpu/mean")):
            if tag in tags:
                record = {"summary": {"median_us": 1e6 * float(tags[tag])}, "took_s": took_s}
                rows.append(_row(operation, "cuda.bench", cache, record, truth[cache]["busy_us"]))
    return rows


def _benched(name: str, call: Callable[[], Any]) -> Callable[[Any], None]:
    import torch

    def launch(on: Any) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(on.get_stream().addressof())):
            call()

    def measured(state: Any) -> None:
        state.exec(launch)

    measured.__name__ = name
    return measured


def _row(
    operation: Operation, method: str, cache: str, record: dict, truth_us: float
) -> dict[str, Any]:
    median_us = record.get("summary", {}).get("median_us")
    flags = [flag["code"] for flag in record.get("flags", [])]
    return {
        "operation": operation.name,
        "kind": operation.kind,
        "method": method,
        "cache": cache,
        "truth_us": truth_us,
        "median_us": median_us,
        "ratio": median_us / truth_us if median_us is not None and truth_us else None,
        "flags": flags,
        "stopped": record.get("stopped"),
        "took_s": record["took_s"],
        "n": record.get("summary", {}).get("n"),
        "converged": record.get("converged"),
        "floor_us": record.get("floor_us"),
        "doubt_us": record.get("doubt_us"),
        "host_us": record.get("host_us_per_call"),
        "kernel_time_us": record.get("kernel_time_us"),
    }


def show(row: dict[str, Any]) -> str:
    """A row as one line."""
    if row["stopped"] is not None:
        figure = f"stopped: {row['stopped'][:90]}"
    else:
        ratio = f"{row['ratio']:.3f}" if row["ratio"] is not None else "-"
        figure = f"{row['median_us']:10.3f} / {row['truth_us']:9.3f} us = {ratio:>7}"
    extra = " ".join(
        f"{key} {row[key]:.3g}" for key in ("floor_us", "doubt_us", "host_us") if row[key]
    )
    flags = ",".join(row["flags"])
    return (
        f"{row['operation']:14} {row['method']:21} {row['cache']:4} {figure}"
        f" n {row['n']} {row['took_s']:.1f}s {extra} {flags}"
    )


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The tables of references/accuracy.md by their headings: ratios to the truth, with flags."""
    parts = {
        "Warm, rendered scenarios": ("op", "warm", False),
        "Warm, other tools and the seed's snippets": ("op", "warm", True),
        "Cold": ("op", "cold", None),
        "Traps, warm": ("trap", "warm", None),
        "Traps, cold": ("trap", "cold", None),
    }
    made = {}
    for heading, (kind, cache, peers) in parts.items():
        chosen = [row for row in rows if (row["kind"], row["cache"]) == (kind, cache)]
        if peers is not None:
            chosen = [row for row in chosen if (row["method"] not in WARM) == peers]
        if chosen:
            made[heading] = _table(chosen)
    return made


def _table(rows: list[dict[str, Any]]) -> str:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["| operation | truth us | " + " | ".join(methods) + " |"]
    lines.append("|---|---" + "|---" * len(methods) + "|")
    for operation in dict.fromkeys(row["operation"] for row in rows):
        found = {row["method"]: row for row in rows if row["operation"] == operation}
        truth_us = next(iter(found.values()))["truth_us"]
        cells = [_cell(found.get(method)) for method in methods]
        lines.append(f"| {operation} | {truth_us:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    if row["stopped"] is not None:
        return "refused"
    figure = f"{row['median_us']:.2f} us" if row["ratio"] is None else f"{row['ratio']:.3f}"
    serious = [code for code in row["flags"] if code not in ("not-converged",)]
    return figure + (f" {', '.join(serious)}" if serious else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ops", default="", help="comma-separated beginnings of names")
    parser.add_argument("--scenarios", default="")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--cuda-bench", default="", help="names of operations for cuda.bench")
    options = parser.parse_args()
    wanted = tuple(part for part in options.ops.split(",") if part)
    chosen = {part for part in options.scenarios.split(",") if part}
    rows: list[dict[str, Any]] = []
    begin = time.perf_counter()
    truth_kit.cupti_us(lambda: None, None, 3)  # the first session of a process may be empty
    with tempfile.TemporaryDirectory() as folder:
        for operation in truth_kit.OPERATIONS:
            if wanted and not operation.name.startswith(wanted):
                continue
            if time.perf_counter() - begin > options.seconds:
                print(f"time is up before {operation.name}")
                break
            fresh = rows_of(operation, chosen, not options.no_peers, Path(folder))
            rows += fresh
            print("\n".join(show(row) for row in fresh), flush=True)
            write(options.out, rows)
    if options.cuda_bench:
        fresh = cuda_bench_rows(set(options.cuda_bench.split(",")))
        print("\n".join(show(row) for row in fresh), flush=True)
        write(options.out, rows + fresh)
    return 0


def write(out: Path, rows: list[dict[str, Any]]) -> None:
    """Everything so far: a run that is cut short keeps what it has measured."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "accuracy.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    with gzip.open(out / "records.jsonl.gz", "at", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in RECORDS)
    RECORDS.clear()
    text = "\n\n".join(f"## {heading}\n\n{part}" for heading, part in tables(rows).items())
    (out / "accuracy.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())

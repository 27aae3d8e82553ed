"""Run what `raw-cuda` renders over kernels of known work; print figures over CUPTI's.

    python tests/gpu/raw_cuda.py --out FOLDER

Needs a GPU and nvcc with CUPTI. Every program is built and run apart. The truth is what CUPTI
records for the launches of the same program's warm-up, in a run of its own (cupti_truth.cc): the
same code makes and fills the buffers. It is read twice, as profilers trace ("truth_us"), and with
kernels run one at a time ("serial_us"): profilers' tracing prolongs every block, which shows in
launches of many blocks; the serial form leaves the kernel as it is, but adds about as much to
every launch, 1.4 us, which is read on the spins and taken off. "own_check_us" is what the program
itself has from CUPTI. FOLDER gets raw-cuda.json (all rows).
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts")]

KERNELS = """
__global__ void burn(long long cycles) {
  for (long long begin = clock64(); clock64() - begin < cycles;) {
  }
}
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void stride(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    c[i] = a[i] + b[i];
  }
}
"""
TRACED, SERIAL = "10", "3"  # kinds of CUPTI's activities


@dataclass(frozen=True)
class Kernel:
    """A spin of `size` cycles, or an add of `size` floats.

    `add` has a block for 256 floats; `stride` has 1056 blocks, as many as an H200 runs at a time.
    """

    name: str
    kind: str
    size: int

    @property
    def setup(self) -> str:
        """Statements that make what the launch uses."""
        arrays = "".join(f"float* {x} = device_array<float>({self.size});\n" for x in "abc")
        return "// nothing to set up" if self.kind == "burn" else arrays

    @property
    def launch(self) -> str:
        """The launch, as it is given to render-timing."""
        if self.kind == "burn":
            return f"burn<<<1, 1>>>({self.size}LL)"
        blocks = 1056 if self.kind == "stride" else (self.size + 255) // 256
        return f"{self.kind}<<<{blocks}, 256>>>(a, b, c, {self.size})"


KERNEL_LIST = (
    *(Kernel(f"spin {n}", "burn", n) for n in (1500, 9000, 38_000, 196_000)),
    *(Kernel(f"stride 2^{p}", "stride", 2**p) for p in (18, 20, 21, 22, 25)),
    *(Kernel(f"add 2^{p}", "add", 2**p) for p in (18, 20, 22, 25)),
)
CASES = tuple(itertools.product(KERNEL_LIST, ("warm", "cold"), ("event", "graph")))


def nvcc(*arguments: str | Path) -> None:
    """Compile, for the GPU that is there."""
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-arch=native", *arguments], check=True)


def build(kernel: Kernel, cache: str, method: str, folder: Path) -> Path:
    """Render and compile one program; it writes its record to the path with `.json` added."""
    from perf_timing.render import main as render

    stem = folder / f"{kernel.kind}_{kernel.size}_{method}_{cache}"
    chosen = {"kernel": KERNELS, "launch": kernel.launch, "setup": kernel.setup}
    chosen |= {"method": method, "cache": cache, "name": kernel.name, "arch": "native"}
    chosen |= {"json": f"{stem}.json", "output": f"{stem}.cu"}
    if render(["raw-cuda", *(f"--{option}={value}" for option, value in chosen.items())]):
        raise RuntimeError(f"cannot render {stem.name}")
    nvcc("-o", stem, f"{stem}.cu")
    return stem


def build_library(folder: Path) -> Path:
    """The library that has CUPTI record a program's kernels."""
    path = folder / "cupti_truth.so"
    source = Path(__file__).with_name("cupti_truth.cc")
    nvcc("-shared", "-Xcompiler", "-fPIC", "-o", path, source, "-lcupti")
    return path


def cupti_us(stem: Path, kernel: Kernel, kind: str, library: Path) -> float:
    """Median of what CUPTI records for the program's launches of the kernel, in us."""
    times = stem.with_suffix(f".{kind}")
    environment = os.environ | {
        "CUDA_INJECTION64_PATH": str(library),
        "TRUTH_KERNEL": kernel.kind,
        "TRUTH_KIND": kind,
        "TRUTH_FILE": str(times),
    }
    subprocess.run([stem], env=environment, check=True, capture_output=True, timeout=60)
    return statistics.median(map(float, times.read_text(encoding="utf-8").split()))


def truths(stems: dict[Any, Path], library: Path) -> dict[tuple[Kernel, str], tuple[float, float]]:
    """(kernel, cache) -> (as traced, run one at a time less what that adds to a spin), in us."""
    found = {}
    for kernel, cache in itertools.product(KERNEL_LIST, ("warm", "cold")):
        stem = stems[kernel, cache, "graph"]
        traced, serial = (cupti_us(stem, kernel, kind, library) for kind in (TRACED, SERIAL))
        found[kernel, cache] = (traced, serial)
    added = {
        cache: statistics.median(
            found[kernel, cache][1] - found[kernel, cache][0]
            for kernel in KERNEL_LIST
            if kernel.kind == "burn"
        )
        for cache in ("warm", "cold")
    }
    print(f"run one at a time, launches take {added} us longer", flush=True)
    return {key: (traced, serial - added[key[1]]) for key, (traced, serial) in found.items()}


def row_of(case: tuple[Kernel, str, str], stem: Path, truth: tuple[float, float]) -> dict[str, Any]:
    """Run one program; its figure beside the truth."""
    subprocess.run([stem], check=True, capture_output=True)
    record = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
    summary = record["summary"]
    median_us = summary["median_us"]
    kernel, cache, method = case
    return {
        "kernel": kernel.name,
        "method": method,
        "cache": cache,
        "truth_us": round(truth[0], 3),
        "serial_us": round(truth[1], 3),
        "median_us": round(median_us, 3),
        "ratio": round(median_us / truth[0], 3),
        "ratio_serial": round(median_us / truth[1], 3),
        "interval_us": [round(summary[f"ci95_{end}_us"], 3) for end in ("low", "high")],
        "own_check_us": record["kernel_time_us"],
        "flags": [flag["code"] for flag in record["flags"]],
        "method_text": record["method_text"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The table of references/accuracy.md: ratios to the truth, with flags.

    In brackets: serial_us and the ratio to it, where the kernel has many blocks.
    """
    lines = ["| kernel | warm us | event | graph | cold us | event | graph |", "|---" * 7 + "|"]
    for kernel in KERNEL_LIST:
        cells = [kernel.name]
        for cache in ("warm", "cold"):
            found = [row for row in rows if (row["kernel"], row["cache"]) == (kernel.name, cache)]
            serial = kernel.kind == "add"
            truth = f" ({found[0]['serial_us']:.2f})" if serial else ""
            cells.append(f"{found[0]['truth_us']:.2f}{truth}")
            for row in sorted(found, key=lambda row: str(row["method"])):
                other = f" ({row['ratio_serial']:.3f})" if serial else ""
                flags = " " + ", ".join(row["flags"]) if row["flags"] else ""
                cells.append(f"{row['ratio']:.3f}{other}{flags}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build_library(folder)
        with ThreadPoolExecutor(14) as pool:
            built = pool.map(lambda case: build(*case, folder), CASES)
            stems: dict[Any, Path] = dict(zip(CASES, built, strict=True))
        truth = truths(stems, library)
        rows = [row_of(case, stems[case], truth[case[:2]]) for case in CASES]
    print(table(rows))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "raw-cuda.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

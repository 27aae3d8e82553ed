"""Run what `raw-cuda` renders over kernels of known work; print figures over CUPTI's.

    python tests/gpu/raw_cuda.py --out FOLDER

Needs a GPU, nvcc and torch. Every program is built and run apart; the truth is read in this
process, where CUPTI times the same kernels through torch, launched from a shared library.
FOLDER gets raw-cuda.json (all rows).
"""

import argparse
import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).resolve().parent)]

import truth_kit  # noqa: E402

KERNELS = """
__global__ void burn(long long cycles) {
  for (long long begin = clock64(); clock64() - begin < cycles;) {
  }
}
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""
LIBRARY = """
extern "C" void launch_burn(long long cycles) { burn<<<1, 1>>>(cycles); }
extern "C" void launch_add(const float* a, const float* b, float* c, int n) {
  add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""


@dataclass(frozen=True)
class Kernel:
    """A spin of `size` cycles, or an add of `size` floats."""

    name: str
    kind: str
    size: int

    @property
    def setup(self) -> str:
        """Statements that make what the launch uses."""
        arrays = "".join(f"float* {x} = device_array<float>({self.size});\n" for x in "abc")
        return arrays if self.kind == "add" else "// nothing to set up"

    @property
    def launch(self) -> str:
        """The launch, as it is given to render-timing."""
        if self.kind == "burn":
            return f"burn<<<1, 1>>>({self.size}LL)"
        return f"add<<<{(self.size + 255) // 256}, 256>>>(a, b, c, {self.size})"


KERNEL_LIST = (
    *(Kernel(f"spin {n}", "burn", n) for n in (1500, 9000, 38_000, 196_000)),
    *(Kernel(f"add 2^{p}", "add", 2**p) for p in (18, 20, 22, 25)),
)


def build(kernel: Kernel, method: str, cache: str, folder: Path) -> Path:
    """Render and compile one program; it writes its record to the path with `.json` added."""
    from perf_timing.render import main as render

    stem = folder / f"{kernel.kind}_{kernel.size}_{method}_{cache}"
    chosen = {"kernel": KERNELS, "launch": kernel.launch, "setup": kernel.setup}
    chosen |= {"method": method, "cache": cache, "name": kernel.name, "arch": "native"}
    chosen |= {"json": f"{stem}.json", "output": f"{stem}.cu"}
    if render(["raw-cuda", *(f"--{option}={value}" for option, value in chosen.items())]):
        raise RuntimeError(f"cannot render {stem.name}")
    subprocess.run(
        ["nvcc", "-O3", "-std=c++17", "-arch=native", "-o", stem, f"{stem}.cu"], check=True
    )
    return stem


def load_library(folder: Path) -> ctypes.CDLL:
    """The same kernels in a library that shares torch's context."""
    source, path = folder / "truth.cu", folder / "truth.so"
    source.write_text(KERNELS + LIBRARY, encoding="utf-8")
    flags = ["-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
    subprocess.run(["nvcc", *flags, "-o", path, source], check=True)
    library = ctypes.CDLL(str(path))
    library.launch_burn.argtypes = [ctypes.c_longlong]
    library.launch_add.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
    return library


def truth_us(kernel: Kernel, cache: str, library: ctypes.CDLL) -> float:
    """What CUPTI records for the kernel, in us."""
    import torch

    call: Callable[[], Any] = lambda: library.launch_burn(kernel.size)  # noqa: E731
    if kernel.kind == "add":
        arrays = [torch.rand(kernel.size, device="cuda") for _ in range(3)]
        call = lambda: library.launch_add(*(x.data_ptr() for x in arrays), kernel.size)  # noqa: E731
    flush = truth_kit.flush_function() if cache == "cold" else None
    return float(truth_kit.cupti_us(call, flush, 30)["busy_us"])


def row_of(kernel: Kernel, method: str, cache: str, stem: Path, truth: float) -> dict[str, Any]:
    """Run one program; its figure beside the truth."""
    subprocess.run([stem], check=True, capture_output=True)
    record = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
    median_us = record["summary"]["median_us"]
    return {
        "kernel": kernel.name,
        "method": method,
        "cache": cache,
        "truth_us": round(truth, 3),
        "median_us": round(median_us, 3),
        "ratio": round(median_us / truth, 3),
        "flags": [flag["code"] for flag in record["flags"]],
        "method_text": record["method_text"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    cases = list(itertools.product(KERNEL_LIST, ("event", "graph"), ("warm", "cold")))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = load_library(folder)
        with ThreadPoolExecutor(14) as pool:
            stems = list(pool.map(lambda case: build(*case, folder), cases))
        truth_us(KERNEL_LIST[0], "warm", library)  # the first session of a process may be empty
        for (kernel, method, cache), stem in zip(cases, stems, strict=True):
            truth = truth_us(kernel, cache, library)
            rows.append(row_of(kernel, method, cache, stem, truth))
            print(" ".join(str(value) for value in rows[-1].values()), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "raw-cuda.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compiles a rendered .cu program with nvcc and runs it on a simulated CUDA runtime."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RUNTIME = pathlib.Path(__file__).with_name("cudart") / "cudart.cc"


@dataclass(frozen=True)
class Done:
    """What a program left."""

    exit_code: int
    stdout: str
    stderr: str
    files: dict[str, str]


def has_compilers() -> bool:
    """Whether nvcc and g++ can be had."""
    return shutil.which("nvcc") is not None and shutil.which("g++") is not None


@functools.cache
def _runtime_object() -> pathlib.Path:
    """cudart.cc compiled once a process; it stands in for libcudart."""
    target = pathlib.Path(tempfile.mkdtemp(prefix="simulated-cudart-")) / "cudart.o"
    command = ["nvcc", "-O1", "-std=c++17", "-c", str(RUNTIME), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def build(source: str, folder: pathlib.Path) -> pathlib.Path:
    """The program, compiled for sm_90 and linked with the simulated runtime."""
    (folder / "program.cu").write_text(source)
    compile_it = ["nvcc", "-arch=sm_90", "-c", "program.cu", "-o", "program.o"]
    link = ["g++", "program.o", str(_runtime_object()), "-o", "program"]
    for command in (compile_it, link):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "program"


def run_program(
    program: pathlib.Path,
    kernels: Mapping[str, tuple[float, float]],
    *,
    spin: Sequence[str] = (),
    flush: Sequence[str] = (),
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Done:
    """Run it in its folder; `kernels`: part of a kernel's name -> (warm us, cold us)."""
    times = ",".join(f"{name}={warm}/{cold}" for name, (warm, cold) in kernels.items())
    environment = dict(os.environ, SIM_KERNELS=times, **(environ or {}))
    environment |= {"SIM_SPIN": ",".join(spin), "SIM_FLUSH": ",".join(flush)}
    built = {"program.cu", "program.o", "program"}
    for left in program.parent.iterdir():
        if left.is_file() and left.name not in built:
            left.unlink()
    done = subprocess.run(
        [str(program), *argv],
        cwd=program.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    written = {
        path.name: path.read_text()
        for path in program.parent.iterdir()
        if path.is_file() and path.name not in built
    }
    return Done(done.returncode, done.stdout, done.stderr, written)

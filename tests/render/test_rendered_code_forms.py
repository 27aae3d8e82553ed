"""Every scenario in both sizes, with each of its options, is well-formed and formatted code."""

from __future__ import annotations

import ast
import pathlib
import shutil
import subprocess
import sys

import pytest
from perf_timing.render import scenarios
from simulated_device.rendering import rendered

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = scenarios.load_all()
SETUP = """
import torch

x = torch.randn(1024, device="cuda")
w = torch.randn(1024, device="cuda")
loader = [x, w]
"""
KERNEL = """
__global__ void scale(float* out, const float* in, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * in[i];
}
"""
CUDA_SETUP = """
const int n = 1 << 14;
float* x = device_array<float>(n);
float* y = device_array<float>(n);
"""
# One good value for each option; options with choices take all of theirs.
EXAMPLES = {
    "call": ["torch.add(x, w)"],
    "calls": ["plain=x + w", "fused=torch.add(x, w)"],
    "name": ["scaled add"],
    "dims": ["1024 float32"],
    "bytes": ["3 * 2**20"],
    "flops": ["2 * 10**9"],
    "warmup_ms": ["50"],
    "warmup_iterations": ["7"],
    "iterations": ["200"],
    "min_time_ms": ["20"],
    "max_time_ms": ["900"],
    "rep_ms": ["40"],
    "check": ["1 + 1 == 2"],
    "rotate": ["x,w"],
    "json": ["out.json"],
    "batch_size": ["64"],
    "items": ["len(batch)"],
    "warmup_steps": ["3"],
    "measure_steps": ["12"],
    "log_every": ["4"],
    "margin": ["2.5"],
    "rtol": ["0.001"],
    "atol": ["1e-6"],
    "arch": ["sm_90"],
}
ALONE = {
    "setup",
    "setup_file",
    "cuda_setup",
    "cuda_setup_file",
    "kernel",
    "launch",
    "minimal",
    "call",
    "calls",
    "rotate",
}


def single_options(name: str) -> list[list[str]]:
    """Each option of the scenario by itself."""
    found: list[list[str]] = [[]]
    for option, _ in SCENARIOS[name].options.values():
        if option.name in ALONE:
            continue
        values = list(option.choices) or EXAMPLES.get(option.name)
        if values is None:
            assert not option.metavar, f"EXAMPLES has no value for {option.flag}"
            found.append([option.flag])
        else:
            found += [[f"{option.flag}={value}"] for value in values]
    return found


def own_work(name: str) -> list[list[str]]:
    """The user's own operation, alone and with all other options at once."""
    options = SCENARIOS[name].options
    if "calls" in options:
        flag = options["calls"][0].flag
        work = [f"--setup={SETUP}", *(f"{flag}={call}" for call in EXAMPLES["calls"])]
    elif "call" in options:
        work = [f"--setup={SETUP}", f"--call={EXAMPLES['call'][0]}"]
    elif "kernel" in options:
        work = [f"--kernel={KERNEL}", "--launch=scale<<<(n + 255) / 256, 256>>>(y, x, 2.0f, n)"]
        work.append(f"--setup={CUDA_SETUP}")
    else:
        return []
    extras = [one for part in single_options(name)[1:] for one in part]
    once = {extra.split("=")[0]: extra for extra in extras if "phases" not in extra}
    found = [work, work + list(once.values())]
    if "rotate" in options:
        found.append([*work, "--rotate=x,w", "--cache=cold"])
    return found


def sizes(name: str) -> list[list[str]]:
    return [[], ["--minimal"]] if "minimal" in SCENARIOS[name].options else [[]]


def variants() -> list[tuple[str, list[str]]]:
    """(scenario, options) of everything that is rendered below."""
    return [
        (name, options + size)
        for name in SCENARIOS
        for size in sizes(name)
        for options in single_options(name) + own_work(name)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """All variants, rendered to files whose first line tells the command."""
    target = tmp_path_factory.mktemp("rendered")
    for number, (name, options) in enumerate(variants()):
        stem = f"{name.replace('-', '_')}_{number:03d}"
        code = rendered(name, *options)
        (target / f"{stem}.{SCENARIOS[name].language}").write_text(code)
    return target


def test_there_are_many_variants() -> None:
    assert len(variants()) > 100


def ruff(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("ruff") or str(pathlib.Path(sys.executable).with_name("ruff"))]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)


def test_every_variant_is_python_3_10_and_imports_nothing_of_ours(folder: pathlib.Path) -> None:
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text(), path.name, feature_version=(3, 10))
        compile(tree, path.name, "exec", dont_inherit=True)
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("perf_timing") for name in names), path.name


def test_every_variant_passes_ruff(folder: pathlib.Path) -> None:
    done = ruff("check", "--isolated", "--no-cache", "--output-format=concise", str(folder))
    assert done.returncode == 0, (done.stdout + done.stderr)[:6000]


def test_every_variant_is_formatted(folder: pathlib.Path) -> None:
    done = ruff("format", "--isolated", "--no-cache", "--diff", str(folder))
    assert done.returncode == 0, (done.stdout + done.stderr)[:6000]


def test_every_variant_is_printable_ascii_with_one_newline_at_its_end(folder: pathlib.Path) -> None:
    for path in folder.iterdir():
        text = path.read_text()
        assert text.isascii() and text.endswith("\n") and not text.endswith("\n\n"), path.name
        assert not any(line != line.rstrip() for line in text.split("\n")), path.name
        assert "{{" not in text and "{%" not in text and "{#" not in text, path.name


@pytest.mark.parametrize("name", [n for n in SCENARIOS if "minimal" in SCENARIOS[n].options])
def test_the_minimal_size_fits_a_notebook_cell(name: str) -> None:
    lines = [line for line in rendered(name, "--minimal").splitlines() if line.strip()]
    limit = 80 if SCENARIOS[name].language == "cu" else 50
    assert len(lines) <= limit


def cuda_variants() -> list[list[str]]:
    found = [[], ["--minimal"], own_work("raw-cuda")[1], [*own_work("raw-cuda")[0], "--minimal"]]
    choices = SCENARIOS["raw-cuda"].options["method"][0].choices
    return found + [[f"--method={choice}"] for choice in choices[1:]]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("options", cuda_variants() if "raw-cuda" in SCENARIOS else [])
def test_cuda_code_compiles(tmp_path: pathlib.Path, options: list[str]) -> None:
    source = tmp_path / "program.cu"
    source.write_text(rendered("raw-cuda", *options))
    command = ["nvcc", "-arch=sm_90", "-Werror", "all-warnings", "-o", "/dev/null", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr

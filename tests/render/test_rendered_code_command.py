"""The command around the templates: names that are nearly right, files, folders, streams."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest
from perf_timing import _cli
from perf_timing.render import scenarios
from simulated_device.rendering import render_timing, rendered

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = scenarios.load_all()
WANTED = {
    "loop",
    "simple-event",
    "detailed-event",
    "cuda-graph",
    "triton",
    "cute",
    "raw-cuda",
    "nvtx",
    "kernel-time",
    "compare",
    "lightning-callback",
    "hf-callback",
}


def refused(*arguments: str) -> str:
    """The one line on stderr; nothing may be on stdout."""
    outcome = render_timing(*arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.count("\n") == 1 and outcome.stderr.isascii()
    return outcome.stderr


def test_every_scenario_has_a_template() -> None:
    assert set(SCENARIOS) == WANTED


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("cudagraph", "cuda-graph"),
        ("cuda-grpah", "cuda-graph"),
        ("simple", "simple-event"),
        ("detailed_event", "detailed-event"),
        ("kernel", "kernel-time"),
        ("cuda", "raw-cuda"),
        ("Triton", "triton"),
    ],
)
def test_an_unknown_scenario_names_the_near_one(given: str, near: str) -> None:
    assert near in refused(given)


def test_an_unknown_scenario_without_a_near_one_points_to_the_list() -> None:
    assert "--list" in refused("zzzzzz")


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("--cahce=cold", "--cache"),
        ("--warmup=3", "--warmup-ms"),
        ("--iteration=3", "--iterations"),
        ("--setup_file=x", "--setup-file"),
        ("--minmal", "--minimal"),
    ],
)
def test_an_unknown_option_names_the_near_one(given: str, near: str) -> None:
    assert near in refused("cuda-graph", given)


def test_an_abbreviated_option_is_not_guessed() -> None:
    assert "--iterations" in refused("cuda-graph", "--iter=5")


def test_an_option_of_another_scenario_is_refused() -> None:
    assert "--batch-size" in refused("cuda-graph", "--batch-size=5")


@pytest.mark.parametrize("arguments", [(), ("--minimal",), ("--cache=cold",)])
def test_nothing_to_render_is_refused(arguments: tuple[str, ...]) -> None:
    refused(*arguments)


def test_the_list_names_every_scenario_and_when_to_pick_it() -> None:
    outcome = render_timing("--list")
    assert outcome.exit_code == 0
    assert all(f"{name} " in outcome.stdout for name in SCENARIOS)
    assert outcome.stdout.count("Pick it when") == len(SCENARIOS)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_help_lists_just_the_options_of_the_scenario(name: str) -> None:
    outcome = render_timing(name, "--help")
    assert outcome.exit_code == 0
    words = outcome.stdout.replace(",", " ").replace("[", " ").replace("]", " ").split()
    flags = {word for word in words if word.startswith("--")}
    own = {option.flag for option, _ in SCENARIOS[name].options.values()}
    every = {o.flag for s in SCENARIOS.values() for o, _ in s.options.values()}
    described = {line.split()[0] for line in outcome.stdout.splitlines() if line.startswith("  --")}
    assert own <= flags
    assert not (described & every) - own


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_last_line_on_stderr_says_how_to_run_it(name: str, tmp_path: pathlib.Path) -> None:
    target = tmp_path / f"bench.{SCENARIOS[name].language}"
    outcome = render_timing(name, "-o", str(target))
    assert outcome.exit_code == 0 and outcome.stdout == ""
    last = outcome.stderr.splitlines()[-1]
    assert "run:" in last or "pass TimingCallback()" in last
    assert "bench" in last and last.isascii()
    assert target.read_text() == rendered(name)


def test_an_existing_file_is_kept_without_force(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "bench.py"
    target.write_text("mine")
    assert "--force" in refused("cuda-graph", "-o", str(target))
    assert target.read_text() == "mine"


def test_force_replaces_a_file_and_keeps_its_mode(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "bench.py"
    target.write_text("mine")
    target.chmod(0o750)
    assert render_timing("cuda-graph", "-o", str(target), "--force").exit_code == 0
    assert target.read_text() == rendered("cuda-graph")
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


@pytest.mark.parametrize("option", ["--call=x if", "--cache=lukewarm", "--itreations=4"])
def test_a_refused_option_writes_no_file(tmp_path: pathlib.Path, option: str) -> None:
    refused("cuda-graph", option, "-o", str(tmp_path / "bench.py"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["missing/bench.py", "."], ids=["no such folder", "a folder"])
def test_a_target_that_cannot_be_written_is_refused(tmp_path: pathlib.Path, target: str) -> None:
    refused("cuda-graph", "-o", str(tmp_path / target), "--force")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_half_way_leaves_the_old_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "bench.py"
    target.write_text("mine")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_cli.os, "replace", full)
    assert "No space left" in refused("cuda-graph", "-o", str(target), "--force")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_device_file_is_written_to_and_not_replaced(tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert render_timing("cuda-graph", "--minimal", "-o", str(pipe), "--force").exit_code == 0
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.read(reader, 1 << 16).decode() == rendered("cuda-graph", "--minimal")
    finally:
        os.close(reader)


def test_setup_and_setup_file_exclude_each_other(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "inputs.py"
    file.write_text("x = 1\n")
    refused("cuda-graph", "--call=x", "--setup=x = 1", "--setup-file", str(file))


@pytest.mark.parametrize(
    "content",
    [b"x = (", b"\xff\xfe", b"x = 1\x00"],
    ids=["a syntax error", "bytes that are no text", "a null byte"],
)
def test_a_setup_file_that_is_no_python_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    file = tmp_path / "inputs.py"
    file.write_bytes(content)
    assert "inputs.py" in refused("cuda-graph", "--call=x", "--setup-file", str(file))


def test_a_missing_setup_file_is_refused() -> None:
    assert "nowhere.py" in refused("cuda-graph", "--call=x", "--setup-file=nowhere.py")


def test_a_setup_file_is_the_same_as_its_text(tmp_path: pathlib.Path) -> None:
    text = "import torch\n\nx = torch.ones(4, device='cuda')\n"
    file = tmp_path / "inputs with space.py"
    file.write_bytes(text.replace("\n", "\r\n").encode())
    from_file = rendered("cuda-graph", "--call=x + 1", "--setup-file", str(file))
    from_text = rendered("cuda-graph", "--call=x + 1", "--setup", text)
    own = [line for line in from_file.splitlines() if "Rendered by" not in line]
    assert own == [line for line in from_text.splitlines() if "Rendered by" not in line]


def test_a_setup_name_that_the_script_uses_itself_is_refused() -> None:
    assert "statistics" in refused("cuda-graph", "--call=f()", "--setup=import torch as statistics")


def copy_of_tree(target: pathlib.Path) -> None:
    """The files of the skill that rendering needs, without write permission."""
    for folder in ("scripts", "templates"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, target / folder, ignore=ignore)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


@pytest.mark.parametrize("cwd", ["elsewhere", "skill copy/scripts"])
def test_a_read_only_copy_below_a_path_with_a_space_renders(
    tmp_path: pathlib.Path, cwd: str
) -> None:
    copy = tmp_path / "skill copy"
    copy_of_tree(copy)
    (tmp_path / "elsewhere").mkdir()
    before = sorted(copy.rglob("*"))
    command = [sys.executable, str(copy / "scripts" / "render_timing.py"), "cuda-graph"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=tmp_path / cwd, env=environment, capture_output=True, text=True, timeout=60
    )
    try:
        assert done.returncode == 0, done.stderr
        assert done.stdout == rendered("cuda-graph")
        assert sorted(copy.rglob("*")) == before
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "perf_timing.render", "cuda-graph", "--minimal"]
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == rendered("cuda-graph", "--minimal")


@pytest.mark.parametrize(
    "setup",
    [
        "time = 3",
        "for json in range(3):\n    pass",
        "from math import pi as gc",
        "def _call():\n    pass",
    ],
)
def test_a_variable_that_hides_what_the_script_uses_is_refused(setup: str) -> None:
    assert "rename" in refused("cuda-graph", "--call=1 + 1", f"--setup={setup}")


@pytest.mark.parametrize("setup", ["import time", "import torch", "import math, json", "x = 1"])
def test_a_set_up_that_hides_nothing_is_taken(setup: str) -> None:
    assert setup in rendered("cuda-graph", "--call=1 + 1", f"--setup={setup}")


def test_a_loop_without_a_loader_is_refused() -> None:
    assert "loader" in refused("loop", "--setup=x = 1", "--call=x")


def test_the_set_up_s_import_of_torch_is_not_repeated() -> None:
    code = rendered("simple-event", "--setup=import torch\n\nx = 1", "--call=x", "--minimal")
    assert code.count("import torch") == 1


def test_a_statement_beside_the_import_of_torch_stays() -> None:
    code = rendered("simple-event", "--setup=import torch; x = 1", "--call=x", "--minimal")
    assert "import torch; x = 1" in code


def test_the_main_block_of_a_set_up_file_is_left_out_and_its_future_import_goes_first() -> None:
    setup = "from __future__ import annotations\n\nx = 1\n\nif __name__ == '__main__':\n    exit(5)"
    code = rendered("simple-event", f"--setup={setup}", "--call=x")
    assert "\n    exit(5)" not in code and code.count("\nfrom __future__ import annotations") == 1
    compile(code, "rendered.py", "exec")


KERNEL = "--kernel=__global__ void k(float* x, int n) {}"
SETUP = "--setup=int n = 4; float* x = device_array<float>(n);"


@pytest.mark.parametrize(
    "launch",
    [
        "k<<<1, 1>>>(x, n), k<<<1, 1>>>(x, n)",
        "k<<<1, 1>>>(x, n) || k<<<1, 1>>>(x, n)",
        "k<<<1, 1>>>(x, n) + (n)",
        "k<<<1, 1>>>(x, n)>>>(x)",
        "k<<<1, 1>>>(x, n = 3)",
        "k<<<1, 1, 0, 0>>>(x, n)",
        "k<<<1), n, (1, 1>>>(x, n)",
        "k<<<1, 1>>>(x, n) // again",
        "k<<<1, 1>>>(x, n); n = 5",
        "k<<<1, 1>>>(x, n) {",
        "k<<<1, 1>>>(x, m)",
        "other<<<1, 1>>>(x, n)",
        "k(x, n)",
    ],
)
def test_what_is_not_one_launch_of_a_known_kernel_is_refused(launch: str) -> None:
    assert "--launch" in refused("raw-cuda", KERNEL, SETUP, f"--launch={launch}")


@pytest.mark.parametrize(
    "launch",
    [
        "k<<<1, 1>>>(x, n)",
        "k<<<(n + 255) / 256, dim3(16, 16)>>>(x, n);",
        "k<<<1, 1, n * sizeof(float)>>>(x + 1, (n >> 1) * 2)",
        "k<<<1, 1>>>(x, n <= 3)",
    ],
)
def test_one_launch_is_taken_and_gets_the_stream(launch: str) -> None:
    code = rendered("raw-cuda", KERNEL, SETUP, f"--launch={launch}")
    assert code.count(", stream>>>(x") == 1


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("__global__ void k(float* x, int n) {} int main() { return 0; }", "main"),
        ("__global__ void k(float* x, int n) {}}{", "match"),
        ("// __global__\nvoid k(float* x, int n) {}", "__global__"),
        ("@nowhere.cu", "nowhere.cu"),
    ],
)
def test_a_kernel_that_cannot_be_part_of_the_program_is_refused(kernel: str, reason: str) -> None:
    line = refused("raw-cuda", f"--kernel={kernel}", SETUP, "--launch=k<<<1, 1>>>(x, n)")
    assert reason in line


@pytest.mark.parametrize(
    "own",
    [
        "__global__ void spin(long long n) {}",
        "struct Timer { int a; };",
        "#define CHECK(x) x",
        "template <typename T>\n__device__ T median(T x) { return x; }",
    ],
)
def test_a_kernel_that_redefines_what_the_program_uses_is_refused(own: str) -> None:
    kernel = f"--kernel={own}\n__global__ void k(float* x, int n) {{}}"
    assert "rename" in refused("raw-cuda", kernel, SETUP, "--launch=k<<<1, 1>>>(x, n)")


@pytest.mark.parametrize("name", ["block_sum", "k", "n1", "x_"])
def test_a_kernel_of_any_other_name_is_taken(name: str) -> None:
    kernel = f"--kernel=__global__ void {name}(float* x, int n) {{ float median = 0; }}"
    assert name in rendered("raw-cuda", kernel, SETUP, f"--launch={name}<<<1, 1>>>(x, n)")

"""The three ways in: a wheel, launchers from a checkout, and a copy in a skills folder."""

import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
SKILL = "perf-workload-profiling"
COMMANDS = ("inject-timing", "lint-timing", "render-timing", "report-timing")
WITH_DEPENDENCIES = ("inject-timing", "lint-timing", "render-timing")
# What a checkout holds beside the files of the project.
PASSING = shutil.ignore_patterns(
    ".git", ".venv", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)

SLOW_CLOCK = """\
import time
import torch

x = torch.randn(4096, 4096, device="cuda")
for _ in range(10):
    y = x @ x
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(100):
    y = x @ x
elapsed_s = time.perf_counter() - start
print(elapsed_s / 100)
"""

TRAINING = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=8)
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
"""

RECORD: dict[str, Any] = {
    "schema": "perf-timing/1",
    "kind": "op",
    "name": "add",
    "method": "graph-slope",
    "samples_us": [9.9, 10.0, 10.1, 10.0, 9.8, 10.2, 10.0, 10.1],
    "summary": {"n": 8, "median_us": 10.0},
    "flags": [],
    "device": {"name": "NVIDIA H200"},
}


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    # Nothing of this session may help: neither its working directory nor its search path.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment | variables,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def files_below(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout as a clone would hold it."""
    copy = tmp_path_factory.mktemp("clone") / "tree"
    shutil.copytree(ROOT, copy, ignore=PASSING, symlinks=True)
    return copy


def build(kind: str, tree: Path, out: Path) -> Path:
    done = run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out, cwd=tree)
    assert done.returncode == 0, done.stderr
    [built] = out.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tree, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user, with a file for each command; commands run from here."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "slow_clock.py").write_text(SLOW_CLOCK)
    (folder / "train.py").write_text(TRAINING)
    (folder / "record.json").write_text(json.dumps(RECORD))
    return folder


# -- wheel --------------------------------------------------------------------------------------


def _expected(tree: Path) -> set[str]:
    package = {f"perf_timing/{name}" for name in files_below(tree / "scripts" / "perf_timing")}
    return package | {f"perf_timing/templates/{name}" for name in files_below(tree / "templates")}


def _contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")
        }


def test_the_wheel_holds_the_package_and_the_templates_and_nothing_else(
    wheel: Path, tree: Path
) -> None:
    expected = _expected(tree)
    assert len([name for name in expected if name.startswith("perf_timing/templates/")]) > 8
    assert _contents(wheel) == expected


def test_a_wheel_made_from_the_sdist_holds_the_same(tree: Path, tmp_path: Path) -> None:
    sdist = build("sdist", tree, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    assert _contents(build("wheel", unpacked, tmp_path / "wheel")) == _expected(tree)


def test_the_wheel_says_what_the_project_says(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        fields = Parser().parsestr(archive.read(metadata).decode())
        [points] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        commands = re.findall(r"^([\w-]+) =", archive.read(points).decode(), re.MULTILINE)
    [version] = re.findall(
        r'^__version__ = "(.+)"', (ROOT / "scripts/perf_timing/__init__.py").read_text(), re.M
    )
    assert fields["Version"] == version
    assert fields["License-Expression"] == "Apache-2.0"
    assert tuple(sorted(commands)) == COMMANDS


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the commands in a new environment; it finds the dependencies that we run with."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
    ]
    done = run(*install, "--disable-pip-version-check", wheel, cwd=home)
    assert done.returncode == 0, done.stderr
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return home / "bin"


def _path() -> str:
    """A search path on which the ast-grep that we run with is found."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


@pytest.mark.parametrize("command", COMMANDS)
def test_an_installed_command_explains_itself(installed: Path, work: Path, command: str) -> None:
    done = run(installed / command, "--help", cwd=work, PATH=_path())
    assert (done.returncode, done.stderr) == (0, "")
    assert command in done.stdout


def does_its_work(launch: list[str | Path], command: str, work: Path) -> None:
    """`command`, started by `launch`, does its main job in `work`."""
    jobs: dict[str, tuple[list[str], int, str]] = {
        "render-timing": (["cuda-graph"], 0, "import torch"),
        "lint-timing": (["slow_clock.py"], 1, "host-clock-without-sync"),
        "inject-timing": (["train.py", "--full-diff"], 0, "perf_counter"),
        "report-timing": (["record.json"], 0, "add"),
    }
    arguments, status, part = jobs[command]
    before = {path: path.read_bytes() for path in work.iterdir()}
    done = run(*launch, *arguments, cwd=work, PATH=_path())
    assert done.returncode == status, done.stderr
    assert part in done.stdout
    assert "Traceback" not in done.stderr
    assert {path: path.read_bytes() for path in work.iterdir()} == before


@pytest.mark.parametrize("command", COMMANDS)
def test_an_installed_command_does_its_work(installed: Path, work: Path, command: str) -> None:
    does_its_work([installed / command], command, work)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_package_runs_as_a_module(installed: Path, work: Path, command: str) -> None:
    module = f"perf_timing.{command.split('-')[0]}"
    does_its_work([installed / "python", "-m", module], command, work)


def test_the_installed_package_holds_no_launcher(installed: Path, work: Path) -> None:
    code = "import lint_timing"
    done = run(installed / "python", "-c", code, cwd=work)
    assert "No module named 'lint_timing'" in done.stderr


# -- launchers ----------------------------------------------------------------------------------


def launcher(root: Path, command: str) -> Path:
    return root / "scripts" / f"{command.replace('-', '_')}.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_launcher_asks_for_what_the_project_asks_for(command: str) -> None:
    text = launcher(ROOT, command).read_text("utf-8")
    [block] = re.findall(r"^# /// script\n((?:#.*\n)+?)# ///$", text, re.MULTILINE)
    asked = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))
    stated = project()["project"]
    assert asked == {
        "requires-python": stated["requires-python"],
        "dependencies": stated["dependencies"],
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_a_launcher_is_executable_and_short(command: str) -> None:
    path = launcher(ROOT, command)
    assert os.access(path, os.X_OK)
    assert path.read_text("utf-8").startswith("#!/usr/bin/env -S uv run --script\n")
    assert len(path.read_text("utf-8").splitlines()) <= 20


def test_there_is_a_launcher_for_each_command_and_no_other() -> None:
    scripts = {path.name for path in (ROOT / "scripts").glob("*.py")}
    assert scripts == {f"{command.replace('-', '_')}.py" for command in COMMANDS}
    assert tuple(sorted(project()["project"]["scripts"])) == COMMANDS


@pytest.fixture(scope="module")
def skill(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tree copied, read-only, to where an agent finds skills, below a path with a space."""
    target = tmp_path_factory.mktemp("user") / "my project" / ".claude" / "skills" / SKILL
    shutil.copytree(tree, target, symlinks=True)
    folders = [path for path in target.rglob("*") if path.is_dir()] + [target]
    for path in target.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    target.chmod(0o555)
    yield target
    for folder in folders:
        folder.chmod(0o755)


# `-P` and `-I` take the script's own folder off the search path.
FLAGS = [["-I"]] + ([["-P"]] if sys.version_info >= (3, 11) else []) + [[]]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(flags) or "no flag")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_copy_among_skills_does_its_work(
    skill: Path, work: Path, command: str, flags: list[str]
) -> None:
    before = files_below(skill)
    does_its_work([sys.executable, *flags, launcher(skill, command)], command, work)
    # Being root, or on a file system without modes, it might have written all the same.
    assert files_below(skill) == before


def test_a_linked_copy_does_its_work(skill: Path, work: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked"
    link.symlink_to(skill, target_is_directory=True)
    for command in COMMANDS:
        does_its_work([sys.executable, launcher(link, command)], command, work)


@pytest.mark.parametrize("command", WITH_DEPENDENCIES)
def test_a_launcher_without_its_dependencies_says_so_in_one_line(
    skill: Path, work: Path, tmp_path: Path, command: str
) -> None:
    arguments = {"render-timing": "cuda-graph", "lint-timing": "slow_clock.py"}
    # -S leaves out site-packages; with the empty PATH there is no ast-grep either, and the empty
    # cache folder holds no answer that needs none of them.
    done = run(
        sys.executable, "-S", launcher(skill, command), arguments.get(command, "train.py"),
        cwd=work, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"{command}: ")
    assert "pip install" in done.stderr


def test_report_timing_needs_no_dependency(skill: Path, work: Path) -> None:
    does_its_work([sys.executable, "-S", launcher(skill, "report-timing")], "report-timing", work)

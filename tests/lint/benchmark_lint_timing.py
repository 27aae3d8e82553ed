"""How long the linter takes: `python tests/lint/benchmark_lint_timing.py --tree CHECKOUT`.

Prints the time of one file, of a whole tree beside `ruff check` with its default rules, of 1, 4 and
16 copies of a part of it, and the largest memory; all without a cache, and of the tree also a
second time, with what is remembered of it. Runs are interleaved, each in a cold process with a warm
disk, and the median counts: of the wall time, and of the processor time of all processes, which
other work on the machine disturbs least. Give `--torchfix COMMAND` to compare with that too, on a
part of the tree.
"""

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
_KEPT = tempfile.TemporaryDirectory()
_REMEMBERING = [sys.executable, "-m", "perf_timing.lint"]
LINT = [*_REMEMBERING, "--no-cache"]

_BENCH = """\
import time
import torch


def bench(fn, x, iterations=100):
    for _ in range(10):
        fn(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(iterations):
        fn(x)
    return (time.perf_counter() - start) / iterations * 1e3


"""


class Cost(NamedTuple):
    """What a run took, in seconds: on the wall, and of processors."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s ({self.cpu_s:.2f} s of processors)"


def _environment() -> dict[str, str]:
    """As after an installation: bytecode is there. It and what is remembered lie apart."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    kept |= {"PYTHONPYCACHEPREFIX": f"{_KEPT.name}/bytecode", "XDG_CACHE_HOME": _KEPT.name}
    return {**kept, "PYTHONPATH": str(SCRIPTS)}


def run(command: Sequence[str]) -> Cost:
    """The cost of one run; a status other than 0, 1 and 2 ends the benchmark."""
    environment = _environment()
    before, start = _children_cpu_s(), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True)
    cost = Cost(time.perf_counter() - start, _children_cpu_s() - before)
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr!r}")
    return cost


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def interleaved(commands: Sequence[Sequence[str]], repeat: int) -> list[Cost]:
    """Median cost of each command, after one run of each that does not count."""
    for command in commands:
        run(command)
    rounds = [[run(command) for command in commands] for _ in range(repeat)]
    return [
        Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))
        for costs in zip(*rounds, strict=True)
    ]


def peak_mb(command: Sequence[str]) -> float:
    """Largest memory in MB of the command and all its processes together, sampled."""
    environment = _environment()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    largest, done = 0, threading.Event()

    def sample() -> None:
        nonlocal largest
        while not done.is_set():
            largest = max(largest, _session_bytes(process.pid))
            time.sleep(0.01)

    thread = threading.Thread(target=sample)
    thread.start()
    process.wait()
    done.set()
    thread.join()
    return largest / 1e6


def _session_bytes(session: int) -> int:
    """Memory of all processes of a session; what forked processes share is counted once."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    rollup = (folder / "smaps_rollup").read_text()
                    total += int(rollup.partition("Pss:")[2].split()[0]) * 1024
            except (OSError, ValueError, IndexError):
                continue
    return total


def one_file(folder: Path, repeat: int) -> None:
    text = _BENCH
    while text.count("\n") < 300:
        text += "def op(x):\n    y = x @ x\n    return y.sum()\n\n\n"
    path = folder / "bench.py"
    path.write_text(text)
    lint, idle = interleaved([[*LINT, str(path)], [sys.executable, "-c", "pass"]], repeat)
    print(f"one file of 300 lines: {lint}; of which Python itself {idle}")


def whole_tree(tree: Path, ruff: str | None, repeat: int) -> None:
    files = [path for path in tree.rglob("*.py") if path.is_file()]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    commands = [[*LINT, "--isolated", str(tree)], [*LINT, "--isolated", "--jobs", "1", str(tree)]]
    commands.append([*_REMEMBERING, "--isolated", str(tree)])
    if ruff:
        commands.append([ruff, "check", "--no-cache", "--isolated", "-q", str(tree)])
    lint, single, again, *others = interleaved(commands, repeat)
    print(f"{tree.name}: {len(files)} Python files, {lines} lines")
    print(f"  lint-timing {lint}; in one process {single}; again with its cache {again}")
    for other in others:
        print(f"  ruff check {other}; of that {_ratio(lint, other)}; again {_ratio(again, other)}")
    print(f"  largest memory {peak_mb(commands[0]):.0f} MB")


def _ratio(one: Cost, other: Cost) -> str:
    wall, cpu = one.wall_s / other.wall_s, one.cpu_s / other.cpu_s
    return f"{wall:.2f} on the wall, {cpu:.2f} of processors"


def scaling(tree: Path, folder: Path, repeat: int) -> None:
    files = sorted(path for path in tree.rglob("*.py") if path.is_file())[::4]
    costs: list[Cost] = []
    for copies in (1, 4, 16):
        target = folder / f"x{copies}"
        for copy in range(copies):
            for number, path in enumerate(files):
                place = target / str(copy) / str(number % 50) / f"{number}_{path.name}"
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        costs += interleaved([[*LINT, str(target)]], repeat)
    rates = ", ".join(
        f"{copies}x {cost} ({cost.cpu_s / copies:.2f} s of processors each)"
        for copies, cost in zip((1, 4, 16), costs, strict=True)
    )
    print(f"{len(files)} files: {rates}")


def beside(command: str, tree: Path) -> None:
    files = [str(p) for p in sorted(tree.rglob("*.py")) if b"torch" in p.read_bytes()][::10]
    ours = run([*LINT, *files])
    theirs = run([*shlex.split(command), *files])
    print(f"{len(files)} files: lint-timing {ours}, {command} {theirs};"
          f" {theirs.cpu_s / ours.cpu_s:.0f} times the processor time")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, help="a large checkout")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ruff", default=shutil.which("ruff"))
    parser.add_argument("--torchfix", metavar="COMMAND")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        one_file(Path(name), 4 * arguments.repeat)
        if arguments.tree:
            whole_tree(arguments.tree, arguments.ruff, arguments.repeat)
            scaling(arguments.tree, Path(name), 1)
            if arguments.torchfix:
                beside(arguments.torchfix, arguments.tree)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

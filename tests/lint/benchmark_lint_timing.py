"""How long the linter takes: `python tests/lint/benchmark_lint_timing.py --tree CHECKOUT`.

Prints the time of one file, of a whole tree beside `ruff check`, of 1, 4 and 16 copies of a part
of it, and the largest memory. Runs are interleaved, each in a cold process with a warm disk, and
the median counts. Give `--torchfix COMMAND` to compare with that too, on a part of the tree.
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

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
LINT = [sys.executable, "-m", "perf_timing.lint"]

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


def run_s(command: Sequence[str]) -> float:
    """Wall time in seconds of one run; a status other than 0, 1 and 2 ends the benchmark."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True)
    elapsed_s = time.perf_counter() - start
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr!r}")
    return elapsed_s


def interleaved_s(commands: Sequence[Sequence[str]], repeat: int) -> list[float]:
    """Median wall time of each command in seconds, after one run of each that does not count."""
    for command in commands:
        run_s(command)
    rounds = [[run_s(command) for command in commands] for _ in range(repeat)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def peak_mb(command: Sequence[str]) -> float:
    """Largest memory in MB of the command and all its processes together, sampled."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
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
    lint, idle = interleaved_s([[*LINT, str(path)], [sys.executable, "-c", "pass"]], repeat)
    print(f"one file of 300 lines: {lint * 1e3:.0f} ms, of which Python itself {idle * 1e3:.0f} ms")


def whole_tree(tree: Path, ruff: str | None, repeat: int) -> None:
    files = [path for path in tree.rglob("*.py") if path.is_file()]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    commands = [[*LINT, str(tree)], [*LINT, "--jobs", "1", str(tree)]]
    if ruff:
        commands.append([ruff, "check", "--no-cache", "-q", str(tree)])
    lint, single, *others = interleaved_s(commands, repeat)
    print(f"{tree.name}: {len(files)} Python files, {lines} lines")
    print(f"  lint-timing {lint:.2f} s ({lines / lint / 1e3:.0f} thousand lines/s), one process"
          f" {single:.2f} s")  # fmt: skip
    for other in others:
        print(f"  ruff check {other:.2f} s; ratio {lint / other:.2f}")
    print(f"  largest memory {peak_mb(commands[0]):.0f} MB")


def scaling(tree: Path, folder: Path, repeat: int) -> None:
    files = sorted(path for path in tree.rglob("*.py") if path.is_file())[::4]
    times = []
    for copies in (1, 4, 16):
        target = folder / f"x{copies}"
        for copy in range(copies):
            for number, path in enumerate(files):
                place = target / str(copy) / str(number % 50) / f"{number}_{path.name}"
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        times += interleaved_s([[*LINT, str(target)]], repeat)
    rates = ", ".join(
        f"{copies}x {elapsed_s:.2f} s ({elapsed_s / copies:.2f} s each)"
        for copies, elapsed_s in zip((1, 4, 16), times, strict=True)
    )
    print(f"{len(files)} files: {rates}")


def beside(command: str, tree: Path) -> None:
    files = [str(p) for p in sorted(tree.rglob("*.py")) if b"torch" in p.read_bytes()][::10]
    ours = run_s([*LINT, *files])
    theirs = run_s([*shlex.split(command), *files])
    print(f"{len(files)} files: lint-timing {ours:.2f} s, {command} {theirs:.2f} s;"
          f" {theirs / ours:.0f} times as long")  # fmt: skip


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

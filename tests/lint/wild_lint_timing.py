"""Other people's code: `python tests/lint/wild_lint_timing.py TREE... [--findings FILE]`.

Checks every file below each tree twice: alone, with a clock on it, and by the command on the whole
tree. Prints for each tree its files, lines, findings, findings per 100,000 lines, files named as
not checked, files left out (ignored by git, in a skipped folder, or a link) and the slowest file in
CPU seconds. Fails on a traceback, an internal error, a file that takes longer than `--limit-s`, and
where the two ways differ in their findings or in what they name as not checked.
"""

import argparse
import heapq
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from perf_timing._cli import ascii_line
from perf_timing.lint.config import SettingsFinder
from perf_timing.lint.files.discover import KINDS, Target, discover, suffix_of
from perf_timing.lint.files.source import load
from perf_timing.lint.judge import all_rules
from perf_timing.lint.runner import FileResult, check_documents

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
HANG_S = 120
SHOWN = 10  # slowest files
_RULES = frozenset(rule.name for rule in all_rules() if rule.default)
_KEYS = ("rule", "path", "line", "column", "message", "cell")
_HEAD = ("tree", "files", "lines", "found", "/100k", "not", "out", "worst")
_ROW = "{:44.44} {:>7} {:>11} {:>5} {:>6} {:>5} {:>6} {:>6}"


class HangError(BaseException):
    """A file took longer than `HANG_S`. No handler of ordinary errors may swallow it."""


@dataclass
class Tally:
    """What came of one tree, or of several."""

    files: int = 0
    lines: int = 0
    left_out: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # "path: why it is not checked"
    slowest: list[tuple[float, str]] = field(default_factory=list)  # seconds, path
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in the counts of another tree."""
        self.files += other.files
        self.lines += other.lines
        self.left_out += other.left_out
        self.findings += other.findings
        self.problems += other.problems
        self.slowest = heapq.nlargest(SHOWN, self.slowest + other.slowest)
        self.faults += other.faults

    def row(self, name: str) -> str:
        """One row of the table."""
        found, problems = len(self.findings), len(self.problems)
        rate = f"{found / self.lines * 1e5:.2f}" if self.lines else "-"
        worst_s = f"{max(self.slowest, default=(0.0, ''))[0]:.2f}"
        counts = (f"{self.files:,}", f"{self.lines:,}", found, rate, problems, self.left_out)
        return _ROW.format(name, *counts, worst_s)


def line_count(path: str, kind: str) -> int:
    """Lines of code: of a notebook, those of its code cells."""
    data = Path(path).read_bytes()
    if kind != "notebook":
        return data.count(b"\n") + (data != b"" and not data.endswith(b"\n"))
    try:
        record = json.loads(data)
        sheets = record.get("worksheets") or [record]
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        texts = ["".join(cell.get("source", cell.get("input", ""))) for cell in code]
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0
    return sum(len(text.splitlines()) for text in texts)


def check_alone(target: Target) -> tuple[FileResult, float]:
    """What the linter says of one file, and the CPU seconds it took. Raises HangError.

    CPU time, ast-grep's included, is what the file takes on an idle machine, or a little more.
    """

    def hang(*_: object) -> None:
        raise HangError

    signal.signal(signal.SIGALRM, hang)
    signal.alarm(HANG_S)
    start_s = cpu_s()
    try:
        result = check_documents([load(target)], lambda _: _RULES)[0]
    finally:
        signal.alarm(0)
    return result, cpu_s() - start_s


def cpu_s() -> float:
    """Seconds of processor that this process and those it waited for have used."""
    return sum(os.times()[:4])


def take(target: Target, tally: Tally, limit_s: float) -> None:
    """Check one file and add what came of it to `tally`."""
    tally.files += 1
    tally.lines += line_count(target.path, target.kind)
    try:
        result, seconds = check_alone(target)
    except HangError:
        tally.faults.append(f"{target.shown}: no answer within {HANG_S} s")
        return
    tally.slowest = heapq.nlargest(SHOWN, [*tally.slowest, (seconds, target.shown)])
    if seconds > limit_s:
        tally.faults.append(f"{target.shown}: {seconds:.1f} s")
    for reason in result.problems:
        tally.problems.append(f"{target.shown}: {reason}")
        if "internal error" in reason:
            tally.faults.append(f"{target.shown}: {reason}")
    for report in result.reports:
        tally.findings.append({key: getattr(report.finding, key) for key in _KEYS})


def of_tree(tree: str, limit_s: float, named: bool) -> Tally:
    """Check each file below `tree` alone, and all of them together by the command."""
    tally = Tally()
    targets = discover([tree], SettingsFinder(True), markdown=False, force_exclude=False).targets
    present = sum(suffix_of(name) in KINDS for _, _, names in os.walk(tree) for name in names)
    tally.left_out = present - len(targets)
    for target in targets:
        take(replace(target, named=named), tally, limit_s)
    if targets and not named:
        compare_with_command(tree, tally)
    return tally


def compare_with_command(tree: str, tally: Tally) -> None:
    """Note where the command on the whole tree differs from the files one by one."""
    command = [sys.executable, "-m", "perf_timing.lint", "--isolated", "--no-cache"]
    command += ["--format", "json", tree]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(command, env=environment, capture_output=True)
    messages = done.stderr.decode("utf-8", "surrogateescape").splitlines()
    if done.returncode not in (0, 1, 2) or b"Traceback" in done.stderr:
        tally.faults.append(f"{tree}: status {done.returncode}: {messages[-1:]}")
        return
    together = {json.dumps([f.get(key) for key in _KEYS]) for f in json.loads(done.stdout)}
    alone = {json.dumps([f[key] for key in _KEYS]) for f in tally.findings}
    named = {message.removeprefix("lint-timing: ") for message in messages}
    tally.faults += [f"in one run only: {f}" for f in sorted(together ^ alone)]
    problems = {ascii_line(problem) for problem in tally.problems}  # as the command prints them
    tally.faults += [f"named in one run only: {m}" for m in sorted(named ^ problems)]


def kind_of_problem(problem: str) -> str:
    """The reason in "path: reason", without what differs from file to file."""
    reason = re.sub(r"^.*?\.\w+: ", "", problem)
    reason = re.sub(r"\bcell \d+( \([^)]*\))?: ", "a cell: ", reason)
    return re.sub(r"\b(0x[0-9a-f]+|\d[\d.,]*)\b|'[^']*'", "N", reason)


def listing(title: str, lines: Sequence[str]) -> str:
    return "\n  ".join([f"\n{title}:", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("trees", nargs="+", metavar="TREE")
    add("--limit-s", type=float, default=10.0, help="most CPU seconds for one file")
    add("--named", action="store_true", help="parse all files, as when each is named by its user")
    add("--findings", type=Path, metavar="FILE", help="write all findings to FILE, as JSON")
    arguments = parser.parse_args(argv)
    total = Tally()
    print(_ROW.format(*_HEAD))
    for tree in arguments.trees:
        tally = of_tree(tree, arguments.limit_s, arguments.named)
        print("\n  ".join([tally.row(Path(tree).name), *tally.faults[:20]]), flush=True)
        total.add(tally)
    print(total.row("all"))
    kinds = Counter(map(kind_of_problem, total.problems)).most_common()
    print(
        listing("slowest, CPU s", [f"{s:6.2f} {path}" for s, path in sorted(total.slowest)[::-1]])
    )
    print(listing("not checked", [f"{count:5} {kind}" for kind, count in kinds]))
    print(listing(f"{len(total.faults)} faults", total.faults[:200]))
    if arguments.findings:
        arguments.findings.write_text(json.dumps(total.findings, indent=1) + "\n")
    return 1 if total.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

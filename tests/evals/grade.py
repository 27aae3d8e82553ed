"""Grade what an agent made of the tasks in evals.json; no model is asked.

    python tests/evals/grade.py ANSWERS                   # ANSWERS/<id>/ is where a task was done
    python tests/evals/grade.py --write-fixtures ANSWERS  # lay out what each task starts from

ANSWERS/<id>/ holds the fixtures of the task, the files that the agent wrote, and answer.md with its
last message. Scripts run on the simulated device; with --device gpu on the one that is there.
Exit status: 0 all assertions hold, 1 some do not, 2 nothing could be graded.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "scripts"), str(HERE.parent)]

FIGURE = re.compile(r"(\d+(?:\.\d+)?)(?: |&nbsp;)?(us|ms|s|ns|microseconds|milliseconds)\b")
US = {"ns": 1e-3, "us": 1.0, "microseconds": 1.0, "ms": 1e3, "milliseconds": 1e3, "s": 1e6}


class GradingError(Exception):
    """Why nothing can be graded."""


@dataclass(frozen=True)
class Run:
    """What a script left: exit status, both streams, the record it wrote or None."""

    exit_code: int
    stdout: str
    stderr: str
    record: dict[str, Any] | None


@dataclass(frozen=True)
class Answer:
    """One task's folder, and how scripts in it are run."""

    folder: Path
    device: str

    def text(self, name: str) -> str:
        """A file's text; raises FileNotFoundError."""
        return (self.folder / name).read_text(encoding="utf-8")

    def run(self, name: str) -> Run:
        """Run a script of the folder; its modules are found beside it."""
        source = self.text(name)
        beside = {p.name: p.read_text("utf-8") for p in self.folder.glob("*.py") if p.name != name}
        return run_source(source, tuple(sorted(beside.items())), self.device)


@functools.cache  # several assertions ask for the same run
def run_source(source: str, files: tuple[tuple[str, str], ...], device: str) -> Run:
    """Run a script on the simulated device or on a GPU, with the files that lie beside it."""
    beside = dict(files)
    if device == "gpu":
        return _run_on_gpu(source, beside)
    from simulated_device import run_script

    modules = {name.removesuffix(".py") for name in beside}
    try:
        result = run_script(source, files=beside)
    finally:
        for name in modules & set(sys.modules):
            del sys.modules[name]
    return Run(result.exit_code, result.stdout, result.stderr, result.record)


def _run_on_gpu(source: str, beside: dict[str, str]) -> Run:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (beside | {"graded_script.py": source}).items():
            (folder / file).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "graded_script.py"],
            cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False,
        )  # fmt: skip
        records = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")]
    record = next((r for r in records if isinstance(r, dict) and "schema" in r), None)
    return Run(done.returncode, done.stdout, done.stderr, record)


def quietly(main: Callable[[list[str]], int], *arguments: str) -> tuple[int, str]:
    """(exit status, both streams) of one of our commands."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(list(arguments))
    return status, out.getvalue()


# --- assertions: each returns None, or why it does not hold --------------------------------------


def lint_clean(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """lint-timing has nothing to say about the file."""
    from perf_timing.lint import main

    status, told = quietly(
        main, "--isolated", "--format", "concise", str(answer.folder / wanted["file"])
    )
    if status == 0 and "Checked 1 file" in told:
        return None
    return f"lint-timing exits {status}: {told.strip().splitlines()[0] if told.strip() else ''}"


def reads_true_time(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The script's figure is that of the kernels, within a share."""
    truth = _truth_us(wanted, answer.device)
    run = answer.run(wanted["file"])
    if run.exit_code != 0:
        return f"exits {run.exit_code}: {run.stderr.strip()[-200:]}"
    figure = _figure_us(run)
    if figure is None:
        return "prints no figure with a unit"
    if abs(figure - truth) <= wanted["within"] * truth:
        return None
    return f"reads {figure:.2f} us, is {truth:.2f} us"


def _truth_us(wanted: dict[str, Any], device: str) -> float:
    from perf_timing.render import main

    setup, call = f"--setup={wanted['setup']}", f"--call={wanted['call']}"
    cache = f"--cache={wanted['cache']}"
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        status = main(["kernel-time", setup, call, cache, "--json", "truth.json"])
    files = tuple((name, text) for name, text in fixtures().items() if name.endswith(".py"))
    run = run_source(out.getvalue(), files, device)
    if status != 0 or run.record is None:
        raise GradingError(
            f"the truth of {wanted['call']} cannot be had: {run.stderr.strip()[-200:]}"
        )
    return float(run.record["summary"]["median_us"])


def _figure_us(run: Run) -> float | None:
    if run.record is not None and "summary" in run.record:
        return float(run.record["summary"]["median_us"])
    found = FIGURE.search(run.stdout)
    return float(found[1]) * US[found[2]] if found else None


def gives_verdict(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The comparison's verdict; "undecided" does for "same"."""
    run = answer.run(wanted["file"])
    if run.exit_code != 0:
        return f"exits {run.exit_code}: {run.stderr.strip()[-200:]}"
    if run.record is not None and run.record.get("pairs"):
        given = {run.record["pairs"][0]["verdict"]}
    else:
        given = {
            w.lower() for w in re.findall(r"(?i)\b(faster|slower|same|undecided)\b", run.stdout)
        }
    accepted = {"same", "undecided"} if wanted["verdict"] == "same" else {wanted["verdict"]}
    return None if given and given <= accepted else f"says {sorted(given)}, not {sorted(accepted)}"


def prints(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The script's output matches."""
    found = re.search(wanted["pattern"], answer.run(wanted["file"]).stdout, re.IGNORECASE)
    return None if found else f"prints no {wanted['pattern']!r}"


def contains(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The file matches."""
    found = re.search(wanted["pattern"], answer.text(wanted["file"]))
    return None if found else f"holds no {wanted['pattern']!r}"


def says(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """answer.md matches."""
    found = re.search(wanted["pattern"], answer.text("answer.md"), re.IGNORECASE)
    return None if found else f"answer.md says nothing like {wanted['pattern']!r}"


def never_says(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """answer.md does not match."""
    found = re.search(wanted["pattern"], answer.text("answer.md"), re.IGNORECASE)
    return f"answer.md says {found[0]!r}" if found else None


def unchanged(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The fixture is as it was."""
    same = answer.text(wanted["file"]) == fixtures()[wanted["file"]]
    return None if same else "was changed"


def instrumented(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The loop is timed, by inject-timing or by hand."""
    from perf_timing.inject import main

    if quietly(main, "--check", str(answer.folder / wanted["file"]))[0] == 0:
        return None
    by_hand = re.search(r"elapsed_time|perf_counter", answer.text(wanted["file"]))
    return None if by_hand else "is not instrumented"


def restores(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """Without the timing it is the fixture again; by hand, it keeps the fixture's lines."""
    from perf_timing.inject import main

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(answer.folder / wanted["file"], folder))
        if quietly(main, "--remove", str(copy))[0] == 0:
            same = copy.read_text("utf-8") == fixtures()[wanted["fixture"]]
            return None if same else "is another script when the timing is removed"
    return keeps(answer, wanted)


def keeps(answer: Answer, wanted: dict[str, Any]) -> str | None:
    """The fixture's lines are there, in order; heads of loops may differ."""
    lines = iter([line.strip() for line in answer.text(wanted["file"]).split("\n")])
    for line in fixtures()[wanted["fixture"]].split("\n"):
        line = line.strip()
        if line and not line.startswith(("for ", "while ")) and line not in lines:
            return f"has lost {line!r}"
    return None


ASSERTIONS = {
    function.__name__: function
    for function in (
        contains, gives_verdict, instrumented, keeps, lint_clean, never_says, prints,
        reads_true_time, restores, says, unchanged,
    )
}  # fmt: skip


# --- tasks ---------------------------------------------------------------------------------------


def tasks() -> list[dict[str, Any]]:
    """The tasks of evals.json; raises GradingError where there is none."""
    found = json.loads((HERE / "evals.json").read_text(encoding="utf-8"))["evals"]
    if not found:
        raise GradingError("evals.json holds no task")
    return list(found)


@functools.cache
def fixtures() -> dict[str, str]:
    """Name of each fixture, and its text."""
    import yaml

    return dict(yaml.safe_load((HERE / "fixtures.yml").read_text(encoding="utf-8")))


def write_fixtures(folder: Path) -> None:
    """A folder for each task, with the files it starts from and its prompt."""
    for task in tasks():
        target = folder / task["id"]
        target.mkdir(parents=True, exist_ok=True)
        (target / "PROMPT.md").write_text(task["prompt"] + "\n", encoding="utf-8")
        for name in task["files"]:
            (target / name).write_text(fixtures()[name], encoding="utf-8")


def grade(task: dict[str, Any], answer: Answer) -> list[tuple[str, str | None]]:
    """(what was asserted, None or why it does not hold) for each assertion of a task."""
    graded: list[tuple[str, str | None]] = []
    for wanted in task["assertions"]:
        label = " ".join(
            str(wanted[k]) for k in ("type", "file", "pattern", "verdict") if k in wanted
        )
        try:
            reason = ASSERTIONS[wanted["type"]](answer, wanted)
        except (FileNotFoundError, UnicodeDecodeError) as error:
            reason = f"cannot be read: {Path(getattr(error, 'filename', None) or '?').name}"
        graded.append((label, reason))
    return graded


def grade_all(answers: Path, device: str, only: Sequence[str]) -> int:
    """Grade every task and print a line for each assertion that fails; returns the exit status."""
    chosen = [task for task in tasks() if not only or task["id"] in only]
    if not chosen:
        raise GradingError(f"no task is called {', '.join(only)}")
    if not any((answers / task["id"]).is_dir() for task in chosen):
        raise GradingError(f"{answers} holds the answer of no task, such as {chosen[0]['id']}/")
    failed = 0
    for task in chosen:
        graded = grade(task, Answer(answers / task["id"], device))
        reasons = [(label, reason) for label, reason in graded if reason is not None]
        failed += bool(reasons)
        print(f"{'FAIL' if reasons else 'ok  '} {task['id']} ({len(graded)} assertions)")
        for label, reason in reasons:
            print(f"       {label}: {reason}")
    print(f"{len(chosen) - failed} of {len(chosen)} tasks passed")
    return 1 if failed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", type=Path, metavar="ANSWERS")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="this task")
    parser.add_argument("--device", choices=("simulated", "gpu"), default="simulated")
    parser.add_argument("--write-fixtures", action="store_true", help="lay out, grade nothing")
    options = parser.parse_args(argv)
    try:
        if options.write_fixtures:
            write_fixtures(options.answers)
            return 0
        return grade_all(options.answers, options.device, options.only)
    except GradingError as error:
        print(f"grade: {error}", file=sys.stderr)
    except OSError as error:
        print(f"grade: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())

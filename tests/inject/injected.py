"""Shared by the tests of inject-timing: instrument a text, run it, read its record."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf_timing.inject import main


@dataclass(frozen=True)
class Outcome:
    """What a run of the command, or of a script, left."""

    status: int
    out: str
    err: str


def command(*arguments: str) -> Outcome:
    """`inject-timing` with these arguments, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    return Outcome(status, out.getvalue(), err.getvalue())


def code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def instrumented(folder: Path, text: str, *options: str, name: str = "train.py") -> Path:
    """A file with the text, instrumented; fails the test where the command fails."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    outcome = command(str(path), "--write", *options)
    assert outcome.status == 0, outcome.err
    return path


def marks(path: Path) -> list[str]:
    """The marked lines of a file, without the block and without their comment."""
    text = path.read_text(encoding="utf-8")
    body = re.sub(r"(?s)# >>> perf-timing.*?# <<< perf-timing <<<\n", "", text)
    lines = [line.strip() for line in body.splitlines() if "_perf_timing" in line]
    return [line.removesuffix("# perf-timing").strip() for line in lines]


def run(
    path: Path, *launcher: str, arguments: tuple[str, ...] = (), timeout_s: float = 120
) -> Outcome:
    """Run a script in its folder on the CPU."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *launcher, path.name, *arguments],
        cwd=path.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def record_of(path: Path, *options: str, text: str, launcher: tuple[str, ...] = ()) -> Any:
    """Instrument `text`, run it, and return its JSON record; the script must succeed."""
    script = instrumented(path, text, "--json", "record.json", *options)
    outcome = run(script, *launcher)
    assert outcome.status == 0, outcome.err
    return json.loads((path / "record.json").read_text(encoding="utf-8"))

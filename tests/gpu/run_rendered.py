"""Render a scenario and run it in this process."""

import contextlib
import io
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """What a rendered script came to: `record` is None where it stopped, and `errors` says why."""

    record: dict[str, Any] | None
    errors: str
    took_s: float
    script: dict[str, Any]  # its names


def run(scenario: str, chosen: dict[str, Any], folder: Path) -> Run:
    """Render `scenario` with these options into `folder`, run it, read its record.

    perf_timing must be importable. A script that stops, or raises RuntimeError, has no record.
    """
    from perf_timing.render import engine, scenarios

    json_file, path = folder / "record.json", folder / "rendered.py"
    json_file.unlink(missing_ok=True)
    code = engine.render(scenarios.load_all()[scenario], {**chosen, "json": str(json_file)})
    path.write_text(code, encoding="utf-8")
    script: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    errors = io.StringIO()
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            exec(compile(code, str(path), "exec"), script)
        except SystemExit:
            pass
        except RuntimeError as error:
            print(f"raised {error}", file=sys.stderr)
    took_s = time.perf_counter() - begin
    record = None
    if json_file.exists():
        record = json.loads(json_file.read_text(encoding="utf-8"))
    return Run(record, errors.getvalue().strip(), took_s, script)

"""Renders a scenario with the command's own main and runs the result on the simulated device."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perf_timing.render import main

from .model import DeviceModel
from .runner import Result, run_script

JSON_NAME = "record.json"
Edit = Callable[[str], str]


@dataclass(frozen=True)
class Outcome:
    """What `render-timing` left: exit status and both streams."""

    exit_code: int
    stdout: str
    stderr: str


def render_timing(*arguments: str) -> Outcome:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    return Outcome(status, out.getvalue(), err.getvalue())


@functools.cache
def rendered(*arguments: str) -> str:
    """The rendered code; fails the test when the command does."""
    outcome = render_timing(*arguments)
    assert outcome.exit_code == 0, f"render-timing {arguments}: {outcome.stderr}"
    return outcome.stdout


def measure(
    scenario: str,
    *options: str,
    device: DeviceModel | None = None,
    edit: Edit | None = None,
    argv: Sequence[str] = (),
) -> Result:
    """Render with a JSON record, apply `edit` to the code, run it on the device."""
    code = rendered(scenario, *options, "--json", JSON_NAME)
    return run_script(edit(code) if edit else code, device, argv)


def replace_once(old: str, new: str) -> Edit:
    """An edit that breaks a template on purpose; the text must be there."""

    def edit(code: str) -> str:
        assert old in code, f"the rendered code no longer holds {old!r}"
        return code.replace(old, new)

    return edit

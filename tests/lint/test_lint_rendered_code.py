"""Code that render-timing prints gives the linter nothing to report, not even as information."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from perf_timing.lint import main as lint
from perf_timing.render import main as render
from perf_timing.render import scenarios

SCENARIOS = scenarios.load_all()
VARIANTS = {"full": [], "minimal": ["--minimal"], "cold": ["--cache=cold"], "phases": ["--phases"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every scenario in every form that it has."""
    target = tmp_path_factory.mktemp("rendered")
    for name, scenario in SCENARIOS.items():
        for form, options in VARIANTS.items():
            if options and options[0].strip("-").partition("=")[0] not in scenario.options:
                continue
            file = target / f"{form}_{name.replace('-', '_')}.{scenario.language}"
            with contextlib.redirect_stderr(io.StringIO()):
                assert render([name, *options, "-o", str(file)]) == 0
    return target


def test_every_scenario_is_there(folder: Path) -> None:
    names = {path.stem for path in folder.iterdir()}
    assert {f"full_{name.replace('-', '_')}" for name in SCENARIOS} <= names
    for form in VARIANTS:
        assert any(name.startswith(form) for name in names)


def test_rendered_code_has_no_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = lint(["--isolated", "--fail-on", "info", "--format", "concise", str(folder)])
    told = capsys.readouterr().out
    assert status == 0, told
    assert f"Checked {len(list(folder.iterdir()))} files: no findings." in told

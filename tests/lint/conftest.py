"""Fixtures of the tests of the command."""

import os
from pathlib import Path

import pytest
from lint.lint_command import Lint, Project, Run


@pytest.fixture
def lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lint:
    """Runs the command in this process, in the temporary folder; nothing can be remembered."""
    from perf_timing.lint import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)

    def run(*arguments: str) -> Run:
        capfd.readouterr()
        status = main(list(arguments))
        out, err = capfd.readouterr()
        assert err.isascii()
        return Run(status, out, err)

    return run


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Writes files, given as {name: content}, into the temporary folder, and returns it."""

    def write(files: dict[str, str | bytes]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            path.write_bytes(data)
        return tmp_path

    return write

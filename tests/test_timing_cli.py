"""What every command shares: one line for an argument that it does not know."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize(
    ("package", "arguments", "hint"),
    [
        ("lint", ["--selct", "ALL", "f.py"], "did you mean --select or"),
        ("lint", ["--fixx=3", "f.py"], "did you mean --fix?"),
        ("lint", ["--format", "xml", "f.py"], "invalid choice: 'xml'"),
        ("report", ["--frmat", "json", "a.json"], "did you mean --format?"),
        ("inject", ["train.py", "--wirte"], "did you mean --write"),
        ("render", ["--lst"], "did you mean --list?"),
        ("render", ["simple-event", "--warmpu-ms", "3"], "did you mean --warmup-ms or"),
        ("lint", ["--zzzzzzz", "f.py"], "unrecognized arguments: --zzzzzzz; 'lint-timing --help'"),
    ],
)
def test_an_unknown_argument_is_one_line_that_names_what_is_near(
    package: str, arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(f"perf_timing.{package}").main
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    assert told.err.startswith(f"{package}-timing: ") and hint in told.err

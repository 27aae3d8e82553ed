"""The same bytes come out for any order of files, any split, and any number of processes."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lint.lint_command import BAD, FIXABLE, INFO, Lint, Project
from perf_timing.lint import runner, workers

RULES = Path(__file__).resolve().parents[1] / "rules"
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def many(project: Project) -> list[str]:
    """240 files in folders, some of which cannot be checked."""
    texts = [BAD, FIXABLE, INFO, "x = 1\n", "import time, torch\ntime.time(\n", BAD + INFO]
    names = [f"d{i % 7}/f{i}.py" for i in range(240)]
    project({name: texts[i % len(texts)] for i, name in enumerate(names)})
    return names


def test_processes_do_not_show(lint: Lint, many: list[str]) -> None:
    for output in ("full", "json", "sarif", "github", "concise"):
        one = lint(".", "--format", output, "--jobs", "1")
        assert one.status == 2
        assert one.err.count("\n") == 40
        for jobs in ("2", "5"):
            assert lint(".", "--format", output, "--jobs", jobs) == one


def test_order_of_arguments_does_not_show(lint: Lint, many: list[str]) -> None:
    shuffled = many[:]
    random.Random(7).shuffle(shuffled)
    assert lint(*shuffled) == lint(*many)
    walked = lint(".", "--format", "json")
    assert walked.out == lint(*many, "--format", "json").out


def test_batches_add_up_to_the_whole(lint: Lint, many: list[str]) -> None:
    whole = lint(*many, "--format", "json").findings
    parts = []
    for start in range(0, len(many), 37):
        parts += lint(*many[start : start + 37], "--format", "json").findings
    key = json.dumps
    assert sorted(parts, key=key) == sorted(whole, key=key)


def test_the_order_in_which_python_keeps_sets_does_not_show(tmp_path: Path) -> None:
    """Python draws it anew in each process: every example of a finding, under four seeds."""
    for file in sorted(RULES.glob("*.yml")):
        examples = yaml.safe_load(file.read_text(encoding="utf-8"))
        for kind, ending in (("invalid", "py"), ("invalid-cuda", "cu")):
            for number, code in enumerate((examples.get(kind) or {}).values()):
                (tmp_path / f"{file.stem}-{number}.{ending}").write_text(code, encoding="utf-8")
    said = set()
    for seed in range(4):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "perf_timing.lint",
                "--no-cache",
                "--isolated",
                "--select=ALL",
                ".",
            ],
            cwd=tmp_path,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(SCRIPTS)},
        )
        assert done.returncode == 1, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


def test_a_process_that_dies_costs_only_the_file_that_killed_it(
    lint: Lint, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not workers.supported():
        pytest.skip("needs fork")
    parent = os.getpid()
    real = runner.load

    def deadly(target: object, data: bytes | None = None) -> object:
        if getattr(target, "shown", "") == "d3/f3.py" and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(target, data)  # type: ignore[arg-type]

    expected = lint(".", "--format", "json").findings
    monkeypatch.setattr(runner, "load", deadly)
    run = lint(".", "--format", "json", "--jobs", "2")
    assert run.status == 2
    assert "lint-timing: d3/f3.py: the process that checked it ended unexpectedly\n" in run.err
    assert run.findings == [f for f in expected if f["path"] != "d3/f3.py"]


def test_an_error_of_ours_costs_only_the_file_that_showed_it(
    lint: Lint, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from perf_timing.lint import judge

    real = judge.check

    def failing(units: object, *rest: object, **options: object) -> object:
        assert isinstance(units, list)
        if any(unit.path == "d0/f0.py" for unit in units):
            raise ValueError("on purpose")
        return real(units, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(judge, "check", failing)
    for jobs in ("1", "2"):
        run = lint(".", "--format", "json", "--jobs", jobs)
        assert run.status == 2
        assert "d0/f0.py: internal error, please report it: ValueError: on purpose" in run.err
        assert len(run.findings) > 50


def test_work_is_done_once_for_each_number(tmp_path: Path) -> None:
    if not workers.supported():
        pytest.skip("needs fork")
    assert workers.map_forked(lambda n: n * n, 2500, 3) == {n: n * n for n in range(2500)}
    assert workers.map_forked(lambda n: b"x" * 3_000_000, 3, 2) == dict.fromkeys(
        range(3), b"x" * 3_000_000
    )

    def die(number: int) -> int:
        if number % 10 == 0:
            os._exit(1)
        return number

    assert workers.map_forked(die, 95, 2) == {n: n for n in range(95) if n % 10}

"""The command line: diff, --write, --check, and one line with status 2 for what cannot be done."""

import subprocess
from pathlib import Path

import pytest
from inject.injected import command
from inject.test_inject_restore import FILES, LOOP


def test_the_default_is_a_diff_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    outcome = command(str(path))
    assert outcome.status == 0
    assert outcome.out.startswith(f"--- a/{path}\n+++ b/{path}\n@@")
    assert "+    for x, y in _perf_timing.steps(loader):" in outcome.out
    assert path.read_text() == LOOP
    assert "--write applies it" in outcome.err


@pytest.mark.parametrize(
    "name", ["plain", "CRLF", "latin-1", "ending in the loop without a newline"]
)
def test_the_diff_is_one_that_patch_applies(name: str, tmp_path: Path) -> None:
    import sys

    data = FILES[name]
    path = tmp_path / "train.py"
    path.write_bytes(data)
    run = [sys.executable, "-m", "perf_timing.inject", "train.py", "--full-diff"]
    scripts = str(Path(__file__).resolve().parents[2] / "scripts")
    done = subprocess.run(
        run,
        cwd=tmp_path,
        env={"PYTHONPATH": scripts, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "the.diff").write_bytes(done.stdout)
    subprocess.run(["git", "apply", "the.diff"], cwd=tmp_path, check=True, timeout=60)
    patched = path.read_bytes()
    path.write_bytes(data)
    assert command(str(path), "--write").status == 0
    assert path.read_bytes() == patched


@pytest.mark.parametrize("name", ["plain", "CRLF", "latin-1"])
def test_the_diff_shows_the_marks_and_the_block_as_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(FILES[name])
    short, full = command(str(path)), command(str(path), "--full-diff")
    inserted = [line for line in full.out.splitlines() if line.startswith("+")]
    [told] = [line for line in short.out.splitlines() if "support code" in line]
    lines = int(told.split()[3])
    assert told == f"+# >>> perf-timing: {lines} lines of support code, shown by --full-diff"
    assert len([line for line in short.out.splitlines() if line[:1] == "+"]) == (
        len(inserted) - lines + 1
    )
    assert "+    for x, y in _perf_timing.steps(loader):" in short.out
    assert len(short.out.splitlines()) < 45 < 300 < len(full.out.splitlines())
    last = short.err.splitlines()[-1]
    assert "this diff is shortened, --full-diff prints it whole; --write applies it" in last
    assert "shortened" not in full.err
    assert "diff only; --write applies it" in full.err
    assert path.read_bytes() == FILES[name]


def test_a_shortened_diff_is_none_that_git_applies(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    (tmp_path / "the.diff").write_text(command(str(path)).out.replace(str(path), "train.py"))
    done = subprocess.run(
        ["git", "apply", "the.diff"], cwd=tmp_path, capture_output=True, timeout=60
    )
    assert done.returncode != 0
    assert path.read_text() == LOOP


def test_check_says_whether_a_file_is_instrumented(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    before = command(str(path), "--check")
    command(str(path), "--write")
    after = command(str(path), "--check")
    assert (before.status, before.out) == (1, f"{path}: not instrumented\n")
    assert (after.status, after.out) == (0, f"{path}: instrumented\n")


@pytest.mark.parametrize("options", [["--remove"], ["--remove", "--write"]], ids=" ".join)
def test_remove_restores_the_file_with_and_without_write(
    options: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    assert command(str(path), "--write").status == 0
    outcome = command(str(path), *options)
    assert (outcome.status, outcome.out) == (0, "")
    assert "restored to the byte" in outcome.err
    assert path.read_text() == LOOP


def test_remove_with_diff_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    command(str(path), "--write")
    there = path.read_bytes()
    outcome = command(str(path), "--remove", "--diff")
    assert outcome.status == 0
    assert "-    for x, y in _perf_timing.steps(loader):" in outcome.out
    assert "lines of support code" in outcome.out
    assert "--remove alone applies it" in outcome.err
    full = command(str(path), "--remove", "--full-diff")
    assert len(full.out) > 5 * len(outcome.out)
    assert path.read_bytes() == there


REFUSED = {
    "a file that does not parse": (b"for x in :\n", (), "line 1 is not Python"),
    "a file that is not text": (b"\xff\xfe\x00for", (), "is not Python text"),
    "NUL characters": (b"x = 1\n\0\n", (), "NUL"),
    "a name that is taken": (
        LOOP.encode() + b"_perf_timing = 1\n",
        (),
        "uses the name _perf_timing",
    ),
    "remove where nothing is": (LOOP.encode(), ("--remove",), "not instrumented"),
    "stop without a number of steps": (LOOP.encode(), ("--stop",), "--measure-steps"),
    "items that are no expression": (LOOP.encode(), ("--items", "x ="), "--items"),
    "items that are two lines": (LOOP.encode(), ("--items", "1\nimport os"), "--items"),
    "a negative number": (LOOP.encode(), ("--warmup-steps", "-1"), "--warmup-steps"),
    "an unknown option": (LOOP.encode(), ("--bogus",), "--bogus"),
    "FLOPs by a name": (LOOP.encode(), ("--flops-per-item", "6*n"), "takes a number over 0"),
    "FLOPs by a call": (LOOP.encode(), ("--flops-per-item", "abs(6)"), "takes a number over 0"),
    "FLOPs below 0": (LOOP.encode(), ("--flops-per-item", "6-124e6"), "takes a number over 0"),
    "FLOPs that divide by 0": (LOOP.encode(), ("--flops-per-item", "6/0"), "takes a number"),
    "FLOPs beyond all bounds": (LOOP.encode(), ("--flops-per-item", "9**9**9"), "takes a number"),
    "write and only show": (LOOP.encode(), ("--write", "--diff"), "give one of them"),
    "write and only ask": (LOOP.encode(), ("--write", "--check"), "give one of them"),
    "two actions": (LOOP.encode(), ("--remove", "--check"), "--check"),
    "an unknown method": (LOOP.encode(), ("--method", "magic"), "--method"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_one_line_and_status_2(name: str, tmp_path: Path) -> None:
    data, options, told = REFUSED[name]
    path = tmp_path / "train.py"
    path.write_bytes(data)
    outcome = (
        command(str(path), "--write", *options)
        if "--remove" not in options
        else command(str(path), *options)
    )
    assert outcome.status == 2
    assert told in outcome.err
    assert outcome.err.startswith("inject-timing: ")
    assert outcome.err.count("\n") == 1
    assert outcome.err.isascii()
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("name", "told"),
    [("missing.py", "cannot read"), ("folder", "cannot read"), ("book.ipynb", "is a notebook")],
)
def test_what_cannot_be_read_is_one_line_and_status_2(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "book.ipynb").write_text("{}")
    outcome = command(str(tmp_path / name))
    assert outcome.status == 2
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "value", ["'", '"', "\\", "a\nb", "{{ 7 * 7 }}", "{% raw %}", '"""', "\u00e9", "#", "\r"]
)
def test_text_from_the_command_line_never_becomes_code(value: str, tmp_path: Path) -> None:
    import ast

    path = tmp_path / "train.py"
    path.write_text(LOOP)
    outcome = command(str(path), "--write", "--json", value + ".json")
    assert outcome.status == 0, outcome.err
    tree = ast.parse(path.read_text())
    values = [
        n.value for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg == "json_path"
    ]
    assert [node.value for node in values] == [value + ".json"]  # type: ignore[attr-defined]
    assert command(str(path), "--remove").status == 0
    assert path.read_text() == LOOP


@pytest.mark.parametrize(
    ("told", "number"),
    [("6*124e6", "744000000"), ("2 * (3 + 4) // 2", "7"), ("1e9", "1000000000"), ("1/4", "0.25")],
)
def test_flops_may_be_arithmetic(told: str, number: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    assert command(str(path), "--write", "--flops-per-item", told).status == 0
    assert f"flops_per_item={number},\n" in path.read_text()


def test_a_file_that_cannot_be_written_is_left_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    path = tmp_path / "train.py"
    path.write_text(LOOP)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    outcome = command(str(path), "--write")
    assert outcome.status == 2
    assert "No space left" in outcome.err
    assert path.read_text() == LOOP
    assert list(tmp_path.iterdir()) == [path]


def test_options_of_timing_beside_ranges_alone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    outcome = command(str(path), "--nvtx", "--measure-steps", "20", "--stop")
    assert outcome.status == 2
    assert "need --timing" in outcome.err
    assert command(str(path), "--nvtx", "--timing", "--measure-steps", "20", "--stop").status == 0

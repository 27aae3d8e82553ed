"""What is remembered between runs: never anything that would be found otherwise by now."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lint.lint_command import BAD, CLEAN, FIXABLE, INFO, Lint, Project, Run
from perf_timing.lint import runner
from perf_timing.lint.files import cache

# The helper of another file decides whether anything is reported.
CALLER = """\
import time
import torch
from helper import finish


def bench(model, x):
    start = time.perf_counter()
    y = model(x.cuda())
    finish(y)
    return time.perf_counter() - start
"""
WAITS = "import torch\n\n\ndef finish(y):\n    torch.cuda.synchronize()\n"
DOES_NOT = "import torch\n\n\ndef finish(y):\n    y.add_(1)\n"

Checked = Callable[[], list[str]]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture
def cached(lint: Lint, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lint:
    """The command with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return lint


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Names of the files that were read to be checked since the last call."""
    met: list[str] = []
    real = runner.load

    def load(target: object, data: bytes | None = None) -> object:
        met.append(str(getattr(target, "shown", "")))
        return real(target, data)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "load", load)

    def taken() -> list[str]:
        found = sorted(met)
        met.clear()
        return found

    return taken


def stored(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


@pytest.mark.parametrize("form", ["full", "concise", "json", "sarif", "github"])
def test_a_second_run_prints_the_same_and_checks_nothing(
    form: str, cached: Lint, project: Project, checked: Checked
) -> None:
    project({"a.py": BAD, "b.py": CLEAN, "c.py": INFO, "d.py": FIXABLE, "e f.py": BAD, "g.py": ""})
    project({"h.py": BAD.replace("torch\n", "torch  # lint-timing: ignore[x] why\n")})
    first = cached(".", "--format", form)
    assert len(checked()) == 7
    assert cached(".", "--format", form) == first
    assert checked() == []


def test_only_a_file_that_has_changed_is_checked_again(
    cached: Lint, project: Project, checked: Checked
) -> None:
    project({"a.py": BAD, "b.py": BAD, "c.py": CLEAN})
    cached(".")
    checked()
    project({"b.py": CLEAN, "c.py": INFO, "d.py": BAD})
    run = cached(".", "--format", "json")
    assert checked() == ["b.py", "c.py", "d.py"]
    assert [f["path"] for f in run.findings] == ["a.py", "c.py", "d.py"]
    assert run == cached(".", "--format", "json", "--no-cache")


def test_a_file_with_another_content_of_the_same_size_and_time_is_checked_again(
    cached: Lint, project: Project
) -> None:
    place = project({"a.py": BAD}) / "a.py"
    cached("a.py")
    status = place.stat()
    project({"a.py": BAD.replace("get_domain", "range_push")})
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cached("a.py").status == 0


@pytest.mark.parametrize(
    ("before", "after"), [(WAITS, DOES_NOT), (DOES_NOT, WAITS), (WAITS, None), (None, WAITS)]
)
def test_a_change_of_another_file_that_decides_counts(
    before: str | None, after: str | None, cached: Lint, project: Project, checked: Checked
) -> None:
    helper = project({"bench.py": CALLER}) / "helper.py"
    runs: list[Run] = []
    for text in (before, after):
        helper.unlink(missing_ok=True)
        if text is not None:
            helper.write_text(text)
        for _ in range(2):
            runs.append(cached("bench.py", "--format", "json"))
        assert runs[-1] == runs[-2] == cached("bench.py", "--format", "json", "--no-cache")
        checked()
    assert runs[0].findings != runs[-1].findings


def test_where_nothing_has_changed_a_file_that_others_decide_is_not_checked_again(
    cached: Lint, project: Project, checked: Checked
) -> None:
    project({"bench.py": CALLER, "helper.py": WAITS, "unrelated.py": CLEAN})
    cached("bench.py")
    checked()
    project({"unrelated.py": BAD})
    cached("bench.py")
    assert checked() == []


def test_a_repository_that_begins_nearer_counts(cached: Lint, project: Project) -> None:
    place = project({"helper.py": WAITS, "inner/bench.py": CALLER})
    rule = ("--select", "host-clock-without-sync")
    assert cached("inner/bench.py", *rule).status == 0
    (place / "inner" / ".git").mkdir()
    assert cached("inner/bench.py", *rule).status == 1


def test_a_version_that_the_project_declares_decides_whether_a_fix_is_safe(
    cached: Lint, project: Project
) -> None:
    project({"a.py": FIXABLE})
    first = cached("a.py", "--format", "json")
    project({"requirements.txt": "torch>=2.0\n"})
    second = cached("a.py", "--format", "json")
    assert second == cached("a.py", "--format", "json", "--no-cache")
    assert first.findings != second.findings


def test_rules_and_settings_are_told_apart(cached: Lint, project: Project) -> None:
    project({"a.py": BAD, "b.py": INFO})
    for arguments in (
        ["--select", "ALL"],
        ["--ignore", "nvtx"],
        ["--select", "nvtx-dynamic-message"],
        [],
    ):
        run = cached(".", "--format", "json", *arguments)
        assert run == cached(".", "--format", "json", "--no-cache", *arguments)
    project({"pyproject.toml": "[tool.lint-timing]\nignore = ['nvtx-unknown-api']\n"})
    assert cached(".", "--format", "json").places == [("nvtx-dynamic-message", 5)]
    assert len(cached(".", "--format", "json", "--isolated").places) == 2
    project({"pyproject.toml": "[tool.lint-timing.per-file-ignores]\n'b.py' = ['nvtx']\n"})
    assert cached(".", "--format", "json").places == [("nvtx-unknown-api", 3)]


def test_another_version_of_the_program_checks_anew(
    cached: Lint, project: Project, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({"a.py": BAD})
    cached(".")
    checked()
    monkeypatch.setattr(cache, "_program", lambda: "another")
    cached(".")
    assert checked() == ["a.py"]


def test_every_file_of_the_program_is_part_of_its_version(tmp_path: Path) -> None:
    found = {Path(path).relative_to(cache._PACKAGE).as_posix() for path in
             cache._files(str(cache._PACKAGE))}  # fmt: skip
    assert {"_cli.py", "lint/check.py", "lint/facts/python.yml", "rules/coarse_clock.py"} <= found
    assert "rules/nvtx-unknown-api.yml" in found


def test_what_the_text_alone_makes_uncheckable_is_remembered(
    cached: Lint, project: Project, checked: Checked
) -> None:
    project({"a.py": BAD + "(\n", "b.py": BAD, "c.py": b"x = '\xff'  # nvtx\n", "d.py": b"\0"})
    first = cached(".")
    assert (first.status, first.err.count("\n")) == (2, 3)
    checked()
    assert cached(".") == first
    assert checked() == []


def test_a_reason_that_may_pass_is_not_remembered(
    cached: Lint, project: Project, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perf_timing.lint.parsing import astgrep

    project({"a.py": BAD, "b.py": CLEAN})
    with monkeypatch.context() as patch:
        failure = astgrep.Scan(failure="no time")
        patch.setattr(astgrep, "scan", lambda sources, _: [failure for _ in sources])
        assert cached(".").err == "lint-timing: a.py: no time\n"
    checked()
    assert cached(".").status == 1
    assert checked() == ["a.py"]


def test_no_cache_neither_reads_nor_writes(
    cached: Lint, project: Project, folder: Path, checked: Checked
) -> None:
    project({"a.py": BAD})
    cached(".", "--no-cache")
    assert stored(folder) == []
    cached(".")
    checked()
    cached(".", "--no-cache")
    assert checked() == ["a.py"]


def test_nothing_is_written_beside_the_files(cached: Lint, project: Project) -> None:
    place = project({"a.py": BAD})
    cached(".")
    assert [path.name for path in place.iterdir()] == ["a.py"]


def damaged(data: bytes) -> list[bytes]:
    other = json.loads(data)
    entries: list[object] = [1, [], ["x"], None, "text", ["0" * 32, {"reports": 5}]]
    digest = other["files"]["a.py"][0]
    no_places = {"reports": [{}], "problems": [], "silenced": 0, "consulted": []}
    entries += [[digest, found] for found in (1, {}, [], no_places)]
    whole = [json.dumps({**other, "files": {"a.py": entry}}).encode() for entry in entries]
    parts = [b"", b"\xff", b"null", b"[]", b"{}", b"[" * 100_000, data[:-20], data + b"x"]
    return [*parts, *whole, json.dumps({**other, "files": []}).encode()]


def test_a_damaged_memory_counts_as_none(cached: Lint, project: Project, folder: Path) -> None:
    project({"a.py": BAD})
    first = cached(".")
    (place,) = stored(folder)
    good = place.read_bytes()
    for data in damaged(good):
        place.write_bytes(data)
        assert cached(".") == first, data[:100]
        assert place.read_bytes() == good


@pytest.mark.parametrize("kind", ["a file", "no right", "relative", "a folder in its place"])
def test_a_folder_that_cannot_be_used_is_no_failure(
    kind: str, cached: Lint, project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({"a.py": BAD})
    first = cached(".")
    (place,) = stored(folder)
    if kind == "a file":
        (folder / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    elif kind == "relative":
        monkeypatch.setenv("XDG_CACHE_HOME", "here")
        monkeypatch.setenv("HOME", str(folder))
    elif kind == "a folder in its place":
        place.unlink()
        place.mkdir()
    else:
        place.unlink()
        place.parent.chmod(0o500)
    assert cached(".") == first
    assert cached(".") == first
    place.parent.chmod(0o700)


def test_folders_of_long_ago_are_forgotten(cached: Lint, project: Project, folder: Path) -> None:
    project({"a.py": BAD})
    old, young = folder / "lint-timing" / "old.json", folder / "lint-timing" / "young.json"
    for path, days in ((old, 40), (young, 1)):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
        os.utime(path, (0, time.time() - days * 86400))
    cached(".")
    assert not old.exists()
    assert young.exists()


def test_a_fixed_file_is_checked_again(cached: Lint, project: Project) -> None:
    place = project({"a.py": FIXABLE})
    assert cached("a.py").status == 1
    assert cached("a.py", "--fix").status == 0
    assert "device_time_total" in (place / "a.py").read_text()
    assert cached("a.py").status == 0


def test_many_files_on_many_processes_are_remembered(
    cached: Lint, project: Project, checked: Checked
) -> None:
    project({f"d{i % 7}/f{i}.py": (BAD, CLEAN, INFO)[i % 3] for i in range(220)})
    first = cached(".", "--format", "json", "--jobs", "2")
    checked()
    assert cached(".", "--format", "json", "--jobs", "2") == first
    assert checked() == []


def test_notebooks_and_markdown_keep_their_places(
    cached: Lint, project: Project, checked: Checked
) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
            "source": BAD}  # fmt: skip
    notebook = {"cells": [cell, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    project({"n.ipynb": json.dumps(notebook), "m.md": f"# x\n\n```python\n{BAD}```\n"})
    first = cached(".", "--markdown", "--format", "json")
    assert {f.get("cell") for f in first.findings} == {None, 0, 1}
    checked()
    assert cached(".", "--markdown", "--format", "json") == first
    assert checked() == []

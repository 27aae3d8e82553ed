"""Baselines: what they leave out, and that they survive moved lines."""

import json

import pytest
from lint.lint_command import BAD, Lint, Project

CALL = "torch.cuda.nvtx.get_domain('a')\n"


def test_written_baseline_leaves_out_what_it_lists(lint: Lint, project: Project) -> None:
    project({"a.py": BAD + CALL, "b.py": BAD})
    written = lint(".", "--write-baseline", "known.json")
    assert (written.status, written.out) == (0, "Wrote 3 findings to known.json.\n")
    run = lint(".", "--baseline", "known.json")
    assert run.status == 0
    assert run.out == "Checked 2 files: no findings; 3 in the baseline.\n"


def test_moved_lines_stay_known_and_new_ones_do_not(lint: Lint, project: Project) -> None:
    project({"a.py": BAD})
    lint("a.py", "--write-baseline", "known.json")
    project({"a.py": "# moved\n\n" + BAD.replace("torch.cuda", "if 1:\n    torch.cuda")})
    assert lint("a.py", "--baseline", "known.json").status == 0
    project({"a.py": BAD + "torch.cuda.nvtx.get_domain('new')\n"})
    run = lint("a.py", "--baseline", "known.json", "--format", "json")
    assert (run.status, run.places) == (1, [("nvtx-unknown-api", 4)])


def test_the_same_line_counts_as_often_as_it_was_found(lint: Lint, project: Project) -> None:
    project({"a.py": BAD + CALL})
    lint("a.py", "--write-baseline", "known.json")
    project({"a.py": BAD + CALL * 3})
    run = lint("a.py", "--baseline", "known.json", "--format", "json")
    assert len(run.findings) == 2


def test_paths_are_relative_to_the_baseline(lint: Lint, project: Project) -> None:
    folder = project({"sub/a.py": BAD})
    lint("sub", "--write-baseline", "sub/known.json")
    assert list(json.loads((folder / "sub/known.json").read_text())["findings"]) == ["a.py"]
    assert lint(str(folder / "sub/a.py"), "--baseline", "sub/known.json").status == 0


def test_entries_that_match_nothing_are_counted(lint: Lint, project: Project) -> None:
    project({"a.py": BAD, "b.py": BAD})
    lint(".", "--write-baseline", "known.json")
    project({"a.py": "x = 1\n"})
    run = lint("a.py", "--baseline", "known.json")
    assert run.status == 0
    assert "1 in the baseline but no longer found" in run.out


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"version": 2, "findings": {}}', '{"version": 1}',
     '{"version": 1, "findings": {"a.py": 1}}',
     '{"version": 1, "findings": {"a.py": {"r": {"x": -1}}}}', "\xff"],
)  # fmt: skip
def test_what_is_no_baseline_ends_with_2(lint: Lint, project: Project, text: str) -> None:
    project({"a.py": BAD, "known.json": text.encode("latin-1")})
    run = lint("a.py", "--baseline", "known.json")
    assert run.status == 2
    assert "known.json is not a baseline" in run.err


def test_writing_is_the_same_for_any_order(lint: Lint, project: Project) -> None:
    folder = project({"a.py": BAD, "b.py": BAD})
    lint("a.py", "b.py", "--write-baseline", "one.json")
    lint("b.py", "a.py", "--write-baseline", "two.json")
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()


def test_a_file_that_cannot_be_checked_is_told_when_writing(lint: Lint, project: Project) -> None:
    project({"a.py": BAD, "b.py": "print 'x'\n"})
    run = lint("a.py", "b.py", "--write-baseline", "known.json")
    assert run.status == 2
    assert "b.py" in run.err

"""The command line: exit statuses, options, and what is printed where."""

import json
import os
import sys
from pathlib import Path

import pytest
from lint.lint_command import BAD, CLEAN, FIXABLE, INFO, Lint, Project, run_process


def test_clean_file_ends_with_0_and_a_summary(lint: Lint, project: Project) -> None:
    project({"a.py": CLEAN})
    run = lint("a.py")
    assert (run.status, run.out, run.err) == (0, "Checked 1 file: no findings.\n", "")


def test_error_ends_with_1(lint: Lint, project: Project) -> None:
    project({"a.py": BAD})
    run = lint("a.py", "--format", "concise")
    assert run.status == 1
    assert run.out.startswith("a.py:3:1: error TIM603 nvtx-unknown-api: torch.cuda.nvtx.get_domain")
    assert run.out.endswith("\nChecked 1 file: 1 finding (1 error).\n")


@pytest.mark.parametrize(
    ("code", "fail_on", "status"),
    [
        (INFO, "error", 0),
        (INFO, "warning", 0),
        (INFO, "info", 1),
        (BAD, "error", 1),
        (BAD, "warning", 1),
        (BAD, "info", 1),
        (CLEAN, "info", 0),
    ],
)
def test_fail_on_sets_what_counts(
    lint: Lint, project: Project, code: str, fail_on: str, status: int
) -> None:
    project({"a.py": code})
    assert lint("a.py", "--fail-on", fail_on).status == status


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no path is given"),
        ([""], "empty path"),
        (["missing.py"], "missing.py: no such file or folder"),
        (["-", "a.py"], "cannot be checked together"),
        (["a.py", "--stdin-filename", "b.py"], "--stdin-filename needs -"),
        (["a.py", "--unsafe-fixes"], "--unsafe-fixes only widens"),
        (["-", "--fix"], "--fix cannot write standard input"),
        (["a.py", "--jobs", "0"], "--jobs 0 is too small"),
        (["a.py", "--max-findings", "-1"], "--max-findings -1 is too small"),
        (["a.py", "--format", "xml"], "invalid choice"),
        (["a.py", "--select", "host-clok"], "no rule is called 'host-clok'"),
        (["a.py", "--ignore", "TIM999"], "no rule is called 'TIM999'"),
        (["a.py", "--select", "nvtx-unknown"], ""),
        (["--explain", "nvtx-unknwn-api"], "did you mean nvtx-unknown-api"),
        (["a.py", "--baseline", "missing.json"], "cannot read the baseline missing.json"),
        (["a.txt"], "a.txt: not a kind of file that is checked"),
        (["a.md"], "a.md: Markdown is checked with --markdown only"),
        (["empty"], "empty: the folder holds no file to check"),
        ([os.devnull], "not a regular file"),
        (["-", "--stdin-filename", "x.txt"], "x.txt: not a kind of file that is checked"),
    ],
)
def test_what_cannot_be_done_ends_with_2_and_one_line(
    lint: Lint, project: Project, tmp_path: Path, arguments: list[str], words: str
) -> None:
    project({"a.py": CLEAN, "a.txt": "", "a.md": ""})
    (tmp_path / "empty").mkdir()
    run = lint(*arguments)
    assert run.status == (2 if words else 0)
    assert words in run.err
    if words and "usage:" not in run.err:
        assert run.err.count("\n") == 1


def test_a_missing_file_does_not_hide_findings_of_the_others(lint: Lint, project: Project) -> None:
    project({"a.py": BAD})
    run = lint("a.py", "gone.py", "gone too.py", "--format", "json")
    assert run.status == 2
    assert run.places == [("nvtx-unknown-api", 3)]
    assert run.err == (
        "lint-timing: gone too.py: no such file or folder\n"
        "lint-timing: gone.py: no such file or folder\n"
    )


def test_select_takes_codes_names_and_prefixes(lint: Lint, project: Project) -> None:
    project({"a.py": BAD + INFO})
    for selector in ("TIM603", "tim603", "nvtx-unknown-api", "TIM60", "nvtx-", "ALL", "DEFAULT"):
        run = lint("a.py", "--select", selector, "--format", "json")
        assert ("nvtx-unknown-api", 3) in run.places, selector
    assert lint("a.py", "--select", "TIM604,event-created-in-loop").status == 0
    assert lint("a.py", "--ignore", "TIM603").status == 0
    assert lint("a.py", "--ignore", "ALL", "--format", "json").findings == []
    two = lint("a.py", "--select", "TIM603", "--select", "TIM601", "--format", "json")
    assert {f["code"] for f in two.findings} == {"TIM601", "TIM603"}


def test_every_rule_explains_itself(lint: Lint) -> None:
    listed = lint("--list-rules").out.splitlines()
    assert listed == sorted(listed)
    for line in listed:
        code, name = line.split()[:2]
        by_name, by_code = lint("--explain", name), lint("--explain", code)
        assert by_name == by_code
        assert by_name.status == 0
        assert by_name.out.startswith(f"{name} ({code}, ")
        for title in ("What it does", "Why it misleads", "Known problems", "Use instead"):
            assert f"## {title}" in by_name.out


def test_max_findings_bounds_the_output_but_not_the_verdict(lint: Lint, project: Project) -> None:
    project({"a.py": BAD + "torch.cuda.nvtx.get_domain('b')\n" * 9})
    run = lint("a.py", "--format", "concise", "--max-findings", "2")
    assert run.status == 1
    assert len(run.out.splitlines()) == 3
    assert run.out.endswith("10 findings (10 errors); 8 not shown (--max-findings).\n")
    run = lint("a.py", "--format", "json", "--max-findings", "0")
    assert (run.status, run.findings) == (1, [])
    assert "10 not shown" in run.err


def test_one_file_named_in_many_ways_is_checked_once(lint: Lint, project: Project) -> None:
    folder = project({"d/a.py": BAD})
    run = lint(
        "d", "d/a.py", "./d/a.py", str(folder / "d" / "a.py"), "d/../d/a.py", "--format=json"
    )
    assert [f["path"] for f in run.findings] == ["d/a.py"]


def test_standard_input_goes_by_the_name_it_is_given() -> None:
    run = run_process("-", "--stdin-filename", "pkg/b.py", "--format", "json", data=BAD.encode())
    assert run.status == 1
    assert [f["path"] for f in run.findings] == ["pkg/b.py"]
    cuda = run_process("-", "--stdin-filename", "b.cu", data=b"int main() {}\n")
    assert (cuda.status, cuda.out) == (0, "Checked 1 file: no findings.\n")
    assert run_process("-", data=BAD.encode()).status == 1


def test_standard_input_that_does_not_parse_ends_with_2() -> None:
    run = run_process("-", data=b"def f(:\n")
    assert run.status == 2
    assert run.err.startswith("lint-timing: stdin.py: Python cannot parse it: ")


def test_output_has_no_colour_in_a_pipe_and_none_with_no_color(project: Project) -> None:
    folder = project({"a.py": BAD})
    assert "\033" not in run_process("a.py", cwd=folder).out
    script = ["script", "-qec", f"{sys.executable} -m perf_timing.lint a.py", "/dev/null"]
    if not Path("/usr/bin/script").exists():
        pytest.skip("needs script(1) for a terminal")
    import subprocess

    scripts = str(Path(__file__).resolve().parents[2] / "scripts")
    plain = {**os.environ, "PYTHONPATH": scripts, "TERM": "xterm"}
    plain.pop("NO_COLOR", None)
    for environment, coloured in ((plain, True), ({**plain, "NO_COLOR": "1"}, False)):
        done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, timeout=60)
        assert (b"\033[" in done.stdout) == coloured


def test_full_format_shows_the_line_the_note_and_the_page(lint: Lint, project: Project) -> None:
    project({"a.py": BAD})
    lines = lint("a.py").out.splitlines()
    assert lines[0] == "a.py:3:1: error TIM603 nvtx-unknown-api"
    assert lines[3] == "3 | torch.cuda.nvtx.get_domain('a')"
    assert lines[4] == "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^"
    assert any(line.startswith("  = note: ") for line in lines)
    assert any(line.endswith("references/rules.md#nvtx-unknown-api") for line in lines)


def test_json_has_the_documented_keys(lint: Lint, project: Project) -> None:
    project({"a.py": BAD})
    (finding,) = lint("a.py", "--format", "json").findings
    assert {**finding, "message": "", "note": ""} == {
        "rule": "nvtx-unknown-api",
        "code": "TIM603",
        "severity": "error",
        "path": "a.py",
        "line": 3,
        "column": 1,
        "end_line": 3,
        "end_column": 27,
        "message": "",
        "note": "",
        "url": finding["url"],
        "fix": None,
        "related": [],
    }
    assert finding["url"].startswith("https://")


def test_nothing_found_is_an_empty_array(lint: Lint, project: Project) -> None:
    project({"a.py": CLEAN})
    assert json.loads(lint("a.py", "--format", "json").out) == []


def test_help_fits_a_screen_and_names_every_option(lint: Lint) -> None:
    run = lint("--help")
    assert run.status == 0
    assert "exit status" in run.out
    assert len(run.out.splitlines()) < 80


def test_fix_kind_is_told_in_json(lint: Lint, project: Project) -> None:
    project({"a.py": FIXABLE})
    (finding,) = lint("a.py", "--format", "json").findings
    assert finding["fix"] == "safe"


def test_ast_grep_that_is_missing_or_broken_is_told(project: Project, tmp_path: Path) -> None:
    folder = project({"a.py": BAD})
    script = (
        "import sys; sys.path.insert(0, {scripts!r})\n"
        "from perf_timing.lint import main\n"
        "from perf_timing.lint.parsing import astgrep\n"
        "astgrep.executable.cache_clear() if hasattr(astgrep.executable, 'cache_clear') else None\n"
        "raise SystemExit(main(['a.py']))\n"
    ).format(scripts=str(Path(__file__).resolve().parents[2] / "scripts"))
    fake = tmp_path / "bin"
    fake.mkdir()
    program = fake / "ast-grep"
    for body, words in (
        ("exit 1", "ast-grep"),
        ("echo ast-grep 0.40.0", "too old"),
        ("echo ast-grep 0.51.1; exit 3", "ast-grep"),
    ):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        import subprocess

        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import shutil; shutil.which = lambda *a, **k: {str(program)!r}\n{script}",
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2, body
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1

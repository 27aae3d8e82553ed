"""Fixes: what is changed, what is never changed, and what is refused."""

import ast
import os
import subprocess

import pytest
from lint.lint_command import BAD, FIXABLE, Lint, Project, run_process
from perf_timing.lint.model import Finding, Fix, Unit
from perf_timing.lint.output import fix

FIXED = FIXABLE.replace("cuda_time_total", "device_time_total")


def test_fix_changes_the_name_and_nothing_else(lint: Lint, project: Project) -> None:
    folder = project({"a.py": FIXABLE})
    run = lint("a.py", "--fix")
    assert (run.status, run.out) == (0, "Checked 1 file: no findings; 1 fixed.\n")
    assert (folder / "a.py").read_text() == FIXED


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("CRLF", lambda t: t.replace("\n", "\r\n").encode()),
        ("mixed line ends", lambda t: t.replace("\n", "\r\n", 2).encode()),
        ("single carriage returns", lambda t: t.replace("\n", "\r").encode()),
        ("UTF-8 mark", lambda t: b"\xef\xbb\xbf" + t.encode()),
        ("UTF-16", lambda t: b"\xff\xfe" + t.encode("utf-16-le")),
        ("Latin-1", lambda t: b"# coding: latin-1\n# \xe9\n" + t.encode()),
        ("no newline at the end", lambda t: t.rstrip("\n").encode()),
        ("tabs and trailing space", lambda t: t.replace("    ", "\t").encode() + b"\nx = 1  \t\n"),
        ("emoji", lambda t: t.encode() + "# \U0001f525 caf\xe9\n".encode()),
        ("form feed", lambda t: t.encode() + b"\f\nx = 1\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_other_byte_stays(lint: Lint, project: Project, name: str, encoded: object) -> None:
    assert callable(encoded)
    folder = project({"a.py": encoded(FIXABLE)})
    assert lint("a.py", "--fix").status == 0, name
    assert (folder / "a.py").read_bytes() == encoded(FIXED)


def test_diff_shows_what_fix_would_do_and_changes_nothing(lint: Lint, project: Project) -> None:
    folder = project({"a.py": FIXABLE, "b.py": FIXABLE.replace("\n", "\r\n").rstrip()})
    before = {name: (folder / name).read_bytes() for name in ("a.py", "b.py")}
    run = run_process("a.py", "b.py", "--diff", cwd=folder)
    assert run.status == 1
    assert {name: (folder / name).read_bytes() for name in before} == before
    # The difference applies: what patch makes of it is what --fix makes.
    subprocess.run(
        ["patch", "-p1", "--binary", "-s"], input=os.fsencode(run.out), cwd=folder, check=True
    )
    assert (folder / "a.py").read_bytes() == FIXED.encode()
    assert (folder / "b.py").read_bytes() == FIXED.replace("\n", "\r\n").rstrip().encode()
    assert lint("a.py", "b.py", "--diff").out == ""


def test_only_chosen_rules_are_fixed(lint: Lint, project: Project) -> None:
    folder = project({"a.py": FIXABLE})
    assert lint("a.py", "--fix", "--select", "TIM603").status == 0
    assert (folder / "a.py").read_text() == FIXABLE


def test_a_suppressed_finding_is_not_fixed(lint: Lint, project: Project) -> None:
    text = FIXABLE.rstrip("\n") + "  # lint-timing: ignore[TIM604] torch 2.3\n"
    folder = project({"a.py": text})
    assert lint("a.py", "--fix").status == 0
    assert (folder / "a.py").read_text() == text


def test_fix_tells_what_is_left(lint: Lint, project: Project) -> None:
    project({"a.py": FIXABLE + BAD})
    run = lint("a.py", "--fix", "--format", "concise")
    assert run.status == 1
    assert run.out.endswith("Checked 1 file: 1 finding (1 error); 1 fixed.\n")


def test_many_fixes_in_one_file_hold_together(lint: Lint, project: Project) -> None:
    row = "print(prof.key_averages()[0].cuda_time_total)\n"
    folder = project({"a.py": FIXABLE + row * 20})
    assert lint("a.py", "--fix").status == 0
    assert "cuda_time_total" not in (folder / "a.py").read_text()


def test_notebooks_and_markdown_are_not_changed(lint: Lint, project: Project) -> None:
    notebook = '{"cells": [{"cell_type": "code", "source": %s}]}'
    import json

    folder = project(
        {"a.ipynb": notebook % json.dumps(FIXABLE), "b.md": f"```python\n{FIXABLE}```\n"}
    )
    before = (folder / "a.ipynb").read_bytes(), (folder / "b.md").read_bytes()
    run = lint("--markdown", "a.ipynb", "b.md", "--fix")
    assert run.status == 1
    assert run.err == (
        "lint-timing: a.ipynb: fixes are not applied to a notebook file\n"
        "lint-timing: b.md: fixes are not applied to a markdown file\n"
    )
    assert before == ((folder / "a.ipynb").read_bytes(), (folder / "b.md").read_bytes())


def test_standard_input_can_be_compared() -> None:
    run = run_process("-", "--stdin-filename", "x.py", "--diff", data=FIXABLE.encode())
    assert run.status == 1
    assert "+++ b/x.py\n" in run.out
    assert "+print(prof.key_averages()[0].device_time_total)\n" in run.out


def test_a_file_that_changed_meanwhile_is_left_alone(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({"a.py": FIXABLE})
    real = fix.fix_documents

    def meanwhile(*args: object, **options: object) -> object:
        fixed = real(*args, **options)  # type: ignore[arg-type]
        (folder / "a.py").write_text(FIXABLE + "x = 1\n")
        return fixed

    monkeypatch.setattr(fix, "fix_documents", meanwhile)
    run = lint("a.py", "--fix")
    assert run.status == 2
    assert "changed while it was being checked" in run.err
    assert (folder / "a.py").read_text() == FIXABLE + "x = 1\n"


def test_a_read_only_file_is_left_alone(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({"a.py": FIXABLE})
    monkeypatch.setattr(os, "access", lambda *_: False)  # who runs the tests may be root
    run = lint("a.py", "--fix")
    assert run.status == 2
    assert "a.py was not fixed: it is read-only" in run.err
    assert (folder / "a.py").read_text() == FIXABLE


def test_mode_and_link_survive(lint: Lint, project: Project) -> None:
    folder = project({"real.py": FIXABLE})
    (folder / "real.py").chmod(0o750)
    (folder / "a.py").symlink_to("real.py")
    assert lint("a.py", "--fix").status == 0
    assert (folder / "a.py").is_symlink()
    assert (folder / "real.py").read_text() == FIXED
    assert (folder / "real.py").stat().st_mode & 0o777 == 0o750


def spoil(monkeypatch: pytest.MonkeyPatch, replacement: str) -> None:
    """Make every fix replace its characters by `replacement`."""
    from dataclasses import replace

    from perf_timing.lint import judge

    real = judge.check

    def spoiled(*args: object, **options: object) -> object:
        outcome = real(*args, **options)  # type: ignore[arg-type]
        findings = tuple(
            replace(f, fixes=tuple(replace(x, replacement=replacement) for x in f.fixes))
            for f in outcome.findings
        )
        return replace(outcome, findings=findings)

    monkeypatch.setattr(judge, "check", spoiled)


@pytest.mark.parametrize(
    ("replacement", "why"),
    [
        ("prof.((", "does not parse"),
        ("prof.key_averages()[1].cuda_time_total", "has the finding still"),
        ("__import__('torch').cuda.nvtx.get_domain('a')\nimport torch\n"
         "torch.cuda.nvtx.get_domain('a'", "has another finding"),
    ],
)  # fmt: skip
def test_a_fix_that_does_not_hold_is_refused(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch, replacement: str, why: str
) -> None:
    folder = project({"a.py": FIXABLE})
    spoil(monkeypatch, replacement)
    run = lint("a.py", "--fix", "--format", "concise")
    assert run.status == 1, why
    assert "profiler-removed-name on line 5 was not fixed" in run.err
    assert (folder / "a.py").read_text() == FIXABLE


def test_one_bad_fix_does_not_stop_the_others(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from perf_timing.lint import judge

    folder = project({"a.py": FIXABLE + "print(prof.key_averages()[1].cuda_time_total)\n"})
    real = judge.check

    def spoiled(*args: object, **options: object) -> object:
        outcome = real(*args, **options)  # type: ignore[arg-type]
        findings = [
            replace(f, fixes=tuple(replace(x, replacement="((") for x in f.fixes))
            if f.line == 5
            else f
            for f in outcome.findings
        ]
        return replace(outcome, findings=tuple(findings))

    monkeypatch.setattr(judge, "check", spoiled)
    run = lint("a.py", "--fix", "--format", "json")
    assert [f["line"] for f in run.findings] == [5]
    assert (folder / "a.py").read_text().count("device_time_total") == 1


def test_replacements_are_made_from_the_end_and_take_the_files_line_ends() -> None:
    text = "a\r\nb\r\nc"
    fixes = {Fix(0, 1, "x\ny"), Fix(6, 7, "z\n"), Fix(3, 3, "i")}
    assert fix.apply_fixes(text, fixes) == "x\r\ny\r\nib\r\nz\r\n"
    assert fix.apply_fixes("abc", {Fix(0, 2, "x"), Fix(1, 3, "y")}) == "xc"


def test_every_fix_of_the_rules_examples_parses() -> None:
    from perf_timing.lint.catalog import load_rules
    from perf_timing.lint.check import check

    rules = load_rules()
    seen = 0
    for rule in rules:
        for language, code in rule.examples:
            found: tuple[Finding, ...] = check([Unit("x", language, code)], rules).findings
            for finding in found:
                if finding.fixes and language == "python":
                    ast.parse(fix.apply_fixes(code, set(finding.fixes)))
                    seen += 1
    assert seen


def test_a_named_file_without_fixes_is_not_touched(lint: Lint, project: Project) -> None:
    folder = project({"a.py": BAD})
    before = (folder / "a.py").stat().st_mtime_ns
    assert lint("a.py", "--fix").status == 1
    assert (folder / "a.py").stat().st_mtime_ns == before

"""references/rules.md says what the rules say."""

from pathlib import Path

from perf_timing.lint.__main__ import __file__ as entry
from perf_timing.lint.judge import all_rules
from perf_timing.lint.output.links import PAGES, rule_page
from perf_timing.lint.output.reference import COMMAND, reference, reference_path, write_reference


def test_the_page_is_fresh() -> None:
    assert reference_path().read_text(encoding="utf-8") == reference(), f"run: {COMMAND}"


def test_every_rule_has_its_section_and_its_row() -> None:
    text = reference()
    for rule in all_rules():
        assert f"\n## {rule.name}\n" in text
        assert f"| {rule.code} | [{rule.name}](#{rule.name}) |" in text
        assert rule_page(rule.url) == f"{PAGES}references/rules.md#{rule.name}"


def test_no_heading_of_a_rule_escapes_into_the_page() -> None:
    fenced, headings = False, []
    for line in reference().split("\n"):
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            headings.append(line[3:])
    assert not fenced
    assert headings == [rule.name for rule in all_rules()]


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    target = tmp_path / "rules.md"
    assert write_reference([str(target)]) == 0
    assert target.read_text(encoding="utf-8") == reference()
    assert Path(entry).name == "__main__.py"
    assert write_reference([str(tmp_path / "no" / "rules.md")]) == 2

"""Every rule against the examples of its file tests/rules/<rule-name>.yml.

The file maps `invalid` and `valid` (Python) and `invalid-cuda` and `valid-cuda` to snippets, each
under a sentence that says what it shows. In an invalid snippet a comment `# <-` (or `// <-`) ends
each line that the rule reports; no other line may be reported by it. In a valid snippet the rule
reports nothing. Other rules may report what they like, except in the documentation's "Use instead".
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from perf_timing.lint.catalog import SECTIONS, Rule, load_rules
from perf_timing.lint.check import check
from perf_timing.lint.model import Finding, Unit

HERE = Path(__file__).resolve().parent
MARK = re.compile(r"(#|//) <-")


class Example(NamedTuple):
    rule: Rule
    title: str
    unit: Unit
    lines: frozenset[int]  # lines that the rule must report


def examples_of(rule: Rule) -> list[Example]:
    path = HERE / f"{rule.name}.yml"
    data = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = []
    for kind, snippets in data.items():
        language = "cuda" if kind.endswith("-cuda") else "python"
        for title, code in (snippets or {}).items():
            lines = frozenset(n for n, t in enumerate(code.split("\n"), 1) if MARK.search(t))
            assert bool(lines) == kind.startswith("invalid"), f"{rule.name}: {title}"
            unit = Unit(f"{rule.name}/{kind}/{title}", language, code)
            found.append(Example(rule, f"{rule.name}: {title}", unit, lines))
    return found


RULES = load_rules()
EXAMPLES = [example for rule in RULES for example in examples_of(rule)]
DOCUMENTED = [
    (rule, kind, number, Unit(f"{rule.name}/{kind}/{number}", language, code))
    for rule in RULES
    for kind, blocks in (("example", rule.examples), ("instead", rule.replacements))
    for number, (language, code) in enumerate(blocks)
]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Finding]]:
    """Findings of all rules in all snippets, by the path of the unit: one run of ast-grep."""
    units = [example.unit for example in EXAMPLES] + [unit for *_, unit in DOCUMENTED]
    result = check(units, RULES)
    assert not result.unchecked
    by_path: dict[str, list[Finding]] = {unit.path: [] for unit in units}
    for finding in result.findings:
        by_path[finding.path].append(finding)
    return by_path


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.title for e in EXAMPLES])
def test_the_rule_reports_exactly_the_marked_lines(
    example: Example, found: dict[str, list[Finding]]
) -> None:
    reported = {f.line for f in found[example.unit.path] if f.rule == example.rule.name}
    assert reported == example.lines


@pytest.mark.parametrize(
    ("rule", "kind", "number", "unit"), DOCUMENTED, ids=[u.path for *_, u in DOCUMENTED]
)
def test_the_documentation_shows_what_is_reported_and_what_is_clean(
    rule: Rule, kind: str, number: int, unit: Unit, found: dict[str, list[Finding]]
) -> None:
    names = {finding.rule for finding in found[unit.path]}
    if kind == "example":
        assert rule.name in names
    else:
        on = {r.name for r in RULES if r.default} | {rule.name}
        assert not names & on


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_each_rule_has_examples_of_both_kinds_and_more_that_are_clean(rule: Rule) -> None:
    examples = examples_of(rule)
    invalid = [e for e in examples if e.lines]
    assert len(invalid) >= 3
    assert len(examples) - len(invalid) >= 5
    assert len(examples) - len(invalid) > len(invalid) or len(invalid) > 5
    assert {e.unit.language for e in invalid} == set(rule.languages)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_each_rule_is_documented_and_speaks_plain_ascii(rule: Rule) -> None:
    assert tuple(rule.sections) == SECTIONS
    assert rule.examples and rule.replacements
    assert {language for language, _ in rule.examples} <= {"python", "cuda"}
    for text in (rule.summary, rule.message, rule.note):
        assert text.isascii() and text.strip()
    assert re.fullmatch(r"TIM\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.name)


def test_every_file_of_examples_belongs_to_a_rule() -> None:
    assert {path.stem for path in HERE.glob("*.yml")} <= {rule.name for rule in RULES}


def test_names_and_labels_of_rules_are_not_shared() -> None:
    assert len({rule.name for rule in RULES}) == len({rule.code for rule in RULES}) == len(RULES)

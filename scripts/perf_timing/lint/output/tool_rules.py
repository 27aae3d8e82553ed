"""The rules about suppressions, which the command itself checks."""

from functools import cache
from pathlib import Path

from perf_timing.lint.catalog import SECTIONS, Rule, rule_url

UNUSED = "unused-suppression"
BLANKET = "blanket-suppression"
UNKNOWN = "unknown-suppression"

_DIRECTIVE = "# lint-timing: ignore[coarse-clock] the resolution is enough here"

_TEXTS = {
    UNUSED: (
        "TIM901",
        "info",
        "A suppression names a rule that reports nothing there.",
        "remove the suppression",
        "Reports each rule named by `lint-timing: ignore[...]` or `ignore-file[...]` that reports"
        " nothing where the suppression counts. A rule that this run does not select, or that"
        " `per-file-ignores` switches off for the file, is not judged.",
        "A suppression that outlived its finding hides the next one on that line.",
        "A suppression for a finding that only one platform's code shows is judged like any other.",
        "x = 1  # lint-timing: ignore[coarse-clock] no clock is read here any more",
        "x = 1",
    ),
    BLANKET: (
        "TIM902",
        "warning",
        "A suppression does not say which rule it silences.",
        "name the rule in brackets: `# lint-timing: ignore[rule-name] reason`",
        "Reports `lint-timing: ignore` without a rule in brackets. It silences nothing.",
        "A comment that silences whatever is found hides mistakes that nobody has seen yet.",
        "None.",
        "start = time.time()  # lint-timing: ignore",
        f"start = time.time()  {_DIRECTIVE}",
    ),
    UNKNOWN: (
        "TIM903",
        "warning",
        "A suppression names a rule that does not exist, or is misspelt.",
        "correct the name; `lint-timing --list-rules` shows all",
        "Reports a name in the brackets that is neither a rule's name nor its code, and a"
        " directive other than `ignore` and `ignore-file`.",
        "The finding that was to be silenced is still reported, or the comment misleads a reader.",
        "A rule of a later version of this tool is unknown to an earlier one.",
        "start = time.time()  # lint-timing: ignore[course-clock]",
        f"start = time.time()  {_DIRECTIVE}",
    ),
}


@cache
def tool_rules() -> tuple[Rule, ...]:
    """The three rules, in order of their codes."""
    rules = []
    for name, (code, severity, summary, note, *texts, example, instead) in _TEXTS.items():
        blocks = [f"```python\n{code_}\n```" for code_ in (example, instead)]
        sections = dict(zip(SECTIONS, [*texts, *blocks], strict=True))
        rules.append(
            Rule(
                name=name,
                code=code,
                label=name,
                default=True,
                severity=severity,
                languages=("python", "cuda"),
                summary=summary,
                message=summary,
                note=note,
                sections=sections,
                url=rule_url(name),
                path=Path(__file__),
            )
        )
    return tuple(rules)

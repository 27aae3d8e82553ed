"""Loads the rules: every file of perf_timing/rules, of either kind, as one `Rule`."""

import importlib
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perf_timing import _paths
from perf_timing._cli import UserError
from perf_timing.lint.files import evidence

if TYPE_CHECKING:
    from perf_timing.lint.engine import Report, SourceFile

RULES = _paths.rules_dir()
SECTIONS = ("What it does", "Why it misleads", "Known problems", "Example", "Use instead")
LANGUAGE = {"python": "python", "cpp": "cuda"}
SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Pattern:
    """One document of an ast-grep rule, and the condition that the whole file must meet."""

    rule_id: str
    language: str
    severity: str
    note: str
    requires: re.Pattern[str] | None
    since: str = ""  # the version that the fix needs, as in "torch 2.4"


@dataclass(frozen=True)
class Rule:
    """One rule. `message` is a template: of ast-grep in a pattern rule, else of str.format.

    `sections` maps each of SECTIONS to its Markdown text. `examples` and `replacements` are the
    fenced blocks of "Example" and "Use instead" as (language, code).
    """

    name: str
    code: str
    label: str
    default: bool
    severity: str
    languages: tuple[str, ...]
    summary: str
    message: str
    note: str
    sections: dict[str, str]
    url: str
    path: Path
    trigger: evidence.Trigger = ""
    fix: str = ""
    device_only: bool = False  # nothing to report in a file that names no device at all
    benchmark_only: bool = False  # judges how well something is measured (purpose.py)
    documents: str = field(default="", repr=False)
    patterns: tuple[Pattern, ...] = ()
    check: "Callable[[SourceFile], Iterable[Report]] | None" = field(default=None, repr=False)

    @property
    def examples(self) -> tuple[tuple[str, str], ...]:
        return fenced_blocks(self.sections["Example"])

    @property
    def replacements(self) -> tuple[tuple[str, str], ...]:
        return fenced_blocks(self.sections["Use instead"])


@cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule, in order of its code; raises UserError where a rule file is not well-formed."""
    rules = [_load_pattern(path) for path in sorted(RULES.glob("*.yml"))]
    rules += [
        _load_module(path) for path in sorted(RULES.glob("*.py")) if not path.name.startswith("_")
    ]
    rules.sort(key=lambda rule: rule.code)
    for one, two in itertools.pairwise(rules):
        if one.code == two.code:
            raise UserError(f"{one.path.name} and {two.path.name} share the code {one.code}")
    return tuple(rules)


def rule_url(name: str) -> str:
    """Where the documentation of rule `name` stands, from the root of the skill."""
    return f"references/rules.md#{name}"


def fenced_blocks(text: str) -> tuple[tuple[str, str], ...]:
    """(language, code) of each fenced block; language is "python" or "cuda"."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return tuple(("python" if name in ("python", "py") else "cuda", code) for name, code in blocks)


def split_doc(text: str, origin: Path) -> tuple[str, dict[str, str]]:
    """(summary, sections) of a rule's documentation; raises UserError naming `origin`."""
    head, *rest = re.split(r"^## +(.+?)[ \t]*$", text, flags=re.MULTILINE)
    sections = dict(zip(rest[::2], (part.strip() for part in rest[1::2]), strict=True))
    if tuple(sections) != SECTIONS or not all(sections.values()) or not head.strip():
        raise UserError(f"{origin.name}: the documentation needs a summary and {SECTIONS}")
    return " ".join(head.split()), sections


def _load_pattern(path: Path) -> Rule:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = path.read_text(encoding="utf-8")
    try:
        documents: list[dict[str, Any]] = list(yaml.load_all(text, Loader=loader))
        first = documents[0]
        data = first["metadata"]
        summary, sections = split_doc(data["doc"], path)
        return Rule(
            name=path.stem,
            code=data["code"],
            label=data["label"],
            default=data["default"],
            severity=_severity(first),
            languages=tuple(sorted({LANGUAGE[part["language"]] for part in documents})),
            summary=summary,
            message=first["message"],
            note=first["note"],
            sections=sections,
            url=rule_url(path.stem),
            path=path,
            trigger=_trigger(data["trigger"]),
            fix=data.get("fix", ""),
            # Off for plain ast-grep; whoever is handed an opt-in rule here has selected it.
            documents=re.sub(r"^severity: off$", "severity: info", text, flags=re.MULTILINE),
            patterns=tuple(_pattern(part, first, path) for part in documents),
        )
    except (yaml.YAMLError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"rule file {path.name} is not well-formed: {error!r}") from None


def _trigger(given: str | list[str]) -> evidence.Trigger:
    return given if isinstance(given, str) else tuple(given)


def _pattern(part: dict[str, Any], first: dict[str, Any], path: Path) -> Pattern:
    if not part["id"].startswith(path.stem):
        raise UserError(f"{path.name}: the id {part['id']} must start with the file's name")
    requires = (part.get("metadata") or {}).get("requires")
    return Pattern(
        rule_id=part["id"],
        language=LANGUAGE[part["language"]],
        severity=_severity(part),
        note=part.get("note") or first["note"],
        requires=re.compile(requires, re.MULTILINE) if requires else None,
        since=(part.get("metadata") or {}).get("since", ""),
    )


def _severity(part: dict[str, Any]) -> str:
    # An opt-in rule is `severity: off` for plain ast-grep; what it is when it is on stands beside.
    severity = (part.get("metadata") or {}).get("severity") or part["severity"]
    if severity not in SEVERITIES:
        raise KeyError(f"severity {severity}")
    return str(severity)


def _load_module(path: Path) -> Rule:
    module = importlib.import_module(f"perf_timing.rules.{path.stem}")
    name = path.stem.replace("_", "-")
    summary, sections = split_doc(module.__doc__ or "", path)
    try:
        return Rule(
            name=name,
            code=module.CODE,
            label=module.LABEL,
            default=module.DEFAULT,
            severity=module.SEVERITY,
            languages=tuple(module.LANGUAGES),
            summary=summary,
            message=module.MESSAGE,
            note=module.NOTE,
            sections=sections,
            url=rule_url(name),
            path=path,
            device_only=getattr(module, "DEVICE_ONLY", True),
            benchmark_only=getattr(module, "BENCHMARK_ONLY", False),
            trigger=getattr(module, "TRIGGER", evidence.measures),
            fix=getattr(module, "FIX", ""),
            check=module.check,
        )
    except AttributeError as error:
        raise UserError(f"rule file {path.name}: {error}") from None

"""Checks units against rules: one run of ast-grep, then the engine on the files that time."""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perf_timing.lint import engine, facts
from perf_timing.lint.catalog import Pattern, Rule
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.files import declared, evidence
from perf_timing.lint.files.consulted import Consulted, consulting
from perf_timing.lint.intent import purpose
from perf_timing.lint.measured.regions import TooManyRegionsError
from perf_timing.lint.model import Finding, Fix, Span, Unit
from perf_timing.lint.output import remedies
from perf_timing.lint.parsing import astgrep, nesting

MAX_CHARACTERS = 8_000_000
# What the engine takes on: it builds a tree of the code, at 0.15 ms and 4 KB a line.
MAX_ENGINE_CHARACTERS = 600_000
# Frames. C++ may nest deeper than Python's parser lets Python nest.
_DEPTH = 5000


@dataclass(frozen=True)
class CheckResult:
    """Findings in order of path, place and code; and the units that could not be checked, with why.

    `parsed` counts the units that reached ast-grep; the others hold nothing that a rule looks for.
    `consulted` are the other files on which the findings of a path hang; `passing` are the paths
    of units that could not be checked for want of time or memory.
    """

    findings: tuple[Finding, ...]
    unchecked: tuple[tuple[Unit, str], ...]
    parsed: int = 0
    consulted: Mapping[str, Consulted] = field(default_factory=dict)
    passing: frozenset[str] = frozenset()


def check(
    units: Sequence[Unit],
    rules: Sequence[Rule],
    *,
    sync_helpers: Sequence[str] = (),
    gpu_helpers: Sequence[str] = (),
) -> CheckResult:
    """Check every unit against the rules given. Raises UserError when ast-grep cannot be used.

    `sync_helpers` are names of functions of the project that wait for the device, `gpu_helpers`
    names of functions that give it work.
    """
    unchecked = [(unit, _too_large(unit)) for unit in units if _too_large(unit)]
    wanted = []
    for unit in units:
        chosen = [] if _too_large(unit) else _wanted(unit, rules)
        if any(rule.check for rule in chosen) and len(unit.code) > MAX_ENGINE_CHARACTERS:
            size = f"{MAX_ENGINE_CHARACTERS / 1e6:g} MB"
            unchecked.append((unit, f"more than {size} of its code has a part in timing"))
        elif chosen and unit.language == "cuda" and nesting.too_deep(unit.code):
            unchecked.append((unit, f"its code is nested deeper than {nesting.DEEPEST} levels"))
        elif chosen:
            wanted.append((unit, chosen))
    helpers = engine.Helpers(frozenset(sync_helpers), frozenset(gpu_helpers))
    findings: set[Finding] = set()
    consulted: dict[str, Consulted] = {}
    passing: set[str] = set()
    for group, documents in _groups(wanted):
        sources = [astgrep.Source(unit.language, unit.text) for unit, _ in group]
        for (unit, chosen), scan in zip(group, astgrep.scan(sources, documents), strict=True):
            if scan.failure:
                unchecked.append((unit, scan.failure))
                passing.add(unit.path)
                continue
            try:
                with _deeper(), consulting() as others:
                    findings.update(_check_unit(unit, scan, chosen, helpers))
                consulted.setdefault(unit.path, {}).update(others)
            except RecursionError:
                unchecked.append((unit, "its code is nested too deeply"))
                passing.add(unit.path)
            except TooManyRegionsError:
                unchecked.append((unit, "one of its functions takes too many measurements"))
    ordered = sorted(findings, key=lambda f: (f.path, f.line, f.column, f.code, f.message))
    return CheckResult(tuple(ordered), tuple(unchecked), len(wanted), consulted, frozenset(passing))


def _groups(
    wanted: Sequence[tuple[Unit, list[Rule]]],
) -> Iterator[tuple[list[tuple[Unit, list[Rule]]], str]]:
    """The units by what ast-grep has to look for in them, and the documents for that.

    Pattern rules cost twice as much as parsing, facts fill the output; few files need both.
    """
    groups: dict[tuple[bool, bool], list[tuple[Unit, list[Rule]]]] = {}
    for unit, chosen in wanted:
        needs = (any(rule.check for rule in chosen), any(rule.documents for rule in chosen))
        groups.setdefault(needs, []).append((unit, chosen))
    for (trees, _), group in groups.items():
        patterns = {rule.documents for _, chosen in group for rule in chosen if rule.documents}
        languages = sorted({unit.language for unit, _ in group}) if trees else []
        yield group, "\n---\n".join([*sorted(patterns), *map(facts.documents, languages)])


@contextlib.contextmanager
def _deeper() -> Iterator[None]:
    """Lets the walks over a tree go deeper than Python allows by default."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _too_large(unit: Unit) -> str:
    if len(unit.text) > MAX_CHARACTERS:
        return f"it is larger than {MAX_CHARACTERS / 1e6:g} MB"
    return ""


def _wanted(unit: Unit, rules: Sequence[Rule]) -> list[Rule]:
    """The rules that may find something in the unit's text."""
    code = unit.code
    on_device = words.names_device(code)
    found: dict[evidence.Trigger, bool] = {}
    chosen = []
    for rule in rules:
        if unit.language not in rule.languages or (rule.device_only and not on_device):
            continue
        if rule.trigger not in found:
            found[rule.trigger] = evidence.triggers(rule.trigger, code, unit.language)
        if found[rule.trigger]:
            chosen.append(rule)
    return chosen


def _check_unit(
    unit: Unit, scan: astgrep.Scan, rules: Sequence[Rule], helpers: engine.Helpers
) -> Iterator[Finding]:
    lines = facts.LineIndex(unit.text)
    by_id = {p.rule_id: (rule, p) for rule in rules for p in rule.patterns}
    for match in scan.matches:
        if match.rule_id in by_id:
            rule, pattern = by_id[match.rule_id]
            if pattern.requires is not None and not pattern.requires.search(unit.text):
                continue
            # A remark on a name that an older version needs is none where that one is supported.
            remark = pattern.since and pattern.severity == "info"
            if not (remark and declared.supports_older(unit.path, pattern.since)):
                yield _pattern_finding(unit, lines, match, rule, pattern)
    checks = [rule for rule in rules if rule.check]
    if not checks:
        return
    text = astgrep.readable(unit.language, unit.text)
    tree = facts.build_tree(text, unit.language, scan.matches)
    source = engine.SourceFile(unit, tree, helpers)
    for rule in checks:
        assert rule.check is not None
        if rule.device_only and rule.trigger is evidence.measures and not source.on_device:
            continue  # what is measured runs on the host
        reports: Iterable[engine.Report] = rule.check(source)
        if rule.benchmark_only:
            reports = (r for r in reports if r.anywhere or purpose.is_measuring(source, r.node))
        yield from _engine_findings(unit, lines, rule, reports, tree)


def _readable(unit: Unit, message: str) -> str:
    """`message` with the reader's places for the lines of the unit's text that it names."""
    if not unit.places:
        return message

    def place(found: re.Match[str]) -> str:
        cell, line = unit.place(int(found[1]))
        return f"line {line}" if cell is None else f"line {line} of cell {cell}"

    return re.sub(r"\bline (\d+)\b", place, message)


def _pattern_finding(
    unit: Unit, lines: facts.LineIndex, match: astgrep.Match, rule: Rule, pattern: Pattern
) -> Finding:
    fixes: tuple[Fix, ...] = ()
    changed = unit.text[match.replacement_start : match.replacement_end]
    if match.replacement not in (None, changed) and changed.isascii():
        assert match.replacement is not None
        safe = rule.fix == "safe" and not (
            pattern.since and declared.supports_older(unit.path, pattern.since)
        )
        fix = Fix(match.replacement_start, match.replacement_end, match.replacement, safe)
        fixes = (fix,)
    span = lines.span(match.start, match.end)
    message = " ".join(match.message.split())
    return _finding(unit, rule, span, message, pattern.note, pattern.severity, fixes=fixes)


def _engine_findings(
    unit: Unit,
    lines: facts.LineIndex,
    rule: Rule,
    reports: Iterable[engine.Report],
    tree: facts.Tree,
) -> Iterator[Finding]:
    for report in reports:
        span = lines.span(report.node.start, report.node.end)
        related = tuple(lines.span(n.start, n.end, text) for n, text in report.related)
        note = remedies.fit(report.note or rule.note, tree)
        message = _readable(unit, report.message)
        yield _finding(unit, rule, span, message, note, rule.severity, related, report.fixes)


def _finding(
    unit: Unit,
    rule: Rule,
    span: Span,
    message: str,
    note: str,
    severity: str,
    related: tuple[Span, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> Finding:
    return Finding(
        rule=rule.name,
        code=rule.code,
        severity=severity,
        path=unit.path,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        message=message.encode("ascii", "backslashreplace").decode("ascii"),
        note=" ".join(note.split()),
        related=related,
        url=rule.url,
        fixes=fixes,
    )

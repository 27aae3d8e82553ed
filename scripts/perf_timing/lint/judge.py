"""Brings units to the engine and its findings back to the reader's places in the files."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from perf_timing.lint.catalog import Rule, load_rules
from perf_timing.lint.check import check
from perf_timing.lint.config import Settings
from perf_timing.lint.files.source import Document, ParseFailure, Piece, parse_failure
from perf_timing.lint.model import Finding, Span
from perf_timing.lint.output import suppress
from perf_timing.lint.output.links import rule_page
from perf_timing.lint.output.tool_rules import tool_rules
from perf_timing.lint.parsing import astgrep
from perf_timing.lint.runner import Chooser, FileResult, Related, Report, unchecked

_MAX_RUN_CHARACTERS = 300_000  # keeps two processes below 300 MB

# Matches where ast-grep's own grammar cannot read a text either, or reads Python 2.
_UNREADABLE = """\
id: unreadable
language: python
severity: hint
rule: {any: [{kind: ERROR}, {kind: print_statement}, {kind: exec_statement}]}
"""


def all_rules() -> tuple[Rule, ...]:
    """Every rule that can be selected, in order of the codes."""
    return (*load_rules(), *tool_rules())


def judge(documents: Sequence[Document], choose: Chooser) -> list[FileResult]:
    """One result a document. Raises UserError when ast-grep cannot be used."""
    results = [unchecked(document) for document in documents]
    work = [(i, piece) for i, document in enumerate(documents) for piece in document.pieces]
    reasons = _parse_reasons([piece for _, piece in work])
    groups: dict[Settings, list[tuple[int, Piece]]] = defaultdict(list)
    for (i, piece), reason in zip(work, reasons, strict=True):
        if reason:
            results[i].problems.append(f"{piece.where}{reason}")
            # That ast-grep cannot read it either may be for want of time or memory.
            results[i].passing |= piece.failure is not None and piece.failure.may_be_newer
        else:
            groups[documents[i].target.settings].append((i, piece))
    chosen = [choose(document.target) for document in documents]
    for settings, group in groups.items():
        for portion in _portions(group):
            _judge_group(settings, portion, chosen, results)
    return results


def _portions(group: Sequence[tuple[int, Piece]]) -> Iterator[list[tuple[int, Piece]]]:
    """The group in runs of ast-grep whose output, some hundred times the code, stays in bounds."""
    portion: list[tuple[int, Piece]] = []
    size = 0
    for item in group:
        code = len(item[1].unit.code)
        if portion and size + code > _MAX_RUN_CHARACTERS:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += code
    if portion:
        yield portion


def _parse_reasons(pieces: Sequence[Piece]) -> list[str]:
    """Why each piece cannot be parsed; empty where it can, if only by a later Python."""
    doubtful = [p for p in pieces if p.failure and p.failure.may_be_newer]
    sources = [astgrep.Source("python", piece.unit.text) for piece in doubtful]
    scans = astgrep.scan(sources, _UNREADABLE)
    fine = {
        id(piece)
        for piece, scan in zip(doubtful, scans, strict=True)
        if not scan.failure and not scan.matches
    }
    return [p.failure.reason if p.failure and id(p) not in fine else "" for p in pieces]


def _judge_group(
    settings: Settings,
    group: Sequence[tuple[int, Piece]],
    chosen: Sequence[frozenset[str]],
    results: Sequence[FileResult],
) -> None:
    wanted = frozenset().union(*(chosen[i] for i, _ in group))
    rules = [rule for rule in load_rules() if rule.name in wanted]
    helpers = {"sync_helpers": settings.sync_helpers, "gpu_helpers": settings.gpu_helpers}
    outcome = check(
        [piece.unit for _, piece in group], rules, **{k: v for k, v in helpers.items() if v}
    )
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in outcome.findings:
        found[finding.path].append(finding)
    failed = {unit.path: reason for unit, reason in outcome.unchecked}
    known = {key: rule.name for rule in all_rules() for key in (rule.name, rule.code)}
    for i, piece in group:
        result, path = results[i], piece.unit.path
        result.consulted.update(outcome.consulted.get(path, {}))
        if path in failed:
            result.problems.append(f"{piece.where}{failed[path]}")
            result.passing |= path in outcome.passing
            continue
        findings = [f for f in found.get(path, ()) if f.rule in chosen[i]]
        verdict = suppress.apply(piece.unit, findings, known, chosen[i])
        result.silenced += verdict.silenced
        findings = verdict.kept + [
            _complaint(piece, name, directive, message)
            for name, directive, message in verdict.complaints
            if name in chosen[i]
        ]
        broken = _failure_elsewhere(piece) if findings else None
        if broken and not broken.may_be_newer:
            result.problems.append(f"{piece.where}{broken.reason}")
        else:
            result.reports += [_report(piece, finding, result.shown) for finding in findings]


def _failure_elsewhere(piece: Piece) -> ParseFailure | None:
    """Why the rest of a Python file cannot be parsed, of which the unit is only a part."""
    if piece.shown is None or piece.unit.places or piece.unit.language != "python":
        return None
    return parse_failure(piece.shown)


def _complaint(piece: Piece, name: str, directive: suppress.Directive, message: str) -> Finding:
    rule = next(rule for rule in tool_rules() if rule.name == name)
    return Finding(
        rule=rule.name,
        code=rule.code,
        severity=rule.severity,
        path=piece.unit.path,
        line=directive.line,
        column=directive.column,
        end_line=directive.line,
        end_column=directive.end_column,
        message=message.encode("ascii", "backslashreplace").decode("ascii"),
        note=rule.note,
        url=rule.url,
    )


def _report(piece: Piece, finding: Finding, shown: str) -> Report:
    span = Span(finding.line, finding.column, finding.end_line, finding.end_column)
    place, cell = _place(piece, span)
    lines = piece.lines
    related = []
    for other in finding.related:
        there, other_cell = _place(piece, other)
        related.append(Related(there, other_cell, lines[other.line - 1]))
    moved = replace(
        finding,
        path=shown,
        line=place.line,
        column=place.column,
        end_line=place.end_line,
        end_column=place.end_column,
        cell=cell,
        url=rule_page(finding.url),
    )
    return Report(moved, lines[finding.line - 1], lines[finding.end_line - 1], tuple(related))


def _place(piece: Piece, span: Span) -> tuple[Span, int | None]:
    """`span` and its cell as the reader sees them. A span never leaves its cell or its lines."""
    lines = piece.lines
    cell, line = piece.unit.place(span.line)
    end = span.end_line
    while end > span.line and piece.unit.place(end)[0] != cell:
        end -= 1
    column = _column(piece, lines, span.line, span.column)
    end_column = _column(piece, lines, end, span.end_column)
    if end == span.line:
        end_column = max(end_column, column)
    return Span(line, column, piece.unit.place(end)[1], end_column, span.message), cell


def _column(piece: Piece, lines: Sequence[str], line: int, column: int) -> int:
    return max(1, min(column - piece.shifts.get(line - 1, 0), len(lines[line - 1]) + 1))

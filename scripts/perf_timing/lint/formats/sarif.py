"""SARIF 2.1.0, for code scanning services."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote_from_bytes

from perf_timing import __version__
from perf_timing.lint.catalog import Rule
from perf_timing.lint.formats import Outcome, path_bytes
from perf_timing.lint.judge import all_rules
from perf_timing.lint.model import Span
from perf_timing.lint.output.links import HOME, rule_page
from perf_timing.lint.runner import Report

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(outcome: Outcome) -> str:
    """The findings as one run of SARIF 2.1.0. Columns count UTF-16 code units."""
    rules = all_rules()
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "lint-timing",
                        "version": __version__,
                        "informationUri": HOME,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "invocations": [_invocation(outcome)],
                "results": _results(outcome.reports, rules),
            }
        ],
    }
    return json.dumps(log, indent=1) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    page = rule_page(rule.url)
    titled = "\n\n".join(f"## {title}\n\n{text}" for title, text in rule.sections.items())
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.sections["What it does"]},
        "help": {"text": f"{rule.summary} See {page}", "markdown": titled},
        "helpUri": page,
        "defaultConfiguration": {"enabled": rule.default, "level": _LEVELS[rule.severity]},
        "properties": {"tags": ["gpu", "timing"], "rule": rule.name},
    }


def _invocation(outcome: Outcome) -> dict[str, Any]:
    notes = [
        {
            "level": "error",
            "message": {"text": f"not checked: {reason}"},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(path)}}],
        }
        for path, reason in outcome.problems
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not notes}
    if notes:
        invocation["toolExecutionNotifications"] = notes
    return invocation


def _results(reports: Sequence[Report], rules: Sequence[Rule]) -> list[dict[str, Any]]:
    index = {rule.code: i for i, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = []
    for report in reports:
        f = report.finding
        key = b"\0".join(
            (path_bytes(f.path), f.code.encode(), report.source.strip().encode("utf-8", "replace"))
        )
        digest = hashlib.sha256(key).hexdigest()[:32]
        seen[digest] += 1
        result: dict[str, Any] = {
            "ruleId": f.code,
            "ruleIndex": index[f.code],
            "level": _LEVELS[f.severity],
            "message": {"text": f"{f.message}. {f.note}"},
            "locations": [_location(report)],
            "partialFingerprints": {"lintTimingLine/v1": f"{digest}:{seen[digest]}"},
        }
        related = [_related(report, i) for i in range(len(report.related))]
        if related:
            result["relatedLocations"] = related
        results.append(result)
    return results


def _artifact(path: str) -> dict[str, Any]:
    uri = quote_from_bytes(path_bytes(path), safe="/~")
    if path.startswith("/") or path[1:3] == ":\\":
        return {"uri": f"file://{uri if uri.startswith('/') else '/' + uri}"}
    return {"uri": uri}


def _location(report: Report) -> dict[str, Any]:
    f = report.finding
    span = Span(f.line, f.column, f.end_line, f.end_column)
    return _place(report, span, f.cell, report.source, report.end_source)


def _related(report: Report, number: int) -> dict[str, Any]:
    related = report.related[number]
    # Only the start of a related place is exact: the text of its last line is not at hand.
    span = related.span
    end = span.end_column if span.end_line == span.line else len(related.source) + 1
    one_line = Span(span.line, span.column, span.line, max(end, span.column))
    place = _place(report, one_line, related.cell, related.source, related.source)
    return {"id": number, **place, "message": {"text": span.message or "related"}}


def _place(report: Report, span: Span, cell: int | None, first: str, last: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(report.finding.path)}
    if cell is None:
        physical["region"] = {
            "startLine": span.line,
            "startColumn": _utf16(first, span.column),
            "endLine": span.end_line,
            "endColumn": _utf16(last, span.end_column),
        }
        return {"physicalLocation": physical}
    # Lines of a cell are not lines of the notebook's file, which is JSON.
    name = f"cell {cell}, line {span.line}"
    return {"physicalLocation": physical, "logicalLocations": [{"name": name, "kind": "cell"}]}


def _utf16(text: str, column: int) -> int:
    """1-based column in UTF-16 code units for a 1-based column in code points."""
    return 1 + sum(2 if ord(c) > 0xFFFF else 1 for c in text[: column - 1])

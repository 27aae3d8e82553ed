"""For programs: one JSON array, whose keys references/cli.md documents."""

import json
from typing import Any

from perf_timing.lint.formats import Outcome
from perf_timing.lint.runner import Related, Report


def render(outcome: Outcome) -> str:
    """The findings as an array of objects, one a line."""
    if not outcome.reports:
        return "[]\n"
    return "[\n" + ",\n".join(json.dumps(_record(report)) for report in outcome.reports) + "\n]\n"


def _record(report: Report) -> dict[str, Any]:
    f = report.finding
    record = {
        "rule": f.rule,
        "code": f.code,
        "severity": f.severity,
        "path": f.path,
        "line": f.line,
        "column": f.column,
        "end_line": f.end_line,
        "end_column": f.end_column,
        "message": f.message,
        "note": f.note,
        "url": f.url,
        "fix": fix_kind(report),
        "related": [_related(related) for related in report.related],
    }
    if f.cell is not None:
        record["cell"] = f.cell
    return record


def _related(related: Related) -> dict[str, Any]:
    span = related.span
    record = {
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "message": span.message,
    }
    if related.cell is not None:
        record["cell"] = related.cell
    return record


def fix_kind(report: Report) -> str | None:
    """ "safe" where `--fix` applies, "unsafe" where `--unsafe-fixes` is needed too, else None."""
    fixes = report.finding.fixes
    if not fixes:
        return None
    return "safe" if all(fix.safe for fix in fixes) else "unsafe"

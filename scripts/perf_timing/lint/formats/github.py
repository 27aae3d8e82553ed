"""Workflow commands of GitHub Actions, which show findings beside the changed lines."""

from perf_timing.lint.formats import Outcome, place, printable, summary
from perf_timing.lint.runner import Report

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(outcome: Outcome) -> str:
    """One command a finding, one for each file that was not checked, and the summary."""
    lines = [_annotation(report) for report in outcome.reports]
    for path, reason in outcome.problems:
        title = _property("not checked")
        lines.append(f"::error file={_property(printable(path))},title={title}::{_data(reason)}")
    return "".join(f"{line}\n" for line in [*lines, summary(outcome)])


def _annotation(report: Report) -> str:
    f = report.finding
    properties = {"file": printable(f.path)}
    if f.cell is None:
        properties |= {"line": str(f.line), "endLine": str(f.end_line)}
        # GitHub refuses columns of a place that spans lines.
        if f.end_line == f.line:
            properties |= {"col": str(f.column), "endColumn": str(f.end_column)}
    properties["title"] = f"{f.code} {f.rule}"
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    where = "" if f.cell is None else f"{place(report)}: "
    text = f"{where}{f.message}\n{f.note}\n{f.url}"
    return f"::{_COMMANDS[f.severity]} {listed}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

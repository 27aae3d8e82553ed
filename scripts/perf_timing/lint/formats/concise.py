"""One line a finding: `path:line:column: code rule: message`."""

from perf_timing.lint.formats import Outcome, place, summary


def render(outcome: Outcome) -> str:
    """The findings, one a line, and the summary."""
    lines = [
        f"{place(r)}: {r.finding.severity} {r.finding.code} {r.finding.rule}: {r.finding.message}"
        for r in outcome.reports
    ]
    return "".join(f"{line}\n" for line in [*lines, summary(outcome)])

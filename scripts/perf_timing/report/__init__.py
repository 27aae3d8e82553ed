"""`report-timing`: show and compare the JSON records that timing code wrote."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `report-timing`; returns its exit status and never raises."""
    from perf_timing._cli import run_command
    from perf_timing.report.command import PROGRAM, run

    return run_command(PROGRAM, lambda: run(argv))

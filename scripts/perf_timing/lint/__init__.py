"""`lint-timing`: finds GPU timing code whose figures are not what they seem.

The way of a file: files/ finds and reads it, parsing/ makes it readable for ast-grep, facts/ says
what is where. engine.py answers what the rules ask: what the code does (code/, roles/), which
regions are measured (measured/), what runs in them (work/), whether it ran before (warmup/), what
the figure is for (intent/) and what becomes of it (figures/), in which unit (units/). output/ and
formats/ bring the findings to the reader.
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `lint-timing` with `argv` (default: the process's arguments); returns its exit status.

    0: clean; 1: findings at or above `--fail-on`; 2: something asked for could not be checked.
    """
    from perf_timing.lint import cli

    return cli.main(argv)

"""`lint-timing`: finds GPU timing code whose figures are not what they seem."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `lint-timing` with `argv` (default: the process's arguments); returns its exit status.

    0: clean; 1: findings at or above `--fail-on`; 2: something asked for could not be checked.
    """
    from perf_timing.lint import cli

    return cli.main(argv)

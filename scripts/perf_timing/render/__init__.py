"""`render-timing`: print correct timing code for a scenario."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when the code was rendered, 2 when it could not be."""
    from perf_timing.render.cli import main as run

    return run(argv)

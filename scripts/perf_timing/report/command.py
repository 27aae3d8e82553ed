"""The command line of `report-timing`."""

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from perf_timing import __version__
from perf_timing._cli import CLEAN, FINDINGS, Parser, UserError, write_whole_bytes
from perf_timing.report.comparison import ALLOWABLE, Comparison, compare, recorded_pairs
from perf_timing.report.export import as_json
from perf_timing.report.layout import as_markdown, as_text
from perf_timing.report.record import Record, load
from perf_timing.report.view import sections

PROGRAM = "report-timing"
DEFAULT_MARGIN = 0.01
_WIDTH_OF_A_PIPE = 100

_DESCRIPTION = """\
Show the JSON records that rendered or injected timing code wrote (--json), and compare them.

One FILE is shown. Of two or more, each is compared with the first: the ratio of the medians
(candidate time / baseline time), its 95 % confidence interval, and a verdict:
  same       the interval lies within 1 - margin .. 1 + margin
  faster     the interval lies wholly below that, slower: wholly above it
  undecided  the interval crosses a bound, there is none (fewer than 6 samples, drift), or a flag
             makes a figure untrustworthy (host-bound, below-floor, above-peak, ...)
The interval widens by as much as samples depend on those before them. Loops are compared by wall
time per step, or per item where their steps differ in size. A record of `render-timing compare`
holds its own paired comparison, which is shown.

Times are printed in us, ms or s as marked (JSON: always us), rates in 1e9 B/s (GB/s) and 1e12
FLOP/s (TFLOP/s). "+/-" is the interquartile range; no sample is ever left
out.
"""

_EPILOG = """\
exit status:
  0  shown (with whatever verdict)
  1  with --fail-on-slower: a verdict is slower
  2  a file is no record, the records cannot be compared, or the plot cannot be made

examples:
  report-timing before.json after.json
  report-timing *.json --baseline before.json --format markdown
  report-timing before.json after.json --margin 0.02 --fail-on-slower --plot change.png
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser, from which the reference of the command is made too."""
    parser = Parser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a record, schema perf-timing/1")
    parser.add_argument(
        "--baseline", metavar="FILE", help="compare with this record (default: the first FILE)"
    )
    parser.add_argument(
        "--no-compare", action="store_true", help="only show several records, compare none"
    )
    parser.add_argument(
        "--margin",
        type=_margin,
        metavar="SHARE",
        help="difference that counts as the same, as 0.01 or 1%% (default: 0.01; for a record of"
        " `compare`, the margin that it was made with)",
    )
    parser.add_argument(
        "--allow-different",
        type=_conditions,
        default=(),
        metavar="WHAT",
        help=f"compare although these differ: a comma-separated list of {', '.join(ALLOWABLE)}",
    )
    parser.add_argument(
        "--format",
        choices=("table", "json", "markdown"),
        default="table",
        help="form of the report on stdout (default: table)",
    )
    parser.add_argument(
        "--plot",
        metavar="IMAGE",
        help="also draw samples over time with the clock, their distribution and the comparison;"
        " .png, .svg or .pdf (needs matplotlib)",
    )
    parser.add_argument("--force", action="store_true", help="let --plot replace a file")
    parser.add_argument(
        "--fail-on-slower", action="store_true", help="exit 1 where a verdict is slower"
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def _margin(text: str) -> float:
    number, percent = (text[:-1], 100) if text.endswith("%") else (text, 1)
    try:
        share = float(number) / percent
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of 0 up to 1, as 0.01 or 1%")
    return share


def _conditions(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    unknown = [word for word in words if word not in ALLOWABLE]
    if unknown or not words:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {', '.join(ALLOWABLE)}")
    return words


def run(argv: Sequence[str] | None) -> int:
    """Body of the command; raises UserError, or SystemExit from --help."""
    options = build_parser().parse_args(argv)
    paths = list(options.files)
    if options.baseline and options.baseline not in paths:
        paths.insert(0, options.baseline)
    records = _load_all(paths)
    comparisons = _compare_all(records, options) if not options.no_compare else []
    if options.plot:
        _write_plot(records, comparisons, options)
    _write(_report(records, comparisons, options))
    verdicts = [*comparisons, *_recorded(records, options.margin)]
    slower = any(comparison.verdict == "slower" for comparison in verdicts)
    return FINDINGS if options.fail_on_slower and slower else CLEAN


def _load_all(paths: Sequence[str]) -> list[Record]:
    """Records under the shortest name that tells them apart."""
    stems = Counter(Path(path).stem for path in paths)
    return [load(path, Path(path).stem if stems[Path(path).stem] == 1 else path) for path in paths]


def _compare_all(records: Sequence[Record], options: argparse.Namespace) -> list[Comparison]:
    comparable = [record for record in records if record.kind != "compare"]
    if options.baseline:
        baseline = next(record for record in records if record.path == options.baseline)
        if baseline.kind == "compare":
            raise UserError(f"{baseline.path}: a record of kind compare is no baseline")
    elif comparable:
        baseline = comparable[0]
    margin = DEFAULT_MARGIN if options.margin is None else options.margin
    return [
        compare(baseline, other, margin=margin, allow_different=options.allow_different)
        for other in comparable
        if other is not baseline
    ]


def _recorded(records: Sequence[Record], margin: float | None) -> list[Comparison]:
    return [
        pair
        for record in records
        if record.kind == "compare"
        for pair in recorded_pairs(record, margin)
    ]


def _report(
    records: Sequence[Record], comparisons: Sequence[Comparison], options: argparse.Namespace
) -> str:
    if options.format == "json":
        return as_json(records, comparisons, options.margin)
    shown = sections(records, comparisons, options.margin)
    if options.format == "markdown":
        return as_markdown(shown)
    return as_text(shown, shutil.get_terminal_size((_WIDTH_OF_A_PIPE, 24)).columns)


def _write(text: str) -> None:
    """Print what stdout's encoding lacks as escapes instead of failing on it."""
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _write_plot(
    records: Sequence[Record], comparisons: Sequence[Comparison], options: argparse.Namespace
) -> None:
    from perf_timing.report.plot import FORMATS, draw

    path = Path(options.plot)
    form = path.suffix.lower().lstrip(".")
    if form not in FORMATS:
        raise UserError(f"cannot draw {path}: its name must end in .{', .'.join(FORMATS)}")
    if path.exists() and not options.force:
        raise UserError(f"{path} exists; add --force to replace it")
    image = draw(records, [*comparisons, *_recorded(records, options.margin)], form)
    write_whole_bytes(path, image, overwrite=options.force)

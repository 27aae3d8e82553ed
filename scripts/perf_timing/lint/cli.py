"""The command line of `lint-timing`."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from perf_timing import __version__, _cli
from perf_timing._cli import CLEAN, FAILED, FINDINGS, UserError, complain
from perf_timing.lint import formats, runner
from perf_timing.lint.config import SettingsFinder
from perf_timing.lint.files.discover import (
    KINDS,
    MARKDOWN_KINDS,
    Found,
    Target,
    discover,
    folder_of,
    suffix_of,
)
from perf_timing.lint.formats import Outcome
from perf_timing.lint.runner import FileResult, Report

PROGRAM = "lint-timing"
_FAIL_ON = {"error": ("error",), "warning": ("error", "warning"), "info": formats.SEVERITIES}

_DESCRIPTION = """\
Find GPU timing code whose figures are not what they seem, in Python, CUDA C++ and notebooks.
Nothing is imported or run; no GPU is needed.
"""
_EPILOG = """\
exit status:
  0  clean, or nothing at or above --fail-on
  1  findings at or above --fail-on
  2  something that was asked for could not be checked; stderr names it

examples:
  lint-timing bench.py kernels/
  lint-timing --explain host-clock-without-sync
  git show HEAD:bench.py | lint-timing - --stdin-filename bench.py
  lint-timing --select DEFAULT,warm-cache --format json benchmarks/

A comment `# lint-timing: ignore[rule-name] reason` silences a rule for a statement.
[tool.lint-timing] in pyproject.toml holds settings for a project.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; see `perf_timing.lint.main`."""
    return _cli.run_command(PROGRAM, lambda: _run(build_parser().parse_args(argv)))


def build_parser() -> argparse.ArgumentParser:
    parser = _cli.Parser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="file or folder; - is standard input")
    add("--version", action="version", version=f"{PROGRAM} {__version__}")
    what = parser.add_argument_group("what is checked")
    add = what.add_argument
    add("--markdown", action="store_true", help="also Python and CUDA blocks in Markdown files")
    add("--stdin-filename", metavar="NAME", help="what to call standard input (default: stdin.py)")
    add("--force-exclude", action="store_true", help="exclude files even where they are named")
    add("--isolated", action="store_true", help="read no pyproject.toml")
    add("--no-cache", action="store_true", help="check files anew that have not changed")
    add("--jobs", type=int, metavar="N", help="processes to use (default: one per core, up to 4)")
    which = parser.add_argument_group("which rules")
    add = which.add_argument
    listed = "rule names, codes or beginnings of either, with commas; ALL; DEFAULT"
    add("--select", action="append", metavar="RULES", help=f"report these only: {listed}")
    add("--ignore", action="append", metavar="RULES", default=[], help="do not report these")
    add("--baseline", metavar="FILE", help="do not report what FILE lists")
    add("--write-baseline", metavar="FILE", help="list all present findings in FILE")
    add("--list-rules", action="store_true", help="list every rule and end")
    add("--explain", metavar="RULE", help="print the documentation of a rule and end")
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--format", choices=formats.NAMES, default="full", help="default: full")
    add("--fail-on", choices=formats.SEVERITIES, default="warning", help="default: warning")
    add("--max-findings", type=int, metavar="N", help="print at most N findings")
    fixes = parser.add_argument_group("fixes")
    add = fixes.add_argument
    add("--fix", action="store_true", help="apply fixes that cannot change what a program does")
    add("--diff", action="store_true", help="print what --fix would change, and change nothing")
    add("--unsafe-fixes", action="store_true", help="with --fix or --diff: fixes to look over too")
    return parser


@dataclass
class _Run:
    """What the stages of one run hand on."""

    found: Found = field(default_factory=Found)
    results: list[FileResult] = field(default_factory=list)
    stdin: bytes | None = None
    fixed: int = 0
    diff: bytes = b""


def _run(args: argparse.Namespace) -> int:
    if args.explain is not None or args.list_rules:
        from perf_timing.lint.output import explain

        text = explain.explain(args.explain) if args.explain is not None else explain.list_rules()
        _emit(text.encode("ascii", "backslashreplace"))
        return CLEAN
    _check_arguments(args)
    run = _Run()
    choose = _checked(args, run)
    if not run.results and not run.found.problems and run.found.excluded:
        excluded = formats.plural(run.found.excluded, "file")
        _emit(f"Nothing to check: {excluded} excluded.\n".encode() if _is_text(args) else b"[]\n")
        return CLEAN
    if args.fix or args.diff:
        _fix(args, run, choose)
    return _report(args, run)


def _is_text(args: argparse.Namespace) -> bool:
    return args.format not in ("json", "sarif")


def _check_arguments(args: argparse.Namespace) -> None:
    """Raises UserError for options that contradict each other or mean nothing."""
    if not args.paths:
        raise UserError("no path is given; name files or folders, or - for standard input")
    if "" in args.paths:
        raise UserError("an empty path is given; name files or folders, or - for standard input")
    if "-" in args.paths and len(args.paths) > 1:
        raise UserError("- (standard input) cannot be checked together with other paths")
    if args.stdin_filename is not None and args.paths != ["-"]:
        raise UserError("--stdin-filename needs - as the only path")
    if args.unsafe_fixes and not (args.fix or args.diff):
        raise UserError("--unsafe-fixes only widens --fix and --diff; add one of them")
    if args.fix and args.paths == ["-"]:
        raise UserError("--fix cannot write standard input; use --diff")
    for name in ("jobs", "max_findings"):
        value = getattr(args, name)
        if value is not None and value < (1 if name == "jobs" else 0):
            raise UserError(f"--{name.replace('_', '-')} {value} is too small")


def _checked(args: argparse.Namespace, run: _Run) -> runner.Chooser:
    """Find and check everything that was asked for. Raises UserError."""
    finder = SettingsFinder(args.isolated)
    stdin = _stdin_target(args, finder) if args.paths == ["-"] else None
    if stdin is not None:
        run.found = Found([stdin])
    else:
        run.found = discover(
            args.paths, finder, markdown=args.markdown, force_exclude=args.force_exclude
        )
    choose = _chooser(args, run.found.targets)
    if stdin is not None:
        from perf_timing.lint.files.source import load

        run.stdin = _read_stdin()
        document = load(stdin, run.stdin)
        run.results = runner.check_documents([document], choose)
    else:
        memory = None if args.no_cache else _memory(args)
        run.results = runner.run(run.found.targets, choose, args.jobs or _cores(), memory)
    return choose


def _memory(args: argparse.Namespace) -> runner.Memory | None:
    from perf_timing.lint.files.cache import open_cache

    return open_cache(args.select, args.ignore)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(cores, 4)  # each process may take 100 MB


def _stdin_target(args: argparse.Namespace, finder: SettingsFinder) -> Target:
    name = args.stdin_filename or "stdin.py"
    kinds = {**KINDS, **MARKDOWN_KINDS} if args.markdown else KINDS
    kind = kinds.get(suffix_of(name))
    if kind is None:
        raise UserError(f"--stdin-filename {name}: not a kind of file that is checked")
    settings = finder.for_folder(folder_of(name))
    return Target(name, name, kind, True, settings)


def _read_stdin() -> bytes:
    try:
        return sys.stdin.buffer.read()
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"standard input cannot be read: {error}") from None


def _chooser(args: argparse.Namespace, targets: Sequence[Target]) -> runner.Chooser:
    """Picks the rules for a file. The catalogue is loaded when the first choice is made."""
    made: list[runner.Chooser] = []

    def choose(target: Target) -> frozenset[str]:
        if not made:
            from perf_timing.lint.judge import all_rules
            from perf_timing.lint.selection import Selection

            made.append(Selection(all_rules(), args.select, args.ignore).for_target)
        return made[0](target)

    # A selector that means nothing must be told even where no file holds timing code.
    for settings, target in {target.settings: target for target in targets}.items():
        own = settings.select is not None or settings.ignore or settings.per_file_ignores
        if own or args.select or args.ignore:
            choose(target)
    return choose


def _fix(args: argparse.Namespace, run: _Run, choose: runner.Chooser) -> None:
    """Apply fixes in memory, then write the files (`--fix`) or keep the difference (`--diff`)."""
    from perf_timing.lint.files.source import load
    from perf_timing.lint.output import fix

    wanted = {r.shown for r in run.results if any(p.finding.fixes for p in r.reports)}
    targets = [target for target in run.found.targets if target.shown in wanted]
    for target in targets:
        if target.kind not in ("python", "cuda"):
            complain(PROGRAM, f"{target.shown}: fixes are not applied to a {target.kind} file")
    documents = [load(target, run.stdin) for target in targets]
    positions = {result.shown: i for i, result in enumerate(run.results)}
    for fixed in fix.fix_documents(documents, choose, unsafe=args.unsafe_fixes):
        shown = fixed.original.target.shown
        for failure in fixed.failures:
            complain(PROGRAM, f"{shown}: {failure}")
        if not fixed.count:
            continue
        run.fixed += fixed.count
        if args.diff:
            run.diff += fix.diff(fixed)
            continue
        try:
            fix.write(fixed)
        except UserError as error:
            run.fixed -= fixed.count
            run.found.problems.append((shown, f"not fixed: {error}"))
        else:
            run.results[positions[shown]] = fixed.result


def _report(args: argparse.Namespace, run: _Run) -> int:
    """Print what was found; returns the exit status."""
    problems = [(r.shown, reason) for r in run.results for reason in r.problems]
    problems = sorted([*run.found.problems, *problems], key=lambda p: (os.fsencode(p[0]), p[1]))
    reports = [report for result in run.results for report in result.reports]
    if args.write_baseline is not None:
        return _write_baseline(args, run, reports, problems)
    outcome = _outcome(args, run, reports, problems)
    if args.diff:
        _emit(run.diff)
        _complain_about(problems)
    else:
        # What could not be checked stands before the summary, which is the last line.
        _complain_about(problems)
        _print(args, outcome)
    if problems:
        return FAILED
    failing = any(outcome.counts[severity] for severity in _FAIL_ON[args.fail_on])
    return FINDINGS if failing or (args.diff and run.diff) else CLEAN


def _complain_about(problems: Sequence[tuple[str, str]]) -> None:
    for path, reason in problems:
        complain(PROGRAM, f"{path}: {reason}")


def _outcome(
    args: argparse.Namespace,
    run: _Run,
    reports: list[Report],
    problems: Sequence[tuple[str, str]],
) -> Outcome:
    known = stale = 0
    if args.baseline is not None:
        from perf_timing.lint.output.baseline import leave_out

        total = len(reports)
        checked = [result.shown for result in run.results if not result.problems]
        reports, stale = leave_out(reports, args.baseline, checked)
        known = total - len(reports)
    shown = reports if args.max_findings is None else reports[: args.max_findings]
    return Outcome(
        reports=shown,
        problems=problems,
        checked=len(run.results) - len({r.shown for r in run.results if r.problems}),
        hidden=len(reports) - len(shown),
        silenced=sum(result.silenced for result in run.results),
        in_baseline=known,
        stale_in_baseline=stale,
        fixed=0 if args.diff else run.fixed,
        colour=_wants_colour(),
        counts=Counter(report.finding.severity for report in reports),
        fixable=sum(all(f.safe for f in r.finding.fixes) for r in reports if r.finding.fixes),
    )


def _write_baseline(
    args: argparse.Namespace,
    run: _Run,
    reports: Sequence[Report],
    problems: Sequence[tuple[str, str]],
) -> int:
    from perf_timing.lint.output.baseline import write_baseline

    write_baseline(args.write_baseline, reports)
    _complain_about(problems)
    listed = formats.plural(len(reports), "finding")
    _emit(
        f"Wrote {listed} to {formats.printable(args.write_baseline)}.\n".encode(
            "ascii", "backslashreplace"
        )
    )
    return FAILED if problems else CLEAN


def _print(args: argparse.Namespace, outcome: Outcome) -> None:
    import importlib

    text = importlib.import_module(f"perf_timing.lint.formats.{args.format}").render(outcome)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    _emit(text.encode(encoding, "backslashreplace"))
    if not _is_text(args) and outcome.hidden:
        complain(PROGRAM, formats.summary(outcome))


def _wants_colour() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def _emit(data: bytes) -> None:
    """Write `data` to standard output, all of it; raises UserError when that fails.

    The descriptor is written to directly: Python's own buffer would complain a second time at
    exit, and loses data on a pipe that is full and does not block.
    """
    try:
        sys.stdout.flush()
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        sys.stdout.write(data.decode("utf-8", "replace"))  # a stand-in without a descriptor
        return
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            import select

            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"cannot write the output: {error.strerror}") from None

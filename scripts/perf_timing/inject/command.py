"""Command line of `inject-timing`."""

import argparse
import ast
import difflib
import math
import operator
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perf_timing import __version__, _cli
from perf_timing._cli import UserError

PROGRAM = "inject-timing"


def main(argv: Sequence[str] | None = None) -> int:
    """Instrument a training script; returns 0 when done, 1 from --check, 2 when it could not."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return _cli.run_command(PROGRAM, lambda: _run(arguments))


def build_parser() -> argparse.ArgumentParser:
    """The command's options, each with its unit and default."""
    parser = _cli.Parser(
        prog=PROGRAM,
        allow_abbrev=False,
        description="Insert timing into a PyTorch training script: step time, throughput, data"
        " wait, per rank. Evaluation and checkpoints count in no step. Prints a unified diff; the"
        " file is changed only with --write.",
        epilog="Exit status: 0 done (--check: instrumented), 1 --check: not instrumented, 2 could"
        " not do it (one line on stderr says why, the file is as it was).",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the training script")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("--write", action="store_true", help="edit FILE in place")
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--remove", action="store_true", help="restore FILE in place, with or without --write"
    )
    action.add_argument("--check", action="store_true", help="say whether FILE is instrumented")
    parser.add_argument("--diff", action="store_true", help="only print the diff, of --remove too")
    parser.add_argument(
        "--full-diff",
        action="store_true",
        help="print the diff whole, as patch and git apply take it (default: the inserted block as"
        " one line)",
    )
    _add_placing(parser)
    _add_reporting(parser)
    return parser


def _add_placing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is timed")
    group.add_argument("--loop", metavar="LINE", type=_count, help="line of the training loop")
    group.add_argument(
        "--method",
        choices=("event", "sync"),
        default="event",
        help="event: device events, read steps later; sync: wait for the device every step, which"
        " slows the loop (default: event)",
    )
    group.add_argument(
        "--warmup-steps", metavar="N", type=_count, default=5, help="steps left out (default: 5)"
    )
    group.add_argument(
        "--measure-steps", metavar="N", type=_count, default=0, help="steps measured (default: all)"
    )
    group.add_argument(
        "--stop", action="store_true", help="end the run after --measure-steps steps"
    )
    group.add_argument(
        "--phases", action="store_true", help="time forward, backward and optimizer apart"
    )
    group.add_argument(
        "--nvtx",
        action="store_true",
        help="insert NVTX ranges and no timing; with --phases or --timing: both",
    )
    group.add_argument("--timing", action="store_true", help="timing beside --nvtx")


def _add_reporting(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is reported")
    group.add_argument(
        "--items",
        metavar="EXPR",
        help="items over names of the loop's body, such as 'ids.numel()', counted for each batch"
        " fetched; over names bound outside only, once a step (default: the batch's first"
        " dimension)",
    )
    group.add_argument(
        "--log-every",
        metavar="N",
        type=_count,
        default=10,
        help="steps a line (default: 10; 0: none)",
    )
    group.add_argument("--json", metavar="FILE", default="", help="file for the JSON record")
    group.add_argument(
        "--flops-per-item",
        metavar="N",
        type=_arithmetic,
        default=0,
        help="FLOPs an item, for the MFU; a number or arithmetic such as 6*124e6",
    )
    group.add_argument(
        "--peak-tflops",
        metavar="X",
        type=_positive,
        default=0,
        help="dense peak of one device, TFLOP/s (default: known by its name)",
    )
    group.add_argument(
        "--gather-timeout-s",
        metavar="S",
        type=_positive,
        default=30,
        help="longest wait for the records of other ranks, seconds (default: 30)",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"takes a whole number of 0 or more, not {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    return _over_zero(number, text)


def _over_zero(number: float, text: str) -> float:
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"takes a number over 0, not {text!r}")
    return int(number) if number.is_integer() and number < 1e15 else number


def _arithmetic(text: str) -> float:
    """The value of numbers joined by + - * / // ** and brackets; names and calls are refused."""
    try:
        number = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        number = 0.0
    return _over_zero(number, text)


_OPERATIONS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: math.pow,  # overflows, where the power of whole numbers would go on for ever
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op, operand) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(operand))
        case ast.BinOp(left, op, right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left), _value(right))
    raise ValueError(ast.unparse(node))


def _run(arguments: list[str]) -> int:
    from perf_timing.inject import edit, source

    chosen = build_parser().parse_args(arguments)
    if chosen.stop and not chosen.measure_steps:
        raise UserError("--stop needs --measure-steps N: the number of steps after which to stop")
    for option in ("check", "diff"):
        if chosen.write and getattr(chosen, option):
            raise UserError(f"--write edits FILE, --{option} leaves it as it is; give one of them")
    original = source.read(chosen.file)
    if chosen.check:
        there = edit.is_instrumented(original)
        print(f"{chosen.file}: {'instrumented' if there else 'not instrumented'}")
        return _cli.CLEAN if there else _cli.FINDINGS
    if chosen.remove:
        return _remove(chosen, original)
    result, summary = _inject(chosen, original)
    shortened = _deliver(original, result, write=chosen.write, full=chosen.full_diff)
    done = "instrumented" if chosen.write else _shown(shortened)
    print(_cli.ascii_line(f"{PROGRAM}: {done}; {summary}"), file=sys.stderr)
    return _cli.CLEAN


def _shown(shortened: bool, applied_by: str = "--write applies it") -> str:
    how = "this diff is shortened, --full-diff prints it whole" if shortened else "diff only"
    return f"{how}; {applied_by}"


def _remove(chosen: argparse.Namespace, original: Any) -> int:
    from perf_timing.inject import edit

    result, exact = edit.remove(original)
    shown = not chosen.write and (chosen.diff or chosen.full_diff)
    shortened = _deliver(original, result, write=not shown, full=chosen.full_diff)
    what = "restored to the byte" if exact else "marks taken out; other edits since then stay"
    if shown:
        what = f"{_shown(shortened, '--remove alone applies it')}; {what}"
    print(_cli.ascii_line(f"{PROGRAM}: {chosen.file}: {what}"), file=sys.stderr)
    return _cli.CLEAN


def _inject(chosen: argparse.Namespace, original: Any) -> tuple[Any, str]:
    from perf_timing.inject import block, edit, facts, loops, marks, plan, syntax

    if edit.is_instrumented(original):
        raise UserError(f"{chosen.file} is instrumented already; --remove takes it out first")
    if plan.NAME in original.text:
        raise UserError(f"{chosen.file} uses the name {plan.NAME} itself; rename it first")
    items = _items(chosen.items)
    finder = loops.Finder(original, syntax.Syntax(original), facts.collect(original))
    candidate = loops.choose(finder, chosen.loop)
    communication = bool(_DISTRIBUTED.search(original.text))
    options = plan.Options(chosen.phases or chosen.nvtx, communication, items)
    planned = marks.plan(finder, candidate, options)
    timing = not chosen.nvtx or chosen.phases or chosen.timing
    if not timing and (chosen.measure_steps or chosen.stop or chosen.json):
        raise UserError(
            "--nvtx alone takes no time: --measure-steps, --stop and --json need --timing beside it"
        )
    settings = _settings(chosen, candidate.loop.lineno, items) if timing else {}
    if planned.first_segment:
        settings["first_segment"] = planned.first_segment
    text = block.render(original.digest(), settings, timing=timing, nvtx=chosen.nvtx)
    result = edit.inject(original, planned, text)
    where = loops.describe(original, candidate)
    parts = [where, *planned.notes, *(f"warning: {warning}" for warning in planned.warnings)]
    return result, "; ".join(dict.fromkeys(parts))


def _items(expression: str | None) -> str:
    if expression is None:
        return ""
    from perf_timing.render.values import expression as check

    return check("--items", expression)


_DISTRIBUTED = re.compile(
    r"distributed|Distributed|init_process_group|ccelerat|fully_shard|deepspeed|horovod|Fabric"
    r"|between_processes|world_size|local_rank|is_main_process|all_?reduce|\bddp\b|\brank\b"
)


def _settings(chosen: argparse.Namespace, line: int, items: str) -> dict[str, Any]:
    """Keyword arguments of the inserted timer, without those that are empty."""
    given = {
        "script": chosen.file.name,
        "loop_line": line,
        "method": chosen.method,
        "warmup_steps": chosen.warmup_steps,
        "measure_steps": chosen.measure_steps,
        "stop": chosen.stop,
        "phases": chosen.phases,
        "log_every": chosen.log_every,
        "json_path": chosen.json,
        "items_by": items,
        "flops_per_item": chosen.flops_per_item,
        "peak_tflops": chosen.peak_tflops,
        "gather_timeout_s": chosen.gather_timeout_s,
    }
    return {
        name: value
        for name, value in given.items()
        if value not in ("", False, 0) or name == "warmup_steps"
    }


def _deliver(original: Any, result: Any, *, write: bool, full: bool) -> bool:
    """Write the file, or its diff to stdout; returns whether the diff was shortened."""
    if write:
        if original.path.read_bytes() != original.encode():
            raise UserError(f"{original.path} changed meanwhile; nothing was written")
        _cli.write_whole_bytes(original.path, result.encode(), overwrite=True)
        return False
    name = str(original.path).encode("utf-8", "surrogateescape")
    before, after = _byte_lines(original), _byte_lines(result)
    diff = [
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in difflib.diff_bytes(
            difflib.unified_diff, before, after, b"a/" + name, b"b/" + name
        )
    ]
    shown = diff if full else _shorten(diff)
    whole = b"".join(shown)
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(whole.decode("utf-8", "backslashreplace"))
    else:
        sys.stdout.flush()
        stream.write(whole)
        stream.flush()
    return len(shown) < len(diff)


def _shorten(diff: list[bytes]) -> list[bytes]:
    """The diff with the block as one line: what a reader must judge are the marks in the loop."""
    from perf_timing.inject import block

    begin, end = block.BEGIN.encode(), block.END.encode()
    first = next((n for n, line in enumerate(diff) if line[1:].startswith(begin)), None)
    last = next((n for n, line in enumerate(diff) if line[1:].startswith(end)), None)
    if first is None or last is None or last < first:
        return diff
    words = f"# >>> perf-timing: {last - first + 1} lines of support code, shown by --full-diff"
    line_end = b"\r\n" if diff[first].endswith(b"\r\n") else b"\n"
    return [*diff[:first], diff[first][:1] + words.encode() + line_end, *diff[last + 1 :]]


def _byte_lines(source: Any) -> list[bytes]:
    return [line + b"\n" for line in source.encode().split(b"\n")[:-1]] + (
        [last] if (last := source.encode().split(b"\n")[-1]) else []
    )

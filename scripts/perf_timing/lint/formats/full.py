"""For a reader: each finding with its source line, what to do, and where to read more."""

import unicodedata

from perf_timing.lint.formats import Outcome, place, printable, summary
from perf_timing.lint.runner import Report

_WIDTH = 160  # characters of a source line that are shown around the place
_COLOURS = {"error": "1;31", "warning": "1;33", "info": "1;36", "path": "1", "mark": "1;34"}


def render(outcome: Outcome) -> str:
    """The findings, each with a blank line after it, and the summary."""
    blocks = [_block(report, outcome.colour) for report in outcome.reports]
    return "".join(f"{block}\n\n" for block in blocks) + summary(outcome) + "\n"


def _block(report: Report, colour: bool) -> str:
    f = report.finding
    severity = _paint(f.severity, f.severity, colour)
    where = _paint(place(report), "path", colour)
    margin = len(str(max([f.line, *(r.span.line for r in report.related)])))
    bar = " " * margin + _paint(" |", "mark", colour)
    lines = [
        f"{where}: {severity} {f.code} {f.rule}",
        f"  {printable(f.message)}",
        bar,
        *_source(f.line, f.column, _end(report), report.source, margin, colour),
        bar,
    ]
    for related in report.related:
        span = related.span
        cell = "" if related.cell is None or related.cell == f.cell else f"cell {related.cell}, "
        text = printable(related.source.strip())
        text = text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
        what = f"{printable(span.message)}: " if span.message else ""
        lines.append(f"{' ' * margin} = {cell}line {span.line}: {what}{text}")
    lines.append(f"{' ' * margin} = note: {printable(f.note)}")
    lines.append(f"{' ' * margin} = see: {f.url}")
    return "\n".join(lines)


def _end(report: Report) -> int:
    """Column after the last one to mark on the first line."""
    f = report.finding
    return f.end_column if f.end_line == f.line else len(report.source.rstrip()) + 1


def _source(line: int, column: int, end: int, text: str, margin: int, colour: bool) -> list[str]:
    """The source line, cut to a width that can be read, and the line that marks the place."""
    text = text.rstrip("\r\n")
    start = max(0, column - 1 - _WIDTH // 2) if len(text) > _WIDTH else 0
    stop = min(len(text), start + _WIDTH)
    before = printable(text[start : column - 1])
    marked = text[column - 1 : min(end - 1, stop)]
    shown = (
        ("..." if start else "") + printable(text[start:stop]) + ("..." if stop < len(text) else "")
    )
    blank = "".join(
        "\t" if c == "\t" else " " * _cells(c) for c in ("..." if start else "") + before
    )
    carets = "^" * max(1, sum(_cells(c) for c in printable(marked)))
    gutter = _paint(" |", "mark", colour)
    number = _paint(f"{line:>{margin}}", "mark", colour)
    return [
        f"{number}{gutter} {shown}".rstrip(),
        f"{' ' * margin}{gutter} {blank}{_paint(carets, 'mark', colour)}",
    ]


def _cells(character: str) -> int:
    """How many columns of a terminal `character` takes."""
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _paint(text: str, kind: str, colour: bool) -> str:
    return f"\033[{_COLOURS[kind]}m{text}\033[0m" if colour else text

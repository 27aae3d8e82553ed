"""Sections as terminal text or as Markdown."""

import textwrap
from collections.abc import Sequence

from perf_timing.report.view import Facts, Section, Table

_LEAST_WIDTH = 40


def as_text(sections: Sequence[Section], width: int) -> str:
    """Plain text whose lines fit `width` columns wherever a single word does."""
    width = max(width, _LEAST_WIDTH)
    blocks = [_text(section, width) for section in sections]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _text(section: Section, width: int) -> str:
    return (
        _facts_text(section, width) if isinstance(section, Facts) else _table_text(section, width)
    )


def _wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    # Never at a hyphen: it may be within a path or a flag's code.
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )


def _facts_text(facts: Facts, width: int) -> str:
    lines = _wrapped(facts.title, width)
    names = [name for name, _ in facts.lines]
    column = min(max(map(len, names), default=0), width // 3)
    previous = None
    for name, text in facts.lines:
        shown = "" if name == previous else name
        previous = name
        if len(shown) > column:
            lines += _wrapped(shown, width, "  ", "  ")
            shown = ""
        head = f"  {shown:<{column}}  "
        lines += _wrapped(text, width, head, " " * len(head)) or [head.rstrip()]
    return "\n".join(lines)


def _table_text(table: Table, width: int) -> str:
    columns, rows = list(table.columns), [list(row) for row in table.rows]
    leaving = list(table.droppable)
    while _table_width(columns, rows) > width and leaving:
        name = leaving.pop(0)
        if name in columns:
            index = columns.index(name)
            for line in (columns, *rows):
                del line[index]
    if _table_width(columns, rows) > width and table.instead:
        return "\n\n".join(_facts_text(facts, width) for facts in table.instead)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = [table.title] if table.title else []
    for row in (columns, ["-" * cell for cell in widths], *rows):
        cells = [f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _table_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def as_markdown(sections: Sequence[Section]) -> str:
    """GitHub-flavoured Markdown: a table for each section, with a heading where it has a title."""
    blocks = []
    for section in sections:
        if section.title:
            blocks.append(f"### {_escaped(section.title)}")
        if isinstance(section, Table):
            blocks.append(_markdown_table(section.columns, section.rows))
        elif section.lines:
            blocks.append(_markdown_table(("", ""), section.lines))
    return "\n\n".join(blocks) + "\n"


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(cell if line is lines[1] else _escaped(cell) for cell in line) + " |"
        for line in lines
    )


def _escaped(text: str) -> str:
    for mark in "\\`*_|<>[]#":
        text = text.replace(mark, "\\" + mark)
    return text

"""Jupyter notebooks: their code cells as Python that can be parsed, line for line.

All Python cells of a notebook are one unit, as they run in one interpreter. A cell magic of
another language is left out; `%%writefile bench.py` and `%%cu` cells are units of their own.
`%timeit f(x)` becomes `with _ipython_timeit(): f(x)`, and the body of a `%%timeit` cell the block
of such a `with`; `%time` likewise becomes `_ipython_time`. Other magics and shell lines become
`pass`. The engine knows both names as clocks of the host.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from perf_timing.lint.files.discover import KINDS, suffix_of
from perf_timing.lint.files.prefilter import may_match
from perf_timing.lint.files.source import (
    Document,
    Piece,
    UnreadableError,
    parse_failure,
    plain_lines,
)
from perf_timing.lint.model import Unit

TIMERS = {"timeit": "_ipython_timeit", "time": "_ipython_time"}
# Cell magics whose body is still Python of this notebook.
_PYTHON_MAGICS = frozenset(
    ("capture", "prun", "memit", "mprun", "lprun", "python3", "py", "pypy", "debug")
)
_CUDA_MAGICS = re.compile(r"(cu|cuda\w*|nvcc\w*|cpp|c\+\+)$")
_OPTIONS = re.compile(r"(?:-[nrp]\s*\d+\s+|-[tcqvo]+\s+|--no-raise-error\s+)*")


@dataclass(frozen=True)
class _Cell:
    """One code cell as it is checked. `shown[i]` is what the user wrote for `lines[i]`."""

    index: int
    language: str
    lines: list[str]
    shown: list[str]
    first_line: int = 1  # line of the cell at which `lines` begins


def fill_notebook(document: Document) -> None:
    """Add the units of a notebook to `document`; raises UnreadableError."""
    data = document.data
    if not document.target.named and not any(may_match(data, x) for x in ("python", "cuda")):
        return
    cells = _code_cells(data)
    python: list[_Cell] = []
    for index, source in cells:
        cell = _read_cell(index, plain_lines(source).replace("\r\n", "\n"))
        if cell is None:
            continue
        if cell.language != "python":
            _add_piece(document, [cell])
            continue
        failure = parse_failure("\n".join(cell.lines), notebook=True)
        if failure:
            document.problems.append(f"cell {index}: {failure.reason}")
        elif cell.first_line > 1:
            _add_piece(document, [cell])
        else:
            python.append(cell)
    _add_piece(document, python)


def _code_cells(data: bytes) -> list[tuple[int, str]]:
    """(index among all cells, source) of the code cells of a Python notebook."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableError("not valid UTF-8, so not a notebook") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"not a notebook: {error}") from None
    cells = _all_cells(notebook)
    language = _language(notebook)
    if language not in ("", "python", "ipython", "python3"):
        raise UnreadableError(f"a notebook in {language}, not in Python")
    return [
        (index, source)
        for index, cell in enumerate(cells)
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
        if (source := _source(cell)) is not None
    ]


def _all_cells(notebook: Any) -> list[Any]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None and isinstance(notebook, dict):  # format 3 groups its cells in work sheets
        sheets = notebook.get("worksheets")
        if isinstance(sheets, list):
            parts = [s.get("cells") for s in sheets if isinstance(s, dict)]
            cells = [cell for part in parts if isinstance(part, list) for cell in part]
    if not isinstance(cells, list):
        raise UnreadableError("not a notebook: it has no list of cells")
    return cells


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(part, dict) and isinstance(part.get(name), str):
            return str(part[name]).lower()
    return ""


def _source(cell: dict[str, Any]) -> str | None:
    source = cell.get("source", cell.get("input"))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) and source.strip() else None


def _read_cell(index: int, source: str) -> _Cell | None:
    """The cell as it is checked; None where it holds another language."""
    lines = source.replace("\0", " ").split("\n")
    start = next(i for i, line in enumerate(lines) if line.strip())
    head = re.match(r"%%(\S*)\s*(.*)", lines[start])
    if not head:
        return _Cell(index, "python", _plain_python(lines), lines)
    magic, rest = head[1], head[2]
    body = lines[start + 1 :]
    if magic in TIMERS:
        inner = _plain_python(body)
        first = [""] * start + [f"with {TIMERS[magic]}():"]
        if not body:  # `%%timeit f(x)` alone on its line times that statement
            first[-1] += f" {_OPTIONS.sub('', rest, count=1) or 'pass'}"
        elif not any(_is_code(line) for line in body):
            first[-1] += " pass"
        moved = first + [f" {line}" for line in inner]
        return _Cell(index, "python", moved, lines[: len(moved)])
    if magic in _PYTHON_MAGICS:
        moved = [""] * (start + 1) + _plain_python(body)
        return _Cell(index, "python", moved, lines)
    language = "cuda" if _CUDA_MAGICS.match(magic) else None
    if magic in ("writefile", "file"):
        words = rest.split()
        language = KINDS.get(suffix_of(words[-1])) if words else None
    if language not in ("python", "cuda"):
        return None
    return _Cell(index, language, body, body, start + 2)


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _plain_python(lines: list[str]) -> list[str]:
    """`lines` with magics and shell escapes replaced, or as they are where Python parses them."""
    if not parse_failure("\n".join(lines), notebook=True):
        return lines
    return _without_magics(lines)


def _plain_line(line: str) -> str:
    indent, text = re.match(r"(\s*)(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
    assigned = re.match(r"([\w\s,.\[\]\"']*[\w\]]\s*=\s*)([%!].*)", text, re.DOTALL)
    target, text = assigned.groups() if assigned else ("", text)
    # A line of text that is no Python may name a magic without its percent sign.
    magic = re.match(r"%(\w+)\s*(.*)|(timeit|time)\s+([\w(-].*)", text, re.DOTALL)
    name, rest = (magic[1] or magic[3], magic[2] or magic[4] or "") if magic else ("", "")
    if name in TIMERS:
        statement = _OPTIONS.sub("", rest, count=1).strip() or "pass"
        return f"{indent}with {TIMERS[name]}(): {target}{statement}"
    if text.startswith(("%", "!", "?", ",", ";", "/")) or re.search(
        r"^[\w.*]+\?\??$", text.strip()
    ):
        return f"{indent}{target}None" if target else f"{indent}pass"
    return line


def _without_magics(lines: list[str]) -> list[str]:
    """`lines` with `_plain_line` applied where a statement begins.

    A line inside a string, a bracket or a continued statement is left alone, and the rest of a
    shell command that goes on over several lines goes with it.
    """
    plain = []
    quote, depth, joined, in_shell = "", 0, False, False
    for line in lines:
        continues = line.rstrip().endswith("\\")
        if in_shell:
            plain.append("")
            in_shell = continues
            continue
        if not quote and depth <= 0 and not joined:
            plain.append(_plain_line(line))
            if plain[-1] is not line:  # quotes in a shell command mean nothing to Python
                in_shell = continues
                continue
        else:
            plain.append(line)
        quote, depth = _scan_line(line, quote, max(depth, 0))
        joined = not quote and line.endswith("\\")
    return plain


_TOKEN = re.compile(r"\\.|\"\"\"|'''|\"|'|#|[()\[\]{}]", re.DOTALL)


def _scan_line(line: str, quote: str, depth: int) -> tuple[str, int]:
    """The open triple quote and bracket depth at the end of `line`."""
    for found in _TOKEN.finditer(line):
        token = found[0]
        if quote:
            quote = "" if token == quote else quote
        elif token == "#":
            break
        elif token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        elif token[0] in "\"'":
            quote = token
    return (quote if len(quote) == 3 else ""), depth


def _add_piece(document: Document, cells: list[_Cell]) -> None:
    if not cells:
        return
    text = "\n".join(line for cell in cells for line in cell.lines)
    language = cells[0].language
    if not may_match(text.encode("utf-8", "replace"), language):
        return
    places = tuple(
        (cell.index, cell.first_line + offset)
        for cell in cells
        for offset in range(len(cell.lines))
    )
    shown = [line for cell in cells for line in cell.shown]
    pairs = zip((line for cell in cells for line in cell.lines), shown, strict=True)
    # A statement that was moved still ends where the line ends.
    shifts = {i: len(checked) - len(written) for i, (checked, written) in enumerate(pairs)}
    path = f"{document.target.shown}#{len(document.pieces)}"
    unit = Unit(path, language, text, places)
    where = f"cell {cells[0].index}: " if len(cells) == 1 else ""
    document.pieces.append(Piece(unit, shifts, where=where, shown="\n".join(shown)))

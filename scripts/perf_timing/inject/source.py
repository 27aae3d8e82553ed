"""A Python file as text whose edits can be undone byte for byte."""

import ast
import bisect
import hashlib
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from perf_timing._cli import UserError
from perf_timing.lint.parsing.astgrep import to_ascii

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Source:
    """Text of a Python file and what turns it back into bytes.

    Offsets count code points of `text`. `lines` are as Python counts them, from 1.
    """

    path: Path
    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree whose columns are code points, not bytes; raises UserError."""
        return parse(to_ascii(self.text), self.path)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of each line's first character, and the length of the text as the last entry."""
        starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        return starts if starts[-1] == len(self.text) else [*starts, len(self.text)]

    @cached_property
    def newline(self) -> str:
        """Line end of the first line."""
        match = _LINE_END.search(self.text)
        return match[0] if match else "\n"

    def offset(self, line: int, column: int) -> int:
        return self.line_starts[line - 1] + column

    def line_of(self, offset: int) -> int:
        """Number of the line that holds the character at `offset`, from 1."""
        return bisect.bisect_right(self.line_starts, offset)

    def start(self, node: ast.stmt | ast.expr) -> int:
        """Offset where a statement (with its decorators) or an expression begins."""
        first = min([node, *getattr(node, "decorator_list", [])], key=lambda n: n.lineno)
        if first is not node:  # the decorator's expression stands after the @
            return self.text.rindex("@", 0, self.offset(first.lineno, first.col_offset))
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.stmt | ast.expr) -> int:
        return self.offset(node.end_lineno or 1, node.end_col_offset or 0)

    def code(self, node: ast.stmt | ast.expr) -> str:
        return self.text[self.start(node) : self.end(node)]

    def line_start(self, line: int) -> int:
        """Offset of the line's first character; the end of the text for the line after the last."""
        return self.line_starts[min(line, len(self.line_starts)) - 1]

    def encode(self) -> bytes:
        return self.bom + self.text.encode(self.encoding)

    def with_text(self, text: str) -> "Source":
        return Source(self.path, text, self.encoding, self.bom)

    def digest(self) -> str:
        return hashlib.sha256(self.encode()).hexdigest()


def parse(text: str, path: Path) -> ast.Module:
    """`ast.parse` that raises UserError."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UserError(
            f"{path}: line {error.lineno} is not Python {_version()}: {error.msg};"
            " nothing was changed"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path} cannot be parsed: {error}; nothing was changed") from None


def _version() -> str:
    import sys

    return f"{sys.version_info.major}.{sys.version_info.minor}"


def read(path: Path) -> Source:
    """The Python file at `path`; raises UserError for what cannot be edited safely."""
    if path.suffix == ".ipynb":
        raise UserError(
            f"{path} is a notebook; export it (jupyter nbconvert --to script) or render"
            " code to paste: render-timing loop --minimal"
        )
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from None
    return decode(data, path)


def decode(data: bytes, path: Path) -> Source:
    """Bytes of a Python file in the encoding that it declares; raises UserError."""
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        text = data[len(bom) :].decode(encoding)
        if bom + text.encode(encoding) != data:
            raise UserError(f"{path}: its {encoding} bytes do not survive decoding; not changed")
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UserError(f"{path} is not Python text: {error}; nothing was changed") from None
    if "\0" in text:
        raise UserError(f"{path} holds NUL characters; nothing was changed")
    return Source(path, text, encoding, bom)

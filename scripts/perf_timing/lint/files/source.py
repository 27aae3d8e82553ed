"""Reads a file into units of text that can be checked, or says why it cannot be."""

import codecs
import os
import re
import stat
import symtable
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from perf_timing.lint.files.discover import Target
from perf_timing.lint.files.prefilter import may_match
from perf_timing.lint.model import Unit

MAX_BYTES = 64_000_000
_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST; importing ast costs more than a small file's check
_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT: notebooks may await anywhere

_BOMS = (  # the long ones first: a UTF-32 mark begins like a UTF-16 mark
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# PEP 263: in a comment on one of the first two lines, the first of which is a comment or blank.
_CODING = re.compile(
    rb"^(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)"
)


class UnreadableError(Exception):
    """Why a file cannot be checked."""


@dataclass(frozen=True)
class Text:
    """A file's characters as they stand. `bom + text.encode(encoding)` gives back its bytes."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""


@dataclass(frozen=True)
class ParseFailure:
    """Why Python cannot parse a text, and whether a later Python than the running one might."""

    reason: str
    may_be_newer: bool = False


@dataclass(frozen=True)
class Piece:
    """A unit, and what leads from it back to the file.

    `shifts[i]` is how many columns line i + 1 of the unit was moved to the right. `where` names
    the place of the unit in the file, and `shown` is the text that stands in the file for that of
    the unit, line for line, where they differ.
    """

    unit: Unit
    shifts: Mapping[int, int] = field(default_factory=dict)
    failure: ParseFailure | None = None
    where: str = ""
    shown: str | None = None

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines of the unit as the reader knows them, without their ends."""
        text = self.unit.text if self.shown is None else self.shown
        return text.replace("\r\n", "\n").split("\n")


@dataclass
class Document:
    """A file that was read: its pieces, and the reasons why some of it cannot be checked.

    `passing`: those reasons may be gone the next time, though the file is the same.
    """

    target: Target
    data: bytes = b""
    text: Text = field(default_factory=lambda: Text(""))
    pieces: list[Piece] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    passing: bool = False


def load(target: Target, data: bytes | None = None) -> Document:
    """Read `target` (or take `data` as its bytes) into pieces. Never raises for a file's content.

    A file in which nothing could be reported has no pieces and no problems.
    """
    document = Document(target, passing=True)
    try:
        document.data = read_bytes(target.path) if data is None else data
        document.passing = False
        _fill(document)
    except UnreadableError as reason:
        document.problems.append(str(reason))
    except Exception as error:
        document.pieces.clear()
        document.passing = True
        document.problems.append(internal_error(error))
    return document


def internal_error(error: Exception) -> str:
    """How a mistake of this program is told; the file that showed it is not checked."""
    return f"internal error, please report it: {type(error).__name__}: {error}"


def read_bytes(path: str) -> bytes:
    """The bytes of the regular file at `path`; raises UnreadableError."""
    try:
        # O_NONBLOCK: a named pipe that took the place of the file must not block forever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError("not a regular file")
            if status.st_size > MAX_BYTES:
                raise UnreadableError(f"larger than {MAX_BYTES // 1_000_000} MB")
            return _read_all(descriptor, status.st_size)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise UnreadableError("no such file") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(
            f"cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def _read_all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data  # a short read before the end of the file is the next call's business
    parts = [data]
    while parts[-1]:
        parts.append(os.read(descriptor, 1 << 20))
    return b"".join(parts)


def _fill(document: Document) -> None:
    target, data = document.target, document.data
    code = target.kind in ("python", "cuda")
    # The usual case, first: a file that was only met on the way and holds nothing of interest.
    # A coding line may stand for anything, but all that Python programs use extend ASCII.
    if code and not target.named and b"\0" not in data and not may_match(data, target.kind):
        return
    if target.kind == "notebook":
        from perf_timing.lint.files.notebook import fill_notebook

        fill_notebook(document)
        return
    document.text = decode(data, target.kind)
    text = document.text.text
    if target.kind == "markdown":
        from perf_timing.lint.files.markdown import fill_markdown

        fill_markdown(document)
        return
    wanted = may_match(text.encode("utf-8", "replace"), target.kind)
    whole = plain_lines(text)
    if target.kind == "python":
        part, failure = _parsed_part(whole, wanted, target.named)
    else:
        part, failure = _living_part(whole) if wanted else whole, None
    if wanted or failure:
        unit = Unit(target.shown, target.kind, part, whole="" if part is whole else whole)
        document.pieces.append(Piece(unit, failure=failure, shown=None if part is whole else whole))


def _living_part(whole: str) -> str:
    """A C++ file without what its preprocessor leaves out whatever it is told."""
    from perf_timing.lint.parsing.macros import as_statements
    from perf_timing.lint.parsing.preprocessor import without_dead_branches

    return as_statements(without_dead_branches(whole))


def _parsed_part(whole: str, wanted: bool, named: bool) -> tuple[str, ParseFailure | None]:
    """What of a Python file is checked, and why it cannot be parsed if so.

    The whole of a file that a user named is parsed; of others, only what is checked.
    """
    failure = parse_failure(whole) if named else None
    if failure or not wanted:
        return whole, failure
    from perf_timing.lint.parsing.elide import elide  # loads what most runs need, but not all

    part = elide(whole)
    if part is whole:
        return whole, None if named else parse_failure(whole)
    return (whole, parse_failure(whole)) if parse_failure(part) else (part, None)


def plain_lines(text: str) -> str:
    """`text` with single carriage returns as line ends, which is what Python takes them for."""
    return re.sub(r"\r(?!\n)", "\n", text) if "\r" in text else text


def decode(data: bytes, kind: str) -> Text:
    """The characters of `data`; raises UnreadableError."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return Text(_decoded(data[len(bom) :], encoding), encoding, bom)
    if b"\0" in data:
        raise UnreadableError("holds NUL bytes, so it is not text")
    if kind == "python":
        found = _CODING.match(data)
        encoding = _known_encoding(found[1].decode("ascii", "replace")) if found else "utf-8"
        return Text(_decoded(data, encoding), encoding)
    try:
        return Text(data.decode("utf-8"))
    except UnicodeDecodeError:
        # Compilers take other bytes in comments and strings as they are; Latin-1 maps each to one.
        return Text(data.decode("latin-1"), "latin-1")


def _known_encoding(name: str) -> str:
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        raise UnreadableError(
            f"its coding line names {name!r}, which Python does not know"
        ) from None
    if not getattr(info, "_is_text_encoding", True):
        raise UnreadableError(f"its coding line names {name!r}, which is no encoding of text")
    return info.name


def _decoded(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"not valid {encoding}: byte {data[error.start]:#04x} at offset {error.start}"
        ) from None
    except (UnicodeError, ValueError) as error:
        raise UnreadableError(f"not valid {encoding}: {error}") from None
    if "\0" in text:
        raise UnreadableError("holds NUL characters, so it is not text")
    return text


def parse_failure(text: str, *, notebook: bool = False) -> ParseFailure | None:
    """Why Python cannot parse `text`; None where it can."""
    flags = _TOP_LEVEL_AWAIT if notebook else 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not notebook and _has_symbols(text):
                return None
            try:
                # Compiling takes half the time and memory of a tree of Python objects, but also
                # refuses what parses, such as a return outside of a function.
                compile(text, "<file>", "exec", flags, dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError):
                compile(text, "<file>", "exec", flags | _ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        earlier = _ASYNC.sub("async_", text)
        if earlier != text and parse_failure(earlier, notebook=notebook) is None:
            return None
        place = f" on line {error.lineno}" if error.lineno else ""
        reason = f"Python cannot parse it: {error.msg}{place}"
        return ParseFailure(reason, _may_be_newer(text, error))
    except (RecursionError, MemoryError):
        return ParseFailure("Python cannot parse it: nested too deeply")
    except (ValueError, OverflowError) as error:
        return ParseFailure(f"Python cannot parse it: {error}")
    return None


# An argument of this name, which was one until Python 3.7: x.cuda(async=True).
_ASYNC = re.compile(r"(?<=[(,\s])async(?=\s*=[^=])")


def _has_symbols(text: str) -> bool:
    """Whether Python parses a text and finds its names, which takes less time than to compile."""
    try:
        symtable.symtable(text, "<file>", "exec")
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


# Syntax of Python 3.11 to 3.15 that an older one refuses, by the line on which it gives up.
_NEWER = re.compile(
    r"\s*type\s+\w+.*=|.*\bdef\s+\w+\s*\[|\s*class\s+\w+\s*\[|\s*except\s*\*"
    r"|\s*except\s+[\w.]+\s*,|.*\b(?:[fFtT][rR]?|[rR][fFtT])[\"']|.*\[\s*\*|\s*lazy\s"
)


def _may_be_newer(text: str, error: SyntaxError) -> bool:
    lines = text.split("\n")
    number = (error.lineno or 0) - 1
    line = lines[number] if 0 <= number < len(lines) else ""
    return error.msg.startswith("f-string") or bool(_NEWER.match(line))

"""The values that the linter's parts hand to each other."""

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Unit:
    """One stretch of source that is checked as a whole: a file, or the code of a notebook.

    `text` is what is parsed. `places[i]` says where line i + 1 of `text` stands for the reader:
    the line of the file, or in a notebook (cell index among all cells, line within the cell).
    An empty `places` means that lines stand where they are.
    """

    path: str
    language: str  # "python" or "cuda" (CUDA, HIP and C++)
    text: str
    places: tuple[tuple[int | None, int], ...] = ()
    whole: str = ""  # the file that `text` is a part of, where some of it was blanked

    def place(self, line: int) -> tuple[int | None, int]:
        """(cell or None, line) that the reader sees for 1-based `line` of `text`."""
        return self.places[line - 1] if self.places else (None, line)

    @cached_property
    def code(self) -> str:
        """The text without blank lines: much of it may have been blanked."""
        return without_blank_lines(self.text)


def without_blank_lines(text: str) -> str:
    """`text` without lines of nothing but space."""
    return "\n".join([line for line in text.split("\n") if line and not line.isspace()])


@dataclass(frozen=True)
class Span:
    """A place that explains a finding; lines and columns are 1-based, in code points."""

    line: int
    column: int
    end_line: int
    end_column: int
    message: str = ""


@dataclass(frozen=True)
class Finding:
    """One report. Lines are lines of `Unit.text` until the command maps them to places."""

    rule: str
    code: str
    severity: str  # "error", "warning" or "info"
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    note: str
    related: tuple[Span, ...] = ()
    cell: int | None = None
    url: str = ""
    fixes: tuple["Fix", ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Fix:
    """A replacement of the characters [start, end) of `Unit.text` (offsets in code points)."""

    start: int
    end: int
    replacement: str
    safe: bool = True

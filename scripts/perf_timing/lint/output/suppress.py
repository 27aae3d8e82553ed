"""Suppression comments: `# lint-timing: ignore[rule] reason`, in C++ after `//`.

A comment counts for the statement it stands on (any of its lines), or, alone on its line, for the
statement below. `ignore-file[rule]` counts for the whole file. Rules are named by name or code.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perf_timing.lint.model import Finding, Unit

MARK = "lint-timing:"
_DIRECTIVE = re.compile(r"(?:^|#|//)[\s#/*]*lint-timing:\s*([\w-]*)\s*(?:\[([^\]\n]*)\])?")
_CPP_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|R\"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)\""
    r"|\"(?:\\.|[^\"\\\n])*\"|\d[\w.']*|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_MAX_STATEMENT_LINES = 100


@dataclass(frozen=True)
class Directive:
    """One suppression comment, on `line` of the unit from `column` on (1-based)."""

    line: int
    column: int
    end_column: int
    verb: str
    names: tuple[str, ...] | None
    alone: bool
    used: set[str] = field(default_factory=set, compare=False)


@dataclass(frozen=True)
class Verdict:
    """Findings that stay, how many were silenced, and what is wrong with the directives."""

    kept: list[Finding]
    silenced: int = 0
    complaints: list[tuple[str, Directive, str]] = field(default_factory=list)


def apply(
    unit: Unit, findings: Sequence[Finding], known: Mapping[str, str], judged: frozenset[str]
) -> Verdict:
    """Take out what the comments of `unit` silence.

    `known` maps every rule's name and code to its name. Rules in `judged` that a comment names
    without need are complained about, as (tool rule's name, directive, message).
    """
    directives = list(find_directives(unit))
    if not directives:
        return Verdict(list(findings))
    places = _Places(unit, directives)
    kept = [finding for finding in findings if not places.silences(finding, known)]
    complaints = [c for d in directives for c in _complaints(d, known, judged)]
    silent = {known.get(n) for d in directives if d.verb == "ignore-file" for n in d.names or ()}
    complaints = [c for c in complaints if c[0] not in silent]
    return Verdict(kept, len(findings) - len(kept), complaints)


def find_directives(unit: Unit) -> Iterator[Directive]:
    """The suppression comments of `unit`, in order."""
    if MARK not in unit.text:
        return
    lines = unit.text.split("\n")
    for line, column, comment in _comments(unit):
        found = _DIRECTIVE.search(comment)
        if found is None:
            continue
        names = found[2]
        split = None if names is None else tuple(names.replace(",", " ").split())
        before = lines[line - 1][: column - 1]
        start = column + found.start()
        end = column + max(found.end(), found.start() + 1)
        yield Directive(line, start, end, found[1], split or None, not before.strip())


def _comments(unit: Unit) -> Iterator[tuple[int, int, str]]:
    """(line, column, text) of each line of each comment, with its mark."""
    if unit.language == "python":
        yield from _python_comments(unit.text)
        return
    line, position = 1, 0
    for token in _CPP_TOKEN.finditer(unit.text):
        if token["comment"] is None:
            continue
        line += unit.text.count("\n", position, token.start())
        position = token.start()
        column = token.start() - unit.text.rfind("\n", 0, token.start())
        for offset, text in enumerate(token[0].split("\n")):
            yield line + offset, (1 if offset else column), text


def _python_comments(text: str) -> Iterator[tuple[int, int, str]]:
    import tokenize

    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1] + 1, token.string
    except (tokenize.TokenError, SyntaxError):
        return  # a text that was parsed ends here only after its last token


class _Places:
    """Finds the directives that count for a line of a unit."""

    def __init__(self, unit: Unit, directives: Sequence[Directive]) -> None:
        self._unit = unit
        self._lines = unit.text.split("\n")
        self._statements = _statements(unit)
        self._whole_file = [d for d in directives if d.verb == "ignore-file"]
        self._by_line: dict[int, list[Directive]] = {}
        for directive in directives:
            if directive.verb == "ignore":
                self._by_line.setdefault(directive.line, []).append(directive)

    def silences(self, finding: Finding, known: Mapping[str, str]) -> bool:
        """Whether a directive silences `finding`; marks each that does as used."""
        silenced = False
        for directive in [*self._whole_file, *self._near(finding.line)]:
            for name in directive.names or ():
                if known.get(name) == finding.rule:
                    directive.used.add(name)
                    silenced = True
        return silenced

    def _near(self, line: int) -> Iterator[Directive]:
        if self._unit.language == "cuda":
            first, last = _cpp_statement(self._lines, line)
        else:
            first, last = self._statements.get(line, (line, line))
        for number in range(first, last + 1):
            yield from self._by_line.get(number, ())
        for number in self._comment_lines_above(first):
            yield from (d for d in self._by_line.get(number, ()) if d.alone)

    def _comment_lines_above(self, first: int) -> range:
        """The run of lines directly above line `first` that hold a comment and nothing else."""
        cell = self._unit.place(first)[0]
        marks = ("#",) if self._unit.language == "python" else ("//", "/*", "*")
        top = first
        while (
            top > 1
            and self._lines[top - 2].strip().startswith(marks)
            and self._unit.place(top - 1)[0] == cell
        ):
            top -= 1
        return range(top, first)


def _statements(unit: Unit) -> dict[int, tuple[int, int]]:
    """First and last line of the smallest statement (of a block: its header) on each line."""
    if unit.language != "python":
        return {}
    import ast

    try:
        tree = ast.parse(unit.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    spans: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):  # outer statements come before inner ones
        if not isinstance(node, ast.stmt):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        last = node.end_lineno or node.lineno
        if body:
            start = getattr(body[0], "lineno", None) or body[0].pattern.lineno
            last = max(node.lineno, start - 1)
        for line in range(first, last + 1):
            spans[line] = (first, last)
    return spans


def _cpp_statement(lines: Sequence[str], line: int) -> tuple[int, int]:
    """First and last line of the C++ statement on `line`, judged by where lines end."""

    def ends(number: int) -> bool:
        code = re.sub(r"//.*|/\*.*?\*/", "", lines[number - 1]).strip()
        return not code or code.endswith((";", "{", "}", ":")) or code.startswith("#")

    first = last = line
    while first > 1 and line - first < _MAX_STATEMENT_LINES and not ends(first - 1):
        first -= 1
    while last < len(lines) and last - line < _MAX_STATEMENT_LINES and not ends(last):
        last += 1
    return first, last


def _complaints(
    directive: Directive, known: Mapping[str, str], judged: frozenset[str]
) -> Iterator[tuple[str, Directive, str]]:
    if directive.verb not in ("ignore", "ignore-file"):
        verb = directive.verb or "nothing"
        yield "unknown-suppression", directive, f"`{MARK} {verb}` is not a suppression"
        return
    if directive.names is None:
        yield (
            "blanket-suppression",
            directive,
            f"`{MARK} {directive.verb}` names no rule, so it silences nothing",
        )
    for name in directive.names or ():
        if name not in known:
            yield "unknown-suppression", directive, f"there is no rule `{name}` to suppress"
        elif known[name] in judged and name not in directive.used:
            where = "in this file" if directive.verb == "ignore-file" else "here"
            yield (
                "unused-suppression",
                directive,
                f"`{name}` reports nothing {where}, so the suppression does nothing",
            )

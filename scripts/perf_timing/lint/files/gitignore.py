"""Patterns of `.gitignore`, as git reads them: the last pattern that matches decides."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_GLOB = frozenset("*?[\\")


@dataclass(frozen=True)
class _Pattern:
    order: int
    ignore: bool
    folders_only: bool
    regex: re.Pattern[str] | None = None


class IgnoreFile:
    """The patterns of one file, which count for everything below the folder that holds it.

    Most patterns are plain names or endings; those are looked up, not matched one after another.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._names: dict[str, list[_Pattern]] = {}
        self._endings: dict[str, list[_Pattern]] = {}
        self._others: list[_Pattern] = []
        for order, line in enumerate(lines):
            self._add(order, line)

    def __bool__(self) -> bool:
        return bool(self._names or self._endings or self._others)

    def _add(self, order: int, line: str) -> None:
        text = _without_trailing_spaces(line.rstrip("\r\n"))
        if not text or text.startswith("#"):
            return
        ignore = not text.startswith("!")
        text = text if ignore else text[1:]
        text = text[1:] if text.startswith(("\\#", "\\!")) else text
        folders_only = text.endswith("/")
        body = text.rstrip("/") if folders_only else text
        if not body:
            return
        anywhere = "/" not in body
        if anywhere and not _GLOB.intersection(body):
            found = _Pattern(order, ignore, folders_only)
            self._names.setdefault(body, []).append(found)
        elif anywhere and _is_ending(body):
            found = _Pattern(order, ignore, folders_only)
            self._endings.setdefault(body[2:], []).append(found)
        else:
            regex = _regex(body)
            if regex is not None:
                self._others.append(_Pattern(order, ignore, folders_only, regex))

    def decide(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored; False: taken back by a `!` pattern; None: no pattern matches.

        `path` is relative to the folder of the ignore file and has forward slashes.
        """
        name = path.rpartition("/")[2]
        best: _Pattern | None = None
        candidates = [*self._names.get(name, ())]
        if self._endings:
            parts = name.split(".")
            for start in range(1, len(parts)):
                candidates += self._endings.get(".".join(parts[start:]), ())
        for pattern in candidates:
            if (best is None or pattern.order > best.order) and (
                is_folder or not pattern.folders_only
            ):
                best = pattern
        for pattern in reversed(self._others):
            if best is not None and pattern.order < best.order:
                break
            if pattern.folders_only and not is_folder:
                continue
            if pattern.regex is not None and pattern.regex.fullmatch(path):
                best = pattern
                break
        return None if best is None else best.ignore


def _is_ending(body: str) -> bool:
    return body.startswith("*.") and len(body) > 2 and not _GLOB.intersection(body[2:])


def _without_trailing_spaces(text: str) -> str:
    stripped = text.rstrip(" ")
    if stripped.endswith("\\") and stripped != text:
        return stripped + " "
    return stripped


def _regex(body: str) -> re.Pattern[str] | None:
    """The pattern as a regular expression over the whole relative path; None if malformed."""
    prefix = "" if "/" in body else r"(?:.*/)?"
    text = body.removeprefix("/")
    parts: list[str] = []
    i = 0
    while i < len(text):
        if text.startswith("**/", i) and (i == 0 or text[i - 1] == "/"):
            parts.append(r"(?:[^/]+/)*")
            i += 3
        elif text.startswith("/**", i) and i + 3 == len(text):
            parts.append(r"/.+")
            i += 3
        elif text[i] == "*":
            while i < len(text) and text[i] == "*":
                i += 1
            parts.append("[^/]*")
        elif text[i] == "?":
            parts.append("[^/]")
            i += 1
        elif text[i] == "[":
            piece, i = _bracket(text, i)
            if piece is None:
                return None
            parts.append(piece)
        else:
            if text[i] == "\\" and i + 1 < len(text):
                i += 1
            parts.append(re.escape(text[i]))
            i += 1
    try:
        return re.compile(prefix + "".join(parts), re.DOTALL)
    except re.error:
        return None


def _bracket(text: str, start: int) -> tuple[str | None, int]:
    """The character class that begins at `start`, and where the text goes on."""
    i = start + 1
    negated = i < len(text) and text[i] in "!^"
    i += negated
    first = i
    while i < len(text) and (text[i] != "]" or i == first):
        i += 2 if text[i] == "\\" else 1
    if i >= len(text):
        return None, i
    inner = re.sub(r"([\[&~|])", r"\\\1", text[first:i])
    inner = "\\]" + inner[1:] if inner.startswith("]") else inner
    return f"(?!/)[{'^' if negated else ''}{inner}]", i + 1

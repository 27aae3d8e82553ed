"""Writes launches as the grammar can read them, at the offsets that they have.

A launch with `#if` among its arguments is parsed as something else, and what stands behind it, such
as the wait, is lost with it. Where the directives of one argument list belong together, their lines
become spaces; the arguments of all branches are then read. `<< <` and `>> >`, which some formatters
make of the brackets of a launch, are closed up.
"""

import re

_APART = re.compile(r"(?<=[\w>])(\s*)<<[ \t]*<([^;{}<>]{1,400})>>[ \t]*>(?=\s*\()")
_OPENS = re.compile(r">>>\s*\(")
_MOST_CHARACTERS = 8000  # of one argument list
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|^[ \t]*#(?P<directive>(?:\\\r?\n|[^\n])*)|(?P<bracket>[()])",
    re.DOTALL | re.MULTILINE,
)


def readable_launches(text: str) -> str:
    """`text` with its launches as the grammar reads them; every offset stays what it was."""
    return _without_directives(_APART.sub(_closed_up, text) if "<< <" in text else text)


def _closed_up(found: re.Match[str]) -> str:
    """The brackets of a launch without spaces in them, and spaces where the text was longer."""
    launch = f"{found[1]}<<<{found[2]}"
    return launch + " " * (len(found[0]) - len(launch) - 3) + ">>>"


def _without_directives(text: str) -> str:
    """`text` with the lines of directives among the arguments of its launches blanked."""
    if "<<<" not in text or "#" not in text:
        return text
    spans = [span for found in _OPENS.finditer(text) for span in _directives(text, found.end())]
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position:start], re.sub(r"[^\r\n]", " ", text[start:end])]
        position = end
    return "".join([*pieces, text[position:]]) if spans else text


def _directives(text: str, start: int) -> list[tuple[int, int]]:
    """The spans of the directives up to the bracket that closes a list; none if they are uneven."""
    found: list[tuple[int, int]] = []
    brackets, branches = 1, 0
    for token in _TOKEN.finditer(text, start, start + _MOST_CHARACTERS):
        if token["bracket"]:
            brackets += 1 if token["bracket"] == "(" else -1
            if not brackets:
                return found if not branches else []
        elif token["directive"] is not None:
            word = token["directive"].split()[:1]
            branches += 1 if word and word[0].startswith("if") else -(word == ["endif"])
            if branches < 0:
                return []
            found.append(token.span())
    return []

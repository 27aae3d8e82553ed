"""C++ macros around a call that stand without a semicolon: `CHECK( cudaDeviceSynchronize() )`.

The macro brings its own semicolon, so that no grammar can tell the line from the beginning of a
declaration, and the call in it would go unseen. Here the call is made a statement: the name of the
macro and its parenthesis become spaces, and a semicolon takes the place of the closing one. A bare
name behind a statement (`cudaDeviceSynchronize(); CUERR`) would make a declaration of what is below
it; it moves to the left by one, for a semicolon of its own. Lines and offsets stay as in the file.
"""

import re

# A macro at the beginning of an indented line whose first argument is, or is assigned, a call.
_MACRO = re.compile(
    r"^[ \t]+([A-Z][A-Z0-9_]{2,}[ \t]*\()"
    r"(?=\s*(?:\w[\w.>\[\]-]*\s*=\s*)?[\w:]+\s*(?:<[^<>;()]*>\s*)?\()",
    re.MULTILINE,
)
# A bare name that ends a line behind a semicolon, or that has a line of its own.
_BARE = re.compile(
    r"(?:(?<=;)|(?<=[;{}]\n)(?=[ \t]+[A-Z]))([ \t]*)[ \t]([A-Z][A-Z0-9_]{2,})(?=[ \t]*(?://[^\n]*)?\n)"
)
_BRACKET = re.compile(
    r"[()]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/", re.DOTALL
)
_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_BEFORE = re.compile(r"[;{})]\s*$|^\s*#[^\n]*\n\s*$|(?://[^\n]*|\*/)\s*$", re.MULTILINE)


def as_statements(text: str) -> str:
    """`text`, itself where nothing in it changes."""
    return _bare_statements(_calls_as_statements(text))


def _bare_statements(text: str) -> str:
    """`text` with a semicolon behind each bare macro that no other text could go on from."""
    if not _BARE.search(text):
        return text

    def ended(found: re.Match[str]) -> str:
        after = _SPACE.match(text, found.end())
        following = text[after.end() : after.end() + 1] if after else ""
        whole = re.match(r"[\w}#*]", following) is not None and following != "{"
        return f"{found[1]}{found[2]};" if whole else found[0]

    return _BARE.sub(ended, text)


def _calls_as_statements(text: str) -> str:
    pieces, position = [], 0
    for found in _MACRO.finditer(text):
        if found.start(1) < position:
            continue
        end = _closing(text, found.end(1))
        if end < 0 or not _is_whole(text, found.start(), end):
            continue
        blank = re.sub(r"[^\n]", " ", found[1])
        pieces += [text[position : found.start(1)], blank, text[found.end(1) : end], ";"]
        position = end + 1
    return "".join([*pieces, text[position:]]) if pieces else text


def _closing(text: str, start: int) -> int:
    """Where the parenthesis closes that was opened just before `start`; -1 if nowhere near."""
    depth = 1
    for found in _BRACKET.finditer(text, start, start + 4000):
        if found[0] in "()":
            depth += 1 if found[0] == "(" else -1
            if depth == 0:
                return found.start()
    return -1


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a statement begins at `start`, and another after `end` without anything between."""
    after = _SPACE.match(text, end + 1)
    following = text[after.end() : after.end() + 1] if after else ""
    starts_line = "\n" in text[end + 1 : after.end()] if after else False
    return (
        starts_line
        and bool(re.match(r"[\w}#*]", following))
        and _BEFORE.search(text, max(0, start - 200), start) is not None
    )

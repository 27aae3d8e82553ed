"""Tests of Catch2 and doctest, written as the functions that they are.

To the grammar `TEST_CASE("copies overlap", "[stream]") { ... }` is a call with a block behind it,
in no function: all tests of a file would lie in one scope, and what one calls `start` would be what
the next one means. The header becomes `TEST_CASE(copies_overlap) {`, as a test of GoogleTest is
written: the first string gives the words of the name, all else between the parentheses becomes
space. Lines, columns and offsets stay those of the file.
"""

import re

# At the beginning of a line: TEST_CASE, TEMPLATE_TEST_CASE_METHOD, HIP_TEST_CASE, SCENARIO, ...
_HEADER = re.compile(
    r"^[ \t]*(?:\w+_)?(?:TEST_CASE|SCENARIO)(?:_[A-Z_]+)?\s*\((?=[^;{}\"]*\")", re.MULTILINE
)
_STRING = re.compile(r"\"((?:\\.|[^\"\\\n])*)\"")
_BRACKET = re.compile(r"[()]|\"(?:\\.|[^\"\\\n])*\"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENS = re.compile(r"\s*\{")
_FARTHEST = 2000  # characters of the arguments of one header


def as_functions(text: str) -> str:
    """`text`, itself where nothing in it changes; it has as many characters and lines as before."""
    if "TEST_CASE" not in text and "SCENARIO" not in text:
        return text
    pieces, position = [], 0
    for header in _HEADER.finditer(text):
        end = _closing(text, header.end())
        if end >= 0 and _OPENS.match(text, end + 1):
            pieces += [text[position : header.end()], _named(text[header.end() : end])]
            position = end
    return "".join([*pieces, text[position:]]) if pieces else text


def _closing(text: str, start: int) -> int:
    """Where the parenthesis closes that was opened just before `start`; -1 if nowhere near."""
    depth = 1
    for found in _BRACKET.finditer(text, start, start + _FARTHEST):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    return -1


def _named(arguments: str) -> str:
    """The words of the first string as one name, and space at the place of everything else."""
    blank = re.sub(r"[^\n]", " ", arguments)
    string = _STRING.search(arguments)
    words = re.sub(r"\W", "_", string[1]) if string else ""
    if string is None or not words:
        return blank
    name = "_" + words[1:] if words[0].isdigit() else words
    return blank[: string.start(1)] + name + blank[string.end(1) :]

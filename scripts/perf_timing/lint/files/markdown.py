"""Markdown: each fenced block of Python or CUDA C++ is a unit of its own."""

import re

from perf_timing.lint.files.prefilter import may_match
from perf_timing.lint.files.source import Document, Piece, parse_failure, plain_lines
from perf_timing.lint.model import Unit

LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3", "pycon", "ipython"), "python"),
    **dict.fromkeys(("cuda", "cu", "cpp", "c++", "cc", "hip", "cxx", "cuh"), "cuda"),
}
# Every character of the prefix fits one branch only, so that no line takes long to refuse.
_FENCE = re.compile(r"^((?:[ \t>]|(?:[-*+]|\d{1,9}[.)])(?= ))*)(`{3,}|~{3,})[ \t]*(.*)$")


def fill_markdown(document: Document) -> None:
    """Add the fenced blocks of `document` that may hold something to report."""
    lines = plain_lines(document.text.text).replace("\r\n", "\n").split("\n")
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        number += 1
        if opening is None or (opening[2][0] == "`" and "`" in opening[3]):
            continue
        start = number
        closing = re.compile(rf"[ \t>]*{re.escape(opening[2][0])}{{{len(opening[2])},}}[ \t]*$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        _add_fence(document, lines[start:number], start + 1, _language(opening[3]), opening[1])
        number += 1


def _language(info: str) -> str:
    """Language of a fence whose first line says `info`, such as `python {.line-numbers}`."""
    word = re.match(r"\{?\.?([\w+]+)", info.strip())
    return LANGUAGES.get(word[1].lower(), "") if word else ""


def _add_fence(
    document: Document, lines: list[str], first: int, language: str, prefix: str
) -> None:
    if not language:
        return
    texts, cuts = [], []
    quoted = prefix.count(">")
    for line in lines:
        text = re.sub(r"^[ ]{0,3}>[ ]?", "", line) if quoted else line
        texts.append(text)
        cuts.append(len(line) - len(text))
    indents = [len(text) - len(text.lstrip(" \t")) for text in texts if text.strip()]
    shared = min(indents, default=0)
    texts = [text[shared:] if text.strip() else "" for text in texts]
    cuts = [cut + shared for cut in cuts]
    if language == "python" and any(text.startswith(">>>") for text in texts):
        texts, cuts = _without_prompts(texts, cuts)
    text = "\n".join(texts)
    if not may_match(text.encode("utf-8", "replace"), language):
        return
    places = tuple((None, first + offset) for offset in range(len(texts)))
    unit = Unit(f"{document.target.shown}#{len(document.pieces)}", language, text, places)
    failure = parse_failure(text) if language == "python" else None
    shifts = {i: -cut for i, cut in enumerate(cuts) if cut}
    where = f"block on line {first}: "
    document.pieces.append(Piece(unit, shifts, failure, where, "\n".join(lines)))


def _without_prompts(texts: list[str], cuts: list[int]) -> tuple[list[str], list[int]]:
    """The code of an interpreter session; what it printed becomes blank lines."""
    code, moved = [], []
    for text, cut in zip(texts, cuts, strict=True):
        prompted = re.match(r"(?:>>>|\.\.\.)(?: |$)", text)
        code.append(text[prompted.end() :] if prompted else "")
        moved.append(cut + (prompted.end() if prompted else 0))
    return code, moved

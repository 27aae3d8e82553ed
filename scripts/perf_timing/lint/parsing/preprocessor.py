"""Blanks what the C++ preprocessor leaves out where one measures: `#if 0`, `#ifdef DEBUG`.

That is what it always leaves out (`#if 0`, the `#else` of `#if 1`), and what only a build for
finding faults has: `#ifdef DEBUG`, `#if VERBOSE > 1`, `#ifndef NDEBUG`, unless the file defines the
name itself as something else than 0. Copies, prints and waits there are no part of the figures of
other builds. Of a template of Jinja the remarks go as well: `{# ... #}`.

Every character that goes becomes a space and every line end stays, so that lines, columns and
offsets are those of the file. The directives themselves stay. Conditions that a compiler may be
given another value for are not judged: all their branches are read. `are_alternatives` tells which
of those a build never has together, and `switched_on` what only a build has that takes times.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perf_timing.lint.engine import SourceFile
    from perf_timing.lint.facts import Node

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b([^\n]*)", re.MULTILINE)
_QUICK = re.compile(
    r"#[ \t]*(?:el)?if[ \t(]*(?:0|1|true|false)\b|#[ \t]*(?:el)?if\w*[^\n]*(?:DEBUG|VERBOSE|_HIP\b)"
)
_DEBUG = re.compile(
    r"(!?)\s*(?:defined\b[\s(]*)?(_*(?:N|[A-Z]+_)?(?:DEBUG|VERBOSE))_*\b\)?([^|&]*)$"
)
_FALSE = re.compile(r"\(*\s*(?:0|false)\s*\)*\s*(?:$|&&)")
_TRUE = re.compile(r"\(*\s*(?:1|true)\s*\)*\s*(?:$|\|\|)")
# What is built for no device at all: #if !defined(LIB_ENABLE_CUDA) && !defined(LIB_ENABLE_HIP).
_NO_DEVICE = re.compile(
    r"(?=.*_CUDA\b)(?=.*_HIP\b)!\s*defined\s*\(?\w+\)?(\s*&&\s*!\s*defined\s*\(?\w+\)?)*"
)
_COMMENT = re.compile(r"//.*|/\*.*?(?:\*/|$)")
# What Jinja leaves out of the code that it makes of a template, which has {% ... %} as well.
_REMARK_OF_TEMPLATE = re.compile(r"\{#.*?#\}", re.DOTALL)


def without_dead_branches(text: str) -> str:
    """`text` with the branches blanked that no compiler reads."""
    if "{#" in text and "{%" in text:
        text = _REMARK_OF_TEMPLATE.sub(lambda m: re.sub(r"[^\r\n]", " ", m[0]), text)
    if not _QUICK.search(text):
        return text
    pieces, position = [], 0
    for start, end in _dead(text):
        dead = text[start:end]
        if dead.count("/*") == dead.count("*/"):  # else a comment begins or ends in it
            pieces += [text[position:start], re.sub(r"[^\r\n]", " ", dead)]
            position = end
    return "".join([*pieces, text[position:]])


def _dead(text: str) -> list[tuple[int, int]]:
    """The spans of the dead branches, in order; those inside of another are not told apart."""
    found: list[tuple[int, int]] = []
    # For each open #if: whether a branch before is sure to be taken; where a dead branch began.
    taken: list[bool] = []
    since: list[int | None] = []
    for line in _DIRECTIVE.finditer(text):
        word, condition = line[1], _COMMENT.sub("", line[2]).strip()
        if word.startswith("if"):
            taken.append(False)
            since.append(None)
        elif not taken:
            continue  # it belongs to no #if of this text
        elif since[-1] is not None:
            if not any(start is not None for start in since[:-1]):
                found.append((since[-1], line.start()))
            since[-1] = None
        if word == "endif":
            taken.pop()
            since.pop()
            continue
        value = _value(word, condition, text)
        if taken[-1] or value is False:
            since[-1] = line.end()
        elif value is True:
            taken[-1] = True
    return found


def are_alternatives(text: str, one: int, two: int) -> bool:
    """Whether two offsets lie in branches of one `#if` of which a build has only one."""
    first, second = _branches(text, one), _branches(text, two)
    return any(start in second and second[start] != number for start, number in first.items())


def _branches(text: str, position: int) -> dict[int, int]:
    """Where each `#if` around an offset begins, with the number of its branch that holds it."""
    opened: list[tuple[int, int]] = []
    for line in _DIRECTIVE.finditer(text, 0, position):
        if line[1].startswith("if"):
            opened.append((line.start(), 0))
        elif opened and line[1] == "endif":
            opened.pop()
        elif opened:
            opened[-1] = (opened[-1][0], opened[-1][1] + 1)
    return dict(opened)


def _value(word: str, condition: str, text: str) -> bool | None:
    """What a condition amounts to in a build that is measured; None where that is not known."""
    judged = word in ("if", "elif")
    if judged:
        if _FALSE.match(condition):
            return False
        if _TRUE.match(condition):
            return True
    if word == "if" and _NO_DEVICE.fullmatch(condition):
        return False
    found = _DEBUG.match(condition.lstrip("( "))
    if found is None or re.search(r"\b(TIM|PROF|BENCH|PERF)", condition):
        return None
    given = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{found[2]}\b[ \t]*(\w*)", text, re.MULTILINE)
    if given is not None and (given[1] != "0" or not judged):
        return None
    if re.search(r"==\s*0|<", found[3]):
        return None
    asked = (word == "ifndef") ^ bool(found[1])
    return asked ^ found[2].strip("_").startswith("NDEBUG")


_TIMED_BUILD = re.compile(
    r"^[ \t]*#[ \t]*if(?:def\b|[ \t]+defined\b)?[ \t(]*"
    r"\w*(TIM(E|ER|ING)|DEBUG|PROFIL|VERBOSE|MEASURE)",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|endif|else|elif)[^\n]*", re.MULTILINE)


def switched_on(source: "SourceFile", node: "Node") -> int | None:
    """Where the innermost directive around a node is that switches times on, if it is one."""
    opened: list[re.Match[str]] = []
    for directive in _CONDITIONAL.finditer(source.tree.text, 0, node.start):
        if directive[1] == "if":
            opened.append(directive)
        elif directive[1] == "endif" and opened:
            opened.pop()
    if not opened or not _TIMED_BUILD.match(opened[-1][0]):
        return None
    return opened[-1].start()

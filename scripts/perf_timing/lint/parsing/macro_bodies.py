"""Macros of C++ that measure, written as the functions that they stand for.

`#define RUN(n) auto t0 = now(); ... auto t1 = now(); printf(...)` over several lines is no
code to the grammar. Where the body holds a whole measurement (two readings of a clock, or the time
between two events), or uses such a macro, `#define NAME(a, b)` becomes `void NAME(a, b)` and the
body its block. `do { ... } while (0)` loses its loop, and a parameter that stands as a statement
becomes a call, since what is passed is run there. Lines stay those of the file, and so do offsets,
but for one or two columns of a last line that has no room for the closing bracket.

A macro that launches one of its parameters stays as it is where another place of the file launches
what is passed: which of its uses is then warm, the body does not tell. So does one inside of a
function, where no other function may stand.
"""

import re

_DEFINE = re.compile(
    r"^#define([ \t]+)(\w+)\(([\w\s,.]*)\)(?=[ \t\\])((?:[^\n]*\\[ \t]*\r?\n)+[^\n]*)", re.MULTILINE
)
_READS = re.compile(
    r"\bnow\s*\(|\bgettimeofday\s*\(|\bclock_gettime\s*\(|\bclock\s*\(\s*\)|\b\w*[wW]time\s*\("
    r"|\bget_?[tT]ime\w*\s*\(\s*\)|\b(?:cpu)?[sS]econds?\s*\(\s*\)|EventRecord\s*\("
)
_CONTINUES = re.compile(r"\\(?=[ \t]*\r?$)", re.MULTILINE)
_ONCE = re.compile(r"^(\s*)do(\s*\{.*\}\s*)while\s*\(\s*(?:0|false)\s*\)\s*;?(\s*)$", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\r?\n)*[^\n]*", re.MULTILINE)
_REMARK = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LEAST_READINGS = 2


def as_functions(text: str) -> str:
    """`text`, itself where nothing in it changes; it has as many characters and lines as before."""
    if "#define" not in text or not _READS.search(text):
        return text
    found = [m for m in _DEFINE.finditer(text) if _at_file_level(text, m)]
    measuring = {m[2] for m in found if _measures(m[4])}
    while measuring:
        users = {m[2] for m in found if _calls(m[4], measuring)} - measuring
        if not users:
            break
        measuring |= users
    pieces, position = [], 0
    for macro in found:
        if macro[2] in measuring and not _is_told_apart(text, macro):
            pieces += [text[position : macro.start()], _function(macro)]
            position = macro.end()
    return "".join([*pieces, text[position:]]) if pieces else text


def _measures(body: str) -> bool:
    return len(_READS.findall(body)) >= _LEAST_READINGS


def _calls(body: str, names: set[str]) -> bool:
    return any(name in names for name in re.findall(r"\b(\w+)\s*\(", body))


def _at_file_level(text: str, macro: re.Match[str]) -> bool:
    """Whether the lines around a macro that begin in the first column say that no function is open.

    A function's bracket closes in the first column; what opens last before the macro is closed.
    """
    closed = text.rfind("\n}", 0, macro.start())
    after = text[closed + 1 if closed >= 0 else 0 : macro.start()]
    code = _REMARK.sub(" ", _DIRECTIVE.sub("", after))
    return code.count("{") <= code.count("}") or bool(re.search(r"namespace[\w\s:]*\{\s*$", code))


def _is_told_apart(text: str, macro: re.Match[str]) -> bool:
    """Whether a macro launches a parameter, and the file launches what is passed elsewhere too."""
    names = [name.strip() for name in macro[3].split(",")]
    launched = [n for n in names if n and re.search(rf"\b{n}\s*(?:<[^;<>]*>\s*)?<<<", macro[4])]
    if not launched:
        return False
    outside = _REMARK.sub(" ", text[: macro.start()] + text[macro.end() :])
    uses = re.findall(rf"\b{macro[2]}\s*\(([^;{{}}]*)\)", outside)
    for use in uses:
        given = [part.strip() for part in use.split(",")]
        for name in launched:
            kernel = given[names.index(name)] if names.index(name) < len(given) else ""
            if not kernel or re.search(rf"\b{re.escape(kernel)}\s*(?:<[^;<>]*>\s*)?<<<", outside):
                return True
    return not uses


def _function(macro: re.Match[str]) -> str:
    """A macro as a function of the same length."""
    head = f"void   {macro[1]}{macro[2]}({macro[3]})"
    body = macro[4]
    once = _ONCE.match(_CONTINUES.sub(" ", body))
    if once is not None:
        inner = f"{once[1]}  {once[2]}"
        return _spelled(head + inner + re.sub(r"[^\r\n]", " ", body[len(inner) :]), macro)
    opened = body[1:] if body[0] in " \t\\" else body
    last = opened.rfind("\n")
    before, line = opened[:last], opened[last:]
    if not line.strip():  # the last line is empty: the backslash before it becomes the bracket
        at = before.rfind("\\")
        return _spelled(head + "{" + before[:at] + "}" + before[at + 1 :] + line, macro)
    at = before.rfind("\\")
    cut = 2 if before[at - 1 : at] in (" ", "\t") else 1
    closes = ";}" if cut > 1 else "}"
    return _spelled(head + "{" + before[: at + 1 - cut] + before[at + 1 :] + line + closes, macro)


def _spelled(function: str, macro: re.Match[str]) -> str:
    """What the preprocessor does to a body: lines are joined, names pasted, parameters run."""
    function = _CONTINUES.sub(" ", function).replace("##", "__")
    function = re.sub(r"(?<![#\w])#(?=\s*\w)", " ", function)
    for name in (part.strip() for part in macro[3].split(",")):
        if name.isidentifier():
            function = re.sub(rf"(?<![\w>])\({name}\)([ \t]*);", rf"{name}()\g<1>;", function)
            function = re.sub(
                rf"((?:[;{{}})]|\n)[ \t]*){name}([ \t]*);  ", rf"\g<1>{name}()\g<2>;", function
            )
    return function

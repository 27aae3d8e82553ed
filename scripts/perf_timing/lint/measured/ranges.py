"""Functions whose NVTX ranges are plainly closed: pushed and popped by helpers in one block.

Large code bases mark every layer so. The rule about ranges that are left open finds nothing there,
and the rules about names and messages of NVTX look at its own functions only, not at the helpers
of a project (`nvtx_range_push(...)`). What is plain is told from the text alone.
"""

import re

_PUSH, _POP = "[rR]ange_?[pP]ush|[pP]ush_?[rR]ange", "[rR]ange_?[pP]op|[pP]op_?[rR]ange"
_TOKEN = re.compile(
    rf"(?P<push>{_PUSH})\w*\s*\(|(?P<pop>{_POP})\w*\s*\(|(?P<exit>return|break|continue|raise)\b"
)
_HELPER = re.compile(rf"\w+_(?:{_PUSH}|{_POP})\w*")
_BEGINS = re.compile(r"([ \t]*)\w+_\Z")
# NVTX itself, or a function that may be one of its own.
_DIRECT = re.compile(rf"nvtx(?<!\wnvtx)\b|(?<!\w)(?:{_PUSH}|{_POP})")
_RESULT = re.compile(rf"=\s*[\w.]*(?:{_PUSH})\w*\s*\(")


def is_helper(name: str) -> bool:
    """Whether a name is that of a project's own function that pushes or pops."""
    return _HELPER.fullmatch(name) is not None


def uses_results(text: str) -> bool:
    """Whether something is assigned what a push returns, on which a pop may depend."""
    return _RESULT.search(text) is not None


def plainly_closed(text: str) -> bool:
    """Whether a function only has ranges of helpers, each popped in the block that pushed it.

    No way out lies between the two.
    """
    if _DIRECT.search(text):
        return False
    pushed: list[tuple[int, int]] = []  # end and indentation of each range that is open
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "exit":
            if pushed:
                return False
            continue
        start = text.rfind("\n", 0, token.start()) + 1
        begins = _BEGINS.match(text, start, token.start())
        if begins is None:
            return False
        indent = len(begins[1])
        if token.lastgroup == "push":
            pushed.append((token.end(), indent))
        elif not pushed or not _in_one_block(text, *pushed.pop(), start, indent):
            return False
    return not pushed


def _in_one_block(text: str, start: int, indent: int, end: int, end_indent: int) -> bool:
    """Whether two lines are indented alike, and no line between them less."""
    if indent != end_indent:
        return False
    lines = text[start:end].split("\n")[1:]
    return all(len(line) - len(line.lstrip()) >= indent for line in lines if line.strip())

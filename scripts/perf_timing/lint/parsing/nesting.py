"""How deep C++ is nested, told by brackets and by `else` alone.

ast-grep holds the text of every node with all that lies in it, so that its memory and its output
grow by the square of the depth: 5,000 levels would take gigabytes. Python's own parser lets nobody
nest Python that deep.
"""

import re

DEEPEST = 1000  # levels; some 200 MB

_NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n]){1,8}'", re.DOTALL
)
_BRACKET = re.compile(r"[(){}\[\]]")
_TOKEN = re.compile(r"[(){}\[\];]|\w+|[^\s\w]")


def too_deep(text: str) -> bool:
    """Whether a text of C++ is nested deeper than DEEPEST."""
    if _depth(_BRACKET.findall(text)) + text.count("else") <= DEEPEST:
        return False
    return _depth(_TOKEN.findall(_NO_CODE.sub(" ", text))) > DEEPEST


def _depth(tokens: list[str]) -> int:
    """The most levels that are open at once: brackets, and the branches of a chain of `else`."""
    chains, levels, most, last = [0], 0, 0, ""
    for token in tokens:
        if token in "([{":
            chains.append(0)
            levels += 1
        elif token in ")]}":
            if len(chains) > 1:
                levels -= 1 + chains.pop()
        elif token == "else":
            chains[-1] += 1
            levels += 1
        elif last in ("}", ";"):  # the statement with the branches has ended
            levels -= chains[-1]
            chains[-1] = 0
        most, last = max(most, levels), token
    return most

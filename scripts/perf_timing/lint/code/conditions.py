"""Whether a branch or an error path keeps a place from always running."""

import re
from collections.abc import Callable

from perf_timing.lint.facts import Node


def rare(node: Node, outside: Node, passing: Callable[[Node], bool] = lambda branch: False) -> bool:
    """Whether a condition that does not hold `outside` too keeps `node` from always running.

    Branches of which `passing` is true do not.
    """
    for parent in node.ancestors():
        if parent.start <= outside.start and outside.end <= parent.end:
            return False
        if parent.kind in ("if", "elif", "else") and passing(parent):
            continue
        if parent.kind in ("except", "finally", "case"):
            return True
        if parent.kind in ("if", "elif") and parent.children:
            text = parent.children[0].text
            if re.search(r"cuda|gpu|device|sync", text):
                continue  # it holds wherever there is a device
            if re.search(
                r"%|verbose|debug|\bprofil|==|>=?|<=?|\blast\b|\bfirst\b|is None"
                r"|is not None|\bnot in\b|rank|master"
                r"|main_process|is_log|should|(^|[_.\s])every_",
                text,
            ) or (text.isidentifier() and every_nth(text, parent)):
                return True
            if _at_first(text, outside):
                return True
        if (
            parent.kind == "else"
            and parent.parent is not None
            and parent.parent.kind in ("if", "for")
        ):
            return True
    return False


def _at_first(condition: str, loop: Node) -> bool:
    """Whether a condition denies what the loop sets once and for all: if not pending: ..."""
    denied = re.fullmatch(r"not\s+(\w+)|\(?!\s*(\w+)\)?", condition.strip())
    name = next((n for n in denied.groups() if n), "") if denied else ""
    given = [
        node.children[-1].text
        for node in (loop.walk() if name else ())
        if node.kind == "assign" and len(node.children) > 1 and node.children[0].text == name
    ]
    return bool(given) and not any(_NOTHING.fullmatch(value) for value in given)


_NOTHING = re.compile(r"False|None|false|nullptr|NULL|0|\[\]|\(\)|\{\}|\"\"|''|(list|dict|set)\(\)")


def settled(branch: Node, loop: Node) -> bool:
    """Whether the iterations of a loop all take the same way at a branch of an `if`.

    What is asked for has no part in the loop: its names are given nothing there.
    """
    whole = branch if branch.kind == "if" else branch.parent
    if whole is None or whole.kind != "if":
        return False
    asked = [part.children[0] for part in (whole, *whole.children) if part.kind in ("if", "elif")]
    names = {n.text.partition(".")[0] for c in asked for n in c.walk() if n.kind == "name"}
    if not names or any(n.kind == "call" for c in asked for n in c.walk()):
        return False
    given = (n.children[0] for n in loop.walk() if n.kind in _GIVES and n.children)
    return not any(leaf.text.partition(".")[0] in names for n in given for leaf in n.walk())


_GIVES = ("assign", "augassign", "for", "named", "item")


def every_nth(name: str, branch: Node) -> bool:
    """Whether a condition's name is assigned a remainder before: report = step % 100 == 0."""
    before = branch.tree.text[max(0, branch.start - 4000) : branch.start]
    return re.search(rf"\b{name}\s*=[^=\n]*%", before) is not None


def conditional(node: Node, outside: Node) -> bool:
    """Whether any condition or error path lies around `node` but not around `outside`."""
    for parent in node.ancestors():
        if parent.start <= outside.start and outside.end <= parent.end:
            return False
        if parent.kind in ("if", "elif", "else", "except", "case", "cond"):
            return True
    return False

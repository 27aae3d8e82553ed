"""Functions that choose what they launch by a number that they are given: run(3, data).

`run(1, x)` and `run(2, x)` are then different work: what the first has run does not warm up the
second. Looked at is the function that stands in the measured code, where the file shows it, and
only where the call writes the number out.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import Scope, positional, squeeze
from perf_timing.lint.facts import Node

_NUMBER = re.compile(r"-?\d+[uUlL]*$|[\"'][^\"']*[\"']$")


def chosen(step: Step) -> str | None:
    """Which variant of a helper a step belongs to: "" where there is but one.

    None where the call chooses another variant than the one in which the step lies.
    """
    if not step.helpers or step.site.kind != "call":
        return ""
    helper = step.helpers[0]
    given = _literals(step.site, helper)
    if not given:
        return ""
    found = dict(_decisions(helper, given))
    if len(step.helpers) == 1 and not _reached(step.node, helper, given):
        return None
    return "".join(f" {name}={value}" for name, value in sorted(found.items()))


def _literals(call: Node, helper: Scope) -> dict[str, str]:
    """The numbers and texts that a call writes out, by the parameter that they are given to."""
    arguments = [squeeze(argument.text) for argument in positional(call)]
    pairs = zip(helper.parameters, arguments, strict=False)
    return {name: text.rstrip("uUlL") for name, text in pairs if _NUMBER.match(text)}


def _decisions(helper: Scope, given: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The parameters that choose between branches with a launch or a call, with their values."""
    for node in helper.nodes:
        if node.kind in ("if", "switch", "elif") and node.children:
            compared = _compared(node.children[0])
            if compared and compared[0] in given and _does_something(node):
                yield compared[0], given[compared[0]]


def _does_something(branch: Node) -> bool:
    return any(n.kind in ("launch", "call") for child in branch.children[1:] for n in child.walk())


def _compared(condition: Node) -> tuple[str, str] | None:
    """The name that a condition compares, and with what; ("method", "") of a switch."""
    text = squeeze(condition.text)
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    if text.isidentifier():
        return text, ""
    one, equal, two = text.partition("==")
    if equal and two.isidentifier():
        one, two = two, one
    return (one, two) if equal and one.isidentifier() and _NUMBER.match(two) else None


def _reached(node: Node, helper: Scope, given: dict[str, str]) -> bool:
    """Whether the branches around a node are those that the given values take."""
    child = node
    for parent in node.ancestors():
        if parent is helper.node:
            break
        compared = _compared(parent.children[0]) if _branches(parent, child) else None
        if compared and compared[0] in given and compared[1]:
            taken = len(parent.children) < 2 or child is parent.children[1]
            if taken != (given[compared[0]] == compared[1]):
                return False
        if parent.kind == "case" and not _is_case(parent, given):
            return False
        child = parent
    return True


def _branches(parent: Node, child: Node) -> bool:
    return (
        parent.kind in ("if", "elif") and bool(parent.children) and child is not parent.children[0]
    )


def _is_case(case: Node, given: dict[str, str]) -> bool:
    """Whether a case of a switch over a given value is the one taken; True of all others."""
    switch = next((p for p in case.ancestors() if p.kind == "switch"), None)
    compared = _compared(switch.children[0]) if switch is not None and switch.children else None
    if compared is None or compared[0] not in given or not case.children:
        return True
    label = squeeze(case.children[0].text)
    value = given[compared[0]]
    if case.text.startswith("default"):
        others = case.parent.children if case.parent is not None else []
        return not any(c.kind == "case" and squeeze(c.children[0].text) == value for c in others)
    return label == value or not _NUMBER.match(label) or _falls_into(case)


def _falls_into(case: Node) -> bool:
    """Whether the case before has no break: its value may come here too."""
    around = case.parent.children if case.parent is not None else []
    at = around.index(case) if case in around else 0
    before = around[at - 1] if at else None
    if before is None or before.kind != "case":
        return False
    return not any(n.kind in ("jump", "return") for n in before.walk())

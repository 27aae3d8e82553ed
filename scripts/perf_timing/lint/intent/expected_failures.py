"""Elapsed-time calls that a test wants to fail: no time is read there.

The tests of a runtime ask for the time of events that have none, and assert on the status. In C++
the call stands in an assertion with a status of failure, or its status is compared with one and the
time that it would have written is used nowhere. In Python it stands below pytest.raises() or
assertRaises(), or as a statement by itself in a `try` whose error is caught.
"""

import re

from perf_timing.lint.code.scopes import Scope, base_name, callee_text, positional, target_key
from perf_timing.lint.facts import Node

_ASSERTS = re.compile(r"assert|require|expect|check|verify|ensure|test", re.IGNORECASE)
_UNLESS = re.compile(r"_(NE|FALSE|NOT_EQUAL)$|(NotEqual|Ne|False)$")
# "Not ready" is no failure: who asks again until it is gone reads a time in the end.
_FAILURE = re.compile(
    r"\b(?:cuda|hip|musa|CUDA_|HIP_|MUSA_)_?(?:error|ERROR_?|Error)(?!_?NotReady|NOT_READY)\w+"
)
_SUCCESS = re.compile(r"\b(?:cuda|hip|musa|CUDA_|HIP_|MUSA_)_?(?:Success|SUCCESS)\b")
_RAISES = re.compile(r"\b(?:pytest\.)?raises\s*\(|\.assertRaises\w*\s*\(")


def is_expected(call: Node, scope: Scope) -> bool:
    """Whether the elapsed-time call of a function is there to fail."""
    if call.tree.language != "cuda":
        return _is_caught(call)
    checked = _assertion(call)
    if checked is not None:
        return _asks_for_failure(checked, call.text)
    return _status_is_failure(call, scope) and not _time_is_used(call, scope)


def _is_caught(call: Node) -> bool:
    alone = call.parent is not None and call.parent.kind == "block"
    for parent in call.ancestors():
        if parent.kind == "with" and any(
            child.kind == "item" and _RAISES.search(child.text) for child in parent.children
        ):
            return True
        if parent.kind == "try" and alone and call.parent is parent.child("block"):
            return bool(re.search(r"\bexcept\b", parent.text))
        if parent.kind == "function":
            break
    return False


def _assertion(node: Node) -> Node | None:
    """The outermost call around a node that asserts on it."""
    found = None
    for parent in node.ancestors():
        if parent.kind == "block":
            break
        if parent.kind == "call" and _ASSERTS.search(callee_text(parent)):
            found = parent
    return found


def _asks_for_failure(assertion: Node, call: str) -> bool:
    """EXPECT_EQ(call, cudaErrorX), REQUIRE(call == hipErrorX), EXPECT_NE(cudaSuccess, call), ..."""
    rest = assertion.text.replace(call, "", 1)
    unlike = bool(_UNLESS.search(callee_text(assertion))) != ("!=" in rest)
    if unlike:
        return bool(_SUCCESS.search(rest))
    return bool(_FAILURE.search(rest)) and not _SUCCESS.search(rest)


def _status_is_failure(call: Node, scope: Scope) -> bool:
    """Whether the next that happens to the status of a call is that it is compared with a failure.

    status = cudaEventElapsedTime(&ms, a, b); if (status == cudaErrorInvalidResourceHandle) ...
    """
    parent = call.parent
    if parent is None or parent.kind != "assign" or parent.children[-1] is not call:
        return False
    name = target_key(parent.children[0])
    use = next((n for n in scope.names.get(name, ()) if n.start > call.end), None)
    if use is None:
        return False
    asserted = _assertion(use)
    if asserted is not None:
        return _asks_for_failure(asserted, name)
    compared = use.parent
    return (
        compared is not None
        and compared.kind == "binary"
        and "==" in compared.text
        and bool(_FAILURE.search(compared.text))
    )


def _time_is_used(call: Node, scope: Scope) -> bool:
    """Whether anything reads the time that a call writes before the next one does."""
    given = positional(call)
    name = base_name(given[0].text.lstrip("&* ")) if given else ""
    use = next((n for n in scope.names.get(name, ()) if n.start > call.end), None)
    if use is None:
        return False
    outer = next((p for p in use.ancestors() if p.kind == "call"), None)
    again = outer is not None and callee_text(outer) == callee_text(call)
    return not again or positional(outer or call)[0].start > use.start

"""What is called a warm-up in C++ code and warms up nothing but the context.

A kernel that neither reads nor writes memory makes the context, as cudaFree(0) does; what is
measured behind it is still loaded, and its libraries set up, when it first runs.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, squeeze
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node

_FREES_NOTHING = re.compile(r"(cuda|hip)Free\((0|NULL|nullptr)\)")
_INTRINSIC = re.compile(r"__\w+|printf")


@lru_cache(maxsize=8)
def spans(source: SourceFile) -> tuple[tuple[int, int], ...]:
    """From where to where such a warm-up stands in a file, with the remark above it."""
    if source.language != "cuda":
        return ()
    return tuple(_with_remark(source, node) for node in _idle_calls(source))


def _idle_calls(source: SourceFile) -> Iterator[Node]:
    for scope in source.scopes.all:
        for node in scope.nodes:
            if node.kind in ("call", "launch") and (
                _FREES_NOTHING.fullmatch(squeeze(node.text)) or _runs_nothing(source, node, scope)
            ):
                yield node


def _runs_nothing(source: SourceFile, call: Node, scope: Scope) -> bool:
    """Whether a call is the launch of an idle kernel, or of a function that has no other work."""
    function = source.scopes.called_function(call, scope)
    if function is None:
        return False
    if call.kind == "launch":
        return _is_idle(function)
    calls = [n for n in function.nodes if n.kind in ("call", "launch")]
    launches = [n for n in calls if n.kind == "launch"]
    kernels = [source.scopes.called_function(n, function) for n in launches]
    waits = all(
        re.search(r"Synchronize$|Error\w*$", last_segment(callee_text(n)))
        for n in calls
        if n.kind == "call"
    )
    return bool(kernels) and waits and all(k is not None and _is_idle(k) for k in kernels)


def _is_idle(kernel: Scope) -> bool:
    """Whether a kernel leaves memory as it is: it sets nothing but its own variables."""
    if not kernel.is_kernel:
        return False
    for node in kernel.nodes:
        if node.kind in ("assign", "augassign") and re.search(r"[\[*]|->", node.children[0].text):
            return False
        if node.kind == "call" and not _INTRINSIC.fullmatch(callee_text(node)):
            return False
    return True


def _with_remark(source: SourceFile, call: Node) -> tuple[int, int]:
    """Where the statement of a call stands, from the remarks right above it to its line's end."""
    text = source.tree.text
    statement = source.statement(call)
    start = source.first_remark(text.rfind("\n", 0, statement.start) + 1)
    end = text.find("\n", statement.end)
    return start, end if end >= 0 else len(text)

"""Functions that are compiled when they are first called: torch.compile(model), @cuda.jit."""

import re
from functools import lru_cache

from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import call_args, callee_text, positional, squeeze
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node

_LAZY = re.compile(
    r"(^|[._])(torch\.compile|cuda\.jit|numba\.jit|njit|numba\.cuda\.jit|jax\.jit"
    r"|(Raw|Elementwise|Reduction)Kernel)$"
)
# What the method compile() of a torch module may be given; that of Keras is given an optimizer.
_IN_PLACE = frozenset(["backend", "mode", "fullgraph", "dynamic", "options", "disable"])


@lru_cache(maxsize=2)
def lazy_names(source: SourceFile) -> dict[str, Node]:
    """Names of functions that compile when they are first called, and where they are made."""
    found: dict[str, Node] = {}
    for call in source.scopes.calls:
        parent = call.parent
        if parent is None:
            continue
        if parent.kind in ("block", "module") and (module := _compiled_in_place(source, call)):
            found[module] = call
        if parent.kind != "assign" or parent.children[0].kind != "name":
            continue
        if _LAZY.search(source.scopes.resolve(callee_text(call))):
            found[squeeze(parent.children[0].text)] = call
    for scope in source.scopes.all:
        for decorator in scope.decorators:
            name = squeeze(decorator.text).lstrip("@").partition("(")[0]
            if _LAZY.search(source.scopes.resolve(name)):
                found[scope.name] = decorator
    return found


def _compiled_in_place(source: SourceFile, call: Node) -> str:
    """The module that a statement compiles by its own method, model.compile(), or ""."""
    receiver, _, method = callee_text(call).rpartition(".")
    if method != "compile" or not receiver or "torch" not in source.scopes.imports:
        return ""
    if receiver in source.scopes.imports or positional(call):
        return ""
    args = call_args(call)
    given = args.children if args is not None else []
    named = {squeeze(child.text).partition("=")[0] for child in given if child.kind == "keyword"}
    return receiver if named <= _IN_PLACE else ""


def used(step: Step, lazy: dict[str, Node]) -> str | None:
    """The name in `lazy` of the function that a step calls, or hands on, if there is one."""
    for node in (step.node, step.site):
        if node.kind == "call":
            names = [
                re.sub(r"\[.*", "", callee_text(node)),
                *(squeeze(a.text) for a in positional(node)),
            ]
            for name in names:
                if name in lazy:
                    return name
    return next((h.name for h in step.helpers if h.name in lazy), None)

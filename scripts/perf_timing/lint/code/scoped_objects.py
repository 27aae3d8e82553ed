"""Objects of C++ that a block holds: they are made where they are declared and end with the block.

`ScopedTimer t("gemm");` reads a clock there, and again in its destructor; a macro may declare it:
`#define TIME_SCOPE(name) ScopedTimer timer_(name)`. Pointers to objects are left alone: who ends
them is not known.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import Scope, Scopes, callee_text, last_segment
from perf_timing.lint.facts import Node

_DECLARED = re.compile(r"(?:(?:const|volatile)\s+)*([\w:]+)(?:<[^<>;]*>)?\s+\w+\s*(?=[;({=])")
_AUTO = re.compile(r"(?:const\s+)?auto\s+\w+\s*=\s*([\w:]+)(?:<[^<>;]*>)?\s*[({]")


def of_class(scopes: Scopes, name: str) -> Iterator[tuple[Node, Node, Scope]]:
    """(declaration, its block, scope) of each object of a class of the file that a block holds."""
    for scope in scopes.all:
        if scope.is_kernel or scope.node.kind == "module":
            continue
        for node in scope.nodes:
            block = node.parent
            if block is None or block.kind != "block":
                continue
            if name in (declared_class(scopes, node), _class_of_macro(scopes, node)):
                yield node, block, scope


def declared_class(scopes: Scopes, node: Node) -> str:
    """The class of this file of which a declaration makes an object, or ""."""
    if node.kind != "decl":
        return ""
    head = node.text[:200]
    found = _AUTO.match(head) or _DECLARED.match(head)
    name = last_segment(found[1]) if found else ""
    return name if name in scopes.class_names else ""


def _class_of_macro(scopes: Scopes, node: Node) -> str:
    """The class of this file of which a macro, used as a statement, declares an object, or ""."""
    body = scopes.macros.get(callee_text(node), "") if node.kind == "call" else ""
    found = re.search(r"\b([A-Za-z_]\w*)(?:<[^<>;]*>)?\s+\w[\w#]*\s*(?:[({;]|\Z)", body.rstrip())
    return found[1] if found and found[1] in scopes.class_names else ""


def is_destructor(scope: Scope) -> bool:
    """Whether a function is what ends an object of its class."""
    return scope.short_name.startswith("~")

"""A call as the questions about it see it, and how the first answer is found."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from perf_timing.lint.code.scopes import Scope, Scopes, callee_text, last_segment
from perf_timing.lint.facts import Node


class Call(NamedTuple):
    """A call with the names of what it calls."""

    node: Node
    callee: str  # as it is written: t.cuda.synchronize
    full: str  # with what was imported: torch.cuda.synchronize
    short: str  # the last part: synchronize
    scope: Scope


# What a call does, as far as one question goes. None says that the question is about other calls;
# a set, be it an empty one, is the answer, and the rest of a list of questions is not asked.
Question = Callable[[Call], "set[str] | None"]


_OF_OBJECT = re.compile(r"\.|->")


def python_call(node: Node, scope: Scope, scopes: Scopes) -> Call:
    """A call of Python."""
    callee = callee_text(node)
    full = scopes.resolve(callee)
    return Call(node, callee, full, last_segment(full) if "." in full else full, scope)


def cpp_call(node: Node, scope: Scope, scopes: Scopes) -> Call:
    """A call of C++."""
    callee = callee_text(node)
    return Call(node, callee, scopes.resolve(callee), last_segment(callee), scope)


def first_answer(questions: Sequence[Question], call: Call) -> set[str]:
    """What the first question that is about such a call says; nothing if there is none."""
    for question in questions:
        found = question(call)
        if found is not None:
            return found
    return set()


def is_cpp_method(callee: str) -> bool:
    """Whether a method of an object is called: x.run or p->run."""
    return _OF_OBJECT.search(callee) is not None


def keywords(node: Node) -> list[Node]:
    """The keyword arguments of a call."""
    return [k for c in node.children if c.kind == "args" for k in c.children if k.kind == "keyword"]

"""Functions of C++ that the file does not show, by the device memory that they are given."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import base_name, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.cpp_memory import CppMemory
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import BLOCKING, LIKELY, WORK

# An object that takes times.
_A_TIMER = re.compile(r"(timer|stop_?watch)$", re.IGNORECASE)
_QUEUES_NOT_JUDGED = re.compile(r"cl[A-Z]|(ibv|rdma|ucp|uct|fi)_")
_NO_LAUNCH = re.compile(
    r"^P?MPI_|_cast$|check|print|free|alloc|init|copy|compare|verify|create|destroy|setup"
    r"|descr|handle|buffer_?size|^(dim3|min|max|sizeof|make_\w+)$",
    re.IGNORECASE,
)
# A member that its name says is on the host, whatever the object is called: gpu_run.h_samples
_OF_HOST = re.compile(r"(\.|->)(h|host|cpu)_\w+(\.\w+\(\))?$")
_USES = frozenset({"assign", "binary", "compare", "return", "condition"})


def keeps_house(call: Call) -> set[str] | None:
    """What looks after something, by its verb."""
    return set() if words.CPP_HOUSEKEEPING.match(call.short) else None


class CppUnseen:
    """Functions of other files."""

    def __init__(self, file: FileContext, memory: CppMemory) -> None:
        self._scopes = file.scopes
        self._text = file.text
        self._memory = memory

    def launches(self, call: Call) -> set[str] | None:
        """A function of another file that gets device memory: it launches something."""
        node, callee = call.node, call.callee
        if _is_no_launcher(callee):
            return None
        given = [arg.text for arg in positional(node)]
        if any(_A_TIMER.search(base_name(text)) for text in given):
            return None  # it takes the time by itself, with its waits
        given = [text for text in given if not _OF_HOST.search(text)]
        names = {base_name(text) for text in given if not words.CPP_ABOUT.search(text)}
        if not self._memory.is_on_device(names, node) and not self.launches_by_name(callee):
            return None
        return {BLOCKING} if _is_used(node) else {WORK, LIKELY}

    def launches_by_name(self, callee: str) -> bool:
        """Whether a function that the file does not show is one that launches, by its name."""
        return (
            callee not in self._scopes.functions
            and bool(re.search(r"^launch|_(forward|backward|launch|launcher)$", callee))
            and bool(re.search(r"\bcuda[A-Z]\w+\s*\(|\bhip[A-Z]\w+\s*\(", self._text))
        )


def _is_no_launcher(callee: str) -> bool:
    """Whether a function is a method or in a namespace, of a library, or said to do no work."""
    return (
        "::" in callee
        or "." in callee
        or "->" in callee
        or _QUEUES_NOT_JUDGED.match(callee) is not None
        or words.CPP_LIBRARY.match(callee) is not None  # what is not work is told by its name
        or _NO_LAUNCH.search(callee) is not None
    )


def _is_used(node: Node) -> bool:
    """Whether a call's value is used: a value that comes back has been computed."""
    return node.parent is not None and node.parent.kind in _USES

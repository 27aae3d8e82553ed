"""Methods of C++ that queue work, or wait for it, by the stream or executor that they are given."""

import re
from functools import cached_property

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import base_name, positional
from perf_timing.lint.roles.calls import Call, is_cpp_method
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import WAIT, WORK

_EMPTY_TASK = re.compile(r"->\*\s*\[[^\]]*\][^{;]*\{\s*\}")  # it gives the device nothing


class CppQueues:
    """Streams, executors of MatX and contexts of CUDASTF."""

    def __init__(self, file: FileContext) -> None:
        self._text = file.text

    def submits(self, call: Call) -> set[str] | None:
        """A method that queues work."""
        return {WORK} if self._is_submitted(call) else None

    def finishes(self, call: Call) -> set[str] | None:
        """A method that waits for all that its object has queued."""
        if call.short == "finalize" and "->*" in self._text and is_cpp_method(call.callee):
            return {WAIT}  # a context of CUDASTF, whose tasks it waits for
        if call.short == "get_time_ms" and base_name(call.callee) in self._queues:
            return {WAIT}  # an executor of MatX, which waits for its own events
        return None

    def _is_submitted(self, call: Call) -> bool:
        """Whether a method queues work by what it is given: run(stream), (c = a + b).run().

        Or by what follows it, as a task of CUDASTF: ctx.launch(...)->*[=] __device__ ...
        """
        node, callee, short = call.node, call.callee, call.short
        if not is_cpp_method(callee):
            return False
        if words.CPP_TASK.match(short):
            body = self._text[node.end : node.end + 400].lstrip()
            return body.startswith("->*") and not _EMPTY_TASK.match(body)
        if not words.CPP_SUBMITS.match(short):
            return False
        if re.match(r"\([^=]*[^=<>!]=[^=].*\)\.run$", callee, re.DOTALL) and not positional(node):
            return "matx" in self._text
        return any(base_name(a.text.lstrip("&*")) in self._queues for a in positional(node))

    @cached_property
    def _queues(self) -> frozenset[str]:
        """Variables that are declared as streams, or as executors on the device."""
        return frozenset(words.CPP_QUEUE.findall(self._text))

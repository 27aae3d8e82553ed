"""Device work in a region that the file itself does not show: calls of functions of other files.

Where other files on disk show that a C++ function launches, that is known. Otherwise a call is
taken for work only where nothing else can be what is measured.
"""

import re
from collections.abc import Callable

from perf_timing.lint import roles as r
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Flow, Step
from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.region import Region

_MOST_CHECKED = 2  # arguments of a macro or function that checks what a call returns
# How many functions of the file a call is followed through that computes somewhere else.
_DEEPEST_CALL = 2
# What makes an object, by its name; Sparse_prefill(q, k, v) is a function.
_CLASS = re.compile(r"[A-Z](?![a-z0-9]+_[a-z])\w*")


class ImpliedWork:
    """The steps that a region has beside those that the file shows."""

    def __init__(self, flow: Flow, launches: Callable[[Node], str]) -> None:
        """`launches` tells how a function of another file leaves the device (elsewhere_cpp.py)."""
        self.flow = flow
        self.launches = launches
        self.scopes = flow.scopes
        self.roles = flow.roles

    def completed(self, region: Region, steps: list[Step]) -> list[Step]:
        """The steps of a region, of which the file shows `steps`, with those that are implied."""
        if any(s.roles & {r.OPAQUE, r.HARNESS} or _computes(s) for s in steps):
            return steps
        found = self._elsewhere(region)
        if not found and not any(s.works or s.roles & {r.BLOCKING, r.COPY} for s in steps):
            found = self._implied(region, steps)
        return sorted([*steps, *found], key=lambda s: s.position)

    def _elsewhere(self, region: Region) -> list[Step]:
        """Calls of C++ functions that launch, by what other files on disk show of them.

        Looked at where the file itself shows nothing that computes, only copies at most.
        """
        if self.scopes.language != "cuda" or region.kind == "benchmark":
            return []
        if any(region.holds(n) for n in region.scope.names.get("argv", [])):
            return []  # the run time of a program
        found = []
        for call in region.scope.nodes:
            if call.kind == "call" and region.holds(call) and _is_statement(call):
                left = self.launches(call) if not self.roles.of(call, region.scope) else ""
                if left:
                    role = r.WORK if left == "works" else r.BLOCKING
                    found.append(Step(call, call, frozenset({role, r.LIKELY}), call.end))
        return found

    def _implied(self, region: Region, steps: list[Step]) -> list[Step]:
        """Calls of other files where nothing else can be what is measured.

        Two events enclose work of the device or nothing, and nobody waits for the device right
        before the closing reading who has not given it work.
        """
        last = next((s for s in reversed(steps) if r.CLOCK not in s.roles), None)
        waits = region.kind == "clock" and last is not None and r.WAIT in last.roles
        python = self.scopes.language == "python"
        if not (region.kind == "event" or waits) or (region.watch and (python or not waits)):
            return []
        may_compute = self._may_compute if python else self._may_launch
        calls = [
            call
            for call in region.scope.nodes
            if call.kind == "call"
            and region.holds(call)
            and _stands_alone(call)
            and not self.roles.of(call, region.scope)
            and not self.flow.host_only(call, region.scope)
        ]
        found = [
            call
            for call in calls
            if may_compute(call, region.scope) and (python or not waits or _precedes(call, last))
        ]
        if not found and python and waits and len(calls) == 1:
            found = [
                call
                for call in calls
                if _precedes(call, last) and self._is_unseen_method(call, region.scope)
            ]
        return [Step(call, call, frozenset({r.WORK, r.LIKELY}), call.end) for call in found]

    def _is_unseen_method(self, call: Node, scope: Scope) -> bool:
        """Whether a method of an object of another file is given something: masker.get_mask(q, k).

        By its name it only asks or sets something; but nobody waits for the device after that.
        """
        callee = callee_text(call)
        receiver = callee.rpartition(".")[0]
        return (
            bool(re.fullmatch(r"[\w.]+", receiver))
            and len(positional(call)) > 1
            and receiver.partition(".")[0] not in {*self.scopes.imports, "self", "cls"}
            and self.scopes.called_function(call, scope) is None
            and last_segment(callee) not in words.HOST_METHODS
            and not words.HOST_VERB.search(callee)
        )

    def _may_launch(self, call: Node, scope: Scope) -> bool:
        """Whether a call of C++ may launch: it is of another file, no macro and no check."""
        callee = re.sub(r"<.*", "", callee_text(call), flags=re.DOTALL)
        short = last_segment(callee)
        if self.scopes.called_function(call, scope) is not None or not positional(call):
            return False
        if "std::" in callee or re.match(r"[A-Z][A-Z0-9_]*$|[A-Z]\w*_[A-Z]\w*$", short):
            return False
        if words.CPP_VENDOR.match(short) or words.CPP_LIBRARY.match(short):
            return False
        given = positional(call)
        if len(given) <= _MOST_CHECKED and any(argument.kind == "call" for argument in given):
            return False  # a check around another call
        parent = call.parent
        if parent is not None and parent.kind == "assign":
            target = last_segment(squeeze(parent.children[0].text))
            if not re.search(r"stat|err|res|ret|rc$|ok$", target, re.IGNORECASE):
                return False
        return not words.CPP_OTHER.search(short) or self._is_queued(call, short)

    def _is_queued(self, call: Node, short: str) -> bool:
        """Whether a call is given a stream beside its data: table.insert(n, keys, stream)."""
        streams = set(words.CPP_QUEUE.findall(self.scopes.tree.text))
        given = [squeeze(argument.text) for argument in positional(call)]
        return (
            len(given) > _MOST_CHECKED
            and bool(streams & set(given))
            and words.CPP_ON_DATA.match(short) is not None
        )

    def _may_compute(self, call: Node, scope: Scope, depth: int = 0) -> bool:
        """Whether nothing is known of a call, and its name is not that of housekeeping."""
        callee = callee_text(call)
        short = last_segment(callee)
        known = self.scopes.called_function(call, scope)
        if known is not None:
            inner = (n for n in known.nodes if n.kind == "call" and depth < _DEEPEST_CALL)
            return any(self._may_compute(n, known, depth + 1) for n in inner)
        if callee in words.HOST_CALLS or self.scopes.resolve(callee).startswith(
            ("torch.", "numpy.")
        ):
            return False
        if self.scopes.resolve(callee).partition(".")[0] in words.HOST_MODULES:
            return False
        if "." in callee and (short in words.HOST_METHODS or words.HOUSEKEEPING.match(short)):
            return False
        return not (words.NOT_MODEL.search(callee) or _CLASS.fullmatch(short))


def _precedes(call: Node, wait: Step | None) -> bool:
    return wait is not None and call.end <= wait.site.start


def _stands_alone(call: Node) -> bool:
    """Whether a call is a statement, or what a statement assigns: no part of an expression."""
    parent = call.parent
    if parent is not None and parent.kind == "await":
        parent = parent.parent
    if parent is None:
        return False
    if call.tree.language == "cuda" and parent.kind in ("for", "while", "if", "else"):
        return parent.children[-1] is call and parent.kind != "while"  # a body without braces
    return parent.kind == "block" or (parent.kind == "assign" and parent.children[-1] is call)


def _is_statement(call: Node) -> bool:
    """Whether a call is a statement by itself, or within the check of its status."""
    outer = call.parent.parent if call.parent is not None and call.parent.kind == "args" else None
    checked = outer is not None and len(positional(outer)) <= _MOST_CHECKED
    return _stands_alone(call) or (checked and outer is not None and _stands_alone(outer))


def _computes(step: Step) -> bool:
    """Whether a step is work of the device other than a copy."""
    return bool(step.works or r.BLOCKING in step.roles) and r.COPY not in step.roles

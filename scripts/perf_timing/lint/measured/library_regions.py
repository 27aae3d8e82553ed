"""What libraries and harnesses time: timeit, IPython, Google Benchmark, helpers like do_bench."""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    callee_text,
    is_dropped,
    keyword,
    last_segment,
    loop_body,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.region import Region
from perf_timing.lint.roles import Roles

# What helpers call the function that they time.
_TIMED_AS = ("fn", "func", "function", "f", "kernel", "stmt")
_HARNESS_LIKE = re.compile(r"bench|autorange|profile|measure|time|repeat|report|cupti")


def regions(scopes: Scopes) -> Iterator[Region]:
    """What a file gives timeit, IPython or Google Benchmark to time."""
    for scope in scopes.all:
        for node in scope.nodes:
            if node.kind == "with":
                yield from _ipython(node, scope)
            elif node.kind == "call" and scopes.language == "python":
                yield from _timeit(node, scope, scopes)
            elif node.kind in ("for", "while") and scopes.language == "cuda":
                yield from _google(node, scope)


def _ipython(node: Node, scope: Scope) -> Iterator[Region]:
    item, body = node.child("item"), node.child("block")
    if item is None or body is None or not re.match(r"_ipython_time(it)?\(", item.text):
        return
    kind = "timeit" if item.text.startswith("_ipython_timeit") else "clock"
    yield Region(kind, scope, item, item, item, item, ((body.start - 1, body.end),))


def _timeit(node: Node, scope: Scope, scopes: Scopes) -> Iterator[Region]:
    full = scopes.resolve(callee_text(node))
    statement: Node | None = None
    if full in ("timeit.timeit", "timeit.repeat"):
        given = positional(node)
        statement = given[0] if given else None
    elif full.endswith((".timeit", ".repeat", ".autorange")) and "timeit.Timer" in scopes.tree.text:
        maker = node.children[0]
        inner = maker.children[0] if maker.kind == "attribute" and maker.children else None
        if inner is None and maker.kind == "name":
            inner = scopes.definition(node, squeeze(maker.text).rpartition(".")[0], scope)
        if (
            inner is not None
            and inner.kind == "call"
            and scopes.resolve(callee_text(inner)) == "timeit.Timer"
        ):
            given = positional(inner)
            statement = given[0] if given else None
    function = scopes.callable_value(statement, scope) if statement is not None else None
    # A notebook shows what its cells end with; a warm-up is nobody's figure.
    dropped = is_dropped(node) and (scope.parent is not None or "warm" in node.text.lower())
    if function is not None and not dropped:
        body = function.node
        yield Region("timeit", function, node, node, node, node, ((body.start - 1, body.end),))


def _google(node: Node, scope: Scope) -> Iterator[Region]:
    body = loop_body(node)
    header = node.tree.text[node.start : body.start] if body else ""
    if body is None or not words.is_google_loop(header, node.tree.text):
        return
    if re.search(r"SetIterationTime|UseManualTime", node.tree.text):
        return
    yield Region("benchmark", scope, node, node, node, node, ((body.start - 1, body.end),))


def harnessed(scopes: Scopes, roles: Roles) -> Iterator[Region]:
    """Functions of the file that it hands to a benchmark helper, which times each call."""
    for scope in scopes.all:
        for node in scope.nodes:
            if (
                node.kind == "call"
                and _HARNESS_LIKE.search(callee_text(node))
                and _is_harness(node, scope, roles)
            ):
                for function in _timed_functions(node, scope, scopes):
                    span = ((function.node.start - 1, function.node.end),)
                    yield Region("harness", function, node, node, node, node, span)


def _timed_functions(call: Node, scope: Scope, scopes: Scopes) -> list[Scope]:
    """The functions of the file that a helper may be given to time."""
    given = [*positional(call)[:3], *filter(None, (keyword(call, n) for n in _TIMED_AS))]
    found = [f for value in given for f in scopes.callable_values(value, scope)]
    found += [f for value in given for f in _other_choices(value, scope, scopes)]
    found = list({id(function): function for function in found}.values())
    return [function for function in found if not _yields(function)]


def _other_choices(value: Node, scope: Scope, scopes: Scopes) -> Iterator[Scope]:
    """The functions that the other branches of an `if` give a name: fn = lambda: ours(x)."""
    if value.kind != "name":
        return
    given = [v for _, v in scopes.assignments(value.text, scope) if v.end <= value.start]
    for other in given[:-1]:
        function = scopes.by_node.get(id(other))
        if function is not None and exclusive(other, given[-1]):
            yield function


def _is_harness(node: Node, scope: Scope, roles: Roles) -> bool:
    if r.HARNESS in roles.of(node, scope):
        return True
    short = last_segment(callee_text(node))
    return bool(
        re.match(r"(bench(mark)?|profile|measure|time|timed)(_\w+)?$", short)
    ) and short not in ("time_ns", "time")


def _yields(function: Scope) -> bool:
    """Whether a function runs on the device, or yields what is to be measured."""
    return function.is_kernel or any(node.kind == "yield" for node in function.nodes)

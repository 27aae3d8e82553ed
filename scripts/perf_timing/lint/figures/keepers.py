"""Samples that outlive the function which takes them, and where their mean is told.

A time is added to an attribute of a class, to a dictionary of the function around, or is handed to
a method that adds it up; a meter (`update(t)` ... `avg`) is such a class. Another function then
tells the total over the count.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    last_segment,
    loops_around,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, reductions, series
from perf_timing.lint.figures.series import NEUTRAL
from perf_timing.lint.figures.totals import is_mean_call, told_of_total
from perf_timing.lint.measured.regions import Region

_METER = re.compile(r"(Average|Avg|Mean)\w*Meter$|^(AverageValue|RunningAverage|MeanMetric)$")
_ADDS = ("update", "add", "add_", "append", "push")
_MEAN = ("avg", "average", "mean", "global_avg", "get_average", "compute", "get_avg")
_PLAIN = frozenset({*_ADDS, *_MEAN, "reset", "sum", "count", "total", "n", "__init__"})


def told_elsewhere(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means of the samples of a region that another function tells: (name of the total, mean)."""
    value = fates.fate(source, region)
    told = any(reductions.ROBUST.search(a) or reductions.SPREAD.search(a) for a in value.reduced)
    if value.printed or value.returned or value.lists or told:
        return
    scope = source.scopes.scope_of(region.delta)
    if not value.passed:
        for total in sorted(value.names | value.sums):
            if _is_added_to(total, scope) and _outlives(source, total, scope):
                yield from _quotients(source, total, scope)
    elif len(value.passed) == 1:
        yield from _handed_on(source, region, value.passed[0])


def under_key(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means of samples that a function keeps in a dictionary of its caller's: logs["time"]."""
    scope = source.scopes.scope_of(region.delta)
    for listed in sorted(fates.fate(source, region).lists):
        name = series.named(listed)
        parameters = {p for around in scope.enclosing() for p in around.parameters}
        if name.key in ("", "*") or name.base not in parameters:
            continue
        places = list(_under(source, name.key))
        done = set().union(*(reductions.applied(place) for place in places)) if places else set()
        if done - NEUTRAL - {"raw"} or _WRITES.search(source.unit.text):
            continue
        for place in places:
            mean = next((p for p in place.ancestors() if is_mean_call(p)), None)
            if mean is not None:
                yield listed, mean


# A file that writes whole dictionaries may well write the samples.
_WRITES = re.compile(
    r"\b(json\.dump|yaml\.(safe_)?dump|pickle\.dump|to_csv|DataFrame|savez|torch\.save)"
)


def _under(source: SourceFile, key: str) -> Iterator[Node]:
    """Where the file reads what is kept under a literal key."""
    for node in source.tree.of_kind("subscript"):
        if not re.search(rf"\[[\"']{re.escape(key)}[\"']\]$", squeeze(node.text)):
            continue
        bound = node.parent is not None and node.parent.kind == "assign"
        if bound and node.parent is not None and node.parent.children[0] is node:
            continue
        outer = source.statement(node)
        if not source.tree.text[: outer.start].endswith("del "):
            yield node


def in_a_record(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means of sums that are handed on in one tensor: statistics = FloatTensor([seconds, n])."""
    scope = source.scopes.scope_of(region.delta)
    for total in sorted(fates.fate(source, region).sums):
        for use in source.uses(total, scope):
            record = use.parent
            if record is None or record.kind != "list" or use not in record.children:
                continue
            made = next((p for p in record.ancestors() if p.kind == "assign"), None)
            if made is None or made.children[0].kind != "name":
                continue
            place = f"[{record.children.index(use)}]"
            yield from _of_record(source, target_key(made.children[0]), place, scope)


def _of_record(
    source: SourceFile, record: str, place: str, scope: Scope
) -> Iterator[tuple[str, Node]]:
    """The mean that a function tells of one of the sums in a tensor that it is given."""
    for call in (n for n in scope.nodes if n.kind == "call"):
        function = source.scopes.called_function(call, scope)
        given = [squeeze(a.text) for a in positional(call)]
        if function is None or record not in given:
            continue
        known = [p for p in function.parameters if p not in ("self", "cls")]
        at = given.index(record)
        read = re.escape(known[at] + place) if at < len(known) else r"(?!)"
        for node in function.nodes:
            taken = node.kind == "assign" and re.fullmatch(
                read + r"(\.item\(\))?", squeeze(node.children[-1].text)
            )
            if taken and node.children[0].kind == "name":
                yield from _quotients(source, target_key(node.children[0]), function)


def _is_added_to(name: str, scope: Scope) -> bool:
    return any(
        node.kind in ("augassign", "assign")
        and operator(node)[:2] == "+="
        and target_key(node.children[0]) == name
        for node in scope.nodes
    )


def _outlives(source: SourceFile, name: str, scope: Scope) -> bool:
    """Whether a sum goes on when the function has ended, and the function runs again and again."""
    base = base_name(name)
    if base.startswith("self."):
        return True
    function = next((s for s in scope.enclosing() if s.node.kind == "function"), None)
    if function is None:
        return False
    return not reductions.binds(function, base) and any(
        reductions.binds(around, base) for around in function.enclosing() if around is not function
    )


def _sharers(source: SourceFile, name: str, scope: Scope) -> list[Scope]:
    """The functions that know a sum: those of the class, or those around."""
    if not name.startswith("self."):
        return list(scope.enclosing())
    owner = next((s.class_name for s in scope.enclosing() if s.class_name), "")
    methods = source.scopes.classes.get(owner, [])
    return [*scope.enclosing(), *(m for m in methods if m not in scope.enclosing())]


def _quotients(source: SourceFile, total: str, scope: Scope) -> Iterator[tuple[str, Node]]:
    sharers = _sharers(source, total, scope)
    if any(_tells_spread(around, total) for around in sharers):
        return
    for around in sharers:
        mean = told_of_total(source, loops_around(scope.node), 0, total, around)
        if mean is not None:
            yield total, mean
            return


def _tells_spread(scope: Scope, total: str) -> bool:
    """Whether a sum of squares, or the root of one, stands beside the sum."""
    stem = re.escape(last_segment(series.named(total).key or total))
    return bool(re.search(rf"sqrt\([^;\n]*{stem}|{stem}_?(sq|squared|2)\b", scope.node.text))


def _handed_on(source: SourceFile, region: Region, call: Node) -> Iterator[tuple[str, Node]]:
    """The mean that the receiver of each sample tells: self.show(elapsed), meter.update(t)."""
    scope = source.scopes.scope_of(call)
    callee = callee_text(call)
    receiver, short = callee.rpartition(".")[0], last_segment(callee)
    function = source.scopes.called_function(call, scope)
    own = receiver in ("self", "cls")
    if function is not None and own and positional(call):
        given = [squeeze(a.text) for a in positional(call)]
        kept = fates.fate(source, region).names
        at = next((i for i, text in enumerate(given) if text in kept), 0)
        parameters = [p for p in function.parameters if p not in ("self", "cls")]
        if at < len(parameters):
            for total in _sums_of(function, parameters[at]):
                yield from _quotients(source, total, function)
    elif receiver and short in _ADDS and _is_meter(source, receiver, function, scope, call):
        yield from _of_meter(source, region, receiver, scope)


def _sums_of(function: Scope, parameter: str) -> Iterator[str]:
    """What a function adds a parameter to, where it does nothing else with it."""
    body = function.body
    uses = [u for u in function.names.get(parameter, []) if body and u.start >= body.start]
    for use in uses:
        parent = use.parent
        if (
            len(uses) == 1
            and parent is not None
            and parent.kind == "augassign"
            and parent.children[-1] is use
            and operator(parent)[:1] == "+"
        ):
            yield target_key(parent.children[0])


def _is_meter(
    source: SourceFile, receiver: str, function: Scope | None, scope: Scope, at: Node
) -> bool:
    """Whether an object keeps no more of the samples than their sum and number."""
    if function is not None and function.class_name:
        methods = source.scopes.classes.get(function.class_name, [])
        text = "\n".join(m.node.text for m in methods)
        keeps = re.search(r"append|deque|\bmax\(|\bmin\(|sqrt|\*\* ?2|\[[^\]]+\] ?=", text)
        return keeps is None and re.search(r"/=? ?(\w+\.)*\w*(count|cnt|n|num)\b", text) is not None
    for around in scope.enclosing():
        for _, value in source.scopes.assignments(receiver, around):
            made = last_segment(callee_text(value)) if value.kind == "call" else ""
            return bool(_METER.search(made))
    return False


def _of_meter(
    source: SourceFile, region: Region, receiver: str, scope: Scope
) -> Iterator[tuple[str, Node]]:
    """Where the mean of a meter is read behind the loop, and nothing but the mean is."""
    found: list[Node] = []
    sharers = _sharers(source, receiver, scope) if receiver.startswith("self.") else [scope]
    for around in sharers:
        for node in around.nodes:
            if node.kind != "name" or not _speaks_of(node.text, receiver):
                continue
            if node.text == receiver:
                if node.parent is not None and node.parent.kind == "assign":
                    continue
                return  # printed or handed on as a whole
            what = node.text[len(receiver) + 1 :].partition(".")[0]
            if what not in _PLAIN:
                return
            if what in _MEAN:
                found.append(node)
    inner = region.sample_loops[0] if region.sample_loops else None
    for node in found:
        if inner is None or not inner.start <= node.start < inner.end:
            yield receiver, node
            return


def _speaks_of(text: str, receiver: str) -> bool:
    return text == receiver or text.startswith(receiver + ".")

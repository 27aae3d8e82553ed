"""The elapsed time of an event is read that was never really recorded.

## What it does
Reports elapsed-time calls for events that the file creates but never records, and for events that
are recorded only while a graph is being captured.

## Why it misleads
The time of an event that was never recorded is an error. A record inside a capture becomes a node
of the graph; the event itself holds no time, unless it was made for that (external events).

## Known problems
Events that are handed to other code may be recorded there; they are not reported.

## Example
```python
import torch

start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
work()
end.record()
end.synchronize()
print(start.elapsed_time(end))
```
```cuda
int main() {
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  scale<<<256, 256>>>(x);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
}
```

## Use instead
```python
import torch

start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
times = []
for _ in range(5):
    work(x)
for _ in range(30):
    start.record()
    work(x)
    end.record()
    end.synchronize()
    times.append(start.elapsed_time(end))
print(sorted(times)[15], min(times), max(times))
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import Scope, call_args, callee_text, last_segment, positional
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.files import evidence
from perf_timing.lint.measured.regions import Pair

CODE = "TIM404"
LABEL = "EVENT-NORECORD"
DEFAULT = True
SEVERITY = "error"
TRIGGER = evidence.reads_events
LANGUAGES = ("python", "cuda")
MESSAGE = "no record of the event {event} reaches this elapsed-time call; there is no time to read"
CAPTURED = (
    "the events read here are recorded on line {line} while a graph is captured; they hold no time"
)
NOTE = (
    "Record both events on the stream of the work, outside the capture; render-timing"
    " cuda-graph and simple-event do so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each read of an event that was not recorded."""
    for pair in source.regions.pairs:
        captured = _captured(source, pair)
        if captured is not None:
            yield Report(pair.call, CAPTURED.format(line=captured.line))
            continue
        for event, names, record in zip(
            pair.events, (pair.start_names, pair.end_names), (pair.start, pair.end), strict=False
        ):
            if (
                record is None
                and _created_here(source, names, pair.scope)
                and not _recorded(source, names, pair)
                and not _handed_on(source, names, pair)
            ):
                yield Report(pair.call, MESSAGE.format(event=" ".join(event.text.split())[:60]))
                break


def _recorded(source: SourceFile, names: frozenset[str], pair: Pair) -> bool:
    return any(
        known & names and _same_variable(source, call, pair)
        for call, _, known in source.regions.records
    ) or _recorded_by_name(source, names, pair.scope)


def _recorded_by_name(source: SourceFile, names: frozenset[str], scope: Scope) -> bool:
    """Whether the outermost function around, closures in it, records the variable or a member."""
    if source.language == "cuda":
        return False
    while scope.parent is not None and scope.parent.parent is not None:
        scope = scope.parent
    bases = {re.escape(name.partition("#")[0].partition("[")[0]) for name in names}
    record = rf"(?<![\w.])(?:{'|'.join(sorted(bases))})(?:\[[^\]\n]*\])?\.record\("
    return re.search(record, scope.node.text) is not None


def _captured(source: SourceFile, pair: Pair) -> Node | None:
    """The record of one of the events, if all its records lie in a capture."""
    for names in (pair.start_names, pair.end_names):
        records = [call for call, _, known in source.regions.records if known & names]
        if records and all(_in_capture(source, call) for call in records):
            return records[0]
    return None


def _in_capture(source: SourceFile, call: Node) -> bool:
    if "external" in source.tree.text and re.search(
        r"external\s*=\s*True|EventRecordExternal", source.tree.text
    ):
        return False
    for parent in call.ancestors():
        if parent.kind == "with":
            heads = " ".join(c.text for c in parent.children if c.kind == "item")
            if re.search(r"cuda\.graph\(|(^|\s)graph\(|xpu\.graph\(", heads):
                return True
    scope = source.scopes.scope_of(call)
    begin = [
        n.end
        for n in scope.nodes
        if n.kind == "call"
        and re.search(r"BeginCapture$|capture_begin$", callee_text(n))
        and n.end < call.start
    ]
    end = [
        n.start
        for n in scope.nodes
        if n.kind == "call"
        and re.search(r"EndCapture$|capture_end$", callee_text(n))
        and n.start > call.end
    ]
    between = [
        n
        for n in scope.nodes
        if n.kind == "call"
        and re.search(r"EndCapture$|capture_end$", callee_text(n))
        and begin
        and begin[-1] < n.start < call.start
    ]
    return bool(begin and end and not between)


def _created_here(source: SourceFile, names: frozenset[str], scope: Scope) -> bool:
    """Whether the function that reads the time also makes the event, in plain variables.

    In Python a list of events whose members a loop takes one by one is such a variable, too.
    """
    if any("[" in n or "." in n for n in names):
        return False
    if source.language == "cuda":
        return len(names) == 1 and any(
            n.kind == "call" and re.search(r"EventCreate(WithFlags)?$", callee_text(n))
            and positional(n) and re.fullmatch(rf"&\s*{re.escape(min(names))}", positional_text(n))
            for n in scope.nodes
        )  # fmt: skip
    bases = {n.partition("#")[0] for n in names}
    pairs = [pair for name in bases for pair in source.scopes.assignments(name, scope)]
    if len(bases) > 1 and not all(_bound_once(source, n, scope) for n in bases):
        return False
    return bool(pairs) and all(_makes_event(source, value, scope) for _, value in pairs)


def _bound_once(source: SourceFile, name: str, scope: Scope) -> bool:
    """Whether `name` is either assigned once or the target of loops, and not both."""
    assigned = len(source.scopes.assignments(name, scope))
    looped = any(
        leaf.text == name
        for node in scope.nodes
        if node.kind in ("for", "comp_for") and node.children
        for leaf in node.children[0].walk()
    )
    return assigned + looped == 1


def _makes_event(source: SourceFile, value: Node, scope: Scope, depth: int = 0) -> bool:
    """Event(...), a call of a function of the file that returns one, or a list of them."""
    if depth > 4:
        return False
    if value.kind in ("comp", "tuple", "list") and value.children:
        parts = value.children[:1] if value.kind == "comp" else value.children
        return all(_makes_event(source, part, scope, depth + 1) for part in parts)
    if value.kind != "call":
        return False
    function = source.scopes.called_function(value, scope)
    if function is not None:
        returned = [n.children[0] for n in function.nodes if n.kind == "return" and n.children]
        return bool(returned) and all(
            _makes_event(source, node, function, depth + 1) for node in returned
        )
    return last_segment(callee_text(value)) == "Event"


def positional_text(call: Node) -> str:
    """The text of the first argument with its operator."""
    args = call_args(call)
    return args.text.strip("()").partition(",")[0].strip() if args else ""


def _handed_on(source: SourceFile, names: frozenset[str], pair: Pair) -> bool:
    """Whether the event is an argument of some call, or aliased, so that others may record it."""
    bases = {name.partition("#")[0] for name in names}
    reads = {id(known.call) for known in source.regions.pairs}
    for node in source.tree.of_kind("name"):
        parent = node.parent
        if parent is not None and parent.kind == "subscript" and parent.children[0] is node:
            outer = parent.parent
            if outer is None or node.text not in bases:
                continue
            handed = outer.kind in ("args", "keyword") and not _only_reads(
                _call_around(parent), reads
            )
            if handed or (outer.kind == "assign" and outer.children[-1] is parent):
                return True
            continue
        if node.text not in bases or parent is None or not _same_variable(source, node, pair):
            continue
        if parent.kind == "keyword" and parent.children[0] is node and len(parent.children) > 1:
            continue  # print(..., end="") names a parameter
        if parent.kind in ("args", "list", "tuple", "return", "keyword", "pair", "dict", "yield"):
            if not (_only_reads(parent.parent, reads) or _is_target(parent)):
                return True
        elif parent.kind == "assign" and parent.children[-1] is node:
            return True
    return False


def _call_around(node: Node) -> Node | None:
    return next((p for p in node.ancestors() if p.kind == "call"), None)


def _same_variable(source: SourceFile, node: Node, pair: Pair) -> bool:
    """Whether a name may mean the event: outside of the function that made it, it does not."""
    if not pair.scope.name or source.language == "cuda":
        return True
    return pair.scope in source.scopes.scope_of(node).enclosing()


def _only_reads(call: Node | None, reads: set[int]) -> bool:
    if call is None or call.kind != "call":
        return False
    return id(call) in reads or bool(
        re.search(
            r"Event(Create|Destroy|Elapsed|Synchronize|Query)|elapsed_time|synchronize"
            r"|^(zip|enumerate|len|reversed|(itertools\.)?pairwise)$",
            callee_text(call),
        )
    )


def _is_target(listed: Node) -> bool:
    """Whether a tuple is what is assigned to, by a statement or by a loop."""
    owner = listed.parent
    return (
        listed.kind == "tuple"
        and owner is not None
        and owner.kind in ("assign", "for", "comp_for")
        and owner.children[0] is listed
    )

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

from perf_timing.lint import vocabulary as words
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.regions import Pair
from perf_timing.lint.scopes import Scope, call_args, callee_text, last_segment, positional

CODE = "TIM404"
LABEL = "EVENT-NORECORD"
DEFAULT = True
SEVERITY = "error"
TRIGGER = words.EVENTS
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
        events = source.regions.elapsed_events(pair.call) or ()
        for event, names, record in zip(
            events, (pair.start_names, pair.end_names), (pair.start, pair.end), strict=False
        ):
            if (
                record is None
                and not any(known & names for _, _, known in source.regions.records)
                and _created_here(source, names, pair.scope)
                and not _handed_on(source, names, pair)
            ):
                yield Report(pair.call, MESSAGE.format(event=" ".join(event.text.split())[:60]))
                break


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
    """Whether the function that reads the time also makes the event, in plain variables."""
    if any("#" in n or "[" in n or "." in n for n in names) or len(names) != 1:
        return False
    (name,) = names
    if source.language == "cuda":
        return any(
            n.kind == "call" and re.search(r"EventCreate(WithFlags)?$", callee_text(n))
            and positional(n) and re.fullmatch(rf"&\s*{re.escape(name)}", positional_text(n))
            for n in scope.nodes
        )  # fmt: skip
    pairs = source.scopes.assignments(name, scope)
    return bool(pairs) and all(_makes_event(value) for _, value in pairs)


def _makes_event(value: Node) -> bool:
    """Event(...), or a generator of them that is taken apart."""
    if value.kind == "comp" and value.children:
        value = value.children[0]
    return value.kind == "call" and last_segment(callee_text(value)) == "Event"


def positional_text(call: Node) -> str:
    """The text of the first argument with its operator."""
    args = call_args(call)
    return args.text.strip("()").partition(",")[0].strip() if args else ""


def _handed_on(source: SourceFile, names: frozenset[str], pair: Pair) -> bool:
    """Whether the event is an argument of some call, or aliased, so that others may record it."""
    (name,) = names
    for node in source.tree.of_kind("name"):
        if node.text == name and node.parent is not None:
            parent = node.parent
            if parent.kind in (
                "args",
                "list",
                "tuple",
                "return",
                "keyword",
                "pair",
                "dict",
                "yield",
            ):
                call = parent.parent
                callee = callee_text(call) if call is not None and call.kind == "call" else ""
                if call is pair.call or re.search(
                    r"Event(Create|Destroy|Elapsed|Synchronize|Query)|elapsed_time|synchronize",
                    callee,
                ):
                    continue
                if (
                    parent.kind == "tuple"
                    and parent.parent is not None
                    and parent.parent.kind == "assign"
                    and parent.parent.children[0] is parent
                ):
                    continue
                return True
            if parent.kind == "assign" and parent.children[-1] is node:
                return True
    return False

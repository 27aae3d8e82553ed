"""The time between two events is read before the end event is known to be complete.

## What it does
Reports a call that reads the time between two events where nothing waits between the record of the
end event and the call.

## Why it misleads
Recording an event only queues it. Where the device has not reached it yet, the call fails with "not
ready"; where the time is accumulated by a library that hides the error, it is 0 or left over.

## Known problems
Any wait after the record counts, also one for another stream. A wait that the callers of two
separate methods are expected to do is not seen in other files.

## Example
```python
import torch

start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
start.record()
model(x)
end.record()
print(start.elapsed_time(end))
```
```cuda
float window(cudaEvent_t start, cudaEvent_t stop, float *x) {
  float ms = 0;
  cudaEventRecord(start);
  scale<<<256, 256>>>(x);
  cudaEventRecord(stop);
  cudaEventElapsedTime(&ms, start, stop);
  return ms;
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

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, loops_around
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.files import evidence
from perf_timing.lint.measured.regions import Pair

CODE = "TIM401"
LABEL = "EVENT-NOSYNC"
DEFAULT = True
SEVERITY = "error"
TRIGGER = evidence.reads_events
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "the end event recorded on line {record} may not be complete when {call}() reads it;"
    " nothing waits in between"
)
NOTE = (
    "Wait for the end event (or the device) before the time is read: end.synchronize();"
    " render-timing simple-event and detailed-event do so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each elapsed-time call that no wait precedes."""
    seen: set[int] = set()
    for pair in source.regions.pairs:
        if pair.end is None or not _is_event(source, pair):
            continue
        if id(pair.end) not in seen and not (_waited(source, pair, pair.end) or _filtered(pair)):
            seen.add(id(pair.end))  # a second read of the same event repeats the finding
            call = last_segment(callee_text(pair.call))
            message = MESSAGE.format(record=pair.end.line, call=call)
            yield Report(pair.call, message, related=((pair.end, "end event recorded here"),))


def _is_event(source: SourceFile, pair: Pair) -> bool:
    return pair.start is not None or source.evidence


def _waited(source: SourceFile, pair: Pair, record: object) -> bool:
    assert pair.end is not None
    scope = source.scopes.scope_of(pair.end)
    if scope is pair.scope:
        low, high = pair.end.end, pair.call.start
        if low > high:
            # Read at the top of the next iteration, or in code that runs later: not decided here.
            return True
        if _exclusive(source, pair):
            return True
        return any(
            _covers(source, pair, s) for s in source.flow.between(scope, low, high)
        ) or _polled(source, pair, low, high)
    if pair.scope in _enclosed(scope):
        return True
    return _waited_elsewhere(source, pair, scope)


def _filtered(pair: Pair) -> bool:
    """Whether a comprehension reads complete events only: [a.elapsed_time(b) ... if b.query()]."""
    return any(
        parent.kind == "comp" and re.search(r"\bif\b[^\[]*\.query\(\s*\)", parent.text)
        for parent in pair.call.ancestors()
    )


def _enclosed(scope: Scope) -> list[Scope]:
    found = []
    todo = list(scope.children)
    while todo:
        child = todo.pop()
        found.append(child)
        todo += child.children
    return found


def _exclusive(source: SourceFile, pair: Pair) -> bool:
    """Whether record and read lie in different branches of one if."""
    assert pair.end is not None
    branches = {id(p): p for p in pair.end.ancestors() if p.kind in ("elif", "else", "case")}
    own = {id(p) for p in pair.call.ancestors()}
    return any(
        key not in own and p.parent is not None and id(p.parent) in own
        for key, p in branches.items()
    )


def _covers(source: SourceFile, pair: Pair, step: Step) -> bool:
    """Whether a step waits for the end event, too: a wait for the start event does not."""
    if not step.waits or step.node.kind != "call":
        return step.waits
    if not re.search(r"(^|\.|->)synchronize$|EventSynchronize$", callee_text(step.node)):
        return True
    awaited = source.regions.recorded_event(step.node)
    if awaited is None:
        return True
    names = source.regions.event_names(awaited, source.scopes.scope_of(step.node))
    return not names & pair.start_names or bool(names & pair.end_names)


def _polled(source: SourceFile, pair: Pair, low: int, high: int) -> bool:
    """Whether the end event, or any event in a loop, is asked whether it is complete."""
    for call in source.scopes.calls:
        if not low <= call.start < high or call.kind != "call":
            continue
        callee = callee_text(call)
        if re.search(r"EventQuery$|(^|\.|->)query$", callee):
            asked = source.regions.recorded_event(call)
            names = source.regions.event_names(asked, source.scopes.scope_of(call)) if asked else ()
            if pair.end_names & frozenset(names) or any(
                p.kind == "while" for p in call.ancestors()
            ):
                return True
    return False


def _waited_elsewhere(source: SourceFile, pair: Pair, recorder: Scope) -> bool:
    """Record and read in two functions: any wait between them, or for these events, will do."""
    before = source.flow.between(pair.scope, pair.scope.node.start, pair.call.start)
    assert pair.end is not None
    after = source.flow.between(recorder, pair.end.end, recorder.node.end)
    if any(s.waits for s in [*before, *after]) or _polled(
        source, pair, pair.scope.node.start, pair.call.start
    ):
        return True
    users = [
        s
        for s in source.scopes.all
        if _calls(source, s, recorder) and _calls(source, s, pair.scope)
    ]
    if users:
        return all(_between_calls(source, pair, user, recorder) for user in users)
    return _mentioned(source, pair) or _demands_wait(pair.scope)


def _demands_wait(reader: Scope) -> bool:
    """Whether the function that reads the time says that its caller has to synchronize first."""
    body = reader.body
    head = body.text[:600] if body is not None else ""
    text = re.match(r"\s*[rbu]*(\"\"\"|''').*?\1", head, re.DOTALL)
    return text is not None and re.search(r"sync|complete", text[0], re.IGNORECASE) is not None


def _calls(source: SourceFile, scope: Scope, target: Scope) -> list[int]:
    name = target.short_name
    calls = [node for node in scope.nodes if node.kind == "call"]
    return [call.end for call in calls if name and last_segment(callee_text(call)) == name]


def _between_calls(source: SourceFile, pair: Pair, user: Scope, recorder: Scope) -> bool:
    reader = pair.scope
    low = min(_calls(source, user, recorder))
    later = [end for end in _calls(source, user, reader) if end > low]
    if not later:
        return True
    steps = source.flow.between(user, low, later[0])
    if any(s.waits and (not s.helpers or s.helpers[0] is not reader) for s in steps):
        return True
    return _polled(source, pair, low, later[0])


def _mentioned(source: SourceFile, pair: Pair) -> bool:
    """Whether the file waits for, or polls, these events or the device anywhere."""
    for scope in source.scopes.all:
        if scope.class_name != pair.scope.class_name:
            continue
        for step in source.flow.steps(scope):
            if r.WAIT in step.roles:
                return True
    names = "|".join(re.escape(n.partition("#")[0]) for n in pair.end_names)
    return (
        bool(re.search(rf"\b({names})\b[^\n]*\.(query|synchronize|wait)\(", source.tree.text))
        or bool(re.search(r"\.query\(\)|EventQuery", source.tree.text))
        or (not loops_around(pair.call) and not pair.scope.class_name)
    )

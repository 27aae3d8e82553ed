"""An event that cannot be timed is used for elapsed time.

## What it does
Reports the creation of an event without timing whose elapsed time the file reads:
`torch.cuda.Event()` without `enable_timing=True`, `cudaEventDisableTiming`, a default-constructed
`at::cuda::CUDAEvent`, and events of cuda.core that did not ask for timing.

## Why it misleads
Such events only order work. Reading a time from them fails, and where the error is not looked at,
the figure is whatever the variable held.

## Known problems
An event that is passed to another file before it is read there is not reported.

## Example
```python
import torch

start = torch.cuda.Event()
end = torch.cuda.Event()
start.record()
work()
end.record()
end.synchronize()
print(start.elapsed_time(end))
```
```cuda
void window(float *ms) {
  cudaEvent_t start, stop;
  cudaEventCreateWithFlags(&start, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&stop, cudaEventDisableTiming);
  cudaEventRecord(start);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(ms, start, stop);
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
from collections import defaultdict
from collections.abc import Iterator

from perf_timing.lint.code.scopes import (
    Scope,
    bare_operator,
    base_name,
    callee_text,
    keyword,
    last_segment,
    positional,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.files import evidence
from perf_timing.lint.output import repairs

CODE = "TIM402"
LABEL = "EVENT-NOTIMING"
DEFAULT = True
SEVERITY = "error"
FIX = "safe"
TRIGGER = evidence.reads_events
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{event} is created without timing, but line {line} reads its elapsed time; the read fails"
)
NOTE = (
    "Create the event with timing (enable_timing=True, or no cudaEventDisableTiming);"
    " render-timing simple-event does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each untimed event whose time is read."""
    reads = _read_names(source)
    finder = _python if source.language == "python" else _cpp
    found: dict[int, list[tuple[Node, str]]] = {}
    for node, name in finder(source):
        if _read_of(source, node, name, reads) is not None:
            found.setdefault(node.line, []).append((node, name))
    for events in found.values():
        node, name = events[0]
        line = _read_of(source, node, name, reads)
        calls = {id(call): call for call, _ in events}.values()
        fixes = tuple(fix for call in calls for fix in repairs.with_timing(call))
        message = MESSAGE.format(event=name.lstrip("-"), line=line)
        yield Report(node, message, fixes=fixes)


def _read_names(source: SourceFile) -> dict[str, list[tuple[int, Scope | None]]]:
    """Base names of the events whose time is read: the lines of the reads, and their functions."""
    found: dict[str, list[tuple[int, Scope | None]]] = defaultdict(list)
    for name, line in _timer_members(source).items():
        found[name].append((line, None))
    for pair in source.regions.pairs:
        for name in sorted(pair.start_names | pair.end_names):
            base = name.partition("#")[0].removeprefix("self.")
            found[base].append((pair.call.line, pair.scope))
    for scope in source.scopes.all:
        for node in scope.nodes:
            # cuda.core and CuPy subtract events: after - before.
            if (
                node.kind == "binary" and bare_operator(node) == "-" and len(node.children) == 2
            ) and all(c.kind == "name" for c in node.children):
                for child in node.children:
                    found["-" + target_key(child)].append((node.line, None))
    return found


def _read_of(
    source: SourceFile, creation: Node, name: str, reads: dict[str, list[tuple[int, Scope | None]]]
) -> int | None:
    """The line of the first read of an event; None where each is of another variable so called."""
    maker = source.scopes.scope_of(creation)
    return next(
        (
            line
            for line, scope in reads.get(name, [])
            if scope is None
            or scope is maker
            or not (_has_own(maker, name) and _has_own(scope, name))
        ),
        None,
    )


def _has_own(scope: Scope, name: str) -> bool:
    """Whether a function of C++ declares a variable `name`."""
    if scope.node.tree.language != "cuda" or scope.node.kind != "function":
        return False
    return any(
        leaf.kind == "name" and leaf.text == name
        for node in scope.nodes
        if node.kind == "decl"
        for leaf in node.children
    )


def _timer_members(source: SourceFile) -> dict[str, int]:
    """Event members of a class of a header that declares a method for the elapsed time."""
    found: dict[str, int] = {}
    if source.language != "cuda":
        return found
    for node in source.tree.of_kind("class"):
        declared = re.search(r"\b\w*(elapsed|millisec|microsec)\w*\s*\(", node.text, re.IGNORECASE)
        if declared:
            line = source.tree.lines.line(node.start + declared.start())
            for name in re.findall(r"CUDAEvent\s+(\w+)", node.text):
                found[name] = line
    return found


def _python(source: SourceFile) -> Iterator[tuple[Node, str]]:
    for call in source.scopes.calls:
        full = source.scopes.resolve(callee_text(call))
        short = last_segment(full)
        numba = full == "numba.cuda.event"
        if (short == "Event" or numba) and _is_untimed(full, call):
            for name in _targets(source, call):
                yield call, name
        elif short == "record" and "cuda.core" in source.tree.text and _is_untimed_record(call):
            for name in _targets(source, call):
                yield call, "-" + name


def _is_untimed(full: str, call: Node) -> bool:
    if re.search(r"(torch|torch\.(cuda|xpu|npu|hpu|accelerator))\.Event$|^cuda\.Event$", full):
        timing = keyword(call, "enable_timing")
        if timing is None and positional(call):
            timing = positional(call)[0]
        return timing is None or timing.text == "False"
    if full == "numba.cuda.event":
        timing = keyword(call, "timing") or next(iter(positional(call)), None)
        return timing is not None and timing.text == "False"
    disabled = keyword(call, "disable_timing")
    if disabled is None and len(positional(call)) > 1 and full.startswith("cupy."):
        disabled = positional(call)[1]
    return disabled is not None and disabled.text == "True"


def _is_untimed_record(call: Node) -> bool:
    return (
        "enable_timing" not in call.text and "options" not in call.text and "event" not in call.text
    )


def _targets(source: SourceFile, call: Node, depth: int = 0) -> Iterator[str]:
    """The names that the call's value is stored under, in a list or tuple too.

    What a function of the file returns is stored where the function is called.
    """
    for parent in call.ancestors():
        if parent.kind == "return" and depth < 3:
            for site in source.scopes.call_sites(source.scopes.scope_of(call)):
                yield from _targets(source, site, depth + 1)
            return
        if parent.kind == "assign":
            target = _matching_target(parent, call)
            for leaf in target.walk():
                if leaf.kind == "name":
                    yield target_key(leaf).removeprefix("self.")
            if target.kind == "subscript":
                yield base_name(target.text).removeprefix("self.")
            return
        if parent.kind in ("block", "function", "lambda", "module"):
            return
        if parent.kind == "call" and last_segment(callee_text(parent)) == "append":
            yield callee_text(parent).rpartition(".")[0].removeprefix("self.")
            return


def _matching_target(assign: Node, call: Node) -> Node:
    """The part of the target that gets the call's value, where both sides are listed."""
    target, value = assign.children[0], assign.children[-1]
    listed = {target.kind, value.kind} <= {"tuple", "list"}
    if listed and len(target.children) == len(value.children):
        for part, given in zip(target.children, value.children, strict=True):
            if given.start <= call.start and call.end <= given.end:
                return part
    return target


def _cpp(source: SourceFile) -> Iterator[tuple[Node, str]]:
    for call in source.scopes.calls:
        short = last_segment(callee_text(call))
        if (
            re.search(r"EventCreateWithFlags$|EventCreate$", short)
            and "DisableTiming" in call.text
            and "?" not in call.text
        ):
            given = positional(call)
            if given:
                yield call, base_name(given[0].text).removeprefix("self.")
    for node in source.tree.of_kind("decl"):
        if "Event" in node.text:
            found = re.match(
                r"(?:(?:static|mutable)\s+)?(?:at::cuda|c10::cuda|at::hip)::(?:CUDA"
                r"|HIP)Event\s+([\w\s,]+);",
                node.text,
            )
            if found:
                for name in re.findall(r"\w+", found[1]):
                    yield node, name

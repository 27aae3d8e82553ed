"""The measured loop reads a value back from the device in every iteration.

## What it does
Reports `.item()`, `.cpu()`, `float(tensor)`, `.get()` and other blocking reads in each iteration of
a loop that works on the device and that one pair of readings encloses, and in each step of a
training loop whose steps, or windows of steps, are timed. Not reported are a read right after
another wait, one whose value decides whether the loop goes on, and one behind all the work of a
step that is timed by itself: that is the wait which its clock needs; nor a read whose value is
dropped or that a comment calls a sync. Of several reads in one loop the first is reported.

## Why it misleads
The host waits for the device in each iteration instead of running ahead, so launches no longer
overlap with execution; the loop is slower than it would be without the read.

## Known problems
A loop whose purpose is the read, and which goes on whatever was read, is reported as well. Reads on
every n-th iteration only are not.

## Example
```python
import time
import torch

torch.cuda.synchronize()
t0 = time.perf_counter()
for x, y in loader:
    loss = loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    total += loss.item()
torch.cuda.synchronize()
print(time.perf_counter() - t0)
```

## Use instead
```python
import time
import torch

torch.cuda.synchronize()
t0 = time.perf_counter()
for x, y in loader:
    loss = loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    total += loss.detach()
torch.cuda.synchronize()
print(time.perf_counter() - t0)
print(total.item())
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import convergence, samples
from perf_timing.lint import roles as r
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.flow import Step
from perf_timing.lint.regions import Region
from perf_timing.lint.scopes import (
    callee_text,
    last_segment,
    loop_body,
    loops_around,
    positional,
)

CODE = "TIM202"
LABEL = "SYNC-LOOP"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python",)
MESSAGE = (
    "{call}() reads from the device in every iteration of the measured loop; the host waits"
    " each time and launches no longer overlap"
)
NOTE = (
    "Keep the value on the device and read it after the loop, or only on every n-th step;"
    " render-timing loop does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each read that every measured iteration waits for."""
    seen: set[int] = set()
    loops: set[int] = set()
    for region in source.regions.all:
        if not region.is_plain:
            continue
        if samples.means_first(source, region) or samples.is_program(source, region):
            continue
        for step in region.steps:
            if id(step.site) not in seen and _blocks(source, region, step):
                seen.add(id(step.site))
                loop = next(n for n in region.inner_loops(step.site) if n.kind != "comp")
                if id(loop) in loops:
                    continue  # the first read of a loop stands for the others
                loops.add(id(loop))
                call = last_segment(callee_text(step.node))
                yield Report(
                    step.site,
                    MESSAGE.format(call=call),
                    related=((region.start, "clock started here"),),
                )
    for region, step in _training_steps(source):
        innermost = id(loops_around(step.site)[0])
        if id(step.site) not in seen and innermost not in loops:
            loops.add(innermost)
            seen.add(id(step.site))
            call = last_segment(callee_text(step.node))
            yield Report(step.site, MESSAGE.format(call=call),
                         related=((region.end, "timed up to here"),))  # fmt: skip


def _training_steps(source: SourceFile) -> Iterator[tuple[Region, Step]]:
    """Reads in every step of a training loop whose steps, or windows of steps, are timed.

    A read after all the work of a step that is timed by itself is the wait that its clock needs.
    """
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.hooked or region.timer is not None:
            continue
        loops = [loop for loop in region.sample_loops if loop.kind != "comp"]
        body = loop_body(loops[0]) if loops else None
        if body is None or source.flow.host_only(region.end, region.scope):
            continue
        steps = source.flow.between(region.scope, body.start, body.end)
        if not _trains(steps):
            continue
        window = region.carried and samples.rare(region.end, loops[0])
        for step in steps:
            if not _reads(step) or loops_around(step.site)[:1] != loops[:1]:
                continue
            if _drained(steps, step) or _meant_to_wait(step.site):
                continue
            behind = [s for s in steps if s.works and s.position > step.position]
            measured = window or (
                region.holds(step.site) and any(s.position <= region.end.end for s in behind)
            )
            if measured and not samples.rare(step.site, loops[0]):
                yield region, step


def _trains(steps: list[Step]) -> bool:
    calls = [callee_text(s.node) for s in steps if s.works and s.node.kind == "call"]
    return any(last_segment(c) == "backward" for c in calls)


def _reads(step: Step) -> bool:
    """Whether a call reads from the device, itself or in a helper that is no pass of its own."""
    if r.READ not in step.roles or step.roles & {r.UPLOAD, r.JOIN, r.IO}:
        return False
    if step.node.kind != "call" or re.match(
        r"(eval|evaluate|validat)", last_segment(callee_text(step.node))
    ):
        return False  # a pass by itself, of which the metrics come back
    return not any(n.kind in ("for", "while") for helper in step.helpers for n in helper.nodes)


def _blocks(source: SourceFile, region: Region, step: Step) -> bool:
    if not _reads(step) or _has_come(source, step.node) or _drained(region.steps, step):
        return False
    if _meant_to_wait(step.site):
        return False
    if samples.passes_over_data(region) and re.search(
        r"eval|valid|(^|_)test(_|$)", region.scope.name
    ):
        return False  # its metrics are read
    loops = [loop for loop in region.inner_loops(step.site) if loop.kind != "comp"]
    if not loops or samples.rare(step.site, loops[-1]) or convergence.decides(step.site, loops[0]):
        return False
    return any(
        (s.works or r.BLOCKING in s.roles) and region.inner_loops(s.site)[:1] == loops[:1]
        for s in region.steps
    ) or last_segment(callee_text(step.node)) in ("get", "asnumpy")


def _meant_to_wait(read: Node) -> bool:
    """Whether the read is there for the sake of the wait: its value is dropped, or a comment says.

    loss.item() as a statement, `_ = out.cpu()`, "# introduce a sync for the timing".
    """
    parent = read.parent
    if parent is not None and parent.kind == "block":
        return True
    if parent is not None and parent.kind == "assign" and parent.children[0].text == "_":
        return True
    notes = [c.text for c in read.tree.comments if read.line - 1 <= c.line <= read.line]
    return any(re.search(r"sync(?!_dist)|wait for", text, re.IGNORECASE) for text in notes)


def _drained(steps: list[Step], read: Step) -> bool:
    """Whether the host has waited since the last work was queued, so that the read costs nothing.

    That is a read after a wait, which is the one to report, or the second of two reads.
    """
    loops = loops_around(read.site)[:1]
    before = [
        s
        for s in steps
        if s.position < read.position and s.node is not read.node and (s.works or s.waits)
    ]
    return bool(before) and not before[-1].works and loops_around(before[-1].site)[:1] == loops


def _has_come(source: SourceFile, call: Node) -> bool:
    """Whether all that a call is given is on the host: the decoding of tokens that were read."""
    given = positional(call)
    scope = source.scopes.scope_of(call)
    return last_segment(callee_text(call)) in ("decode", "convert_ids_to_tokens") and all(
        source.devices.of(value, scope) == "host" for value in given[:1]
    )

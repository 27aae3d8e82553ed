"""One rank reports its own time for an operation that all ranks take part in.

## What it does
Reports output behind a check for rank 0 of a time that was taken around a collective, or around an
operation passed in for which a barrier has just aligned the ranks, where the time is not combined
with those of the other ranks and no barrier ends the region.

## Why it misleads
The operation is over when the slowest rank is done. Rank 0 may be the first: it has the shorter
route, or it came last and found all the others waiting. Its time is a sample of one rank, printed
as that of the job.

## Known problems
A reduction in another function is not seen. Helpers that print on rank 0 only are not followed;
what a function returns is, into the functions that call it.

## Example
```python
import time
import torch
import torch.distributed as dist

dist.barrier()
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(100):
    dist.all_reduce(x)
torch.cuda.synchronize()
elapsed = time.perf_counter() - start
if dist.get_rank() == 0:
    print("all-reduce", elapsed / 100)
```

## Use instead
```python
import time
import torch
import torch.distributed as dist

for _ in range(10):
    dist.all_reduce(x)
torch.cuda.synchronize()
dist.barrier()
start = time.perf_counter()
for _ in range(100):
    dist.all_reduce(x)
torch.cuda.synchronize()
mine = torch.tensor(time.perf_counter() - start, device="cuda")
dist.all_reduce(mine, op=dist.ReduceOp.MAX)
if dist.get_rank() == 0:
    print("all-reduce, slowest rank", mine.item() / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text, last_segment, target_key
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.intent import programs
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work.collectives import (
    collective_steps,
    is_barrier,
    is_collective,
    spread_steps,
)

CODE = "TIM505"
LABEL = "DIST-RANK0"
DEFAULT = True
SEVERITY = "warning"
LANGUAGES = ("python",)
MESSAGE = (
    "only rank 0's time is reported for the operation of all ranks on line {line}, which ends with"
    " the slowest"
)
NOTE = (
    "Reduce the time with ReduceOp.MAX (or gather it) before rank 0 prints it; render-timing loop"
    " reports every rank."
)

_RANK_ZERO = re.compile(
    r"rank(\(\))?\s*==\s*0|not\s+\w*rank|is_main_process|is_rank_?0|is_master|main_process|local_rank\s*<=?\s*0"
)
_SAYS = re.compile(r"(^|[._])(print|info|log|write|debug|warning|rprint)$")
_COMBINES = re.compile(r"gather|reduce|ReduceOp|max_across|all_ranks|from_ranks|monitored_barrier")


def check(source: SourceFile) -> Iterator[Report]:
    """Reports of rank 0 for operations of all ranks."""
    seen: set[int] = set()  # lines
    for region in source.regions.all:
        if region.kind not in ("clock", "event"):
            continue
        timed = (
            collective_steps(source, region)
            or _aligned_operation(source, region)
            or spread_steps(source, region)
        )
        if not timed or _ends_together(region):
            continue
        if training_loops.is_training(region):
            continue
        if programs.is_program(source, region) or programs.passes_over_data(region):
            continue
        if _combined(source, region):
            continue
        for printed in [*_prints(source, region), *_prints_of_callers(source, region)]:
            if printed.line not in seen and _on_rank_zero(printed):
                seen.add(printed.line)
                message = MESSAGE.format(line=timed[0].site.line)
                yield Report(printed, message, related=((region.end, "its time ends here"),))


def _prints(source: SourceFile, region: Region) -> list[Node]:
    """Where the time, or what was reduced from many of them, is printed."""
    fate = fates.fate(source, region)
    names = fate.names | fate.lists | fate.sums
    printed = list(fate.printed)
    later = [n for n in region.scope.nodes if n.kind == "call" and n.start > region.end.end]
    for call in (c for c in later if _SAYS.search(callee_text(c))):
        if _mentions(call, names):
            printed.append(call)
    return printed


def _prints_of_callers(source: SourceFile, region: Region) -> Iterator[Node]:
    """Where callers print the time that a function returns, and do not combine it with others."""
    fate = fates.fate(source, region)
    places = {place for node in fate.returned for place in _returned_at(node, fate.names)}
    for site in source.scopes.call_sites(region.scope) if places else []:
        target = site.parent.children[0] if site.parent and site.parent.kind == "assign" else None
        if target is None or site.parent is None or site.parent.children[-1] is not site:
            continue
        parts = dict(enumerate(target.children)) if target.kind == "tuple" else {-1: target}
        taken = {target_key(part) for place, part in parts.items() if place in places}
        later = [n for n in source.scopes.scope_of(site).nodes if n.start > site.end]
        for node in later:  # ms = took * 1e3; t = torch.tensor([took])
            if node.kind == "assign" and _mentions(node.children[-1], taken):
                taken.add(target_key(node.children[0]))
        calls = [n for n in later if n.kind == "call" and _mentions(n, taken)]
        if not any(is_collective(source, c) or _COMBINES.search(callee_text(c)) for c in calls):
            yield from (call for call in calls if _SAYS.search(callee_text(call)))


def _returned_at(node: Node, names: set[str]) -> Iterator[int]:
    """The places of a time in what is returned; -1 where nothing stands beside it."""
    value = node.children[0] if node.children else node
    if value.kind != "tuple":
        yield -1
        return
    yield from (
        place
        for place, part in enumerate(value.children)
        if any(leaf.text in names for leaf in part.walk() if leaf.kind == "name")
    )


def _mentions(node: Node, names: set[str]) -> bool:
    return any(n.kind == "name" and n.text.partition(".")[0] in names for n in node.walk())


def _aligned_operation(source: SourceFile, region: Region) -> list[Step]:
    """An operation that the caller passes in, for which the ranks were aligned right before."""
    passed = [step for step in region.steps if r.OPAQUE in step.roles]
    others = [step for step in region.steps if step.works and step not in passed]
    before = [s for s in source.flow.steps(region.scope) if s.position < region.start.start]
    last = next((s for s in reversed(before) if s.works or is_barrier(s.node)), None)
    return passed if passed and not others and last and is_barrier(last.node) else []


def _ends_together(region: Region) -> bool:
    """A barrier after the last work makes every rank's time that of the slowest."""
    last = max((s.position for s in region.steps if s.works), default=0)
    return any(is_barrier(s.node) and s.position >= last for s in region.steps)


def _combined(source: SourceFile, region: Region) -> bool:
    later = [n for n in region.scope.nodes if n.kind == "call" and n.start > region.end.start]
    return any(
        is_collective(source, n) or _COMBINES.search(last_segment(callee_text(n))) for n in later
    )


def _on_rank_zero(node: Node) -> bool:
    child = node
    for parent in node.ancestors():
        if parent.kind in ("function", "lambda"):
            return False
        if parent.kind == "if" and parent.children and child is not parent.children[0]:
            guard = parent.children[0].text
            if _RANK_ZERO.search(guard):
                return True
        child = parent
    return False

"""A collective is timed before the ranks have been aligned.

## What it does
Reports the opening reading of a region that times collectives and nothing else, where no barrier
and no other collective stands between it and the work that each rank did before for itself; and of
a region that times an imported operation of all ranks (ring attention and its like), where the
whole file holds no barrier and no collective.

## Why it misleads
A collective ends when the slowest rank has joined. A rank that comes early waits inside the region
and books the others' delay as communication: the same all-reduce reads 0.2 ms on one rank and 9 ms
on another, and the mean is neither.

## Known problems
Barriers in functions of other files are not seen. A collective just before the region is taken to
align the ranks well enough.

## Example
```python
import time
import torch
import torch.distributed as dist

for step in range(100):
    y = model(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    dist.all_reduce(gradients)
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
```

## Use instead
```python
import time
import torch
import torch.distributed as dist

for _ in range(10):
    dist.all_reduce(gradients)
times = []
for step in range(100):
    y = model(x)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    dist.all_reduce(gradients)
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
times.sort()
slowest = torch.tensor(times[50], device="cuda")
dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
```
"""

from collections.abc import Iterator

from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import last_segment, positional
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import programs, purpose
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.warmup import warmups
from perf_timing.lint.work.collectives import (
    aligns,
    collective_steps,
    is_barrier,
    is_collective,
    spread_steps,
)

CODE = "TIM506"
LABEL = "DIST-NOBARRIER"
DEFAULT = True
SEVERITY = "warning"
LANGUAGES = ("python",)
MESSAGE = (
    "ranks reach this reading at different times{after}; the collective on line {line} waits for"
    " the last"
)
NOTE = (
    "Put torch.distributed.barrier() and a device wait before the opening reading, and report the"
    " slowest rank; render-timing loop does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Opening readings before collectives that nothing aligns."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or id(region.start) in seen:
            continue
        timed = collective_steps(source, region)
        if region.carried or region.timer or _aligned_by_harness(source, region):
            continue
        if programs.is_program(source, region):
            continue
        if timed:
            apart = _apart(source, region) if _only(source, region, timed) else None
        else:
            timed = spread_steps(source, region)
            apart = region.start if _never_aligned(source, region, timed) else None
        if apart is None:
            continue
        seen.add(id(region.start))
        after = f" after the work on line {apart.line}" if apart is not region.start else ""
        message = MESSAGE.format(after=after, line=timed[0].site.line)
        yield Report(region.start, message, related=((timed[0].site, "the collective"),))


def _aligned_by_harness(source: SourceFile, region: Region) -> bool:
    """Whether a benchmark helper that repeats the function is handed a barrier beside it."""
    harness = warmups.harness_of(source, region.scope)
    handed = positional(harness) if harness is not None else []
    return any(last_segment(a.text) in ("barrier", "monitored_barrier") for a in handed)


def _never_aligned(source: SourceFile, region: Region, timed: list[Step]) -> bool:
    """Whether a benchmark of an operation of all ranks has no barrier and no collective at all."""
    return bool(timed) and purpose.is_benchmark(source, region) and not aligns(source)


def _only(source: SourceFile, region: Region, timed: list[Step]) -> bool:
    """Nothing but collectives is timed, and nothing aligns the ranks inside."""
    kept = {id(step) for step in timed}
    others = [s for s in region.steps if id(s) not in kept]
    return not any(s.works or is_barrier(s.node) for s in others)


def _apart(source: SourceFile, region: Region) -> Node | None:
    """The own work that a rank did last before the region; the start where nothing aligned yet."""
    before = [s for s in source.flow.steps(region.scope) if s.position < region.start.start]
    for step in reversed(before):
        if is_barrier(step.node) or is_collective(source, step.node):
            return None
        if step.works:
            return step.site
    sites = source.scopes.call_sites(region.scope)
    if region.scope.parameters or sites or region.scope.node.kind != "module":
        # What the callers did before is theirs to know.
        return None
    return region.start

"""A time is divided by, or a rate is computed from, a number of steps that were not timed.

## What it does
Reports a quotient of a measured time and a count where the loop in the measured region runs another
number of times: from a first step other than 0 while the count is the last step alone, another
constant than the loop's; and rates over a region that also sleeps.

## Why it misleads
A run that resumes at step 9000 of 10000 and divides 10000 steps by the time of 1000 reports ten
times the throughput. Work that is counted but not timed, or timed but not counted, scales the
figure by a factor that nothing in the output shows.

## Known problems
Only loops over `range` and counted `for` loops are understood, and only where the region holds one
of them. A power of 1000 is taken for a conversion of units.

## Example
```python
import time
import torch

torch.cuda.synchronize()
start = time.perf_counter()
for step in range(first, last):
    train_step(step)
torch.cuda.synchronize()
seconds = time.perf_counter() - start
print("samples/s", last * batch_size / seconds)
```

```cuda
cudaEventRecord(start);
for (int i = 0; i < 200; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(stop);
cudaEventSynchronize(stop);
cudaEventElapsedTime(&elapsed_ms, start, stop);
printf("%f ms\\n", elapsed_ms / 100);
```

## Use instead
```python
import time
import torch

for step in range(first, first + 10):
    train_step(step)
torch.cuda.synchronize()
start = time.perf_counter()
for step in range(first + 10, last):
    train_step(step)
torch.cuda.synchronize()
seconds = time.perf_counter() - start
print("samples/s", (last - first - 10) * batch_size / seconds)
```

```cuda
for (int i = 0; i < 20; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(start);
for (int i = 0; i < 200; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(stop);
cudaEventSynchronize(stop);
cudaEventElapsedTime(&elapsed_ms, start, stop);
printf("%f ms\\n", elapsed_ms / 200);
```
"""

import math
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.quotients import (
    CountedLoop,
    Quotient,
    counted_loop,
    integer,
    named,
    quotients,
)
from perf_timing.lint.regions import Region
from perf_timing.lint.scopes import squeeze

CODE = "TIM502"
LABEL = "COUNT"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python", "cuda")
MESSAGE = "the loop on line {line} runs {times} times, but {count} are counted"
NOTE = "Count what ran between the two readings: last - first steps, or a counter in the loop."


def check(source: SourceFile) -> Iterator[Report]:
    """Quotients whose count is not that of the measured loop."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.cumulative or not source.works(region):
            continue
        loops = _loops(region)
        for quotient in quotients(source, region):
            if id(quotient.node) in seen:
                continue
            message = _fault(source, quotient, loops)
            if message:
                seen.add(id(quotient.node))
                related = ((region.start, "timed from here"), (region.end, "to here"))
                yield Report(quotient.node, message, related=related)


def _loops(region: Region) -> list[Node]:
    """The loops of the measured region in its own scope."""
    return [
        node for node in region.scope.nodes if node.kind in ("for", "while") and region.holds(node)
    ]


def _fault(source: SourceFile, quotient: Quotient, loops: list[Node]) -> str:
    if not quotient.counts:
        return ""
    if quotient.rate and _sleeps(quotient.region):
        return "the region also sleeps; this rate divides the work by a time that holds the pauses"
    outer = [
        n
        for n in loops
        if not any(o is not n and o.start <= n.start and n.end <= o.end for o in loops)
    ]
    if len(outer) != 1:
        return ""
    counted = counted_loop(outer[0])
    if counted is None or any(n.kind == "jump" and n.text == "break" for n in outer[0].walk()):
        return ""
    return _from_first(source, quotient, counted) or _constant(source, quotient, counted, loops)


def _sleeps(region: Region) -> bool:
    return any(r.SLEEP in step.roles and region.inner_loops(step.node) for step in region.steps)


def _from_first(source: SourceFile, quotient: Quotient, loop: CountedLoop) -> str:
    if loop.first is None or loop.first.kind not in ("name", "number") or loop.last.kind != "name":
        return ""
    scope = quotient.region.scope
    last = squeeze(loop.last.text)
    direct = {squeeze(n.text) for n in quotient.counts if n.kind == "name"}
    if last not in direct:
        return ""
    if loop.first.kind == "name" and loop.first.text in named(source, quotient.counts, scope):
        return ""
    first = integer(source, loop.first, scope)
    if first == 0 or (first is None and loop.first.kind == "number"):
        return ""
    times = f"{last} - {squeeze(loop.first.text)}"
    return MESSAGE.format(line=loop.node.line, times=times, count=last)


def _constant(source: SourceFile, quotient: Quotient, loop: CountedLoop, loops: list[Node]) -> str:
    if quotient.rate or len(loops) != 1 or loop.first is not None or len(quotient.below) != 1:
        return ""
    if any(n.kind != "number" for n in quotient.above):
        return ""
    scope = quotient.region.scope
    ran = integer(source, loop.last, scope)
    counted = integer(source, quotient.below[0], scope)
    if ran is None or counted is None or ran == counted or counted < 2 or ran < 2:
        return ""
    if any(_is_power_of_ten(n) for n in (counted, *(f for f in (counted / ran,) if f > 1))):
        # A conversion of units, or one in the same factor as the count: / 100000 for 100 calls.
        return ""
    return MESSAGE.format(line=loop.node.line, times=ran, count=counted)


def _is_power_of_ten(value: float) -> bool:
    exponent = math.log10(value)
    return exponent >= 2.9 and abs(exponent - round(exponent)) < 1e-9

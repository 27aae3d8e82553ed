"""A throughput counts other work than was done in the measured window.

## What it does
Reports a rate of samples or tokens in a training loop whose numerator leaves out the gradient
accumulation that runs inside the window, one that counts every turn of a loop of which the clock
only covers some, and one that multiplies by the world size in a file where tensor, pipeline or
model parallelism shares one batch among several ranks.

## Why it misleads
With 8 accumulation steps and one micro-batch in the numerator the throughput reads 8 times too low;
with tensor parallelism over 8 ranks and the world size in it, 8 times too high. Both look like a
property of the machine.

## Known problems
The inner loop must stand in the same function as the window, and the numerator must be made of
names that speak of batches, sequences or tokens. What a loader returns per step is not known.

## Example
```python
import time
import torch

start = time.perf_counter()
for step in range(steps):
    for _ in range(accumulation):
        loss = model(next(batches)) / accumulation
        loss.backward()
    optimizer.step()
torch.cuda.synchronize()
elapsed = time.perf_counter() - start
print("tokens/s", steps * batch_size * sequence_length / elapsed)
```

## Use instead
```python
import time
import torch

for step in range(10):
    train_step()
torch.cuda.synchronize()
start = time.perf_counter()
for step in range(steps):
    for _ in range(accumulation):
        loss = model(next(batches)) / accumulation
        loss.backward()
    optimizer.step()
torch.cuda.synchronize()
elapsed = time.perf_counter() - start
print("tokens/s", steps * accumulation * batch_size * sequence_length / elapsed)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import callee_text, last_segment, loop_body, loops_around, squeeze
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures.quotients import Quotient, counted_loop, named, quotients
from perf_timing.lint.measured.regions import Region

CODE = "TIM503"
LABEL = "DIST-BATCH"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python",)
MESSAGE = "each step runs the loop on line {line} `{count}` times, which this rate does not count"
NOTE = (
    "Count what one window holds: micro-batch x accumulation steps x data-parallel ranks;"
    " render-timing loop reports it so."
)

_BATCH = re.compile(
    r"(^|_)(batch|bs|bsz|micro|mbs|gbs|tokens?|samples?|seq|seqlen|images?|imgs)", re.I
)
_SHARED = re.compile(
    r"(tensor|model|pipeline|sequence|context)_(model_)?parallel|(^|[^a-z])(tp|mp|pp|cp|sp)_"
    r"(size|degree|world_size|group|rank)|mp_world_size|mpu\.|parallel_state",
    re.I,
)
_DATA_PARALLEL = re.compile(r"data_?parallel|(^|[^a-z])dp_|dp_size|dp_world|replica", re.I)


def check(source: SourceFile) -> Iterator[Report]:
    """Rates whose numerator is not the work of the window."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind not in ("clock", "event"):
            continue
        for quotient in quotients(source, region, sums=True):
            if not quotient.rate or id(quotient.node) in seen:
                continue
            names = named(source, quotient.above, region.scope)
            message = _accumulation(quotient, names) or _one_of_many(quotient)
            multiplied = named(source, quotient.above, region.scope, arithmetic=True)
            message = message or _world(source, names, multiplied)
            if message and _counts_batches(quotient):
                seen.add(id(quotient.node))
                yield Report(quotient.node, message, related=((region.start, "timed from here"),))


def _counts_batches(quotient: Quotient) -> bool:
    words = [
        n.text for part in quotient.above for n in part.walk() if n.kind in ("name", "attribute")
    ]
    return any(_BATCH.search(last_segment(word)) for word in words)


def _accumulation(quotient: Quotient, names: set[str]) -> str:
    for inner in quotient.region.scope.nodes:
        if inner.kind != "for" or not _micro_loop(inner, quotient.region):
            continue
        counted = counted_loop(inner)
        if (
            counted is None
            or counted.first is not None
            or counted.last.kind not in ("name", "attribute")
        ):
            continue
        count = squeeze(counted.last.text)
        if count in names or last_segment(count) in {last_segment(name) for name in names}:
            continue
        if any(re.search("accum|global|total|effective|gbs|epoch|data_?set", name, re.I)
               for name in names):  # fmt: skip
            continue
        return MESSAGE.format(line=inner.line, count=count)
    return ""


def _one_of_many(quotient: Quotient) -> str:
    """The clock runs in some turns of a loop only, but every turn is counted."""
    start = quotient.region.start
    loops = loops_around(start)
    counted = counted_loop(loops[0]) if loops else None
    if counted is None or counted.first is not None or counted.last.kind != "name":
        return ""
    guards = [n for n in start.ancestors() if n.kind == "if" and n.start > loops[0].start]
    turns = squeeze(counted.last.text)
    if not guards or turns not in {squeeze(n.text) for n in quotient.above}:
        return ""
    condition = squeeze(guards[0].children[0].text) if guards[0].children else ""
    return (
        f"the clock runs only where `{condition}` holds, but all `{turns}` turns of the loop on"
        f" line {loops[0].line} are counted"
    )


def _micro_loop(inner: Node, region: Region) -> bool:
    """A loop of backward passes inside a loop of optimizer steps, all of it in the window."""
    body = loop_body(inner)
    outer = loops_around(inner)
    if body is None or not outer or not _calls(body, "backward") or _calls(body, "step"):
        return False
    inside = region.holds(inner) or region.start.start <= inner.start <= region.end.end
    return inside and _calls(outer[0], "step")


def _calls(node: Node, name: str) -> bool:
    return any(n.kind == "call" and last_segment(callee_text(n)) == name for n in node.walk())


def _world(source: SourceFile, names: set[str], multiplied: set[str]) -> str:
    """Whether all ranks are counted, though those of a model-parallel group share their batch."""
    world = [
        name
        for name in sorted(multiplied)
        if re.search(r"(^|[._])(get_)?world_size$|num_gpus$|WORLD_SIZE", name)
    ]
    if not world or any(_DATA_PARALLEL.search(n) or _SHARED.search(n) for n in names):
        return ""
    if not _SHARED.search(source.unit.text):
        return ""
    return (
        f"`{world[0]}` counts every rank, but ranks of one model-parallel group share their batch:"
        " only data-parallel ranks add work"
    )

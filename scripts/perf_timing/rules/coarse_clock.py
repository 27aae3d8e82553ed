"""GPU work is timed with a clock of CPU time or of whole seconds.

## What it does
Reports the closing reading of a measured region with device work in it, where the clock counts CPU
time (`process_time`, `thread_time`, `clock()`, CLOCK_PROCESS_CPUTIME_ID) or ticks in seconds or in
steps of ten milliseconds (`time(NULL)`, `int(time.time())`, `GetTickCount`), and uses of
`time.clock`, which Python no longer has.

## Why it misleads
CPU time leaves out what the process sleeps through, which may be all of the GPU's work where the
wait blocks, and adds up the threads of the process. It goes up and down with the way the driver
waits, not with the kernels. A clock of seconds rounds away whole measurements.

## Known problems
`time.time()` is left alone: it is wall time of fine resolution, which only jumps when the system's
time is set. Prefer `time.perf_counter()` all the same.

## Example
```python
import time
import torch

start = time.process_time()
model(x.cuda())
torch.cuda.synchronize()
seconds = time.process_time() - start
```

```cuda
clock_t start = clock();
kernel<<<grid, block>>>(x);
cudaDeviceSynchronize();
double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
```

## Use instead
```python
import time
import torch

x = x.cuda()
for _ in range(10):
    model(x)
samples = []
for _ in range(30):
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(x)
    torch.cuda.synchronize()
    samples.append(time.perf_counter() - start)
samples.sort()
print("median s", samples[15], "range", samples[0], samples[-1])
```

```cuda
for (int i = 0; i < 50; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(start);
for (int i = 0; i < 100; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(stop);
cudaEventSynchronize(stop);
cudaEventElapsedTime(&elapsed_ms, start, stop);
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import evidence, repairs, samples
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.scopes import callee_text

CODE = "TIM103"
LABEL = "CLOCK"
DEFAULT = True
SEVERITY = "info"
FIX = "safe"
LANGUAGES = ("python", "cuda")
_COARSE = evidence.clues(
    *("process_time", "thread_time", "time.clock", "CPUTIME_ID", "GetTickCount", "getrusage"),
    ("clock", r"clock\s*\("),
    ("time", r"time\s*\(\s*(?:NULL|nullptr|0|&)"),
    ("time", r"int\(\s*time"),
)
MESSAGE = "`{clock}` {why}; the work since line {start} runs on the device"
NOTE = (
    "Time device work with events, or with time.perf_counter() or std::chrono::steady_clock and a"
    " wait before each reading; render-timing simple-event does so."
)


def _may_be_coarse(text: str, language: str) -> bool:
    return evidence.measures(text, language) and evidence.any_of(_COARSE, text)


TRIGGER = _may_be_coarse
_CPU = re.compile(r"(process_time|thread_time)(_ns)?$|^(std::)?clock$|(^|\.)time\.clock$|getrusage")
_WHOLE = "is rounded to whole seconds"
_SECONDS = re.compile(r"^(std::)?time$")
_TICKS = re.compile(r"^GetTickCount(64)?$")


def check(source: SourceFile) -> Iterator[Report]:
    """Closing readings of unsuitable clocks."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind != "clock" or id(region.end) in seen:
            continue
        why = _fault(source, region.end)
        if why == _WHOLE and (
            samples.is_program(source, region)
            or samples.is_phase(region)
            or not samples.is_benchmark(source, region)
            or samples.is_training(region)
        ):
            continue
        if why and (source.works(region) or any(step.waits for step in region.steps)):
            seen.add(id(region.end))
            clock = " ".join(region.end.text.split())[:40]
            message = MESSAGE.format(clock=clock, why=why, start=region.start.line)
            related = ((region.start, "the opening reading"),)
            fixes = repairs.wall_clock(source, region)
            yield Report(region.end, message, related=related, fixes=fixes)


def _fault(source: SourceFile, reading: Node) -> str:
    """What is wrong with the clock that `reading` reads, or ""."""
    if reading.kind != "call":
        return ""
    text = callee_text(reading)
    name = text if source.language == "cuda" else source.scopes.resolve(text)
    if _CPU.search(name) or "CPUTIME_ID" in reading.text:
        return "counts CPU time, without what the process waits for and with all of its threads"
    if source.language == "cuda" and _SECONDS.match(name):
        return "ticks in whole seconds"
    if _TICKS.match(name):
        return "ticks in steps of 10 to 16 ms"
    if name == "time.time" and re.search(r"\bint\(\s*$", reading.tree.text[: reading.start][-8:]):
        return _WHOLE
    return ""

"""GPU work is timed with a clock of CPU time, of whole seconds, or too coarse for its unit.

## What it does
Reports the closing reading of a measured region with device work in it, where the clock counts CPU
time (`process_time`, `thread_time`, `clock()`, CLOCK_PROCESS_CPUTIME_ID) or ticks in seconds or in
steps of ten milliseconds (`time(NULL)`, `int(time.time())`, `GetTickCount`), and uses of
`time.clock`, which Python no longer has. Also `time.time()` around a single execution whose time is
converted to microseconds or nanoseconds.

## Why it misleads
CPU time leaves out what the process sleeps through, which may be all of the GPU's work where the
wait blocks, and adds up the threads of the process. It goes up and down with the way the driver
waits, not with the kernels. A clock of seconds rounds away whole measurements. The seconds since
1970 fill a double: two neighbours are 0.24 us apart, on Windows up to 16 ms, which is 5 % of a
kernel of 5 us; and the system's time is set from the network while the program runs.

## Known problems
`time.time()` is left alone where the time is given in seconds or milliseconds, where the region
holds a loop, copies, compiles or writes, or where the time is divided by a count: a quarter of a
microsecond is little then. Prefer `time.perf_counter()` all the same.

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

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text, loops_around
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.files import evidence
from perf_timing.lint.intent import programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.output import repairs

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
FINE_MESSAGE = (
    "`{clock}` advances by 0.24 us at a time and is set from the network; the time since line"
    " {start} is given in {unit}"
)
FINE_NOTE = (
    "Read time.perf_counter() at both ends: it counts nanoseconds and is never set; render-timing"
    " simple-event times short work with events."
)
NOTE = (
    "Time device work with events, or with time.perf_counter() or std::chrono::steady_clock and a"
    " wait before each reading; render-timing simple-event does so."
)


# What converts seconds: 1e6, 1_000_000, 10**6. Without one, no time is in microseconds.
_FACTOR = re.compile(r"\d[eE][+-]?\d|000|10\s*\*\*")
_TIME = ("time.time", "from time import", "import time as")


def _may_be_coarse(text: str, language: str) -> bool:
    if not evidence.measures(text, language):
        return False
    return evidence.any_of(_COARSE, text) or (language == "python" and _may_be_fine(text))


def _may_be_fine(text: str) -> bool:
    return any(word in text for word in _TIME) and _FACTOR.search(text) is not None


TRIGGER = _may_be_coarse
_CPU = re.compile(r"(process_time|thread_time)(_ns)?$|^(std::)?clock$|(^|\.)time\.clock$|getrusage")
_CPU_TIME = "counts CPU time, without what the process waits for and with all of its threads"
_WHOLE = "is rounded to whole seconds"
_SECONDS = re.compile(r"^(std::)?time$")
_FINE = {-6.0: "microseconds", -9.0: "nanoseconds"}
_SLOW = frozenset((r.COPY, r.IO, r.COMPILE, r.SLEEP, r.SETUP, r.PHASE))
_TICKS = re.compile(r"^GetTickCount(64)?$")


def check(source: SourceFile) -> Iterator[Report]:
    """Closing readings of unsuitable clocks."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind != "clock" or id(region.end) in seen:
            continue
        found = _finding(source, region)
        if found is not None:
            seen.add(id(region.end))
            message, note = found
            related = ((region.start, "the opening reading"),)
            fixes = repairs.wall_clock(source, region)
            yield Report(region.end, message, note, related=related, fixes=fixes)


def _finding(source: SourceFile, region: Region) -> tuple[str, str] | None:
    """The message and the note for the closing reading of a region, if its clock is unsuitable."""
    why = _fault(source, region.end)
    unit = "" if why else _fine_unit(source, region)
    if not (why or unit) or (why == _WHOLE and _is_long(source, region)):
        return None
    if why == _CPU_TIME and source.means_host_time(region):
        return None  # that is what is meant
    if not (source.works(region) or any(step.waits for step in region.steps)):
        return None
    touches = [step for step in region.steps if step.works or step.waits]
    if why == _CPU_TIME and all(s.helpers and r.COPY in s.roles for s in touches):
        return None  # a function of the file that fetches its data and works on the host
    clock = " ".join(region.end.text.split())[:40]
    if unit:
        return FINE_MESSAGE.format(clock=clock, start=region.start.line, unit=unit), FINE_NOTE
    return MESSAGE.format(clock=clock, why=why, start=region.start.line), ""


def _is_long(source: SourceFile, region: Region) -> bool:
    """Whether a region takes seconds at least, as far as can be told."""
    return (
        programs.is_program(source, region)
        or programs.is_phase(region)
        or not purpose.is_benchmark(source, region)
        or training_loops.is_training(region)
    )


def _fine_unit(source: SourceFile, region: Region) -> str:
    """The unit, too fine for time.time(), that the time of one execution is given in, or ""."""
    if source.language != "python" or not region.is_plain or region.timer is not None:
        return ""
    if not all(_is_wall_time(source, reading) for reading in (region.start, region.end)):
        return ""
    if not _is_short(region):
        return ""
    given = (time for time in source.units[1] if time.origin is region.end and time.kind == "time")
    units = {e for time in given if time.definite and not time.divided for e in time.exponents}
    return next((name for exponent, name in _FINE.items() if exponent in units), "")


def _is_wall_time(source: SourceFile, reading: Node) -> bool:
    return reading.kind == "call" and source.scopes.resolve(callee_text(reading)) == "time.time"


def _is_short(region: Region) -> bool:
    """Whether a region holds nothing beside which a quarter of a microsecond is little."""
    loops = (n for n in region.scope.nodes if n.kind in ("for", "while", "comp"))
    if any(region.holds(loop) for loop in loops):
        return False
    return not any(step.roles & _SLOW or _loops(step) for step in region.steps)


def _loops(step: Step) -> bool:
    """Whether a step is work in the loop of a helper."""
    return bool(step.helpers and loops_around(step.node))


def _fault(source: SourceFile, reading: Node) -> str:
    """What is wrong with the clock that `reading` reads, or ""."""
    if reading.kind != "call":
        return ""
    text = callee_text(reading)
    name = text if source.language == "cuda" else source.scopes.resolve(text)
    if _CPU.search(name) or "CPUTIME_ID" in reading.text:
        return _CPU_TIME
    if source.language == "cuda" and _SECONDS.match(name):
        return "ticks in whole seconds"
    if _TICKS.match(name):
        return "ticks in steps of 10 to 16 ms"
    if name == "time.time" and re.search(r"\bint\(\s*$", reading.tree.text[: reading.start][-8:]):
        return _WHOLE
    return ""

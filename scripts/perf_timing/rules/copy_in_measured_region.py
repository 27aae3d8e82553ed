"""A copy between host and device is measured as part of a kernel's time.

## What it does
Reports copies (cudaMemcpy and its like, and queued ones in what is called the time of a kernel)
between two readings that also enclose a launch, where the result is named after the kernel or the
operator, and kernels and device functions of Numba that are measured while they get NumPy arrays,
which they copy to the device and back at each call.

## Why it misleads
The bus is ten to a hundred times slower than device memory, so the copies dominate the figure; the
kernel that the figure is named after may be a few per cent of it.

## Known problems
End-to-end times include copies on purpose; a name such as total, end to end or "to host" is taken
for that, and so is an interval in which other readings give the copies, or the kernels, a figure of
their own, or that holds the allocations too and is called computation. A few bytes that the host
reads and uses before the clock stops belong to the algorithm.

## Example
```cuda
int main() {
  auto t0 = std::chrono::steady_clock::now();
  cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice);
  scale<<<256, 256>>>(x);
  cudaMemcpy(host, x, bytes, cudaMemcpyDeviceToHost);
  auto t1 = std::chrono::steady_clock::now();
  printf("scale kernel: %f s\\n", std::chrono::duration<double>(t1 - t0).count());
}
```
```python
import timeit
import numpy as np
from numba import cuda

@cuda.reduce
def device_sum(a, b):
    return a + b

values = np.ones(1000000, dtype=np.float32)
device_sum(values)
print(min(timeit.repeat(lambda: device_sum(values), number=10, repeat=5)))
```

## Use instead
```python
import timeit
import numpy as np
from numba import cuda

@cuda.reduce
def device_sum(a, b):
    return a + b

values = cuda.to_device(np.ones(1000000, dtype=np.float32))
device_sum(values)
print(min(timeit.repeat(lambda: device_sum(values), number=10, repeat=5)))
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    call_args,
    callee_text,
    last_segment,
    positional,
    split_top,
    squeeze,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import captions
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work import workload

CODE = "TIM204"
LABEL = "COPY-IN-TIMED"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{call}() copies between host and device inside the region that line {start} starts to"
    " measure; the figure holds the copy beside the work"
)
SEVERAL = (
    "{call}() and {more} more calls copy between host and device inside the region that line"
    " {start} starts to measure; the figure holds the copies beside the work"
)
NOTE = (
    "Copy before and after the measurement, or name the figure end to end; render-timing"
    " raw-cuda does the former."
)
_END_TO_END = re.compile(
    r"total|offload|end.?to.?end|e2e|transfer|copy|copies|memcpy|h2d|d2h|bandwidth|to host"
    r"|pipeline|round.?trip|overall|wall|incl|with mem|frame|request",
    re.IGNORECASE,
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each copy that is measured as a kernel's time."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind == "benchmark" or region.hooked or region.carried:
            continue
        if region.wraps_measurement:
            continue
        found = {
            id(step.site): step
            for step in region.steps
            if r.COPY in step.roles and id(step.site) not in seen and _counts(source, region, step)
        }
        seen |= found.keys()
        steps = list(found.values())
        together = len(steps) if source.language == "cuda" and len(steps) >= _MANY else 1
        for first in range(0, len(steps), together):
            yield _report(region, steps[first], steps[first + 1 : first + together])


_MANY = 3


def _report(region: Region, step: Step, others: list[Step]) -> Report:
    """A report at a copy; of many in C++ the first stands for the others."""
    call, line = last_segment(callee_text(step.node)), region.start.line
    if not others:
        return Report(step.site, MESSAGE.format(call=call, start=line))
    message = SEVERAL.format(call=call, more=len(others), start=line)
    return Report(step.site, message, related=tuple((s.site, "this too") for s in others))


def _counts(source: SourceFile, region: Region, step: Step) -> bool:
    if r.BLOCKING not in step.roles and not _is_queued(step):
        return False
    if source.language == "python":
        scope = source.scopes.scope_of(step.node)
        arrays = [a for a in positional(step.node) if a.kind != "number"]
        return any(source.devices.of(a, scope) == "host" for a in arrays) and not (
            _END_TO_END.search(source.intent(region)) or captions.means_first(source, region)
        )
    kernels = {
        re.sub(r"<.*", "", callee_text(s.node)) for s in region.steps if s.node.kind == "launch"
    }
    words = source.intent(region)
    if r.BLOCKING not in step.roles and not _OF_KERNELS.search(words):
        return False  # to queue copies beside kernels, so that they overlap, is what is tried out
    if r.BLOCKING not in step.roles and not _is_over(source, region, step):
        return False
    if not kernels or _END_TO_END.search(_but(words, kernels)):
        return False
    if _told_apart(source, region, step) or _is_needed(source, region, step):
        return False
    if step.helpers and not re.search(r"kernel|comput", words, re.IGNORECASE):
        return False  # a whole computation on the device, as its caller sees it
    named = r"kernel|\bop\b|gemm|matmul|gpu time|flop"
    if not (workload.copies_both_ways(region) and any(r.ALLOC in s.roles for s in region.steps)):
        named += "|compute"  # else all that is done on the device is called so
    return bool(re.search(named, words, re.IGNORECASE)) or any(
        _names(words.lower(), kernel.lower()) for kernel in kernels
    )


def _is_queued(step: Step) -> bool:
    """Whether C++ code queues a copy between host and device, which ends before what is behind it.

    One of the default direction, or of managed memory, may be one within the device.
    """
    name = last_segment(callee_text(step.node)) if step.node.kind == "call" else ""
    return step.works and bool(_BETWEEN.search(step.node.text) or _BETWEEN.search(name))


def _is_over(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a queued copy is over when the figure ends: at an event, or behind a wait."""
    if region.kind == "event":
        return True
    steps = [*region.steps, *source.regions.tail(region)]
    return any(s.waits and s.position > step.position for s in steps)


_BETWEEN = re.compile(r"HostToDevice|DeviceToHost|DtoH|HtoD|SymbolAsync")
_OF_KERNELS = re.compile(
    r"^(?!.*(stream|overlap|concurren|async|zero.?copy)).*kernel", re.IGNORECASE | re.DOTALL
)


def _but(words: str, kernels: set[str]) -> str:
    """What is said of a figure beside the names of its kernels, of which one may be `copy`."""
    named = "|".join(re.escape(kernel) for kernel in sorted(kernels))
    return re.sub(rf"\b({named})\b", "", words)


def _names(words: str, kernel: str) -> bool:
    """Whether all words of a kernel's name are said: "shared reduce" of reduce_shared2."""
    parts = re.findall(r"[^\W\d_]+", kernel)
    return bool(parts) and all(part in words for part in parts)


def _told_apart(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether readings inside the region give the copy, or all that is launched, its own figure."""
    inside = [
        other
        for other in source.regions.all
        if other is not region
        and other.scope is region.scope
        and other.kind in ("clock", "event")
        and region.start.start <= other.start.start
        and other.end.end <= region.end.end
        and (other.start, other.end) != (region.start, region.end)
    ]
    if any(other.holds(step.site) for other in inside):
        return True
    launches = [s.site for s in region.steps if s.node.kind == "launch"]
    return all(any(other.holds(site) for other in inside) for site in launches)


_FEW = re.compile(r"(?:(\d+)\*)?sizeof\(([\w:]+)\)(?:\*(\d+))?;?$")
_MOST_MEMBERS = 16


def _is_needed(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether the host reads a few bytes that it uses before the region ends."""
    arguments = call_args(step.node)
    given = split_top(arguments.text[1:-1]) if arguments is not None else []
    scope = source.scopes.scope_of(step.node)
    if len(given) < 3 or not _is_few(source, squeeze(given[2]), step.node, scope):
        return False
    end = region.end.start if scope is region.scope else scope.node.end
    uses = source.uses(base_name(given[0]), scope)
    return any(step.node.end < use.start and use.end <= end for use in uses)


def _is_few(source: SourceFile, size: str, at: Node, scope: Scope) -> bool:
    """Whether a number of bytes is that of some members: sizeof(float), or a name for it."""
    if size.isidentifier():
        values = [v for t, v in source.scopes.assignments(size, scope) if t.end <= at.start]
        size = squeeze(source.statement(values[-1]).text.partition("=")[2]) if values else ""
    found = _FEW.match(size)
    if found is None or re.search(rf"\b{re.escape(found[2])}\s*\[", source.tree.text):
        return False
    return int(found[1] or 1) * int(found[3] or 1) <= _MOST_MEMBERS

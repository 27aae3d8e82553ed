"""The same buffers are used in every measured iteration, and the result is called a bandwidth.

## What it does
Reports the call in a measured loop whose arguments do not change, where nothing flushes the cache
and the figure is printed as a bandwidth or as cold; and a benchmark helper that is asked for a cold
cache but gets a function without arguments to rotate. Opt-in.

## Why it misleads
Buffers that fit into the L2 cache (50 MB and more) are read from there after the first iteration:
the figure is the bandwidth of the cache and not of the memory.

## Known problems
The sizes of buffers are not known; buffers larger than the cache are reported as well.

## Example
```python
import time
import torch

x = torch.randn(1 << 20, device="cuda")
y = torch.empty_like(x)
y.copy_(x)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    y.copy_(x)
torch.cuda.synchronize()
seconds = (time.perf_counter() - t0) / 100
print(f"{8 * (1 << 20) / seconds / 1e9} GB/s")
```
```cuda
int main() {
  cudaEventRecord(start);
  for (int i = 0; i < 100; ++i) copy<<<256, 256>>>(x, y);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
  printf("%f GB/s\\n", bytes / ms / 1e6);
}
```

## Use instead
```python
import time
import torch

buffers = [torch.randn(1 << 20, device="cuda") for _ in range(100)]
y = torch.empty(1 << 20, device="cuda")
y.copy_(buffers[0])
torch.cuda.synchronize()
t0 = time.perf_counter()
for x in buffers:
    y.copy_(x)
torch.cuda.synchronize()
seconds = (time.perf_counter() - t0) / 100
print(f"{8 * (1 << 20) / seconds / 1e9} GB/s")
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.scopes import (
    callee_text,
    keyword,
    last_segment,
    leaf_names,
    loop_body,
    positional,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region

CODE = "TIM306"
LABEL = "WARM-L2"
DEFAULT = False
SEVERITY = "info"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "the same buffers are used in every iteration; the bandwidth printed may be that of the"
    " L2 cache"
)
HELPER = (
    "{call}() is asked for a cold cache but gets a function without arguments, whose buffers"
    " it cannot rotate"
)
NOTE = (
    "Rotate buffers that exceed the cache together, or flush it between samples;"
    " render-timing simple-event has a cold-cache option."
)
_BANDWIDTH = re.compile(r"[GT]i?B/s|GBps|TBps|gbps|gb_per_s|bandwidth|\bcold\b", re.IGNORECASE)
_FLUSH = re.compile(
    r"flush|l2|evict|scrub|wipe|thrash|cache\w*\.(zero_|fill_)|rotat|cold", re.IGNORECASE
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each loop over the same buffers."""
    yield from _helpers(source)
    if not _BANDWIDTH.search(source.tree.text):
        return
    seen: set[int] = set()
    for region in source.regions.all:
        if (
            region.kind not in ("clock", "event")
            or training_loops.is_training(region)
            or region.carried
        ):
            continue
        for step in region.steps:
            loops = region.inner_loops(step.site) or region.sample_loops[:1]
            if not (step.works or r.BLOCKING in step.roles) or not loops or id(step.site) in seen:
                continue
            if (
                r.ARITHMETIC in step.roles
                or _varies(step.site, loops[0])
                or _FLUSH.search(loops[0].text)
            ):
                continue
            if _claims_bandwidth(source, region):
                seen.add(id(step.site))
                yield Report(step.site, MESSAGE)
                break


def _varies(site: Node, loop: Node) -> bool:
    """Whether the call uses something that the loop changes."""
    body = loop_body(loop)
    header = [n.text for c in loop.children if c is not body for n in c.walk() if n.kind == "name"]
    bound = set(header[:3]) | {
        n.children[0].text
        for n in (body.walk() if body else ())
        if n.kind == "assign" and n.start < site.start
    }
    names = leaf_names(site)
    return bool((names & bound) - {"_", "range", "enumerate"})


def _claims_bandwidth(source: SourceFile, region: Region) -> bool:
    scope = region.scope
    text = source.tree.text[scope.node.start : scope.node.end]
    return bool(_BANDWIDTH.search(text))


def _helpers(source: SourceFile) -> Iterator[Report]:
    for call in source.scopes.calls:
        if (
            not re.match(r"(bench_gpu_time|do_bench)", last_segment(callee_text(call)))
            or call.kind != "call"
        ):
            continue
        cold = keyword(call, "cold_l2_cache")
        given = positional(call)
        if (
            cold is None
            or cold.text != "True"
            or not given
            or keyword(call, "input_args") is not None
        ):
            continue
        function = source.scopes.callable_value(given[0], source.scopes.scope_of(call))
        if function is not None and not function.parameters:
            yield Report(call, HELPER.format(call=last_segment(callee_text(call))))

"""A CuTe DSL function is called directly where it is measured, not compiled before.

## What it does
Reports a direct call of a function decorated with `@cute.jit` inside a measured region or in a
function that a benchmark helper times.

## Why it misleads
Each direct call goes through the DSL: it builds the key of the cache from all arguments and looks
up (or compiles) the code. That costs tens to hundreds of microseconds, more than many kernels run.

## Known problems
Functions that are imported from another file are not known to be `@cute.jit` functions.

## Example
```python
import time
import cutlass.cute as cute
import torch

@cute.jit
def add_host(a, b, c):
    add_kernel(a, b, c).launch(grid=(64, 1, 1), block=(256, 1, 1))

add_host(a, b, c)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    add_host(a, b, c)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```

## Use instead
```python
import time
import cutlass.cute as cute
import torch

@cute.jit
def add_host(a, b, c):
    add_kernel(a, b, c).launch(grid=(64, 1, 1), block=(256, 1, 1))

run = cute.compile(add_host, a, b, c)
run(a, b, c)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    run(a, b, c)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import callee_text
from perf_timing.lint.engine import Report, SourceFile

CODE = "TIM207"
LABEL = "JIT-IN-TIMED"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python",)
MESSAGE = (
    "{name}() is a @cute.jit function that is called directly in the measured region; each"
    " call rebuilds its cache key"
)
NOTE = "Compile it once with cute.compile(...) and call the result; render-timing cute does so."


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each measured direct call."""
    jitted = {
        scope.name
        for scope in source.scopes.all
        if any(
            re.search(r"^@\s*(cute|cutlass\.cute|flyc|fx)\.jit\b", d.text) for d in scope.decorators
        )
    }
    seen: set[int] = set()
    for region in [*source.regions.all, *source.regions.harnessed] if jitted else ():
        for step in region.steps:
            if (
                step.node.kind == "call"
                and callee_text(step.node) in jitted
                and id(step.node) not in seen
            ):
                seen.add(id(step.node))
                yield Report(step.node, MESSAGE.format(name=callee_text(step.node)))

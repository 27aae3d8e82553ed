"""Code is compiled, traced, tuned or loaded inside the measured region.

## What it does
Reports compile, trace, build and load calls between the two readings or in a function that a
benchmark helper times, and the first call of a function that is compiled on its first call
(torch.compile, numba.cuda.jit) where it lies inside. So does the first step of a training under a
clock that is stopped to validate and started again, unless the steps at first are left out.

## Why it misleads
Compilation takes seconds where the work takes microseconds. Where it happens once, the mean of many
samples hides it; where it happens in each call, the figure is compile time.

## Known problems
Measurements whose names say that compile or load time is meant are not reported, nor is a
compilation that is timed alone or within more than a hundred lines.

## Example
```python
import time
import torch

compiled = torch.compile(model)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(10):
    compiled(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 10)
```
```cuda
int main() {
  cudaEventRecord(start);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, 0);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
}
```

## Use instead
```python
import time
import torch

compiled = torch.compile(model)
for _ in range(3):
    compiled(x)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(10):
    compiled(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 10)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    is_dropped,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import captions, programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.warmup import dropped_samples, warmups
from perf_timing.lint.work.lazy import lazy_names, used

CODE = "TIM206"
LABEL = "JIT-IN-TIMED"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "error"
LANGUAGES = ("python", "cuda")
MESSAGE = "{call} compiles or loads code inside the region that line {start} starts to measure"
FIRST = (
    "the first call of {call} compiles it, inside the region that line {start} starts to measure"
)
NOTE = (
    "Compile and call once before the measurement; render-timing simple-event, triton and"
    " cute do so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each compilation that is measured."""
    seen: set[int] = set()
    for region in [*source.regions.all, *source.regions.harnessed]:
        if (
            region.carried
            or region.hooked
            or region.cumulative
            or _meant(source, region)
            or programs.is_program(source, region)
        ):
            continue
        for step in region.steps:
            if not _beside_work(region, step):
                continue
            if r.COMPILE in step.roles and id(step.node) not in seen and not _cached(step):
                seen.add(id(step.node))
                call = f"{last_segment(callee_text(step.node))}()"
                yield Report(step.node, MESSAGE.format(call=call, start=region.start.line))
        for capture in _captures(source, region):
            if id(capture) not in seen:
                seen.add(id(capture))
                call = f"{last_segment(callee_text(capture))}() captures a graph, which"
                yield Report(capture, MESSAGE.format(call=call, start=region.start.line))
        first = _first_call(source, region) if region.kind != "harness" else None
        if first is not None and id(first[0]) not in seen:
            seen.add(id(first[0]))
            yield Report(first[0], FIRST.format(call=first[1], start=region.start.line))
    for training in training_loops.step_loops(source):
        for clock in training_loops.running_clocks(source, training):
            compiled = training_loops.compiled_in(source, training, clock)
            if compiled is not None and id(compiled.site) not in seen:
                seen.add(id(compiled.site))
                call = used(compiled, lazy_names(source)) or ""
                message = FIRST.format(call=call, start=clock.opening.line)
                yield Report(compiled.site, message, anywhere=True)


_MOST_LINES = 100  # a longer span is a phase of a program


def _beside_work(region: Region, step: Step) -> bool:
    """Whether the region runs something as well: alone, the time of the compilation is meant."""
    if region.kind != "harness" and region.end.line - region.start.line > _MOST_LINES:
        return False
    return region.kind == "harness" or any(
        s is not step and (s.works or s.roles & {r.BLOCKING, r.OPAQUE}) for s in region.steps
    )


def _captures(source: SourceFile, region: Region) -> Iterator[Node]:
    """Graph captures inside the region."""
    if region.kind == "harness" or not purpose.is_benchmark(source, region):
        return
    for node in region.scope.nodes:
        if node.kind == "call" and region.holds(node):
            full = source.scopes.resolve(callee_text(node))
            if re.search(r"torch\.cuda\.graph$|StreamBeginCapture$|\.capture_begin$", full):
                yield node


def _meant(source: SourceFile, region: Region) -> bool:
    return captions.means_first(source, region) or any(r.HARNESS in s.roles for s in region.steps)


def _cached(step: Step) -> bool:
    """Whether a condition (a cache look-up) or a cached function surrounds the call."""
    if any(helper.remembers for helper in step.helpers):
        return True
    for parent in step.node.ancestors():
        if parent.kind in ("if", "elif", "else", "except"):
            return True
        if parent.kind in ("function", "lambda"):
            return False
    return False


def _first_call(source: SourceFile, region: Region) -> tuple[Node, str] | None:
    """The call that runs a lazily compiled function for the first time in the file's order."""
    lazy = lazy_names(source)
    if not lazy or not purpose.is_benchmark(source, region):
        return None
    for step in region.steps:
        name = used(step, lazy)
        if name is None or step.site.kind != "call":
            continue
        if warmups.ran_before(source, region.scope, region.begins, [step]) and not _fresh(
            source, region, name
        ):
            return None
        if _named_before(source, region, name):
            return None
        if dropped_samples.drops_samples(source, region):
            return None
        called = step.site.text + (step.node.text if any(h.name for h in step.helpers) else "")
        if name not in called or any(name in s.parameters for s in _around(region, step)):
            break  # it came in through a parameter: the caller's line says which function it is
        return step.site, name
    return _passed_in(source, region, lazy)


def _around(region: Region, step: Step) -> list[Scope]:
    """The functions whose parameters a step may call: those that measure and those it is in."""
    return [*region.scope.enclosing(), *step.helpers]


def _passed_in(
    source: SourceFile, region: Region, lazy: dict[str, Node]
) -> tuple[Node, str] | None:
    """A call of the measuring function that hands it a function which has not been compiled yet."""
    scope = region.scope
    called = {callee_text(s.site): s for s in region.steps if s.site.kind == "call"}
    mine = [called[name] for name in scope.parameters if name in called]
    if not mine or warmups.warmed_inside(source, region, mine):
        return None
    for site in source.scopes.call_sites(scope):
        for argument in () if is_dropped(site) else positional(site):
            for name in lazy:
                if re.search(
                    rf"(?<![\w.]){re.escape(name)}(?!\w)", argument.text
                ) and not _used_before(source, name, lazy[name], site):
                    return site, name
    return None


def _used_before(source: SourceFile, name: str, made: Node, site: Node) -> bool:
    around = list(source.scopes.scope_of(site).enclosing())
    return any(
        node.kind == "name" and node.text == name and made.end < node.start < site.start
        for scope in [*around, *source.scopes.all]
        for node in scope.nodes
        if scope in around or scope.node.start > made.end
    )


def _fresh(source: SourceFile, region: Region, name: str) -> bool:
    """Whether what ran before was called without the compiled function as an argument."""
    return any(
        name in {squeeze(a.text) for a in positional(s.site)}
        for s in region.steps
        if s.site.kind == "call"
    )


def _named_before(source: SourceFile, region: Region, name: str) -> bool:
    """Whether the compiled function is called or handed on before the region starts."""
    made = lazy_names(source)[name]
    for scope in region.scope.enclosing():
        for node in scope.nodes:
            if node.kind == "name" and node.text == name and made.end < node.start < region.begins:
                parent = node.parent
                if parent is not None and parent.kind in ("call", "args", "subscript", "attribute"):
                    return True
    sites = source.scopes.call_sites(region.scope)
    return any(
        node.kind == "name" and node.text == name and made.end < node.start < site.start
        for site in sites[:1]
        for node in source.scopes.scope_of(site).nodes
    )

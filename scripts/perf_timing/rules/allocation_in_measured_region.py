"""A buffer is allocated or filled inside the measured region.

## What it does
Reports allocations (torch.empty, zeros, clone, cudaMalloc and their like) between the two readings,
or in a function that a benchmark helper times, where the region also does other work. In Python the
copy of an input counts as well that stands in the one call of a sample, as in model(x.cuda()) or
a.dot(cupy.asarray(b)), and in C++ what a function allocates and frees again of which a host clock
times one call.

## Why it misleads
The allocator, the fill kernel or, for clone(), a copy of all the data is billed to the work that
the figure is about. cudaMalloc and cudaFree also wait for the device.

## Known problems
Where the output buffer is part of what is compared (an API that returns a new tensor), the report
can be suppressed with that reason. A branch that picks the function which is timed hides nothing in
it. A constant that an operator takes where it is made, and zeros of
an accumulator of atomics, are part of what a timed function computes. Model code is not reported,
and training steps only where the first of them are left out, or, of random data that is made in
each of them, where a warm-up precedes those of a benchmark. Nor is a copy of what the iteration
before has brought, nor one that is part of a figure from end to end by its name. Nor is a figure
beside which another one leaves the allocation out: it is the total. Nor is what loops over a round
trip, with the same data to the device and a result back in each iteration. In C++ one report stands
for three and more allocations of a block.

## Example
```python
import torch

a = torch.randn(4096, 4096, device="cuda")
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
torch.mm(a, a)
start.record()
for _ in range(100):
    out = torch.empty(4096, 4096, device="cuda")
    torch.mm(a, a, out=out)
end.record()
end.synchronize()
print(start.elapsed_time(end) / 100)
```
```cuda
int main() {
  cudaEventRecord(start);
  for (int i = 0; i < 10; ++i) {
    cudaMalloc(&y, n * sizeof(float));
    scale<<<256, 256>>>(x, y);
    cudaFree(y);
  }
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
}
```

## Use instead
```python
import torch

a = torch.randn(4096, 4096, device="cuda")
out = torch.empty(4096, 4096, device="cuda")
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
torch.mm(a, a, out=out)
start.record()
for _ in range(100):
    torch.mm(a, a, out=out)
end.record()
end.synchronize()
print(start.elapsed_time(end) / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code.flow import Step, exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    last_segment,
    positional,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.intent import captions, programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.warmup import dropped_samples, warmups
from perf_timing.lint.work import workload

CODE = "TIM203"
LABEL = "ALLOC"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{call}() allocates inside the region that line {start} starts to measure; the figure"
    " includes the allocation"
)
SEVERAL = (
    "{call}() and {more} more calls allocate inside the region that line {start} starts to"
    " measure; the figure includes the allocations"
)
COPIES = (
    "{call}() copies inside the region that line {start} starts to measure; the figure includes"
    " the copy"
)
COPIES_NOTE = (
    "Copy before the measurement, and only where the work writes into its input; render-timing"
    " simple-event and raw-cuda do so."
)
NOTE = (
    "Allocate before the measurement and pass the buffer in; render-timing simple-event and"
    " raw-cuda do so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each allocation that is measured with other work."""
    seen: set[int] = set()
    for region in [*source.regions.all, *source.regions.harnessed]:
        if not _applies(source, region):
            continue
        found = [
            step
            for step in region.steps
            if id(step.node) not in seen
            and (
                (r.ALLOC in step.roles and _counts(source, region, step))
                or _uploads_input(source, region, step)
            )
        ]
        seen |= {id(step.node) for step in found}
        if _is_training(region) and not _drops_first(source, region):
            yield from _data_of_steps(region, found)
            continue
        for step, others in _grouped(source, found):
            yield _report(source, region, step, others)


def _data_of_steps(region: Region, found: list[Step]) -> Iterator[Report]:
    """Random data made in each training step of a benchmark, once a line of the step."""
    lines: set[int] = set()
    for step in found:
        if _RANDOM.search(callee_text(step.node)) and step.site.line not in lines:
            lines.add(step.site.line)
            call = last_segment(callee_text(step.site if step.helpers else step.node))
            message = MESSAGE.format(call=call, start=region.start.line)
            related = [(region.start, "measured from here")]
            if step.helpers:
                related.insert(0, (step.node, "allocated here"))
            yield Report(step.site, message, related=tuple(related))


def _grouped(source: SourceFile, found: list[Step]) -> Iterator[tuple[Step, list[Step]]]:
    """Each allocation; of many in one block of C++ the first, which stands for the others."""
    blocks: dict[int, list[Step]] = {}
    for step in found:
        block = next((p for p in step.node.ancestors() if p.kind in ("block", "module")), step.node)
        blocks.setdefault(id(block), []).append(step)
    for steps in blocks.values():
        if source.language == "cuda" and len(steps) >= _MANY:
            yield steps[0], steps[1:]
        else:
            yield from ((step, []) for step in steps)


_MANY = 3


def _report(source: SourceFile, region: Region, step: Step, others: list[Step]) -> Report:
    call, line = last_segment(callee_text(step.node)), region.start.line
    copies = call in ("clone", "deepcopy", "new_tensor", "to", "cuda")
    message = (COPIES if copies else MESSAGE).format(call=call, start=line)
    if others:
        message = SEVERAL.format(call=call, more=len(others), start=line)
    related = [(region.start, "measured from here"), *((s.node, "this too") for s in others)]
    return Report(
        step.node,
        message,
        note=COPIES_NOTE if copies else "",
        related=tuple(related),
        anywhere=region.kind == "harness" or purpose.is_measuring(source, region.start),
    )


def _applies(source: SourceFile, region: Region) -> bool:
    if region.kind not in ("clock", "event", "harness") or region.carried or region.cumulative:
        return False
    if region.kind == "harness" and "kineto" in callee_text(region.start):
        return False  # a profiler tells the times of single kernels
    meant = purpose.is_benchmark(source, region) or fates.returns_time(source, region)
    if not meant:
        return False
    if _is_training(region) and not (
        _drops_first(source, region) or _benchmarks_steps(source, region)
    ):
        return False
    if source.flow.host_only(region.end, region.scope):
        return False
    if region.kind != "harness" and captions.means_first(source, region):
        return False
    if region.kind != "harness" and programs.is_progress(source, region):
        return False
    if programs.is_total(source, region):
        return False  # the run time of a program holds its allocations
    if workload.makes_round_trip(source, region):
        return False  # as does that of a trip to the device and back
    meant_elsewhere = r"estimat|probe|calib|alloc|malloc|memory|clone|init|creat"
    if source.language == "python":
        meant_elsewhere += r"|copy|transfer"  # there the copy makes the buffer
    return not re.search(meant_elsewhere, source.intent(region), re.IGNORECASE)


def _is_training(region: Region) -> bool:
    """Whether training steps are timed, and no function that a harness repeats."""
    return region.kind != "harness" and training_loops.is_training(region)


def _benchmarks_steps(source: SourceFile, region: Region) -> bool:
    """Whether training steps are repeated to be timed: a warm-up ran before, under such a name."""
    return (
        source.language == "python"
        and purpose.is_named_so(source, region.delta)
        and warmups.warmed(source, region)
    )


_RANDOM = re.compile(r"(^|[._])(rand|randn|randint|random|normal|uniform)(_like)?$")


def _drops_first(source: SourceFile, region: Region) -> bool:
    """Whether the first of the samples are left out: training steps that are there to be timed."""
    return source.language == "python" and dropped_samples.drops_samples(source, region)


def _is_result(source: SourceFile, step: Step) -> bool:
    """Whether the buffer belongs to a function of the module that is timed as it is.

    That is a function with parameters, or one that returns the buffer. A closure of the benchmark,
    or a function that works on variables of the module, is the benchmark's own code.
    """
    function = source.scopes.scope_of(step.node)
    outer = function
    while outer.parent and outer.parent.node.kind != "module":
        outer = outer.parent
    if function.node.kind != "function" or not outer.parent:
        return False
    if step.helpers and function.parameters and outer.parameters and outer in step.helpers:
        return True
    if outer is not function:
        return False
    names = [target_key(p.children[0]) for p in step.node.ancestors() if p.kind == "assign"]
    returned = {leaf for n in function.nodes if n.kind == "return" for leaf in _handed_back(n)}
    return any(name in returned for name in names)


def _handed_back(node: Node) -> Iterator[str]:
    """The names of a returned value, without those of what it is worked out from.

    What is written to, as by torch.mm(a, b, out=c), is what comes back.
    """
    if node.kind == "name":
        yield node.text
        yield node.text.partition(".")[0]
    for child in node.children if node.kind != "binary" else ():
        if node.kind != "args" or re.match(r"out\s*=", child.text):
            yield from _handed_back(child)


def _only_makes(source: SourceFile, step: Step) -> bool:
    """Whether a function of the file does nothing on the device but to make random data."""
    steps = source.flow.steps(step.helpers[-1]) if step.helpers else []
    return all(r.ALLOC in s.roles or not s.works for s in steps) and bool(
        steps and _RANDOM.search(callee_text(step.node))
    )


def _is_temporary(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a function of C++ that is timed again and again makes a buffer and frees it.

    Or once, as the time of kernels. Its input is on the device already: a launch is given a pointer
    that the function is given. Where a host clock times one call, what it copies may be its input.
    """
    function = source.scopes.scope_of(step.node)
    if source.language != "cuda" or not _is_freed(step, function):
        return False
    if _is_one_call(region, step):
        return True
    repeated = region.sample_loops or region.inner_loops(step.site)
    if not (repeated or _OF_KERNELS.search(source.intent(region))):
        return False
    pointers = {p for p in function.parameters if "*" in function.parameter_text(p)}
    launches = [
        s.node
        for s in region.steps
        if s.works and r.COPY not in s.roles and source.scopes.scope_of(s.node) is function
    ]
    given = {leaf.text for node in launches for leaf in node.walk() if leaf.kind == "name"}
    return bool(pointers & given)


def _is_freed(step: Step, function: Scope) -> bool:
    """Whether a function of C++ frees what it has allocated."""
    made = base_name(re.sub(r"^\(\s*\w+\s*\*+\s*\)", "", positional(step.node)[0].text))
    return any(
        n.kind == "call"
        and re.fullmatch(r"(cuda|hip)Free(Async)?", callee_text(n))
        and any(base_name(a.text) == made for a in positional(n))
        for n in function.nodes
    )


def _is_one_call(region: Region, step: Step) -> bool:
    """Whether a host clock times one call of a function, which is no loop over cases of a test."""
    return region.kind == "clock" and len(step.helpers) == 1 and not region.inner_loops(step.site)


_OF_KERNELS = re.compile(r"kernel", re.IGNORECASE)


def _uploads_input(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether each sample of an operation copies its input to the device, in the measured call.

    model(x.cuda()), a.dot(cupy.asarray(b)) between the readings of a sample: that of a benchmark,
    and no pass over a data set, whose copies belong to what is measured.
    """
    uploads = r.UPLOAD in step.roles or step.roles & {r.COPY, r.READ} == {r.COPY}
    if not uploads or step.helpers or step.node.kind != "call":
        return False
    if source.language != "python" or region.kind == "harness" or not region.sample_loops:
        return False
    if region.inner_loops(step.site) or not purpose.is_measuring(source, step.node):
        return False
    if _WHOLE.search(source.intent(region)):
        return False
    outer = next((p for p in step.node.ancestors() if p.kind == "call"), None)
    works = [s for s in region.steps if s.works]
    alone = len(works) == 1 or training_loops.goes_back(region)
    return outer is not None and any(s.node is outer for s in works) and alone


_WHOLE = re.compile(
    r"e2e|end[ _]?(to|2)[ _]?end|total|full|whole|pipeline|transfer|copy|upload|h2d|io(?![a-z])",
    re.IGNORECASE,
)
_CONSTANT = re.compile(r"^(ones|zeros|full|eye)(_like)?$")


def _is_formula(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a timed function makes the tensor as a part of what it computes.

    That is a constant that an operator takes, as in torch.tril(torch.ones(n, n)), or an accumulator
    of atomics, which has to be zero each time. Between two readings, a constant in the shape of
    another operand, in a function that is called there: torch.where(mask, torch.full_like(x, -1)).
    """
    made = last_segment(callee_text(step.node))
    if region.kind != "harness" and not (made.endswith("_like") and step.helpers):
        return False
    if region.kind == "harness" and made.startswith("zeros") and "atomic" in source.tree.text:
        return True
    outer = next((p for p in step.node.ancestors() if p.kind == "call"), None)
    return bool(
        outer is not None
        and _CONSTANT.match(made)
        and callee_text(outer).startswith("torch.")
        and not callee_text(outer).startswith(("torch.ops", "torch.autograd"))
    )


def _keeps_last(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a copy is made of what the iteration before has brought: token = run(token.clone()).

    It cannot be made before the loop, and where a graph is replayed it must be made.
    """
    receiver, _, call = callee_text(step.node).rpartition(".")
    loops = region.inner_loops(step.node) if call in ("clone", "copy") else []
    return any(
        value.kind == "call" and loop.start <= value.start < loop.end
        for loop in loops[:1]
        for _, value in source.scopes.assignments(receiver, source.scopes.scope_of(step.node))
    )


def _left_out_inside(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether figures of parts of the region leave the allocation out: this one is the total."""
    return any(
        region.holds(other.start)
        and region.holds(other.end)
        and not other.holds(step.site)
        and source.works(other)
        for other in source.regions.all
        if other.scope is region.scope and other is not region and other.timer is None
    )


def _always_taken(region: Region, branch: Node) -> bool:
    """Whether all iterations of the measured loops of Python around a branch take it, or none."""
    loops = [loop for loop in region.inner_loops(branch) if loop.kind != "comp"]
    loops += region.sample_loops
    return bool(loops) and branch.tree.language == "python" and conditions.settled(branch, loops[0])


def _chooses(region: Region, branch: Node, function: Node) -> bool:
    """Whether a branch picks what a harness times: the function stands in it, or another one."""
    inside = branch.start <= function.start and function.end <= branch.end
    return region.kind == "harness" and inside


def _counts(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether the allocation is on the device, beside other work and not inside a model."""
    if re.search(r"(^|[._])(jnp|jax)\.|numpy\.(array|asarray)$", callee_text(step.node)):
        return False  # XLA allocates by itself
    if "host" in step.roles or any(
        h.short_name in ("forward", "__init__", "setup", "generate") for h in step.helpers
    ):
        return False
    inside = source.scopes.scope_of(step.site).node
    if conditions.rare(
        step.site, region.start, lambda b: _always_taken(region, b) or _chooses(region, b, inside)
    ):
        return False
    data = training_loops.is_training(region) and _only_makes(source, step)
    if not data and _is_result(source, step) and not _is_temporary(source, region, step):
        return False
    if _is_formula(source, region, step):
        return False
    if _left_out_inside(source, region, step) or _keeps_last(source, region, step):
        return False
    others = [
        s for s in region.steps
        if s.node is not step.node
        and not exclusive(s.node, step.node)
        and r.ALLOC not in s.roles
        and (s.works or s.roles & {r.BLOCKING, r.OPAQUE, r.FILL})
    ]  # fmt: skip
    return bool(others)

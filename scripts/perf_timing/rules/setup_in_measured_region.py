"""A cache flush or a reset runs inside the measured region.

## What it does
Reports flushes of the L2 cache, empty_cache, gc.collect, seeding and counter resets between the two
readings or in a function that a benchmark helper times; in C++ the set-up of a library (a handle, a
plan, a generator) in each iteration of what is measured, or once between two events, and the fill
of a result in each iteration; and copies on the device that give work in place its input back, from
a buffer that nothing else in the loop uses.

## Why it misleads
The flush writes hundreds of megabytes: it takes longer than most kernels and is billed to them. It
also favours variants that touch less of the buffer. cublasCreate() allocates, and cublasDestroy()
waits for the device, by the documentation of cuBLAS.

## Known problems
A buffer counts as a flush buffer by its name (cache, flush, l2, wipe, scrub, evict). A library that
is set up once in the time that a host clock takes of a program is not reported, nor is a fill of
one value or in a solver that runs to a tolerance, nor where the names say that memory is filled.

## Example
```python
import torch
import triton.testing

flush = torch.empty(256 * 1024 * 1024, dtype=torch.int8, device="cuda")

def candidate():
    flush.zero_()
    return kernel(a, b)

print(triton.testing.do_bench(candidate, quantiles=[0.5, 0.2, 0.8]))
```
```cuda
int main() {
  cudaEventRecord(start);
  for (int i = 0; i < 100; ++i) {
    cublasCreate(&handle);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
    cublasDestroy(handle);
  }
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
  printf("%f ms\\n", ms / 100);
}
```

## Use instead
```python
import torch
import triton.testing

def candidate():
    return kernel(a, b)

print(triton.testing.do_bench(candidate, quantiles=[0.5, 0.2, 0.8]))
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    bare_operator,
    callee_text,
    last_segment,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import captions, convergence, programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work import workload

CODE = "TIM208"
LABEL = "SETUP-IN-TIMED"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{call}() prepares a sample inside the region that line {start} starts to measure; the"
    " figure includes it"
)
LIBRARY = (
    "{call}() sets up a library in every iteration of a loop inside the region that line {start}"
    " starts to measure; the figure includes it"
)
ONCE = (
    "{call}() sets up a library inside the region that line {start} starts to measure; the figure"
    " includes it"
)
LIBRARY_NOTE = (
    "Set the library up once before the opening reading; render-timing simple-event and raw-cuda"
    " measure what is left."
)
RESTORE = (
    "{call}() gives `{to}` its content back inside the region that line {start} starts to measure;"
    " the figure includes the copy"
)
RESTORE_NOTE = (
    "Time each iteration by itself, with the copy before its opening reading, or subtract what the"
    " copy takes alone; render-timing simple-event and raw-cuda measure what is left."
)
FILL = (
    "{call}() clears a result in every iteration inside the region that line {start} starts to"
    " measure; the figure includes it"
)
FILL_NOTE = (
    "Clear it before the opening reading of each sample, or subtract what the fill takes alone;"
    " render-timing simple-event and raw-cuda measure what is left."
)
NOTE = (
    "Prepare before the opening reading, or let the benchmark helper flush; render-timing"
    " simple-event has a cold-cache option that does so."
)
# A preparation is measured for its own sake, or with all that goes before what is measured.
_MEANT = r"estimat|probe|calib|set_?-?up(?!s)|prepar|workflow"
_CLOSE_LINES = 60  # a window that long is a phase of a program
_BUFFER = re.compile(
    r"(^|[._])(\w*flush\w*|wipe\w*|l2_?\w*|\w*_l2\w*|cache|\w*_cache_buf\w*|cache_buf\w*"
    r"|scrub\w*|evict\w*|thrash\w*|dirty\w*)\.(zero_|fill_|random_|normal_|add_|copy_)$",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"(^|[._])(empty_cache|reset_peak_memory_stats|reset_max_memory_allocated"
    r"|gc\.collect|manual_seed\w*|flush_l2\w*|flush_cache\w*|clear_l2\w*|clear_cache\w*"
    r"|l2_flush\w*|cache_flush\w*)$"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each preparation that is measured."""
    seen: set[int] = set()
    yield from _restores(source, seen)
    if source.language == "cuda":
        yield from _libraries(source, seen)
        yield from _clears(source, seen)
        return
    for region in [*source.regions.all, *source.regions.harnessed]:
        if (
            region.kind not in ("clock", "event", "harness")
            or region.carried
            or region.hooked
            or region.timer
        ):
            continue
        if not purpose.is_benchmark(source, region) or training_loops.is_training(region):
            continue
        if region.end.line - region.start.line > _CLOSE_LINES or _subtracted(source, region):
            continue
        if region.kind != "harness" and programs.is_program(source, region):
            continue
        if region.cumulative or re.search(_MEANT, source.intent(region), re.IGNORECASE):
            continue
        if not any(s.works or s.roles & {r.BLOCKING, r.OPAQUE} for s in region.steps):
            continue
        for node in _preparations(source, region):
            if _tidies_up(source, region, node):
                continue
            if id(node) not in seen and not conditions.rare(node, region.start):
                seen.add(id(node))
                yield Report(
                    node,
                    MESSAGE.format(call=last_segment(callee_text(node)), start=region.start.line),
                )


def _tidies_up(source: SourceFile, region: Region, call: Node) -> bool:
    """Whether a call follows a measurement inside the region, which is how long all of it takes."""
    return any(
        inner is not region
        and inner.scope is region.scope
        and region.start.end <= inner.start.start
        and inner.end.end <= call.start
        and source.works(inner)
        for inner in source.regions.all
    )


def _restores(source: SourceFile, seen: set[int]) -> Iterator[Report]:
    """Copies on the device that give the measured work its input back, in every iteration."""
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.carried or region.cumulative:
            continue
        if not purpose.is_benchmark(source, region) or training_loops.is_training(region):
            continue
        if _MOVES.search(source.intent(region)) or programs.is_program(source, region):
            continue
        for step in region.steps:
            buffers = _copied(source, step.node)
            if not buffers or step.helpers or id(step.node) in seen:
                continue
            if _gives_back(region, step, *buffers):
                seen.add(id(step.node))
                call = last_segment(callee_text(step.node))
                text = RESTORE.format(call=call, to=buffers[0], start=region.start.line)
                related = ((region.start, "measured from here"),)
                yield Report(step.node, text, note=RESTORE_NOTE, related=related)


def _copied(source: SourceFile, call: Node) -> tuple[str, str] | None:
    """(target, origin) of a copy of one buffer of the device to another, by their names."""
    if call.kind != "call":
        return None
    given = [argument.text for argument in positional(call)]
    if source.language == "cuda":
        whole = len(given) > 3 and re.search("emcpy", callee_text(call)) is not None
        names = given[:2] if whole and "DeviceToDevice" in call.text else []
    else:
        receiver, _, short = callee_text(call).rpartition(".")
        names = [receiver, given[0]] if short == "copy_" and len(given) == 1 else []
    plain = [name for name in map(squeeze, names) if re.fullmatch(r"[\w.]+(->\w+)*", name)]
    return (plain[0], plain[1]) if len(plain) == 2 and plain[0] != plain[1] else None


def _gives_back(region: Region, copy: Step, target: str, origin: str) -> bool:
    """Whether a loop's work runs on a buffer that was filled from one which nothing else uses."""
    loops = region.inner_loops(copy.site) or region.sample_loops
    if not loops:
        return False
    others = [
        s
        for s in region.steps
        if s.site is not copy.site and s.works and loops[0].start <= s.site.start < loops[0].end
    ]
    used = [s for s in others if _names(s.site, target) and s.position > copy.position]
    return bool(used) and not any(_names(s.site, origin) for s in others)


def _names(site: Node, buffer: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(buffer)}(?!\w)", site.text) is not None


_MOVES = re.compile(r"cop(y|ies)|memcpy|transfer|end.?to.?end", re.IGNORECASE)


def _libraries(source: SourceFile, seen: set[int]) -> Iterator[Report]:
    """Reports of handles and plans that C++ code makes again and again while it is measured."""
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.carried or region.cumulative:
            continue
        if region.timer or not purpose.is_benchmark(source, region):
            continue
        if captions.means_first(source, region) or not source.works(region):
            continue
        for step in region.steps:
            repeated = region.inner_loops(step.site) or region.sample_loops
            if r.SETUP not in step.roles or id(step.node) in seen:
                continue
            if not repeated and not _delays(source, region, step):
                continue
            seen.add(id(step.node))
            call = last_segment(callee_text(step.node))
            text = (LIBRARY if repeated else ONCE).format(call=call, start=region.start.line)
            related = ((region.start, "measured from here"),)
            yield Report(step.node, text, note=LIBRARY_NOTE, related=related)


def _delays(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether two events around work of the device hold a library that is set up once.

    Between events nothing is meant but what the device does, and it idles meanwhile. A host clock
    may take the time of a program, which holds all that is done once.
    """
    if region.kind != "event" or region.wraps_measurement or step.helpers:
        return False
    if conditions.conditional(step.node, region.start) or programs.is_total(source, region):
        return False
    return any(s.works and r.COPY not in s.roles for s in region.steps)


def _clears(source: SourceFile, seen: set[int]) -> Iterator[Report]:
    """Reports of fills that C++ code repeats before the kernel whose result they prepare."""
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.carried or region.cumulative:
            continue
        if region.timer or not purpose.is_benchmark(source, region):
            continue
        if convergence.runs_to_tolerance(region):
            continue
        if workload.copies_both_ways(region) or _FILLING.search(source.intent(region)):
            continue
        for step, loop, steps in _repeated(source, region):
            used = [s for s in steps if _uses(s, step)]
            if (
                id(step.node) in seen
                or not workload.fills(step)
                or not used
                or _is_small(step.node)
            ):
                continue
            if not conditions.rare(step.node, loop) and not convergence.steered(loop, region.steps):
                seen.add(id(step.node))
                call = last_segment(callee_text(step.node))
                text = FILL.format(call=call, start=region.start.line)
                related = ((region.start, "measured from here"),)
                yield Report(step.node, text, note=FILL_NOTE, related=related)


def _repeated(source: SourceFile, region: Region) -> Iterator[tuple[Step, Node, list[Step]]]:
    """The steps of each iteration of a region's loops, with the loop and all that it runs.

    Those of a function that a helper is given to repeat are told from inside that function.
    """
    for step in region.steps:
        for loop in region.inner_loops(step.site)[:1]:
            if not step.helpers:
                yield (
                    step,
                    loop,
                    [s for s in region.steps if region.inner_loops(s.site)[:1] == [loop]],
                )
    for _call, functions in workload.handed_in(source, region):
        for function in functions:
            steps = list(source.flow.steps(function))
            for step in steps:
                yield step, function.node, steps


def _uses(work: Step, fill: Step) -> bool:
    """Whether a launch behind a fill in C++ code is given the memory that was filled."""
    given = positional(fill.node) if fill.node.kind == "call" else []
    name = squeeze(given[0].text).lstrip("&(") if given else ""
    launched = work.works and work.node is not fill.node and not workload.fills(work)
    return bool(launched and name and work.position > fill.position) and _names(work.node, name)


def _is_small(fill: Node) -> bool:
    """Whether a single value is filled, as a counter that each launch needs at zero."""
    return bool(_ONE_VALUE.search(fill.text))


_ONE_VALUE = re.compile(r",\s*(1\s*\*\s*)?(sizeof\s*\([\w: *]+\)(\s*\*\s*1)?)\s*[,)]\s*[^,]*$")
_FILLING = re.compile(r"mem_?set|fill|clear|reset|zero|init", re.IGNORECASE)


def _subtracted(source: SourceFile, region: Region) -> bool:
    """Whether two times are subtracted, of the work with its preparation and of that alone."""
    if region.kind != "harness":
        return False
    assigned = next((p for p in region.start.ancestors() if p.kind == "assign"), None)
    name = target_key(assigned.children[0]) if assigned is not None else ""
    scope = source.scopes.scope_of(region.start)
    return any(
        node.kind == "binary"
        and bare_operator(node) == "-"
        and name in {target_key(child) for child in node.children}
        for node in scope.nodes
    )


def _preparations(source: SourceFile, region: Region) -> Iterator[Node]:
    for node in region.scope.nodes:
        if node.kind == "call" and region.holds(node):
            callee = callee_text(node)
            if "Generator(" in callee:
                continue
            if _BUFFER.search(callee) or _CALL.search(source.scopes.resolve(callee)):
                # A buffer that the measured work reads is data, not a flush buffer.
                name = callee.rpartition(".")[0]
                if callee.endswith("_") and _is_operand(region, name, node):
                    continue
                yield node


def _is_operand(region: Region, name: str, flush: Node) -> bool:
    return any(
        re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", s.site.text)
        for s in region.steps
        if s.site is not flush and s.site.kind == "call" and s.works
    )

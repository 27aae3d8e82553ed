"""A CUDA graph is captured, or first replayed, without a warm-up.

## What it does
Reports a capture whose work has not run eagerly before, and the opening reading of a region that
holds the first replay of a graph.

## Why it misleads
What libraries set up at first use (workspaces, modules, autotuning) is recorded into the graph, or
makes the capture fail. The first replay uploads the graph to the device and is slower than the
others.

## Known problems
torch.cuda.make_graphed_callables and do_bench_cudagraph warm up by themselves and are not reported.
A warm-up in another file is not seen. Captures of tests that measure nothing, or that only assert
on what they measure, are not reported.

## Example
```python
import torch

start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = model(x)
graph.replay()
start.record()
graph.replay()
end.record()
end.synchronize()
print(start.elapsed_time(end))
```
```cuda
void measure(cudaStream_t s) {
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  scale<<<256, 256, 0, s>>>(x);
  cudaStreamEndCapture(s, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaEventRecord(start, s);
  cudaGraphLaunch(exec, s);
  cudaEventRecord(stop, s);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
}
```

## Use instead
```python
import torch

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        out = model(x)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = model(x)
graph.replay()
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
for _ in range(100):
    graph.replay()
end.record()
end.synchronize()
print(start.elapsed_time(end) / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import Scope, callee_text, last_segment
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.files import evidence
from perf_timing.lint.intent import programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.warmup import dropped_samples, warmups
from perf_timing.lint.work import workload

CODE = "TIM302"
LABEL = "GRAPH-NOWARMUP"
DEFAULT = True
SEVERITY = "warning"
TRIGGER = evidence.measures_graph
LANGUAGES = ("python", "cuda")
_FARTHEST = 6  # calls of the file from a root to what it captures
MESSAGE = (
    "the work on line {work} is captured without having run before; one-time set-up is"
    " recorded or breaks the capture"
)
REPLAY = (
    "the first replay of the graph, on line {work}, is inside this measurement; it also"
    " uploads the graph"
)
NOTE = (
    "Run the work on a side stream before the capture and replay once before measuring;"
    " render-timing cuda-graph does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each cold capture and each cold replay."""
    timed = bool(source.regions.all or source.regions.harnessed or source.regions.pairs)
    captures = list(_captures(source)) if timed else []
    spans = [(scope, low, high) for _, scope, low, high in captures]
    for statement, scope, low, high in captures:
        if _only_tested(source, scope):
            continue
        steps = [
            s
            for s in source.flow.between(scope, low, high)
            if s.works or s.roles & {r.BLOCKING, r.OPAQUE}
        ]
        if (
            steps
            and not warmups.ran_before(source, scope, statement.start, steps)
            and not _ran_on_object(source, scope, steps, spans)
        ):
            yield Report(statement, MESSAGE.format(work=steps[0].site.line))
    yield from _replays(source, captures)


def _only_tested(source: SourceFile, scope: Scope) -> bool:
    """Whether nothing but tests that measure nothing capture this: the capture is their subject."""
    roots = list(_roots(source, scope))
    timed = {id(region.scope) for region in source.regions.all if _is_shown(source, region)}
    return all(root.is_test for root in roots) and not any(
        id(reached) in timed for root in roots for reached in _reached(source, root)
    )


def _is_shown(source: SourceFile, region: Region) -> bool:
    """Whether more is done with the time of a region than to assert on it."""
    value = fates.fate(source, region)
    passed = [call for call in value.passed if not _ASSERTS.search(callee_text(call))]
    return bool(value.printed or value.returned or value.lists or value.sums or passed)


_ASSERTS = re.compile(r"assert|require|expect|check", re.IGNORECASE)


def _roots(source: SourceFile, scope: Scope, depth: int = 0) -> Iterator[Scope]:
    """The functions that nobody in the file calls and that come to a function."""
    while scope.parent is not None and scope.parent.parent is not None:
        scope = scope.parent
    callers = {id(s): s for s in map(source.scopes.scope_of, source.scopes.call_sites(scope))}
    callers.pop(id(scope), None)
    if not callers or depth > _FARTHEST:
        yield scope
        return
    for caller in callers.values():
        yield from _roots(source, caller, depth + 1)


def _reached(source: SourceFile, scope: Scope) -> list[Scope]:
    """A function, those inside of it, and those of the file that they call."""
    found, seen = [scope], {id(scope)}
    for reached in found:  # grows while it is read
        called = (
            source.scopes.called_function(node, reached)
            for node in reached.nodes
            if node.kind == "call"
        )
        for other in (*reached.children, *called):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                found.append(other)
    return found


def _ran_on_object(
    source: SourceFile, scope: Scope, steps: list[Step], captured: list[tuple[Scope, int, int]]
) -> bool:
    """Whether another method, called before on the object that captures, runs the work.

    runner.benchmark(x); ... runner.capture(x); both with `gemm.run(stream)` in them. What that
    method captures does not run.
    """
    mine = workload.telling_identities(steps)
    running = {
        method.short_name
        for method in source.scopes.classes.get(scope.class_name, ())
        if method is not scope
        and any(
            s.works and workload.identities(s) & mine
            for s in source.flow.steps(method)
            if not any(m is method and low < s.position <= high for m, low, high in captured)
        )
    }
    if not scope.class_name or not running:
        return False
    sites = source.scopes.calls_by_name.get(scope.short_name, [])
    return any(
        _on_same(earlier, site)
        for site in sites
        for name in running
        for earlier in source.scopes.calls_by_name.get(name, [])
    )


def _on_same(earlier: Node, site: Node) -> bool:
    """Whether two calls of methods, one before the other in a function, name one object."""
    objects = [re.split(r"\.|->", callee_text(call))[:-1] for call in (earlier, site)]
    return bool(objects[0]) and objects[0] == objects[1] and earlier.end <= site.start


def _captures(source: SourceFile) -> Iterator[tuple[Node, Scope, int, int]]:
    for scope in source.scopes.all:
        for node in scope.nodes:
            if node.kind == "item" and node.parent is not None and node.children:
                call = node.children[0]
                body = node.parent.child("block")
                if call.kind == "call" and body and _is_graph(source, call):
                    yield call, scope, body.start - 1, body.end
        begins = [
            n
            for n in scope.nodes
            if n.kind == "call"
            and re.search(r"BeginCapture$|capture_begin$", callee_text(n))
            and not source.scopes.never_runs(n)
        ]
        ends = [
            n
            for n in scope.nodes
            if n.kind == "call" and re.search(r"EndCapture$|capture_end$", callee_text(n))
        ]
        for begin in begins:
            after = [e for e in ends if e.start > begin.end]
            if after:
                yield begin, scope, begin.end, after[0].start


def _is_graph(source: SourceFile, call: Node) -> bool:
    full = source.scopes.resolve(callee_text(call))
    return bool(re.search(r"torch\.(cuda|xpu)\.graph$|ScopedCapture$", full))


def _replays(source: SourceFile, captures: list[tuple[Node, Scope, int, int]]) -> Iterator[Report]:
    seen: set[int] = set()
    for region in source.regions.all:
        steps = [s for s in region.steps if r.REPLAY in s.roles]
        if not steps or id(region.start) in seen or region.timer is not None:
            continue
        if any(region.holds(statement) for statement, _, _, _ in captures):
            continue  # the time of all the set-up is meant, or is told by another rule
        if training_loops.is_training(region) or programs.is_program(source, region):
            continue
        if not purpose.is_benchmark(source, region):
            continue
        if region.scope.is_test and not _is_shown(source, region):
            continue
        if re.search(r"estimat|probe", source.intent(region), re.IGNORECASE):
            continue
        before = [
            s
            for s in source.flow.steps(region.scope)
            if _made(source, steps[0], region) <= s.position <= region.start.start
            and r.REPLAY in s.roles
        ]
        if (
            before
            or _replayed_by_caller(source, region.scope)
            or dropped_samples.drops_samples(source, region)
        ):
            continue
        if not _captured_here(source, steps[0]):
            continue
        seen.add(id(region.start))
        yield Report(
            region.start,
            REPLAY.format(work=steps[0].site.line),
            related=((steps[0].site, "first replay"),),
        )


def _made(source: SourceFile, replay: Step, region: Region) -> int:
    """Where the graph that is replayed was made: an earlier one of its name is another graph."""
    if source.language != "python" or replay.node.kind != "call":
        return 0
    graph = callee_text(replay.node).rpartition(".")[0]
    targets = [
        target.start
        for target, value in source.scopes.assignments(graph, region.scope)
        if value.kind == "call"
        and last_segment(callee_text(value)) in ("CUDAGraph", "XPUGraph")
        and source.scopes.scope_of(target) is region.scope
        and target.start < region.start.start
    ]
    return max(targets, default=0)


def _captured_here(source: SourceFile, step: Step) -> bool:
    """Whether the file itself captures graphs: elsewhere a first replay may have happened."""
    return bool(
        re.search(
            r"cuda\.graph\(|capture_begin|BeginCapture|CUDAGraph\(|GraphInstantiate",
            source.tree.text,
        )
    )


def _replayed_by_caller(source: SourceFile, scope: Scope) -> bool:
    for site in source.scopes.call_sites(scope):
        caller = source.scopes.scope_of(site)
        if caller is scope:
            continue
        if any(r.REPLAY in s.roles for s in source.flow.steps(caller) if s.position < site.start):
            return True
    return False

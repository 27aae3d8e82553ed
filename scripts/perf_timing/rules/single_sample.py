"""One sample is the result.

## What it does
Reports the opening reading of a measurement that executes its work once and whose one time is
printed or returned, and one of a loop of whose samples only one is read, as in times[1] or by
events that the loop records anew and that are read behind it. A loop of Python executes its work
once that goes through steps or layers, each of which takes what the one before has made. In C++ a
loop that counts to a number which the file sets to 1 executes its work, or takes its sample, once;
so does one that goes through the parts of it
(streams, members of an array, pieces that begin where its counter says, the diagonals of a
wavefront) or makes the passes of one algorithm: the strides of a sort, a reduction of what the last
pass has left. Python files that are not there to measure are asked where the text that shows the
time calls it a figure of speed, or where the times of two ways to do the same are printed.

## Why it misleads
Clocks change, other processes run, the allocator grows: two runs differ by several per cent. One
sample has no spread, so no reader can tell a difference from noise.

## Known problems
Runs of whole trainings and of compile or load phases are left out, and so are functions that the
file calls in a loop, unless each iteration is of another size or variant or the loop keeps the last
time alone; passes over a data set, web pages and services, examples that save what they made,
engines that serve many requests at once, tests that assert on results and print a time beside them,
"done in" lines of a program, and copies that are a stage of a breakdown, which ends where that of
the kernels begins, are too. So are functions of C++ that add their times to what their callers
know, phases of an application that a macro such as DEBUG_TIME switches on, launches whose time
tells how often to repeat, and what `%time` of a notebook shows. One call of a function of the file
that computes as much as a whole model is reported only where its time is divided by another.

## Example
```python
import time
import torch

a = torch.randn(4096, 4096, device="cuda")
a @ a
torch.cuda.synchronize()
t0 = time.perf_counter()
a @ a
torch.cuda.synchronize()
print(time.perf_counter() - t0)
```
```cuda
int main() {
  scale<<<256, 256>>>(x);
  cudaEventRecord(start);
  scale<<<256, 256>>>(x);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
  printf("%f ms\\n", ms);
}
```

## Use instead
```python
import time
import torch

a = torch.randn(4096, 4096, device="cuda")
a @ a
torch.cuda.synchronize()
times = []
for _ in range(7):
    t0 = time.perf_counter()
    for _ in range(100):
        a @ a
    torch.cuda.synchronize()
    times.append((time.perf_counter() - t0) / 100)
times.sort()
print("median", times[3], "range", times[0], times[-1])
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    is_target,
    loop_body,
    loop_header,
    loops_around,
    operator,
    positional,
    squeeze,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import comparisons, fates, reductions, totals
from perf_timing.lint.figures.quotients import quotients
from perf_timing.lint.intent import (
    captions,
    convergence,
    programs,
    purpose,
    repetitions,
    searches,
    sweeps,
)
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.warmup import warmups
from perf_timing.lint.work import workload

CODE = "TIM304"
LABEL = "SINGLE-RUN"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "info"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "the work between this reading and line {end} runs once; one sample is reported, without"
    " any spread"
)
NOTE = "Take many samples and report the median with a spread; render-timing simple-event does so."


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each result that is one sample."""
    seen: set[int | frozenset[int]] = set()
    for region in source.regions.all:
        if id(region.start) in seen or not _applies(source, region):
            continue
        if not _is_figure(source, region):
            continue
        work = workload.sites(region)
        if any(region.inner_loops(s.site) for s in workload.works(region)):
            work |= {0}  # the sum of what a loop inside may take one by one
        if work in seen:
            continue  # events inside a clock's readings
        seen |= {id(region.start), work}
        meant = warmups.warms_up(source, region) or purpose.is_told_finely(source, region)
        meant = meant or _is_speed(source, region) or _is_one_of_ways(source, region)
        yield Report(region.start, MESSAGE.format(end=region.end.line), anywhere=meant)


def _is_speed(source: SourceFile, region: Region) -> bool:
    """Whether plain Python code that prints a time calls it a figure of speed: "Inference time"."""
    return not any(s.class_name for s in region.scope.enclosing()) and any(
        map(captions.says_speed, fates.fate(source, region).printed)
    )


def _is_one_of_ways(source: SourceFile, region: Region) -> bool:
    """Whether a function prints the times of two ways to do the same: "naive", then "triton"."""
    others = [g for g in source.regions.all if g.scope is region.scope and g is not region]
    mine = _ways(source, region)
    return any(mine and ways - mine for ways in (_ways(source, other) for other in others))


def _ways(source: SourceFile, region: Region) -> set[str]:
    """By which names of implementations the printed time of a region is told."""
    said = (n.text for p in fates.fate(source, region).printed for n in p.walk())
    return {found.lower() for text in said for found in _WAYS.findall(text)}


_WAYS = re.compile(
    r"(?<![a-z])(naive|reference|ref|torch|pytorch|triton|cuda|flash|eager|compiled|fused|vanilla"
    r"|xformers|sdpa|baseline|custom|cutlass|cublas|cpp|jit|onnx|tensorrt|trt)(?![a-z])",
    re.IGNORECASE,
)


def _is_figure(source: SourceFile, region: Region) -> bool:
    """Whether the time is shown as it is, or kept as the one of its configuration."""
    value = fates.fate(source, region)
    if value.sums:
        return _samples_once(source, region)
    if value.lists and _reads_one(source, region):
        return True
    if value.lists:
        scope = source.scopes.scope_of(region.delta)
        applied = {a for name in value.lists for a in reductions.reducers(source, name, scope)}
        shown = {a for a in applied if _SHOWS.fullmatch(a)}
        others = {a for a in applied - shown if not _NEUTRAL.fullmatch(a)}
        return bool(region.sample_loops and shown) and not others
    told = value.printed or value.returned or value.shown
    return (
        bool(told)
        or fates.enters_result(source, region)
        or comparisons.with_another(source, region)
        or searches.decides(source, region)
    )


# What shows a list of times member by member, and what does nothing to them.
_SHOWS = re.compile(
    r"raw|plot|loglog|semilog[xy]|bar|scatter|DataFrame|to_csv|dumps?|savetxt", re.IGNORECASE
)
_NEUTRAL = re.compile(r"append|len|enumerate|zip|loop|list|array|asarray|print|indexed")


def _counts_as_one(source: SourceFile, region: Region) -> bool:
    """Whether each iteration is of another configuration, or only one sample of all is read."""
    repeated = [p for p in region.sample_loops if not repetitions.runs_once(source, p)]
    return (
        all(map(sweeps.is_sweep, repeated))
        or searches.decides(source, region)
        or _reads_one(source, region)
        or _reads_last(source, region)
    )


def _samples_once(source: SourceFile, region: Region) -> bool:
    """Whether the loop around a sample of C++ counts to 1, so that a sum holds no more."""
    return any(repetitions.runs_once(source, loop) for loop in region.sample_loops[:1])


def _reads_last(source: SourceFile, region: Region) -> bool:
    """Whether the time of two events is asked for behind the loop that records them each time.

    It is that of the last iteration, then.
    """
    if region.kind != "event" or region.carried or region.delta.kind != "call":
        return False
    events = source.regions.elapsed_events(region.delta)
    return (
        events is not None
        and not any("[" in event.text for event in events)
        and bool(region.sample_loops)
        and not loops_around(region.delta)
        and source.scopes.scope_of(region.delta) is region.scope
    )


def _reads_one(source: SourceFile, region: Region) -> bool:
    """Whether a list of samples is used for one of them alone: print(times[1])."""
    value = fates.fate(source, region)
    if len(value.lists) != 1 or value.sums or value.printed or source.language != "python":
        return False
    (name,) = value.lists
    scope = source.scopes.scope_of(region.delta)
    if reductions.reducers(source, name, scope) - {"indexed", "append"}:
        return False  # times.sort(): the member stands for all of them
    if not source.uses(f"{name}.append", scope):
        return False
    uses = source.uses(name, scope)
    read = [u for u in uses if not (u.parent is not None and u.parent.kind == "assign"
                                    and u.parent.children[0] is u)]  # fmt: skip
    texts = {squeeze(use.parent.text) for use in read if use.parent is not None}
    return len(texts) == 1 and all(
        use.parent is not None
        and use.parent.kind == "subscript"
        and re.fullmatch(rf"{re.escape(name)}\s*\[\s*-?\d+\s*\]", use.parent.text)
        for use in read
    )


def _applies(source: SourceFile, region: Region) -> bool:
    if (
        region.kind not in ("clock", "event")
        or (region.sample_loops and not _counts_as_one(source, region))
        or region.cumulative
        or _restarted(region)
        or source.regions.is_used_apart(region)
    ):
        return False
    steps = workload.works(region)
    if not steps or not source.evidence or any(r.HARNESS in s.roles for s in region.steps):
        return False
    again = [_repeats(source, region, s) for s in steps]
    # Where data is copied in and out, some of the kernels run once and loops are the algorithm's.
    if all(again) or (any(again) and not _runs_through(region)):
        return False
    if _is_shared_out(source, region) or not purpose.is_benchmark(source, region):
        return False
    if training_loops.is_training(region):
        return False
    if fates.hands_back_result(source, region):
        return False
    if purpose.unused(source, region.scope) or fates.never_used(source, region):
        return False
    if fates.kept_running(source, region):
        return False
    if all(r.REPLAY in s.roles for s in steps) and _unrolled(source):
        return False
    if fates.calibrates(source, region) or convergence.runs_to_tolerance(region):
        return False
    if source.language == "python" and _FORWARD.fullmatch(region.scope.short_name):
        return False  # of a module: each layer and each call of it tells its time
    if fates.asserted_positive(source, region):
        return False
    if captions.means_first(source, region):
        return False
    if source.flow.host_only(region.end, region.scope) or captions.host_time_meant(source, region):
        return False
    if programs.is_progress(source, region) or purpose.serves(source):
        return False
    if programs.loads_model(source, region):
        return False
    if purpose.answers_user(source, region) or purpose.makes_product(source, region):
        return False
    if _adds_up(source, region) or purpose.profiles(source, region):
        return False
    if purpose.is_shown_once(region) or _is_handed_out(source, region):
        return False
    told = _is_compared(source, region) or bool(region.sample_loops)
    told = told or _is_side_by_side(source, region)
    if programs.runs_much_once(source, region) and not told:
        return False
    # Each call of a search makes its own choice.
    return searches.decides(source, region) or not _repeated(source, region, region.scope)


_FORWARD = re.compile(r"forward(_(?!bench|time|pass)\w+)?")


def _is_handed_out(source: SourceFile, region: Region) -> bool:
    """Whether what measures any function returns its time to other files alone, who may repeat it.

    def measure_time(func): ...; return time.time() - start, which nothing in the file calls.
    """
    value, scope = fates.fate(source, region), region.scope
    told = value.printed or value.shown or not value.returned
    given = all(r.OPAQUE in s.roles for s in workload.works(region))
    return given and not told and bool(scope.name) and not source.scopes.call_sites(scope)


def _runs_through(region: Region) -> bool:
    """Whether C++ code copies in, launches and copies out once, whatever loops beside."""
    once = [s for s in workload.works(region) if not region.inner_loops(s.site) and not s.helpers]
    launches = [s for s in once if s.works and not s.roles & {r.COPY, r.LIKELY}]
    return workload.copies_both_ways(region) and len(launches) > 1


def _is_compared(source: SourceFile, region: Region) -> bool:
    """Whether the time is divided by another time, or another by it: one is 3 times as fast."""
    times = fates.fate(source, region).names
    return any(
        _is_quotient(node) and times & {c.text for c in node.children}
        for node in source.tree.of_kind("binary")
    )


def _adds_up(source: SourceFile, region: Region) -> bool:
    """Whether the function adds up its times for callers that are not seen: they take samples."""
    return any(
        other.scope is region.scope and fates.accumulates(source, other)
        for other in source.regions.all
    )


def _is_side_by_side(source: SourceFile, region: Region) -> bool:
    """Whether the function tells several times in the same words, one for each way of doing it.

    What is measured starts when the device has nothing else to do: it is no remark on the way.
    """
    return any(
        other is not region
        and other.scope is region.scope
        and _words(source, other) & _words(source, region)
        and all(_starts_idle(source, g) for g in (region, other))
        for other in source.regions.all
    )


@remembered
def _words(source: SourceFile, region: Region) -> set[str]:
    """The literal texts that the time of a region is printed with."""
    printed = fates.fate(source, region).printed
    return {
        re.sub(r"\{[^}]*\}", "", n.text) for p in printed for n in p.walk() if n.kind == "string"
    }


@remembered
def _starts_idle(source: SourceFile, region: Region) -> bool:
    """Whether the last that happens before a region is a wait for the device."""
    before = source.flow.between(region.scope, -1, region.start.start)
    return bool(before) and r.WAIT in before[-1].roles


def _is_quotient(node: Node) -> bool:
    """Whether two variables are divided: a speedup is the point of it then."""
    return operator(node).startswith("/") and all(c.kind == "name" for c in node.children)


def _restarted(region: Region) -> bool:
    """Whether the clock is started in a loop that goes on inside the region."""
    around = {id(loop) for loop in loops_around(region.end)}
    return any(id(loop) not in around for loop in loops_around(region.start))


def _repeats(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a loop repeats the work: it does not count to 1, nor do the work piece by piece."""
    if step.helpers and any(
        not repetitions.is_one_execution(source, region, loop, step.node)
        and not _hands_through(loop)
        for loop in loops_around(step.node)
    ):
        return True
    for loop in region.inner_loops(step.site):
        if repetitions.is_one_execution(source, region, loop, _launched_at(step)):
            continue
        if _hands_through(loop):
            continue
        if _decodes(loop) and purpose.is_named_so(source, region.start):
            continue
        header = loop_header(loop)
        pieces = re.search(r"\+=\s*(?!1\b)\w|=\s*(\w+)\s*\+\s*(?!1\b)\w+\s*\)", header)
        if loop.kind != "for" or pieces is None:
            return True
    return False


def _is_shared_out(source: SourceFile, region: Region) -> bool:
    """Whether Python code divides the time by how often a loop runs, whatever that loop calls."""
    loops = [n for n in region.scope.nodes if n.kind == "for" and region.holds(n)]
    counts = set().union(*map(totals.repeated_by, loops)) if source.language == "python" else ()
    return bool(counts) and any(
        squeeze(n.text) in counts for q in quotients(source, region) for n in q.below
    )


def _decodes(loop: Node) -> bool:
    """Whether a loop of Python makes one text, token by token: each pass goes on from the last.

    Where measuring is what the code is for, that is one sample; elsewhere it answers somebody.
    """
    return loop.tree.language == "python" and bool(_TOKENS.search(loop.text))


_TOKENS = re.compile(r"\bpast_key_values?\s*=|\b(eos|eot|stop)_(token|tok|id|token_id)\b")


def _hands_through(loop: Node) -> bool:
    """Whether a loop of Python goes through members, and each takes what the one before has made.

    for layer in layers: x = layer(x); for t in timesteps: noise = net(x, t); x = step(noise, x)
    """
    body = loop_body(loop) if loop.tree.language == "python" and loop.kind == "for" else None
    if body is None or "range(" in loop.children[1].text:
        return False
    made: dict[str, int] = {}
    for node in body.walk():
        if node.kind == "assign" and operator(node) == "=":
            for target in node.children[0].walk():
                made.setdefault(target.text, node.end)
    return any(
        node.kind == "name"
        and node.start < made.get(node.text, 0)
        and not is_target(node)
        and any(p.kind == "args" and p.start > body.start for p in node.ancestors())
        for node in body.walk()
    )


def _launched_at(step: Step) -> Node:
    """What stands in the loop of the region: the launch itself, or the call of a function."""
    return step.site if step.helpers else step.node


def _is_declared(name: Node) -> bool:
    """Whether a name stands in a declaration of C++, or in the instantiation of a template."""
    parent = name.parent
    return (
        parent is not None
        and parent.kind == "declarator"
        and (parent.parent is None or parent.parent.kind != "function")
    )


def _unrolled(source: SourceFile) -> bool:
    """Whether a graph of the file was captured from a loop: one replay is many executions."""
    for node in source.tree.of_kind("with"):
        heads = " ".join(c.text for c in node.children if c.kind == "item")
        if re.search(r"(^|\.)graph\(", heads):
            return any(inner.kind in ("for", "while") for inner in node.walk())
    return False


def _repeated(source: SourceFile, region: Region, scope: Scope, depth: int = 0) -> bool:
    """Whether the file calls the function in a loop, from several places, or hands it on."""
    if scope.node.kind == "module" or depth > 3:
        return False
    if scope.node.kind == "lambda":
        return True  # it was made to be called by something else
    sites = source.scopes.call_sites(scope)
    if any(_takes_samples(source, region, scope, site) for site in sites):
        return True
    if len({site.text for site in sites}) < len(sites):
        return True  # the same call again and again: each prints its sample
    if not sites and scope.name and scope.name not in ("main", "run"):
        uses = [
            n
            for s in source.scopes.all
            for n in s.nodes
            if n.kind == "name" and n.text == scope.short_name and not _is_declared(n)
        ]
        named = sum(s.short_name == scope.short_name for s in source.scopes.all)
        if len([n for n in uses if not _is_row(source, n)]) > max(1, named):
            return True
    return any(
        _repeated(source, region, source.scopes.scope_of(site), depth + 1)
        for site in sites
        if source.scopes.scope_of(site) is not scope
    )


def _takes_samples(source: SourceFile, region: Region, scope: Scope, site: Node) -> bool:
    """Whether the loops around a call of the function take many times of one configuration."""
    loops = loops_around(site)
    if loops and _overwrites(source, region, site, loops[0]):
        loops = loops[1:]  # what each pass but the last measures is lost
    return not all(sweeps.is_sweep(p) or _tells_which(source, region, scope, site, p)
                   for p in loops)  # fmt: skip


def _overwrites(source: SourceFile, region: Region, site: Node, loop: Node) -> bool:
    """Whether a loop keeps the time that a call returns of its last pass alone.

    for (int i = 0; i < 2; ++i) ms = run(x); printf("%f", ms);
    """
    value = fates.fate(source, region)
    statement = site.parent
    if value.printed or value.shown or statement is None or statement.kind != "assign":
        return False
    target = statement.children[0]
    if operator(statement) != "=" or target.kind != "name":
        return False
    uses = [u for u in source.uses(target.text, source.scopes.scope_of(site)) if not is_target(u)]
    inside = any(loop.start <= u.start < loop.end for u in uses)
    return not inside and any(u.start >= loop.end for u in uses)


def _tells_which(source: SourceFile, region: Region, scope: Scope, site: Node, loop: Node) -> bool:
    """Whether the counter of a C++ loop is what the called function works with, and tells.

    run(x, width) for width = 1, 2; kernel<<<...>>>(x, width); printf("width %d: %f", width, ms);
    """
    counted = re.match(r"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=", loop_header(loop))
    if source.language != "cuda" or counted is None or _STEPS.search(counted[1]):
        return False
    given = zip(scope.parameters, positional(site), strict=False)
    names = {name for name, value in given if squeeze(value.text) == counted[1]}
    value = fates.fate(source, region)
    told = {n.text for p in (*value.printed, *value.shown) for n in p.walk() if n.kind == "name"}
    used = {n.text for s in workload.works(region) for n in s.site.walk() if n.kind == "name"}
    return any(name in told & used and not _STEPS.search(name) for name in names)


_STEPS = re.compile(
    r"iter|rep|run|trial|round|pass|sample|step|time|try|attempt|test|idx|^i$", re.IGNORECASE
)


def _is_row(source: SourceFile, name: Node) -> bool:
    """Whether a function stands in a table of C++ that one loop goes through, calling each once.

    struct Way ways[] = {{"naive", run_naive}, {"tiled", run_tiled}}; for (auto &w : ways) w.run(x);
    """
    table = next((p for p in name.ancestors() if p.kind == "assign"), None)
    listed = name.parent is not None and name.parent.kind == "list"
    if source.language != "cuda" or not listed or table is None:
        return False
    held = re.match(r"\w+", squeeze(table.children[0].text))
    loops = [n for n in source.tree.of_kind("for") if len(n.children) > 1 and held is not None
             and squeeze(n.children[1].text) == held[0]]  # fmt: skip
    if len(loops) != 1 or loops_around(loops[0]):
        return False
    row = re.escape(squeeze(loops[0].children[0].text))
    calls = [n for n in loops[0].walk() if n.kind == "call"
             and re.match(rf"{row}\s*(\.|->|\()", n.text)]  # fmt: skip
    return bool(calls) and all(loops_around(call)[:1] == loops for call in calls)

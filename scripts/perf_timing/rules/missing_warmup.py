"""The first execution of the measured work is one of the samples.

## What it does
Reports the opening reading (or the record of the start event) of a measurement whose work has not
run before: no earlier call, no named warm-up, no first samples that are dropped, and no statistic
that a first outlier leaves alone. A function that was told by a number to launch another kernel, as
in run(1, x) before run(2, x), has not run the same work; nor has another instance of a template, as
`sum<int>` before `sum<int4>`, nor another kernel of C++ that is called a warm-up. Nor has what runs
before in one mode of a Python program only: `if use_triton: warm_up()`, where that is not the usual
one, or in the other branch of an `if`. A warm-up that is shown to be of other measured work does
not count, a fill of memory does not warm up a copy, and a mean beside a least time is judged. Of
training, the steps of a benchmark (by a name) are reported, which no forward pass warms up, and a
clock that is stopped to validate and started again, where the first step compiles the model.

## Why it misleads
The first execution may create the context, compile and load kernels, grow the allocator, set up
libraries and search for algorithms; the message names those that fit the file. It can take a
thousand times as long as the others, and all of it lands in the figure.

## Known problems
A warm-up in another file is not seen; a macro of a C++ header is left out for that reason, and so
is a Python function that is only returned, beside a runner that warms up what it is given. Other
training loops and timers inside a product's code are left out, unless they tell how many tokens or
images a second it makes. Loops that print every sample (in C++ not the mean of a window, nor that
of another size or variant each time), or enter it into a record with its name, are left out too,
and private helpers that nothing in the file uses. So are passes over a data set, web pages and
services, examples that save what they made, engines that serve many requests at once, solvers that
run to a tolerance, the run time of programs, figures in whole seconds, and what `%time` of a
notebook shows. A function of the file that leaves the first samples out counts. In C++ loops of
Google Benchmark are left out, which has run the function before, runs over epochs and the stages of
their steps, launches whose time tells how often to repeat, and copies that are a stage of a
breakdown, which ends where that of the kernels begins.

## Example
```python
import time
import torch

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    model(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
```cuda
int main() {
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

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")
for _ in range(10):
    model(x)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    model(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Callable, Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    callee_text,
    is_target,
    last_segment,
    loop_body,
    loop_header,
    loops_around,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.intent import captions, convergence, programs, purpose, sweeps
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.warmup import dropped_samples, warm_words, warmups
from perf_timing.lint.work import workload

CODE = "TIM301"
LABEL = "NOWARMUP"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "the work on line {work} runs for the first time between this reading and line {end};"
    " one-time costs ({costs}) are in the figure"
)
ONE_TOKEN = (
    "the work on line {work} runs for a single token for the first time between this reading and"
    " line {end}; one-time costs ({costs}) are in the figure"
)
NOTE = (
    "Run the same work a few times before the first sample and wait for it;"
    " render-timing simple-event and loop do so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each first sample that is cold."""
    seen: set[int | frozenset[int]] = set()
    for report in _compiling_steps(source):
        seen.add(id(report.node))
        yield report
    for region in sorted(source.regions.all, key=lambda g: (g.start.start, g.end.start)):
        work = _first(region)
        sites = workload.sites(region)
        if work is None or {id(region.start), sites} & seen:
            continue  # events inside a clock's readings: one warm-up serves both
        if not _applies(source, region):
            continue
        warm = warmups.warmed(source, region)
        if (not warm or _only_prefilled(source, region)) and not _sampled_inside(
            source, region, work
        ):
            seen |= {id(region.start), sites}
            costs = ", ".join(_costs(source, region))
            first = _loaded(source, region) or work
            text = ONE_TOKEN if warm else MESSAGE
            message = text.format(work=first.site.line, end=region.end.line, costs=costs)
            related = [(first.site, "first execution"), *_skipped(source, region, first)]
            told = _tells_rate(source, region) or purpose.is_told_finely(source, region)
            yield Report(region.start, message, related=tuple(related), anywhere=told)


def _only_prefilled(source: SourceFile, region: Region) -> bool:
    """Whether single steps of decoding are sampled, and all that ran before is a timed prefill.

    A step of one token launches other kernels than the prompt of many does.
    """
    if source.language != "python" or not region.sample_loops or not _tells(source, region, _STEP):
        return False
    fills = [
        other
        for other in source.regions.all
        if other.scope is region.scope
        and other.end.end <= region.begins
        and _tells(source, other, _PREFILL)
    ]
    start = region.begins
    mine = set().union(*map(workload.identities, workload.works(region)))
    ran = [s for s in source.flow.steps(region.scope) if s.position <= start and s.works]
    ran = [s for s in ran if workload.identities(s) & mine]
    return (
        bool(ran)
        and all(any(fill.holds(s.site) for fill in fills) for s in ran)
        and not warm_words.WARM.search(source.tree.text, region.scope.node.start, start)
        and not dropped_samples.drops_samples(source, region)
    )


def _tells(source: SourceFile, region: Region, pattern: re.Pattern[str]) -> bool:
    return bool(pattern.search(source.intent(region)))


_STEP = re.compile(r"decod|tpot|itl(?![a-z])|inter_token|per_token", re.IGNORECASE)
_PREFILL = re.compile(r"pre_?fill|prompt|ttft|first_token", re.IGNORECASE)


def _skipped(source: SourceFile, region: Region, work: Step) -> Iterator[tuple[Node, str]]:
    """The branches that run the work before the measurement, but not in all cases."""
    for branch in warmups.sparing(source, region):
        if callee_text(work.site) in branch.text:
            yield branch, "the only earlier run, which this condition may leave out"


def _compiling_steps(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each clock of a training that runs while its first step compiles."""
    for training in training_loops.step_loops(source):
        for clock in training_loops.running_clocks(source, training):
            step = training_loops.compiled_in(source, training, clock)
            if step is not None:
                end = clock.pauses[0][0].line
                costs = "compilation of kernels"
                message = MESSAGE.format(work=step.site.line, end=end, costs=costs)
                related = ((step.site, "first execution"),)
                yield Report(clock.opening, message, related=related, anywhere=True)


_RATE = re.compile(
    r"(token|tok|image|frame|sentence)s?[ _]*(/|per[ _])[ _]*(s|sec|second)(?![a-z])"
    r"|(?<![a-z])fps(?![a-z])|(?<![a-z])(avg|average|mean)[ _]+(\w+[ _]+)?(time|latency)(?![a-z])",
    re.IGNORECASE,
)


@remembered
def _tells_rate(source: SourceFile, region: Region) -> bool:
    """Whether the time is told as so many tokens or images a second, in whatever code."""
    if source.language != "python" or region.carried or region.hooked:
        return False
    value = fates.fate(source, region)
    texts = [n.text[:400] for n in (*value.printed, *value.passed, *_told_of_sums(source, region))]
    return bool(_RATE.search(" ".join([*texts, source.intent(region), *value.names])))


def _told_of_sums(source: SourceFile, region: Region) -> Iterator[Node]:
    """The statements that use what samples are added up in, or what is computed from it."""
    todo, known = sorted(fates.fate(source, region).sums), set[str]()
    while todo and len(known) < _MOST_SUMS:
        name = todo.pop()
        known.add(name)
        for use in source.uses(name, region.scope):
            statement = source.statement(use)
            if use.start < region.end.end or is_target(use):
                continue
            if statement.kind == "assign":
                made = target_key(statement.children[0])
                todo += [made] if made not in known else []
            else:
                yield statement


_MOST_SUMS = 10


def _loaded(source: SourceFile, region: Region) -> Step | None:
    """The first work of a C++ region that loads a kernel: a copy does not."""
    steps = workload.works(region) if source.language == "cuda" else []
    return next((s for s in steps if s.helpers or not s.roles & {r.COPY, r.UPLOAD}), None)


def _costs(source: SourceFile, region: Region) -> list[str]:
    """What a first execution pays here, as far as the file tells."""
    text = source.tree.text
    before = source.flow.between(region.scope, -1, region.begins)
    used = any(s.works or s.roles & {r.ALLOC, r.WAIT, r.UPLOAD, r.COPY} for s in before)
    costs = []
    # Where tensors come in as parameters, or an event is recorded, the context is there.
    used = used or (source.language == "cuda" and _touches_device(region))
    if region.kind == "clock" and not used and not region.scope.parameters:
        costs.append("context")
    if source.language == "python" and words.JITS.search(text):
        costs.append("compilation of kernels")
    if source.language == "cuda" and _only_copies(region):
        return [*costs, "set-up of the first copy"]
    costs.append("module load")
    if source.language == "python":
        costs.append("first allocations")
    if _SEARCHES[source.language].search(text):
        costs.append("set-up of libraries and their choice of an algorithm")
    return costs


def _copied_before(source: SourceFile, region: Region) -> bool:
    """Whether a C++ region only copies, and copies ran before it or may have run in another file.

    The first copy is told only where the file shows how its main() comes to the region. What fills
    memory is a kernel, and no copy; nor does another copy set up that between two devices.
    """
    if source.language != "cuda" or not _only_copies(region):
        return False
    scope, position = region.scope, region.begins
    peers = any(map(_is_of_peers, workload.works(region)))
    for _ in range(_MOST_CALLERS):
        before = source.flow.between(scope, -1, position)
        if any(r.COPY in s.roles and (_is_of_peers(s) or not peers) for s in before):
            return True
        if scope.parent is None or scope.name == "main" or scope.is_test:
            return False
        sites = source.scopes.call_sites(scope)
        if not sites:
            return True
        scope, position = source.scopes.scope_of(sites[0]), sites[0].start
    return True


_MOST_CALLERS = 6


def _is_of_peers(step: Step) -> bool:
    """Whether a step copies between two devices, by the name of the call."""
    return bool(re.search(r"Memcpy(3D)?Peer", callee_text(step.node)))


def _touches_device(region: Region) -> bool:
    """Whether a C++ program has called something before that may well have made the context."""
    return any(
        node.kind == "call"
        and node.end <= region.begins
        and _MAKES.search(callee_text(node))
        and not re.search(r"Event|GetDeviceProp|GetDeviceCount", callee_text(node))
        for node in region.scope.nodes
    )


def _only_copies(region: Region) -> bool:
    """Whether copies between host and device are all that a region does.

    On an H200 the first of them takes 10 to 40 us longer than the next: twice the time of 1 MB.
    """
    steps = [s for s in workload.works(region) if not workload.fills(s)]
    return bool(steps) and all(r.COPY in s.roles and not s.helpers for s in steps)


_MAKES = re.compile(r"cuda|gpu|hip|device|init|alloc|upload|copy", re.IGNORECASE)
_SEARCHES = {
    "python": re.compile(r"\b(torch|cupy|onnxruntime|tensorrt|jax)\b"),
    "cuda": re.compile(
        r"cublas|cudnn|cusparse|cufft|hipblas|rocblas|miopen|torch|nvinfer|cusolver"
    ),
}


def _first(region: Region) -> Step | None:
    return next((s for s in workload.works(region)), None)


def _applies(source: SourceFile, region: Region) -> bool:
    if region.kind in ("timeit", "benchmark") or region.cumulative:
        return False
    if source.regions.is_used_apart(region):
        return False
    if not purpose.is_benchmark(source, region) and not _tells_rate(source, region):
        return False
    if training_loops.is_training(region) and not purpose.is_named_so(source, region.delta):
        return False
    if fates.hands_back_result(source, region):
        return False
    if purpose.unused(source, region.scope) or fates.never_used(source, region):
        return False
    if (
        all(r.OPAQUE in s.roles for s in workload.works(region))
        and region.scope.parent is not None
        and region.scope.parent.name
    ):
        return False  # a decorator for any function
    if fates.kept_running(source, region):
        return False
    if purpose.is_shown_once(region):
        return False
    if fates.calibrates(source, region) or warmups.in_google_benchmark(source, region):
        return False
    if captions.means_first(source, region) or _replays(source, region):
        return False
    if any(r.HARNESS in s.roles for s in region.steps) or not source.evidence:
        return False
    if source.flow.host_only(region.end, region.scope) or captions.host_time_meant(source, region):
        return False
    if programs.loads_model(source, region) or _is_offload(source, region):
        return False
    if source.language == "cuda" and (
        convergence.runs_to_tolerance(region)
        or (convergence.takes_many_steps(region) and not _is_repetition(source, region))
        or convergence.trains_over_epochs(source.scopes, region)
    ):
        return False
    if programs.is_progress(source, region) or purpose.serves(source):
        return False
    if purpose.runs_engine(source, region) or purpose.answers_user(source, region):
        return False
    if programs.passes_over_data(region) or programs.samples_data(region):
        return False
    if purpose.makes_product(source, region) or _copied_before(source, region):
        return False
    if fates.asserted_positive(source, region):
        return False
    return not _prints_each(source, region) and not fates.only_asserted(source, region)


def _is_offload(source: SourceFile, region: Region) -> bool:
    """Whether all that is offloaded is timed: its buffers are made inside, and the text says so."""
    allocates = any(r.ALLOC in s.roles for s in region.steps)
    return allocates and programs.is_total(source, region)


def _is_repetition(source: SourceFile, region: Region) -> bool:
    """Whether many steps of C++ code are those of a benchmark, and no simulation of its own.

    So are those of a loop that is called repetitions, and launches that the file also captures, or
    measures once more: they are held against those of a graph.
    """
    loops = (loop for s in region.steps if s.works for loop in region.inner_loops(s.site))
    if any(_REPEATS.search(loop_header(loop)) for loop in loops):
        return True
    kernels = {s.node.children[0].text for s in region.steps if s.node.kind == "launch"}
    for scope in source.scopes.all:
        begins = [n for n in scope.nodes if n.kind == "call" and _CAPTURES.search(callee_text(n))]
        for node in scope.nodes if begins else ():
            captured = node.kind == "launch" and node.children[0].text in kernels
            if captured and node.start > begins[0].end and not region.holds(node):
                return True
    return any(
        s.node.kind == "launch" and s.node.children[0].text in kernels and not region.holds(s.site)
        for other in source.regions.all
        if other.end.end <= region.start.start or region.end.end <= other.start.start
        for s in other.steps
    )


_REPEATS = re.compile(
    r"(?<![a-z])(rep(eat|etition)?s?|trials?|runs?)(?![a-z])|Repeat", re.IGNORECASE
)
_CAPTURES = re.compile(r"BeginCapture\w*$")


def _replays(source: SourceFile, region: Region) -> bool:
    """Whether the region replays a graph: its work ran when it was captured."""
    if any(r.REPLAY in s.roles for s in region.steps):
        return True
    names = " ".join(source.statement(s.site).text for s in region.steps)
    return bool(
        re.search(r"graph", names, re.IGNORECASE)
        and re.search(r"CUDAGraph|cuda\.graph\(", source.tree.text)
    )


def _prints_each(source: SourceFile, region: Region) -> bool:
    """Whether every sample is printed or recorded: the reader sees that the first is different."""
    value = fates.fate(source, region)
    if source.language == "cuda" and _prints_itself(source, region, value):
        return True
    loops = region.sample_loops
    if source.language == "cuda" and sweeps.all_sweep(loops):
        return False  # each is the one of its size or variant
    # A mean over executions does not show the first of them.
    printed = [] if source.language == "cuda" and _is_window(region) else value.printed
    shown = [*printed, *(call for call in value.passed if _records(source, call))]
    if not loops and not value.lists and not value.sums and _decorates_repeated(source, region):
        return bool(shown)
    return (
        bool(loops)
        and not value.lists
        and (not value.sums or purpose.profiles(source, region))
        and any(any(loop.start <= node.start < loop.end for loop in loops[:1]) for node in shown)
    )


def _decorates_repeated(source: SourceFile, region: Region) -> bool:
    """Whether a Python timer decorates functions that a loop calls: each of its times is shown."""
    outer = {s.short_name for s in region.scope.enclosing() if s is not region.scope and s.name}
    named = re.compile(r"@\s*(?:\w+\.)*(\w+)")
    decorated = (
        scope
        for scope in source.scopes.all
        for found in (named.match(d.text) for d in scope.decorators)
        if found and found[1] in outer
    )
    sites = (call for scope in decorated for call in source.scopes.call_sites(scope))
    return any(loops_around(site) for site in sites)


def _is_window(region: Region) -> bool:
    """Whether a counted loop, that does not look at its counter, repeats all the work."""
    loops = [region.inner_loops(s.site)[:1] for s in workload.works(region)]
    return bool(loops) and all(found and not _looks_at_counter(found[0]) for found in loops)


def _looks_at_counter(loop: Node) -> bool:
    """Whether each iteration may be of another size: its body uses what the loop counts."""
    body = loop_body(loop)
    if body is None:
        return True
    counter = re.search(r"\b(\w+)\s*(?:<=?|!=|>=?)", loop_header(loop))
    return counter is None or any(n.kind == "name" and n.text == counter[1] for n in body.walk())


def _prints_itself(source: SourceFile, region: Region, value: fates.Fate) -> bool:
    """Whether a C++ function prints the time of its one execution, and only loops call it."""
    sites = source.scopes.call_sites(region.scope)
    only = value.printed and not (value.lists or value.sums or value.returned or value.passed)
    once = not any(region.inner_loops(s.site) for s in workload.works(region))
    return (
        bool(only and once and not region.sample_loops and sites)
        and all(map(loops_around, sites))
        and not any(sweeps.all_sweep(loops_around(site)) for site in sites)
        and not any(map(_shows_turn(region, value), sites))
    )


def _shows_turn(region: Region, value: fates.Fate) -> Callable[[Node], bool]:
    """What tells of a call in a loop whether the time is shown beside what the loop counts to.

    for (int width = 1; width <= 2; width++) run(x, width); each is the first of its variant.
    """
    leaves = [n for node in value.printed for n in node.walk() if n.kind == "name"]
    shown = {n.text for n in leaves} & set(region.scope.parameters)

    def tells(site: Node) -> bool:
        given = zip(positional(site), region.scope.parameters, strict=False)
        told = {squeeze(part.text) for part, name in given if name in shown}
        return any(told & _turns(loop) for loop in loops_around(site))

    return tells


def _turns(loop: Node) -> set[str]:
    """The names that a C++ loop gives another value each time, but for those of repetitions."""
    names = re.findall(r"\b(\w+)\s*(?:=(?!=)|:(?!:))", loop_header(loop))
    return {name for name in names if not _OF_REPETITIONS.search(name)}


_OF_REPETITIONS = re.compile(
    r"^\w$|iter|rep|run|trial|round|pass|step|time|test|try", re.IGNORECASE
)


def _records(source: SourceFile, call: Node) -> bool:
    """Whether a call enters a sample, with what it is of, into a record that keeps them all."""
    short = last_segment(callee_text(call))
    named = any(n.kind == "string" for n in call.walk()) or len(positional(call)) > 2
    statement = call.parent is not None and call.parent.kind == "block"
    known = short in source.scopes.functions
    return statement and named and not known and bool(_ENTERS.match(short))


_ENTERS = re.compile(
    r"(add|record|report|log|emit|store|save|submit|write|put|insert)", re.IGNORECASE
)


def _sampled_inside(source: SourceFile, region: Region, work: Step) -> bool:
    """Whether the region is the run time around samples, the first of which is the cold one."""
    for other in source.regions.all:
        loops = [loop for loop in other.sample_loops if region.holds(loop)]
        if other is not region and loops and other.holds(work.site) and _applies(source, other):
            return True
    return False

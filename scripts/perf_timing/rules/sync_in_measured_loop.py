"""The measured loop waits for the device in every iteration.

## What it does
Reports a wait (synchronize and its like) in each iteration of a loop that one pair of readings
encloses. In a benchmark of one kernel or operator it also reports a device-wide wait in each sample
whose time is only summed or printed, taken by events and averaged, or taken by a clock and told as
a mean or a least and nothing else; one between the start event of each sample and its work, and one
in a loop that records an event in each iteration and reads them in pairs. In a training it reports
a device-wide wait in each step, beside the readings that time the steps, or where a logger times
them that hands out the batches (`log_every`). In C++ a sample's wait, for the device or for its end
event, is reported only where the samples are added up and the loop does nothing else on the device
but to take samples of other kernels: it could then stand behind the loop. Of a function that a C++
helper is given to run in its loop, or do_bench() and its like to time, the wait itself is reported.

## Why it misleads
The queue runs dry in each iteration, so the latency of a launch and of a wake-up is added to every
execution. A kernel of 4 us is measured as 50 us, and the figure says little about real use.

## Known problems
Latencies of isolated calls, collected and reported as a distribution, need a wait beside each
reading; they are not reported, nor are those of training steps where a name says that the code is a
benchmark, nor of a function that is handed in, where no name tells that it is an operator. A wait
once per round around an inner loop is not reported either, nor are those of loops over sizes or
implementations, each of which is executed once. Nor is one in a solver or a search whose host must
know the result to decide if there is another iteration, or in C++ hands it to other ranks by MPI:
it belongs to what is measured.

## Example
```python
import time
import torch

a = torch.randn(256, 256, device="cuda")
a @ a
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    a @ a
    torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
```cuda
int main() {
  scale<<<256, 256>>>(x);
  cudaDeviceSynchronize();
  auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    scale<<<256, 256>>>(x);
    cudaDeviceSynchronize();
  }
  auto t1 = std::chrono::steady_clock::now();
  printf("%f\\n", std::chrono::duration<double>(t1 - t0).count() / 100);
}
```

## Use instead
```python
import time
import torch

a = torch.randn(256, 256, device="cuda")
a @ a
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    a @ a
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions, members
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step, device_condition, exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    last_segment,
    loops_around,
    positional,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, reductions, series
from perf_timing.lint.intent import captions, convergence, programs, purpose, repetitions, sweeps
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.parsing.preprocessor import switched_on
from perf_timing.lint.warmup import warm_words
from perf_timing.lint.work import workload

CODE = "TIM201"
LABEL = "SYNC-LOOP"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{call} waits for the device in every iteration of the measured loop; each execution"
    " is billed a launch latency"
)
STAGES = (
    "{call} waits for the device at each stage of each item; the stages no longer overlap and the"
    " loop is slower than without the timer"
)
SAMPLE = (
    "{call} waits for the device in every sample of one execution; each figure holds a"
    " launch latency beside the work"
)
BEFORE = (
    "{call} waits between the start event and the work; the figure holds the wake-up of the host"
    " and the launch"
)
HARNESS = (
    "{call} waits for the device in each call of the function that a benchmark helper times; the"
    " helper waits by itself, and the figure holds the wake-up of the host"
)
HARNESS_NOTE = "Leave the wait out of the function, or call its work without it."
NOTE = "Wait once after the loop; render-timing loop, simple-event and raw-cuda do so."
HELPER_NOTE = (
    "Queue the work without the wait of {helper}(), and wait once after the loop; render-timing"
    " loop, simple-event and raw-cuda do so."
)
STAGES_NOTE = (
    "Let events on the stream mark the stages, and read them after the loop; render-timing"
    " detailed-event does so."
)
TRAINING = (
    "{call} waits for the device in every step of a timed training loop; the host cannot prepare"
    " the next step meanwhile"
)
TRAINING_NOTE = (
    "Time windows of many steps with one wait each, or let events on the stream mark the steps;"
    " inject-timing puts such marks into a training loop."
)
SAMPLE_NOTE = (
    "Queue many executions between two readings and wait once behind them, unless one takes"
    " milliseconds; render-timing simple-event and raw-cuda do so."
)
BEFORE_NOTE = "Wait before the start event is recorded, once, and not between it and the work."
_DEVICE_WIDE = re.compile(
    r"(^|\.)(cuda|xpu|mps|hpu|npu|accelerator|\w*Device\([^)]*\)|get_accelerator\(\)|null)"
    r"\.(synchronize|sync)$|(^|[._])(cudaDeviceSynchronize|hipDeviceSynchronize|device_sync\w*"
    r"|cuda_sync\w*|cuCtxSynchronize|synchronize_device)$|^synchronize$"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each wait that every measured iteration runs into."""
    seen: set[int] = set()
    for region, step in _stages(source):
        yield _report(region, step, step.node, STAGES, STAGES_NOTE, "started here")
    for region, step in _each_step(source):
        if id(step.site) not in seen:
            seen.add(id(step.site))
            yield _report(region, step, step.site, MESSAGE, NOTE, "recorded")
    for region, step in _in_harness(source):
        if id(step.node) not in seen:
            seen.add(id(step.node))
            yield _report(region, step, step.node, HARNESS, HARNESS_NOTE, "timed here")
    for timed, step in _training_steps(source):
        if id(step.site) not in seen:
            seen.add(id(step.site))
            report = _tell(timed, step, step.site, TRAINING, TRAINING_NOTE)
            yield replace(report, anywhere=True)
    for region in source.regions.all:
        if not _applies(source, region):
            continue
        started = "start event recorded here" if region.kind == "event" else "clock started here"
        ways = (
            (_handed_in(source, region, seen), MESSAGE, NOTE),
            (_firsts(region, seen, _in_window(source, region)), MESSAGE, NOTE),
            (_before_work(region), BEFORE, BEFORE_NOTE),
            (_per_sample(source, region), SAMPLE, SAMPLE_NOTE),
        )
        for found, message, note in ways:
            for step in found:
                if id(step.site) not in seen and not _evaluates(source, step):
                    seen.add(id(step.site))
                    yield _report(region, step, step.site, message, note, started)


def _evaluates(source: SourceFile, wait: Step) -> bool:
    """Whether a wait is what runs the work: arrays of MLX are computed when they are asked for."""
    return source.scopes.resolve(callee_text(wait.node)) == "mlx.core.eval"


def _of_application(source: SourceFile, region: Region, wait: Step) -> bool:
    """Whether a macro switches the times on and not the wait: the application waits in any case."""
    return purpose.profiles(source, region) and not switched_on(source, wait.site)


def _finds_nothing(region: Region, wait: Step) -> bool:
    """Whether a wait of C++ stands behind a blocking copy to the host, which has waited already."""
    if wait.node.tree.language != "cuda":
        return False
    before = (s for s in reversed(region.steps) if s.position <= wait.position and s is not wait)
    for step in before:
        if step.works or r.OPAQUE in step.roles:
            return False
        if step.waits:
            copies = {r.BLOCKING, r.COPY} <= step.roles
            return copies and "HostToDevice" not in step.node.text
    return False


def _reads_next(region: Region, wait: Step) -> bool:
    """Whether what C++ code does next is to copy the result to the host, which waits anyway."""
    if wait.node.tree.language != "cuda":
        return False
    loops = region.inner_loops(wait.site)
    for step in region.steps[region.steps.index(wait) + 1 :]:
        if r.WAIT in step.roles or step.works or r.OPAQUE in step.roles:
            return False
        if {r.BLOCKING, r.COPY} <= step.roles:
            in_each = region.inner_loops(step.site)[:1] == loops[:1]
            return in_each and "HostToDevice" not in step.node.text
    return False


def _applies(source: SourceFile, region: Region) -> bool:
    if not region.is_plain:
        return False
    if captions.means_first(source, region) or _warms_up(region):
        return False
    if captions.means_launch(source, region) or programs.is_program(source, region):
        return False
    if fates.never_used(source, region):
        return False
    return not source.flow.host_only(region.end, region.scope)


def _report(
    region: Region, step: Step, place: Node, message: str, note: str, started: str
) -> Report:
    return _tell((region.start, started), step, place, message, note)


def _tell(timed: tuple[Node, str], step: Step, place: Node, message: str, note: str) -> Report:
    """A report at `place`; where a helper waits, it names the helper's line."""
    call = f"{last_segment(callee_text(step.node))}()"
    related: tuple[tuple[Node, str], ...] = (timed,)
    if place is not step.node:
        if place.kind == "call":
            helper = last_segment(callee_text(place))
            call = f"{helper}(), by {call} on line {step.node.line},"
            note = HELPER_NOTE.format(helper=helper) if note is NOTE else note
        related = ((step.node, "the wait"), *related)
    return Report(place, message.format(call=call), note=note, related=related)


def _firsts(region: Region, seen: set[int], waits: Iterable[Step]) -> Iterator[Step]:
    """Of waits in a row the first: the others find an empty queue, and say the same of the loop."""
    last: Step | None = None
    for step in waits:
        loops = region.inner_loops(step.site)[:1]
        between = [
            s
            for s in region.steps
            if last is not None and last.position < s.position < step.position
        ]
        again = last is not None and region.inner_loops(last.site)[:1] == loops
        if again and not any(s.works or r.OPAQUE in s.roles for s in between):
            seen.add(id(step.site))  # another region may come upon it alone
        else:
            yield step
        last = step


def _warms_up(region: Region) -> bool:
    """Whether the loop runs until a warm-up has lasted long enough: while spent < warmup_ms."""
    loops = [loop for loop in region.sample_loops if loop.kind == "while" and loop.children]
    return any(warm_words.WARM.search(loop.children[0].text) for loop in loops)


def _stages(source: SourceFile) -> Iterator[tuple[Region, Step]]:
    """Waits of a timer that is entered for several stages of each item of a stream of items."""
    found: dict[tuple[int, int], list[Region]] = {}
    for region in source.regions.all:
        if region.timer is None or region.timer.name != "__exit__":
            continue
        for loop in _item_loops(region)[:1]:
            found.setdefault((loop.start, region.report.start), []).append(region)
    for regions in found.values():
        waits = [s for s in source.regions.tail(regions[0]) if r.WAIT in s.roles]
        waits = [
            s for s in waits if s.node.kind == "call" and _DEVICE_WIDE.search(callee_text(s.node))
        ]
        if len(regions) > 1 and waits:
            yield regions[0], waits[-1]


def _each_step(source: SourceFile) -> Iterator[tuple[Region, Step]]:
    """Waits in a loop whose iterations are measured by one event each, read afterwards."""
    for region in source.regions.all:
        if region.kind == "event" and region.carried:
            for step in region.steps:
                device_wide = _DEVICE_WIDE.search(
                    callee_text(step.node) if step.node.kind == "call" else ""
                )
                if (
                    r.WAIT in step.roles
                    and device_wide
                    and not conditions.rare(step.site, region.start)
                ):
                    yield region, step


def _in_harness(source: SourceFile) -> Iterator[tuple[Region, Step]]:
    """Waits behind the work of a function that a helper of a library times, which waits by itself.

    A helper of the file's own may need them: its clock or its events are not looked at here.
    """
    if source.language != "python":
        return
    for region in source.regions.harnessed:
        if not _QUEUES.search(source.scopes.resolve(callee_text(region.start))):
            continue
        worked = False
        for step in region.steps:
            waits = r.WAIT in step.roles and step.node.kind == "call"
            if waits and worked and _DEVICE_WIDE.search(callee_text(step.node)):
                inside = [p for p in step.node.ancestors() if p.kind in ("if", "elif", "else")]
                if all(device_condition(p.children[0].text) for p in inside if p.kind != "else"):
                    yield region, step
            worked |= step.works


_QUEUES = re.compile(
    r"(^|\.)(do_bench\w*|testing\.\w*bench\w*|bench_kineto|cupyx\.\w+\.(benchmark|repeat))$"
)


def _training_steps(source: SourceFile) -> Iterator[tuple[tuple[Node, str], Step]]:
    """A wait in every step of a training, with what times its steps: a reading or a logger.

    In a benchmark of training steps the wait serves the latency of each.
    """
    for training in training_loops.step_loops(source):
        if purpose.is_named_so(source, training.loop):
            continue
        waits = [
            step
            for step in training.steps
            if r.WAIT in step.roles
            and step.node.kind == "call"
            and _DEVICE_WIDE.search(callee_text(step.node))
            and training.own(step)
            and _in_each_step(step.site, training.loop)
        ]
        timed = [*training_loops.windows(source, training), *training_loops.parts(source, training)]
        timed = [region for region in timed if not captions.means_first(source, region)]
        logger = training_loops.logged_by(training)
        if not waits or any(_only_collected(source, region) for region in timed):
            continue
        wait = next((s for s in waits if "cuda" in s.node.text), waits[0])
        if timed:
            yield (timed[0].start, "clock started here"), wait
        elif logger is not None:
            yield (logger, "the steps are timed here"), wait


def _only_collected(source: SourceFile, region: Region) -> bool:
    """Whether the times are collected as latencies, and not shown as training goes on."""
    value = fates.fate(source, region)
    return bool(value.lists) and not (value.printed or value.passed)


def _in_each_step(wait: Node, loop: Node) -> bool:
    """Whether no condition lies around a wait, but one that asks for the device."""
    branches = [
        p
        for p in wait.ancestors()
        if p.kind in ("if", "elif", "else", "except") and p.start > loop.start
    ]
    return all(
        branch.kind in ("if", "elif") and device_condition(branch.children[0].text)
        for branch in branches
    )


def _item_loops(region: Region) -> list[Node]:
    """The loops over items (not over a range of numbers) around the measured block."""
    low = region.spans[0][0]
    loops = [n for n in region.scope.nodes if n.kind == "for" and n.start <= low < n.end]
    return [
        loop
        for loop in reversed(loops)
        if len(loop.children) > 1 and not re.match(r"(t?range|trange)\(", loop.children[1].text)
    ]


def _in_window(source: SourceFile, region: Region) -> Iterator[Step]:
    for step in region.steps:
        if r.WAIT not in step.roles or step.node.kind != "call" or _serves_streams(step.node):
            continue
        if any(n.kind in ("for", "while") for helper in step.helpers for n in helper.nodes):
            continue  # a helper that is a whole pass by itself
        loops = region.inner_loops(step.site)
        if not loops or conditions.rare(step.site, loops[-1]):
            continue
        if all(repetitions.runs_once(source, loop) for loop in loops):
            continue
        if source.language == "cuda" and (
            convergence.steered(loops[0], region.steps)
            or convergence.exchanges(step, loops[0], region.steps)
        ):
            continue
        if _finds_nothing(region, step) or _reads_next(region, step):
            continue
        if _of_application(source, region, step):
            continue
        if feeds(region, step, loops[0]) and not _closes_another(source, region, step, loops[0]):
            yield step


def _handed_in(source: SourceFile, region: Region, seen: set[int]) -> Iterator[Step]:
    """Waits of the functions that a helper of C++ is given to run in each iteration of a window."""
    for call, functions in workload.handed_in(source, region):
        waits = [step for f in functions for step in _closing_wait(source, f)]
        if waits and not conditions.rare(call, region.inner_loops(call)[-1]):
            seen.add(id(call))
            yield from waits


def _closing_wait(source: SourceFile, function: Scope) -> list[Step]:
    """The last wait of a function that works before it, and does neither in a loop of its own."""
    steps = source.flow.steps(function)
    waits = [s for s in steps if r.WAIT in s.roles and s.node.kind == "call"]
    if not waits or any(loops_around(s.site) for s in steps) or _serves_streams(waits[-1].node):
        return []
    before = steps[: steps.index(waits[-1])]
    return waits[-1:] if any(s.works for s in before) else []


def _before_work(region: Region) -> Iterator[Step]:
    """A wait right after the start event of each sample: the launch of the work is in the figure.

    Without the wait the work is queued behind the event while the device is busy.
    """
    if region.kind != "event" or not region.sample_loops or region.carried:
        return
    work = [s.position for s in region.steps if s.works or r.OPAQUE in s.roles]
    for step in region.steps:
        if (
            r.WAIT in step.roles
            and step.node.kind == "call"
            and _DEVICE_WIDE.search(callee_text(step.node))
            and not region.inner_loops(step.site)
            and not conditions.rare(step.site, region.start)
            and step.position < min(work, default=0)
        ):
            yield step


def _serves_streams(call: Node) -> bool:
    """A barrier of ranks, a free, or a wait for one of several streams."""
    name = last_segment(callee_text(call))
    return bool(re.search(r"barrier|Free$", name)) or any("[" in a.text for a in positional(call))


def _closes_another(source: SourceFile, region: Region, step: Step, loop: Node) -> bool:
    """Whether the wait stands beside a reading of a measurement inside the loop: it serves that.

    Between two events of C++ code, but around a whole training, the device idles then all the same.
    """
    trains = source.language == "cuda" and convergence.trains_over_epochs(source.scopes, region)
    if source.language == "cuda" and region.kind == "event" and not trains:
        return False
    readings = [
        reading
        for other in source.regions.all
        if other is not region and loop in loops_around(other.end)
        for reading in (other.start, other.end)
    ]
    return any(abs(reading.line - step.site.line) <= 3 for reading in readings)


def feeds(region: Region, wait: Step, loop: object) -> bool:
    """Whether the loop that waits also works, and not in a deeper loop that the wait closes."""
    return any(
        (s.works or r.OPAQUE in s.roles) and region.inner_loops(s.site)[:1] == [loop]
        for s in region.steps
    )


def _per_sample(source: SourceFile, region: Region) -> Iterator[Step]:
    """A micro-benchmark that waits for the device around each execution of one operator."""
    if not region.sample_loops or region.timer is not None or training_loops.is_training(region):
        return
    if sweeps.all_sweep(region.sample_loops):
        return  # one execution of each way or size is no sample of many
    loop = region.sample_loops[0]
    beside = (g.start.start for g in source.regions.all if _is_beside(g, region, loop))
    until = min((start for start in beside if start > region.end.end), default=loop.end)
    steps = source.flow.between(region.scope, region.start.end, until)
    waits = [s for s in steps if r.WAIT in s.roles and _waits_for_all(region, s)]
    waits = [
        s for s in waits if not region.inner_loops(s.site) and loops_around(s.site)[:1] == [loop]
    ]
    if not waits or not purpose.is_benchmark(source, region):
        return
    if not (_one_operator(source, region) or _hands_over(region)):
        return
    if any(_before_work(region)):
        return  # that wait is the one to report
    value = fates.fate(source, region)
    shown = any(loop.start <= node.start < loop.end for node in value.printed)
    if source.language == "cuda":
        if workload.copies_both_ways(region) or _repeats_itself(source, region):
            return
        if shown or _others_between(source, region, loop):
            return
    if (value.sums or shown) if not value.lists else _averaged(source, region, shown):
        # The wait of the sample itself, where others of the loop have theirs behind it.
        own = [s for s in waits if region.start.end <= s.site.start < region.end.end]
        several = any(g is not region and g.sample_loops[:1] == [loop] for g in source.regions.all)
        yield (own if own and several else waits)[-1]


def _repeats_itself(source: SourceFile, region: Region) -> bool:
    """Whether kernels that repeat their work are all that C++ code launches in a sample."""
    works = [s for s in region.steps if s.works]
    return bool(works) and all(repetitions.repeats_itself(source, s.node) for s in works)


def _waits_for_all(region: Region, wait: Step) -> bool:
    """Whether a wait is for the device, or for the event that ends the sample."""
    callee = callee_text(wait.node)
    if wait.node.tree.language == "cuda":
        ended = region.kind == "event" and callee.endswith("EventSynchronize")
    else:
        ended = region.kind == "event" and callee == f"{_receiver(region.end)}.synchronize"
    return bool(_DEVICE_WIDE.search(callee)) or ended


def _receiver(record: Node) -> str:
    """The event that a statement of Python records: end of end.record()."""
    return callee_text(record).rpartition(".")[0] if record.kind == "call" else ""


def _averaged(source: SourceFile, region: Region, shown: bool) -> bool:
    """Whether the times of samples are kept to take their mean, with or without a spread.

    Events can be read after the loop: nothing asks for a wait in it. Where the median or a
    percentile is asked for, the latency of one execution is meant. The times of a clock count where
    one operator is all that each holds: of more, the wait is a small part. Nothing but their mean
    or their least may be told; each of them holds a launch and the wake-up of the host.
    """
    if shown or _others_between(source, region, region.sample_loops[0]):
        return False
    if region.kind != "event" and not (source.language == "python" and _few_operators(region)):
        return False
    scope = source.scopes.scope_of(region.delta)
    applied: set[str] = set()
    for name in fates.fate(source, region).lists:
        applied |= reductions.reducers(source, name, scope)
    if source.language == "python" and "raw" in applied:
        applied = (applied - {"raw"}) | _applied_by_callers(source, scope)
    means = any(reductions.MEAN.search(name) for name in applied)
    if region.kind != "event":
        means |= "min" in applied
        means &= not applied - series.NEUTRAL - {"min"}
    return means and not any(_ONE_BY_ONE.search(name) for name in applied)


def _applied_by_callers(source: SourceFile, scope: Scope) -> set[str]:
    """What the callers apply to the samples that a function returns; "raw" where one does not."""
    found: set[str] = set()
    for site in source.scopes.call_sites(scope):
        statement = source.statement(site)
        if statement.kind != "assign":
            return {"raw"}
        target = statement.children[0]
        where = source.scopes.scope_of(site)
        for part in target.children if target.kind == "tuple" else [target]:
            found |= reductions.reducers(source, target_key(part), where)
    return found or {"raw"}


_ONE_BY_ONE = re.compile(r"sort|median|percentile|quantile|indexed|slice|nsmallest|raw")


def _others_between(source: SourceFile, region: Region, loop: Node) -> bool:
    """Whether an iteration uses the device beside its sample: resets it, or reads its result.

    Then no single wait behind the loop could take the place of those in it.
    """
    beside = [other for other in source.regions.all if _is_beside(other, region, loop)]
    return any(
        loop.start <= s.position < loop.end
        and not any(g.start.start <= s.position <= g.end.end for g in (region, *beside))
        and (s.works or s.roles & {r.BLOCKING, r.OPAQUE, r.COPY})
        for s in source.flow.steps(region.scope)
    )


def _is_beside(other: Region, region: Region, loop: Node) -> bool:
    """Whether events of the same loop take the time of another kernel, which needs no wait either.

    A copy that has its own figure belongs to the same pass: it brings data or takes a result away.
    """
    return (
        other is not region
        and other.kind == region.kind == "event"
        and other.is_plain
        and other.scope is region.scope
        and other.sample_loops[:1] == [loop]
        and (other.end.end <= region.start.start or region.end.end <= other.start.start)
        and not any(s.roles & {r.BLOCKING, r.OPAQUE, r.COPY} for s in other.steps)
    )


def _hands_over(region: Region) -> bool:
    """Whether events of C++ code take the time of what a function or a macro is given to run."""
    work = [s for s in region.steps if s.works or r.OPAQUE in s.roles]
    return (
        region.kind == "event"
        and len(work) == 1
        and work[0].node.tree.language == "cuda"
        and r.OPAQUE in work[0].roles
        and not region.inner_loops(work[0].site)
    )


def _one_operator(source: SourceFile, region: Region) -> bool:
    """Whether one call that is not a whole model is all that the region executes."""
    work = [s for s in region.steps if s.works or r.OPAQUE in s.roles]
    sites = {id(s.site): s.site for s in work if r.ARITHMETIC not in s.roles or len(work) == 1}
    if len(sites) != 1 or region.inner_loops(work[0].site):
        return False
    (site,) = sites.values()
    if r.OPAQUE in work[0].roles and not _is_given_operators(source, region, site):
        return False
    inside = [s.node for s in work] if source.language == "python" else []
    called = [callee_text(node) for node in (site, *inside) if node.kind == "call"]
    return not any(words.WHOLE_MODEL.search(name) for name in called)


# The same, anywhere in the text of what is handed to a function that measures it.
_SPEAKS_OF_WHOLE = re.compile(
    r"model|net(?![a-z])|network|engine|pipe|module|generat|encode|decode|layer|step|train|infer"
    r"|predict|sampl|backward|request|graph|replay|epoch|barrier|reduce|gather|scatter|broadcast",
    re.IGNORECASE,
)


def _is_given_operators(source: SourceFile, region: Region, site: Node) -> bool:
    """Whether all that a measuring function is given to run, in a file of Python, are operators.

    By the names at its calls and what the functions there do: none is a model or a communication.
    """
    if source.language != "python" or site.kind != "call":
        return False
    scope = region.scope
    if callee_text(site) not in scope.parameters:
        return False
    values = source.flow.passed(scope, callee_text(site))
    told = [
        *(v.node.text if isinstance(v, Scope) else v.text for v in values),
        *(f.node.text for f in source.flow.handed_in(site, scope)),
    ]
    return bool(told) and not any(_SPEAKS_OF_WHOLE.search(text) for text in told)


_FEW = 2


def _few_operators(region: Region) -> bool:
    """Whether a region executes what it is given, or one or two operators that are known.

    What a name stands for that a loop goes over may do anything.
    """
    work = [s for s in region.steps if s.works or r.OPAQUE in s.roles]
    if any(s.helpers and loops_around(s.node) for s in work):
        return False
    if any(s.site.kind == "call" and members.is_listed(s.site.children[0]) for s in work):
        return False
    queued: list[Node] = []
    for step in work:
        if not any(exclusive(step.node, other) for other in queued):
            queued.append(step.node)
    return len(queued) <= _FEW

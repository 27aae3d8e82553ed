"""A host clock is read while GPU work may still run.

## What it does
Reports the closing reading of a host clock (or the `timeit` call, or the loop of Google Benchmark)
where device work was queued since the opening reading and nothing waited for it.

## Why it misleads
A launch returns long before the kernel has run. Without a wait the clock measures how long the host
took to queue the work: often a constant few microseconds, whatever the size of the problem.

## Known problems
Whether a call is device work is decided on evidence in the same file: launches, tensors and models
known to be on a device, calls that usually compute. A function that the file imports by name from a
module on disk, beside it or above it, is read before a report; waits behind methods of objects of
other files are not seen. In C++ functions, macros and stopwatches of headers that are included in
quotes, and of sources beside them or beside the file, are read likewise. A stopwatch that is not
found (`startTimer(&t)`, `timer.Start()`) counts as a host clock that does not wait, unless its
name, its type or what it is given speaks of the device or a stream. Regions whose names say that
launch, compile or load time is meant are not reported,
nor is the run time of a program or of a phase of it, nor a training loop timed from step to step as
a whole, which is right on the mean. Some calls are taken to wait by themselves: a trainer's `fit()`
and its like, functions of cuVS, pylibraft and cuML without `resources` or `handle`, calls of
torch.distributed.rpc (which bring tensors of the host unless the file maps devices), objects whose
class is named after another process, and what is given a callback of the file that reads or draws.
So do an asynchronous copy from the device to memory of malloc, new or a vector, `torch.where()` of
a mask alone, and a function of a shared library by ctypes that is given no tensor. Not reported is
work that only its operands tell: a method of an object of another file that is given tensors
(`engine.store(x)`), a sampler or generator that is imported, a C++ function that no file on disk
shows, a functor, and a collective over what was read before.
Files of TensorFlow, Keras, MXNet, Paddle and tinygrad are not judged. A file that makes or loads a
torch model and moves nothing computes on the host. Not reported are figures in whole seconds,
bounds that a test asserts, callables handed in where nothing says that measuring is the purpose,
what only the tail of a step can be missing from (the optimizer after the gradients were read, the
choice of a token), and logs between the readings of a total that do wait.

## Example
```python
import time
import torch

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")
t0 = time.perf_counter()
model(x)
print(time.perf_counter() - t0)
```
```cuda
void run(float *x, int n) {
  auto t0 = std::chrono::steady_clock::now();
  scale<<<n / 256, 256>>>(x, n);
  auto t1 = std::chrono::steady_clock::now();
  printf("%f s\\n", std::chrono::duration<double>(t1 - t0).count());
}
```

## Use instead
```python
import torch

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")
for _ in range(10):
    model(x)
pairs = []
for _ in range(100):
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    model(x)
    end.record()
    pairs.append((start, end))
torch.cuda.synchronize()
times = sorted(start.elapsed_time(end) for start, end in pairs)
print("median", times[50], "ms, p95", times[95], "ms")
```
"""

import itertools
import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step, exclusive
from perf_timing.lint.code.scopes import (
    callee_text,
    last_segment,
    loops_around,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.intent import captions, programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.output import repairs
from perf_timing.lint.parsing import blanked
from perf_timing.lint.warmup import warmups
from perf_timing.lint.work import hearsay, workload

CODE = "TIM101"
LABEL = "NOSYNC"
DEFAULT = True
SEVERITY = "error"
FIX = "unsafe"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{clock} on line {end} is read while the work queued on line {work} may still run;"
    " the figure is launch time"
)
TAIL = (
    "{clock} on line {end} is read while the work queued on line {work} may still run;"
    " the figure leaves out what is left of it then"
)
QUEUE = (
    "{clock} on line {end} is read while the work queued on line {work} may still run;"
    " the figure is launch time, and what a full queue makes the host wait"
)
COLD = (
    "{clock} on line {end} is read while the work queued on line {work} may still run;"
    " the figure is launch time, and compilation where the first call compiles"
)
NEXT = ", and the figure that ends on line {end} holds it"
TRAINING_NOTE = (
    "Wait for the device before the clock is read, or let events on the stream mark the step;"
    " inject-timing puts such marks into a training loop."
)
NOTE = (
    "Wait for the device before the clock is read, or let events on the stream take the time;"
    " render-timing simple-event and raw-cuda do so."
)
HOOKED = (
    "{clock} on line {end} is read in a hook while the work of the step that the framework ran may"
    " still run; the figure leaves out what is left of it then"
)


# Frameworks whose hooks get logs that have been read from the device.
_FOREIGN_HOOKS = re.compile(r"^\s*(import|from)\s+(tensorflow|keras|mxnet)\b", re.MULTILINE)
NO_OP = (
    "{name} waits on CUDA only and does nothing on {device}, which this file may choose as well;"
    " the reading on line {end} then measures launch time"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each closing reading that nothing waited for."""
    yield from _partial_waits(source)
    seen = set()
    for region in source.regions.all:
        if region.kind == "event" or region.cumulative or region.shown:
            continue
        if id(region.report) in seen:
            continue
        left = _left(source, region)
        if left is None or source.means_host_time(region) or _host_only(source, region):
            continue
        if captions.headed_launch(source, region):
            continue
        if _decorates_loading(source, left):
            continue
        if _wait_is_added(source, region) or _is_whole(source, region, left):
            continue
        if _is_interim(source, region) or fates.is_bounded(source, region):
            continue
        if hearsay.is_hearsay(source, left) or hearsay.is_small_exchange(region, left):
            continue
        if source.ends_elsewhere(left) or source.waits_elsewhere(region, left):
            continue
        if blanked.waits_after(source, region, left):
            continue
        if source.stopwatch_waits(region.end):
            continue
        seen.add(id(region.report))
        yield _report(source, region, left)


def _partial_waits(source: SourceFile) -> Iterator[Report]:
    """A wait that is torch.cuda.synchronize or nothing, where the file may choose mps as well."""
    if source.language != "python":
        return
    for name in source.scopes.call_aliases:
        for target, value in source.scopes.assignments(name):
            if value.kind != "cond" or not re.search(
                r"else\s+\(?\s*lambda\b[^:]*:\s*None", value.text
            ):
                continue
            devices = re.findall(r"[\"'](mps|xpu|hpu|npu)[\"':]", source.tree.text)
            served = value.text.rpartition("else")[0]
            missing = [d for d in devices if d not in served]
            regions = [g for g in source.regions.all if source.works(g)]
            reads = [g for g in regions if _waits_with(g, name)]
            if missing and reads and "cuda" in served:
                text = NO_OP.format(name=name, device=missing[0], end=reads[0].end.line)
                yield Report(target, text)


def _waits_with(region: Region, name: str) -> bool:
    return any(
        s.waits and s.site.kind == "call" and callee_text(s.site) == name for s in region.steps
    )


def _left(source: SourceFile, region: Region) -> Step | None:
    if region.hooked:
        remains = re.search(r"remaining|(^|_)eta(_|$)", region.scope.node.text, re.IGNORECASE)
        waits = (
            bool(remains)
            or any(s.waits for s in region.steps)
            or _FOREIGN_HOOKS.search(source.tree.text)
        )
        return None if waits else Step(region.start, region.start, frozenset(), 0)
    left = source.left_running(region) or _awaited_at_times(source, region)
    if left is not None and (_appends(region, left) or _only_steps(region)):
        return None
    if left is None:
        left = _opaque(source, region)
    return left


def _awaited_at_times(source: SourceFile, region: Region) -> Step | None:
    """The work of a Python iteration for which only every n-th one waits before the clock is read.

    if step % 500 == 0: validate(); the times of the others are without it. Where the time is told
    in just the iterations that wait, the others are not missed.
    """
    if source.language != "python" or not region.is_plain or not region.sample_loops:
        return None
    seldom = {id(s): set(_tests(s.site, region)) for s in region.steps}
    asked = {test for s in region.steps if s.waits for test in seldom[id(s)]}
    told = {test for n in fates.fate(source, region).printed for test in _tests(n, region)}
    if not asked or asked & told:
        return None
    left = source.left_running(region, [s for s in region.steps if seldom[id(s)]])
    return left if left is not None and not region.inner_loops(left.site) else None


def _tests(site: Node, region: Region) -> Iterator[str]:
    """The conditions around a place, in the loop of a region, that hold in every n-th iteration."""
    for parent in site.ancestors():
        ends = (region.start.start, region.end.start)
        if parent is region.sample_loops[0] or any(parent.start < e < parent.end for e in ends):
            return
        test = squeeze(parent.children[0].text) if parent.kind == "if" else ""
        if "%" in test or (test.isidentifier() and conditions.every_nth(test, parent)):
            yield test


def _appends(region: Region, left: Step) -> bool:
    """Whether all that may still run is how a loop, which reads each result, keeps the last one.

    ids = torch.cat([ids, token]) after token.item(): nothing beside the model that was waited for.
    """
    loops = region.inner_loops(left.site)[:1]
    steps = list(region.steps)
    reads = [i for i, s in enumerate(steps) if s.waits and region.inner_loops(s.site)[:1] == loops]
    if not reads or left not in steps[reads[-1] :]:  # that one is in another branch
        return False
    after = [s for s in steps[reads[-1] :] if s.works]
    small = [s for s in after if s.node.kind == "call" and _SMALL.search(callee_text(s.node))]
    if not loops:  # one token of a loop that decodes, or an answer: the model was waited for
        answers = (
            s for s in steps[: reads[-1] + 1] if {r.BLOCKING, r.COPY} & s.roles == {r.BLOCKING}
        )
        before = (*answers, *(s for s in steps[: reads[-1]] if s.works))
        return len(small) == len(after) and any(r.ARITHMETIC not in s.roles for s in before)
    return all(s in small or r.ARITHMETIC in s.roles for s in after)


# What makes the next input of a loop that decodes out of its last output.
_SMALL = re.compile(
    r"(^|\.)(cat|concat|stack|argmax|argmin)$|\]\.(max|min|topk|(un)?squeeze)$"
    r"|pos\w*\.(add_|sub_|copy_|fill_)$"
)


def _only_steps(region: Region) -> bool:
    """Whether the host waited for the gradients of a step, so that the optimizer alone is left.

    norm = clip_grad_norm_(...).item(); optimizer.step(): a few of the hundreds of kernels.
    """
    calls = [(s, last_segment(callee_text(s.node))) for s in region.steps if s.node.kind == "call"]
    backward = max((s.position for s, name in calls if name == "backward"), default=None)
    if backward is None:
        return False
    waits = [s.position for s in region.steps if s.waits and s.position > backward]
    after = [s for s in region.steps if s.works and waits and s.position > max(waits)]
    return bool(after) and all(last_segment(callee_text(s.node)) == "step" for s in after)


def _opaque(source: SourceFile, region: Region) -> Step | None:
    """A callable from outside the file, timed in a file about a device, with no wait after it."""
    if source.language == "cuda" and not _is_given_launch(source, region):
        return None  # a functor of C++ may well end in a wait
    found = None
    for step in [*region.steps, *source.regions.tail(region)]:
        if r.OPAQUE in step.roles:
            found = step
        elif step.waits or r.HARNESS in step.roles:
            found = None
    if found is None or not source.evidence or source.roles.foreign or _is_decorator(region):
        return None
    if not purpose.is_named_so(source, region.end):
        return None  # a callback: what it does is anybody's guess
    loops = region.sample_loops[:1] + region.inner_loops(found.site)[:1]
    lines = {found.site.line, found.site.line - 1, *(loop.line for loop in loops)}
    notes = [c.text for c in source.tree.comments if c.line in lines]
    if any(re.search(r"sync|wait|block", text, re.IGNORECASE) for text in notes):
        return None  # a comment says that what is called waits
    return found


def _is_given_launch(source: SourceFile, region: Region) -> bool:
    """Whether a caller in the file passes a launch, and no wait with it, to what is measured."""
    name = region.scope.name
    given = (
        argument.text
        for call in source.scopes.calls
        if name and last_segment(callee_text(call)) == name
        for argument in positional(call)
    )
    return any("<<<" in text and "ynchronize" not in text for text in given)


def _is_whole(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether a region is a program, a phase or a training run, of which only the tail is missing.

    Such a run waits again and again: what may still run at its end is a small part of it.
    """
    if programs.is_program(source, region) or any(workload.compiles(s) for s in region.steps):
        return True
    if programs.loads_model(source, region):
        return True
    if _full_cycle(source, region) or _read_now_and_then(region):
        return True
    if (
        any(r.CLOCK in s.roles for s in source.flow.steps(left.helpers[0]))
        if left.helpers
        else False
    ):
        return True  # the helper takes times by itself, where its waits are judged
    loops = [loop for loop in region.inner_loops(left.site) if loop.kind != "comp"]
    if any(_waits_in(region, loop) for loop in loops):
        return training_loops.is_training(region) or len(loops) > 1
    return _loops_in_helper(region, left)


def _waits_in(region: Region, loop: Node) -> bool:
    """Whether each iteration of a loop of the region waits, there or in a loop inside it."""
    return any(
        s.waits
        and any(inner is loop for inner in region.inner_loops(s.site))
        and not conditions.rare(s.site, loop)
        for s in region.steps
    )


def _loops_in_helper(region: Region, left: Step) -> bool:
    """Whether what is left is queued by nested loops of a helper that waits in each iteration."""
    inside = [loop for loop in loops_around(left.node) if loop.kind != "comp"]
    if not left.helpers or len(inside) < 2:
        return False
    return any(
        s.waits
        and s.site is left.site
        and any(around is loop for around in loops_around(s.node))
        and not conditions.rare(s.node, loop)
        for s in region.steps
        for loop in inside
    )


def _full_cycle(source: SourceFile, region: Region) -> bool:
    """Whether a loop over data is timed from step to step, without a gap and as a whole.

    What one reading leaves out the next one counts: the mean over the steps is right. Where a part
    of the step is told apart, the parts are wrong, except for the wait for data in a loop that
    reads a result of the device in each step.
    """
    if not region.carried:
        return False
    loop = loops_around(region.end)[:1]
    parts = [g for g in source.regions.all if g.end is not region.end and g.kind == "clock"]
    parts = [g for g in parts if g.start is region.start or loops_around(g.start)[:1] == loop]
    reads = [s for s in region.steps if s.waits and r.UPLOAD not in s.roles]
    works = {id(g) for g in parts if any(s.works and r.ARITHMETIC not in s.roles for s in g.steps)}
    if any(g.start is not region.start or id(g) in works for g in parts) or (parts and not reads):
        return False
    if not any(s.waits for s in region.steps) and not training_loops.is_training(region):
        return False  # the host may run ahead by all the steps
    gap = source.flow.between(region.scope, region.end.end, region.start.start)
    seldom = not conditions.rare(region.end, loop[0])  # what is left out then is little
    gap = [s for s in gap if not (seldom and conditions.rare(s.site, loop[0]))]
    return not any(s.works or s.waits for s in gap)


def _read_now_and_then(region: Region) -> bool:
    """Whether a loop that waits in each iteration is timed over many of them, as for a log.

    Only the tail of the last of them can be missing.
    """
    loop = next(iter(loops_around(region.end)), None)
    if not region.carried or loop is None or not conditions.rare(region.end, loop):
        return False
    return any(
        s.waits and loop.start < s.site.start < loop.end and not conditions.rare(s.site, loop)
        for s in region.steps
    )


def _wait_is_added(source: SourceFile, region: Region) -> bool:
    """Whether the time of a wait after the loop is added to the same sum: total += t1 - t0."""
    total = _sum_of(region)
    return bool(total) and any(
        other.start.start > region.end.start
        and other.scope is region.scope
        and _sum_of(other) == total
        and any(s.waits for s in other.steps)
        and source.left_running(other) is None
        and not _waits_between(source, region, other)
        for other in source.regions.all
    )


def _is_interim(source: SourceFile, region: Region) -> bool:
    """Whether a time is shown as total + (clock() - t0), and a wait ends what the total is made of.

    total += clock() - t0 after a wait, now and then, is the figure; between, some may be in flight.
    """
    around = source.statement(region.delta)
    names = {target_key(n) for n in around.walk() if n.kind == "name"}
    return not _sum_of(region) and any(
        other.scope is region.scope
        and ({_sum_of(other)} | fates.fate(source, other).sums) & names
        and any(r.WAIT in s.roles for s in other.steps)
        and source.left_running(other) is None
        for other in source.regions.all
        if other is not region and other.end is not region.end
    )


def _waits_between(source: SourceFile, region: Region, other: Region) -> bool:
    """Whether something waits between two regions: what one leaves is then in neither."""
    between = source.flow.between(region.scope, region.end.end, other.start.start)
    return any(s.waits for s in between)


def _sum_of(region: Region) -> str:
    """The name that the time of a region is added to, or ""."""
    added = (p for p in region.delta.ancestors() if p.kind in ("augassign", "assign"))
    parent = next(added, None)
    if parent is None or region.delta is parent.children[0]:
        return ""
    return target_key(parent.children[0]) if operator(parent)[:2] == "+=" else ""


def _is_decorator(region: Region) -> bool:
    """A timer for any function, with none in this file: what it times is not known."""
    names = {callee_text(s.site) for s in region.steps if r.OPAQUE in s.roles}
    outer = [s for s in region.scope.enclosing() if s is not region.scope and s.name]
    return any(names & set(around.parameters) for around in outer)


def _decorates_loading(source: SourceFile, left: Step) -> bool:
    """Whether a timer decorates functions of which some, by their names, load, build or save.

    What it logs is how the time of such a phase is made up, and no figure of a kernel.
    """
    timed = left.helpers[0] if left.helpers else None
    if timed is None or left.site.kind != "call" or callee_text(left.site) == timed.short_name:
        return False
    timers = {_decorator(d.text) for d in timed.decorators}
    outer = source.scopes.scope_of(left.site).enclosing()
    timers &= {scope.short_name for scope in outer}
    same = [s for s in source.scopes.all if timers & {_decorator(d.text) for d in s.decorators}]
    return len(same) > 1 and any(words.INTENT_NOT_GPU.search(s.short_name) for s in same)


def _decorator(text: str) -> str:
    return last_segment(squeeze(text).lstrip("@").partition("(")[0])


def _host_only(source: SourceFile, region: Region) -> bool:
    if any(s.is_async for s in region.scope.enclosing()):
        return True  # requests and streams: what is awaited has come to the host
    scopes = [s.name for s in region.scope.enclosing()]
    return source.flow.host_only(region.end, region.scope) or any(
        "cpu" in n.lower() for n in scopes
    )


def _report(source: SourceFile, region: Region, left: Step) -> Report:
    names = {"benchmark": "the benchmark loop", "timeit": "timeit"}
    clock = names.get(region.kind) or f"{callee_text(region.end)}()"
    if region.report.kind == "item":
        clock = "the timer"
    if region.hooked:
        return Report(region.report, HOOKED.format(clock=clock, end=region.report.line))
    message = _text(source, region, left).format(
        clock=clock, end=region.report.line, work=left.site.line
    )
    later = [g for g in source.regions.all if g.start is region.report and g.end is not g.start]
    if any(s.waits for g in later[:1] for s in g.steps):
        message += NEXT.format(end=later[0].end.line)
    trains = training_loops.is_training(region) and re.search(r"\bbackward\b", source.tree.text)
    return Report(
        region.report,
        message,
        note=TRAINING_NOTE if trains else "",
        related=((left.site, "work queued here"), (region.start, "clock started here")),
        fixes=repairs.wait_before(source, region, region.report),
    )


# Frameworks that wait in places which are not known here, such as the read of a field.
_WAITS_UNSEEN = re.compile(r"^\s*(import|from)\s+(taichi|mlx|executorch)\b", re.MULTILINE)


def _text(source: SourceFile, region: Region, left: Step) -> str:
    """What the figure holds: all but the tail, or the time to queue and perhaps to compile."""
    before = itertools.takewhile(lambda step: step is not left, region.steps)
    unseen = r.OPAQUE in left.roles or bool(_WAITS_UNSEEN.search(source.tree.text))
    # A function of another file: what it waits for inside is not known.
    unseen = unseen or (source.language == "cuda" and r.LIKELY in left.roles)
    if any(s.waits for s in before) or unseen or region.carried or _trains_on(region):
        return TAIL
    if _is_later_reading(source, region):
        return TAIL
    if region.kind == "clock" and (region.inner_loops(left.site) or _repeats(left)):
        return QUEUE
    jits = source.language == "python" and words.JITS.search(source.tree.text)
    return COLD if jits and not warmups.warmed(source, region) else MESSAGE


def _is_later_reading(source: SourceFile, region: Region) -> bool:
    """Whether an earlier reading of one straight run has the same start: the figure holds both."""
    return any(
        other.start is region.start
        and other.end.end < region.end.start
        and not exclusive(other.end, region.end)
        for other in source.regions.all
    )


def _trains_on(region: Region) -> bool:
    """Whether many steps of a training are measured: each fills the queue, so the host waits."""
    return training_loops.goes_back(region) and any(
        s.works and len(region.inner_loops(s.site)) > 1 for s in region.steps
    )


def _repeats(left: Step) -> bool:
    """Whether the work is done many times: by an iterator that a loop draws on, in a helper."""
    around = left.site.parent
    drawn = around is not None and around.kind == "for"
    return drawn or any(n.kind in ("for", "while") for h in left.helpers for n in h.nodes)

"""The measured region writes to the terminal, a log or a file.

## What it does
Reports print, logging, progress-bar and file calls between the two readings: in every iteration of
a loop that is measured as a whole, or between two readings that are close together. Under a clock
that is stopped in some steps of a training, to validate, and started again, what each step writes
counts, whatever the file is for, and so does what each step writes where steps are timed from one
to the next for a meter or a list. What a function writes counts where a window repeats it and it
computes on the device as well. A checkpoint counts in the time of an epoch as well, where each
epoch writes one.

In CUDA C++ it also reports a printf() of all threads of a measured kernel.

## Why it misleads
Writing takes host time in which no work is queued; a terminal can take milliseconds a line. What is
printed is often a tensor, so that the host waits as well.

## Known problems
Output on every n-th iteration only, or behind a verbosity flag, is not reported; the text of a
token is, where one is written whenever there is one, and what a branch writes that holds measured
work (if more than a median is told), or of which each alternative writes. Where a file is not there
to measure, output in a loop counts whose time is shown as a rate of tokens or images, as throughput
or as latency, and output in each of many training steps of which the mean or the median is told. A
line beside a whole pass over batches does not.

## Example
```python
import time
import torch

torch.cuda.synchronize()
t0 = time.perf_counter()
for i in range(100):
    a @ a
    print("iteration", i)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
```cuda
int main() {
  auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    printf("%d\\n", i);
    scale<<<256, 256>>>(x);
  }
  cudaDeviceSynchronize();
  auto t1 = std::chrono::steady_clock::now();
  printf("%f\\n", std::chrono::duration<double>(t1 - t0).count() / 100);
}
```

## Use instead
```python
import time
import torch

a @ a
torch.cuda.synchronize()
t0 = time.perf_counter()
for i in range(100):
    a @ a
torch.cuda.synchronize()
print("100 iterations", (time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Iterator, Sequence

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code.flow import Step, exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    argument,
    callee_text,
    last_segment,
    leaf_names,
    loop_body,
    loops_around,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, reductions, series
from perf_timing.lint.figures.quotients import counted_loop, quotients
from perf_timing.lint.intent import captions, programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region

CODE = "TIM205"
LABEL = "IO-LOOP"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{call}() writes output inside the region that line {start} starts to measure; the host"
    " queues no work meanwhile"
)
NOTE = (
    "Write after the closing reading, or only on every n-th step outside the window;"
    " render-timing loop does so."
)
KERNEL = (
    "{call}() in a kernel that line {work} launches writes from the device inside the region that"
    " line {start} starts to measure; its threads format text beside the work"
)
KERNEL_NOTE = "Write the values to memory, and print them on the host after the closing reading."
_CLOSE_LINES = 100


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each write that is measured."""
    seen: set[int] = set()
    for report in _reports(source):
        if id(report.node) not in seen:
            seen.add(id(report.node))
            yield report


def _reports(source: SourceFile) -> Iterator[Report]:
    for clock, step in _in_running_clocks(source):
        yield _report(step.site, clock.opening, anywhere=True)
    for region, step in _in_cycles(source):
        batches = training_loops.is_training(region) or programs.samples_data(region)
        yield _report(step.site, region.start, anywhere=batches)
    for region in source.regions.all:
        if (
            region.kind not in ("clock", "event")
            or region.carried
            or region.hooked
            or region.timer
            or region.cumulative
            or (source.language == "cuda" and region.wraps_measurement)
        ):
            continue
        if captions.means_first(source, region):
            continue
        for saving in _saved(source, region) if source.evidence else ():
            yield _report(saving, region.start)
        for streaming in _streamed(source, region):
            yield _report(streaming, region.start, anywhere=True)
        if programs.is_program(source, region) and not _times_steps(source, region):
            continue
        if not any(s.works or s.roles & {r.BLOCKING, r.OPAQUE} for s in region.steps):
            continue
        if source.flow.host_only(region.end, region.scope):
            continue
        for place, bar in _bars(source, region):
            yield _report(place, region.start, _is_speed(source, region), written=bar)
        for step in _in_repeated(source, region):
            yield _report(step.node, region.start, anywhere=True)
        for step in region.steps:
            if r.IO in step.roles and _counts(source, region, step):
                yield _of_step(source, region, step)
            if step.node.kind == "launch":
                yield from _of_kernel(source, region, step.node)


def _of_kernel(source: SourceFile, region: Region, launch: Node) -> Iterator[Report]:
    """Writes of a kernel of CUDA or HIP that all its threads come to."""
    kernel = source.scopes.called_function(launch, source.scopes.scope_of(launch))
    if kernel is None or not kernel.is_kernel:
        return
    for call in kernel.nodes:
        if call.kind == "call" and callee_text(call) == "printf":
            if _spared(call, kernel.node) or _for_debugging(call):
                continue
            message = KERNEL.format(call="printf", work=launch.line, start=region.start.line)
            related = ((region.start, "measured from here"), (launch, "launched here"))
            yield Report(call, message, note=KERNEL_NOTE, related=related)


def _spared(call: Node, kernel: Node) -> bool:
    """Whether a condition in a kernel that is no check of bounds lies around a write."""
    child = call
    for parent in call.ancestors():
        if parent is kernel:
            return False
        if parent.kind in ("else", "case", "cond") or (
            parent.kind == "if"
            and (child is parent.children[0] or not _is_bound(parent.children[0].text))
        ):
            return True
        child = parent
    return False


def _is_bound(condition: str) -> bool:
    """Whether a condition picks the threads that have something to do: if (i < n && j < m)."""
    return bool(_BOUNDS.fullmatch(condition)) and not _CHOSEN.search(condition)


_INDEX = r"[A-Za-z_][\w.]*(\s*[-+*]\s*\w[\w.]*)*"
_BOUND = rf"\(?\s*{_INDEX}\s*<=?\s*{_INDEX}\s*\)?"
_BOUNDS = re.compile(rf"\(?\s*{_BOUND}(\s*&&\s*{_BOUND})*\s*\)?")
_CHOSEN = re.compile(r"print|debug|verbos|show|dump", re.IGNORECASE)


def _report(node: Node, start: Node, anywhere: bool = False, written: Node | None = None) -> Report:
    """What is told of a write at `node`; `written` is the call that writes, where it is another."""
    written = written or node
    call = last_segment(callee_text(written)) if written.kind == "call" else "output"
    message = MESSAGE.format(call=call, start=start.line)
    return Report(node, message, related=((start, "measured from here"),), anywhere=anywhere)


def _of_step(source: SourceFile, region: Region, step: Step) -> Report:
    written = step.site if step.helpers else step.node
    traces = last_segment(callee_text(written)) if written.kind == "call" else ""
    anywhere = (
        traces == "export_chrome_trace"  # it is there to measure
        or _tells_speed(source, region, step)
        or _times_steps(source, region)
    )
    return _report(step.site, region.start, anywhere, written)


def _in_running_clocks(source: SourceFile) -> Iterator[tuple[training_loops.RunningClock, Step]]:
    """The first write of each training step under a clock that is stopped for other things."""
    for training in training_loops.step_loops(source):
        writes = [
            step
            for step in training.steps
            if r.IO in step.roles
            and training.own(step)
            and training_loops.in_every_step(step.site, training.loop)
            and (not step.helpers or _writes_for_all(step))
        ]
        for clock in training_loops.running_clocks(source, training):
            found = next((s for s in writes if clock.runs_at(s.site)), None)
            if found is not None:
                yield clock, found


def _in_cycles(source: SourceFile) -> Iterator[tuple[Region, Step]]:
    """The first write of each iteration of a loop that is timed from one iteration to the next.

    What is written behind the reading of one iteration is in the time of the next.
    """
    told: set[int] = set()
    for region in source.regions.all if source.language == "python" else ():
        loop = next(iter(loops_around(region.end)), None)
        if not region.carried or region.kind != "clock" or loop is None or id(loop) in told:
            continue
        if region.hooked or region.cumulative or not source.works(region) or _counts_up(loop):
            continue
        value = fates.fate(source, region)
        if not (value.lists or any(_METER.search(call.text[:80]) for call in value.passed)):
            continue  # no figure of the steps but how long the rest will take
        for step in region.steps:
            each = r.IO in step.roles and training_loops.in_every_step(step.site, loop)
            if each and (not step.helpers or _writes_for_all(step)):
                told.add(id(loop))
                yield region, step
                break


# What takes the time of a step to tell the mean of all: batch_time.update(time.time() - end).
_METER = re.compile(r"\.(update|add|append|push|record)\(")


def _counts_up(loop: Node) -> bool:
    """Whether an iteration is an epoch, which no line of text slows, or a frame to be shown."""
    return loop.kind != "for" or bool(re.search(r"epoch", loop.children[0].text, re.IGNORECASE))


def _writes_for_all(step: Step) -> bool:
    """Whether a function of the file writes what it is given, be it on one rank: print0(text)."""
    helper = step.helpers[0]
    if len(step.helpers) != 1 or not _LOGS.search(helper.short_name) or step.site.kind != "call":
        return False
    return training_loops.in_every_step(step.node, helper.node, _told(step))


def _told(step: Step) -> set[str]:
    """Parameters that a call of a function of the file gives True, or leaves at that."""
    helper = step.helpers[0]
    header = helper.node.child("params")
    told = set()
    for number, name in enumerate(helper.parameters):
        given = argument(step.site, number, name)
        default = re.search(rf"\b{name}\b[^,]*=\s*True", header.text) if header else None
        if given.text == "True" if given is not None else default:
            told.add(name)
    return told


def _in_repeated(source: SourceFile, region: Region) -> Iterator[Step]:
    """Writes of a function that a window repeats: it computes on the device, and each call writes.

    for _ in range(n): generate(prompt), which tells its own latency, too.
    """
    measures = purpose.is_measuring(source, region.start)
    python = source.language == "python"
    for step in region.steps:
        loops = region.inner_loops(step.site)
        if r.IO not in step.roles or len(step.helpers) != 1 or step.site.kind != "call":
            continue
        if _for_debugging(step.node) or _in_debug_macro(step.node):
            continue
        if not loops or counted_loop(loops[-1]) is None or _at_times(step.site, loops[-1]):
            continue
        helper = step.helpers[0].node
        works = any(
            s.site is step.site
            and (s.works or (python and r.BLOCKING in s.roles))
            and not loops_around(s.node)
            for s in region.steps
        )
        if not works or not (measures or _tells_speed(source, region, step)):
            continue
        if training_loops.in_every_step(step.node, helper, _told(step)):
            yield step


_BARS = re.compile(r"^(tqdm|trange|track|progress_bar|progressbar)$")


def _bars(source: SourceFile, region: Region) -> Iterator[tuple[Node, Node]]:
    """Progress bars around counted repetitions, all of which one pair of readings times.

    Each as where the loop goes over it, and the call that makes it.
    """
    works = [s for s in region.steps if s.works or s.roles & {r.BLOCKING, r.OPAQUE}]
    for loop in region.inner_loops(works[0].site)[-1:] if works else ():
        if loop.kind != "for" or _epochs(region):
            continue
        over = loop.children[1]
        made = _made(source, over, region.scope) if over.kind == "name" else over
        if (made is over and counted_loop(loop) is None) or "range(" not in made.text:
            continue
        if any(n.kind == "call" and callee_text(n) == "next" for n in loop.walk()):
            continue  # a pass over data
        for call in made.walk():
            shown = call.kind == "call" and "disable" not in call.text
            if shown and _BARS.match(last_segment(callee_text(call))):
                yield (call if made is over else over), call


def _made(source: SourceFile, name: Node, scope: Scope) -> Node:
    """What a name was given last before it is used; the name itself where nothing is known."""
    given = [v for _, v in source.scopes.assignments(name.text, scope) if v.end <= name.start]
    return given[-1] if given else name


_SPEED = re.compile(
    r"(token|tok|sample|image|frame|sentence|request)s?[ _]*(/|per[ _])[ _]*(s|sec|second)(?![a-z])"
    r"|throughput|latenc",
    re.IGNORECASE,
)


def _times_steps(source: SourceFile, region: Region) -> bool:
    """Whether the times of single steps are collected, and their mean or median is told.

    A step may be an epoch, of all data at once; a pass over batches takes longer than any line.
    """
    if source.language != "python" or not region.sample_loops or _epochs(region):
        return False
    if not training_loops.is_training(region) or any(
        last_segment(callee_text(s.node)) == "backward" and (s.helpers and loops_around(s.node))
        for s in region.steps
        if s.node.kind == "call"
    ):
        return False
    names = fates.fate(source, region).lists
    scope = source.scopes.scope_of(region.delta)
    applied = set().union(*(reductions.reducers(source, name, scope) for name in names))
    return any(re.search(r"mean$|median$|average$", name) for name in applied)


_TOKEN_RATE = re.compile(
    r"(token|tok|word)s?[ _]*(/|per[ _])[ _]*(s|sec|second)(?![a-z])", re.IGNORECASE
)


def _streamed(source: SourceFile, region: Region) -> Iterator[Node]:
    """Calls that write each token that a generator hands out, in a time that measures the tokens.

    What the generator computes is out of sight, but the figure says that it does: a rate of tokens,
    or a time for which the device is waited.
    """
    if source.language != "python" or not source.on_device:
        return
    value = fates.fate(source, region)
    told = " ".join([*(n.text[:400] for n in (*value.printed, *value.passed)), *value.names])
    rate = _TOKEN_RATE.search(told)
    for loop in region.scope.nodes:
        body = loop_body(loop) if loop.kind == "for" and region.holds(loop) else None
        if body is None or not (rate or _generates(source, region, loop)):
            continue
        handed_out = _made_of_member(loop, body)
        for call in body.children:
            shown = call.kind == "call" and r.IO in source.roles.of(call, region.scope)
            parts = leaf_names(call) if shown else set()
            if handed_out & parts and re.search(r"end\s*=|\.write\(", call.text):
                yield call


def _generates(source: SourceFile, region: Region, loop: Node) -> bool:
    """Whether a loop runs over what a model generates, behind which the device is waited for."""
    listed = loop.children[1]
    made = _made(source, listed, region.scope) if listed.kind == "name" else listed
    waited = any(r.WAIT in s.roles and s.site.start >= loop.end for s in region.steps)
    return waited and made.kind == "call" and bool(_GENERATES.search(callee_text(made)))


_GENERATES = re.compile(r"(^|[._])(stream_)?generate(_stream|_tokens)?$")


def _made_of_member(loop: Node, body: Node) -> set[str]:
    """The variables of a loop, and those that its body computes from them."""
    found = {n.text for n in loop.children[0].walk() if n.kind == "name"}
    for statement in body.children:
        if statement.kind == "assign" and found & {
            n.text for n in statement.children[-1].walk() if n.kind == "name"
        }:
            found |= {n.text for n in statement.children[0].walk() if n.kind == "name"}
    return found


def _tells_speed(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a loop that writes is told as a speed, in a file that is there for something else."""
    if not region.inner_loops(step.site):
        return False
    return _is_speed(source, region) or _per_token(source, region, step)


def _is_speed(source: SourceFile, region: Region) -> bool:
    """Whether what is told of a region is a rate of tokens or images, throughput or latency."""
    value = fates.fate(source, region)
    texts = " ".join(n.text[:400] for n in (*value.printed, *value.passed))
    texts += " ".join((source.intent(region), *sorted(value.names)))
    return bool(_SPEED.search(texts))


def _per_token(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether a loop decodes tokens and writes them as they come, and its time is divided."""
    if source.language != "python" or not _WRITES.search(step.node.text):
        return False
    calls = (n for n in region.inner_loops(step.site)[-1].walk() if n.kind == "call")
    decodes = any(re.search(r"token\w*\.(batch_)?decode$", callee_text(call)) for call in calls)
    return decodes and any(True for _ in quotients(source, region))


def _counts(source: SourceFile, region: Region, step: Step) -> bool:
    if step.position >= region.end.start or _for_debugging(step.site):
        return False
    if step.helpers and not (_is_log(step) and region.inner_loops(step.site)):
        return False
    if source.language == "cuda" and region.kind != "event" and _shows_a_part(source, region, step):
        return False
    loops = [loop for loop in region.inner_loops(step.site) if loop.kind != "comp"]
    if loops:
        works = any(
            (s.works or s.roles & {r.BLOCKING, r.OPAQUE} or (s.waits and source.language == "cuda"))
            and region.inner_loops(s.site)[:1] == loops[:1]
            for s in region.steps
        )
        if re.search(r"epoch", loops[0].children[0].text[:40], re.IGNORECASE):
            return False
        return works and not _at_times(step.site, loops[-1]) and not _epochs(region)
    if _epochs(region):
        return False
    # Writing a whole trace or file costs so much that a condition around it does not matter.
    writes_file = re.search(r"(export_chrome_trace|dump|save)$", callee_text(step.node))
    guarded = (
        conditions.rare(step.site, region.start) if writes_file else _left_out(region, step.site)
    )
    guarded |= conditions.rare(step.site, region.start) and _tells_median(source, region)
    if region.end.line - region.start.line > _CLOSE_LINES or guarded:
        return False
    first = min((s.position for s in region.steps if s.works or r.BLOCKING in s.roles), default=0)
    if step.position < first and region.kind != "event" and not _is_close(region, first):
        return False  # an event pair holds the idle device
    return not any(region.inner_loops(s.site) and s.waits for s in region.steps)


def _tells_median(source: SourceFile, region: Region) -> bool:
    """Whether the middle one of all samples is told: what few of them hold beside does not move it.

    if epoch % 20 == 0: print(test(model))
    """
    scope = source.scopes.scope_of(region.delta)
    lists = fates.fate(source, region).lists
    applied = {a for name in lists for a in series.applied(source, name, scope)}
    moved = any(reductions.MEAN.search(a) or reductions.SPREAD.search(a) for a in applied)
    return not moved and any(a.endswith("median") for a in applied)


def _left_out(region: Region, write: Node) -> bool:
    """Whether a condition or an error path keeps a write out of some measurements.

    None does where the branch holds work that is measured, or where all branches write. What is
    written before the function is left is in no figure.
    """
    if exclusive(write, region.end):
        return True
    child = write
    for parent in write.ancestors():
        if parent.start <= region.start.start and region.start.end <= parent.end:
            return False
        if parent.kind in ("except", "cond"):
            return True
        branch = parent if parent.kind in ("elif", "else", "case") else child
        apart = parent.kind in ("elif", "else", "case", "if") and child.kind not in _BRANCHES
        if apart and (
            _leaves(branch) or not (_holds_work(region, branch) or _writes_anyway(region, parent))
        ):
            return True
        child = parent
    return False


_BRANCHES = ("elif", "else")


def _leaves(branch: Node) -> bool:
    """Whether a branch ends the function or the program."""
    block = next((n for n in (branch, *branch.children) if n.kind == "block"), branch)
    return any(
        n.kind in ("return", "raise")
        or (n.kind == "call" and re.search(r"(^|[.:_])(exit|abort)$", callee_text(n)))
        for n in block.children
    )


def _holds_work(region: Region, branch: Node) -> bool:
    """Whether work that is measured stands in a branch itself."""
    return any(
        (s.works or r.BLOCKING in s.roles) and branch.start <= s.site.start < branch.end
        for s in region.steps
    )


def _writes_anyway(region: Region, branch: Node) -> bool:
    """Whether an `if` has an `else`, and writes whichever way is taken."""
    whole = branch if branch.kind == "if" else branch.parent
    if whole is None or whole.kind != "if" or whole.children[-1].kind != "else":
        return False
    writes = [s.site for s in region.steps if r.IO in s.roles]
    return all(
        any(part.start <= write.start < part.end for write in writes) for part in whole.children[1:]
    )


def _is_close(region: Region, first: int) -> bool:
    """Whether C++ code makes no buffer between its first reading and its first work.

    Where it does, a line of text is lost in the time of the program.
    """
    return region.start.tree.language == "cuda" and not any(
        r.ALLOC in s.roles for s in region.steps if s.position < first
    )


_LOGS = re.compile(r"(^|_)(print\d?|log|logger|echo|report|say|info)(_|$)")


def _is_log(step: Step) -> bool:
    """Whether a function of the file writes whatever it is given, as its name says: log(text)."""
    helper = step.helpers[0]
    return bool(
        len(step.helpers) == 1
        and helper.node.kind == "function"
        and _LOGS.search(helper.short_name)
        and not loops_around(step.node)
        and not conditions.conditional(step.node, helper.node)
    )


_FILES = re.compile(
    r"(^|[._])(torch\.save|np\.savez?\w*|numpy\.savez?\w*|pickle\.dump|joblib\.dump|imwrite|savefig"
    r"|save_(state|pretrained|model|ckpt|checkpoints?|weights|network|snapshot))$"
)


def _saved(source: SourceFile, region: Region) -> Iterator[Node]:
    """Calls that write a file of the model in every epoch that is timed as a whole.

    It takes seconds, as no line of text does. The time of a whole program holds them on purpose,
    and so does that of nothing but the writing.
    """
    if source.language != "python" or not region.sample_loops:
        return
    low, high = region.start.end, region.end.start
    calls = [n for n in region.scope.nodes if n.kind == "call" and low <= n.start and n.end <= high]
    for call in calls:
        if _sometimes(call, region.start) or region.inner_loops(call):
            continue
        if all(call.start <= n.start < call.end or _PREPARES.search(callee_text(n)) for n in calls):
            continue
        helper = source.scopes.called_function(call, region.scope)
        if helper is None:
            if _FILES.search(source.scopes.resolve(callee_text(call))):
                yield call
        elif any(
            n.kind == "call"
            and _FILES.search(source.scopes.resolve(callee_text(n)))
            and not _sometimes(n, helper.node)
            for n in helper.nodes
        ):
            yield call


_PREPARES = re.compile(
    r"(^|[._])(makedirs|mkdir|join|exists|print|info|log|state_dict|synchronize|barrier|Path)$"
)


def _sometimes(node: Node, outside: Node) -> bool:
    """Whether a condition keeps a call from some iterations: an interval, a better result."""
    for parent in node.ancestors():
        if parent.start <= outside.start and outside.end <= parent.end:
            return False
        if parent is outside:
            return False
        if parent.kind in ("if", "elif", "else", "except", "case", "cond") and not re.search(
            r"rank|is_main|master|makedirs|exists", parent.children[0].text
        ):
            return True
    return False


def _shows_a_part(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether the figure of a part of the region is written: the whole is a total beside it.

    Not so that of two events, between which the device idles while the host writes. In Python such
    a line may read from the device, which costs more than the writing.
    """
    return any(
        any(node is step.site for node in fates.fate(source, other).printed)
        for other in source.regions.all
        if other is not region
        and other.scope is region.scope
        and other.timer is None
        and region.holds(other.start)
        and region.holds(other.end)
    )


def _epochs(region: Region) -> bool:
    """Whether each iteration is an epoch or a like phase, which a line of text cannot slow."""
    return training_loops.is_training(region) and programs.is_phase(region)


def _for_debugging(node: Node) -> bool:
    """Whether a C++ file compiles the write only where a macro asks for it: #ifdef DEBUG."""
    if node.tree.language != "cuda":
        return False
    depth = 0
    for line in reversed(node.tree.text[: node.start].splitlines()):
        directive = re.match(r"\s*#\s*(if|ifdef|ifndef|endif)\b(.*)", line)
        if directive and directive[1] == "endif":
            depth += 1
        elif directive and depth:
            depth -= 1
        elif directive and re.search(r"DEBUG|VERBOSE|TRACE|LOG|PRINT", directive[2], re.IGNORECASE):
            return directive[1] != "ifndef"
    return False


def _in_debug_macro(node: Node) -> bool:
    """Whether C++ code writes in a macro that is there to debug, and is off: DEBUG_BLOCK(...).

    Such a macro is given statements, which are no arguments of a call to a parser.
    """
    if node.tree.language != "cuda":
        return False
    opened = list(_DEBUG_MACRO.finditer(node.tree.text, max(0, node.start - 1500), node.start))
    for macro in opened[-1:]:
        inside = node.tree.text[macro.end() - 1 : node.start]
        switch = rf"^[ \t]*#[ \t]*define[ \t]+{macro[1]}[ \t]*(1[ \t]*)?$"
        if inside.count("(") > inside.count(")"):
            return re.search(switch, node.tree.text, re.MULTILINE) is None
    return False


_DEBUG_MACRO = re.compile(r"\b(?:[A-Z0-9]+_)*(DEBUG|VERBOSE|TRACE|DBG)(?:_[A-Z0-9]+)*\s*\(")


def _at_times(node: Node, loop: Node) -> bool:
    """Whether a condition keeps the write from some iterations.

    `if stream:` around the text of a token is a way of working: all iterations write, or none, or
    they write it in either branch. So is a condition that only asks for the first rank, or whether
    there is a text: `if text:`, `if "?" not in text:`, `if now > shown:` around text[shown:now].
    """
    for parent in node.ancestors():
        if parent.start <= loop.start and loop.end <= parent.end:
            return False
        if parent.kind == "else" and parent.parent is not None and _streams(parent.parent, node):
            continue
        if parent.kind == "if" and _streams(parent, node):
            continue
        if parent.kind in ("if", "elif", "else") and _prints_either_way(parent):
            continue
        if parent.kind in ("if", "elif", "else", "except", "case", "cond"):
            return True
    return False


def _prints_either_way(branch: Node) -> bool:
    """Whether an `if` prints in each of its branches, the last of which is an else."""
    whole = branch.parent if branch.kind != "if" and branch.parent is not None else branch
    ways = whole.children[1:]
    return (
        whole.kind == "if"
        and ways[-1:] != []
        and ways[-1].kind == "else"
        and all(
            any(_PRINTS.match(n.text) or _prints_either_way(n) for n in _statements(way))
            for way in ways
        )
    )


def _statements(way: Node) -> Sequence[Node]:
    """The statements of a branch, which may be one without braces."""
    block = way if way.kind in ("block", "call", "binary") else way.child("block")
    if block is None:
        return way.children
    return block.children if block.kind == "block" else [block]


_PRINTS = re.compile(r"(std::)?((cout|cerr)\b|f?printf\s*\(|print\s*\()")


def _streams(branch: Node, write: Node) -> bool:
    """Whether an `if` is about how the text of a token is written, and not about when."""
    asked = branch.children[0].text
    if len(branch.children) > 2:
        return bool(_STREAMS.fullmatch(asked)) and all(
            any(_WRITES.search(n.text) for n in part.walk() if n.kind == "call")
            for part in branch.children[1:]
        )
    if _STREAMS.fullmatch(asked) or _asks_for_text(branch, write):
        return True
    if not _WRITES.search(write.text):
        return False
    return training_loops.of_one_rank(branch) or _asks_for_more(asked, write)


_STREAMS = re.compile(r"\(?\s*([\w.]+\.)?stream(ing|_\w+)?\s*\)?")
_WRITES = re.compile(r"end\s*=|\.write\(")
_TEXT = re.compile(r"(?:[\"'][^\"']*[\"']\s+not\s+in\s+)?(\w+)(?:\s*!=\s*(?:\"\"|''))?")


def _asks_for_text(branch: Node, write: Node) -> bool:
    """Whether a branch is taken where there is a text, which a call that streams then writes."""
    asked = _TEXT.fullmatch(branch.children[0].text.strip("() "))
    return bool(asked and _WRITES.search(write.text)) and any(
        n.kind == "name" and n.text == asked[1] for n in write.walk() if asked
    )


def _asks_for_more(asked: str, write: Node) -> bool:
    """Whether a condition asks if a text has grown by what the call then writes of it."""
    grown = re.fullmatch(r"\(?\s*(\w+)\s*[><]=?\s*(\w+)\s*\)?", asked)
    bounds = (
        rf"\[\s*({grown[1]}\s*:\s*{grown[2]}|{grown[2]}\s*:\s*{grown[1]}?)\s*\]" if grown else ""
    )
    return bool(bounds and re.search(bounds, write.text))

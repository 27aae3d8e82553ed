"""A host clock is started while earlier GPU work may still run.

## What it does
Reports the opening reading of a host clock where device work was queued before it and nothing
waited for that work; that of a training step, whose time is read behind a wait at every n-th step
only, whatever the file is for. So does one that opens a figure beside that of the work before it.

## Why it misleads
The tail of the warm-up (or of the variant measured before) runs inside the window: the first figure
is too long, and it depends on what ran before.

## Known problems
Readings that end one stretch and start the next are reported once, by host-clock-without-sync. Work
that was queued in another file is not seen, nor what was queued before the function was called,
unless every caller in a Python file leaves work running. What a function that measures in Python is
given to run counts as device work where a wait for the device ends the measurement. Other work is
not reported before one answer of a whole model, beside which it is small, nor is what a branch
queues that only checks results, if asked to: `if check:`.

## Example
```python
import time
import torch

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")
for _ in range(10):
    model(x)
t0 = time.perf_counter()
for _ in range(100):
    model(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
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
from collections.abc import Iterator
from dataclasses import replace

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step, exclusive, pending
from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    loop_body,
    loops_around,
    operator,
    positional,
    squeeze,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.intent import programs, purpose
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.output import repairs
from perf_timing.lint.warmup import dropped_samples, warmups
from perf_timing.lint.work import hearsay, workload

CODE = "TIM102"
LABEL = "NOSYNC-START"
DEFAULT = True
BENCHMARK_ONLY = True  # of the stages of a product, what runs over is in the next one
SEVERITY = "warning"
FIX = "unsafe"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{clock}() on line {start} is read while the work queued on line {work} may still run;"
    " its tail is billed to this measurement"
)
NOTE = "Wait for the device before the clock is started; render-timing loop and simple-event do so."


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each opening reading that earlier work runs into."""
    regions = [g for g in source.regions.all if g.kind == "clock" and not g.cumulative]
    ends = {id(region.end) for region in regions}
    seen: set[int] = set()
    for region, work in _backlogs(source):
        seen.add(id(region.start))
        message = MESSAGE.format(
            clock=callee_text(region.start), start=region.start.line, work=work.site.line
        )
        related = ((work.site, "work queued here"),)
        yield Report(region.start, message, related=related, anywhere=True)
    for region in regions:
        start = region.start
        if {id(start)} & (seen | ends) or not _applies(source, region):
            continue
        left = _left(source, region)
        if left is None or (source.language == "python" and hearsay.is_hearsay(source, left)):
            continue
        if source.ends_elsewhere(left) or source.stopwatch_waits(start):
            continue
        seen.add(id(start))
        message = MESSAGE.format(clock=callee_text(start), start=start.line, work=left.site.line)
        related = ((left.site, "work queued here"),)
        fixes = repairs.wait_before(source, region, start)
        told = (
            _returns_rate(source, region)
            or purpose.is_told_finely(source, region)
            or _is_stage(source, region, left)
        )
        yield Report(start, message, related=related, fixes=fixes, anywhere=told)


def _is_stage(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether what runs on is itself measured by the function: a figure beside that of a region.

    What a function leaves running that is called there may have been waited for in parts. A class
    that takes times keeps them beside its work, which it may well have given to the host.
    """
    if left.helpers or any(scope.class_name for scope in region.scope.enclosing()):
        return False
    return any(
        other.kind == "clock"
        and other.scope is region.scope
        and other.start is not region.start
        and other.sample_loops == region.sample_loops
        and other.end.end <= region.start.start
        and other.holds(left.site)
        and not other.cumulative
        for other in source.regions.all
    )


def _runs_given(source: SourceFile, region: Region) -> bool:
    """Whether Python code that measures runs what it is given, and that is work of the device.

    A wait for the device before the clock stops says so, or the name of a model.
    """
    if source.language != "python" or not source.evidence or source.roles.foreign:
        return False
    if not purpose.is_named_so(source, region.start):
        return False
    given = [s for s in region.steps if r.OPAQUE in s.roles]
    steps = [*region.steps, *source.regions.tail(region)]
    if not given or words.MODEL.search(callee_text(given[-1].node)):
        return bool(given)
    return any(_is_explicit(s) for s in steps if s.position >= given[-1].position)


def _is_explicit(step: Step) -> bool:
    """Whether a step waits for a device, and not for other ranks or threads."""
    return (
        r.WAIT in step.roles
        and step.node.kind == "call"
        and not re.search(r"barrier|everyone|join", callee_text(step.node))
    )


def _returns_rate(source: SourceFile, region: Region) -> bool:
    """Whether a plain Python function returns what it did in a second: return n / (t2 - t1)."""
    if source.language != "python" or region.scope.class_name:
        return False
    return any(
        part.kind == "binary"
        and operator(part).startswith("/")
        and any(n is region.delta or n.text in value.names for n in part.children[1].walk())
        for value in [fates.fate(source, region)]
        for returned in value.returned
        for part in returned.walk()
    )


def _applies(source: SourceFile, region: Region) -> bool:
    """Whether a region is a measurement of device work, which something can run into."""
    start = region.start
    if region.carried or region.hooked or start.kind == "item":
        return False
    if region.timer is not None and source.language == "cuda":
        return False
    if not (source.works(region) or _runs_given(source, region)) or _coarse(source, region):
        return False
    if programs.is_program(source, region):
        return False
    if fates.calibrates(source, region):
        return False
    if source.means_host_time(region) and not any(r.WAIT in s.roles for s in region.steps):
        return False
    if fates.asserted_positive(source, region):
        return False
    ends = (start, region.end)
    return not any(source.flow.host_only(place, region.scope) for place in ends)


def _left(source: SourceFile, region: Region) -> Step | None:
    """The work that runs into a region, where that matters."""
    if region.timer is not None:
        return _left_by_user(source, region)
    left = _left_before(source, region) or _left_by_callers(source, region)
    if left is None or _outlasted(source, region, left) or _meets_first(source, region, left):
        return None
    if _is_small_beside(source, region, left):
        return None
    waits = source.language == "cuda" and source.waits_between(region, left, region.start)
    return None if waits else left


def _is_small_beside(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether what is left is another function's, beside an answer of a whole model.

    Where both are timed, as stages of one run, the answer is told apart from what came before.
    """
    if any(g.scope is region.scope and g.holds(left.site) for g in source.regions.all):
        return False
    mine = set().union(*(workload.identities(s) for s in workload.works(region)))
    return programs.is_long(source, region) and not workload.identities(left) & mine


def _meets_first(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether the tail runs into the first sample only, which is left out."""
    loops = region.sample_loops[-1:]
    inside = any(loop.start <= left.site.start < loop.end for loop in loops)
    return bool(loops) and not inside and dropped_samples.leaves_first_out(source, region)


def _outlasted(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether a C++ program fills memory and then does what takes longer on the host.

    That is to work on as much memory there, to allocate some of the device, to write to the
    terminal, or to time itself.
    """
    if source.language != "cuda" or "emset" not in callee_text(left.node):
        return False
    first = min((s.position for s in region.steps if s.works or s.waits), default=0)
    between = source.flow.between(region.scope, left.site.end, first)
    if any(s.roles & {r.ALLOC, r.IO} and s.position < first for s in between):
        return True
    size = squeeze(positional(left.node)[2].text) if len(positional(left.node)) > 2 else ""
    calls = (n for n in region.scope.nodes if n.kind == "call")
    filled = (
        call
        for call in calls
        if left.site.end <= call.start < region.start.start
        and re.fullmatch(r"(std::)?(memset|memcpy)", callee_text(call))
    )
    if any(size in {squeeze(a.text) for a in positional(call)} for call in filled):
        return True
    return any(
        left.site.end <= other.start.start
        and other.end.end <= region.start.start
        and other.end is not other.start
        and not source.works(other)
        and any(
            n.kind == "call" and n is not other.end and other.holds(n) for n in other.scope.nodes
        )
        for other in source.regions.all
        if other.kind == "clock" and other.scope is region.scope and other is not region
    )


def _backlogs(source: SourceFile) -> Iterator[tuple[Region, Step]]:
    """Times of single training steps that are read, behind a wait, at every n-th step only.

    The steps between wait for nothing: all that the host was ahead is in the figure.
    """
    for training in training_loops.step_loops(source):
        always = [s for s in training.steps if not _seldom(s.site, training.loop)]
        left = pending(always)
        if left is None or any(s.waits for s in always):
            continue
        for region in training_loops.parts(source, training):
            plain = region.kind == "clock" and not (region.carried or region.cumulative)
            often = not _seldom(region.start, training.loop)
            waited = any(s.waits for s in region.steps)
            if plain and waited and often and _seldom(region.end, training.loop):
                yield region, left


def _seldom(node: Node, loop: Node) -> bool:
    """Whether a condition keeps a place from most steps; that the rank is the first does not."""
    return conditions.rare(node, loop, _on_one_rank)


def _on_one_rank(branch: Node) -> bool:
    condition = branch.children[0].text if branch.kind == "if" else ""
    return "%" not in condition and bool(re.search(r"rank|main_process|master", condition))


def _verifies(site: Node, place: Node) -> bool:
    """Whether `site` is in a branch that is there to check results, or to debug, if asked to.

    Who asks for that does not ask for figures: if check: total += loss(out, target)
    """
    for parent in site.ancestors():
        if parent.start <= place.start < parent.end:
            return False
        asked = parent.kind == "if" and parent.children and site.start >= parent.children[0].end
        if asked and _CHECKS.search(parent.children[0].text):
            return True
    return False


_CHECKS = re.compile(
    r"(?<![a-z])(?<!not )(check|verify|validate|debug|compare)"
    r"(_(result|output|correct\w*|acc\w*))?s?(?![a-z_(.])"
)


def _leaves(site: Node, start: Node) -> bool:
    """Whether `site` is in a branch that leaves the function or the iteration before `start`."""
    for parent in site.ancestors():
        if parent.start <= start.start < parent.end:
            return False
        last = parent.children[-1] if parent.kind == "block" and parent.children else None
        if last is not None and last.kind in ("return", "raise", "jump"):
            return last.text != "pass"
    return False


def _coarse(source: SourceFile, region: Region) -> bool:
    """A window over a loop that waits in each iteration: the tail of earlier work is lost in it.

    It is not where the loop executes one operator, of which the tail may be many, nor where a
    region that ends right before it, as one stage of many items before the next, leaves its work.
    """
    if _follows_stage(source, region):
        return False
    if not any(s.waits and region.inner_loops(s.site) for s in region.steps):
        return False
    works = [s for s in region.steps if s.works and r.ARITHMETIC not in s.roles]
    works = [s for s in works if r.COPY not in s.roles] or works
    names = [callee_text(s.node) for s in works if s.node.kind == "call"]
    one = len({id(s.site) for s in works}) == 1
    return not one or any(words.WHOLE_MODEL.search(name) for name in names)


def _follows_stage(source: SourceFile, region: Region) -> bool:
    """Whether another region of the same iterations ends right before one, with work running."""
    loops = region.sample_loops
    return any(
        other.kind == "clock"
        and other.scope is region.scope
        and other.sample_loops == loops
        and other.end.end <= region.start.start
        and not any(
            s.waits or s.works
            for s in source.flow.between(region.scope, other.end.end, region.start.start)
        )
        and source.left_running(other) is not None
        for other in (source.regions.all if loops else ())
    )


def _left_before(source: SourceFile, region: Region) -> Step | None:
    """The work of the function that may still run when the region starts."""
    return _pending_at(source, region, region.start, region.scope)


def _left_by_user(source: SourceFile, region: Region) -> Step | None:
    """The work that may still run when Python code enters a context that takes the time."""
    opening = source.scopes.scope_of(region.start)
    head = [s for s in source.flow.steps(opening) if s.position < region.start.start]
    used = next(
        (
            node
            for node in region.scope.nodes
            if node.kind == "with" and node.children[-1].start == region.spans[0][0]
        ),
        None,
    )
    if used is None or any(s.waits for s in head):
        return None
    return _pending_at(source, region, used, region.scope)


def _left_by_callers(source: SourceFile, region: Region) -> Step | None:
    """The work that every caller in a Python file leaves running for a function that measures.

    Asked where the function itself does nothing on the device before.
    """
    scope = region.scope
    sites = source.scopes.call_sites(scope) if source.language == "python" else []
    before = source.flow.between(scope, -1, region.start.start)
    if any(s.waits or s.works or s.roles & {r.OPAQUE, r.BLOCKING, r.COPY} for s in before):
        return None
    if scope.node.kind != "function" or scope.class_name or region.sample_loops:
        return None
    if not any(s.waits for s in region.steps) and not any(map(loops_around, sites)):
        return None  # nothing is billed but what launches take, and that is told at its end
    found = [_pending_at(source, region, site, source.scopes.scope_of(site)) for site in sites]
    return found[0] if found and all(left is not None for left in found) else None


def _pending_at(source: SourceFile, region: Region, place: Node, scope: Scope) -> Step | None:
    """The work that may still run at a place of a function from which a region starts."""
    given = _runs_given(source, region)
    steps = [
        replace(s, roles=s.roles | {r.WORK}) if given and r.OPAQUE in s.roles else s
        for s in source.flow.steps(scope)
        if (r.ARITHMETIC not in s.roles or s.waits)
        and not exclusive(s.site, place)
        and not source.flow.captured(s)
        and not (s.works and _verifies(s.site, place))
    ]
    start = place.end if place is region.start else place.start
    before = [s for s in steps if s.position <= start and not _leaves(s.site, place)]
    for index in reversed(range(len(before))):
        if workload.compiles(before[index]):
            before = before[index + 1 :]  # it takes seconds: what was queued before it is done
            break
    late = warmups.late_start(region) if place is region.start else None
    loops = region.sample_loops if place is region.start else loops_around(place)
    loops = [late[0]] if late is not None and not loops else loops
    for loop in loops[:1]:
        body = loop_body(loop)
        if body is not None:
            tail = [s for s in steps if start < s.position <= body.end]
            head = [s for s in before if s.position > body.start]
            around = pending([*tail, *head])
            if around is not None and _is_certain(source, region, around):
                return around
        if training_loops.is_training(region) or place is not region.start:
            return None  # what ran before the loop meets the first of many steps
    return pending(before)


def _is_certain(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether the work is not the region's own, or is seen right there in a Python file.

    What a region leaves running itself is told at its end as well.
    """
    if left is not source.left_running(region):
        return True
    return source.language == "python" and not left.helpers

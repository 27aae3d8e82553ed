"""The measured loop reads a value back from the device in every iteration.

## What it does
Reports `.item()`, `.cpu()`, `float(tensor)`, `.get()` and other blocking reads (in code for PyTorch
up to 0.3 also `loss.data[0]`) in each iteration of a loop that works on the device and that one
pair of readings encloses, and in each step of a training loop that is timed: step by step, over
windows of steps, or as an epoch or a whole by the function that calls it, as a rate since the
beginning, or by a logger that hands out the batches (`log_every`). Training loops are looked at
whatever the file is for, and each statement in them that reads is reported: without the first, the
next one waits. Elsewhere the first read of a loop stands for the others. Not reported are one whose
value decides whether the loop goes on, and one behind all the work of a step that is timed by
itself, and not from the end of the one before: that is the wait which its clock needs; one before
any work of a step, one in a branch that ends the loop, one of the action that an environment is
given, and one in a loop over epochs; nor a read whose value is dropped or that a comment calls a
sync. Outside of trainings a read right after another wait is not reported either.

## Why it misleads
The host waits for the device in each iteration instead of running ahead, so launches no longer
overlap with execution; the loop is slower than it would be without the read.

## Known problems
A loop whose purpose is the read, and which goes on whatever was read, is reported as well. Reads on
every n-th iteration only are not, nor are reads of what becomes the next iteration's input, nor the
copy that ends a round trip, to which the same data goes in each iteration; those of the first rank
alone, and beside each step of an optimizer that takes one every few batches, are.

## Example
```python
import time
import torch

torch.cuda.synchronize()
t0 = time.perf_counter()
for x, y in loader:
    loss = loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    total += loss.item()
torch.cuda.synchronize()
print(time.perf_counter() - t0)
```

## Use instead
```python
import time
import torch

torch.cuda.synchronize()
t0 = time.perf_counter()
for x, y in loader:
    loss = loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    total += loss.detach()
torch.cuda.synchronize()
print(time.perf_counter() - t0)
print(total.item())
```
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code.flow import Step, exclusive
from perf_timing.lint.code.scopes import (
    call_args,
    callee_text,
    last_segment,
    loops_around,
    positional,
    squeeze,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import captions, convergence, programs
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work import workload

CODE = "TIM202"
LABEL = "SYNC-LOOP"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "warning"
LANGUAGES = ("python",)
MESSAGE = (
    "{call} reads from the device in every iteration of the measured loop; the host waits"
    " each time and launches no longer overlap"
)
NOTE = (
    "Keep the value on the device and read it after the loop, or only on every n-th step;"
    " render-timing loop does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each read that every measured iteration waits for."""
    seen: set[int] = set()
    statements: set[int] = set()  # the first read of a statement stands for the others
    loops: set[int] = set()  # the first read of a loop that does not train stands for the others
    for clock, step, loop in _training_steps(source):
        report = _report(source, step, clock)
        statement = id(source.statement(report.node))
        seen.add(id(step.site))
        if statement not in statements:
            statements.add(statement)
            loops.add(id(loop))
            yield replace(report, anywhere=True)
    for region in source.regions.all:
        if not region.is_plain:
            continue
        if captions.means_first(source, region) or programs.is_program(source, region):
            continue
        for step in region.steps:
            if id(step.site) not in seen and _blocks(source, region, step):
                seen.add(id(step.site))
                loop = next(n for n in region.inner_loops(step.site) if n.kind != "comp")
                if id(loop) in loops:
                    continue
                loops.add(id(loop))
                yield _report(source, step, (region.start, "clock started here"))


def _report(source: SourceFile, step: Step, clock: tuple[Node, str]) -> Report:
    """A report of a read; where it points to the call of a function, it tells which line reads."""
    place = _read_itself(source, step)
    call = f"{last_segment(callee_text(step.node))}()"
    if step.node.kind == "subscript":
        call = step.node.text
    related: tuple[tuple[Node, str], ...] = (clock,)
    if step.helpers and place is step.site and place.kind == "call":
        call = f"{last_segment(callee_text(place))}(), by {call} on line {step.node.line},"
        related = ((step.node, "the read"), clock)
    return Report(place, MESSAGE.format(call=call), related=related)


def _training_steps(source: SourceFile) -> Iterator[tuple[tuple[Node, str], Step, Node]]:
    """Reads in every step of a training loop whose steps, or windows of steps, are timed.

    Each comes with what times it, and why that does. A read after all the work of a step that is
    timed by itself is the wait that its clock needs, unless the next step is timed from before the
    read.
    """
    for training in training_loops.step_loops(source):
        steps = list(training.steps)
        first = next((number for number, s in enumerate(steps) if s.works), 0)
        losses = training.losses
        reads = [
            step
            for number, step in enumerate(steps)
            if (_reads(step) or (_reads_once(step) and training.gives_loss(step)))
            and training.repeats(step)
            and (first < number or callee_text(step.node).partition(".")[0] in losses)
        ]
        found = [
            step
            for step in reads
            if not (
                _meant_to_wait(step.node)
                or _gives_up(step.site, training.loop)
                or _acts(step.site, training.loop)
                or _seldom(step.site, training, reads)
            )
            and not _is_repeated(steps, step)
        ]
        if not found or source.flow.host_only(found[0].site, training.scope):
            continue
        logger = training_loops.logged_by(training)
        if logger is not None:
            yield from (((logger, "the steps are timed here"), s, training.loop) for s in found)
        for region in training_loops.windows(source, training):
            near = region.scope is training.scope
            own = [s for s in found if near or training.own(s)]
            yield from ((_clock(region, s), s, training.loop) for s in own)
        for region in training_loops.parts(source, training):
            for step in found:
                if region.holds(step.site) and _stalls(region, steps, step):
                    yield _clock(region, step), step, training.loop


def _clock(region: Region, step: Step) -> tuple[Node, str]:
    """The reading that times a read of a training step, and what it does."""
    around = region.start.start < step.site.start < region.end.start
    return (region.start, "clock started here") if around else (region.end, "timed up to here")


def _read_itself(source: SourceFile, step: Step) -> Node:
    """Where to point: at the line of a call that goes on over several lines on which it reads.

    In a function that is called nowhere else, at the read in it; else at the call of the function.
    """
    if not all(len(source.scopes.call_sites(helper)) == 1 for helper in step.helpers):
        return step.site
    args = call_args(step.node) if step.node.kind == "call" else None
    return step.node if args is None or args.line == step.node.line else args


def _stalls(region: Region, steps: list[Step], read: Step) -> bool:
    """Whether work of the same figure is queued behind a read: that of the step or of the next.

    Where each step is timed from the end of the one before, all time is in the figures anyway: no
    clock needs the wait, and the next batch could be prepared meanwhile.
    """
    if region.carried:
        return True
    later = steps[steps.index(read) + 1 :]  # what a function does has one position: its call's
    return any(s.works and s.position <= region.end.end for s in later)


def _seldom(site: Node, training: training_loops.StepLoop, reads: list[Step]) -> bool:
    """Whether a condition keeps a read from most steps.

    None does that is the same in all steps of a run, or of which each branch reads, that asks for
    the first of the ranks, or under which the optimizer steps as well.
    """

    def passing(branch: Node) -> bool:
        return (
            _settled(branch)
            or _reads_anyway(branch, reads)
            or training_loops.of_one_rank(branch)
            or training.updates_in(branch)
        )

    return conditions.rare(site, training.loop, passing)


def _gives_up(site: Node, loop: Node) -> bool:
    """Whether a read stands in a branch that ends the loop: to tell of a loss that is no number."""
    for parent in site.ancestors():
        if parent is loop:
            return False
        if parent.kind == "block" and parent.parent is not None and parent.parent.kind == "if":
            last = parent.children[-1] if parent.children else parent
            if last.kind in ("raise", "return", "jump") or _ENDS.match(last.text):
                return True
    return False


def _acts(read: Node, loop: Node) -> bool:
    """Whether what is read is the action that an environment of the host is given next."""
    names = r"(?!)"
    for parent in read.ancestors():
        if parent.kind == "call" and _ENVIRONMENT.search(callee_text(parent)):
            return True
        if parent.kind == "assign" and parent.children[0].kind == "name":
            names = re.escape(parent.children[0].text)
        if parent.kind in ("block", "assign"):
            break
    return any(
        call.kind == "call"
        and _ENVIRONMENT.search(callee_text(call))
        and any(re.search(rf"\b{names}\b", given.text) for given in positional(call))
        for call in loop.walk()
    )


_ENVIRONMENT = re.compile(r"(^|[._])envs?\w*\.step$", re.IGNORECASE)
_ENDS = re.compile(r"raise\b|return\b|break\b|continue\b|(sys\.|os\._)?exit\(|quit\(")
_SETTING = re.compile(
    r"\(?\s*(self\.)?(args|opts?|hparams|hps?|cfg|conf|config|params|flags|FLAGS)\.[\w.]+"
    r" is not None\s*\)?"
)


def _settled(branch: Node) -> bool:
    """Whether a condition is a setting of the run: if args.clip is not None."""
    return branch.kind == "if" and bool(_SETTING.fullmatch(branch.children[0].text))


def _reads_anyway(branch: Node, reads: list[Step]) -> bool:
    """Whether `branch` is part of an if that has an else, and of which each branch reads."""
    whole = branch if branch.kind == "if" else branch.parent
    if whole is None or whole.kind != "if" or whole.child("else") is None:
        return False
    branches = whole.children[1:]
    return all(any(b.start <= s.site.start < b.end for s in reads) for b in branches)


def _reads(step: Step) -> bool:
    """Whether a call reads from the device, itself or in a helper that is no pass of its own."""
    loops = any(n.kind in ("for", "while") for helper in step.helpers for n in helper.nodes)
    return _reads_once(step) and not loops


def _reads_once(step: Step) -> bool:
    """Whether a call reads from the device, wherever it stands."""
    if r.READ not in step.roles or step.roles & {r.UPLOAD, r.JOIN, r.IO}:
        return False
    # A pass by itself, of which the metrics come back; an empty_cache() reads none.
    others = r"(eval|evaluate|validat|empty_cache)"
    if step.node.kind == "subscript":
        return True
    called = last_segment(callee_text(step.node)) if step.node.kind == "call" else "empty_cache"
    return not re.match(others, called)


def _blocks(source: SourceFile, region: Region, step: Step) -> bool:
    if not _reads(step) or _has_come(source, step.node) or _drained(region.steps, step):
        return False
    if step.node.kind == "call" and last_segment(callee_text(step.node)) in _COUNTS_ROWS:
        return False
    if _meant_to_wait(step.node):
        return False
    if programs.passes_over_data(region) and re.search(
        r"eval|valid|(^|_)test(_|$)", region.scope.name
    ):
        return False  # its metrics are read
    loops = [loop for loop in region.inner_loops(step.site) if loop.kind != "comp"]
    if (
        not loops
        or conditions.rare(step.site, loops[-1])
        or convergence.decides(step.site, loops[0])
    ):
        return False
    if _gives_up(step.site, loops[-1]):
        return False
    if r.COPY in step.roles and workload.makes_round_trip(source, region):
        return False
    works = [s for s in region.steps if s.works or r.BLOCKING in s.roles]
    if source.language == "python" and convergence.feeds_next(step.site, loops[0], works):
        return False
    return any(
        (s.works or r.BLOCKING in s.roles) and region.inner_loops(s.site)[:1] == loops[:1]
        for s in region.steps
    ) or last_segment(callee_text(step.node)) in ("get", "asnumpy")


# What looks at the data for the size of its result: where it is timed, that is part of the work.
_COUNTS_ROWS = ("masked_select", "nonzero", "argwhere", "unique")


def _meant_to_wait(read: Node) -> bool:
    """Whether the read is there for the sake of the wait: its value is dropped, or a comment says.

    loss.item() as a statement, `_ = out.cpu()`, "# introduce a sync for the timing".
    """
    parent = read.parent
    if parent is not None and parent.kind == "block":
        return True
    if parent is not None and parent.kind == "assign" and parent.children[0].text == "_":
        return True
    notes = [c.text for c in read.tree.comments if read.line - 1 <= c.line <= read.line]
    return any(re.search(r"sync(?!_dist)|wait for", text, re.IGNORECASE) for text in notes)


def _drained(steps: list[Step], read: Step) -> bool:
    """Whether the host has waited since the last work was queued, so that the read costs nothing.

    That is a read after a wait, which is the one to report, or the second of two reads.
    """
    loops = loops_around(read.site)[:1]
    before = [
        s
        for s in steps
        if s.position < read.position and s.node is not read.node and (s.works or s.waits)
    ]
    return bool(before) and not before[-1].works and loops_around(before[-1].site)[:1] == loops


def _is_repeated(steps: list[Step], read: Step) -> bool:
    """Whether the same value was just read, and nothing was queued since: loss.item(), twice."""
    before = [s for s in steps if s.position < read.position and (s.works or s.waits)]
    last = before[-1] if before else read
    same = last.waits and squeeze(last.node.text) == squeeze(read.node.text)
    return last is not read and same and not exclusive(last.site, read.site)


def _has_come(source: SourceFile, call: Node) -> bool:
    """Whether all that a call is given is on the host: the decoding of tokens that were read."""
    given = positional(call)
    scope = source.scopes.scope_of(call)
    return last_segment(callee_text(call)) in ("decode", "convert_ids_to_tokens") and all(
        source.devices.of(value, scope) == "host" for value in given[:1]
    )

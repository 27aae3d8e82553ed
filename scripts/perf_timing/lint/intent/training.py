"""Training loops: which loops take training steps, and which of them are timed.

A step loop is the innermost loop around `optimizer.step()`, or around `backward()` where no
optimizer steps; an epoch is no step. A gradient scaler that is given the loss and the optimizer
does both. The loop is timed where a region encloses it, in its function or in one that calls it;
where the clock starts in one of its steps and stops behind it (`if step == 1: start = clock()`);
where readings lie in it, from step to step, over windows of steps or around a part of each step;
where a rate since the beginning is shown again and again; or where a logger hands out the batches
and times what is done between them. A running clock is stopped in some steps, to validate or to
save, and started again: what the other steps do is in its figure, up to their last line.

`is_training` tells of one region alone whether it trains, `repeats_a_pass` whether it goes forward
and back without changing the model, and `of_epochs` whether its samples are epochs.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from perf_timing.lint.code import conditions
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    last_segment,
    loop_body,
    loops_around,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures.quotients import quotients
from perf_timing.lint.intent import captions, programs
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.warmup import warm_words
from perf_timing.lint.work import workload
from perf_timing.lint.work.lazy import lazy_names, used

_UPDATES = re.compile(
    r"(^|[._])(opt\w*|\w*optim\w*|\w*scaler|\w*engine|accelerator)(\[[^\]]*\])?\.step$",
    re.IGNORECASE,
)

# What goes back through a model, by itself or in a scaler: loss_scaler(loss, optimizer).
_TRAINS = re.compile(r"backward|scaler\(")
_SCALER = re.compile(r"(^|[._])\w*scaler$", re.IGNORECASE)


@dataclass(frozen=True)
class StepLoop:
    """A loop of training steps in `scope`, with what one iteration does."""

    scope: Scope
    loop: Node
    steps: tuple[Step, ...]

    def own(self, step: Step) -> bool:
        """Whether a step belongs to each iteration, and not to a loop inside it or to a pass."""
        return _loops(step.site)[:1] == [self.loop] and not is_pass(step)

    def repeats(self, step: Step) -> bool:
        """Whether a step belongs to each iteration, or to a loop over parts of its batch."""
        return self.loop in _loops(step.site) and (not is_pass(step) or self.gives_loss(step))

    def gives_loss(self, step: Step) -> bool:
        """Whether a step is part of the function whose result the backward pass starts from.

        Such a function may loop, over the heads or the scales of a model: it is no pass of its own.
        """
        statement = step.site.parent
        if len(step.helpers) != 1 or statement is None or statement.kind != "assign":
            return False
        target = statement.children[0]
        taken = target.children if target.kind == "tuple" else [target]
        losses = self._losses(s for s in self.steps if not s.helpers)
        return any(part.text in losses for part in taken)

    @property
    def losses(self) -> frozenset[str]:
        """The names of what the backward pass starts from: the forward pass is behind them."""
        return self._losses(self.steps)

    def _losses(self, steps: Iterable[Step]) -> frozenset[str]:
        found = set()
        for step in steps:
            if last_segment(_callee(step)) == "backward" or _scales(step):
                given = positional(step.node)[:1]
                found.add(given[0].text if given else _callee(step).rpartition(".")[0])
        return frozenset(name for name in found if name.isidentifier())

    def updates_in(self, branch: Node) -> bool:
        """Whether the optimizer steps in a branch: what stands beside it runs as often."""
        updates = (s for s in self.steps if _UPDATES.search(_callee(s)))
        return branch.kind == "if" and any(
            branch.start < s.site.start < branch.end for s in updates
        )


def step_loops(source: SourceFile) -> Iterator[StepLoop]:
    """The loops of a Python file that take training steps."""
    if source.language != "python" or not _TRAINS.search(source.tree.text):
        return
    for scope in source.scopes.all:
        steps = [s for s in source.flow.steps(scope) if not is_pass(s)]
        updates = [s for s in steps if _UPDATES.search(_callee(s)) or _scales(s)]
        backward = [s for s in steps if s.works and _is_backward(s, bool(updates))]
        found = (_step_loop(s, backward) for s in updates or backward)
        loops = {id(loop): loop for loop in found if loop is not None}
        for loop in loops.values():
            body = loop_body(loop)
            if body is None or _counts_epochs(loop):
                continue
            if any(body.start < s.position <= body.end for s in backward):
                inside = source.flow.between(scope, body.start, body.end)
                yield StepLoop(scope, loop, tuple(inside))


def _step_loop(update: Step, backward: list[Step]) -> Node | None:
    """The innermost loop around an update; around one over several optimizers the next."""
    loops = _loops(update.site)
    over = loops[0].children[1].text if loops and len(loops[0].children) > 1 else ""
    several = re.search(r"opt(im\w*)?s\b", over, re.IGNORECASE) and not any(
        loops[0].start < s.position <= loops[0].end for s in backward
    )
    return next(iter(loops[1:] if several else loops), None)


_FIRST_RANK = re.compile(
    r"\(?\s*([\w.]*\.)?(is_)?(main|master|rank_?zero|local_main)(_process|_rank)?(\(\))?\s*\)?"
    r"|\(?\s*[\w.]*rank(\(\))?\s*(==\s*0|<\s*1|<=\s*0|in\s*[\[({]\s*-1\s*,\s*0\s*[\])}])\s*\)?"
)


def of_one_rank(branch: Node) -> bool:
    """Whether a condition only asks for the first rank, which holds or fails for a whole run."""
    return branch.kind == "if" and bool(_FIRST_RANK.fullmatch(branch.children[0].text))


def is_pass(step: Step) -> bool:
    """Whether a step is one of many of a helper that loops: an epoch, or a validation."""
    within = bool(step.helpers) and bool(loops_around(step.node))
    return within or any(
        node.kind in ("for", "while") for helper in step.helpers[:-1] for node in helper.nodes
    )


def windows(source: SourceFile, training: StepLoop) -> Iterator[Region]:
    """The regions that last over many steps of a loop, of which every one is measured."""
    loop = training.loop
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.hooked:
            continue
        if region.cumulative:
            enclosed = _since_before(source, region, training)
        elif region.scope is not training.scope:
            enclosed = any(training.scope in step.helpers for step in region.steps)
        elif region.carried:
            inside = loops_around(region.end)[:1] == [loop]
            enclosed = region.holds(loop) or (inside and conditions.rare(region.end, loop))
        else:
            inside = loop in loops_around(region.start)
            from_a_step = inside and region.end.start >= loop.end
            # if step % 100 == 0: start = clock(), in a loop that looks at the clock elsewhere.
            restarted = inside and loop in loops_around(region.end) and _restarts(region, loop)
            enclosed = region.holds(loop) or from_a_step or restarted
        if not enclosed or captions.means_first(source, region):
            continue
        if not programs.shown_in_hours(source, region):
            yield region


def _since_before(source: SourceFile, region: Region, training: StepLoop) -> bool:
    """Whether the time since the beginning is shown again and again, and is a figure of the steps.

    Since the epoch began, or as a rate of what has been done; else it only tells how late it is.
    """
    loop = training.loop
    if region.scope is not training.scope or region.end.start < loop.start:
        return False
    if region.periodic or region.start.end > loop.start or programs.shown_in_hours(source, region):
        return False
    beside = _loops_over(region.start) == _loops_over(loop)
    return beside or any(True for _ in quotients(source, region))


def logged_by(training: StepLoop) -> Node | None:
    """The call of a logger that hands out the batches of a loop and times each step, as DETR's."""
    if training.loop.kind != "for":
        return None
    return next(
        (
            call
            for call in training.loop.children[1].walk()
            if call.kind == "call" and last_segment(callee_text(call)) == "log_every"
        ),
        None,
    )


def _restarts(region: Region, loop: Node) -> bool:
    """Whether the clock is set anew in some steps only, and read in another branch.

    One that is read under the same condition, as in all steps but the first, times each of these.
    """
    if not conditions.rare(region.start, loop):
        return False
    branches = _branches(region.start, loop)
    if any(b.start <= region.end.start < b.end for b in branches):
        return False
    asked = [
        {squeeze(b.children[0].text) for b in _branches(n, loop) if b.kind == "if"}
        for n in (region.start, region.end)
    ]
    return not asked[0] & asked[1]


def _branches(node: Node, loop: Node) -> list[Node]:
    """The branches around a node that lie in a loop."""
    around = (p for p in node.ancestors() if p.kind in ("if", "elif", "else"))
    return [p for p in around if p.start > loop.start]


def parts(source: SourceFile, training: StepLoop) -> Iterator[Region]:
    """The regions of each single step of a loop, whole or in part."""
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or region.hooked or region.timer is not None:
            continue
        loops = [loop for loop in region.sample_loops if loop.kind != "comp"]
        # That it is shown as the time that is left (ETA: 0:12:30) makes it no other time.
        if region.scope is training.scope and loops[:1] == [training.loop]:
            yield region


@dataclass(frozen=True)
class RunningClock:
    """A clock that runs through a loop of training steps and is stopped in some of them.

    `opening` is the reading before the loop; each pause is (where it is stopped, the next start).
    `discards`: the clock is also set anew without a stop, which leaves the steps before out.
    """

    opening: Node
    pauses: tuple[tuple[Node, Node], ...]
    discards: bool

    def runs_at(self, node: Node) -> bool:
        """Whether the clock runs where a node of the loop stands."""
        return not any(stop.start <= node.start < start.end for stop, start in self.pauses)


def running_clocks(source: SourceFile, training: StepLoop) -> Iterator[RunningClock]:
    """The clocks that are started before a loop, and stopped and started again in some steps."""
    stops: dict[str, list[Node]] = {}
    for delta, _start, end, scope in source.regions.deltas:
        if scope is training.scope and delta.kind == "binary" and _is_inside(end, training.loop):
            stops.setdefault(target_key(delta.children[1]), []).append(delta)
    for name, deltas in stops.items():
        readings = [
            value
            for _, value in source.scopes.assignments(name, training.scope)
            if source.regions.clock_of(value, training.scope) is not None
        ]
        openings = [v for v in readings if v.end <= training.loop.start]
        starts = [v for v in readings if _is_inside(v, training.loop)]
        found = [(v, _stop_before(v, deltas, training.loop)) for v in starts]
        pauses = tuple((stop, v) for v, stop in found if stop is not None)
        if openings and pauses:
            discards = any(stop is None for _, stop in found)
            yield RunningClock(openings[-1], pauses, discards)


def compiled_in(source: SourceFile, training: StepLoop, clock: RunningClock) -> Step | None:
    """The first training step's call of a compiled model, where a running clock holds it.

    That the model ran before for a validation does not help: without gradients it is another graph.
    None where steps are left out, or where the loop is not what first goes back through the model.
    """
    lazy = lazy_names(source)
    if (
        not lazy
        or clock.discards
        or not any(_adds_up(source, training, p[0]) for p in clock.pauses)
    ):
        return None
    opening = clock.opening.start
    calls = [n for n in training.scope.nodes if n.kind == "call" and n.end <= opening]
    warm = warm_words.named_so(calls) or any(
        last_segment(_callee(step)) == "backward"
        for step in source.flow.steps(training.scope)
        if step.position <= opening
    )
    if warm:
        return None
    return next((s for s in training.steps if used(s, lazy) and clock.runs_at(s.site)
                 and s.works and in_every_step(s.site, training.loop)), None)  # fmt: skip


def _adds_up(source: SourceFile, training: StepLoop, stop: Node) -> bool:
    """Whether the time up to a stop is added to a sum; a window that is logged by itself is not."""
    statement = source.statement(stop)
    if statement.kind == "augassign":
        return True
    name = target_key(statement.children[0]) if statement.kind == "assign" else ""
    return any(
        n.kind == "augassign" and any(part.text == name for part in n.children[-1].walk())
        for n in training.scope.nodes
    )


def _is_inside(node: Node, loop: Node) -> bool:
    return any(around is loop for around in loops_around(node))


def _stop_before(start: Node, stops: list[Node], loop: Node) -> Node | None:
    """The stop that stands before a start, in the branch for some steps in which both are."""
    branch = next((p for p in start.ancestors() if p.kind in ("if", "elif", "else")), None)
    if branch is None or branch.start < loop.start or not conditions.rare(start, loop):
        return None
    before = (s for s in stops if branch.start < s.start and s.end <= start.start)
    return next(before, None)


def in_every_step(node: Node, loop: Node, holds: Collection[str] = ()) -> bool:
    """Whether no condition keeps a place from some steps; that the rank is the first does not.

    Nor does a condition that is one of the names in `holds`.
    """
    for parent in node.ancestors():
        if parent is loop:
            return True
        if parent.kind in ("if", "elif", "else", "except", "case", "cond"):
            asked = parent.children[0].text if parent.kind == "if" else ""
            if not of_one_rank(parent) and asked not in holds:
                return False
    return False


def _counts_epochs(loop: Node) -> bool:
    """Whether an iteration is an epoch: of all data at once, or a pass that another file makes."""
    if loop.kind != "for" or re.match(r"(tqdm\()?enumerate\(", squeeze(loop.children[1].text)):
        return False  # iter_epoch, (inputs, labels): it counts the steps of one
    return "epoch" in loop.children[0].text.lower()


def _is_backward(step: Step, updated: bool) -> bool:
    """Whether a step is the backward pass; of a loss, where nothing is updated beside it."""
    if _scales(step):
        return True
    if not re.fullmatch(r"(manual_)?backward", last_segment(_callee(step))):
        return False
    return updated or bool(re.search(r"loss|err|cost", step.node.text, re.IGNORECASE))


def _scales(step: Step) -> bool:
    """Whether a scaler is given a loss and an optimizer: it goes back and steps, as timm's does."""
    if not _SCALER.search(_callee(step)):
        return False
    given = [argument.text for argument in positional(step.node)[:2]]
    return len(given) == 2 and "loss" in given[0].lower() and "opt" in given[1].lower()


def _callee(step: Step) -> str:
    return callee_text(step.node) if step.node.kind == "call" else ""


def _loops(node: Node) -> list[Node]:
    return [loop for loop in loops_around(node) if loop.kind != "comp"]


def _loops_over(node: Node) -> list[int]:
    """Where the loops around a node start, the node itself left out."""
    return [loop.start for loop in _loops(node) if loop is not node]


@remembered
def repeats_a_pass(region: Region) -> bool:
    """Whether forward and backward passes are repeated without a step of an optimizer.

    They change nothing but gradients, so that one is like the other, which a training step is not.
    """
    outer = [s for s in region.scope.enclosing() if s.node.kind == "function"][-1:]
    if not any(workload.is_backward(s.node) for s in region.steps) or not outer:
        return False
    if re.search(r"train|epoch", region.scope.name):
        return False
    calls = (n for s in (region.scope, *outer) for n in s.nodes if n.kind == "call")
    names = {callee_text(call) for call in calls}
    names |= {callee_text(s.node) for s in region.steps if s.node.kind == "call"}
    return not any(_OPTIMIZES.search(n) and "prof" not in n for n in names)


_OPTIMIZES = re.compile(r"(^|[._])(step|zero_grad|train_step|optimize\w*)$")


def goes_back(region: Region) -> bool:
    """Whether the region holds backward passes, of a training or without one."""
    return is_training(region) or repeats_a_pass(region)


def of_epochs(region: Region) -> bool:
    """Whether each sample is an epoch."""
    heads = [loop.children[0].text + loop.children[1].text for loop in region.sample_loops[:1]
             if len(loop.children) > 1]  # fmt: skip
    return any("epoch" in head.lower() for head in heads)


# Without one of these, step() is one of a simulation or of a tracker.
_LEARNS = re.compile(r"backward\(|optim|zero_grad|scaler|loss|lr_sched", re.IGNORECASE)


@remembered
def is_training(region: Region) -> bool:
    """Whether the region runs training: its steps change the model, so a pass is not repeatable.

    Passes forward and back that no optimizer follows are none: an operator is measured so.
    """
    if repeats_a_pass(region):
        return False
    learns = _LEARNS.search(region.start.tree.text)
    for step in region.steps:
        short = last_segment(callee_text(step.node)) if step.node.kind == "call" else ""
        if short in ("backward", "train_step", "zero_grad") or (short == "step" and learns):
            return True
    return bool(re.search(r"train|epoch", region.scope.name)) or any(
        re.search(r"(^|[._])(train\w*|fit|run_epoch|evaluate\w*|validate\w*)$", callee_text(s.site))
        for s in region.steps
        if s.site.kind == "call"
    )

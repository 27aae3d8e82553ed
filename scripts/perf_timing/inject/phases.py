"""Marks of the phases of a step: forward and backward pass, communication, optimizer."""

import ast
from dataclasses import dataclass

from perf_timing.inject import forward
from perf_timing.inject.facts import Fact
from perf_timing.inject.loops import FETCH, WORK
from perf_timing.inject.plan import Planner
from perf_timing.inject.syntax import Loop

_KINDS = {
    "backward": ("backward", "backward-and-step"),
    "communication": ("collective",),
    "optimizer": ("optimizer-step", "optimizer-work"),
}


@dataclass(frozen=True)
class _Phase:
    name: str
    statement: ast.stmt


def mark(planner: Planner) -> None:
    """Mark where each phase begins, and what follows it.

    Where several ranks run, the backward pass and collectives are marked even if no phases are
    asked for: in them ranks wait for each other, and what is left tells the slow rank.
    """
    names = []
    if planner.options.phases or planner.options.communication:
        names += ["backward", "communication"]
    if planner.options.phases:
        names += ["optimizer"]
    phases = _phases(planner, names)
    forwards = _mark_forward(planner, phases) if planner.options.phases else []
    for place, phase in enumerate(phases):
        previous = phases[place - 1] if place else None
        following = phases[place + 1] if place + 1 < len(phases) else None
        joined = previous and planner.syntax.follows(previous.statement, phase.statement)
        if not (joined and previous and previous.name == phase.name):
            planner.before(phase.statement, f'phase("{phase.name}")')
        nexts = [following.statement] if following else []
        if not any(planner.syntax.follows(phase.statement, s) for s in [*nexts, *forwards]):
            after = "other" if forwards else _after(planner, phase, phases[place + 1 :])
            after = after if planner.options.phases else "body"
            planner.after(phase.statement, f'phase("{after}")')
    if planner.options.phases:
        _mark_forward_ends(planner, phases, forwards)
        _warn_of_missing(planner, phases)
    elif phases:
        planner.note("backward and collectives marked to tell which rank is slow")


def _mark_forward(planner: Planner, phases: list[_Phase]) -> list[ast.stmt]:
    """Mark the calls of the model that begin a forward pass; what is before them is other work.

    Returns the marked statements; without one the step begins with its forward pass.
    """
    held = [phase.statement for phase in phases]
    marked: list[ast.stmt] = []
    for node in forward.starts(planner):
        statement = planner.syntax.own_line_statement(node, planner.loop)
        if statement is None or any(s in held for s in [node, *planner.syntax.parents(node)]):
            continue
        if not any(_goes_on(planner, earlier, statement, phases) for earlier in marked):
            planner.before(statement, 'phase("forward")')
            marked.append(statement)
    if marked:
        planner.plan.first_segment = "other"
    return marked


def _mark_forward_ends(planner: Planner, phases: list[_Phase], forwards: list[ast.stmt]) -> None:
    """Mark the end of a forward pass where more than the backward call follows: metrics, logs."""
    held = [phase.statement for phase in phases]
    for last, backward in forward.ends(planner) if forwards else []:
        marked = [s for s in held if s in [backward, *planner.syntax.parents(backward)]]
        next_one = marked[0] if marked else backward
        if any(s in held for s in [last, *planner.syntax.parents(last)]):
            continue
        between = _between(planner, last, next_one)
        calls = [part for s in between for part in ast.walk(s) if isinstance(part, ast.Call)]
        followed = between and between[0] in [*held, *forwards]
        if calls and not followed and planner.syntax.stands_alone(last):
            planner.after(last, 'phase("other")')


def _between(planner: Planner, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
    """The statements that run between two others: those behind `first` in the blocks around it."""
    found: list[ast.stmt] = []
    statement = first
    while True:
        block = planner.syntax.block_of(statement)
        for other in block[block.index(statement) + 1 :]:
            if other is second or second in list(ast.walk(other)):
                return found
            found.append(other)
        parent = next(planner.syntax.parents(statement))
        if not isinstance(parent, ast.With):
            return found
        statement = parent


def _goes_on(planner: Planner, first: ast.stmt, second: ast.stmt, phases: list[_Phase]) -> bool:
    """Whether the forward pass that begins at `first` has surely not ended at `second`."""
    start, end = planner.source.start(first), planner.source.start(second)
    if any(start < planner.source.start(phase.statement) < end for phase in phases):
        return False
    if planner.syntax.loops_around(first) != planner.syntax.loops_around(second):
        return False
    block = planner.syntax.block_of(first)
    return any(above in block for above in [second, *planner.syntax.parents(second)])


def _phases(planner: Planner, names: list[str]) -> list[_Phase]:
    found: dict[ast.stmt, _Phase] = {}
    for name in names:
        for fact in _facts(planner, name):
            node = planner.finder.node(fact)
            statement = planner.syntax.own_line_statement(node, planner.loop)
            if statement is not None and name == "communication":
                statement = _whole_loop(planner, statement)
            elif isinstance(statement, Loop):
                statement = None
            if statement is None or isinstance(statement, ast.FunctionDef):
                line = planner.source.line_of(fact.start)
                planner.warn(f"{name} shares line {line}: not timed")
            else:
                found.setdefault(statement, _Phase(name, statement))
    _join_branches(planner, found)
    outermost = [
        phase
        for statement, phase in found.items()
        if not any(parent in found for parent in planner.syntax.parents(statement))
    ]
    return sorted(outermost, key=lambda phase: phase.statement.lineno)


def _facts(planner: Planner, name: str) -> list[Fact]:
    if name == "backward":
        return planner.facts_of_step(*_KINDS[name])
    # In loops over parameters too, which look like those over data to evaluate. Gradients may
    # be reduced without gradients of their own, an optimizer's step under no_grad is another's.
    without = planner.is_outside if name == "communication" else planner.is_untrained
    found = [
        fact
        for region in planner.candidate.regions
        for fact in planner.facts.within(*region, *_KINDS[name])
        if not without(fact.start, fact.end, region)
    ]
    return sorted(dict.fromkeys(found), key=lambda fact: fact.start)


def _whole_loop(planner: Planner, statement: ast.stmt) -> ast.stmt | None:
    """The outermost loop around a collective that does no other work: over all gradients."""
    whole = statement
    for loop in planner.syntax.loops_around(statement):
        extent = planner.syntax.body_extent(loop)
        if loop is planner.loop or any(planner.facts.within(*extent, *WORK, *FETCH, "step-call")):
            break
        whole = loop
    return whole if planner.syntax.stands_alone(whole) else None


def _join_branches(planner: Planner, found: dict[ast.stmt, _Phase]) -> None:
    """A loop of optimizer work is one phase, and so is a branch before the optimizer's step.

    `if clip: clip_grad_norm_(...)` before `optimizer.step()`. A branch that nothing of the kind
    follows stays as it is: the phase is then in those steps only that take it.
    """
    for statement in sorted(found, key=lambda s: -s.lineno):
        for parent in planner.syntax.parents(statement):
            if not isinstance(parent, ast.If | ast.For) or parent is planner.loop:
                break
            if not all(_is_optimizer(found, part) for part in [*parent.body, *parent.orelse]):
                break
            following = any(planner.syntax.follows(parent, other) for other in found)
            alone = planner.syntax.stands_alone(parent)
            if not alone or not (isinstance(parent, ast.For) or following):
                break
            found[parent] = _Phase("optimizer", parent)


def _is_optimizer(found: dict[ast.stmt, _Phase], statement: ast.stmt) -> bool:
    return statement in found and found[statement].name == "optimizer"


def _after(planner: Planner, phase: _Phase, later: list[_Phase]) -> str:
    """What runs after a phase where no call of the model is known."""
    around = planner.syntax.loops_around(phase.statement)
    repeated = bool(around) and around[0] is not planner.loop
    again = any(
        other.name == "backward" and not planner.syntax.exclude(phase.statement, other.statement)
        for other in later
    )
    return "forward" if repeated or again else "other"


def _warn_of_missing(planner: Planner, phases: list[_Phase]) -> None:
    found = {phase.name for phase in phases}
    stepped = planner.facts_of_step("optimizer-step", "backward-and-step")
    missing = ["backward"] if "backward" not in found else []
    missing += [] if stepped else ["optimizer"]
    if missing:
        planner.warn(f"no {' and no '.join(missing)} found in the loop")

"""Marks of the phases of a step: backward pass, communication, optimizer."""

import ast
from dataclasses import dataclass

from perf_timing.inject.plan import Planner
from perf_timing.inject.syntax import Loop

_KINDS = {
    "backward": ("backward", "backward-and-step"),
    "communication": ("collective",),
    "optimizer": ("optimizer-step",),
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
    for place, phase in enumerate(phases):
        previous = phases[place - 1] if place else None
        following = phases[place + 1] if place + 1 < len(phases) else None
        joined = previous and planner.syntax.follows(previous.statement, phase.statement)
        if not (joined and previous and previous.name == phase.name):
            planner.before(phase.statement, f'phase("{phase.name}")')
        if not (following and planner.syntax.follows(phase.statement, following.statement)):
            later = [other.name for other in phases[place + 1 :]]
            planner.after(phase.statement, f'phase("{_after(planner, phase, later)}")')
    if planner.options.phases:
        _warn_of_missing(planner, phases)


def _phases(planner: Planner, names: list[str]) -> list[_Phase]:
    found: dict[ast.stmt, _Phase] = {}
    for name in names:
        for fact in planner.facts_of_step(*_KINDS[name]):
            node = planner.finder.node(fact)
            statement = planner.syntax.own_line_statement(node, planner.loop)
            if statement is None or isinstance(statement, ast.FunctionDef | Loop):
                line = planner.source.line_of(fact.start)
                planner.warn(f"{name} shares line {line}: not timed")
            else:
                found.setdefault(statement, _Phase(name, statement))
    outermost = [
        phase
        for statement, phase in found.items()
        if not any(parent in found for parent in planner.syntax.parents(statement))
    ]
    return sorted(outermost, key=lambda phase: phase.statement.lineno)


def _after(planner: Planner, phase: _Phase, later: list[str]) -> str:
    """What runs after a phase: another forward pass, or the rest of the step."""
    if not planner.options.phases:
        return "body"
    around = planner.syntax.loops_around(phase.statement)
    repeated = bool(around) and around[0] is not planner.loop
    return "forward" if repeated or "backward" in later else "other"


def _warn_of_missing(planner: Planner, phases: list[_Phase]) -> None:
    found = {phase.name for phase in phases}
    if planner.facts_of_step("backward-and-step"):
        found.add("optimizer")
    missing = [name for name in ("backward", "optimizer") if name not in found]
    if missing:
        planner.warn(f"no {' and no '.join(missing)} found in the loop")

"""The marks of a timed loop: where its steps begin and end, where it waits for data."""

import ast

from perf_timing._cli import UserError
from perf_timing.inject import copies, items, phases
from perf_timing.inject.loops import FETCH, Candidate, Finder
from perf_timing.inject.plan import NAME, Options, Plan, Planner


def plan(finder: Finder, candidate: Candidate, options: Options) -> Plan:
    """Everything to insert for one loop; raises UserError where it cannot be marked safely."""
    planner = Planner(finder, candidate, options)
    if isinstance(planner.loop, ast.AsyncFor):
        raise _refusal(planner, "is an 'async for' loop, which inject-timing cannot time")
    if isinstance(planner.loop, ast.For):
        _wrap_iterable(planner, planner.loop)
    else:
        _bracket_while(planner, planner.loop)
    _mark_early_ends(planner)
    _mark_fetches(planner)
    copies.mark(planner)
    phases.mark(planner)
    if options.items:
        items.mark(planner)
    return planner.plan


def _refusal(planner: Planner, why: str) -> UserError:
    return UserError(
        f"{planner.source.path}: line {planner.loop.lineno} {why}; nothing was changed"
    )


def _wrap_iterable(planner: Planner, loop: ast.For) -> None:
    if isinstance(loop.iter, ast.Tuple | ast.Starred):
        raise _refusal(planner, "loops over a written-out tuple, not over a loader")
    if planner.candidate.fetched_inside:
        planner.wrap(loop.iter, "iterations(")
        planner.note(f"steps counted at line {loop.lineno}")
        return
    loader = _logging_loader(planner, loop.iter)
    planner.wrap(loader, "steps(")
    planner.note(f"data wait around {' '.join(planner.source.code(loader).split())[:60]}")


def _logging_loader(planner: Planner, iterable: ast.expr) -> ast.expr:
    """The loader inside a generator that logs between batches, else the iterable itself.

    `enumerate(metric_logger.log_every(loader, 10))`: what is logged is no wait for data.
    """
    inner = iterable
    while isinstance(inner, ast.Call) and inner.args:
        name = planner.source.code(inner.func)
        inner = inner.args[0]
        if name.endswith("log_every"):
            return inner
    return iterable


def _bracket_while(planner: Planner, loop: ast.While) -> None:
    first, last = loop.body[0], loop.body[-1]
    if not planner.syntax.stands_alone(loop) or first.lineno == loop.lineno:
        raise _refusal(planner, "holds a loop and other code; put its body on lines of its own")
    planner.before(loop, "start()")
    planner.before(first, "step()")
    if not isinstance(last, ast.Break | ast.Return | ast.Continue | ast.Raise):
        planner.after(last, "done()", planner.syntax.indentation(first))
    planner.note(f"steps marked at line {loop.lineno}")


def _mark_early_ends(planner: Planner) -> None:
    """Before a `break` or `return` that comes after the step's work: the step counts."""
    worked = _work_done_at(planner)
    end = planner.candidate.regions[0][1]
    if worked is None:
        return
    for node in ast.walk(planner.loop):
        if not isinstance(node, ast.Break | ast.Return) or not _leaves(planner, node):
            continue
        if worked < planner.source.start(node) < end:
            if planner.syntax.stands_alone(node):
                planner.before(node, "done()")
            else:
                planner.warn(f"the step that ends at line {node.lineno} is not counted")


def _work_done_at(planner: Planner) -> int | None:
    """Offset behind the last piece of work in the body, None where none is known."""
    start, end = planner.candidate.regions[0]
    for kinds in (("optimizer-step", "backward-and-step"), ("backward", "step-call")):
        ends = [fact.end for fact in planner.facts.within(start, end, *kinds)]
        if kinds[0] == "optimizer-step":
            for function in planner.finder.step_functions:
                for call in planner.finder.calls_of(function):
                    if start <= planner.source.start(call) < end:
                        ends.append(planner.source.end(call))
        if ends:
            return max(ends)
    return None


def _leaves(planner: Planner, node: ast.Break | ast.Return) -> bool:
    """Whether a `break` or `return` in the loop's body leaves this loop, its work being done."""
    parents = list(planner.syntax.parents(node))
    inside = parents[: parents.index(planner.loop)]
    if any(isinstance(parent, ast.ExceptHandler) for parent in inside):
        return False
    if isinstance(node, ast.Return):
        function = planner.syntax.function_around(node)
        return function is planner.syntax.function_around(planner.loop)
    around = planner.syntax.loops_around(node)
    return bool(around) and around[0] is planner.loop


def _mark_fetches(planner: Planner) -> None:
    facts = planner.facts_of_step(*FETCH)
    if isinstance(planner.loop, ast.While):
        test = planner.loop.test
        extent = planner.source.start(test), planner.source.end(test)
        facts += planner.facts.within(*extent, *FETCH)
    count = 0
    for fact in facts:
        node = planner.finder.node(fact)
        parent = next(planner.syntax.parents(node), None)
        usable = isinstance(node, ast.Call) and not isinstance(parent, ast.Await | ast.Starred)
        if usable and not planner.is_wrapped(fact.start, fact.end):
            assert isinstance(node, ast.Call)
            planner.wrap(node, f"fetched({NAME}.fetch(), ")
            planner.note(f"data wait around line {planner.source.line_of(fact.start)}")
            count += 1
    if planner.candidate.fetched_inside and not count:
        planner.warn("no fetch found in the loop: data wait is not measured")

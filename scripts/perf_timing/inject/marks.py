"""The marks of a timed loop: where its steps begin and end, where it waits for data."""

import ast

from perf_timing._cli import UserError
from perf_timing.inject import asides, copies, items, phases
from perf_timing.inject.facts import Fact
from perf_timing.inject.loops import FETCH, WORK, Candidate, Finder
from perf_timing.inject.plan import NAME, Options, Plan, Planner
from perf_timing.inject.syntax import Function


def plan(finder: Finder, candidate: Candidate, options: Options) -> Plan:
    """Everything to insert for one loop; raises UserError where it cannot be marked safely."""
    planner = Planner(finder, candidate, options)
    if isinstance(planner.loop, ast.AsyncFor):
        raise _refusal(planner, "is an 'async for' loop, which inject-timing cannot time")
    if isinstance(planner.loop, ast.For):
        _wrap_iterable(planner, planner.loop)
    else:
        _bracket_while(planner, planner.loop)
    asides.mark(planner)
    _mark_early_ends(planner)
    _mark_fetches(planner)
    copies.mark(planner)
    phases.mark(planner)
    if options.items:
        items.mark(planner)
    _tell_compiled(planner)
    return planner.plan


def _tell_compiled(planner: Planner) -> None:
    for function in planner.finder.compiled:
        extent = planner.syntax.body_extent(function)
        if extent in planner.finder.regions(planner.loop):
            planner.note(f"{function.name}() is compiled: nothing marked inside")


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
    """Before a `break` or `return` that comes after the step's work: the step counts.

    A pass that a `continue` ends before any work is no step, and what it fetched no items.
    """
    work = _work(planner)
    end = planner.candidate.regions[0][1]
    for node in ast.walk(planner.loop) if work else ():
        if not isinstance(node, ast.Break | ast.Return | ast.Continue) or not _leaves(
            planner, node
        ):
            continue
        place = planner.source.start(node)
        is_continue = isinstance(node, ast.Continue)
        if is_continue and place < min(start for start, _ in work):
            if planner.syntax.stands_alone(node):
                planner.before(node, "skip()")
        elif not is_continue and _worked(planner, work) < place < end:
            if planner.syntax.stands_alone(node):
                planner.before(node, "done()")
            else:
                planner.warn(f"the step that ends at line {node.lineno} is not counted")


_STEPS = ("optimizer-step", "backward-and-step")


def _work(planner: Planner) -> list[tuple[int, int]]:
    """Extents of the work in the body: backward passes, optimizer steps, calls that do both."""
    extent = planner.candidate.regions[0]
    return [
        *((fact.start, fact.end) for fact in planner.facts.within(*extent, *WORK, "step-call")),
        *_step_calls(planner),
    ]


def _step_calls(planner: Planner) -> list[tuple[int, int]]:
    start, end = planner.candidate.regions[0]
    extents = [
        (planner.source.start(call), planner.source.end(call))
        for function in planner.finder.step_functions
        for call in planner.finder.calls_of(function)
    ]
    return [extent for extent in extents if start <= extent[0] < end]


def _worked(planner: Planner, work: list[tuple[int, int]]) -> int:
    """Offset behind the last optimizer step in the body; of other work where there is none."""
    facts = planner.facts.within(*planner.candidate.regions[0], *_STEPS)
    steps = [fact.end for fact in facts] + [end for _, end in _step_calls(planner)]
    return max(steps or [end for _, end in work])


def _leaves(planner: Planner, node: ast.Break | ast.Return | ast.Continue) -> bool:
    """Whether such a statement in the loop's body ends a pass of this loop without an error."""
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
    facts, inside = planner.facts_of_step(*FETCH), "fetch"
    if isinstance(planner.loop, ast.While):
        test = planner.loop.test
        extent = planner.source.start(test), planner.source.end(test)
        facts += planner.facts.within(*extent, *FETCH)
    if planner.candidate.fetched_inside and not facts:
        facts, inside = _fetches_of_called(planner), "fetch_in_step"
    count = 0
    for fact in facts:
        node = planner.finder.node(fact)
        parent = next(planner.syntax.parents(node), None)
        usable = isinstance(node, ast.Call) and not isinstance(parent, ast.Await | ast.Starred)
        if usable and not planner.is_wrapped(fact.start, fact.end):
            assert isinstance(node, ast.Call)
            planner.wrap(node, f"fetched({NAME}.{inside}(), ")
            planner.note(f"data wait around line {planner.source.line_of(fact.start)}")
            count += 1
    if planner.candidate.fetched_inside and not count:
        planner.warn("no fetch found in the loop: data wait is not measured")


def _fetches_of_called(planner: Planner) -> list[Fact]:
    """Fetches in functions of the file that the step calls: `forward_step(data_iterator)`."""
    found: list[Fact] = []
    for function in ast.walk(planner.source.tree):
        if not isinstance(function, Function):
            continue
        places = [planner.source.start(call) for call in planner.finder.calls_of(function)]
        regions = planner.candidate.regions
        if any(first <= place < end for place in places for first, end in regions):
            found += planner.facts.within(*planner.syntax.body_extent(function), *FETCH)
    trains = (fact for fact in found if not planner.finder.is_for_evaluation(fact))
    return sorted(dict.fromkeys(trains), key=lambda fact: fact.start)

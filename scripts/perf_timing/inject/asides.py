"""Work in the loop's body that is no part of a step: evaluation now and then, checkpoints."""

import ast
import re
from collections.abc import Iterator

from perf_timing.inject import forward
from perf_timing.inject.loops import FETCH, WORK
from perf_timing.inject.plan import Planner
from perf_timing.inject.syntax import Function, Loop

_EVALUATES = re.compile(
    r"(?i)(^|[._])((?<!literal_)eval(uat(e|ion))?(_\w+)?|validat(e|ion)(_\w+)?|estimate_loss\w*"
    r"|(do_|run_)?test(_(model|net|epoch|one_epoch|step))?)$|(^|\.)valid(_\w+)?$"
)
_CHECKS = re.compile(r"(?i)(arg|input|config|cfg|shape|param|schema|type|option|setting)")
_SAVES = re.compile(
    r"(?i)((^|\.)(torch|xm|model|trainer|engine|accelerator|fabric|self|saver|\w*checkpoint\w*"
    r"|\w*ckpt\w*)\.save|(^|[._])save_(\w+_)?(checkpoint|ckpt|model|state|weights|snapshot"
    r"|pretrained|networks?)\w*|(^|[._])(checkpoint|ckpt)_step|(^|\.)(model|trainer)\.checkpoint)$"
)
# What an evaluation does beside `model.eval()`, which alone may freeze a part of the model.
_COMPANIONS = re.compile(r"(^|\.)(train|generate|sample)$")
_ENDS = ast.Break | ast.Continue | ast.Return | ast.Raise


def mark(planner: Planner) -> None:
    """Mark the branches that evaluate or save a checkpoint; they count in no step.

    A branch is left as it is where it also trains, or shares its lines.
    """
    noted: dict[str, list[str]] = {}
    starts = {planner.source.start(statement) for statement in forward.starts(planner)}
    for kind, block in _asides(planner, planner.loop.body, starts):
        inside = [s for s in block if not isinstance(s, _ENDS)]
        if not all(map(planner.syntax.stands_alone, (block[0], block[-1]))) or not inside:
            continue
        planner.before(block[0], f'aside("{kind}")')
        if inside[-1] is block[-1]:
            planner.after(block[-1], "resume()")
        planner.set_aside(block)
        noted.setdefault(kind, []).append(str(block[0].lineno))
    for kind, lines in noted.items():
        planner.note(f"{kind} at line {', '.join(lines)} left out")


def _asides(
    planner: Planner, statements: list[ast.stmt], starts: set[int]
) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Blocks that are no part of a step, the innermost branch around what tells them."""
    for statement in statements:
        match statement:
            case ast.If():
                for block in (statement.body, statement.orelse):
                    is_elif = block is statement.orelse and not _has_line(planner, block)
                    kind = "" if is_elif or not block else _kind(planner, block, starts)
                    if kind:
                        yield kind, block
                    else:
                        yield from _asides(planner, block, starts)
            case ast.With() | ast.Try():
                yield from _asides(planner, statement.body, starts)
            case ast.Expr() | ast.Assign() if _calls_evaluation(planner, statement, starts):
                yield "evaluation", [statement]


def _has_line(planner: Planner, block: list[ast.stmt]) -> bool:
    return bool(block) and planner.syntax.stands_alone(block[0])


def _kind(planner: Planner, block: list[ast.stmt], starts: set[int]) -> str:
    """ "evaluation" or "checkpoint", by what a block does itself, not in branches of its own."""
    nodes = [node for statement in block for node in _outside_branches(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    names = [_name(call) for call in calls]
    evaluates = any(_is_evaluation(call) for call in calls) or any(
        isinstance(node, Loop) and planner.finder.is_over_evaluation_data(node) for node in nodes
    )
    if any(name.endswith(".eval") and not c.args for name, c in zip(names, calls, strict=True)):
        evaluates |= any(map(_COMPANIONS.search, names)) or any(
            isinstance(node, Loop) or (isinstance(node, ast.With) and _has_no_grad(planner, node))
            for node in nodes
        )
    kind = "evaluation" if evaluates else "checkpoint" if any(map(_SAVES.search, names)) else ""
    return "" if not kind or _trains(planner, block, starts) else kind


def _calls_evaluation(planner: Planner, statement: ast.stmt, starts: set[int]) -> bool:
    """Whether a statement of every step calls an evaluation that the file defines."""
    functions = [n for n in ast.walk(planner.source.tree) if isinstance(n, Function)]
    known = {function.name for function in functions}
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    found = [c for c in calls if _is_evaluation(c) and _name(c).rpartition(".")[2] in known]
    return bool(found) and not _trains(planner, [statement], starts)


def _is_evaluation(call: ast.Call) -> bool:
    name = _name(call)
    if name == "eval" or (name.endswith(".eval") and not call.args):
        return False
    return bool(_EVALUATES.search(name)) and not _CHECKS.search(name.rpartition(".")[2])


def _name(call: ast.Call) -> str:
    named = isinstance(call.func, ast.Name | ast.Attribute)
    return ast.unparse(call.func) if named else ""


def _outside_branches(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, Function | ast.ClassDef | ast.Lambda):
        return
    below = [node.test] if isinstance(node, ast.If) else ast.iter_child_nodes(node)
    for child in below:
        yield from _outside_branches(child)


def _has_no_grad(planner: Planner, node: ast.With) -> bool:
    start = planner.source.start(node)
    return any(fact.start == start for fact in planner.facts.of("no-grad"))


def _trains(planner: Planner, block: list[ast.stmt], starts: set[int]) -> bool:
    """Whether a block does a part of the step: draws its batch, runs the model for the loss."""
    start, end = planner.source.start(block[0]), planner.source.end(block[-1])
    if any(start <= at < end for at in starts):
        return True
    for fact in planner.facts_of_step(*WORK, *FETCH, "step-call"):
        if start <= fact.start < end and not planner.finder.is_for_evaluation(fact):
            return True
    return any(
        start <= planner.source.start(call) < end
        for function in planner.finder.step_functions
        for call in planner.finder.calls_of(function)
    )

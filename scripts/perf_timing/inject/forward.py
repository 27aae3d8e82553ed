"""Where the forward pass of a step begins: at the calls of the model that the loss comes from."""

import ast
import re
from collections.abc import Iterator, Set

from perf_timing.inject.plan import Planner
from perf_timing.inject.syntax import Function

_MODULE = re.compile(
    r"(?i)(^|[._])(\w*model|\w*net|net_?\w{0,2}|\w*module|backbone|encoder|decoder|generator"
    r"|discriminator|critic|actor|policy|engine|criterion|\w*loss(_f(n|unc(tion)?))?|forward\w*)$"
)
# What a script asks of a module, and of nothing else.
_ASKED = {"parameters", "named_parameters", "train", "eval", "no_sync", "modules", "children"}


def starts(planner: Planner) -> list[ast.stmt]:
    """Statements of a step that call the model on the way to the loss, in the order of the text.

    A backward slice: names of the backward call, the statements that bind them, the names that
    those read, and so on. Of these, the statements that call a module. Evaluation is left out.
    """
    found = [statement for _, part in _slices(planner) for statement in part]
    calling = [s for s in found if _calls_module(planner, s)]
    return sorted(dict.fromkeys(calling), key=planner.source.start)


def ends(planner: Planner) -> list[tuple[ast.stmt, ast.stmt]]:
    """For each backward call, with its statement, the last statement that makes its loss.

    What stands between the two reads the loss, and is no part of the forward pass. A branch that
    makes the loss is taken whole. Arithmetic on the loss (`loss /= 4`) counts only directly behind
    what calls the model or a loss function.
    """
    found: dict[ast.stmt, ast.stmt] = {}
    for backward, part in _slices(planner):
        start = planner.source.start(backward)
        before = [s for s in part if planner.source.start(s) < start]
        calling = [s for s in before if any(isinstance(node, ast.Call) for node in ast.walk(s))]
        if before:
            last = max(calling or before, key=planner.source.start)
            while following := [s for s in before if planner.syntax.follows(last, s)]:
                last = following[0]
            whole = _whole_branch(planner, last, backward)
            found.setdefault(whole, backward)
    return list(found.items())


def _whole_branch(planner: Planner, last: ast.stmt, backward: ast.stmt) -> ast.stmt:
    """The outermost branch or loop around `last` that does not hold the backward call too."""
    whole = last
    around = list(planner.syntax.parents(backward))
    for parent in planner.syntax.parents(last):
        if parent in around or not isinstance(parent, ast.stmt):
            break
        if not isinstance(parent, ast.With):
            whole = parent
    return whole


def _slices(planner: Planner) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """Each backward call's statement with the statements that its loss comes from."""
    for region in planner.candidate.regions:
        for fact in planner.facts_of_step("backward", "backward-and-step"):
            if region[0] <= fact.start < region[1]:
                backward = planner.syntax.statement(planner.finder.node(fact))
                statements = list(_statements_before(planner, region, fact.start))
                part = _slice(statements, set(_given(backward)))
                yield backward, [s for s in part if s is not backward]


def _statements_before(planner: Planner, region: tuple[int, int], last: int) -> Iterator[ast.stmt]:
    """Simple statements of a region that no evaluation holds, up to the last backward pass."""
    for node in ast.walk(planner.source.tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
            start, end = planner.source.start(node), planner.source.end(node)
            if region[0] <= start < last and not planner.is_untrained(start, end, region):
                yield node


def _slice(statements: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    """Statements that bind a wanted name, or call a method of it, and what they come from."""
    found: list[ast.stmt] = []
    grown = True
    while grown:
        grown = False
        for statement in statements:
            if statement not in found and _bound(statement) & wanted:
                found.append(statement)
                wanted |= set(_read(statement))
                grown = True
    return found


def _bound(statement: ast.stmt) -> set[str]:
    nodes = [n for n in ast.walk(statement) if isinstance(n, ast.Name | ast.Attribute)]
    bound = {ast.unparse(node) for node in nodes if isinstance(node.ctx, ast.Store)}
    match statement:  # losses.append(model(x))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner), args=[_, *_])):
            bound.add(ast.unparse(owner))
    return bound


def _given(statement: ast.stmt) -> Iterator[str]:
    """Names that a backward call is given: of `scaler.scale(loss).backward()` only `loss`."""
    callers = {
        part
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and node.args and not isinstance(node.func, ast.Call)
        for part in ast.walk(node.func)
    }
    yield from _read(statement, without=callers)


def _read(statement: ast.stmt, without: Set[ast.AST] = frozenset()) -> Iterator[str]:
    """Names and dotted names that a statement reads; of `self.loss` not `self`."""
    inner = {
        node.value
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    }
    for node in ast.walk(statement):
        is_name = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        if is_name and node not in inner and node not in without:
            yield ast.unparse(node)


def _calls_module(planner: Planner, statement: ast.stmt) -> bool:
    """Whether a statement calls a module, or a function of the file that calls one."""
    modules = _modules(planner)
    for called in _called(statement):
        if called in modules or _MODULE.search(called):
            return True
        for function in ast.walk(planner.source.tree):
            if isinstance(function, Function) and function.name == called.rpartition(".")[2]:
                inside = [name for part in function.body for name in _called(part)]
                if any(name in modules or _MODULE.search(name) for name in inside):
                    return True
    return False


def _called(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield ast.unparse(node.func)


def _modules(planner: Planner) -> set[str]:
    """What the script asks for parameters, or sets to training: `gpt` of `gpt.train()`."""
    attributes = [n for n in ast.walk(planner.source.tree) if isinstance(n, ast.Attribute)]
    return {ast.unparse(node.value) for node in attributes if node.attr in _ASKED}

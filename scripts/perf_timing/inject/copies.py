"""Marks around copies of a batch to the device."""

import ast

from perf_timing.inject.plan import NAME, Planner
from perf_timing.inject.syntax import Node

# Calls that a statement may make beside the copy and still do nothing else of weight.
_LIGHT = {
    *("isinstance", "tuple", "list", "dict", "map", "zip", "int", "type", "get", "pop"),
    *("items", "keys", "values", "float", "long", "half", "bfloat16", "double", "bool"),
    *("pin_memory", "contiguous", "view", "reshape", "squeeze", "unsqueeze", "permute"),
    *("transpose", "t", "stack", "from_numpy", "tensor", "as_tensor", "requires_grad_", "Variable"),
}


def mark(planner: Planner) -> None:
    """Copies that are statements get a line before and after them, those side by side one pair.

    A copy inside a larger expression is wrapped.
    """
    groups: list[list[ast.stmt]] = []
    for fact in planner.facts_of_step("copy"):
        node = planner.finder.node(fact)
        if planner.is_wrapped(fact.start, fact.end) or _is_model(planner, node):
            continue
        statement = _statement(planner, node)
        if statement is None:
            _wrap(planner, node)
        elif not any(statement in group for group in groups):
            if groups and planner.syntax.follows(groups[-1][-1], statement):
                groups[-1].append(statement)
            else:
                groups.append([statement])
    for group in groups:
        planner.before(group[0], "copy()")
        planner.after(group[-1], "copied()")
        planner.note(f"copy wait around line {group[0].lineno}")


def _is_model(planner: Planner, node: Node) -> bool:
    parent = next(planner.syntax.parents(node), None)
    return isinstance(parent, ast.Attribute) and parent.attr in ("train", "eval")


def _statement(planner: Planner, node: Node) -> ast.stmt | None:
    """The statement around a copy, if it does nothing else and lines can go around it."""
    statement = planner.syntax.statement(node)
    innermost = next(iter(planner.syntax.loops_around(node)), None)
    if innermost and innermost is not planner.loop and planner.finder.moves_only(innermost):
        statement = innermost
        return statement if planner.syntax.stands_alone(statement) else None
    if not planner.syntax.stands_alone(statement):
        return None
    match statement:
        case ast.Assign(value=value) | ast.Expr(value=value):
            return statement if _is_light(planner, value) else None
    return None


def _is_light(planner: Planner, value: ast.expr) -> bool:
    copies = {planner.finder.node(fact) for fact in planner.facts.of("copy")}
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and node not in copies:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name not in _LIGHT:
                return False
    return True


def _wrap(planner: Planner, node: Node) -> None:
    """Wrap a copy, or the comprehension around it as a whole."""
    outer = node
    for parent in planner.syntax.parents(node):
        if isinstance(parent, ast.stmt):
            break
        if isinstance(parent, ast.ListComp | ast.SetComp | ast.DictComp):
            outer = parent
        elif isinstance(parent, ast.Lambda | ast.GeneratorExp):
            return
    start, end = planner.source.start(outer), planner.source.end(outer)
    if isinstance(outer, ast.expr) and not planner.is_wrapped(start, end):
        planner.wrap(outer, f"copied({NAME}.copy(), ")
        planner.note(f"copy wait in line {outer.lineno}")

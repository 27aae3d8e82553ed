"""Where `--items EXPR` is counted: at the fetch of a batch, or once a step."""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from perf_timing._cli import UserError
from perf_timing.inject.loops import FETCH, WORK
from perf_timing.inject.plan import Planner
from perf_timing.inject.syntax import Function, Loop

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NAMED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class _Binding:
    """A statement that binds `paths` (`x`, `self.x`), each time that it runs."""

    statement: ast.stmt
    paths: frozenset[str]


def mark(planner: Planner) -> None:
    """Count where all names of the expression are bound, as often as batches are fetched.

    A statement that fetches and binds one of the names counts each time; so does a binding in an
    inner loop of micro-steps. Names bound outside the loop only count once a step.
    Raises UserError for a name that nothing binds there.
    """
    expression = ast.parse(planner.options.items, mode="eval").body
    paths, roots = _paths(expression), _roots(expression)
    usable = [
        region for region in planner.candidate.regions if not _unbound(planner, region, roots)
    ]
    if not usable:
        raise _not_bound(planner, _unbound(planner, planner.candidate.regions[0], roots))
    for find in (_fetching, _first_of_all):
        for region in usable:
            if statements := find(planner, region, paths):
                for statement in statements:
                    _count_after(planner, statement)
                return
    _count_before(planner, _first_alone(planner, _blocks(planner, usable[0])))


def _first_alone(planner: Planner, block: list[ast.stmt]) -> ast.stmt:
    """The first statement with lines of its own, after simple ones only; else the first."""
    for statement in block:
        if planner.syntax.stands_alone(statement):
            return statement
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
            break
    return block[0]


def _blocks(planner: Planner, region: tuple[int, int]) -> list[ast.stmt]:
    return _owner(planner, region).body


def _owner(planner: Planner, region: tuple[int, int]) -> Loop | Function:
    """The loop or the function whose body is the region."""
    if region == planner.candidate.regions[0]:
        return planner.loop
    return next(
        function
        for function in planner.finder.step_functions
        if planner.syntax.body_extent(function) == region
    )


# Bindings in a step.


def _fetching(planner: Planner, region: tuple[int, int], paths: set[str]) -> list[ast.stmt]:
    """Statements that fetch and bind, if the other names are bound before them."""
    bindings = _bindings(planner, region, paths)
    nodes = [planner.finder.node(fact) for fact in planner.facts_of_step(*FETCH)]
    fetches = {planner.syntax.statement(node) for node in nodes}
    found = [binding for binding in bindings if binding.statement in fetches]
    for binding in found:
        earlier = bindings[: bindings.index(binding) + 1]
        bound = frozenset().union(*(other.paths for other in earlier))
        if any(not other.paths <= bound for other in bindings):
            return []
    return [binding.statement for binding in found]


def _first_of_all(planner: Planner, region: tuple[int, int], paths: set[str]) -> list[ast.stmt]:
    """The statement behind which every name that the step binds is bound."""
    last, missing = None, set(paths)
    for binding in _bindings(planner, region, paths):
        if binding.paths & missing:
            last = binding.statement
            missing -= binding.paths
    return [] if last is None else [_whole(planner, last, _owner(planner, region))]


def _bindings(planner: Planner, region: tuple[int, int], paths: set[str]) -> list[_Binding]:
    """Statements of the region, in order, that bind some of the paths, without evaluation."""
    found: dict[ast.stmt, set[str]] = {}
    for statement in _blocks(planner, region):
        for node in _walk_scope(statement):
            path = _stored(node)
            if path in paths and not _in_evaluation(planner, node, region):
                found.setdefault(planner.syntax.statement(node), set()).add(path)
    bindings = [_Binding(statement, frozenset(bound)) for statement, bound in found.items()]
    return sorted(bindings, key=lambda binding: planner.source.start(binding.statement))


def _in_evaluation(planner: Planner, node: ast.AST, region: tuple[int, int]) -> bool:
    assert isinstance(node, ast.expr)
    start, end = planner.source.start(node), planner.source.end(node)
    return planner.is_evaluation(start, end, region)


def _whole(planner: Planner, statement: ast.stmt, owner: ast.AST) -> ast.stmt:
    """The outermost branch or inner loop around a binding that is not run anew for each batch."""
    whole = statement
    for parent in planner.syntax.parents(statement):
        if parent is owner or (isinstance(parent, Loop) and _works(planner, parent)):
            break
        if isinstance(parent, ast.stmt) and not isinstance(parent, ast.With | ast.AsyncWith):
            whole = parent
    return whole


def _works(planner: Planner, loop: Loop) -> bool:
    """Whether an inner loop fetches or runs parts of a step: a loop of micro-steps."""
    start, end = planner.syntax.body_extent(loop)
    if any(planner.facts.within(start, end, *FETCH, *WORK, "step-call")):
        return True
    calls = [c for f in planner.finder.step_functions for c in planner.finder.calls_of(f)]
    return any(start <= planner.source.start(call) < end for call in calls)


# Marks.


def _count_after(planner: Planner, statement: ast.stmt) -> None:
    if isinstance(statement, Loop) and _works(planner, statement):  # bound by its head
        _count_before(planner, statement.body[0])
    elif planner.syntax.stands_alone(statement):
        planner.after(statement, f"items({planner.options.items})")
    else:
        raise _no_line(planner, statement)


def _count_before(planner: Planner, statement: ast.stmt) -> None:
    if not planner.syntax.stands_alone(statement):
        raise _no_line(planner, statement)
    planner.before(statement, f"items({planner.options.items})")


def _no_line(planner: Planner, statement: ast.stmt) -> UserError:
    return UserError(
        f"{planner.source.path}: line {statement.lineno} shares its line with other code, and"
        " --items needs a line there; put each statement on a line of its own;"
        " nothing was changed"
    )


# Names.


def _paths(expression: ast.expr) -> set[str]:
    """Names and dotted names in an expression: `self`, `self.x` of `self.x.numel()`."""
    nodes = [node for node in ast.walk(expression) if isinstance(node, ast.Name | ast.Attribute)]
    return {ast.unparse(node) for node in nodes}


def _roots(expression: ast.expr) -> list[str]:
    """Names that an expression reads and does not bind itself, nor Python."""
    nodes = list(ast.walk(expression))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return [
        name for name in dict.fromkeys(names) if name not in own and not hasattr(builtins, name)
    ]


def _stored(node: ast.AST) -> str:
    """The path that a target binds, else an empty text."""
    is_target = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    return ast.unparse(node) if is_target else ""


def _walk_scope(node: ast.AST, without: ast.AST | None = None) -> Iterator[ast.AST]:
    """The nodes that run in the scope of `node`: not those of functions and classes in it."""
    yield node
    if node is without or isinstance(node, _SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, _COMPREHENSIONS) and isinstance(child, ast.comprehension):
            continue
        yield from _walk_scope(child, without)


def _names_of(owner: ast.AST, without: ast.AST | None = None) -> set[str]:
    """Names that the scope of a module or a function binds, except those that `without` binds."""
    names: set[str] = set()
    if isinstance(owner, Function):
        arguments = owner.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
        names |= {argument.arg for argument in every}
    for statement in getattr(owner, "body", []):
        for node in _walk_scope(statement, without):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= {(a.asname or a.name).split(".")[0] for a in node.names}
            elif isinstance(node, _NAMED):
                names.add(node.name or "")
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def _unbound(planner: Planner, region: tuple[int, int], roots: list[str]) -> list[str]:
    """Names that are bound neither around the region nor in its steps."""
    tree = planner.source.tree
    if any(
        isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
        for node in ast.walk(tree)
    ):
        return []  # any name may come from there
    owner = _owner(planner, region)
    known = _head_names(owner)
    known |= {path for b in _bindings(planner, region, set(roots)) for path in b.paths}
    for scope in [owner, *planner.syntax.parents(owner)]:
        if isinstance(scope, ast.Module | Function) and scope is not owner:
            known |= _names_of(scope, without=owner)
    if isinstance(owner, Function):
        known |= _names_of(owner)
    known |= {n for g in ast.walk(tree) if isinstance(g, ast.Global) for n in g.names}
    return [name for name in roots if name not in known]


def _head_names(owner: Loop | Function) -> set[str]:
    """Names that the head of a loop binds."""
    if isinstance(owner, Function):
        return set()
    head = owner.test if isinstance(owner, ast.While) else owner.target
    nodes = ast.walk(head)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _not_bound(planner: Planner, names: list[str]) -> UserError:
    bound = set(_head_names(planner.loop))
    for region in planner.candidate.regions:
        for statement in _blocks(planner, region):
            targets = [n for n in _walk_scope(statement) if isinstance(n, ast.Name)]
            bound |= {n.id for n in targets if isinstance(n.ctx, ast.Store)}
    listed = sorted(bound)
    told = ", ".join(listed[:16]) + (", ..." if len(listed) > 16 else "")
    return UserError(
        f"--items: {', '.join(names)} is not bound at line {planner.loop.lineno};"
        f" the loop binds {told or 'no names'}"
    )

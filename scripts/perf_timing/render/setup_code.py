"""What a user's set-up code needs before it can stand inside a rendered script."""

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass

from perf_timing._cli import UserError


@dataclass(frozen=True)
class SetupCode:
    """`code` to insert, its `from __future__` lines, and the names that it binds."""

    code: str
    future: str
    bound: frozenset[str]
    dropped_main: bool


def prepare(code: str, *, flag: str = "--setup") -> SetupCode:
    """Split `code`: __future__ imports go to the top, a `__main__` block is left out.

    A `__main__` block would run in the rendered script, which is a main program itself. So is
    `import torch`, which the rendered script begins with.
    """
    tree = ast.parse(code)
    lines = code.split("\n")
    future: list[str] = []
    dropped = False
    for node in tree.body:
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        is_main = isinstance(node, ast.If) and _tests_main(node.test)
        shares_line = any(other.lineno == node.end_lineno for other in tree.body if other != node)
        if not (is_future or is_main or (_imports_torch(node) and not shares_line)):
            continue
        if shares_line:
            raise UserError(f"{flag}: put the statement of line {node.lineno} on a line of its own")
        if is_future:
            future.append(ast.unparse(node))
        dropped = dropped or is_main
        _blank(lines, node, flag)
    cleaned = "\n".join(lines).strip("\n")
    return SetupCode(
        cleaned + "\n" if cleaned.strip() else "",
        "\n".join(future),
        frozenset(bound_names(tree)),
        dropped,
    )


def _imports_torch(node: ast.stmt) -> bool:
    """Whether it is `import torch` and no more: every rendered script has that already."""
    return isinstance(node, ast.Import) and [(a.name, a.asname) for a in node.names] == [
        ("torch", None)
    ]


def _blank(lines: list[str], node: ast.stmt, flag: str) -> None:
    assert node.end_lineno is not None
    for index in range(node.lineno - 1, node.end_lineno):
        lines[index] = ""


def _tests_main(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Eq)
        and {ast.unparse(test.left), ast.unparse(test.comparators[0])} == {"__name__", "'__main__'"}
    )


def bound_names(tree: ast.Module) -> set[str]:
    """Names that the module binds at its top level, in any block that is not a function."""
    found: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import):
            # `import torch` binds what the rendered script binds as well: no clash.
            found |= {
                alias.asname or alias.name.split(".")[0]
                for alias in node.names
                if alias.asname not in (None, alias.name) or ("." in alias.name and alias.asname)
            }
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Lambda):
            continue
        else:
            pending.extend(ast.iter_child_nodes(node))
    return found


def names_missing(code: str, expressions: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Names that the expressions read and that neither `code` nor Python itself defines."""
    defined = set(known) | set(dir(builtins)) | {"torch"}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            defined |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    defined |= bound_names(ast.parse(code))
    return [name for name in names_read(*expressions) if name not in defined]


def names_read(*expressions: str) -> list[str]:
    """Names that the expressions read, in order of appearance, without repeats.

    What an expression binds itself (a lambda's parameter, the variable of a comprehension) does
    not count.
    """
    found: dict[str, None] = {}
    for expression in expressions:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}
        own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in nodes:
            if isinstance(node, ast.Name) and node.id not in own:
                found.setdefault(node.id)
    return list(found)


def refuse_clash(setup: SetupCode, rendered: str, flag: str) -> None:
    """Raise UserError when the set-up binds a name that the rendered script defines itself."""
    tree = ast.parse(rendered)
    own = bound_names(tree) | {"torch"}
    # A builtin that the set-up rebinds would change under the rendered code. bound_names leaves
    # plain imports out, since the same import twice is no clash; a variable of that name is.
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and hasattr(builtins, node.id):
            own.add(node.id)
        elif isinstance(node, ast.Import):
            own |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    if "*" in setup.bound:
        raise UserError(f"{flag}: 'import *' hides which names it binds; import them by name")
    clash = sorted(own & setup.bound)
    if clash:
        raise UserError(
            f"{flag} binds {', '.join(clash)}, which the rendered code uses itself; rename it there"
        )

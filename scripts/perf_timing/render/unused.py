"""Leave out of rendered code the private helpers that a scenario does not use."""

import ast

_Helper = ast.FunctionDef | ast.Assign


def without_unused(code: str) -> str:
    """Python code without the module's private functions and constants that nothing reads.

    Partials hold what several scenarios share; a reader of one scenario's code need not see the
    rest. Comments right above a helper go with it. Raises SyntaxError for code that does not parse.
    """
    while unused := _unused(ast.parse(code)):
        lines = code.splitlines(keepends=True)
        for helper in reversed(unused):
            del lines[slice(*_extent(helper, lines))]
        code = "".join(lines)
    return code


def _unused(tree: ast.Module) -> list[_Helper]:
    helpers = {name: node for node in tree.body if (name := _private_name(node))}
    for statement in tree.body:
        for node in ast.walk(statement):
            # A function that only calls itself is not used.
            if isinstance(node, ast.Name) and helpers.get(node.id) is not statement:
                helpers.pop(node.id, None)
    return [node for node in helpers.values() if isinstance(node, _Helper)]


def _private_name(node: ast.stmt) -> str:
    """The private name that a statement defines for the module, "" if there is none."""
    name = ""
    if isinstance(node, ast.FunctionDef):
        name = node.name
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
    return name if name.startswith("_") and not name.startswith("__") else ""


def _extent(helper: _Helper, lines: list[str]) -> tuple[int, int]:
    """First line and the one after the last, from 0: comments above, blank lines below."""
    decorators = helper.decorator_list if isinstance(helper, ast.FunctionDef) else []
    first = min([helper.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    after = helper.end_lineno or helper.lineno
    while after < len(lines) and not lines[after].strip():
        after += 1
    return first, after

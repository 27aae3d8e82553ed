"""The self-contained block that an instrumented script carries, and where it goes."""

import ast
from typing import Any

from perf_timing._cli import UserError
from perf_timing.inject.source import Source

BEGIN = "# >>> perf-timing >>>"
END = "# <<< perf-timing <<<"


def render(digest: str, settings: dict[str, Any], *, timing: bool, nvtx: bool) -> str:
    """The block's text with unix line ends. `settings` are keyword arguments of LoopTimer."""
    import jinja2

    from perf_timing.render import engine

    try:
        text: str = (
            engine.environment()
            .get_template("_loop_inject.py.j2")
            .render(
                digest=digest,
                settings=settings,
                timing=timing,
                nvtx=nvtx,
                flops_per_item=settings.get("flops_per_item"),
            )
        )
    except (OSError, jinja2.TemplateError) as error:
        raise UserError(f"cannot render the timing block: {error}; reinstall the package") from None
    while "\n\n\n    " in text:  # a nested definition is set off by one blank line, not by two
        text = text.replace("\n\n\n    ", "\n\n    ")
    return text


def place(source: Source) -> int:
    """Offset of the line before which the block goes: after docstring and the leading imports."""
    after = 0
    statements = source.tree.body
    for number, statement in enumerate(statements):
        docstring = number == 0 and isinstance(statement, ast.Expr)
        if docstring or _imports(statement):
            after = statement.end_lineno or 0
        elif isinstance(
            statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef | ast.For | ast.While
        ) or _is_main(statement):
            break
    # Statements may share a line, or begin on the line where another ends.
    moved = True
    while moved:
        moved = False
        for statement in statements:
            if statement.lineno <= after < (statement.end_lineno or 0):
                after, moved = statement.end_lineno or 0, True
    if after:
        return source.line_start(after + 1)
    return source.line_start(source.line_of(source.start(statements[0]))) if statements else 0


def _imports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.Try | ast.If) and not _is_main(statement):
        inside = [*statement.body, *statement.orelse]
        return any(isinstance(part, ast.Import | ast.ImportFrom) for part in inside)
    return False


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)

"""Questions about a syntax tree: what contains what, which statements have lines of their own."""

import ast
from collections.abc import Iterator
from functools import cached_property

from perf_timing.inject.source import Source

Loop = ast.For | ast.AsyncFor | ast.While
Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = ast.stmt | ast.expr


class Syntax:
    """The tree of one file with links to parents."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(source.tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parent, grandparent and so on up to the module."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    @cached_property
    def _extents(self) -> list[tuple[int, int, Node]]:
        nodes = [node for node in ast.walk(self.source.tree) if isinstance(node, Node)]
        return [(self.source.start(node), self.source.end(node), node) for node in nodes]

    def node_at(self, start: int, end: int) -> Node:
        """The smallest statement or expression that covers an extent."""
        covering = [entry for entry in self._extents if entry[0] <= start and end <= entry[1]]
        # Of nodes with one extent, such as a statement and its expression, the inner one.
        return min(reversed(covering), key=lambda entry: entry[1] - entry[0])[2]

    def loops(self) -> list[Loop]:
        return [node for node in ast.walk(self.source.tree) if isinstance(node, Loop)]

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """Loops whose body holds `node`, the innermost first."""
        around: list[Loop] = []
        below = node
        for parent in self.parents(node):
            if isinstance(parent, Loop) and below in parent.body:
                around.append(parent)
            below = parent
        return around

    def function_around(self, node: ast.AST) -> Function | None:
        return next((p for p in self.parents(node) if isinstance(p, Function)), None)

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        return next((p for p in self.parents(node) if isinstance(p, ast.ClassDef)), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node`, or is it."""
        if isinstance(node, ast.stmt):
            return node
        return next(parent for parent in self.parents(node) if isinstance(parent, ast.stmt))

    def own_line_statement(self, node: ast.AST, within: ast.AST) -> ast.stmt | None:
        """The innermost statement around `node`, inside `within`, that shares no line.

        Lines can be inserted before and after such a statement.
        """
        for candidate in [node, *self.parents(node)]:
            if candidate is within:
                return None
            if isinstance(candidate, ast.stmt) and self.stands_alone(candidate):
                return candidate
        return None

    def stands_alone(self, statement: ast.stmt) -> bool:
        """Whether nothing but the statement and a comment is on its lines."""
        source = self.source
        start, end = source.start(statement), source.end(statement)
        before = source.text[source.line_start(source.line_of(start)) : start]
        after = source.text[end : source.line_start(statement.end_lineno + 1)].strip()  # type: ignore[operator]
        if before.strip() or (after and not after.startswith("#")):
            return False
        parent = self._parents.get(statement)
        is_elif = (
            isinstance(statement, ast.If)
            and isinstance(parent, ast.If)
            and statement in parent.orelse
            and source.text.startswith("elif", start)
        )
        return not is_elif

    def indentation(self, statement: ast.stmt) -> str:
        start = self.source.start(statement)
        return self.source.text[self.source.line_start(self.source.line_of(start)) : start]

    def body_extent(self, owner: Loop | Function) -> tuple[int, int]:
        return self.source.start(owner.body[0]), self.source.end(owner.body[-1])

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which `statement` stands."""
        parent = self._parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def follows(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Whether `second` is the next statement after `first` in one block."""
        block = self.block_of(first)
        return block[block.index(first) + 1 :][:1] == [second]

    def exclude(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether two nodes stand in different branches of one `if`."""
        above = [first, *self.parents(first)], [second, *self.parents(second)]
        return any(
            isinstance(node, ast.If)
            and node in above[1]
            and any(part in above[0] for part in node.body)
            != any(part in above[1] for part in node.body)
            for node in above[0]
        )

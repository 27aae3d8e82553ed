"""Where the marks of a timed loop go: lines to insert and expressions to wrap."""

import ast
from dataclasses import dataclass, field

from perf_timing._cli import UserError
from perf_timing.inject.facts import Fact
from perf_timing.inject.loops import FETCH, Candidate, Finder
from perf_timing.inject.syntax import Loop, Node

NAME = "_perf_timing"
MARK = "  # perf-timing"


@dataclass(frozen=True)
class Options:
    """What the user asked to mark."""

    phases: bool = False
    communication: bool = False
    items: str = ""


# What goes first where several insertions meet at one offset.
CLOSING, AFTER, BLOCK, BEFORE, OPENING = range(5)


@dataclass(frozen=True, order=True)
class Insertion:
    """Text to insert at `offset`. `rank` is one of the constants above, `depth` orders equals."""

    offset: int
    rank: int
    depth: int
    number: int
    text: str = field(compare=False)


@dataclass
class Plan:
    """`notes` says in words what is marked, `warnings` what could not be."""

    insertions: list[Insertion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Marker:
    """Plans the marks of one loop."""

    def __init__(self, finder: Finder, candidate: Candidate, options: Options) -> None:
        self.finder, self.candidate, self.options = finder, candidate, options
        self.source, self.syntax = finder.source, finder.syntax
        self.loop: Loop = candidate.loop
        self.plan = Plan()
        self._taken: list[tuple[int, int]] = []

    def mark(self) -> Plan:
        """The plan; raises UserError where the loop cannot be marked safely."""
        if isinstance(self.loop, ast.AsyncFor):
            raise UserError(
                f"{self.source.path}: line {self.loop.lineno} is an 'async for' loop,"
                " which inject-timing cannot time; nothing was changed"
            )
        if isinstance(self.loop, ast.For):
            self._wrap_iterable(self.loop)
        else:
            self._bracket_while(self.loop)
        self._mark_early_ends()
        self._mark_fetches()
        self._mark_copies()
        self._mark_phases()
        if self.options.items:
            self._mark_items()
        return self.plan

    # Primitives.

    def _line_before(self, statement: ast.stmt, call: str) -> None:
        start = self.source.start(statement)
        at = self.source.line_start(self.source.line_of(start))
        self._insert_line(at, BEFORE, self.syntax.indentation(statement), call)

    def _line_after(self, statement: ast.stmt, call: str, indentation: str | None = None) -> None:
        at = self.source.line_start((statement.end_lineno or 0) + 1)
        indentation = self.syntax.indentation(statement) if indentation is None else indentation
        self._insert_line(at, AFTER, indentation, call)

    def _insert_line(self, at: int, rank: int, indentation: str, call: str) -> None:
        line = f"{indentation}{NAME}.{call}{MARK}"
        text, newline = self.source.text, self.source.newline
        if at == len(text) and not text.endswith(("\n", "\r")):
            line = newline + line
        else:
            line += newline
        # Behind a block that ends here, what belongs to its inside comes first.
        depth = -len(indentation) if rank == AFTER else 0
        self._insert(at, rank, depth, line)

    def _insert(self, at: int, rank: int, depth: int, text: str) -> None:
        number = len(self.plan.insertions)
        self.plan.insertions.append(Insertion(at, rank, depth, number, text))

    def _around(self, first: ast.stmt, last: ast.stmt, before: str, after: str) -> None:
        self._line_before(first, before)
        self._line_after(last, after)

    def _wrap(self, node: ast.expr, prefix: str) -> None:
        start, end = self.source.start(node), self.source.end(node)
        self._insert(start, OPENING, -end, f"{NAME}.{prefix}")
        self._insert(end, CLOSING, -start, ")")

    # The loop itself.

    def _wrap_iterable(self, loop: ast.For) -> None:
        if isinstance(loop.iter, ast.Tuple | ast.Starred):
            raise UserError(
                f"{self.source.path}: line {loop.lineno} loops over a written-out tuple;"
                " nothing was changed"
            )
        if self.candidate.fetched_inside:
            self._wrap(loop.iter, "iterations(")
            self.plan.notes.append(f"steps counted at line {loop.lineno}")
            return
        target = self._inner_loader(loop.iter)
        self._wrap(target, "steps(")
        self.plan.notes.append(
            f"data wait around {' '.join(self.source.code(target).split())[:60]}"
        )

    def _inner_loader(self, iterable: ast.expr) -> ast.expr:
        """The loader of a generator that logs between batches, else the iterable itself."""
        match iterable:
            case ast.Call(func=function, args=[first, *_]):
                return first if self.source.code(function).endswith("log_every") else iterable
        return iterable

    def _bracket_while(self, loop: ast.While) -> None:
        first, last = loop.body[0], loop.body[-1]
        if not self.syntax.stands_alone(loop) or first.lineno == loop.lineno:
            raise UserError(
                f"{self.source.path}: line {loop.lineno}: the loop shares its line with"
                " other code; put its body on lines of its own; nothing was changed"
            )
        self._line_before(loop, "start()")
        top = self.source.line_start(self.source.line_of(self.source.start(first)))
        self._insert_line(top, BEFORE, self.syntax.indentation(first), "step()")
        if not isinstance(last, ast.Break | ast.Return | ast.Continue | ast.Raise):
            self._line_after(last, "done()", self.syntax.indentation(first))
        self.plan.notes.append(f"steps marked at line {loop.lineno}")

    def _mark_early_ends(self) -> None:
        """A `break` or `return` after the step's work: the step counts."""
        start, end = self.candidate.regions[0]
        kinds = ("optimizer-step", "backward-and-step")
        facts = list(self.finder.facts.within(start, end, *kinds))
        facts = facts or list(self.finder.facts.within(start, end, "backward", "step-call"))
        calls = [
            self.source.end(call)
            for name in self.finder.step_functions
            for call in self.finder.calls_of(name)
            if start <= self.source.start(call) < end
        ]
        if not facts and not calls:
            return
        worked = max([fact.end for fact in facts] + calls)
        for node in ast.walk(self.loop):
            if not isinstance(node, ast.Break | ast.Return) or not self._leaves(node):
                continue
            if worked < self.source.start(node) < end:
                if self.syntax.stands_alone(node):
                    self._line_before(node, "done()")
                else:
                    self.plan.warnings.append(
                        f"the step ended at line {node.lineno} is not counted"
                    )

    def _leaves(self, node: ast.AST) -> bool:
        """Whether a `break` or `return` in the loop's body leaves this loop."""
        if isinstance(node, ast.Return):
            inside = self.syntax.function_around(node)
            return inside is self.syntax.function_around(self.loop)
        around = self.syntax.loops_around(node)
        return bool(around) and around[0] is self.loop

    # What is in the body.

    def _in_regions(self, *kinds: str) -> list[Fact]:
        found = [
            fact
            for region in self.candidate.regions
            for fact in self.finder.facts.within(*region, *kinds)
            if not self.finder._in_no_grad(fact) and not self._in_foreign_loop(fact)
        ]
        return sorted(dict.fromkeys(found), key=lambda fact: fact.start)

    def _in_foreign_loop(self, fact: Fact) -> bool:
        """In a loop of the body that goes over other data, such as an evaluation."""
        for loop in self.syntax.loops_around(self.finder.node(fact)):
            if loop is self.loop:
                return False
            work = ("backward", "optimizer-step", "backward-and-step")
            if (
                loop in self.finder.loops
                and self.finder._iterates_data(loop)
                and not any(self.finder.facts.within(*self.syntax.body_extent(loop), *work))
                and not self._moves_only(loop)
            ):
                return True
        return False

    def _mark_fetches(self) -> None:
        facts = self._in_regions(*FETCH)
        if isinstance(self.loop, ast.While):
            test = (self.source.start(self.loop.test), self.source.end(self.loop.test))
            facts += self.finder.facts.within(*test, *FETCH)
        for fact in facts:
            node = self.finder.node(fact)
            parent = next(self.syntax.parents(node), None)
            if not isinstance(node, ast.expr) or isinstance(parent, ast.Await | ast.Starred):
                continue
            if any(start <= fact.start and fact.end <= end for start, end in self._taken):
                continue
            self._taken.append((fact.start, fact.end))
            self._wrap(node, f"fetched({NAME}.fetch(), ")
            self.plan.notes.append(f"data wait around line {self.source.line_of(fact.start)}")
        if self.candidate.fetched_inside and not self._taken:
            self.plan.warnings.append("no fetch found in the loop: data wait is not measured")

    def _mark_copies(self) -> None:
        groups: list[list[ast.stmt]] = []
        for fact in self._in_regions("copy"):
            if any(start <= fact.start < end for start, end in self._taken):
                continue
            node = self.finder.node(fact)
            parent = next(self.syntax.parents(node), None)
            if isinstance(parent, ast.Attribute) and parent.attr in ("train", "eval"):
                continue  # a model
            statement = self._copy_statement(node)
            if statement is None:
                self._wrap_copy(node)
            elif not any(statement in group for group in groups):
                if groups and self._follows(groups[-1][-1], statement):
                    groups[-1].append(statement)
                else:
                    groups.append([statement])
        for group in groups:
            self._around(group[0], group[-1], "copy()", "copied()")
            self.plan.notes.append(f"copy wait around line {group[0].lineno}")

    def _copy_statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement around a copy, if it does nothing else and lines can go around it."""
        statement = self.syntax.statement(node)
        for loop in self.syntax.loops_around(node):
            if loop is not self.loop and self._moves_only(loop):
                statement = loop
        if not self.syntax.stands_alone(statement):
            return None
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            return statement if self._only_moves(statement.value) else None
        return statement if statement in self.finder.loops else None

    def _moves_only(self, loop: Loop) -> bool:
        """A loop that only moves things: `for k in batch: batch[k] = batch[k].to(device)`."""
        copies = self.finder.facts.of("copy")
        for statement in loop.body:
            start, end = self.source.start(statement), self.source.end(statement)
            if not any(start <= copy.start and copy.end <= end for copy in copies):
                return False
        return isinstance(loop, ast.For)

    def _only_moves(self, value: ast.expr) -> bool:
        """Whether every call in an expression belongs to moving data, not to a model."""
        copies = {self.finder.node(fact) for fact in self.finder.facts.of("copy")}
        harmless = {
            "isinstance",
            "tuple",
            "list",
            "dict",
            "items",
            "keys",
            "values",
            "float",
            "long",
            "pin_memory",
            "contiguous",
            "view",
            "squeeze",
            "unsqueeze",
            "Variable",
            "type",
            "half",
            "int",
            "bfloat16",
            "permute",
            "transpose",
            "t",
            "stack",
            "from_numpy",
            "tensor",
            "as_tensor",
            "map",
            "zip",
            "get",
            "requires_grad_",
            "pop",
            "reshape",
        }
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and node not in copies:
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                name = node.func.id if isinstance(node.func, ast.Name) else name
                if name not in harmless:
                    return False
        return True

    def _wrap_copy(self, node: Node) -> None:
        """Time a copy inside a larger expression, the comprehension around it as a whole."""
        comprehension = ast.ListComp | ast.SetComp | ast.DictComp
        outer: Node = node
        for parent in self.syntax.parents(node):
            if isinstance(parent, ast.stmt):
                break
            if isinstance(parent, comprehension):
                outer = parent
            elif isinstance(parent, ast.Lambda | ast.GeneratorExp):
                return
        start, end = self.source.start(outer), self.source.end(outer)
        if any(s < end and start < e for s, e in self._taken) or not isinstance(outer, ast.expr):
            return
        self._taken.append((start, end))
        self._wrap(outer, f"copied({NAME}.copy(), ")
        self.plan.notes.append(f"copy wait in line {outer.lineno}")

    def _follows(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Whether two statements stand next to each other in one block."""
        for parent in self.syntax.parents(first):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(parent, name, None)
                if isinstance(block, list) and first in block:
                    place = block.index(first) + 1
                    return place < len(block) and block[place] is second
            return False
        return False

    # Phases.

    def _mark_phases(self) -> None:
        kinds: dict[str, tuple[str, ...]] = {}
        if self.options.phases or self.options.communication:
            kinds |= {
                "backward": ("backward", "backward-and-step"),
                "communication": ("collective",),
            }
        if self.options.phases:
            kinds["optimizer"] = ("optimizer-step",)
        if not kinds:
            return
        marked: list[tuple[int, ast.stmt, str]] = []
        for name, facts in kinds.items():
            for fact in self._in_regions(*facts):
                statement = self.syntax.own_line_statement(self.finder.node(fact), self.loop)
                if statement is None or isinstance(statement, ast.FunctionDef | Loop):
                    line = self.source.line_of(fact.start)
                    self.plan.warnings.append(f"{name} shares line {line}: not timed")
                elif all(statement is not other for _, other, _ in marked):
                    marked.append((self.source.start(statement), statement, name))
        marked.sort(key=lambda entry: entry[0])
        for place, (_, statement, name) in enumerate(marked):
            if any(self._holds(other, statement) for _, other, _ in marked):
                continue
            after = self._phase_after(statement, [kind for _, _, kind in marked[place + 1 :]])
            self._around(statement, statement, f'phase("{name}")', f'phase("{after}")')
        missing = [name for name in ("backward", "optimizer") if name in kinds]
        missing = [name for name in missing if all(kind != name for _, _, kind in marked)]
        if missing and self.options.phases:
            self.plan.warnings.append(f"no {' and no '.join(missing)} found in the loop")

    def _holds(self, outer: ast.stmt, inner: ast.stmt) -> bool:
        return outer is not inner and any(parent is outer for parent in self.syntax.parents(inner))

    def _phase_after(self, statement: ast.stmt, later: list[str]) -> str:
        """What runs after a marked statement: another forward pass, or the rest of the step."""
        if not self.options.phases:
            return "body"
        around = self.syntax.loops_around(statement)
        repeated = bool(around) and around[0] is not self.loop
        return "forward" if repeated or "backward" in later else "other"

    # Items.

    def _mark_items(self) -> None:
        """Count items where all names of the expression are bound, as early as can be."""
        tree = ast.parse(self.options.items, mode="eval")
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        call = f"items({self.options.items})"
        first = self.loop.body[0]
        last: ast.stmt | None = None
        for statement in self.loop.body:
            bound = {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            if bound & names and self.syntax.stands_alone(statement):
                last = statement
                names -= bound
        if last is not None:
            self._line_after(last, call)
        elif self.syntax.stands_alone(first):
            self._line_before(first, call)
        else:
            raise UserError(
                f"{self.source.path}: --items finds no line of its own in the loop at line"
                f" {self.loop.lineno}; nothing was changed"
            )

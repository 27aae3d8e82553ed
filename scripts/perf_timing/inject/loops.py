"""Which loop of a script trains: candidates, the evidence for each, and the choice."""

import ast
import re
from dataclasses import dataclass, field

from perf_timing._cli import UserError
from perf_timing.inject.facts import Fact, Facts
from perf_timing.inject.source import Source
from perf_timing.inject.syntax import Function, Loop, Node, Syntax

WORK = ("backward", "backward-and-step", "optimizer-step")
FETCH = ("next-call", "batch-call")
# Functions that go through an iterable and hand on what it yields.
_THROUGH = re.compile(
    r"(^|\.)(enumerate|zip|i?tqdm|trange|track|islice|iter|chain|reversed|progress\w*|auto|log_every"
    r"|log_progress|ProgressBar|prefetch\w*|to_device|MpDeviceLoader|device_loader)$",
    re.I,
)
_COUNTS = re.compile(r"(^|\.)(x?range|trange|count|arange)$")
_LOADER = re.compile(
    r"(?i)(load|batch|data|\bdl\b|_dl\b|dl_|iter|itr\b|sampler|queue|prefetch|stream|feeder|\bgen\b"
    r"|train)"
)
_NOT_TRAINING = re.compile(
    r"(?i)(^|[._\"'(\s])(val|valid|validation|test|tests|eval|dev|infer\w*|query)(_|\b|l)"
)
_WARMS_UP = re.compile(r"(?i)warm_?up|dry_?run|burn_?in")
_COMPILES = re.compile(
    r"(^|\.)(torch\.compile|compile|dynamo\.optimize|jit\.script|jit\.trace|make_graphed_callables|thunder\.jit)$"
)
_TRAINS = re.compile(r"(?i)train|fit|main|run|learn|epoch|optimi|pretrain|finetune")
ENOUGH = 3  # points of evidence below which no loop is taken unasked
# Names that many classes use for something else.
_GENERIC = {"step", "update", "forward", "backward", "main", "run", "train", "fit", "__call__"}


@dataclass
class Candidate:
    """A loop that may be the training loop.

    `fetched_inside` says that the loop counts steps and draws its batches in the body. `regions`
    are the extents of code that runs in a step and can be marked: the body and the functions that
    it calls, save for compiled ones.
    """

    loop: Loop
    regions: list[tuple[int, int]]
    fetched_inside: bool
    score: int = 0
    evidence: list[str] = field(default_factory=list)


def _name(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _decorator(node: ast.expr) -> str:
    """The name of `@torch.compile`, `@torch.compile(...)` and `@partial(torch.compile, ...)`."""
    if isinstance(node, ast.Call):
        wrapped = [_name(part) for part in node.args[:1]]
        return next((n for n in wrapped if _COMPILES.search(n)), _name(node.func))
    return _name(node)


def _profiler_steps(tree: ast.Module) -> set[str]:
    """`p.step()` of `with torch.profiler.profile() as p`: no optimizer's."""
    return {
        f"{_name(item.optional_vars)}.step()"
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if item.optional_vars and re.search(r"(?i)profil", ast.unparse(item.context_expr))
    }


class Finder:
    """Finds the training loop of one file."""

    def __init__(self, source: Source, syntax: Syntax, facts: Facts) -> None:
        self.source, self.syntax = source, syntax
        self.facts = facts.without("optimizer-step", _profiler_steps(source.tree))
        self._node: dict[Fact, Node] = {}
        self.loops = [loop for loop in syntax.loops() if self._is_fact(loop)]
        self.compiled_as = self._find_compiled_names()
        self.compiled = self._find_compiled()
        self.step_functions = self._find_step_functions(*WORK)

    def _is_fact(self, loop: Loop) -> bool:
        start = self.source.start(loop)
        return any(fact.start == start for fact in self.facts.of("for-loop", "while-loop"))

    def node(self, fact: Fact) -> Node:
        """The syntax node of a fact."""
        if fact not in self._node:
            self._node[fact] = self.syntax.node_at(fact.start, fact.end)
        return self._node[fact]

    # Functions of the file that do the work of a step.

    def _find_compiled_names(self) -> dict[str, str]:
        """What `step = torch.compile(train_step)` makes of which function, by the last name."""
        found = {}
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                call, target = node.value, _name(node.targets[0]).rpartition(".")[2]
                if call.args and target and _COMPILES.search(_name(call.func)):
                    found[target] = _name(call.args[0]).rpartition(".")[2]
        return found

    def _find_compiled(self) -> set[Function]:
        """Functions that a compiler or a CUDA graph takes whole: a mark inside would break them."""
        named = set(self.compiled_as.values())
        return {
            node
            for node in ast.walk(self.source.tree)
            if isinstance(node, Function)
            and (
                node.name in named
                or any(_COMPILES.search(_decorator(d)) for d in node.decorator_list)
            )
        }

    def _find_step_functions(self, *kinds: str) -> list[Function]:
        """Functions that do such work outside any loop over data of their own."""
        found: list[Function] = []
        work: list[ast.AST] = [self.node(fact) for fact in self.facts.of(*kinds)]
        while work:
            new: list[Function] = []
            for node in work:
                function = self.syntax.function_around(node)
                if function is None or function in found or self._has_own_loop(node, function):
                    continue
                new.append(function)
            found += dict.fromkeys(new)
            work = [call for function in new for call in self.calls_of(function)]
        return found

    def _has_own_loop(self, node: ast.AST, function: Function) -> bool:
        inside = self.syntax.loops_around(function)
        loops = [loop for loop in self.syntax.loops_around(node) if loop not in inside]
        return any(not self._repeats_in_step(loop) for loop in loops)

    def _repeats_in_step(self, loop: Loop) -> bool:
        """A loop inside a step: over micro-batches, optimizers or parameters."""
        if not isinstance(loop, ast.For):
            return False
        text = self.source.code(loop.iter)
        return bool(re.search(r"(?i)accum|micro|optimizers|schedulers|\bopts\b|zip\(.*optim", text))

    def calls_of(self, step: Function) -> list[ast.Call]:
        """Calls of a function or method of the file, told by its name."""
        calls = []
        for node in ast.walk(self.source.tree):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            called = _name(function).rpartition(".")[2]
            plain = isinstance(function, ast.Name) and function.id == step.name
            plain |= bool(called) and self.compiled_as.get(called) == step.name
            method = isinstance(function, ast.Attribute) and function.attr == step.name
            if method:
                method = self._may_be_method(function, step)  # type: ignore[arg-type]
            if plain or method:
                calls.append(node)
        return calls

    def _may_be_method(self, called: ast.Attribute, step: Function) -> bool:
        """Whether a method call can be one of `step`, by its class where `self` is called."""
        if not (isinstance(called.value, ast.Name) and called.value.id == "self"):
            return step.name not in _GENERIC
        own, owner = self.syntax.class_around(called), self.syntax.class_around(step)
        if own is None or owner is None or own is owner:
            return True
        has_its_own = any(isinstance(f, Function) and f.name == step.name for f in own.body)
        return not has_its_own or own.name in self._bases(owner)

    def _bases(self, owner: ast.ClassDef) -> set[str]:
        """Names of the classes that a class comes from, as far as the file defines them."""
        known = {n.name: n for n in ast.walk(self.source.tree) if isinstance(n, ast.ClassDef)}
        found = [_name(base).rpartition(".")[2] for base in owner.bases]
        for name in found:  # grows while it is gone through
            bases = known[name].bases if name in known else []
            names = [_name(base).rpartition(".")[2] for base in bases]
            found += [new for new in names if new not in found]
        return set(found)

    # Candidates.

    def candidates(self) -> list[Candidate]:
        """Loops that may be the training loop, the best first."""
        direct = [self.node(fact) for fact in self.facts.of("optimizer-step", "backward-and-step")]
        direct = direct or [self.node(fact) for fact in self.facts.of("backward")]
        weak = [self.node(fact) for fact in self.facts.of("step-call")]
        found: dict[Loop, Candidate] = {}
        for work, kinds in ((direct, WORK), (weak, ("step-call",))):
            if kinds != WORK:
                self.step_functions = self._find_step_functions(*kinds)
            functions = self.step_functions
            called = [call for function in functions for call in self.calls_of(function)]
            for anchor in [*work, *called]:
                loop = self._loop_of(anchor)
                if loop is not None and loop not in found:
                    found[loop] = self.candidate(loop)
            if found:
                break
        kept = [c for c in found.values() if not self._inside_another(c, list(found))]
        return sorted(kept, key=lambda c: (-c.score, c.loop.lineno))

    def _loop_of(self, anchor: ast.AST) -> Loop | None:
        """The loop around a piece of work whose passes are steps."""
        around = [loop for loop in self.syntax.loops_around(anchor) if loop in self.loops]
        if not around:
            return None
        while len(around) > 1 and self._takes_turns(around[0]):
            around.pop(0)
        for is_it in (self._surely_draws_data, self._draws_data):
            for loop in around:
                if is_it(loop):
                    return loop
        return self._loop_over_data_in(around[0]) or around[0]

    def _takes_turns(self, loop: Loop) -> bool:
        """`for turn in range(2)`: the networks of one step, each with a batch."""
        core = self.core(loop.iter, loop) if isinstance(loop, ast.For) else None
        if not isinstance(core, ast.Call) or not self._counts(core) or len(core.args) != 1:
            return False
        count = core.args[0]
        return isinstance(count, ast.Constant) and count.value in (1, 2, 3)

    def _loop_over_data_in(self, outer: Loop) -> Loop | None:
        """A loop over a loader in `outer` that runs backward, where only `outer` steps."""
        for fact in self.facts.within(*self.syntax.body_extent(outer), "backward"):
            for loop in self.syntax.loops_around(self.node(fact)):
                if loop is not outer and loop in self.loops and self._iterates_data(loop):
                    return loop
        return None

    def _inside_another(self, candidate: Candidate, loops: list[Loop]) -> bool:
        outer = [loop for loop in self.syntax.loops_around(candidate.loop) if loop in loops]
        return any(self._draws_data(loop) for loop in outer)

    def _surely_draws_data(self, loop: Loop) -> bool:
        """Whether the loop fetches batches, or goes through what has the name of a loader."""
        if isinstance(loop, ast.For | ast.AsyncFor) and self._iterates_data(loop):
            return bool(_LOADER.search(self.source.code(self.core(loop.iter, loop))))
        return self._fetches_inside(loop)

    def _draws_data(self, loop: Loop) -> bool:
        return self._iterates_data(loop) or self._fetches_inside(loop)

    def _iterates_data(self, loop: Loop) -> bool:
        if not isinstance(loop, ast.For | ast.AsyncFor):
            return False
        core = self.core(loop.iter, loop)
        if isinstance(core, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set):
            return False
        if self._counts(core):
            return False
        text = self.source.code(core)
        return not re.search(
            r"(?i)^(\w+\.)?(n_|num_)?(epochs?|iters?|seeds?|folds?|steps|optimizers)$", text
        )

    def _counts(self, iterable: ast.expr) -> bool:
        """`range(...)` and its like."""
        if not isinstance(iterable, ast.Call):
            return False
        return bool(_COUNTS.search(self.source.code(iterable.func)))

    def _fetches_inside(self, loop: Loop) -> bool:
        """Whether the loop draws batches itself, not within a loop over data in its body."""
        for start, end in self.regions(loop):
            for fact in self.facts.within(start, end, *FETCH):
                inner = []
                for other in self.syntax.loops_around(self.node(fact)):
                    if other is loop:
                        break
                    inner.append(other)
                if any(other in self.loops and self._steps_itself(other) for other in inner):
                    continue
                if not any(
                    b.start <= fact.start < b.end for b in self.facts.within(start, end, "no-grad")
                ):
                    return True
        return False

    def _steps_itself(self, loop: Loop) -> bool:
        """Whether a loop holds a whole training step of its own, or is one over a loader."""
        extent = self.syntax.body_extent(loop)
        steps = any(self.facts.within(*extent, "optimizer-step", "backward-and-step"))
        return steps or self._iterates_data(loop)

    def core(self, iterable: ast.expr, user: ast.AST) -> ast.expr:
        """What an iterable goes through in the end: `loader` of `enumerate(tqdm(loader))`."""
        for _ in range(8):
            if isinstance(iterable, ast.Call) and iterable.args:
                name = self.source.code(iterable.func)
                if not _THROUGH.search(name) or _COUNTS.search(name):
                    break
                parts = [part for part in iterable.args if not self._counts(part)]
                named = [part for part in parts if _LOADER.search(self.source.code(part))]
                is_zip = name.rpartition(".")[2] == "zip"
                iterable = ((not is_zip and named) or parts or iterable.args)[0]
            elif isinstance(iterable, ast.Name):
                value = self._assigned(iterable.id, user)
                if value is None:
                    break
                iterable = value
            else:
                break
        return iterable

    def _assigned(self, name: str, user: ast.AST) -> ast.expr | None:
        """The call that was last assigned to `name` before `user`, if it goes through another."""
        scope: ast.AST = self.syntax.function_around(user) or self.source.tree
        found: ast.expr | None = None
        for node in ast.walk(scope):
            if not isinstance(node, ast.Assign) or node.lineno >= user.lineno:  # type: ignore[attr-defined]
                continue
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
                found = node.value
        if isinstance(found, ast.Call) and found.args:
            function = self.source.code(found.func)
            if _THROUGH.search(function) or _COUNTS.search(function):
                return found
        return None

    # Evidence.

    def candidate(self, loop: Loop) -> Candidate:
        """The loop with the evidence for it."""
        inside = not self._iterates_data(loop)
        if inside and isinstance(loop, ast.For) and not self._fetches_inside(loop):
            inside = self._counts(self.core(loop.iter, loop))
        compiled = {self.syntax.body_extent(function) for function in self.compiled}
        regions = [region for region in self.regions(loop) if region not in compiled]
        found = Candidate(loop, regions, inside)
        self._weigh_work(found)
        self._weigh_data(found)
        function = self.syntax.function_around(loop)
        if function is not None and _TRAINS.search(function.name):
            found.score += 1
            found.evidence.append(f"in {function.name}()")
        name = function.name if function is not None else ""
        if _NOT_TRAINING.search(name) and not _TRAINS.search(name):  # not train_valid()
            found.score -= 4
            found.evidence.append(f"but in {name}()")
        if any(
            fact.start < self.source.start(loop) < fact.end for fact in self.facts.of("no-grad")
        ):
            found.score -= 4
            found.evidence.append("but without gradients")
        return found

    def _weigh_work(self, found: Candidate) -> None:
        for kinds, words, points in (
            (("backward", "backward-and-step"), "runs backward", 2),
            (("optimizer-step", "backward-and-step"), "steps the optimizer", 2),
            (("step-call",), "calls a training step", 1),
        ):
            facts = [
                fact
                for region in self.regions(found.loop)
                for fact in self.facts.within(*region, *kinds)
            ]
            if facts:
                found.score += points
                lines = sorted({self.source.line_of(fact.start) for fact in facts})
                found.evidence.append(f"{words} (line {', '.join(map(str, lines[:3]))})")

    def _weigh_data(self, found: Candidate) -> None:
        loop = found.loop
        head = loop.test if isinstance(loop, ast.While) else loop.iter
        if _WARMS_UP.search(self.source.code(head)):  # compiles, before the loop that trains
            found.score -= 2
            found.evidence.append("but warms up")
        if not found.fetched_inside:
            core = self.source.code(self.core(loop.iter, loop))  # type: ignore[union-attr]
            if _NOT_TRAINING.search(core):
                found.score -= 4
                found.evidence.append("but over evaluation data")
            elif _LOADER.search(core):
                found.score += 2
                found.evidence.append(f"over {' '.join(core.split())[:40]}")
        elif self._fetches_inside(loop):
            found.score += 2
            found.evidence.append("draws batches in its body")

    def regions(self, loop: Loop) -> list[tuple[int, int]]:
        """Extents of the code that runs in a pass of the loop: its body, the functions it calls."""
        extents = [self.syntax.body_extent(loop)]
        functions = list(self.step_functions)
        for start, end in extents:  # grows while it is gone through
            for function in list(functions):
                for call in self.calls_of(function):
                    if start <= self.source.start(call) and self.source.end(call) <= end:
                        extents.append(self.syntax.body_extent(function))
                        functions.remove(function)
                        break
        return list(dict.fromkeys(extents))

    def is_evaluation(self, fact: Fact, extent: tuple[int, int], loop: Loop) -> bool:
        """Whether a fact inside `extent` belongs to an evaluation there, not to the step.

        That is: it lies without gradients, or in a loop over other data than that of `loop`.
        """
        for block in self.facts.within(*extent, "no-grad"):
            if block.start <= fact.start and fact.end <= block.end:
                return True
        for inner in self.syntax.loops_around(self.node(fact)):
            if inner is loop:
                break
            inside = self.syntax.body_extent(inner)
            if extent[0] <= inside[0] and self._iterates_data(inner):
                works = any(self.facts.within(*inside, *WORK))
                if not works and not self.moves_only(inner):
                    return True
        return False

    def is_for_evaluation(self, fact: Fact) -> bool:
        """Whether a fetch is one of evaluation data, by its name: `next(val_iterator)`."""
        return fact.kind in FETCH and bool(_NOT_TRAINING.search(fact.code))

    def is_over_evaluation_data(self, loop: Loop) -> bool:
        """Whether a loop goes through data to evaluate, by its name; not through metrics."""
        if not self._iterates_data(loop):
            return False
        core = self.source.code(self.core(loop.iter, loop))  # type: ignore[union-attr]
        is_mapping = re.search(r"\.(items|keys|values)\(\)$", core)
        return bool(_NOT_TRAINING.search(core)) and not is_mapping

    def evaluates(self, loop: Loop) -> bool:
        """A loop over a loader or other data, by its name, that does no work of a step."""
        if not self._iterates_data(loop) or any(
            self.facts.within(*self.syntax.body_extent(loop), *WORK)
        ):
            return False
        core = self.source.code(self.core(loop.iter, loop))  # type: ignore[union-attr]
        return bool(_NOT_TRAINING.search(core) or re.search(r"(?i)load|data", core))

    def moves_only(self, loop: Loop) -> bool:
        """A loop that only moves things: `for k in batch: batch[k] = batch[k].to(device)`."""
        return isinstance(loop, ast.For) and self._copies_only(loop.body)

    def _copies_only(self, statements: list[ast.stmt]) -> bool:
        for statement in statements:
            start, end = self.source.start(statement), self.source.end(statement)
            if isinstance(statement, ast.If):
                if not self._copies_only([*statement.body, *statement.orelse]):
                    return False
            elif not isinstance(statement, ast.Assign | ast.Expr) or not any(
                start <= copy.start < end for copy in self.facts.of("copy")
            ):
                return False
        return True


def choose(finder: Finder, line: int | None) -> Candidate:
    """The training loop: the one at `line`, or the only best candidate; raises UserError."""
    path = finder.source.path
    if line is not None:
        at_line = [loop for loop in finder.syntax.loops() if loop.lineno == line]
        if not at_line:
            known = ", ".join(str(loop.lineno) for loop in finder.loops) or "none"
            raise UserError(f"{path}: no loop begins at line {line}; loops begin at lines: {known}")
        return finder.candidate(at_line[0])
    candidates = finder.candidates()
    if not candidates or candidates[0].score < ENOUGH:
        raise UserError(_nothing_found(finder, candidates))
    best = [found for found in candidates if found.score == candidates[0].score]
    if len(best) > 1:
        listed = "; ".join(describe(finder.source, found) for found in best)
        raise UserError(
            f"{path}: {len(best)} loops may be the training loop, pick one with --loop"
            f" LINE: {listed}"
        )
    return best[0]


def describe(source: Source, found: Candidate) -> str:
    """One line: where the loop is, what it goes through, why it may be the training loop."""
    head = " ".join(source.text[source.start(found.loop) :].split("\n", 1)[0].split())
    return f"line {found.loop.lineno} '{head[:70]}' ({', '.join(found.evidence) or 'no evidence'})"


def _nothing_found(finder: Finder, weak: list[Candidate]) -> str:
    path, facts = finder.source.path, finder.facts
    text = finder.source.text
    for kind, scenario, owner, imported in (
        ("lightning", "lightning-callback", "Lightning's Trainer", r"lightning"),
        ("hf-trainer", "hf-callback", "the Hugging Face Trainer", r"transformers|\btrl\b"),
    ):
        if facts.of(kind) and re.search(rf"(?m)^\s*(import|from)\b.*({imported})", text):
            return (
                f"{path}: the training loop is inside {owner}; use 'render-timing {scenario} -o"
                " timing_callback.py' and pass its callback to the trainer"
            )
    loops = "; ".join(describe(finder.source, found) for found in weak[:3])
    loops = loops or ", ".join(str(loop.lineno) for loop in finder.loops[:12]) or "none"
    return (
        f"{path}: no training loop found; looked for a for or while loop with .backward(),"
        f" optimizer.step() or a call such as train_step(); loops at lines: {loops};"
        " name one with --loop LINE"
    )

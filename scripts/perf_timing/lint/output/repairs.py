"""Changes that mend what a rule of the engine reports: what `--fix` and `--unsafe-fixes` apply.

Each function gives replacements of characters of the file, or none where the code is not of a shape
whose change is certain. lint/output/fix.py then keeps only what checks better than before.
"""

import re

from perf_timing.lint.code.scopes import (
    Scope,
    call_args,
    callee_text,
    imported,
    keyword,
    operator,
    positional,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.model import Fix

_COMPOUND = frozenset(
    ("if", "elif", "else", "for", "while", "with", "try", "except", "finally", "match", "switch")
)
_OTHER_DEVICES = re.compile(r"[\"'](mps|xpu|hpu|npu)\b|torch\.(mps|xpu|hpu|npu|accelerator)\b")
_CUDA_RUNTIME = re.compile(r"\bcuda[A-Z]\w+\s*\(|cuda_runtime|<<<")
_HIP_RUNTIME = re.compile(r"\bhip[A-Z]\w+\s*\(|hip/hip_runtime")
_REPLACED = frozenset(
    ("time.time", "time.process_time", "time.thread_time", "time.clock", "time.process_time_ns")
)
_OWNERS = ("function", "lambda", "class")


def wait_before(source: SourceFile, region: Region, reading: Node) -> tuple[Fix, ...]:
    """A wait for the device on a line of its own above the statement that reads the clock.

    Not safe: it takes time where the file runs without a device, and makes a product slower.
    """
    wait = _wait(source)
    statement = source.statement(reading)
    if not wait or region.kind != "clock" or region.timer is not None or region.hooked:
        return ()
    parent = statement.parent
    if statement.kind in _COMPOUND or parent is None or parent.kind not in ("block", "module"):
        return ()
    start = source.tree.text.rfind("\n", 0, statement.start) + 1
    indent = source.tree.text[start : statement.start]
    if indent.strip():
        return ()
    return (Fix(start, start, f"{indent}{wait}\n", safe=False),)


def _wait(source: SourceFile) -> str:
    """The statement that waits for the one kind of device that the file is about, or ""."""
    text = source.tree.text
    if source.language == "cuda":
        cuda, hip = _CUDA_RUNTIME.search(text), _HIP_RUNTIME.search(text)
        if hip:
            return "" if cuda and "<<<" not in cuda[0] else "hipDeviceSynchronize();"
        return "cudaDeviceSynchronize();" if cuda else ""
    imported = any(
        node.parent is source.tree.root and re.search(r"\bimport\s+torch\b", node.text)
        for node in source.tree.of_kind("import")
    )
    names = [name for name, full in source.scopes.imports.items() if full == "torch"]
    if not imported or not names or "cuda" not in text or _OTHER_DEVICES.search(text):
        return ""
    return f"{names[0]}.cuda.synchronize()"


def with_timing(call: Node) -> tuple[Fix, ...]:
    """The event of `call` made with timing. Safe: without it, reading its time raises."""
    if call.kind != "call":
        return ()
    if call.tree.language == "cuda":
        found = re.search(r"\b((?:cuda|hip)Event)DisableTiming\b", call.text)
        if found is None:
            return ()
        start = call.start + found.start()
        return (Fix(start, call.start + found.end(), f"{found[1]}Default"),)
    for name, wrong, right in (
        ("enable_timing", "False", "True"),
        ("disable_timing", "True", "False"),
        ("timing", "False", "True"),  # of Numba
    ):
        given = keyword(call, name)
        if given is not None:
            same = given.text == wrong
            return (Fix(given.start, given.end, right),) if same else ()
    return _with_argument(call)


def _with_argument(call: Node) -> tuple[Fix, ...]:
    """`enable_timing=True` as the last argument of torch.cuda.Event()."""
    arguments = call_args(call)
    if arguments is None or not re.search(r"(^|\.)Event$", callee_text(call)):
        return ()
    first = positional(call)[:1]
    if first:  # Event(False): the first argument is enable_timing
        return (Fix(first[0].start, first[0].end, "True"),) if first[0].text == "False" else ()
    inside = call.tree.text[arguments.start + 1 : arguments.end - 1]
    if "#" in inside or "*" in inside:
        return ()
    end = arguments.start + 1 + len(inside.rstrip())
    comma = "" if not inside.strip() else " " if inside.rstrip().endswith(",") else ", "
    return (Fix(end, end, f"{comma}enable_timing=True"),)


def wall_clock(source: SourceFile, region: Region) -> tuple[Fix, ...]:
    """time.perf_counter() in place of another clock, at all readings that meet in a difference.

    Safe where the differences are all that becomes of them: no reading is printed, kept or passed
    on, and no difference is left with two clocks.
    """
    clock = callee_text(region.end)
    resolved = source.scopes.resolve(clock)
    if source.language != "python" or resolved not in _REPLACED:
        return ()
    if region.timer is not None or region.hooked:
        return ()
    readings = _Readings(source, region.scope, clock).meeting(region.start, region.end)
    new = _perf_counter(source, readings[0], clock, resolved) if readings else ""
    if not new or not all(r.text.startswith(clock) for r in readings):
        return ()
    return tuple(Fix(r.start, r.start + len(clock), new) for r in readings)


def _perf_counter(source: SourceFile, first: Node, clock: str, resolved: str) -> str:
    """What the file calls time.perf_counter (or its _ns) from the reading `first` on, or ""."""
    full = f"time.perf_counter{'_ns' if resolved.endswith('_ns') else ''}"
    module, dot, _ = clock.rpartition(".")
    if dot:
        known = source.scopes.imports.get(module) == "time"
        return f"{module}.{full.removeprefix('time.')}" if known else ""
    for node in source.tree.of_kind("import"):
        if node.parent is source.tree.root and node.end <= first.start:
            for name, target in imported(node.text):
                if not source.scopes.assignments(name) and target in ("time", full):
                    return name if target == full else f"{name}.{full.removeprefix('time.')}"
    return ""


class _Readings:
    """The readings of `clock` in `scope` that stand on the two sides of a minus."""

    def __init__(self, source: SourceFile, scope: Scope, clock: str) -> None:
        self.source = source
        self.scope = scope
        self.clock = clock

    def meeting(self, *first: Node) -> list[Node]:
        """`first` and all that meet them in differences; none where one has another use."""
        found: dict[int, Node] = {}
        todo = list(first)
        while todo:
            reading = todo.pop()
            if id(reading) in found:
                continue
            found[id(reading)] = reading
            others = self._others(reading)
            if others is None:
                return []
            todo += others
        return sorted(found.values(), key=lambda node: node.start)

    def _others(self, reading: Node) -> list[Node] | None:
        """What meets a reading; None where more than differences becomes of it."""
        if not self._is_reading(reading):
            return None
        target = _target(reading)
        if target is None:
            return self._opposite(reading)
        stored = self._stored(target.text)
        if stored is None:
            return None
        for use in self.scope.names.get(target.text, []):
            if not _is_assigned(use):
                opposite = self._opposite(use)
                if opposite is None:
                    return None
                stored = [*stored, *opposite]
        return stored

    def _is_reading(self, node: Node) -> bool:
        return (
            node.kind == "call"
            and callee_text(node) == self.clock
            and self.source.scopes.scope_of(node) is self.scope
            and next((n.kind for n in node.ancestors() if n.kind in _OWNERS), "") != "class"
        )

    def _opposite(self, operand: Node) -> list[Node] | None:
        """The readings on the other side of the minus beside `operand`."""
        difference = operand.parent
        if difference is None or difference.kind != "binary" or operator(difference) != "-":
            return None
        other = next((c for c in difference.children if c is not operand), None)
        if other is None or other.kind == "call":
            return None if other is None else [other]
        return self._stored(other.text) if other.kind == "name" else None

    def _stored(self, name: str) -> list[Node] | None:
        """The readings that the plain variable `name` holds; None where it may hold more."""
        scopes = self.source.scopes
        if "." in name or name in self.scope.parameters or self._is_shared(name):
            return None
        pairs = scopes.assignments(name, self.scope)
        plain = all(_target(value) is target for target, value in pairs)
        return [value for _, value in pairs] if pairs and plain else None

    def _is_shared(self, name: str) -> bool:
        """Whether a function inside of this scope may use its variable."""
        return any(
            name in other.names and name not in other.parameters and not _is_local(name, other)
            for other in self.source.scopes.all
            if other is not self.scope and self.scope in other.enclosing()
        )


def _target(reading: Node) -> Node | None:
    """The variable that a reading, and nothing else, is stored in."""
    parent = reading.parent
    if parent is None or parent.kind != "assign" or parent.children[-1] is not reading:
        return None
    if parent.parent is None or parent.parent.kind not in ("block", "module"):
        return None
    target = parent.children[0]
    return target if target.kind == "name" else None


def _is_local(name: str, scope: Scope) -> bool:
    uses = scope.names[name]
    declared = any(use.parent is not None and use.parent.kind == "global" for use in uses)
    return any(map(_is_assigned, uses)) and not declared


def _is_assigned(use: Node) -> bool:
    return use.parent is not None and use.parent.kind == "assign" and use.parent.children[0] is use

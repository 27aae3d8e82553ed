"""Changes that mend what a rule of the engine reports: what `--fix` and `--unsafe-fixes` apply.

Each function gives replacements of characters of the file, or none where the code is not of a shape
whose change is certain. lint/fix.py then keeps only what checks better than before.
"""

import re

from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.model import Fix
from perf_timing.lint.regions import Region
from perf_timing.lint.scopes import call_args, callee_text, keyword, positional

_COMPOUND = frozenset(
    ("if", "elif", "else", "for", "while", "with", "try", "except", "finally", "match", "switch")
)
_OTHER_DEVICES = re.compile(r"[\"'](mps|xpu|hpu|npu)\b|torch\.(mps|xpu|hpu|npu|accelerator)\b")
_CUDA_RUNTIME = re.compile(r"\bcuda[A-Z]\w+\s*\(|cuda_runtime|<<<")
_HIP_RUNTIME = re.compile(r"\bhip[A-Z]\w+\s*\(|hip/hip_runtime")
_CPU_CLOCKS = frozenset(
    ("time.process_time", "time.thread_time", "time.clock", "time.process_time_ns")
)


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
    """time.perf_counter() in place of a clock of CPU time, at every reading in the function.

    Safe where no reading leaves the function: two clocks never meet in one difference.
    """
    clock = callee_text(region.end)
    resolved = source.scopes.resolve(clock)
    if source.language != "python" or resolved not in _CPU_CLOCKS or "." not in clock:
        return ()
    if region.timer is not None or region.hooked:
        return ()
    calls = [n for n in region.scope.nodes if n.kind == "call" and callee_text(n) == clock]
    stored = {target.text for call in calls if (target := _target(call)) is not None}
    uses = [use for name in stored for use in source.uses(name, region.scope)]
    if region.start not in calls or not all(_subtracted(node) for node in [*calls, *uses]):
        return ()
    new = f"{clock.rpartition('.')[0]}.perf_counter{'_ns' if resolved.endswith('_ns') else ''}"
    return tuple(Fix(c.start, c.start + len(clock), new) for c in calls if c.text.startswith(clock))


def _target(reading: Node) -> Node | None:
    """The plain variable that a reading is stored in."""
    parent = reading.parent
    if parent is None or parent.kind != "assign" or parent.children[-1] is not reading:
        return None
    target = parent.children[0]
    return target if target.kind == "name" and "." not in target.text else None


def _subtracted(node: Node) -> bool:
    """Whether a reading, or the variable with it, is only stored and subtracted."""
    parent = node.parent
    if parent is None:
        return False
    if parent.kind == "assign":
        return parent.children[0] is node or _target(node) is not None
    return parent.kind == "binary" and "-" in parent.tree.text[parent.start : parent.end]

"""What work a region runs on the device, and by which names the same work is known elsewhere.

`works` lists the steps that count as work. `identities` gives the names of one step: the kernel,
the function of the file, the model, the call whose result a backward pass goes back through. Two
pieces of code run the same work where they share one.
"""

import re
from collections.abc import Iterator, Sequence

from perf_timing.lint import roles as r
from perf_timing.lint.code import instances, variants
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    call_args,
    callee_text,
    last_segment,
    leaf_names,
    loops_around,
    positional,
    squeeze,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.work import kernel_choice


def works(region: Region) -> list[Step]:
    """The steps of a region that use the device: work, copies and callables passed in."""
    return [
        s
        for s in region.steps
        if s.works or s.roles & {r.BLOCKING, r.OPAQUE} or (r.COPY in s.roles and _moves_data(s))
    ]


def sites(region: Region) -> frozenset[int]:
    """What a region uses the device for, by which two clocks around the same work are known."""
    return frozenset(id(s.site) for s in works(region))


def _moves_data(step: Step) -> bool:
    """Whether a copy moves a tensor: moving a model to the device is set-up."""
    receiver = callee_text(step.node).rpartition(".")[0] if step.node.kind == "call" else ""
    return not words.MODEL.search(receiver)


def only_copies(region: Region) -> bool:
    return all(r.COPY in s.roles for s in works(region))


def copies_both_ways(region: Region) -> bool:
    """Whether C++ code copies its data in and its result out: it is measured end to end."""
    copies = [s.node.text for s in region.steps if {r.BLOCKING, r.COPY} <= s.roles]
    return any("HostToDevice" in text for text in copies) and any(
        "DeviceToHost" in text for text in copies
    )


@remembered
def makes_round_trip(source: SourceFile, region: Region) -> bool:
    """Whether Python takes the same data to the device in each iteration, and a result back.

    Nothing but the trip itself needs that, so it is measured end to end. A loop over batches takes
    others there each time.
    """
    back = [s for s in region.steps if s.roles >= {r.READ, r.COPY} and r.UPLOAD not in s.roles]
    return any(
        r.UPLOAD in step.roles
        and not step.helpers
        and (loops := region.inner_loops(step.site)[:1] or region.sample_loops[:1])
        and any(loops[0] in loops_around(s.site) and s.position > step.position for s in back)
        and {n.partition(".")[0] for n in leaf_names(step.site)}.isdisjoint(_bound_in(loops[0]))
        for step in region.steps
        if source.language == "python"
    )


def _bound_in(loop: Node) -> Iterator[str]:
    """The names that get their values in a loop."""
    targets = [node.children[0] for node in loop.walk() if node.kind in ("assign", "for")]
    for target in (*targets, *loop.children[:1]):
        yield from leaf_names(target)


def telling_identities(steps: list[Step]) -> set[str]:
    """The identities of some work. A copy or a fill tells nothing of other work beside it."""
    copied = [s for s in steps if r.COPY not in s.roles] or steps
    telling = [s for s in copied if not fills(s)] or copied
    return set().union(*(identities(s) for s in telling)) if telling else set()


def identities(step: Step) -> set[str]:
    """Names under which the same work can be recognised elsewhere."""
    chosen = variants.chosen(step)
    if chosen is None:
        return set()
    names = {*_instances(step), _model(step.node)}
    names |= set() if chosen else {*call_names(step.site), _model(step.site)}
    if is_backward(step.node) and (through := differentiated(step.node)):
        names = {f"backward of {callee}" for callee in through}
    if step.roles & {r.COPY, r.READ, r.UPLOAD} == {r.COPY, r.READ}:
        names = {f"{name} to the host" for name in names if name}
    for helper in (h for h in step.helpers if h.name):
        outer = helper is step.helpers[0]
        given = instances.arguments(step.site) if outer else []
        names |= {name + (chosen if outer else "") for name in function_names(helper, given)}
    return {name for name in names if name}


def function_names(function: Scope, given: Sequence[str] = ()) -> set[str]:
    """Under which names the work of a function of the file is known, with template arguments."""
    told = instances.names(function.short_name, given, function.node.tree)
    return {f"function {function.node.start}{name[len(function.short_name) :]}" for name in told}


def call_names(node: Node) -> set[str]:
    """Under which names a call or a launch is known, whatever it is that it calls."""
    return _in_tree(node, instances.arguments(_template_of(node)))


def _instances(step: Step) -> set[str]:
    """The names of what a step runs; in a template function, of its instance that is called."""
    given = instances.arguments(_template_of(step.node))
    if len(step.helpers) == 1 and given:
        given = instances.replaced(given, instances.bound(step.site, step.helpers[0]))
    return _in_tree(step.node, given)


def _in_tree(node: Node, given: Sequence[str]) -> set[str]:
    name = _identity(node)
    return instances.names(name, given, node.tree) if name else set()


def _template_of(node: Node) -> Node:
    """Where a step names its template: in a call of hipLaunchKernelGGL() that is an argument."""
    if node.kind == "call" and _LAUNCHES.search(last_segment(callee_text(node))):
        args = call_args(node)
        holders = args.walk() if args is not None else iter(())
        return next((n.parent for n in holders if n.kind == "targs" and n.parent), node)
    return node


_RUNS = re.compile(r"\.(generate|forward|predict|infer)$")


def _model(node: Node) -> str:
    """The model that a call runs, be it model(x), model.forward(x) or model.generate(x)."""
    callee = callee_text(node) if node.kind == "call" else ""
    if _LAUNCHES.search(callee):
        return ""
    name = _RUNS.sub("", callee)
    return f"model {name}" if words.MODEL.search(name) and name.isascii() else ""


def _identity(node: Node) -> str:
    if node.kind == "binary":
        return "matmul"
    if node.kind not in ("call", "launch"):
        return ""
    callee = re.sub(r"\[.*", "", callee_text(node))
    short = last_segment(callee)
    if _LAUNCHES.search(short) and (kernel := _launched(node)):
        return kernel
    if short in ("matmul", "mm", "bmm", "dot"):
        return "matmul"
    if node.kind == "launch":
        return re.sub(r"<.*", "", callee)
    if short in ("backward", "step", "item", "cpu", "to", "cuda"):
        return f".{short}"
    return callee + kernel_choice.chosen_by(node)


_LAUNCHES = re.compile(r"^(hip|cuda|cu)Launch(Cooperative)?Kernel(GGL|Ex|ExC)?$")


def _launched(call: Node) -> str:
    """The kernel that a call of hipLaunchKernelGGL() and its like launches, by its name."""
    given = positional(call)
    at = 1 if last_segment(callee_text(call)).endswith(("Ex", "ExC")) else 0
    text = squeeze(given[at].text) if at < len(given) else ""
    text = re.sub(r"\((const)?void\*+\)|reinterpret_cast<[^>]*>|HIP_KERNEL_NAME", "", text)
    return re.sub(r"<.*", "", text).strip("&()")


def is_backward(node: Node) -> bool:
    return node.kind == "call" and callee_text(node).endswith(".backward")


def differentiated(backward: Node) -> set[str]:
    """The calls whose result `x.backward()` goes back through, as the block around it shows them.

    What makes or moves data is none of them, nor is a sum or a cast.
    """
    found: set[str] = set()
    todo = [backward.children[0]]
    seen: set[int] = set()
    while todo and len(seen) < _MOST_PARTS:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for part in node.walk():
            if part.kind == "call" and (callee := callee_text(part)):
                short = last_segment(callee)
                found |= set() if _makes_data(short) or short == "backward" else {callee}
            elif part.kind == "name":
                value = _assigned_before(squeeze(part.text).partition(".")[0], backward)
                todo += [value] if value is not None else []
    return found


_MOST_PARTS = 30
_REDUCES = frozenset(
    ["sum", "mean", "view", "reshape", "contiguous", "flatten", "scale", "range", "len"]
)


def _makes_data(short: str) -> bool:
    names = (words.HOST_METHODS - {"apply"}) | words.CLONES | _REDUCES
    return short in names or words.FACTORY.match(short) is not None


def _assigned_before(name: str, place: Node) -> Node | None:
    """The value that the block around `place` gives a variable last before it."""
    block = next((p for p in place.ancestors() if p.kind in ("block", "module", "function")), None)
    if block is None:
        return None
    for statement in reversed([c for c in block.children if c.end <= place.start]):
        parts = statement.walk() if statement.kind == "with" else [statement]
        for part in parts:
            if part.kind == "assign" and any(
                n.kind == "name" and n.text == name for n in part.children[0].walk()
            ):
                return part.children[-1]
    return None


def handed_in(source: SourceFile, region: Region) -> Iterator[tuple[Node, list[Scope]]]:
    """Calls in the loops of a C++ region, with the functions that a helper is given to run."""
    for call in region.scope.nodes if source.language == "cuda" else ():
        if call.kind == "call" and region.holds(call) and region.inner_loops(call):
            yield call, source.flow.handed_in(call, region.scope)


_FILLS = re.compile(r"[mM]emset|\.(zero|fill)_$")


def fills(step: Step) -> bool:
    """Whether a step only gives memory a value."""
    return not step.helpers and bool(_FILLS.search(callee_text(step.node)))


def compiles(step: Step) -> bool:
    """Whether code is compiled right here; torch.compile and jax.jit only promise to."""
    lazy = r"(torch\.compile|jax\.jit|^jit)$"
    return r.COMPILE in step.roles and not re.search(lazy, callee_text(step.node))

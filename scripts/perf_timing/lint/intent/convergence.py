"""Loops that go on until the device says so: solvers, searches, the decoding of tokens.

The host must read a value in each iteration to know whether there is another one, so that a wait in
the loop belongs to what is measured and not to how it is measured. A loop that runs until a time
has passed is none of them: there the host asks its clock.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step, exclusive
from perf_timing.lint.code.scopes import (
    Scopes,
    base_name,
    callee_text,
    last_segment,
    loop_body,
    loop_header,
    loops_around,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.parsing.preprocessor import are_alternatives

# What a clock says, and what a call of the runtime returns: neither is a result of the work.
_CLOCK = re.compile(r"clock|chrono|time|elapsed|now\(|seconds?\b|milli|micro|nano", re.IGNORECASE)
_STATUS = re.compile(r"^\(*(cuda|hip|cu|nccl|cublas|cudnn|MPI_)\w*\(|[eE]rr(or)?\b|[sS]tatus")
# Calls of MPI that are given a buffer, and are no barrier and no query.
_EXCHANGE = re.compile(
    r"^P?MPI_(I?[SsBR]?[Ss]end|I?[Rr]ecv|Sendrecv|I?(All|all)\w+|I?[Bb]cast|I?[Rr]educe|I?[GgSs]\w*atter"
    r"|I?[Gg]ather|Start|Put|Get)\w*$"
)


def decides(read: Node, loop: Node) -> bool:
    """Whether the value of `read` decides if the loop goes on, as a token that may be the last."""
    names = {squeeze(p.children[0].text) for p in read.ancestors() if p.kind == "assign"}
    return any(
        condition.start <= read.start < condition.end or names & _names(condition)
        for condition in exits(loop)
    )


def feeds_next(read: Node, loop: Node, works: list[Step]) -> bool:
    """Whether what `read` brings is, through variables, an argument of the next iteration's work.

    logits = model(ids).cpu(); token = sample(logits); ids = cat([ids, token])
    """
    bound = [p for p in read.ancestors() if p.kind == "assign" and p.start > loop.start]
    known = {base_name(part) for p in bound for part in _targets(p.children[0])}
    body = [n for n in loop.walk() if n.kind == "assign" and n.start > read.start]
    for node in body if known else ():
        if known & _bases(node.children[-1]):
            known |= {base_name(part) for part in _targets(node.children[0])}
    earlier = [s.site for s in works if loop.start < s.site.start < read.end]
    # x = x.cpu() itself is what the next iteration overwrites, not what it needs.
    return any(known & _bases(site) - _made_before(site, loop) for site in earlier)


def _targets(target: Node) -> list[str]:
    parts = target.children if target.kind in ("tuple", "list") else [target]
    return [squeeze(part.text) for part in parts]


def _bases(node: Node) -> set[str]:
    return {base_name(n.text) for n in node.walk() if n.kind == "name"}


def _made_before(site: Node, loop: Node) -> set[str]:
    """Variables that the iteration itself has set, from nothing that it was handed, before."""
    made = [n for n in loop.walk() if n.kind == "assign" and n.end <= site.start]
    return {base_name(part) for n in made for part in _targets(n.children[0])}


def steered(loop: Node, steps: list[Step]) -> bool:
    """Whether what a C++ loop's host knows after a wait in it decides if the loop goes on."""
    waits = [s for s in steps if s.waits and loop.start < s.site.start < loop.end]
    known: set[str] = set().union(*(_told_after(wait, loop) for wait in waits))
    return any(known & _names(condition) for condition in exits(loop))


def exchanges(wait: Step, loop: Node, steps: list[Step]) -> bool:
    """Whether the next thing after a wait is to hand the result to other ranks by MPI."""
    later = [s.position for s in steps if s.works and s.position > wait.position]
    until = min(later, default=loop.end)
    return any(
        wait.site.end <= call.start < until and _EXCHANGE.match(last_segment(callee_text(call)))
        for call in loop.walk()
        if call.kind == "call"
    )


def runs_to_tolerance(region: Region) -> bool:
    """Whether all work of a C++ region is in a loop that ends when a result is small enough.

    That is the run time of a solver, of which the first of many iterations is a part.
    """
    waits = [s for s in region.steps if s.waits and s.node.kind == "call"]
    works = [s for s in region.steps if s.works]
    for wait in waits:
        for loop in region.inner_loops(wait.site):
            if all(loop.start <= s.site.start < loop.end for s in works) and _compares(wait, loop):
                return True
    return False


_MANY_STEPS = 1000


def trains_over_epochs(scopes: Scopes, region: Region) -> bool:
    """Whether a C++ region is a training run, or a stage of its steps: a loop counts epochs.

    That loop lies in the region, or around the call of the function, or of its callers.
    """
    inside = (n for n in region.scope.nodes if n.kind in ("for", "while") and region.holds(n))
    if any(_counts_epochs(loop) for loop in inside):
        return True
    scope, around = region.scope, loops_around(region.start)
    for _ in range(_MOST_CALLERS):
        if any(_counts_epochs(loop) for loop in around):
            return True
        sites = scopes.call_sites(scope)
        if not sites:
            return False
        scope, around = scopes.scope_of(sites[0]), loops_around(sites[0])
    return False


_MOST_CALLERS = 4


# int epoch = 0; i < num_epochs; not i < epoch, which is how often a benchmark repeats.
_EPOCHS = re.compile(
    r"\b\w*epoch\w*\s*(=(?!=)|\+\+)|\+\+\s*\w*epoch|<=?\s*\w*epochs\b", re.IGNORECASE
)


def _counts_epochs(loop: Node) -> bool:
    return bool(_EPOCHS.search(loop_header(loop)))


def takes_many_steps(region: Region) -> bool:
    """Whether a C++ region is a simulation: one loop of a thousand steps or more, of some kernels.

    What the first launch costs is lost in the run time of such a program.
    """
    works = [s for s in region.steps if s.works]
    loops = region.inner_loops(works[0].site)[-1:] if works else []
    launches = {s.node.children[0].text: s.node for s in works if s.node.kind == "launch"}
    return any(
        _count(loop) >= _MANY_STEPS
        and _in_turn([*launches.values()])
        and all(loop.start <= s.site.start < loop.end for s in works)
        for loop in loops
    )


def _in_turn(launches: list[Node]) -> bool:
    """Whether two launches follow each other, and are not one kernel or another of the same step.

    if (tiled) k1<<<...>>>(x); else k2<<<...>>>(x); or the branches of an #if.
    """
    return any(
        one.tree is not two.tree
        or not (exclusive(one, two) or are_alternatives(one.tree.text, one.start, two.start))
        for number, one in enumerate(launches)
        for two in launches[number + 1 :]
    )


def _count(loop: Node) -> int:
    """How often a loop runs, by the number or the constant that its header counts to; else 0."""
    header = loop_header(loop)
    limit = re.search(r"<=?\s*(\w+)\s*;", header)
    if loop.kind != "for" or limit is None:
        return 0
    name, constant = limit[1], r"\bconst(?:expr)?\s+(?:\w+\s+)+"
    given = rf"(?:#\s*define\s+{name}|{constant}{name}\s*=)\s*\(?(\d+)\b"
    stated = [name] if name.isdigit() else re.findall(given, loop.tree.text)
    return int(stated[0]) if len(stated) == 1 else 0


def _compares(wait: Step, loop: Node) -> bool:
    """Whether the loop goes on as long as a result of the work is above or below some number."""
    known = _told_after(wait, loop)
    texts = [n.text for condition in exits(loop) for n in _sides(condition) if known & _names(n)]
    flags = {t for t in texts if re.fullmatch(r"\(*!?\w+\)*", t)}
    for node in loop.walk():
        if node.kind == "assign" and {node.children[0].text} & {t.strip("()!") for t in flags}:
            texts.append(node.children[-1].text)
    # What is left to do, while (frontier_size > 0), is no result that becomes small.
    return any(re.search(r"(?<!-)>(?!=?\s*0\s*\)*$)|<", text) for text in texts)


def _sides(condition: Node) -> Iterator[Node]:
    """The parts that && and || join, down to the last."""
    inner = condition.children[0] if condition.kind == "condition" else condition
    if inner.kind == "binary" and re.search(r"&&|\|\|", _between(inner)):
        for child in inner.children:
            yield from _sides(child)
    else:
        yield inner


def _between(binary: Node) -> str:
    return binary.tree.text[binary.children[0].end : binary.children[-1].start]


def exits(loop: Node) -> Iterator[Node]:
    """The conditions of a loop: its own, and those of a branch that leaves it."""
    body = loop_body(loop)
    if loop.kind == "while":
        yield from (child for child in loop.children if child is not body)
    elif loop.kind == "for" and loop.tree.language == "cuda":
        yield from (c for c in loop.children if c.kind not in ("decl", "update") and c is not body)
    for node in loop.walk():
        if node.kind in ("if", "elif") and node.children:
            inside = node.child("block")
            if inside is None and loop.tree.language == "cuda" and len(node.children) > 1:
                inside = node.children[1]
            if inside is not None and _leaves(inside):
                yield node.children[0]


def _leaves(body: Node) -> bool:
    return any(
        (n.kind == "jump" and n.text.startswith("break")) or n.kind == "return"
        for n in (body, *body.children)
    )


def _names(node: Node) -> set[str]:
    return {base_name(n.text) if n.tree.language == "cuda" else n.text
            for n in node.walk() if n.kind == "name"}  # fmt: skip


def _told_after(wait: Step, loop: Node) -> set[str]:
    """Names whose value the host of a C++ loop gets by a wait, or computes after it."""
    body = loop_body(loop) or loop
    known = {name for call in body.walk() if call.kind == "call" for name in _copied_to(call)}
    for node in body.walk():
        if node.end <= wait.site.start and node.start < wait.site.start:
            continue
        result = node.kind == "assign" and len(node.children) > 1 and _is_result(node, wait)
        if result and not _worked_out_before(node, wait, body):
            known.add(base_name(node.children[0].text.lstrip("*(")))
        elif node.kind == "call" and node.start >= wait.site.end:
            filled = (a for a in positional(node) if a.tree.text[a.start - 1] == "&")
            if not _CLOCK.search(callee_text(node)):
                known |= {base_name(a.text) for a in filled}
    return {name for name in known if name and not _CLOCK.search(name)}


def _worked_out_before(assignment: Node, wait: Step, body: Node) -> bool:
    """Whether a value is made of what the host works out before a wait in the same iteration.

    blocks = (n + 255) / 256; pass<<<blocks, 256>>>(x, n); wait(); n = blocks. A flag that is set to
    a number there, and that the device reaches as well, is not worked out.
    """
    if any(n.kind in ("subscript", "call", "unary") for n in assignment.children[-1].walk()):
        return False
    before = (n for n in body.walk() if n.kind in ("assign", "declarator") and len(n.children) > 1)
    made = {
        base_name(n.children[0].text)
        for n in before
        if n.end <= wait.site.start and n.children[-1].kind in ("binary", "cond")
    }
    used = {base_name(name) for name in _names(assignment.children[-1])}
    return bool(used) and used <= made


def _copied_to(call: Node) -> set[str]:
    """Where a copy to the host puts what it copies."""
    vendor = words.CPP_VENDOR.sub("", last_segment(callee_text(call)))
    given = positional(call)
    if not vendor.startswith("Memcpy") or not given or "HostToDevice" in call.text:
        return set()
    return {base_name(given[0].text.lstrip("&*("))}


def _is_result(assignment: Node, wait: Step) -> bool:
    """Whether a value is computed after a wait, and is no counter, time or status."""
    target, value = assignment.children[0], assignment.children[-1]
    if value.start <= wait.site.start < value.end and not wait.helpers:
        return False
    if value.kind == "number" or _CLOCK.search(value.text) or _STATUS.search(value.text):
        return False
    return bool(_names(value) - {base_name(target.text)})

"""What the loops inside a measured region of C++ code do: repeat the work, or do it once in parts.

A loop that counts to 1 runs once. One that steps through the data by pieces, that gives each
stream, device or member of an array its part, or whose counter the kernel and its grid are made of
(the diagonals of a wavefront, the columns of an elimination) does one piece of work after another:
its time is that of one execution, unless it is divided by how often the loop runs. So does one that
makes the passes of an algorithm (passes.py).
"""

import re

from perf_timing.lint.code.scopes import (
    argument,
    callee_text,
    is_dropped,
    last_segment,
    loop_body,
    loop_header,
    squeeze,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import passes
from perf_timing.lint.measured.regions import Region

_ONE = r"1[uUlL]*"
_CAST = r"(\(\w+\)\s*|static_cast\s*<[^<>]*>\s*|(float|double)\s*)"


def runs_once(source: SourceFile, loop: Node) -> bool:
    """Whether a loop of C++ counts from 0 to a number that the file sets to 1 and never changes."""
    header = loop_header(loop)
    ends = re.search(r"\w+\s*=\s*0\w*\s*;\s*\w+\s*<\s*(\w+)\s*;\s*(\+\+\w+|\w+\+\+)", header)
    if source.language != "cuda" or ends is None:
        return False
    if re.fullmatch(_ONE, ends[1]):
        return True
    scope = source.scopes.scope_of(loop)
    values = [squeeze(value.text) for _, value in source.scopes.assignments(ends[1], scope)]
    text = source.tree.text
    changed = re.search(
        rf"&\s*{ends[1]}\b|\b{ends[1]}\s*([-+*/%]|<<)?=(?!=)\s*(?!\s*{_ONE}\s*[;,])", text
    )
    defined = re.findall(rf"#[ \t]*define[ \t]+{ends[1]}[ \t]+\(?(\w+)", text)
    return (
        bool(values or defined)
        and not changed
        and all(re.fullmatch(_ONE, value) for value in [*values, *defined])
    )


def asked_once(source: SourceFile, loop: Node) -> bool:
    """Whether each call that keeps what a function of Python measures has one iteration of a loop.

    def latency(model, iterations=10): ...; mean = latency(model, 1)
    """
    if source.language != "python" or loop.kind != "for" or len(loop.children) < 2:
        return False
    counted = re.fullmatch(r"range\((\w+)\)", squeeze(loop.children[1].text))
    function = source.scopes.scope_of(loop)
    if not counted or counted[1] not in function.parameters:
        return False
    at = function.parameters.index(counted[1])
    kept = [site for site in source.scopes.call_sites(function) if not is_dropped(site)]
    given = [argument(site, at, counted[1]) for site in kept]
    return bool(given) and all(value is not None and value.text == "1" for value in given)


def is_one_execution(source: SourceFile, region: Region, loop: Node, work: Node) -> bool:
    """Whether a loop does all of the work once: it counts to 1, or goes through parts or passes."""
    return (
        runs_once(source, loop)
        or goes_through_parts(source, region, loop, work)
        or passes.goes_by_leaps(loop)
        or (
            (passes.tells_which(loop) or passes.works_on_piece(loop, work))
            and not is_divided(source, region, loop)
        )
    )


def repeats_itself(source: SourceFile, launch: Node) -> bool:
    """Whether a launch is of a kernel of the file that repeats its work: for (...; i < iters; ...).

    How long the launch takes is then a small part of the time of one execution.
    """
    if launch.kind != "launch":
        return False
    name = re.sub(r"\s*<.*", "", launch.children[0].text, flags=re.DOTALL)
    kernels = [k for k in source.scopes.functions.get(last_segment(name), []) if k.is_kernel]
    return bool(kernels) and all(
        any(n.kind == "for" and _COUNTS_REPEATS.search(loop_header(n)) for n in kernel.nodes)
        for kernel in kernels
    )


# The name with which the counter of a loop is compared.
_COUNTS_REPEATS = re.compile(
    r"<=?\s*(?:\w+(?:_|(?=[IRL])))?"
    r"(?i:iter(?:ation)?s?|rep(?:eat|etition)?s?|loops?|n_?iter(?:ation)?s?|n_?reps?|n_?loops?)"
    r"(?:_?count)?\s*(?:;|\))"
)


def goes_through_parts(source: SourceFile, region: Region, loop: Node, work: Node) -> bool:
    """Whether each iteration does another part of the work, and the time is that of all parts."""
    header, body = loop_header(loop), loop_body(loop)
    counted = re.match(r"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=[^;]*;([^;]*);", header)
    if work.tree.language != "cuda" or body is None or counted is None:
        return False
    counter = counted[1]
    if _serves_each(counter, body, work):
        return True
    if _follows(work, counter) and not _divided(source, region, header, counter):
        return True
    given = _of_member(work, counter) or (work.kind == "launch" and _shapes(body, work, counter))
    return given and not _divided(source, region, header, counter)


def _serves_each(counter: str, body: Node, work: Node) -> bool:
    """Whether a loop runs over streams, on each of which it queues work, or over devices."""
    of_each = rf"\w*(stream|queue)\w*\[\s*{counter}\s*\]\s*(\.\w+\s*)?(>>>|\))"
    return bool(
        re.search(of_each, work.text, re.IGNORECASE)
        or re.search(rf"SetDevice\(\s*{counter}\s*\)", body.text)
    )


def _follows(work: Node, counter: str) -> bool:
    """Whether the work takes what the iteration before has made: layer(x[i - 1], x[i])."""
    text = squeeze(work.text)
    made = set(re.findall(rf"(\w+)\[{counter}\]", text))
    before = set(re.findall(rf"(\w+)\[{counter}-1\]", text))
    after = set(re.findall(rf"(\w+)\[{counter}\+1\]", text))
    return bool(made & (before | after))


def _of_member(work: Node, counter: str) -> bool:
    """Whether the work is a method of the member of an array that the counter chooses."""
    return work.kind == "call" and bool(
        re.match(rf"\w+\[{counter}\](\.|->)\w+$", squeeze(callee_text(work)))
    )


def _shapes(body: Node, launch: Node, counter: str) -> bool:
    """Whether a kernel is given the counter as it is, and a grid that is computed from it."""
    configured = [c for c in launch.children if c.kind == "targs"]
    if not configured:
        return False
    names = set(re.findall(r"\w+", configured[-1].text))
    if counter not in {squeeze(c.text) for c in launch.children if c.start > configured[-1].end}:
        return False
    known = {counter}
    for node in body.walk():
        if node.kind == "assign" and node.end <= launch.start:
            value = set(re.findall(r"\w+", node.children[-1].text))
            if value & known:
                known.add(re.split(r"\W", squeeze(node.children[0].text))[0])
    return bool(names & known)


def is_divided(source: SourceFile, region: Region, loop: Node) -> bool:
    """Whether a loop of C++ repeats: the time behind the region is divided by what it counts to."""
    header = loop_header(loop)
    counted = re.match(r"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=", header)
    return counted is not None and _divided(source, region, header, counted[1])


def _divided(source: SourceFile, region: Region, header: str, counter: str) -> bool:
    """Whether something behind the region is divided by a number that the loop's header names."""
    limits = set(re.findall(r"[A-Za-z_]\w*|\d{2,}", header.partition("(")[2])) - {counter}
    after = source.tree.text[region.end.end : region.scope.node.end]
    return any(re.search(rf"/\s*{_CAST}?\(?\s*{re.escape(name)}\b", after) for name in limits)

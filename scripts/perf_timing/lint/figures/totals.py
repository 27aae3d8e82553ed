"""What is told of a sum of measured samples: its quotient with their number, either way up.

`told_of_total(...)` finds total / count and count / total behind the loop that adds the samples up,
or in that loop where it is the last thing told. Work that is added up beside the time is no count:
work / time of all samples is a rate of totals. A sum by another number is no mean.
"""

import re
from collections.abc import Sequence

from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    last_segment,
    loop_body,
    loop_header,
    loops_around,
    operator,
    squeeze,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import reductions, series
from perf_timing.lint.figures.quotients import factors, integer, is_product, named, whole_product

# Over another time, a sum of times is a ratio of two totals.
_TIME = re.compile(
    r"(?<!num_)(?<!n_)(time|elapsed|duration|seconds|sec)$"
    r"|(^|_)(time|elapsed|duration)_(?!steps?|iter|runs?|n$|num|count|points?|slices?|series)\w+$",
    re.IGNORECASE,
)
_BATCH = re.compile(r"(^|[._])(batch_?size|bs|bsz|batch)$|batch_size\b", re.IGNORECASE)
_SCALE = re.compile(r"(1000|1000000|60|3600)(\.0?)?[fF]?|1(\.0*)?[eE][-+]?\d+[fF]?|0?\.0*1[fF]?")


def told_of_total(
    source: SourceFile, loops: Sequence[Node], after: int, name: str, scope: Scope
) -> Node | None:
    """The quotient that tells the mean of the samples that `name` adds up in `loops`."""
    for node in scope.nodes:
        behind = node.start >= after
        if node.kind == "binary":
            if not (behind or is_last_told(node, loops)):
                continue
            if divides(source, node, name, scope, loops) or inverts(
                source, node, name, scope, loops
            ):
                return node
        elif (
            node.kind in ("assign", "augassign") and behind and operator(node).startswith("/=")
        ) and is_named(node.children[0], name):
            return node
    return None


def is_named(node: Node, name: str) -> bool:
    """Whether an expression is the sum `name`, perhaps under another variable for its key."""
    text = squeeze(node.text).removesuffix(".count()").removesuffix(".total_seconds()")
    return text == name or (
        "[" in name and re.fullmatch(series.named(name).pattern, text) is not None
    )


def divides(source: SourceFile, node: Node, name: str, scope: Scope, loops: Sequence[Node]) -> bool:
    """Whether a chain of factors is the sum, perhaps in another unit, over a number of samples."""
    if is_product(node.parent):
        return False  # a part of a longer chain
    above, below = factors(node)
    sums = [n for n in above if is_named(n, name)]
    counts = [n for n in below if not is_scale(n)]
    if len(counts) > 1:  # of samples that are batches
        counts = [n for n in counts if not _BATCH.search(squeeze(n.text))]
    if len(counts) > 1 and loops:  # or hold several layers: (trials * layers)
        counts = [n for n in counts if squeeze(n.text) in repeated_by(loops[0])] or counts
    return (
        len(sums) == 1
        and all(n is sums[0] or is_scale(n) for n in above)
        and len(counts) == 1
        and counts[0].kind != "string"
        and integer(source, counts[0], scope) != 1  # constexpr int runs = 1
        and not _TIME.search(squeeze(counts[0].text))
    )


def inverts(source: SourceFile, node: Node, name: str, scope: Scope, loops: Sequence[Node]) -> bool:
    """Whether a chain of factors is a number of samples over their sum: frames per second."""
    if not loops or is_product(node.parent) or not is_product(node):
        return False
    above, below = factors(node)
    sums = [n for n in below if is_named(n, name)]
    rest = [n for n in above if not is_scale(n)]
    if len(sums) != 1 or not all(n is sums[0] or is_scale(n) for n in below) or not rest:
        return False
    names = named(source, rest, scope)
    if any(_TIME.search(n) for n in names):
        return False
    return bool(names & repeated_by(loops[0])) and not names & _worked(source, loops[0])


def repeated_by(loop: Node) -> set[str]:
    """Names that say how often a loop runs: those of its header, and what it counts up by one."""
    body = loop_body(loop)
    header = [c for c in loop.children if c is not body]
    found = {squeeze(n.text) for part in header for n in part.walk() if n.kind == "name"}
    return (found - {"range", "enumerate", "tqdm", "len", "zip", "trange"}) | {
        squeeze(n.children[0].text) for n in _additions(loop) if _is_one(n.children[-1])
    }


def _worked(source: SourceFile, loop: Node) -> set[str]:
    """Names under which a loop adds up the work of its samples."""
    return {squeeze(n.children[0].text) for n in _additions(loop) if not _is_one(n.children[-1])}


def _additions(loop: Node) -> list[Node]:
    return [
        n
        for n in loop.walk()
        if n.kind in ("augassign", "assign") and len(n.children) > 1 and operator(n)[:2] == "+="
    ]


def _is_one(node: Node) -> bool:
    return node.text.strip() == "1"


def is_last_told(node: Node, loops: Sequence[Node]) -> bool:
    """Whether a place in the loop that takes the samples is reached once, in its last iteration.

    That is a branch that leaves the loop, or asks whether the counter has reached the number.
    """
    loop = loops[0] if loops else None
    if loop is None or not loop.start <= node.start < loop.end:
        return False
    for parent in node.ancestors():
        if parent is loop:
            return False
        if parent.kind == "if" and len(parent.children) > 1 and node is not parent.children[0]:
            branch = parent.children[1]
            inside = branch.start <= node.start < branch.end
            if inside and (_leaves(branch, loop) or _is_end(parent.children[0], loop)):
                return True
    return False


def _leaves(branch: Node, loop: Node) -> bool:
    return any(
        (n.kind == "return" or n.text.startswith("break"))
        and next(iter(loops_around(n)), None) is loop
        for n in branch.children
    )


def _is_end(test: Node, loop: Node) -> bool:
    """i + 1 == len(loader), where the loop goes over the loader; i == n - 1 of range(n)."""
    asked = re.fullmatch(r"\(*(\w+)[+\d()]*==(.+)", squeeze(test.text))
    if asked is None:
        return False
    header = loop_header(loop)
    bound = re.findall(r"[A-Za-z_]\w*", asked[2])
    counter = re.search(rf"\b{asked[1]}\b", header) is not None
    return counter and any(b != "len" and re.search(rf"\b{b}\b", header) for b in bound)


def is_scale(node: Node) -> bool:
    """Whether a factor converts a unit."""
    return bool(_SCALE.fullmatch(node.text))


def is_mean(node: Node, listed: Sequence[series.Name] = ()) -> bool:
    """sum() counts where it is divided, or divides the number; mean() and its like always."""
    if last_segment(callee_text(node)) not in ("sum", "accumulate", "reduce"):
        return True
    if any(
        "/" in p.text[node.end - p.start :] and not is_scale(p.children[-1])
        for p in node.ancestors()
        if p.kind == "binary"
    ):
        return True
    above, below = factors(whole_product(node))
    counted = [rf"len\({name.pattern}\)" for name in listed]
    return any(n is node for n in below) and any(
        re.search(count, squeeze(n.text)) for n in above for count in counted
    )


def is_mean_call(node: Node) -> bool:
    """Whether a node is a call that takes a mean, or a sum that is divided."""
    return node.kind == "call" and bool(reductions.MEAN.search(callee_text(node))) and is_mean(node)

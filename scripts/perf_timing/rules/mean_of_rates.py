"""Rates are averaged instead of dividing all work by all time.

## What it does
Reports the mean of rates: of a list whose elements are work divided by a measured time, of such
rates that are added up, or of an array of work over an array of times. Rates of equal work count
where the code is there to measure.

## Why it misleads
The mean of rates gives every sample the same weight, however long it took. Short samples, which run
at other rates than long ones, count too much; the result is always at least the true throughput.
Twice 100 tokens, once in 1 s and once in 4 s, are 40 tokens/s; the mean of the rates is 62.5.

## Known problems
Rates are followed to the caller of the function that works them out, no further. With equal work in
every sample the error is small: the mean of the rates is above the true rate by about the square of
the relative spread of the times. One rate of each size or variant is no sample.

## Example
```python
import time
import torch

rates = []
for batch in batches:
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(batch)
    torch.cuda.synchronize()
    rates.append(batch.numel() / (time.perf_counter() - start))
print(sum(rates) / len(rates))
```

## Use instead
```python
import time
import torch

for batch in batches[:10]:
    model(batch)
tokens = 0
torch.cuda.synchronize()
start = time.perf_counter()
for batch in batches[10:]:
    model(batch)
    tokens += batch.numel()
torch.cuda.synchronize()
print(tokens / (time.perf_counter() - start))
```
"""

import re
from collections.abc import Iterator, Sequence

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    last_segment,
    loops_around,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, reductions, series
from perf_timing.lint.figures.quotients import Quotient, factors, is_product, quotients
from perf_timing.lint.figures.totals import is_scale, told_of_total
from perf_timing.lint.intent import purpose, sweeps
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work import workload

CODE = "TIM504"
LABEL = "RATE-MEAN"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python", "cuda")
MESSAGE = "the rates of line {line} are averaged; slow samples then weigh as little as fast ones"
NOTE = "Add up the work and the time, and divide once."

_MEANS = re.compile(r"^(mean|fmean|average|nanmean)$")


def check(source: SourceFile) -> Iterator[Report]:
    """Means of lists and sums of rates, where one function takes them or its caller does."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind not in ("clock", "event"):
            continue
        for rate, mean in [*_of_quotients(source, region), *_of_arrays(source, region)]:
            if id(mean) not in seen:
                seen.add(id(mean))
                yield Report(mean, MESSAGE.format(line=rate.line), related=((rate, "one rate"),))


def _of_quotients(source: SourceFile, region: Region) -> Iterator[tuple[Node, Node]]:
    """Means of rates that are worked out one by one: (the rate, the mean)."""
    scope = source.scopes.scope_of(region.delta)
    for quotient in quotients(source, region):
        if not quotient.rate:
            continue
        varies = _work_varies(source, quotient) and not training_loops.of_epochs(region)
        if not (varies or _is_measured(source, region)):
            continue
        for kept in (_collected(source, quotient.node, scope), _returned(source, quotient, scope)):
            for name, mean in kept:
                if varies or _counts(source, name, mean):
                    yield quotient.node, mean


def _counts(source: SourceFile, name: str, mean: Node) -> bool:
    """Whether the mean of rates of equal work stands for them.

    It does not beside their median, largest or harmonic mean. Where it alone is told of a list that
    no name calls rates, mean-only-report says what is to be said.
    """
    scope = source.scopes.scope_of(mean)
    done = series.applied(source, name, scope)
    if "harmonic" in scope.node.text or any(
        reductions.ROBUST.search(a) or a in ("max", "amax", "nanmax") for a in done
    ):
        return False
    listed = mean.kind == "call" or "sum(" in mean.text
    return not listed or bool(done - series.NEUTRAL) or bool(words.RATES.search(name))


def _is_measured(source: SourceFile, region: Region) -> bool:
    """Whether rates of equal work count: where the code is there to measure, no log of a training.

    Nor is one rate of each size or variant a sample.
    """
    if not workload.works(region) or any(map(sweeps.is_sweep, region.sample_loops[:1])):
        return False
    if training_loops.is_training(region):
        return purpose.is_named_so(source, region.delta)
    return purpose.is_measuring(source, region.delta)


def _collected(source: SourceFile, rate: Node, scope: Scope) -> Iterator[tuple[str, Node]]:
    """Means of the list that a rate is appended to in a loop, or of the sum that it is added to."""
    kept, where = _kept_under(source, rate, scope)
    loops = loops_around(where) if where is not None else []
    if where is None or not kept or not loops:
        return
    if where.kind == "call":
        for name in series.names_of(source, kept, scope):
            yield from ((kept, mean) for mean in _means(scope, name))
        return
    total = told_of_total(source, (), loops[0].end, kept, scope)
    if total is not None:
        yield kept, total


def _kept_under(source: SourceFile, rate: Node, scope: Scope) -> tuple[str, Node | None]:
    """The list that a rate is appended to, or the sum that it is added to, and the statement."""
    node: Node = rate
    for _ in range(3):
        parent = node.parent
        while parent is not None and _passes(parent):
            parent = parent.parent
        if parent is None:
            return "", None
        if parent.kind == "call" and last_segment(callee_text(parent)) in ("append", "push_back"):
            return callee_text(parent).rpartition(".")[0], parent
        if parent.kind in ("augassign", "assign") and operator(parent)[:2] == "+=":
            return target_key(parent.children[0]), parent
        if parent.kind != "assign" or parent.children[0].kind != "name":
            return "", None
        name = parent.children[0].text
        uses = [u for u in source.uses(name, scope) if u.start > parent.end and not _is_shown(u)]
        if not uses:
            return "", None
        node = uses[0]
    return "", None


def _passes(node: Node) -> bool:
    """Whether a value goes through: an argument, a cast, a rounding, a change of unit."""
    if node.kind == "call":
        return last_segment(callee_text(node)) in ("round", "float", "int", "item")
    scaled = node.kind == "binary" and is_product(node) and any(map(is_scale, node.children))
    return scaled or node.kind in ("args", "cast")


def _is_shown(use: Node) -> bool:
    """Whether a value is printed there."""
    calls = (p for p in use.ancestors() if p.kind in ("call", "binary"))
    return any(
        words.OUTPUT.match(last_segment(callee_text(p)))
        if p.kind == "call"
        else p.text.startswith(("std::cout", "cout"))
        for p in calls
    )


def _returned(source: SourceFile, quotient: Quotient, scope: Scope) -> Iterator[tuple[str, Node]]:
    """Means that callers take of the rates that a function returns, alone or among other things."""
    names = {quotient.node.text}
    statement = source.statement(quotient.node)
    if statement.kind == "assign" and statement.children[-1] is quotient.node:
        names.add(target_key(statement.children[0]))
    places = {
        index
        for node in scope.nodes
        if node.kind == "return" and node.children
        for index, part in _parts(node.children[0])
        if part.text in names
    }
    for place in sorted(places):
        for site in source.scopes.call_sites(scope):
            where = source.scopes.scope_of(site)
            if not loops_around(site) or any(map(sweeps.is_sweep, loops_around(site)[:1])):
                continue
            if place < 0:
                yield from _collected(source, site, where)
            elif (part := _unpacked(site, place)) is not None:
                for use in source.uses(part.text, where):
                    if use.start > site.end and not _is_shown(use):
                        yield from _collected(source, use, where)


def _parts(value: Node) -> Iterator[tuple[int, Node]]:
    if value.kind == "tuple":
        yield from enumerate(value.children)
    else:
        yield -1, value


def _unpacked(call: Node, place: int) -> Node | None:
    """The variable that takes one of the things that a call returns."""
    target = call.parent.children[0] if call.parent is not None else call
    if target.kind != "tuple" or place >= len(target.children):
        return None
    return target.children[place] if target.children[place].kind == "name" else None


def _of_arrays(source: SourceFile, region: Region) -> Iterator[tuple[Node, Node]]:
    """Means of work over an array of times, element by element: (work / times).mean()"""
    if not _is_measured(source, region):
        return
    scope = source.scopes.scope_of(region.delta)
    for listed in sorted(fates.fate(source, region).lists):
        for around in reductions.reaching(series.named(listed).base, scope):
            names = series.names_of(source, listed, around)
            for node in around.nodes:
                rates = _rates_of(node, names)
                means = list(_means_around(source, node, around)) if rates else []
                name = target_key(source.statement(node).children[0]) if means else ""
                if means and (means[0] in node.ancestors() or _counts(source, name, means[0])):
                    yield node, means[0]


def _rates_of(node: Node, names: Sequence[series.Name]) -> bool:
    """Whether an expression is work over each of the times: n / times, [1 / t for t in times]."""
    if node.kind == "comp" and len(node.children) > 1:
        over = node.children[1]
        if len(over.children) < 2 or over.children[0].kind != "name":
            return False
        if not any(series.is_made_of(over.children[1], name) for name in names):
            return False
        member = series.Name(over.children[0].text)
        return is_product(node.children[0]) and _rates_of(node.children[0], [member])
    if not is_product(node) or is_product(node.parent):
        return False
    _, below = factors(node)
    times = [n for n in below if any(series.is_made_of(n, name) for name in names)]
    return len(times) == 1


def _means_around(source: SourceFile, rates: Node, scope: Scope) -> Iterator[Node]:
    """The mean of an array of rates, taken where it is written or under its name."""
    for parent in rates.ancestors():
        if parent.kind == "call":
            if _MEANS.match(last_segment(callee_text(parent))):
                yield parent
                return
            if last_segment(callee_text(parent)) not in ("array", "tensor", "asarray", "list"):
                return
        elif parent.kind == "assign" and parent.children[0].kind == "name":
            if parent.children[-1].start <= rates.start:
                yield from _means(scope, series.Name(target_key(parent.children[0])))
            return
        elif parent.kind not in ("args", "attribute"):
            return


def _work_varies(source: SourceFile, quotient: Quotient) -> bool:
    """Whether the work is not the same in every sample: it is computed from what the loop gives."""
    loops = quotient.region.sample_loops
    if not loops:
        return False
    given = {squeeze(n.text) for loop in loops for part in loop.children[:-1] for n in part.walk()}
    for factor in quotient.above:
        for leaf in factor.walk():
            if leaf.kind not in ("name", "attribute"):
                continue
            base = leaf.text.partition(".")[0]
            assigned = source.scopes.assignments(base, quotient.region.scope)
            if base in given or any(loops_around(t) for t, _ in assigned):
                return True
    return _other_work(quotient)


def _other_work(quotient: Quotient) -> bool:
    # An `if` around work in the region: the steps are not alike.
    region = quotient.region
    return any(
        n.kind == "if" and region.holds(n) and any(c.kind == "call" for c in n.walk())
        for n in region.scope.nodes
    )


def _means(scope: Scope, name: series.Name) -> Iterator[Node]:
    """Where a function takes the mean of a list."""
    for node in scope.nodes:
        if node.kind == "call" and _MEANS.match(last_segment(callee_text(node))):
            given = [squeeze(a.text) for a in positional(node)[:1]]
            held = [*given, squeeze(callee_text(node)).rpartition(".")[0]]
            if any(re.fullmatch(name.pattern, text) for text in held):
                yield node
        elif node.kind == "binary" and re.fullmatch(
            rf"sum\({name.pattern}\)/[\w().,]+", squeeze(node.text)
        ):
            yield node

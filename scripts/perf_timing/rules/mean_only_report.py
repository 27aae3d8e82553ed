"""Samples are collected, but only their mean is reported.

## What it does
Reports the mean of samples (a list of times, or times that are summed, by the function that takes
them or by one that gets them from it; also as a rate: their number over their sum) where the file
uses no other statistic of them: no median, minimum, percentile or spread, and neither prints each
sample nor hands the samples on. Arrays made of a list, dictionaries of lists, attributes and meters
are followed.

## Why it misleads
One slow sample moves the mean by more than the differences that people look for, and the mean alone
does not show that there was one.

## Known problems
The time of one window divided by its count is not a set of samples; mean-of-one-span (opt-in)
reports that. All work over all time is a rate of totals, not a mean. Running means of a display,
epochs of many batches and sums in the log of a training are left out. Where a file is not there to
measure, samples count that a list collects, or whose mean is shown as a figure of speed. A function
of another file counts as work of the device where the file computes on one and no name speaks of
the host.

## Example
```python
import time
import torch

a = torch.randn(4096, 4096, device="cuda")
a @ a
times = []
for _ in range(20):
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    a @ a
    torch.cuda.synchronize()
    times.append(time.perf_counter() - t0)
print(sum(times) / len(times))
```
```cuda
int main() {
  float total = 0;
  for (int i = 0; i < 20; ++i) {
    cudaEventRecord(start);
    scale<<<256, 256>>>(x);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&ms, start, stop);
    total += ms;
  }
  printf("%f ms\\n", total / 20);
}
```

## Use instead
```python
import statistics
import torch

a = torch.randn(4096, 4096, device="cuda")
a @ a
def event():
    return torch.cuda.Event(enable_timing=True)

pairs = [(event(), event()) for _ in range(50)]
for start, end in pairs:
    start.record()
    a @ a
    end.record()
torch.cuda.synchronize()
times = [start.elapsed_time(end) for start, end in pairs]
print(statistics.median(times), min(times), max(times))
```
"""

import re
from collections.abc import Iterable, Iterator

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    last_segment,
    leaf_names,
    loop_body,
    loop_header,
    loops_around,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, keepers, reductions, series
from perf_timing.lint.figures.quotients import factors, named, quotients, whole_product
from perf_timing.lint.figures.series import NEUTRAL
from perf_timing.lint.figures.totals import (
    divides,
    is_last_told,
    is_mean,
    repeated_by,
    told_of_total,
)
from perf_timing.lint.intent import captions, purpose, repetitions, sweeps
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work import unseen, workload

CODE = "TIM303"
LABEL = "MEANONLY"
DEFAULT = True
BENCHMARK_ONLY = True
SEVERITY = "info"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "only the mean of the samples in {name} is reported; one slow sample moves it and"
    " nothing shows that"
)
NOTE = (
    "Report the median with a spread (quartiles, or minimum and maximum); render-timing"
    " simple-event does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each mean that is all that is reported of some samples."""
    seen: set[int] = set()
    for region in (*source.regions.all, *unseen.event_regions(source)):
        if not _is_of_device(source, region):
            continue
        if region.carried and not fates.fate(source, region).lists:
            continue  # from step to step, of which no list is kept
        if any(repetitions.asked_once(source, loop) for loop in region.sample_loops[:1]):
            continue  # the mean of one sample
        found = [*_here(source, region), *_in_callers(source, region), *_kept_by(source, region)]
        found += _of_timer(source, region)
        for name, node in found:
            if words.RATES.search(name) or _running(region, node) or _is_asserted(source, node):
                continue  # mean-of-rates judges these; a running mean is a display
            if _is_given_away(source, name, node) or _deviation_follows(source, node):
                continue
            if _is_in_difference(source, node):
                continue
            if node.line not in seen:
                seen.add(node.line)
                value = fates.fate(source, region)
                listed = name in value.lists and not value.printed
                known = purpose.is_named_so(source, region.delta) or _is_told(source, node)
                yield Report(node, MESSAGE.format(name=name), anywhere=listed or known)


def _is_of_device(source: SourceFile, region: Region) -> bool:
    """Whether a region holds work of the device, or what may well be such work."""
    if re.search(r"(^|_)cpu(_|$)", region.scope.short_name):
        return False
    return bool(workload.works(region)) or unseen.works(source, region)


# What a mean of inference times is called.
_TIMES = re.compile(r"infer(ence)?_?time|time_?infer|latenc|(?<![a-z])fps(?![a-z])", re.IGNORECASE)


def _is_asserted(source: SourceFile, mean: Node) -> bool:
    """Whether a mean is only held against a bound, and shown to nobody."""
    statement = source.statement(mean)
    if statement.kind != "assign" or statement.children[0].kind != "name":
        return statement.kind == "assert"
    name, scope = statement.children[0].text, source.scopes.scope_of(mean)
    uses = [u for u in source.uses(name, scope) if u.start > statement.end]
    return bool(uses) and all(source.statement(u).kind == "assert" for u in uses)


def _is_given_away(source: SourceFile, name: str, mean: Node) -> bool:
    """Whether all samples go into a dictionary that the function returns or writes, too."""
    scope = source.scopes.scope_of(mean)
    kept = {
        base_name(statement.children[0].text)
        for statement in (source.statement(use) for use in source.uses(name, scope))
        if statement.kind == "assign"
        and statement.children[0].kind == "subscript"
        and squeeze(statement.children[-1].text) == name
    }
    if not kept:
        return False
    handed = (squeeze(a.text) for n in scope.nodes if n.kind == "call" for a in positional(n))
    return bool(kept & ({squeeze(part.text) for _, part in _returned(scope)} | set(handed)))


def _is_in_difference(source: SourceFile, mean: Node) -> bool:
    """Whether the mean of a part is subtracted: fmean(periods) - wait_ms, as no median can be."""
    scope = source.scopes.scope_of(mean)
    for parent in mean.ancestors():
        if parent.kind in ("assign", "block", "call", "module"):
            return False
        if parent.kind == "binary" and operator(parent).strip() == "-":
            names = (n.text for n in parent.children[-1].walk() if n.kind == "name")
            values = (v for name in names for _, v in source.scopes.assignments(name, scope))
            return any(re.search(r"mean\(", value.text) for value in values)
    return False


def _deviation_follows(source: SourceFile, mean: Node) -> bool:
    """Whether the squares of the distances from a mean are added up, and their root is used.

    for (float t : times) squares += (t - mean) * (t - mean); deviation = sqrt(squares / n);
    """
    given = next((n for n in source.statement(mean).walk() if n.kind == "assign"), None)
    if given is None:
        return False
    name = re.escape(re.split(r"[\s*&]+", target_key(given.children[0]))[-1])
    text = source.scopes.scope_of(mean).node.text
    away = rf"[\w.\[\]]+\s*-\s*{name}\b"
    square = rf"\(({away})\)\s*\*\s*\(\2\)|pow[fl]?\({away}\s*,\s*2|\({away}\)\s*\*\*\s*2"
    summed = re.search(rf"(\w+)\s*\+=\s*(?:std::)?(?:{square})", text) if name else None
    return summed is not None and _root_is_shown(text, {summed[1]})


def _is_told(source: SourceFile, mean: Node) -> bool:
    """Whether the text that shows a mean calls it a figure of speed, whatever the file is for."""
    statement = source.statement(mean)
    target = statement.children[0] if statement.kind == "assign" else None
    if target is not None and _TIMES.search(target.text):
        return True
    shown = [statement]
    if target is not None and target.kind == "name":
        uses = source.uses(target.text, source.scopes.scope_of(mean))
        shown += [source.statement(use) for use in uses if use.start > statement.end]
    return any(captions.says_speed(place) for place in shown)


def _here(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means of what the function itself collects of a region: (name of the samples, mean)."""
    if region.kind not in ("clock", "event"):
        return
    value = fates.fate(source, region)
    if _is_logged(source, region, value) and not _is_benchmark(source, region, value):
        return
    scope = source.scopes.scope_of(region.delta)
    if _spread_beside(source, value, scope) or _printed_inside(region, value):
        return
    found = [(name, _mean_of_list(source, name, scope)) for name in sorted(value.lists)]
    found += [(name, _mean_by_hand(source, name, scope)) for name in sorted(value.lists)]
    found.append(("this list", _mean_around(source, region)))
    if region.sample_loops or _in_loop(region):
        sums = sorted(value.sums)
        loops = loops_around(region.delta)
        after = loops[0].end if loops else region.delta.end
        found += [(name, told_of_total(source, loops, after, name, scope)) for name in sums]
        if _extreme_beside(source, loops, value):
            return
        found += _averaged_at_once(source, region, value)
    yield from ((name, node) for name, node in found if node is not None and not _in_root(node))


def _is_logged(source: SourceFile, region: Region, value: fates.Fate) -> bool:
    """Whether the times are the log of a training: of epochs of many batches, or a mere sum.

    An epoch of all data at once is one step, and a list of these has samples.
    """
    if source.language != "python" or not _is_trained(region):
        return False
    passes = any(region.inner_loops(s.site) for s in workload.works(region))
    epochs = training_loops.of_epochs(region) and (passes or not value.lists)
    return epochs or bool(value.sums)


def _extreme_beside(source: SourceFile, loops: list[Node], value: fates.Fate) -> bool:
    """Whether the smallest or the largest sample is kept beside the sum of all, and used."""
    samples = value.names - value.sums
    for node in loops[0].walk() if loops else ():
        if any(_compares(node, name) for name in samples):
            given = [n for n in source.statement(node).walk() if n.kind == "assign"]
            kept = [re.split(r"\W+", target_key(n.children[0]))[-1] for n in given]
            if not kept or any(_is_named_behind(source, name, loops[0]) for name in kept):
                return True
    return False


def _is_named_behind(source: SourceFile, name: str, loop: Node) -> bool:
    """Whether code behind a loop, no remark, says a name: here or as a member of a record."""
    remarks = source.tree.comments
    found = re.finditer(rf"\b{re.escape(name)}\b", source.tree.text[loop.end : _reach(name, loop)])
    starts = (loop.end + match.start() for match in found)
    return any(not any(c.start <= start < c.end for c in remarks) for start in starts)


def _reach(name: str, loop: Node) -> int | None:
    """Where the block ends that declares a variable of C++ before a loop; None for another name."""
    for block in loop.ancestors():
        before = (c for c in block.children if c.kind == "decl" and c.start < loop.start)
        if any(re.search(rf"\b{re.escape(name)}\b\s*[=,;({{]", c.text) for c in before):
            return block.end
    return None


def _averaged_at_once(
    source: SourceFile, region: Region, value: fates.Fate
) -> Iterator[tuple[str, Node]]:
    """Where a sum takes each sample over the number of samples: mean += (end - start) / n."""
    loops = loops_around(region.delta)
    for quotient in quotients(source, region) if loops else ():
        added = quotient.node.parent
        if quotient.rate or added is None or operator(added)[:2] != "+=":
            continue
        name = target_key(added.children[0])
        behind = source.uses(base_name(name), source.scopes.scope_of(region.delta))
        shared = any(squeeze(n.text) in repeated_by(loops[0]) for n in quotient.below)
        if shared and name in value.sums and any(u.start >= loops[0].end for u in behind):
            yield name, quotient.node


def _is_trained(region: Region) -> bool:
    """Whether a training goes on; forward and backward passes that are repeated change nothing."""
    return training_loops.is_training(region)


def _kept_by(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means that are told of what a class or an outer function keeps of the samples."""
    named = purpose.is_named_so(source, region.delta)
    if source.language == "python" and (named or not _is_trained(region)):
        yield from keepers.told_elsewhere(source, region)
        yield from keepers.under_key(source, region)
        yield from keepers.in_a_record(source, region)


def _in_root(node: Node) -> bool:
    """Whether a mean is part of a root: that of the squares is half of a spread."""
    parent = node.parent
    while parent is not None and parent.kind in ("binary", "args", "call"):
        if parent.kind == "call":
            return last_segment(callee_text(parent)) in ("sqrt", "sqrtf")
        parent = parent.parent
    return False


def _in_callers(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means of the times that a function returns and its callers add up: total += measure(x)."""
    value = fates.fate(source, region)
    if value.printed or (source.language == "cuda" and region.kind not in ("clock", "event")):
        return
    if _is_trained(region) and not purpose.is_named_so(source, region.delta):
        return
    scope = region.scope if region.scope.name else source.scopes.scope_of(region.delta)
    times = value.names | value.sums | _written(source, region)
    for index in sorted(_returned_at(source, scope, region, times)):
        for site in source.scopes.call_sites(scope):
            where = source.scopes.scope_of(site)
            loops = loops_around(site)
            total, kept = _added_to(source, site, index, where) if loops else ("", "")
            shown = not total or any(
                loops[0].start <= n.start < loops[0].end
                and (_prints(n, {total, kept}) or _compares(n, kept))
                for n in where.nodes
            )
            node = None if shown else told_of_total(source, loops, loops[0].end, total, where)
            if node is not None:
                yield total, node
            elif index < 0:
                yield from _mean_of_result(source, site, False)
                yield from _mean_of_returned_sum(source, site, scope, value)
    for name in sorted(value.lists):
        if reductions.reducers(source, name, scope) - NEUTRAL - {"raw"} or value.sums:
            continue
        for index in sorted({i for i, part in _returned(scope) if squeeze(part.text) == name}):
            for site in source.scopes.call_sites(scope):
                if index < 0:
                    yield from _mean_of_result(source, site, True)
                else:
                    yield from _mean_of_part(source, site, index)


def _written(source: SourceFile, region: Region) -> set[str]:
    """The variable of C++ that an elapsed-time call writes."""
    given = positional(region.delta) if region.kind == "event" else []
    return {base_name(given[0].text)} if given and source.language == "cuda" else set()


def _returned(scope: Scope) -> Iterator[tuple[int, Node]]:
    """What a function returns, with its place where it returns several things, or -1."""
    for node in scope.nodes:
        value = node.children[0] if node.kind == "return" and node.children else None
        if value is not None and value.kind == "tuple":
            yield from enumerate(value.children)
        elif value is not None:
            yield -1, value


def _mean_of_named(source: SourceFile, name: str, scope: Scope) -> Iterator[tuple[str, Node]]:
    """A list's name with its mean, where that is all that is told of it."""
    mean = _mean_of_list(source, name, scope)
    if mean is not None:
        yield name, mean


def _mean_of_part(source: SourceFile, call: Node, index: int) -> Iterator[tuple[str, Node]]:
    """The mean of a list that a call returns among other things: times, y = run(fn)."""
    target = call.parent.children[0] if call.parent is not None else call
    if target.kind == "tuple" and index < len(target.children):
        name = squeeze(target.children[index].text)
        yield from _mean_of_named(source, name, source.scopes.scope_of(call))


def _mean_of_result(source: SourceFile, call: Node, collected: bool) -> Iterator[tuple[str, Node]]:
    """Means of what a call returns: one sample, or (`collected`) a list of them."""
    where, child = source.scopes.scope_of(call), call
    for parent in call.ancestors():
        whole = parent.children[-1] is child
        if parent.kind == "comp":
            if parent.children[0] is not child or collected or "range(" not in parent.text:
                return
            collected = True
        elif parent.kind == "call":
            callee = callee_text(parent)
            if collected and reductions.MEAN.search(callee):
                if is_mean(parent) and not _kept(source, parent, where):
                    yield "this list", parent
                return
            if _appends(parent) and not collected:
                yield from _mean_of_appended(source, parent, squeeze(call.text))
                return
            if last_segment(callee) not in ("list", "array", "asarray", "tensor", "float"):
                return
        elif parent.kind == "assign" and whole and parent.children[0].kind == "name":
            name = parent.children[0].text
            if collected:
                yield from _mean_of_named(source, name, where)
                return
            loop = next(iter(loops_around(call)), None)
            for use in source.uses(name, where) if loop is not None else ():
                into = use.parent.parent if use.parent is not None else None
                later = into is not None and use.start > call.end
                if into is not None and later and _appends(into):
                    yield from _mean_of_appended(source, into, name)
            return
        elif parent.kind not in ("args", "list", "keyword", "attribute"):
            return
        child = parent


def _mean_of_returned_sum(
    source: SourceFile, call: Node, function: Scope, value: fates.Fate
) -> Iterator[tuple[str, Node]]:
    """The mean that a caller tells of the sum of the samples that a function returns."""
    whole = {part.text for _, part in _returned(function)} <= value.sums
    parent, where = call.parent, source.scopes.scope_of(call)
    if not whole or parent is None:
        return
    product = whole_product(call)
    if product is not call and divides(source, product, squeeze(call.text), where, ()):
        yield next(iter(sorted(value.sums))), product  # run(fn) / n
    elif parent.kind == "assign" and parent.children[-1] is call:
        name = target_key(parent.children[0])
        mean = told_of_total(source, (), call.end, name, where)
        if mean is not None:
            yield name, mean


def _of_timer(source: SourceFile, region: Region) -> Iterator[tuple[str, Node]]:
    """Means of what a timer keeps in an attribute: times.append(timer.elapsed)."""
    kept = {n.removeprefix("self.") for n in fates.fate(source, region).names if n[:5] == "self."}
    where, begins = region.scope, region.spans[0][0] if region.spans else 0
    sites = [s.site for s in region.steps if s.site.start >= begins]
    loop = next((n for site in sites for n in loops_around(site) if n.start < begins), None)
    if region.timer is None or not kept or loop is None or sweeps.is_sweep(loop):
        return
    for node in where.nodes:
        receiver, _, attribute = node.text.rpartition(".") if node.kind == "name" else ("", "", "")
        if attribute not in kept or not receiver or not begins < node.start < loop.end:
            continue
        outer = source.statement(node)
        if outer.kind == "augassign" and operator(outer) == "+=":
            total = target_key(outer.children[0])
            mean = told_of_total(source, [loop], loop.end, total, where)
            if mean is not None and not any(_prints(n, {node.text, total}) for n in loop.walk()):
                yield total, mean
        elif _appends(outer):
            yield from _mean_of_appended(source, outer, node.text)


def _appends(node: Node) -> bool:
    short = last_segment(callee_text(node)) if node.kind == "call" else ""
    return short in ("append", "push_back", "emplace_back")


def _mean_of_appended(source: SourceFile, append: Node, sample: str) -> Iterator[tuple[str, Node]]:
    """The mean of a list that a loop of the caller fills, without showing the samples."""
    where = source.scopes.scope_of(append)
    loop = next(iter(loops_around(append)), None)
    name = callee_text(append).rpartition(".")[0]
    if loop is None or sweeps.is_sweep(loop) or not name:
        return
    shown = any(loop.start <= n.start < loop.end and _prints(n, {sample}) for n in where.nodes)
    if not shown:
        yield from _mean_of_named(source, name, where)


def _returned_at(source: SourceFile, scope: Scope, region: Region, times: set[str]) -> set[int]:
    """At which places of what a function returns a time stands; -1: it is all of it."""
    found = set()
    for index, part in _returned(scope):
        inside = leaf_names(part)
        whole = part.kind in ("name", "binary") and bool(inside & times)
        if whole or part.start <= region.delta.start < region.delta.end <= part.end:
            found.add(index)
    return found


def _added_to(source: SourceFile, site: Node, index: int, scope: Scope) -> tuple[str, str]:
    """The sum that what a call returns is added to, and the variable that holds it in between."""
    parent = site.parent
    if parent is None:
        return "", ""
    direct = parent.kind in ("assign", "augassign") and operator(parent)[:2] == "+="
    if direct and index < 0:
        return target_key(parent.children[0]), ""
    if parent.kind != "assign" or parent.children[-1] is not site:
        return "", ""
    target = parent.children[0]
    if index >= 0:
        if target.kind != "tuple" or index >= len(target.children):
            return "", ""
        target = target.children[index]
    loop, name = loops_around(site)[0], target_key(target)
    for use in source.uses(name, scope):
        added = use.parent
        if added is None or not site.end < use.start < loop.end:
            continue
        summed = added.kind in ("assign", "augassign") and operator(added)[:2] == "+="
        if summed and added.children[-1] is use:
            return target_key(added.children[0]), name
    return "", ""


def _prints(call: Node, times: set[str]) -> bool:
    """Whether a call in the loop writes the times one by one, or the sum so far."""
    if call.kind != "call" or not words.OUTPUT.match(last_segment(callee_text(call))):
        return False
    names = (n.text for n in call.walk() if n.kind == "name")
    return any(name in times or re.search(r"time|elapsed|laten", name) for name in names)


def _compares(node: Node, sample: str) -> bool:
    """Whether a place looks for the smallest or largest: worst = max(worst, t), if (t < best)."""
    call = node.kind == "call" and re.search(r"(^|[._:])f?(min|max)(imum)?f?$", callee_text(node))
    order = node.kind in ("binary", "compare") and re.search(r"[<>]", node.text)
    return bool((call or order) and any(n.text == sample for n in node.walk()))


def _is_benchmark(source: SourceFile, region: Region, value: fates.Fate) -> bool:
    """Whether times of a training are collected where a name says that it is a benchmark."""
    kept = bool(value.lists) or bool(value.sums and not training_loops.of_epochs(region))
    return kept and purpose.is_named_so(source, region.delta)


def _spread_beside(source: SourceFile, value: fates.Fate, scope: Scope) -> bool:
    """Whether a spread of the same samples is reported: of a list of them, or by the formula."""
    for name in value.lists:
        applied = reductions.reducers(source, name, scope)
        for made in _made_of(name, scope):
            applied |= reductions.reducers(source, made, scope)
        if any(
            reductions.SPREAD.search(a) or reductions.ROBUST.search(a) for a in applied - {"min"}
        ):
            return True
    if len(value.sums) > 1 and _root_is_shown(scope.node.text, value.sums):
        return True
    text = squeeze(scope.node.text) if value.lists else ""
    return bool(re.search(r"\((\w+)-\w+\)\*\*2for\1in", text))  # (x - mean) ** 2 for x in


def _root_is_shown(text: str, sums: Iterable[str]) -> bool:
    """Whether the root of the sum of the squares is printed, or kept under a name that is used."""
    summed = "|".join(re.escape(name) for name in sums)
    for root in re.finditer(rf"(?:\b(\w+)\s*=\s*)?(?:std::)?\bsqrtf?\([^;]*\b({summed})\b", text):
        if not root[1] or re.search(rf"\b{root[1]}\b", text[root.end() :]):
            return True
    return False


def _made_of(name: str, scope: Scope) -> list[str]:
    """Arrays of the same samples: t = torch.tensor(times)."""
    return [
        target_key(node.children[0])
        for node in scope.nodes
        if node.kind == "assign"
        and node.children[-1].kind == "call"
        and re.search(r"(tensor|array|Series)$", callee_text(node.children[-1]))
        and any(squeeze(a.text) == name for a in positional(node.children[-1]))
    ]


def _running(region: Region, mean: Node) -> bool:
    """Whether the mean is shown again and again in the loop that takes the samples."""
    if mean.parent is not None and operator(mean.parent)[:2] == "+=":
        return False  # a part of the mean, which is told behind the loop
    around = {id(loop) for loop in loops_around(mean)}
    inside = any(id(loop) in around for loop in region.sample_loops[:1])
    return inside and not is_last_told(mean, region.sample_loops)


def _in_loop(region: Region) -> bool:
    return bool(loops_around(region.delta))


def _printed_inside(region: Region, value: fates.Fate) -> bool:
    loops = loops_around(region.delta)
    return any(
        any(loop.start <= node.start < loop.end for loop in loops[:1])
        and not (node.kind == "call" and _OVERWRITTEN.match(last_segment(callee_text(node))))
        for node in value.printed
    )


# What a progress bar shows beside itself is gone when the next sample comes.
_OVERWRITTEN = re.compile(r"set_(postfix|description)(_str)?$")


def _mean_of_list(source: SourceFile, name: str, scope: Scope) -> Node | None:
    applied = series.applied(source, name, scope)
    averaged = applied & {"sum", "mean", "fmean", "average", "nanmean", "accumulate"}
    if applied - NEUTRAL or ("loop" in applied and not averaged):
        return None
    if _kept_each(source, name, scope):
        return None
    known = series.names_of(source, name, scope)
    for around in reductions.reaching(known[0].base, scope):
        for node in around.nodes:
            if (
                node.kind != "call"
                or not reductions.MEAN.search(callee_text(node))
                or not any(series.mentions(node, listed) for listed in known)
                or _kept(source, node, scope)
            ):
                continue
            mean = node if is_mean(node, known) else _mean_of_sum(source, node, known, around)
            if mean is not None:
                return mean
    return None


def _mean_of_sum(
    source: SourceFile, added: Node, known: list[series.Name], scope: Scope
) -> Node | None:
    """The mean that is told of a sum under a name of its own: total = sum(times); total / n."""
    parent = added.parent
    if parent is None or parent.kind != "assign" or parent.children[-1] is not added:
        return None
    name = target_key(parent.children[0])
    mean = told_of_total(source, (), added.end, name, scope)
    counts = named(source, factors(mean)[1], scope) if mean is not None else set()
    texts = {squeeze(v.text) for n in counts for _, v in source.scopes.assignments(n, scope)}
    texts.add(squeeze(mean.text) if mean is not None else "")
    of_list = any(re.search(rf"len\({k.pattern}\)", text) for k in known for text in texts)
    loops = [loop for use in source.uses(known[0].base, scope) for loop in loops_around(use)[:1]]
    return mean if of_list or any(counts & repeated_by(loop) for loop in loops) else None


def _mean_by_hand(source: SourceFile, name: str, scope: Scope) -> Node | None:
    """The mean of a list that a loop adds up, where nothing else is done with its members."""
    applied = reductions.reducers(source, name, scope)
    if applied - NEUTRAL - {"loop", "indexed"} or _kept_each(source, name, scope):
        return None
    for node in scope.nodes:
        if node.kind not in ("assign", "augassign") or operator(node)[:2] != "+=":
            continue
        loop = next(iter(loops_around(node)), None)
        if loop is None or loop.kind != "for":
            continue
        body = loop_body(loop) or loop.children[-1]
        member = _member(loop_header(loop), name)
        added = squeeze(node.children[-1].text)
        indexed = re.fullmatch(rf"{re.escape(name)}\[\w+\]", added) is not None
        if not (indexed or (member and added == member)):
            continue
        if sum(n.kind == "name" and n.text == (member or name) for n in body.walk()) == 1:
            total = squeeze(node.children[0].text)
            return told_of_total(source, [loop], loop.end, total, scope)
    return None


def _member(header: str, name: str) -> str:
    """The variable of a loop over the list: for t in times:, for (float t : times)."""
    listed = rf"[\s&*](\w+)\s*(?:\bin\b|:)\s*{re.escape(name)}\s*[:)]"
    found = re.search(listed, header)
    return found[1] if found else ""


def _kept_each(source: SourceFile, name: str, scope: Scope) -> bool:
    """Whether each sample becomes a record of its own: [{"time": t} for t in times]."""
    for use in source.uses(name, scope):
        for parent in use.ancestors():
            if parent.kind == "comp":
                return parent.children[0].kind == "dict"
            if parent.kind in ("block", "module"):
                break
    return False


def _kept(source: SourceFile, node: Node, scope: Scope) -> bool:
    """Whether the mean is itself one of several values that a statistic is taken of."""
    for parent in node.ancestors():
        if parent.kind != "call":
            continue
        if reductions.ROBUST.search(callee_text(parent)):
            return True
        if _appends(parent):
            kept = callee_text(parent).rpartition(".")[0]
            done = series.applied(source, kept, scope)
            return any(reductions.ROBUST.search(a) or _SPREADS.search(a) for a in done)
    return False


# A plot or a table of means over sizes is no spread of them.
_SPREADS = re.compile(r"^(std|stdev|pstdev|var|variance|max|amax|iqr|sem|describe)$")


def _mean_around(source: SourceFile, region: Region) -> Node | None:
    """The mean of a comprehension of elapsed times: mean([a.elapsed_time(b) for ...])."""
    comp = next((p for p in region.delta.ancestors() if p.kind == "comp"), None)
    if comp is None or comp.children[0].kind == "dict" or _listed_again(source, region, comp):
        return None
    for node in comp.ancestors():
        if node.kind in ("assign", "augassign", "return", "block", "comp"):
            return None
        if node.kind == "call" and reductions.MEAN.search(callee_text(node)):
            kept = _kept(source, node, source.scopes.scope_of(comp))
            return node if is_mean(node) and not kept else None
    return None


def _listed_again(source: SourceFile, region: Region, comp: Node) -> bool:
    """Whether the times of the pair are listed in another place too, for what else is told.

    That is one which goes through the same events, or reads events by the same names.
    """
    read = last_segment(callee_text(region.delta)) if region.delta.kind == "call" else ""
    through = [c.children[-1] for c in comp.children if c.kind == "comp_for" and c.children]
    events = {n.text for part in through for n in part.walk() if n.kind == "name"}
    return any(
        node.kind == "call"
        and last_segment(callee_text(node)) == read
        and not comp.start <= node.start < comp.end
        and bool(_around(node) & events)
        for node in source.scopes.scope_of(comp).nodes
    )


def _around(read: Node) -> set[str]:
    """The names in the comprehension or in the header of the loop that holds a reading."""
    holder = next((p for p in read.ancestors() if p.kind in ("comp", "for", "block")), None)
    parts = [read] if holder is None or holder.kind == "block" else [read, *holder.children[:2]]
    if holder is not None and holder.kind == "comp":
        parts = [holder]
    return {n.text for part in parts for n in part.walk() if n.kind == "name"}

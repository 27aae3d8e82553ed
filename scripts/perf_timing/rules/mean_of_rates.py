"""Rates are averaged instead of dividing all work by all time.

## What it does
Reports the mean of a list whose elements are work divided by a measured time, where the work
changes from element to element.

## Why it misleads
The mean of rates gives every sample the same weight, however long it took. Short samples, which run
at other rates than long ones, count too much; the result is always at least the true throughput.
Twice 100 tokens, once in 1 s and once in 4 s, are 40 tokens/s; the mean of the rates is 62.5.

## Known problems
Only lists that are filled and averaged in one function are followed. With equal work in every
sample the error is small and is not reported.

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
from collections.abc import Iterator

from perf_timing.lint import samples
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.quotients import Quotient, quotients
from perf_timing.lint.scopes import (
    Scope,
    callee_text,
    last_segment,
    loops_around,
    positional,
    squeeze,
)

CODE = "TIM504"
LABEL = "RATE-MEAN"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python",)
MESSAGE = "the rates of line {line} are averaged; slow samples then weigh as little as fast ones"
NOTE = "Add up the work and the time, and divide once."

_MEANS = re.compile(r"^(mean|fmean|average|nanmean)$")


def check(source: SourceFile) -> Iterator[Report]:
    """Means of lists of rates."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind not in ("clock", "event") or not region.sample_loops:
            continue
        if samples.of_epochs(region):
            continue
        for quotient in quotients(source, region):
            name = _list_of(source, quotient)
            if not quotient.rate or not name or not _work_varies(source, quotient):
                continue
            for mean in _means(source, region.scope, name):
                if id(mean) not in seen:
                    seen.add(id(mean))
                    message = MESSAGE.format(line=quotient.node.line)
                    yield Report(mean, message, related=((quotient.node, "one rate"),))


def _list_of(source: SourceFile, quotient: Quotient) -> str:
    """The list that the rate is appended to, directly or under a name."""
    node: Node = quotient.node
    for _ in range(3):
        parent = node.parent
        while parent is not None and parent.kind in ("args", "cast"):
            parent = parent.parent
        if parent is None:
            return ""
        if parent.kind == "call" and last_segment(callee_text(parent)) == "append":
            return callee_text(parent).rpartition(".")[0]
        if parent.kind != "assign" or parent.children[0].kind != "name":
            return ""
        name = parent.children[0].text
        uses = [u for u in source.uses(name, quotient.region.scope) if u.start > parent.end]
        if not uses:
            return ""
        node = uses[0]
    return ""


def _work_varies(source: SourceFile, quotient: Quotient) -> bool:
    """Whether the work is not the same in every sample: it is computed from what the loop gives."""
    loops = quotient.region.sample_loops
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


def _means(source: SourceFile, scope: Scope, name: str) -> Iterator[Node]:
    for node in scope.nodes:
        if node.kind == "call" and _MEANS.match(last_segment(callee_text(node))):
            given = positional(node)
            if (given and squeeze(given[0].text) == name) or callee_text(node) == f"{name}.mean":
                yield node
        elif node.kind == "binary" and squeeze(node.text) in (
            f"sum({name})/len({name})",
            f"sum({name})/max(len({name}),1)",
            f"sum({name})/max(1,len({name}))",
        ):
            yield node

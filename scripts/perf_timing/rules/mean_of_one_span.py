"""One span over many iterations is divided by their number; no spread can be known.

## What it does
Reports the division of the time of one window by a count where the window holds a loop, and nothing
repeats the window. Opt-in: it is how most code measures, and it is often good enough.

## Why it misleads
A pause or a clock change inside the window moves the mean, and a single number cannot show it: two
runs may differ by more than the effect that is looked for.

## Known problems
Where other code repeats the measurement and keeps the results, the report is of no use.

## Example
```python
import time
import torch

a @ a
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    a @ a
torch.cuda.synchronize()
elapsed = time.perf_counter() - t0
print(elapsed / 100)
```
```cuda
int main() {
  cudaEventRecord(start);
  for (int i = 0; i < 100; ++i) scale<<<256, 256>>>(x);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
  printf("%f ms\\n", ms / 100);
}
```

## Use instead
```python
import torch

a = torch.randn(512, 512, device="cuda")
for _ in range(10):
    a @ a
pairs = []
for _ in range(50):
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    a @ a
    end.record()
    pairs.append((start, end))
torch.cuda.synchronize()
times = sorted(start.elapsed_time(end) for start, end in pairs)
print("median", times[25], "range", times[0], times[-1])
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import (
    Scope,
    bare_operator,
    base_name,
    callee_text,
    last_segment,
    loops_around,
    positional,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import captions
from perf_timing.lint.intent import training as training_loops
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work import workload

CODE = "TIM308"
LABEL = "MEANONLY-PAIR"
DEFAULT = False
SEVERITY = "info"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "the time of one span is divided by its iterations here; the mean of one window has no spread"
)
NOTE = (
    "Time windows or single calls several times and report the median with a spread;"
    " render-timing simple-event does so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each span that is divided by a count."""
    seen: set[int] = set()
    for region in source.regions.all:
        if (
            region.kind not in ("clock", "event")
            or region.sample_loops
            or region.cumulative
            or region.carried
        ):
            continue
        steps = workload.works(region)
        if (
            not steps
            or training_loops.is_training(region)
            or not any(region.inner_loops(s.site) for s in steps)
        ):
            continue
        if captions.means_first(source, region) or source.flow.host_only(region.end, region.scope):
            continue
        for node in _divisions(source, region):
            if node.line not in seen:
                seen.add(node.line)
                yield Report(node, MESSAGE)
                break


def _divisions(source: SourceFile, region: Region) -> Iterator[Node]:
    scope = source.scopes.scope_of(region.delta)
    for node in region.delta.ancestors():
        if _is_count_division(source, node, region.delta):
            yield node
        if node.kind in ("block", "module", "assign"):
            break
    names = _names(region)
    for name in names:
        yield from _of_name(source, scope, name, region.delta.end)


def _names(region: Region) -> list[str]:
    names = []
    for node in (region.delta, *region.delta.ancestors()):
        if node.kind == "assign":
            names.append(target_key(node.children[0]))
        if node.kind == "call" and re.search(r"EventElapsedTime$", callee_text(node)):
            names.append(base_name(positional(node)[0].text))
        if node.kind in ("block", "module"):
            break
    return names


def _of_name(source: SourceFile, scope: Scope, name: str, after: int) -> Iterator[Node]:
    for use in source.uses(name, scope):
        if use.start < after or (loops_around(use) and not loops_around(scope.node)):
            continue
        for node in use.ancestors():
            if _is_count_division(source, node, use):
                yield node
            if node.kind in ("block", "module"):
                break
            if (
                node.kind == "assign"
                and node.children[0].kind == "name"
                and node.children[0].text != name
            ):
                yield from _of_name(source, scope, node.children[0].text, node.end)
                break


def _is_count_division(source: SourceFile, node: Node, part: Node) -> bool:
    if node.kind == "augassign" and "/=" in node.text:
        return True
    if node.kind != "binary" or len(node.children) != 2 or not bare_operator(node).endswith("/"):
        return False
    below = node.children[1]
    if node.children[0].start > part.start or part.end > node.children[0].end:
        return False
    if below.kind == "number":
        return not re.fullmatch(r"1000(\.0?f?)?|1e-?\d+f?|1000000(\.0?)?|1024|60(\.0)?", below.text)
    if _is_unit(source, re.sub(r"^\([\w\s]+\)", "", below.text)):
        return False
    return not re.search(r"\d", last_segment(below.text)) or below.kind != "binary"


# Not a number of repetitions that happens to be 1000.
_OF_TIME = re.compile(
    r"\w*(sec|milli|micro|nano|(?<![a-z])[mun]s(?![a-z])|per_|p(er)?_?s)\w*", re.IGNORECASE
)


def _is_unit(source: SourceFile, name: str) -> bool:
    """Whether a divisor converts units: CLOCKS_PER_SEC, or a constant of C++ that is 1000**n."""
    if source.language != "cuda" or not _OF_TIME.fullmatch(name):
        return False
    value = rf"(?:#\s*define\s+{name}\s+|\bconst\w*\s[\w\s]*\b{name}\s*=\s*)\(?\s*([\d.eE+-]+)"
    given = re.search(value, source.tree.text)
    return name == "CLOCKS_PER_SEC" or (given is not None and _is_power(given[1]))


def _is_power(number: str) -> bool:
    try:
        return float(number) in (1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9)
    except ValueError:
        return False

"""A time that is called data time holds other work, or leaves the fetch out.

## What it does
Looks at times that are stored or reported as data, loading or fetch time. Reports the closing
reading where the region holds a blocking copy to the device, a wait for it, work on the batch that
has come or, after the step, the first read of its result beside the fetch; a reading that goes back
to the start of all steps; and the opening reading where the batch was fetched before it.

## Why it misleads
A blocking copy waits for the kernels that the previous step queued. The device's own work is then
billed to the loader, and a run that is bound by the GPU looks starved of data. A clock that starts
after the loader has handed over the batch reads next to nothing, however slow the loader is.

## Known problems
The metric is known by its name, except where a loop reads the clock right after `next()` and again
before anything else happens. Copies that go through a helper of another file are not seen.

## Example
```python
import time
import torch

mark = time.perf_counter()
for x, y in loader:
    x = x.to("cuda")
    data_time = time.perf_counter() - mark
    loss = step(x, y.to("cuda"))
    print(data_time, loss.item())
    mark = time.perf_counter()
```

## Use instead
```python
import time
import torch

waits = []
batches = iter(loader)
while True:
    before = time.perf_counter()
    batch = next(batches, None)
    waits.append(time.perf_counter() - before)
    if batch is None:
        break
    step(batch.to("cuda", non_blocking=True))
print(sorted(waits))
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import conditions
from perf_timing.lint.code.flow import Step, pending
from perf_timing.lint.code.scopes import (
    callee_text,
    loop_header,
    loops_around,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.units.unit_labels import tokens_of

CODE = "TIM507"
LABEL = "DATA-TIME"
DEFAULT = True
SEVERITY = "warning"
LANGUAGES = ("python",)
MESSAGE = "`{name}` also holds {what} on line {line}, which waits for the device's earlier work"
RUNNING = (
    "`{name}` goes back to line {line} in every step, and holds all earlier steps; the clock is not"
    " read anew"
)
PREPARES = (
    "`{name}` also holds the work on line {line}, which is done on the batch when it has come"
)
EMPTY = (
    "the clock starts here, after next() on line {line} has fetched the batch; nothing is left to"
    " wait for"
)
NOTE = (
    "Read the clock right before and right after next(), and copy with non_blocking=True after it;"
    " render-timing loop and inject-timing do so."
)

_DATA = frozenset(
    {"data", "dataload", "dataloading", "dataloader", "loader", "load", "loading", "fetch"}
)
_TIME = frozenset(
    {
        "time",
        "times",
        "t",
        "dt",
        "wait",
        "sec",
        "secs",
        "s",
        "ms",
        "latency",
        "duration",
        "elapsed",
        "meter",
    }
)
# What a consumer waits for: these tell where the name speaks of waiting.
_SUPPLIES = frozenset({"buffer", "queue", "batch", "batches", "sample", "samples", "prefetch"})
_WAITS = frozenset({"wait", "waits", "waiting", "waited", "stall", "starved", "starvation"})
_NOT_DATA = frozenset(
    {
        "model",
        "weights",
        "checkpoint",
        "ckpt",
        "state",
        "engine",
        "h2d",
        "copy",
        "transfer",
        "kernel",
        "module",
        "config",
    }
)
_FETCHES = re.compile(
    r"(^|[._])(next|__next__|get_?\w*batch\w*|get|fetch\w*|read\w*|load\w*|sample\w*|collate\w*"
    r"|prepare\w*|process\w*|preprocess\w*|dequeue|pop|recv|take|generate\w*|__getitem__|decode\w*)$"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Data times with other work in them, or without the fetch."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.kind != "clock" or id(region.end) in seen:
            continue
        fetch = _fetched_already(source, region)
        if fetch is not None:
            seen.add(id(region.end))
            message = EMPTY.format(line=fetch.line)
            yield Report(region.start, message, related=((fetch, "the fetch"),))
            continue
        name = _metric(region.delta)
        if not name or not loops_around(region.end):
            continue
        report = _never_restarted(source, region, name) or _late_start(source, region, name)
        report = report or _other_work(source, region, name)
        if report is not None:
            seen.add(id(region.end))
            yield report


def _never_restarted(source: SourceFile, region: Region, name: str) -> Report | None:
    """Whether a data time of each step goes back to one reading before all of them."""
    around = {id(loop) for loop in loops_around(region.start)}
    loop = next((n for n in loops_around(region.end) if id(n) not in around), None)
    if (
        not region.cumulative
        or region.periodic
        or loop is None
        or not _FED.search(loop_header(loop))
    ):
        return None
    if region.start.end > loop.start or not _computes_in(source, region, loop):
        return None
    message = RUNNING.format(name=name, line=region.start.line)
    return Report(region.end, message, related=((region.start, "never read anew"),))


def _computes_in(source: SourceFile, region: Region, loop: Node) -> bool:
    return any(
        step.works and loop.start <= step.site.start < loop.end
        for step in source.flow.steps(region.scope)
    )


# What a loop over batches goes through.
_FED = re.compile(r"load|data|batch|iter|prefetch", re.IGNORECASE)


def _fetched_already(source: SourceFile, region: Region) -> Node | None:
    """The next() right before a reading in a loop, where no call lies between the two readings."""
    if region.carried or region.timer is not None or not loops_around(region.start):
        return None
    low, high = region.start.end, region.end.start
    calls = [n for n in region.scope.nodes if n.kind in ("call", "for", "while", "with")]
    if any(low <= n.start < high for n in calls if not _wraps(n, region.end)):
        return None
    statement = source.statement(region.start)
    block = statement.parent
    before = [c for c in block.children if c.end <= statement.start] if block else []
    return next(
        (
            n
            for n in (before[-1].walk() if before else ())
            if n.kind == "call" and re.search(r"(^|\.)(next|__next__)$", callee_text(n))
        ),
        None,
    )


def _wraps(call: Node, reading: Node) -> bool:
    """Whether the call takes the difference: waits.append(clock() - start)."""
    return call.start <= reading.start and reading.end <= call.end


def _metric(delta: Node) -> str:
    """The name that the difference is stored or reported under, where it speaks of data."""
    for node in delta.ancestors():
        names = []
        if node.kind in ("assign", "augassign", "keyword", "pair") and node.children:
            names = [node.children[0].text]
        elif node.kind == "call":
            names = [_said_before(node, delta) or callee_text(node).rpartition(".")[0]]
        elif node.kind in ("block", "module", "function"):
            return ""
        for name in names:
            words = set(tokens_of(squeeze(name).strip("\"'[]"))) | set(
                re.findall(r"[a-z]+", name.lower())
            )
            about_data = words & _DATA and words & _TIME
            supplied = words & _SUPPLIES and words & _WAITS
            if (about_data or supplied) and not words & _NOT_DATA:
                return squeeze(name).strip("\"'")
    return ""


def _said_before(call: Node, delta: Node) -> str:
    """Where a call formats a literal text: the text before the placeholder of `delta`."""
    text = callee_text(call)
    if not text.startswith(("'", '"')):
        return ""
    pieces = re.split(r"\{[^{}]*\}", text)
    given = positional(call)
    place = next((i for i, arg in enumerate(given) if arg.start <= delta.start < arg.end), -1)
    return pieces[place] if 0 <= place < len(pieces) - 1 else "other"


def _other_work(source: SourceFile, region: Region, name: str) -> Report | None:
    restarts = _restarts(source, region)
    for step in region.steps:
        if any(region.start.end < step.site.start < restart for restart in restarts):
            continue
        if not region.carried and not _fetch_before(region, step.position):
            continue
        what = ""
        if r.UPLOAD in step.roles:
            what = "the blocking copy"
        elif r.WAIT in step.roles and not _waited_before(source, region):
            what = "the wait"
        elif _reads_late(source, region, step):
            what = "the read"
        if what:
            message = MESSAGE.format(name=name, what=what, line=step.site.line)
            return Report(region.end, message, related=((step.site, what),))
        if region.carried and _prepares(region, step):
            message = PREPARES.format(name=name, line=step.site.line)
            return Report(region.end, message, related=((step.site, "the work"),))
    return None


def _waited_before(source: SourceFile, region: Region) -> bool:
    """Whether nothing runs any more when the clock starts: a wait inside is for what is loaded.

    synchronize(); t0 = clock(); load(device="cuda"); synchronize(); load_time = clock() - t0
    """
    if region.carried:
        return False
    before = source.flow.between(region.scope, -1, region.start.start)
    loops = loops_around(region.start)
    if loops:
        after = source.flow.between(region.scope, region.end.end, loops[0].end)
        before = [*after, *(s for s in before if s.position > loops[0].start)]
    return any(s.waits for s in before) and pending(before) is None


def _prepares(region: Region, step: Step) -> bool:
    """Whether a step computes on the batch between its arrival and the closing reading."""
    loops = loops_around(region.end)
    held = bool(loops) and loops[0].start < step.site.start < region.end.start
    return held and r.WORK in step.roles and not step.roles & {r.COPY, r.LIKELY, r.ARITHMETIC}


def _reads_late(source: SourceFile, region: Region, step: Step) -> bool:
    """Whether each step reads its result behind the start, before which nothing waits for it.

    end = time.time(); losses.update(loss.item()): the work of the step is billed to the next batch.
    """
    loops = loops_around(region.start)
    reads = r.READ in step.roles and not step.roles & {r.UPLOAD, r.IO}
    if not (reads and region.carried and loops and step.position > region.start.end):
        return False
    if callee_text(step.node).endswith("empty_cache"):
        return False
    if conditions.rare(step.site, loops[0], passing=_asks_for_rank):
        return False
    before = source.flow.between(region.scope, loops[0].start, region.start.start)
    done = max((s.position for s in before if s.works), default=0)
    return done > 0 and not any(s.waits and s.position > done for s in before)


def _asks_for_rank(branch: Node) -> bool:
    """Whether a branch is taken in every step by the rank that reports: if rank == 0:"""
    test = branch.children[0].text if branch.kind == "if" and branch.children else ""
    return re.fullmatch(_RANK, squeeze(test)) is not None


_RANK = re.compile(
    r"\(?(not)?[\w.]*(rank|is_master|is_main|main_process|is_primary)\w*(\(\))?"
    r"((==|<=|in)[\[\(]?(-1,)?0?[\]\)]?)?\)?"
)


def _restarts(source: SourceFile, region: Region) -> list[int]:
    """Where else the variable of the opening reading is set: what stands before is not measured."""
    for node in region.start.ancestors():
        if node.kind == "assign" and node.children[-1].kind != "binary":
            key = target_key(node.children[0])
            pairs = source.scopes.assignments(key, region.scope)
            return [target.start for target, _ in pairs if target.start > region.start.end]
    return []


def _fetch_before(region: Region, position: int) -> bool:
    return any(
        n.kind == "call"
        and region.holds(n)
        and n.start < position
        and _FETCHES.search(callee_text(n))
        for n in region.scope.nodes
    )


def _late_start(source: SourceFile, region: Region, name: str) -> Report | None:
    """The region begins in the body of a loop over a loader and only copies."""
    if region.carried or region.timer is not None:
        return None
    loops = loops_around(region.start)
    if not loops or loops[0].kind != "for" or len(loops[0].children) < 2:
        return None
    fetched = loops[0].children[1].text
    if not re.search(r"load|data|batch|iter", fetched, re.IGNORECASE) or "range(" in fetched:
        return None
    calls = [n for n in region.scope.nodes if n.kind == "call" and region.holds(n)]
    if any(_FETCHES.search(callee_text(call)) for call in calls):
        return None
    uploads = [s for s in region.steps if s.roles & {r.UPLOAD, r.COPY}]
    if not uploads:
        return None
    message = (
        f"`{name}` starts here, after the loop on line {loops[0].line} has fetched the batch;"
        " it measures the copy alone"
    )
    return Report(region.start, message, related=((uploads[0].site, "the copy"),))

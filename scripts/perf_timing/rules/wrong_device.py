"""The wait is for another device than the one that does the measured work.

## What it does
Reports a wait without a device where the measured work was put on a numbered device other than the
first, a helper that gets the device but waits for the current one, such waits of a process that
puts its work on the device of its rank and makes none current, and in CUDA C++ a wait after
cudaSetDevice has switched away from the device of the launches.

## Why it misleads
A wait covers one device only: the current one. Where the work runs on another device it returns at
once, and the figure is launch time.

## Known problems
A device that is only known at run time is not seen but for that of the rank, and one that another
file makes current never. Ranks count only where the file itself joins the process group.

## Example
```python
import time
import torch

net = torch.nn.Linear(4096, 4096).to("cuda:1")
x = torch.randn(64, 4096, device="cuda:1")
net(x)
torch.cuda.synchronize("cuda:1")
t0 = time.perf_counter()
for _ in range(100):
    net(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
```cuda
int main() {
  cudaSetDevice(1);
  scale<<<256, 256>>>(x);
  cudaDeviceSynchronize();
  auto t0 = std::chrono::steady_clock::now();
  scale<<<256, 256>>>(x);
  cudaSetDevice(0);
  cudaDeviceSynchronize();
  auto t1 = std::chrono::steady_clock::now();
  printf("%f\\n", std::chrono::duration<double>(t1 - t0).count());
}
```

## Use instead
```python
import time
import torch

net = torch.nn.Linear(4096, 4096).to("cuda:1")
x = torch.randn(64, 4096, device="cuda:1")
net(x)
torch.cuda.synchronize("cuda:1")
t0 = time.perf_counter()
for _ in range(100):
    net(x)
torch.cuda.synchronize("cuda:1")
print((time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    call_args,
    callee_text,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.intent.training import of_one_rank
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work.collectives import is_barrier

CODE = "TIM406"
LABEL = "WRONG-DEVICE"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "{call}() waits for {waited}, but the work on line {work} runs on {device}; the wait"
    " returns at once"
)
NOTE = (
    "Pass the device of the work to the wait, or make it current first; render-timing loop"
    " and simple-event do so."
)
_NUMBERED = re.compile(
    r"[\"'](?:cuda|xpu|hip):([1-9]\d*)[\"']|torch\.device\(\s*[\"']cuda[\"']\s*,\s*([1-9]\d*)\s*\)"
)
_MAKES_CURRENT = re.compile(
    r"cuda\.set_device\(|with\s+[^:]*cuda\.device\(|CUDA_VISIBLE_DEVICES"
    r"|set_default_device\(\s*[\"']cuda:\d|Device\(\d+\)\.use"
)
_JOINS = re.compile(r"init_process_group\(")
_CHOOSES = re.compile(
    r"set_device\w*\(|CUDA_VISIBLE_DEVICES|device_id\s*=|init_device_mesh|Accelerator\(|deepspeed"
    r"|set_default_device"
)
_ENTERS = re.compile(r"with\s+[^:]*cuda\.device\(")
_RANK = r"((?:\w+\.)?(?:local_|global_)?rank(?:\(\))?|(?:\w+\.)*get_rank\(\))"
_BY_RANK = re.compile(
    rf"[\"'](?:cuda|xpu|hip):\{{{_RANK}\s*(?:%[^}}]*)?\}}"
    rf"|torch\.device\(\s*[\"']cuda[\"']\s*,\s*{_RANK}\s*(?:%[^)]*\(?\)?)?\)"
    rf"|[\"']cuda:[\"']\s*\+\s*str\(\s*{_RANK}\s*\)"
    rf"|\.(?:to|cuda)\(\s*{_RANK}\s*[,)]|\bdevice\s*=\s*{_RANK}\s*[,)]"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each wait for a device that does not do the work."""
    seen: set[int] = set()
    for region in source.regions.all:
        if region.hooked or region.kind == "harness":
            continue
        finder = _python if source.language == "python" else _cpp
        for report in finder(source, region):
            if id(report.node) not in seen:
                seen.add(id(report.node))
                yield report


def _python(source: SourceFile, region: Region) -> Iterator[Report]:
    yield from _of_rank(source, region)
    if _MAKES_CURRENT.search(source.tree.code):
        return
    work = [s for s in region.steps if s.works or r.BLOCKING in s.roles]
    waits = [s for s in region.steps if r.WAIT in s.roles and _names_no_device(source, s.node)]
    if not work or not waits:
        return
    device = _device_of(source, region, work)
    if device:
        wait = waits[-1]
        message = MESSAGE.format(
            call=callee_text(wait.node),
            waited="the current device, 0",
            work=work[-1].site.line,
            device=device,
        )
        yield Report(wait.node, message)


def _of_rank(source: SourceFile, region: Region) -> Iterator[Report]:
    """Waits of a process that puts its work on the device of its rank, and makes none current.

    Only where the file itself joins the process group: else the device is chosen in another one.
    """
    code = source.tree.code
    if not _JOINS.search(code) or _CHOOSES.search(code) or _within_device(source, region):
        return
    if any(of_one_rank(parent) for parent in region.end.ancestors()):
        return  # the first rank takes the time: its device is the current one
    work = [s for s in region.steps if s.works or r.BLOCKING in s.roles]
    device = _rank_device(source, region, work) if work else ""
    if not device:
        return
    # The last work before a wait, be it a warm-up before the region. A barrier waits for all of it.
    done: Step | None = None
    for step in source.flow.steps(region.scope):
        if step.works or is_barrier(step.node):
            done = None if is_barrier(step.node) else step
        waits = r.WAIT in step.roles and _names_no_device(source, step.node)
        if waits and done is not None and step.position < region.end.start:
            message = MESSAGE.format(
                call=callee_text(step.node),
                waited="device 0 in each rank, as none is made current",
                work=done.site.line,
                device=device,
            )
            yield Report(step.node, message)


def _within_device(source: SourceFile, region: Region) -> bool:
    """Whether a `with torch.cuda.device(...)` lies around the region or a call of the module."""
    blocks = [n for n in source.tree.root.walk() if n.kind == "with" and _ENTERS.search(n.text)]
    return any(
        block.start <= region.start.start < block.end
        or any(
            n.kind == "call" and last_segment(callee_text(n)) in source.scopes.functions
            for n in block.walk()
        )
        for block in blocks
    )


def _rank_device(source: SourceFile, region: Region, work: list[Step]) -> str:
    """The device of the process's rank, as it is written, where the operands were put on it."""
    for name in sorted(_operands(work)):
        for _, value in source.scopes.assignments(name, region.scope):
            texts = [value.text]
            for device in re.findall(r"(?:\.to\(|device\s*=\s*)\s*(\w+)\s*[,)]", value.text):
                texts += [v.text for _, v in source.scopes.assignments(device, region.scope)]
            for text in texts:
                found = _BY_RANK.search(text)
                if found:
                    return next(f"cuda:{{{group}}}" for group in found.groups() if group)
    return ""


def _operands(work: list[Step]) -> set[str]:
    """The variables that the work is given or that execute it."""
    leaves = (leaf for step in work for leaf in step.site.walk() if leaf.kind == "name")
    return {squeeze(leaf.text).partition(".")[0] for leaf in leaves}


def _names_no_device(source: SourceFile, call: Node) -> bool:
    full = source.scopes.resolve(callee_text(call))
    return not positional(call) and re.search(r"(cuda|xpu)\.synchronize$", full) is not None


def _device_of(source: SourceFile, region: Region, work: list[Step]) -> str:
    """The numbered device that the region's operands were put on, or ""."""
    for name in sorted(_operands(work)):
        for _, value in source.scopes.assignments(name, region.scope):
            found = _numbered(source, value.text, region.scope)
            if found:
                return found
    return ""


def _numbered(source: SourceFile, text: str, scope: Scope) -> str:
    """A numbered device in an expression: literally, or through a variable or a default value."""
    literal = _NUMBERED.search(text)
    if literal:
        return f"cuda:{literal[1] or literal[2]}"
    for name in set(re.findall(r"(?:\.to\(|device\s*=\s*|\.cuda\()\s*(\w+)", text)):
        for around in scope.enclosing():
            if name in around.parameters:
                params = around.node.child("params")
                default = (
                    re.search(rf"\b{name}\b[^,=]*=\s*([^,)]+)", params.text) if params else None
                )
                found = _NUMBERED.search(default[1]) if default else None
                if found:
                    return f"cuda:{found[1]}"
        for _, value in source.scopes.assignments(name, scope):
            found = _NUMBERED.search(value.text)
            if found and value.kind in ("string", "call"):
                return f"cuda:{found[1] or found[2]}"
    return ""


def _cpp(source: SourceFile, region: Region) -> Iterator[Report]:
    """Launches and the last wait with different cudaSetDevice calls before them."""
    switches = [
        n
        for n in region.scope.nodes
        if n.kind == "call" and re.search(r"(cuda|hip)SetDevice$", callee_text(n))
    ]
    if not switches:
        return
    work = [s for s in region.steps if s.works and not s.helpers]
    waits = [
        s
        for s in region.steps
        if r.WAIT in s.roles and re.search(r"DeviceSynchronize$", callee_text(s.node))
    ]
    if not work or not waits or waits[-1].position < work[-1].position:
        return
    current = [_current(switches, step.site.start) for step in (work[-1], waits[-1])]
    if (
        None in current
        or current[0] == current[1]
        or not all(re.fullmatch(r"\w+", str(c)) for c in current)
    ):
        return
    if any(region.inner_loops(n) for n in switches):
        return
    wait = waits[-1]
    call = last_segment(callee_text(wait.node))
    message = MESSAGE.format(call=call, waited=f"device {current[1]}",
                             work=work[-1].site.line, device=f"device {current[0]}")  # fmt: skip
    yield Report(wait.node, message)


def _current(switches: list[Node], position: int) -> str | None:
    before = [n for n in switches if n.end <= position]
    if not before:
        return None
    args = call_args(before[-1])
    return squeeze(args.text.strip("()")) if args else None

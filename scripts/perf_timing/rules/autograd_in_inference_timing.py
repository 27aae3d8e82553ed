"""Inference is measured while autograd records.

## What it does
Reports the call of a model in a measured region where the model was put in evaluation mode, nothing
runs backward, and neither no_grad nor inference_mode is in effect. Opt-in.

## Why it misleads
eval() does not switch autograd off. Each operator then also builds its node of the graph and keeps
its inputs alive: the host is slower, memory grows, and fused kernels may not be chosen.

## Known problems
A context that a caller in another file enters is not seen.

## Example
```python
import time
import torch

net = torch.nn.Linear(512, 512).cuda().eval()
net(x)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    net(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```

## Use instead
```python
import time
import torch

net = torch.nn.Linear(512, 512).cuda().eval()
with torch.inference_mode():
    net(x)
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    for _ in range(100):
        net(x)
    torch.cuda.synchronize()
    print((time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import Scope, callee_text, squeeze
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node

CODE = "TIM307"
LABEL = "NOGRAD"
DEFAULT = False
SEVERITY = "info"
LANGUAGES = ("python",)
MESSAGE = (
    "{model}() is measured in evaluation mode while autograd records; eval() alone does not"
    " switch it off"
)
NOTE = (
    "Wrap inference in torch.inference_mode(); render-timing simple-event measures what its"
    " setup switches on."
)
_OFF = re.compile(
    r"no_grad|inference_mode|set_grad_enabled\(\s*False|InferenceMode|requires_grad_\(\s*False"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each model call that autograd follows."""
    text = source.tree.text
    if "torch" not in text or ".backward(" in text:
        return
    seen: set[int] = set()
    for region in source.regions.all:
        for step in region.steps:
            node = step.node
            if not step.works or node.kind != "call" or id(node) in seen or step.helpers:
                continue
            name = callee_text(node)
            if _evaluated(source, name, region.scope, node) and not _switched_off(
                source, node, region.scope
            ):
                seen.add(id(node))
                yield Report(node, MESSAGE.format(model=name))


def _evaluated(source: SourceFile, name: str, scope: Scope, at: Node) -> bool:
    """Whether the called object was put in evaluation mode."""
    if re.search(rf"(?<![\w.]){re.escape(name)}\.eval\(\)", source.tree.text):
        return True
    value = source.scopes.definition(at, squeeze(name), scope)
    return value is not None and value.text.endswith(".eval()")


def _switched_off(source: SourceFile, node: Node, scope: Scope) -> bool:
    for parent in node.ancestors():
        if parent.kind == "with" and _OFF.search(
            " ".join(c.text for c in parent.children if c.kind == "item")
        ):
            return True
    for around in scope.enclosing():
        if any(_OFF.search(d.text) for d in around.decorators):
            return True
    if re.search(
        r"set_grad_enabled\(\s*False|InferenceMode\(|requires_grad_\(\s*False", source.tree.text
    ):
        return True
    sites = source.scopes.call_sites(scope)
    return bool(sites) and all(
        _switched_off(source, s, source.scopes.scope_of(s))
        for s in sites
        if source.scopes.scope_of(s) is not scope
    )

"""The operands of a measured matrix product hold one constant.

## What it does
Reports torch.ones, zeros and full (and CuPy's) whose result is an operand of a measured product,
convolution or attention. Opt-in: it matters where the device is limited by power.

## Why it misleads
Power depends on the bits that toggle. Constant operands draw less, the clock stays higher, and the
kernel looks several per cent faster than with real data; some libraries also skip zeros.

## Known problems
Kernels that are not near the power limit do not care.

## Example
```python
import torch

left = torch.ones(4096, 4096, device="cuda")
right = torch.ones(4096, 4096, device="cuda")
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
torch.matmul(left, right)
start.record()
for _ in range(50):
    torch.matmul(left, right)
end.record()
end.synchronize()
print(start.elapsed_time(end) / 50)
```

## Use instead
```python
import torch

left = torch.randn(4096, 4096, device="cuda")
right = torch.randn(4096, 4096, device="cuda")
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
torch.matmul(left, right)
start.record()
for _ in range(50):
    torch.matmul(left, right)
end.record()
end.synchronize()
print(start.elapsed_time(end) / 50)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text, last_segment, positional, squeeze
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node

CODE = "TIM305"
LABEL = "CONST-INPUT"
DEFAULT = False
SEVERITY = "info"
LANGUAGES = ("python",)
MESSAGE = (
    "{call}() fills an operand of the measured {work} with one constant; power draw and time"
    " are lower than with real data"
)
NOTE = (
    "Fill operands with random values of the usual range; render-timing simple-event leaves"
    " the inputs to you."
)
_PRODUCT = re.compile(
    r"(^|[._])(matmul|mm|bmm|addmm|einsum|linear|gemm\w*|\w*gemm|conv\d?d?"
    r"|\w*attention\w*|dot|baddbmm|scaled_mm|_scaled_mm|tensordot)$"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each constant operand."""
    seen: set[int] = set()
    for region in [*source.regions.all, *source.regions.harnessed]:
        for step in region.steps:
            if not step.works or not _is_product(step):
                continue
            work = "matrix product" if step.node.kind == "binary" else callee_text(step.node)
            for fill in _fills(source, step):
                if id(fill) not in seen:
                    seen.add(id(fill))
                    yield Report(
                        fill, MESSAGE.format(call=last_segment(callee_text(fill)), work=work)
                    )


def _is_product(step: Step) -> bool:
    node = step.node
    if node.kind == "binary":
        return "@" in node.text
    return node.kind == "call" and bool(_PRODUCT.search(callee_text(node)))


def _fills(source: SourceFile, step: Step) -> Iterator[Node]:
    operands = step.node.children if step.node.kind == "binary" else positional(step.node)
    for operand in operands:
        scope = source.scopes.scope_of(operand)
        if operand.kind != "name":
            continue
        value = source.scopes.definition(operand, squeeze(operand.text), scope)
        if (
            value is not None
            and value.kind == "call"
            and re.search(
                r"(^|\.)(ones|zeros|full|ones_like|zeros_like|full_like)$", callee_text(value)
            )
        ):
            yield value

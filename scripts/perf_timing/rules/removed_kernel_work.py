"""A measured kernel computes in a loop but stores nothing, so the compiler removes the loop.

## What it does
Reports the loop of a kernel that is launched in the file and has no store: no assignment through a
pointer or an index, no atomic, no call that gets a pointer. Opt-in.

## Why it misleads
The compiler drops work whose result is unused. The launch then measures an empty kernel, and the
figure is far above what the device can do.

## Known problems
Kernels that write through inline assembly or through functions of another file are not reported.

## Example
```cuda
__global__ void peak(float seed, int n) {
  float a = seed;
  for (int i = 0; i < n; ++i) a = fmaf(a, a, 0.5f);
}
int main() {
  peak<<<80, 256>>>(1.f, n);
  cudaEventRecord(start);
  peak<<<80, 256>>>(1.f, n);
  cudaEventRecord(stop);
}
```

## Use instead
```cuda
__global__ void peak(float seed, int n, float *out) {
  float a = seed;
  for (int i = 0; i < n; ++i) a = fmaf(a, a, 0.5f);
  if (a == 123.f) out[threadIdx.x] = a;
}
int main() {
  peak<<<80, 256>>>(1.f, n, out);
  cudaEventRecord(start);
  peak<<<80, 256>>>(1.f, n, out);
  cudaEventRecord(stop);
}
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import Scope, callee_text, positional
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.files import evidence

CODE = "TIM702"
LABEL = "DEADCODE"
DEFAULT = False
SEVERITY = "warning"
LANGUAGES = ("cuda",)
TRIGGER = evidence.measures_kernels
MESSAGE = (
    "kernel {name} stores no result; the compiler removes this loop and the launch measures"
    " an empty kernel"
)
NOTE = (
    "Store the result under a condition that the compiler cannot decide; render-timing"
    " raw-cuda leaves the kernel to you."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each kernel whose loop has no effect."""
    for kernel in source.scopes.all:
        if "__global__" not in kernel.node.text[:200] or not kernel.is_kernel or _stores(kernel):
            continue
        loops = [n for n in kernel.nodes if n.kind in ("for", "while")]
        if loops and re.search(rf"\b{re.escape(kernel.short_name)}\b[^;{{]*<<<", source.tree.text):
            yield Report(loops[0], MESSAGE.format(name=kernel.short_name))


def _stores(kernel: Scope) -> bool:
    declared = [n for n in kernel.nodes if n.kind == "decl"]
    locals_ = {leaf.text for n in declared for leaf in n.walk() if leaf.kind == "name"}
    body = kernel.body
    text = body.text if body else ""
    if re.search(
        r"\basm\b|\bclock(64)?\s*\(|globaltimer|nanosleep|atomic\w+\s*\(|surf\w+write|__st\w+|store|printf"
        r"|\*\s*\w+\s*(\+\+)?\s*[-+*/|&^]?=[^=]|volatile",
        text,
    ):
        return True
    for node in kernel.nodes:
        if node.kind == "assign" and node.children:
            target = node.children[0]
            if (
                target.kind in ("subscript", "attribute")
                and target.text.partition("[")[0].strip() not in locals_
            ):
                return True
            if target.kind == "name" and re.search(r"->|\.", target.text):
                return True
        if node.kind == "call":
            name = callee_text(node)
            if any(
                re.match(r"&", a.tree.text[a.start - 1 : a.start] or " ") for a in positional(node)
            ):
                return True
            if not re.match(
                r"(__)?(fma|sin|cos|exp|log|sqrt|rsqrt|pow|min|max|abs|fabs|tanh"
                r"|syncthreads|ldg|shfl\w*|clock\w*|float\w*|int\w*|make_\w+|static_cast"
                r"|expf|logf|mul|add|hfma\w*|hadd\w*|hmul\w*|dp4a)",
                name,
            ):
                return True
    return False

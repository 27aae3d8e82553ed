"""A measured launch is never checked for an error.

## What it does
Reports a kernel launch inside a measured region where the function reads no error afterwards:
no cudaGetLastError or cudaPeekAtLastError, and no checked call that waits. Opt-in.

## Why it misleads
A launch that fails (too many threads, too much shared memory) runs nothing and takes microseconds.
In a sweep it wins, with a figure that no device can reach.

## Known problems
Checks in a macro that is defined in another file are recognised by CHECK or ERROR in their names.

## Example
```cuda
int main() {
  cudaEventRecord(start);
  scale<<<256, 4096>>>(x);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
  printf("%f ms\\n", ms);
}
```

## Use instead
```cuda
int main() {
  scale<<<256, 256>>>(x);
  for (int i = 0; i < 30; ++i) {
    cudaEventRecord(start);
    scale<<<256, 256>>>(x);
    if (cudaGetLastError() != cudaSuccess) return 1;
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  printf("%f ms\\n", times[15]);
}
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region

CODE = "TIM701"
LABEL = "NOERRCHECK"
DEFAULT = False
SEVERITY = "info"
LANGUAGES = ("cuda",)
MESSAGE = (
    "the error of this launch is never read; a launch that fails is measured as a very fast one"
)
NOTE = (
    "Read cudaGetLastError() after the launch and check the wait; render-timing raw-cuda does so."
)
_CHECK = re.compile(
    r"(cuda|hip)(GetLastError|PeekAtLastError)|getLastCudaError|(CHECK|ERROR|Check|check"
    r"|CK|gpuErr|safe|assert|HANDLE|TRY|CUDA_CALL|CUDA|HIP|CHK)\w*\s*\(\s*(cuda"
    r"|hip)(DeviceSynchronize|StreamSynchronize|EventSynchronize|Memcpy)"
    r"|(if|=|return)\s*\(?\s*(cuda|hip)(DeviceSynchronize|StreamSynchronize"
    r"|EventSynchronize)|CHECK_KERNEL|CUDA_CHECK_LAST|KERNEL_CHECK|check_kernel"
    r"|LAUNCH_CHECK|CUDA_KERNEL_LAUNCH|(?i:check_?\w*err\w*|err\w*check)\s*\(\s*(\)|\")"
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for the first unchecked launch of each measured region."""
    seen: set[int] = set()
    for region in source.regions.all:
        for step in region.steps:
            node = step.node
            if node.kind != "launch" or id(node) in seen:
                continue
            seen.add(id(node))
            if not _checked(source, node, region):
                yield Report(node, MESSAGE)
                break


def _checked(source: SourceFile, launch: Node, region: Region) -> bool:
    own = source.scopes.scope_of(launch)
    text = source.tree.text
    if _CHECK.search(text[launch.end : own.node.end]):
        return True
    # A launch in a helper: the function that measures may check for it.
    return own is not region.scope and bool(
        _CHECK.search(text[region.start.start : region.scope.node.end])
    )

"""Whether measuring is what a piece of Python is for.

Rules that judge how well something is measured (its warm-up, its spread, what stands in the
measured loop) ask this first, with BENCHMARK_ONLY. A server, a demo or a training script also takes
times, end to end and once; nobody reads a kernel's speed from those. Two things tell:

- a name that speaks of measuring: of the file, its folder, a function or a class around the place;
- how much of the file is about time: a reading, an event or a wait in every 33 lines; or of the
  block under `if __name__ == "__main__"`, where that times repetitions.

On public code that neither tells, none of 31 such findings was right; see lint-accuracy.md.
CUDA C++ and notebooks are always asked: they are programs of one purpose.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perf_timing.lint.engine import SourceFile
    from perf_timing.lint.facts import Node

_NAMES = re.compile(
    r"bench|perf(?!etto)|profil|timing|timer|latenc|throughput|speed|flops|gemm|elapsed"
    r"|stopwatch|roofline|bandwidth",
    re.IGNORECASE,
)
_TIMING = re.compile(
    r"perf_counter|\btime\.time\(|\btime\(\)|Event\(|elapsed_time\(|synchronize\(|monotonic\(|timeit"
    r"|do_bench|\.record\(|process_time|Timer\(|\btimer\(\)|block_until_ready"
)
_SHARE = 0.03


def is_measuring(source: "SourceFile", node: "Node") -> bool:
    """Whether the code around `node` is there to measure something."""
    unit = source.unit
    if unit.language != "python" or unit.places or _is_about_time(unit.text):
        return True
    return is_named_so(source, node) or _is_trial(node)


def _is_trial(node: "Node") -> bool:
    """Whether `node` stands in the block of a module's `__main__` that times repetitions.

    That is how people try the model of a file; what a program does there takes no times of a loop.
    """
    for parent in node.ancestors():
        if parent.kind == "if" and _MAIN.search(parent.children[0].text):
            text = parent.text
            return _REPEATS.search(text) is not None and _is_about_time(text)
    return False


_MAIN = re.compile(r"__name__\s*==\s*[\"']__main__[\"']")
_REPEATS = re.compile(r"^\s*for\s+\w+\s+in\s+(tqdm\()?range\(", re.MULTILINE)


def is_named_so(source: "SourceFile", node: "Node") -> bool:
    """Whether the file, its folder, a function or a class around `node` speaks of measuring."""
    names = list(_places(source.unit.path))
    for scope in source.scopes.scope_of(node).enclosing():
        names += [scope.name, scope.class_name]
    return any(_NAMES.search(name) for name in names)


@lru_cache(maxsize=2)  # every report of a file asks
def _is_about_time(text: str) -> bool:
    return len(_TIMING.findall(text)) >= _SHARE * (text.count("\n") + 1)


def _places(path: str) -> tuple[str, ...]:
    """Names of the file and its folder, the same from wherever the linter is called."""
    return Path(path).absolute().parts[-2:] if path else ()

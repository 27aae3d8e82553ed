"""Whether the warm-up that C++ code speaks of has warmed other work than what is measured.

Such is a kernel of its own called warmup(), the first of several kernels that are held against each
other, or a block that allocates and does no more. What is measured then runs for the first time
where it is measured, and pays for what it loads. Judged is only what the file shows whole: neither
what ran since the remark, nor what is measured, may be a guess.
"""

import re

from perf_timing.lint import roles as r
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.warmup import warm_words
from perf_timing.lint.work import workload


def warms_others(source: SourceFile, region: Region) -> bool:
    """Whether what ran since the remark on a warm-up is shown, and is not what a region measures.

    Asked of a region whose work is not found before it.
    """
    steps = [s for s in workload.works(region) if not _only_moves(s)]
    start, around = region.begins, region.scope.node.start
    marks = [low for low, _ in warm_words.spots(source, None) if around <= low < start]
    if source.language != "cuda" or not steps or not marks or _is_asked_later(source, region):
        return False
    ran = [s for s in source.flow.between(region.scope, marks[0], start) if _may_run(s)]
    if not all(map(_is_told, [*steps, *ran])) or not (ran or region.scope.name == "main"):
        return False
    calls = (n for n in region.scope.nodes if n.kind == "call" and marks[0] < n.end <= start)
    unseen = [n for n in calls if source.scopes.called_function(n, region.scope) is None]
    if warm_words.named_so(unseen):
        return False
    names = map(callee_text, unseen if any(s.node.kind != "launch" for s in steps) else ())
    return all(_OF_LIBRARY.match(name) or words.CPP_HOST.match(name) for name in names)


def _only_moves(step: Step) -> bool:
    """Whether a step only copies memory, or gives it a value."""
    return r.COPY in step.roles or workload.fills(step)


def _may_run(step: Step) -> bool:
    return bool(step.roles & {r.WORK, r.OPAQUE, r.HARNESS}) and not _only_moves(step)


def _is_told(step: Step) -> bool:
    """Whether a step is known to be a launch or a library call, and which."""
    return not step.roles & {r.OPAQUE, r.LIKELY, r.HARNESS}


def _is_asked_later(source: SourceFile, region: Region) -> bool:
    """Whether a loop that takes samples, or what becomes of them, asks for the warm-up again."""
    text, loops = source.tree.text, region.sample_loops
    spans = [(loop.start, loop.end) for loop in loops]
    spans += [(region.end.end, region.scope.node.end)] if loops else []
    return any(warm_words.WARM.search(text, low, high) for low, high in spans)


# Names of libraries, and of macros, which run nothing but what they are for.
_OF_LIBRARY = re.compile(
    r"(cu|hip|roc|nccl)(da|blas|dnn|fft|sparse|solver|rand)?[A-Z_]|dim3$|[A-Z_\d]+$"
)

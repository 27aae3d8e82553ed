"""Where a file speaks of a warm-up: in a name, in a text or in a remark."""

import bisect
import re
from functools import lru_cache

from perf_timing.lint.code.scopes import Scope, callee_text, last_segment
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.warmup import context_warmups, idle_loops

WARM = re.compile(
    r"warm|burn.?in|dry.?run|discard|skip_first|skip_iter|first_iter|untimed|prime_"
    r"|preheat|pre_?run"
    r"|\u9884\u70ed|\u70ed\u8eab",
    re.IGNORECASE,
)


def named_so(calls: list[Node]) -> bool:
    """Whether one of some calls is a warm-up by its name, whatever it runs."""
    return any(WARM.search(last_segment(callee_text(call))) for call in calls)


_SUPPRESSION = re.compile(r"lint-timing:[^\n]*")
_SCHEDULE = re.compile(r"\bschedule\([^()]*\)")


@lru_cache(maxsize=8)
def spots(source: SourceFile, module: Scope | None) -> tuple[tuple[int, int], ...]:
    """Where a file speaks of a warm-up; with a module, in code outside of its functions."""
    # To silence missing-warmup by its name is no warm-up.
    # Nor are the steps that a profiler leaves out.
    text = _SUPPRESSION.sub(lambda found: " " * len(found[0]), source.tree.text)
    if "profiler" in text:
        text = _SCHEDULE.sub(lambda found: " " * len(found[0]), text)
    idle = (*context_warmups.spans(source), *idle_loops.spans(source))
    told = [
        found.span()
        for found in WARM.finditer(text)
        if not any(low <= found.start() < high for low, high in idle)
    ]
    if module is None:
        return tuple(told)
    functions = sorted((c.node.start, c.node.end) for c in module.children)
    starts = [start for start, _ in functions]
    held = [bisect.bisect_right(starts, start) - 1 for start, _ in told]
    return tuple(
        spot for spot, at in zip(told, held, strict=True) if at < 0 or functions[at][1] <= spot[0]
    )

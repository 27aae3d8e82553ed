"""Loops of Python that never run: for a number of rounds that the file sets to 0 and leaves there.

    num_warmup_steps = 0
    # warmup
    for _ in range(num_warmup_steps):

Whoever switches a warm-up off so leaves its names and remarks in the code.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from perf_timing.lint.code.scopes import squeeze
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node


@lru_cache(maxsize=8)
def spans(source: SourceFile) -> tuple[tuple[int, int], ...]:
    """From where to where such loops stand, with the remarks above, and their numbers are set."""
    loops = source.tree.of_kind("for") if source.language == "python" else ()
    return tuple(span for loop in loops for span in _idle(source, loop))


def _idle(source: SourceFile, loop: Node) -> Iterator[tuple[int, int]]:
    counted = _COUNTED.fullmatch(squeeze(loop.children[1].text)) if len(loop.children) > 1 else None
    if counted is None:
        return
    text = source.tree.text
    if counted[1] != "0":
        given = list(re.finditer(rf"\b{counted[1]}\s*(?::[^=\n]*)?[-+*/|]?=(?!=)\s*(\S*)", text))
        passed = any(counted[1] in scope.parameters for scope in source.scopes.all)
        if passed or len(given) != 1 or given[0][1] != "0":
            return
        yield given[0].span()
    yield source.first_remark(text.rfind("\n", 0, loop.start) + 1), loop.end


_COUNTED = re.compile(r"t?range\((?:0,)?(0|[A-Za-z_]\w*)\)")

"""What the functions do that were blanked for having no part in timing (elide.py).

They neither time nor mark anything, but one may well wait for the device: it writes results that it
fetches first. A rule that is about to report that nothing waits asks here.
"""

import re

from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.measured.regions import Region

_WAITS = re.compile(r"\.(item|cpu|tolist|numpy|get)\(\)|synchronize\(|asnumpy\(|device_get\(")


def waits_after(source: SourceFile, region: Region, left: Step) -> bool:
    """Whether a region calls such a function, after a step, in which the host waits."""
    whole = source.unit.whole
    if not whole or source.language != "python":
        return False
    called = {
        callee_text(node)
        for node in region.scope.nodes
        if node.kind == "call" and left.position <= node.start and region.holds(node)
    }
    return any(_WAITS.search(_body(whole, name)) for name in called if name.isidentifier())


def _body(whole: str, name: str) -> str:
    """The text of a function of the module, "" where there is none."""
    head = re.search(rf"^def {name}\(", whole, re.MULTILINE)
    if head is None:
        return ""
    end = re.compile(r"^(?=[^\s#)])", re.MULTILINE).search(whole, head.end())
    return whole[head.start() : end.start() if end else len(whole)]

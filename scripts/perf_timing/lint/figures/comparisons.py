"""Whether a measured time is held against another one: divided by it, or asked which is longer.

    print(f"{eager / fused:.1f}x"), assert fused < eager, if ours > 2 * theirs:

Whoever does so measures, whatever the file is called, and each of the two times is a figure.
"""

from collections.abc import Iterator

from perf_timing.lint.code.scopes import leaf_names, operator
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.work import workload


@remembered
def with_another(source: SourceFile, region: Region) -> bool:
    """Whether Python code holds a time against that of other work of the device.

    Two times from one start are no two measurements: how long until launched, until done.
    """
    if source.language != "python" or region.carried:
        return False
    mine = fates.fate(source, region).names
    others = {
        name
        for other in source.regions.all
        if other.start is not region.start and other.scope is region.scope and not other.carried
        if other.kind in ("clock", "event") and workload.works(other)
        for name in fates.fate(source, other).names - mine
    }
    uses = (use for name in mine for use in source.uses(name, region.scope)) if others else ()
    return any(leaf_names(side) & others for use in uses for side in _held_against(use))


def _held_against(use: Node) -> Iterator[Node]:
    """The other sides of the quotients and comparisons in which a value stands."""
    child = use
    for parent in use.ancestors():
        if parent.kind in ("binary", "compare") and operator(parent)[:1] in ("/", "<", ">"):
            yield from (side for side in parent.children if side is not child)
        elif parent.kind in ("block", "module", "call"):
            return
        child = parent

"""Searches for the fastest of several configurations: each is timed, and the least time decides.

    if (ms < best_ms) { best_ms = ms; best_threads = threads; }

Each iteration times another candidate, so that its least time is no minimum of repetitions: the
first candidate pays for what is loaded, and one execution of each decides.
"""

import re

from perf_timing.lint.code.scopes import leaf_names, loop_body, loops_around, target_key
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.work import workload


@remembered
def decides(source: SourceFile, region: Region) -> bool:
    """Whether the time of a region decides which candidate of the loop around it is kept."""
    if not region.sample_loops or region.kind not in ("clock", "event"):
        return False
    loop, times = region.sample_loops[0], fates.fate(source, region).names
    given = set().union(*(leaf_names(step.site) for step in workload.works(region)))
    candidates = given & _new_each_time(loop)
    return any(
        _keeps_both(branch, times, candidates)
        for branch in region.scope.nodes
        if branch.kind == "if" and loops_around(branch)[:1] == [loop]
    )


def _keeps_both(branch: Node, times: set[str], candidates: set[str]) -> bool:
    """Whether a branch for the least time keeps it, and beside it which candidate took it."""
    kept = [n for child in branch.children[1:] for n in child.walk() if n.kind == "assign"]
    least = {target_key(n.children[0]) for n in kept} & times & leaf_names(branch.children[0])
    asked = re.search(r"(?<![<>-])[<>](?![<>])", branch.children[0].text)
    return bool(least and asked) and any(
        leaf_names(n.children[-1]) & candidates
        for n in kept
        if target_key(n.children[0]) not in times
    )


def _new_each_time(loop: Node) -> set[str]:
    """The names to which each iteration of a loop gives another value."""
    body = loop_body(loop)
    counters = {
        n.text for c in loop.children if c is not body for n in c.walk() if n.kind == "name"
    }
    made = {target_key(n.children[0]) for n in loop.walk() if n.kind == "assign"}
    return counters | made

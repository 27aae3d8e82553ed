"""Measured work that a file does not show: functions of other files, and events recorded there.

Whether such a function gives the device work is not known. For a rule that says nothing about how
the work is timed, only about what is told of the times, this is enough: the file computes on a
device, and what stands between the readings is a call that is no helper of the host.
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code import elsewhere_cpp
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import callee_text, last_segment, loops_around, positional
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region, remembered

# What prepares or looks at data, or compares with a result of the host.
_BESIDE = re.compile(
    r"(?<![a-z])(pre|post)_?proc|letterbox|(?<![a-z])nms|suppress|token(?!_?(step|gen))|resiz|normali[sz]e"
    r"|transform_|collat|augment|plot|draw|visuali[sz]|annotat|imread|imwrite|decode|encode|pars"
    r"|search|quer|retriev|index|insert|lookup|hash|sort|sampl|shuffl|pack|chunk|download|upload"
    r"|fetch|request|connect|send|recv|respon|api|http|copy|convert|metric|score(?!r)|evaluat|loss"
    r"|memor|alloc|cache|import|compil|build|load|save|read_|write|open|close|thread|process_?pool"
    r"|(?<![a-z])(cpu|host|ref|reference|serial|sequential|naive_cpu|gold|golden|verify|check|omp)"
    r"(?![a-z])|(?<=[a-z0-9])(CPU|Host|Cpu|Serial|Sequential)(?![a-z])",
    re.IGNORECASE,
)


@remembered
def works(source: SourceFile, region: Region) -> bool:
    """Whether a region waits for the device, or calls what may well give it work, in a loop."""
    if not source.on_device or not region.is_plain or not loops_around(region.delta):
        return False
    if region.kind == "event" and region.start is region.end:
        return True
    if any(s.roles & {r.SLEEP, r.JOIN} for s in region.steps):
        return False
    if any(r.WAIT in s.roles and r.CLOCK not in s.roles for s in region.steps):
        return True
    if source.means_host_time(region):
        return False
    calls = [n for n in region.scope.nodes if n.kind == "call" and region.holds(n)]
    if region.kind == "event":  # whoever records events around a call means the device
        return any(_is_given_data(source, region, call) for call in calls)
    return any(_may_work(source, region, call) for call in calls)


def _is_given_data(source: SourceFile, region: Region, call: Node) -> bool:
    """Whether a call gets more than numbers and texts, and is no output."""
    given = any(value.kind not in ("number", "string") for value in positional(call))
    return given and r.IO not in source.roles.of(call, region.scope)


def _may_work(source: SourceFile, region: Region, call: Node) -> bool:
    """Whether a call is one of a function of another file that is no helper of the host."""
    name, short = callee_text(call), last_segment(callee_text(call))
    if _BESIDE.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)):
        return False
    if source.roles.of(call, source.scopes.scope_of(call)):
        return False
    if source.scopes.called_function(call, region.scope) is not None:
        return False
    if source.language == "cuda":
        plain = re.fullmatch(r"(\w+(::|\.|->))*\w+(\s*<.*>)?", name, re.DOTALL) is not None
        if not plain or name.startswith(("std::", "chrono::")) or name.isupper():
            return False
        known = words.CPP_OTHER.match(short) or words.CPP_VENDOR.match(short) or _is_given(call)
        return not known and source.leaves_device(call) != elsewhere_cpp.HOST
    if short == "apply" and len(positional(call)) > 1:
        return True  # that of a torch.autograd.Function; a module's applies one function
    return not _is_on_host(source, name)


def _is_given(call: Node) -> bool:
    """Whether a call is an argument of another one, which is no macro that checks its status."""
    outer = next((p for p in call.ancestors() if p.kind in ("call", "block", "for")), None)
    return outer is not None and outer.kind == "call" and not callee_text(outer).isupper()


def _is_on_host(source: SourceFile, name: str) -> bool:
    """Whether a Python function is one of the host by its module or by its name."""
    full, short = source.scopes.resolve(name), last_segment(name)
    return bool(
        name in words.HOST_CALLS
        or full.partition(".")[0] in words.HOST_MODULES
        or short in words.HOST_METHODS
        or words.HOUSEKEEPING.match(short)
        or words.HOST_VERB.search(name)
        or words.MAKES_DATA.match(short)
        or words.NOT_MODEL.search(short)
        or not re.fullmatch(r"[\w.]+", name)
    )


def event_regions(source: SourceFile) -> Iterator[Region]:
    """Times between two events that the file creates and hands to functions which record them."""
    for pair in source.regions.pairs:
        if pair.start is None and pair.end is None and loops_around(pair.call):
            at = pair.call
            yield Region("event", pair.scope, at, at, at, at, ((at.start, at.end),))

"""Whether the work of a region ran before its first sample, or is said to have been warmed up.

`warmed` asks all of it: the same function or kernel ran before, in this function or in a caller; a
warm-up is named in the code or in a comment; the clock starts in a later iteration; or the first
samples do not count (dropped_samples.py). What Python code runs in one mode of the program only
(`in_one_mode`), and what C++ code leaves out for this one case (`sparing`), warms up nothing.
"""

import bisect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from perf_timing.lint import roles as r
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step, exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    call_args,
    callee_text,
    is_dropped,
    last_segment,
    loop_header,
    loops_around,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.warmup import dropped_samples, foreign_warmups, idle_loops, warm_words
from perf_timing.lint.work import workload


def in_google_benchmark(source: SourceFile, region: Region) -> bool:
    """Whether the loop around C++ samples is Google Benchmark's, which runs the function before.

    It looks for the number of iterations with runs of few, and reports the last run only.
    """
    heads = [loop_header(loop).rstrip() for loop in region.sample_loops]
    text = source.tree.text
    return source.language == "cuda" and any(words.is_google_loop(head, text) for head in heads)


@remembered
def backward_is_new(source: SourceFile, region: Region) -> bool:
    """Whether the warm-up that the function shows is of the forward pass alone.

    The backward pass launches other kernels, and allocates the gradients, when it first runs.
    """
    ends = [s.node for s in region.steps if workload.is_backward(s.node)]
    through = set().union(*(workload.differentiated(node) for node in ends)) if ends else set()
    start = region.begins
    outer = [s for s in region.scope.enclosing() if s.node.kind == "function"][:1]
    if not through or not outer:
        return False
    before = [
        n for s in (region.scope, *outer) for n in s.nodes if n.kind == "call" and n.end <= start
    ]
    forward = any(callee_text(n) in through for n in before)
    gone_back = any(
        workload.is_backward(s.node)
        and (not (known := workload.differentiated(s.node)) or known & through)
        for s in source.flow.steps(region.scope)
        if s.position <= start
    )
    return forward and not gone_back and not warm_words.named_so(before)


def warmed(source: SourceFile, region: Region) -> bool:
    """Whether the region's work had run before its first sample, or the first does not count."""
    if backward_is_new(source, region) and not dropped_samples.drops_samples(source, region):
        return False
    steps = workload.works(region)
    mine = workload.telling_identities(steps)
    scope = region.scope
    start = region.begins
    kernels = () if workload.only_copies(region) else mine  # a copy is warm when anything ran
    if starts_late(region):
        return True
    ran = _ran_before(source, scope, start, mine, _is_spared(source, region))
    if ran and not _mostly_new(source, region):
        return True
    if _named_warm(source, scope, start, kernels) and not foreign_warmups.warms_others(
        source, region
    ):
        return True
    if _handed_on(source, scope, start, steps) or harness_of(source, scope) is not None:
        return True
    # That a caller runs a model, or warms that up, says nothing of the way back through it.
    back = [s for s in steps if workload.is_backward(s.node) and workload.differentiated(s.node)]
    return _warm_callers(
        source, scope, back or steps, workload.telling_identities(back or steps), 0
    ) or dropped_samples.drops_samples(source, region)


def _mostly_new(source: SourceFile, region: Region) -> bool:
    """Whether C++ code launches several kernels, of which few have run before in its function."""
    steps = workload.works(region)
    launches = {s.node.children[0].text: s for s in steps if s.node.kind == "launch"}
    if len(launches) < _SEVERAL or any(s.helpers or s.node.kind != "launch" for s in steps):
        return False
    ran = [
        step
        for step in launches.values()
        if _ran_before(source, region.scope, region.begins, workload.identities(step))
    ]
    return _SEVERAL * len(ran) <= len(launches)


_SEVERAL = 3


def starts_late(region: Region) -> bool:
    """Whether the loop that is measured starts its clock in a later iteration: if (i == 1)."""
    return late_start(region) is not None


def late_start(region: Region) -> tuple[Node, str] | None:
    """The loop that starts the clock in a later iteration, and what its counter is then."""
    around = {id(loop) for loop in loops_around(region.end)}
    for loop in loops_around(region.start):
        if id(loop) in around or len(loop.children) < 2:
            continue
        head = loop_header(loop)
        for parent in region.start.ancestors():
            if parent is loop:
                break
            for asked in _later_turns(parent.children[0].text) if parent.kind == "if" else ():
                if re.search(rf"\b{asked[1]}\b", head):
                    return loop, asked[2]
    return None


def _later_turns(condition: str) -> Iterator[re.Match[str]]:
    """The parts of a condition that all have to hold which ask a counter for a turn but the first.

    perf_test && i == 1, or do_bench and i == warmup
    """
    for part in re.split(r"&&|\band\b", condition):
        asked = _LATER.fullmatch(squeeze(part))
        if asked:
            yield asked


_LATER = re.compile(r"\(*(\w+)==(?!0\)*$)(\w+)\)*")


def ran_before(source: SourceFile, scope: Scope, position: int, steps: list[Step]) -> bool:
    """Whether the work of `steps` ran before `position`, in the scope or in a caller."""
    mine = workload.telling_identities(steps)
    if _named_warm(source, scope, position) or _ran_before(source, scope, position, mine):
        return True
    return _handed_on(source, scope, position, steps) or _warm_callers(
        source, scope, steps, mine, 0
    )


def warmed_inside(source: SourceFile, region: Region, steps: list[Step]) -> bool:
    """Whether the function that measures runs the work of `steps` before it starts to."""
    mine = workload.telling_identities(steps)
    start = region.begins
    return _named_warm(source, region.scope, start) or _ran_before(
        source, region.scope, start, mine
    )


def warms_up(source: SourceFile, region: Region) -> bool:
    """Whether a Python function repeats the work before, and says that this warms it up.

    Who does so is there to measure, whatever the file is called.
    """
    start, mine = region.begins, workload.telling_identities(workload.works(region))
    return (
        source.language == "python"
        and region.scope.node.kind == "function"
        and _between(source, warm_words.spots(source, None), region.scope.node.start, start)
        and any(
            loops_around(s.site) and workload.identities(s) & mine
            for s in source.flow.steps(region.scope)
            if s.position <= start
        )
    )


def _handed_on(source: SourceFile, scope: Scope, position: int, steps: list[Step]) -> bool:
    """Whether an object that was built with the measured callable has run before."""
    called = {callee_text(s.site) for s in steps if s.site.kind == "call"}
    holders = {
        last_segment(callee_text(n))
        for n in scope.nodes
        if n.kind == "call"
        and n.end <= position
        and {squeeze(a.text) for a in positional(n)} & called
    }
    return any(
        h.class_name in holders
        for step in source.flow.steps(scope)
        if step.position <= position and step.works
        for h in step.helpers[:1]
    )


def harness_of(source: SourceFile, scope: Scope) -> Node | None:
    """The call of a benchmark helper, which warms up by itself, that is handed a function."""
    if not scope.name or source.language != "python":
        return None
    return next(
        (
            call
            for call in source.scopes.calls
            if call.kind == "call"
            and any(squeeze(a.text) == scope.short_name for a in positional(call))
            and r.HARNESS in source.roles.of(call, source.scopes.scope_of(call))
        ),
        None,
    )


def _ran_before(
    source: SourceFile,
    scope: Scope,
    position: int,
    mine: set[str],
    left_out: Callable[[Node], bool] = lambda node: False,
) -> bool:
    for step in source.flow.steps(scope):
        if step.position > position:
            break
        runs = step.works or step.roles & {r.BLOCKING, r.OPAQUE, r.HARNESS, r.COPY}
        if not runs or in_one_mode(source, step.site.start, position):
            continue
        if workload.identities(step) & mine and not left_out(step.site):
            return True
    if _called_before(source, scope, position, mine, left_out):
        return True
    if scope.parent is not None and scope.parent.node.kind != "module":
        return _ran_before(source, scope.parent, scope.node.start, mine)
    return False


@remembered
def sparing(source: SourceFile, region: Region) -> list[Node]:
    """The branches of C++ code that are not taken for one value of what all the work is given.

    if (kernel != 0) run(kernel, x); then run(0, x) is first run where it is measured.
    """
    steps = workload.works(region)
    given = [{squeeze(a.text) for a in positional(s.site)} for s in steps if s.site.kind == "call"]
    if source.language != "cuda" or len(given) != len(steps) or not steps:
        return []
    common = set.intersection(*given)
    around = {id(parent) for parent in region.start.ancestors()}
    found = []
    for node in region.scope.nodes:
        if node.kind == "if" and len(node.children) == 2 and id(node) not in around:
            asked = _ALL_BUT.fullmatch(squeeze(node.children[0].text))
            if asked and asked[1] in common and node.end <= region.begins:
                found.append(node)
    return found


def _is_spared(source: SourceFile, region: Region) -> Callable[[Node], bool]:
    """What tells of work that it is not sure to run before a region, or never runs before it."""
    branches = sparing(source, region)
    return lambda node: (
        any(branch.start <= node.start < branch.end for branch in branches)
        or (source.language == "cuda" and exclusive(node, region.start))
    )


def _runs_instead(source: SourceFile, node: Node, call: Node) -> bool:
    """Whether Python code runs where a call does not: if backend == "a": ... elif backend == "b":

    A loop around both may take one branch after the other, and so may two callers.
    """
    if source.language != "python" or not exclusive(node, call):
        return False
    sites = source.scopes.call_sites(source.scopes.scope_of(call))
    around = {id(loop) for loop in loops_around(node)}
    shared = any(id(loop) in around for loop in loops_around(call))
    return not shared and len(sites) <= 1 and not any(map(loops_around, sites))


_ALL_BUT = re.compile(r"\(?(\w+)!=-?\d+\)?")


def _called_before(
    source: SourceFile,
    scope: Scope,
    position: int,
    mine: set[str],
    left_out: Callable[[Node], bool],
) -> bool:
    """Whether a call of which nothing is known but that it is measured stands before as well."""
    return any(
        call.end <= position
        and callee_text(call) == name.partition("<")[0]
        and ("<" not in name or name in workload.call_names(call))
        and source.scopes.scope_of(call) is scope
        and not left_out(call)
        and not in_one_mode(source, call.start, position)
        and not (words.CPP_CUB.match(name) and source.roles.asks_size(call))
        for name in mine
        for call in source.scopes.calls_by_name.get(last_segment(name.partition("<")[0]), [])
    )


def _named_warm(
    source: SourceFile, scope: Scope, position: int, mine: Collection[str] = ()
) -> bool:
    """Whether the code (or a comment) before `position` in a scope speaks of a warm-up.

    One that is that of an earlier measurement, and not of the work `mine`, does not count.
    """
    for around in scope.enclosing():
        first = around.node.start
        if around is scope and mine:
            first = max([first, *_others_warmed(source, scope, position, mine)])
        if around.node.kind == "function":
            if _between(source, warm_words.spots(source, None), first, position):
                return True
        elif around.node.kind == "module" and around is scope:
            return _between(source, warm_words.spots(source, around), first, position)
    return False


def _others_warmed(
    source: SourceFile, scope: Scope, position: int, mine: Collection[str]
) -> list[int]:
    """Up to where a warm-up is that of other measurements, and not of the work `mine`.

    All that ran since the first word of it, outside of measurements, is known then, and measured
    somewhere in the function.
    """
    around = scope.node.start
    marks = [low for low, _ in warm_words.spots(source, None) if around <= low < position]
    calls = [n for n in scope.nodes if n.kind == "call" and n.end <= position]
    if source.language != "python" or not marks or warm_words.named_so(calls):
        return []
    line = source.tree.text.rfind("\n", 0, marks[0])  # run(x)  # warm up
    others = [g for g in source.regions.all if g.scope is scope and g.is_plain]
    ran = [s for s in source.flow.between(scope, line, position) if _may_warm(s)]
    ran = [s for s in ran if not any(other.holds(s.site) for other in others)]
    works = (s for other in others for s in workload.works(other))
    measured = set().union(*map(workload.identities, works)) - set(mine)
    found = []
    for limit in {min(other.start.start, position) for other in others}:
        before = [s for s in ran if s.position <= limit]
        mixed = any(workload.identities(s) & set(mine) for s in before)
        if before and not mixed and all(_is_one_of(s, measured) for s in before):
            found.append(limit)
    return found


def _may_warm(step: Step) -> bool:
    """Whether Python code runs something on the device that is no mere copy or sum."""
    runs = step.works or step.roles & {r.OPAQUE, r.HARNESS}
    return bool(runs) and not step.roles & {r.COPY, r.ARITHMETIC}


def _is_one_of(step: Step, names: Collection[str]) -> bool:
    """Whether it is known what a step runs, and under one of some names."""
    known = not step.roles & {r.OPAQUE, r.HARNESS}
    return known and bool(workload.identities(step) & set(names))


def _between(source: SourceFile, spots: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of the spans, in order, lies between `start` and `end`, and in no mode alone."""
    first = bisect.bisect_left(spots, (start, start))
    while first < len(spots) and spots[first][1] <= end:
        if not in_one_mode(source, spots[first][0], end):
            return True
        first += 1
    return False


def in_one_mode(source: SourceFile, place: int, position: int) -> bool:
    """Whether Python code at `place` runs in one mode of the program, and `position` in all.

    That is in a branch without an else, `if use_triton:` or `if scheme is not None:`, or in a loop
    that counts to 0 until somebody changes that.
    """
    return any(low <= place < high and not low <= position <= high for low, high in _modes(source))


_MODE = re.compile(r"([\w.]+)( is not None| ?== ?[\"']\w+[\"'])?")
_NO_MODE = re.compile(
    r"warm|cuda|gpu|device|hip|rank|main|master|iter|rep|run|bench|profil|tim(e|ing)|measur|cold"
    r"|skip|dry|first|_name__|enable|availab|sync|use_(amp|fp16)",
    re.IGNORECASE,
)


@lru_cache(maxsize=8)
def _modes(source: SourceFile) -> tuple[tuple[int, int], ...]:
    """From where to where a Python file does what it does in one mode, with the remark above."""
    text = source.tree.text
    found = []
    for branch in source.tree.of_kind("if") if source.language == "python" else ():
        asked = _MODE.fullmatch(branch.children[0].text)
        if asked is None or len(branch.children) != 2 or _NO_MODE.search(asked[0]):
            continue
        name = re.escape(last_segment(asked[1]))
        usual = rf"\b{name}\b[^,\n)]*=\s*True\b|-{name}\b[^)]*?(=\s*True|store_false|Boolean)"
        if re.search(usual, text):
            continue
        start = text.rfind("\n", 0, branch.start) + 1
        if warm_words.WARM.search(text, branch.start, branch.end):
            start = source.first_remark(start)
        found.append((start, branch.end))
    return (*found, *idle_loops.spans(source))


def _warm_callers(
    source: SourceFile, scope: Scope, steps: list[Step], mine: set[str], depth: int
) -> bool:
    """Whether the first call of the function in this file finds the work warm.

    A closure that only its outer function mentions runs after that function was called.
    """
    sites = source.scopes.call_sites(scope) if depth < 6 else []
    outer = scope.parent
    if not sites and depth < 6 and outer is not None and outer.node.kind == "function":
        sites = _calls_of_made(source, scope, outer)
        if not sites and _runner_warms(source, scope):
            return True
        if not sites:
            return _warm_callers(source, outer, steps, mine, depth + 1)
    if not sites and scope.name and _offers_warmup(source, scope, mine):
        return True
    discarded = [call for call in sites if is_dropped(call)]
    if len(sites) > 1 and discarded and discarded[0] is sites[0] and len(discarded) < len(sites):
        return True  # the first call's result is thrown away
    if len(sites) > 1 and _is_silent(sites[0]) and not all(map(_is_silent, sites)):
        return True  # the first call is told to print nothing
    outside = [s for s in sites if source.scopes.scope_of(s) is not scope]
    return bool(outside) and _warm_site(source, scope, outside[0], steps, mine, depth)


_SILENT = re.compile(
    r"(log|verbose|print|report|show|record|display|output)\w*=False|(quiet|silent)=True"
)


def _is_silent(call: Node) -> bool:
    """Whether a call is told to say nothing of what it measures: measure(f, log=False)."""
    args = call_args(call)
    return any(
        child.kind == "keyword" and _SILENT.match(squeeze(child.text))
        for child in (args.children if args is not None else ())
    )


def _calls_of_made(source: SourceFile, inner: Scope, maker: Scope) -> list[Node]:
    """Calls of `run` after `run = make(...)`, where make() returns the function `inner`."""
    returned = (n.children[0].text for n in maker.nodes if n.kind == "return" and n.children)
    if inner.short_name not in returned:
        return []
    found = []
    for made in source.scopes.call_sites(maker):
        parent = made.parent
        if parent is not None and parent.kind == "assign" and parent.children[-1] is made:
            scope = source.scopes.scope_of(made)
            name = target_key(parent.children[0])
            calls = (n for n in scope.nodes if n.kind == "call" and n.start > made.end)
            found += [call for call in calls if callee_text(call) == name]
    return found


def _offers_warmup(source: SourceFile, scope: Scope, mine: set[str]) -> bool:
    """Whether a warm-up of the same work stands beside a function that another file calls."""
    wanted = mine | workload.function_names(scope)
    return any(
        warm_words.WARM.search(other.short_name)
        and other.class_name == scope.class_name
        and any(workload.identities(s) & wanted for s in source.flow.steps(other))
        for other in source.scopes.all
        if other is not scope and other.name and not other.is_kernel
    )


def _runner_warms(source: SourceFile, inner: Scope) -> bool:
    """Whether a function that is only returned has a runner in a Python file that warms it up.

    def benchmark(fn, inputs): for is_warmup in (True, False): fn(inputs), beside functions that
    return such an fn; what is handed to what is told in another file.
    """
    outer = inner.parent
    if source.language != "python" or outer is None or outer.node.kind != "function":
        return False
    returned = {n.children[0].text for n in outer.nodes if n.kind == "return" and n.children}
    if inner.short_name not in returned or source.scopes.call_sites(outer):
        return False
    return any(
        warm_words.WARM.search(runner.node.text)
        and not source.scopes.call_sites(runner)
        and {callee_text(n) for n in runner.nodes if n.kind == "call"} & set(runner.parameters)
        for runner in source.scopes.all
        if runner.node.kind == "function" and runner is not outer and runner is not inner
    )


def _warm_site(
    source: SourceFile, scope: Scope, site: Node, steps: list[Step], mine: set[str], depth: int
) -> bool:
    caller = source.scopes.scope_of(site)
    if warm_words.WARM.search(caller.short_name):
        return True
    called = {callee_text(s.site) for s in steps if s.site.kind == "call"}
    passed = (
        {squeeze(a.text) for a in positional(site)} if called & set(scope.parameters) else set()
    )

    def instead(node: Node) -> bool:
        return _runs_instead(source, node, site)

    if _named_warm(source, caller, site.start) or _ran_before(
        source, caller, site.start, mine | passed, instead
    ):
        return True
    inner: set[str] = set()
    for given in positional(site):
        function = source.scopes.callable_value(given, caller)
        if function is not None:
            inner |= workload.function_names(function)
            for step in source.flow.steps(function):
                inner |= workload.identities(step) if step.works else set()
    if inner and _ran_before(source, caller, site.start, inner, instead):
        return True
    return _warm_callers(source, caller, steps, mine, depth + 1)

"""What becomes of a measured time: printed, returned, kept, added up, passed on, asserted, unused.

The value of a region is followed through names, `append`, `+=` and keys to the statements that
print, return or reduce it (`fate`). The other questions here are about what that finds: a sum that
callers repeat, a bound that a test asserts, a number of repetitions that is computed from it.
"""

import re
from dataclasses import dataclass, field

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    argument,
    base_name,
    call_args,
    callee_text,
    is_target,
    last_segment,
    leaf_names,
    loops_around,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import reductions
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.work import workload


@dataclass
class Fate:
    """Where the value of a region goes."""

    names: set[str] = field(default_factory=set)
    lists: set[str] = field(default_factory=set)
    sums: set[str] = field(default_factory=set)
    printed: list[Node] = field(default_factory=list)
    returned: list[Node] = field(default_factory=list)
    passed: list[Node] = field(default_factory=list)
    shown: list[Node] = field(default_factory=list)  # those of `passed` to a function that prints
    reduced: set[str] = field(default_factory=set)  # names of the functions applied to it


@remembered
def fate(source: SourceFile, region: Region) -> Fate:
    """Follow the value of a region through its scope."""
    found = Fate()
    todo: list[Node] = [region.delta]
    scope = source.scopes.scope_of(region.delta)
    if region.kind == "clock" and not region.watch:
        # Both print(t1 - t0) and times.append(t1 - t0).
        deltas = source.regions.deltas_from.get(id(region.start), [])
        todo += [d for d, end in deltas if end is region.end and d is not region.delta]
        if region.carried:  # what starts it in the first iteration is another reading
            todo += [d for d in _written_again(source, region) if d not in todo]
    if region.watch:
        found.printed += [s.node for s in _stopwatch_output(source, region)]
    elif region.kind == "event" and source.language == "cuda":
        todo = _outputs(source, region.delta, scope)
    elif region.delta.kind == "call" and source.language == "cuda":
        todo += source.regions.differences(region.delta)
    seen: set[int] = set()
    while todo and len(seen) < 60:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        name = _absorb(source, node, found)
        if name and name not in found.names:
            found.names.add(name)
            where = source.scopes.scope_of(node)
            uses = source.uses(name, where)
            if source.language == "cuda":
                uses = [*uses, *source.uses(f"{name}.count", where)]  # of a duration
                found.returned += _handed_back_with(name, node, where)
            later = (u for u in uses if u.start > node.start and not is_target(u))
            todo += [u for u in later if not _given_anew(source, name, node, u)]
    return found


def _given_anew(source: SourceFile, name: str, value: Node, use: Node) -> bool:
    """Whether a name gets another value on every way from where it got one to where it is read."""
    for target, other in source.scopes.assignments(name, source.scopes.scope_of(use)):
        if not value.end <= target.start <= other.end <= use.start:
            continue
        block = source.statement(target).parent
        always = block is not None and block.kind in ("block", "module") and use.start < block.end
        if always and name not in leaf_names(other):
            return True
    return False


def _written_again(source: SourceFile, region: Region) -> list[Node]:
    """The other places that subtract what the difference of a region does, from step to step."""
    wanted = squeeze(region.delta.text)
    deltas = ((delta, end) for delta, _, end, _ in source.regions.deltas)
    return [d for d, end in deltas if end is region.end and squeeze(d.text) == wanted]


def _handed_back_with(name: str, node: Node, scope: Scope) -> list[Node]:
    """Where a function of C++ returns the record whose member was set: result.h2d_ms = ms."""
    record, dot, _ = name.partition(".")
    if not dot or record in scope.parameters:
        return []
    wanted = (record, f"std::move({record})")
    returns = (n for n in scope.nodes if n.kind == "return" and n.start > node.start)
    return [n for n in returns if n.children and squeeze(n.children[0].text) in wanted]


def _stopwatch_output(source: SourceFile, region: Region) -> list[Step]:
    """What the call that stops or reads a stopwatch prints by itself."""
    shown = [s for s in source.flow.steps(region.scope)
             if s.site in (region.delta, region.end) and r.IO in s.roles]  # fmt: skip
    said = re.search(r"print|show|report", last_segment(callee_text(region.delta)), re.IGNORECASE)
    told = any(a.kind == "string" for a in positional(region.delta)) and not shown
    if shown or not (said or told or _is_labelled(region)):
        return shown
    return [Step(region.delta, region.delta, frozenset({r.IO}), region.delta.end)]


def _is_labelled(region: Region) -> bool:
    """Whether a plain stopwatch of C++ is given a label, and nobody asks it for its time.

    timer_start("sort"); ... timer_stop(); or the macros TIMERSTART(sort); ... TIMERSTOP(sort);
    """
    stop, start = region.end, region.start
    if stop is not region.delta or stop.tree.language != "cuda" or start.kind != "call":
        return False
    name = callee_text(stop)
    alone = stop.parent is not None and stop.parent.kind == "block" and name.isidentifier()
    text = any(a.kind == "string" for a in positional(start))
    labels = [a.text.isidentifier() for a in positional(stop)]
    return alone and (text or (name.isupper() and labels == [True]))


def _outputs(source: SourceFile, call: Node, scope: Scope) -> list[Node]:
    """cudaEventElapsedTime(&ms, a, b): the later uses of ms."""
    given = positional(call)
    if not given or not re.search(r"EventElapsedTime$", callee_text(call)):
        return [call]
    name = base_name(given[0].text)
    if re.search(r"\[", given[0].text):
        return [
            n
            for n in scope.nodes
            if n.kind == "subscript" and base_name(n.text) == name and n.start > call.end
        ]
    later = [u for u in source.uses(name, scope) if u.start > call.end and not is_target(u)]
    return [*later, *_read_by_callers(source, name, scope)]


def _read_by_callers(source: SourceFile, name: str, scope: Scope) -> list[Node]:
    """Where callers read what a function or a macro of C++ writes for them.

    void run(float *ms) {... cudaEventElapsedTime(ms, a, b);} and run(&took); or a variable that it
    does not declare: a global, or one that is there where a macro is used.
    """
    if not scope.name or scope.name == "main":
        return []
    given = name in scope.parameters
    if not _outlives(scope, name):
        return []
    found: list[Node] = []
    for site in source.scopes.call_sites(scope):
        passed = argument(site, scope.parameters.index(name), name) if given else None
        seen = base_name(passed.text.lstrip("&* ")) if passed is not None else name
        uses = source.uses(seen, source.scopes.scope_of(site)) if passed or not given else []
        found += [u for u in uses if u.start > site.end and not is_target(u)]
    return found


def _absorb(source: SourceFile, node: Node, found: Fate, depth: int = 0) -> str:
    """Note what the statement around a value does with it; the name it is stored under, or "".

    `depth` tells how many functions of the file a value was followed into already.
    """
    child = node
    for parent in node.ancestors():
        kind = parent.kind
        if kind == "call":
            ended = _into_call(source, parent, child, found)
            if parent in found.passed[-1:] and _converts(source, parent, node):
                _show_converted(source, parent, found)
            if parent in found.passed[-1:] and _makes_returned(source, parent):
                found.returned.append(parent.parent or parent)
            if parent in found.passed[-1:] and _is_shown_by(source, parent, node, depth):
                found.shown.append(parent)
            if parent in found.passed[-1:]:
                found.shown += _told_converted(source, parent)
            if ended:
                return ""
        elif kind == "augassign" or (kind == "assign" and operator(parent)[:2] in ("+=", "-=")):
            if parent.children[-1].kind == "list":  # times += [seconds]
                found.lists.add(target_key(parent.children[0]))
                return ""
            if not loops_around(parent) or _starts_over(source, parent):
                return target_key(parent.children[0])
            found.sums.add(target_key(parent.children[0]))
            return ""
        elif kind == "assign" and child is parent.children[-1]:
            if _adds_to_itself(parent) and loops_around(parent):
                found.sums.add(target_key(parent.children[0]))
                return ""
            return _into_target(parent.children[0], node, found)
        elif kind == "return":
            found.returned.append(parent)
            return ""
        elif (
            kind == "binary"
            and source.language == "cuda"
            and re.match(r"(std::)?(cout|cerr)\b", parent.text)
        ):
            found.printed.append(parent)
            return ""
        elif kind in ("block", "module", "function", "compare", "case"):
            return ""
        child = parent
    return ""


@remembered
def calibrates(source: SourceFile, region: Region) -> bool:
    """Whether code computes from a time how often it repeats what it measures afterwards.

    In Python, and does nothing else with it.
    """
    value = fate(source, region)
    if source.language == "cuda":
        return any(_TRIPS.search(name) and not _A_FIGURE.search(name) for name in value.names)
    passed = [c for c in value.passed if last_segment(callee_text(c)) not in ("range", "trange")]
    told = value.printed or value.returned or passed or value.lists or value.sums
    trips = {name for name in value.names if _RUNS.search(name)}
    return bool(trips) and not told


_TRIPS = re.compile(r"(?<![a-z])(rep(eat|etition)?s?|iter(ation)?s?|trips?)(?![a-z])|Repeat|Iter")
_RUNS = re.compile(
    r"^(n|num|number_?of)?_?(rep(eat|etition)?s?|iter(ation)?s?|trips?|runs?|loops?|number)$"
)
_A_FIGURE = re.compile(r"per|rate|time|sec|avg|mean|_m?s$", re.IGNORECASE)


@remembered
def accumulates(source: SourceFile, region: Region) -> bool:
    """Whether a time of C++ is only added to what outlives the function: its callers repeat it.

    That is a reference or a pointer that the function is given, a member, or a global variable; the
    file holds no main(), so that who calls the function, and how often, is not known.
    """
    if source.language != "cuda" or "main" in source.scopes.functions:
        return False
    targets = _added_to(source, region)
    return bool(targets) and all(_outlives(region.scope, base_name(t.text)) for t in targets)


def _added_to(source: SourceFile, region: Region) -> list[Node]:
    """What the time of a region is added to; nothing where it is also used in another way."""
    scope = source.scopes.scope_of(region.delta)
    todo = _outputs(source, region.delta, scope) if region.kind == "event" else [region.delta]
    found: list[Node] = []
    for node in todo[:20]:
        statement = next((p for p in node.ancestors() if p.kind in ("assign", "augassign")), None)
        if statement is None or statement is not source.statement(node):
            return []
        if operator(statement)[:2] != "+=" and not _adds_to_itself(statement):
            return []
        found.append(statement.children[0])
    return found


def _outlives(scope: Scope, name: str) -> bool:
    """Whether a variable is a parameter that refers to the caller's, a member or a global."""
    outer = [s for s in scope.enclosing() if s.node.kind == "function"][-1:]
    if not outer or not name or name.startswith("self."):
        return bool(outer and name)
    params = next((n for n in outer[0].node.walk() if n.kind == "params"), None)
    if name in outer[0].parameters:
        refers = rf"[&*]\s*{name}\b|[(,]\s*{name}\s*[,)]"  # or it is one of a macro
        return params is not None and bool(re.search(refers, params.text))
    return not any(
        n.kind == "decl" and re.search(rf"\b{name}\b", n.text) for n in outer[0].node.walk()
    )


def _adds_to_itself(assignment: Node) -> bool:
    """Whether a statement is a sum written out: total = total + (end - start)."""
    target, value = assignment.children[0], assignment.children[-1]
    if value.kind != "binary" or len(value.children) != 2 or operator(value)[:1] != "+":
        return False
    return target_key(target) in {target_key(child) for child in value.children}


def _starts_over(source: SourceFile, addition: Node) -> bool:
    """Whether a sum begins anew in each iteration: it adds up one sample and not many."""
    loop, name = loops_around(addition)[0], target_key(addition.children[0])
    return any(
        loop.start < target.start < addition.start
        and value.kind == "number"
        and not _is_asked(target, loop)
        for target, value in source.scopes.assignments(name, source.scopes.scope_of(addition))
        if loops_around(target)[:1] == [loop]
    )


def _is_asked(node: Node, loop: Node) -> bool:
    """Whether a branch inside a loop decides that it comes to a place: if i == warmup: total = 0"""
    for parent in node.ancestors():
        if parent is loop:
            return False
        if parent.kind == "if":
            return True
    return False


def _into_call(source: SourceFile, call: Node, child: Node, found: Fate) -> bool:
    if call_args(call) is not child and child.kind != "comp":
        return False
    callee = callee_text(call)
    short = last_segment(callee)
    if short in ("append", "push_back", "emplace_back", "add", "appendleft"):
        found.lists.add(callee[: -len(short)].rstrip(".->"))
        return True
    writes = r.IO in source.roles.of(call, source.scopes.scope_of(call))
    if writes or short in ("format", "print"):  # also accelerator.print() and its like
        found.printed.append(call)
        return short != "format"
    if short in (
        "float",
        "int",
        "round",
        "double",
        "str",
        "to_string",
        "abs",
        "list",
        "tuple",
        "array",
        "tensor",
        "asarray",
        "enumerate",
        "zip",
        "static_cast",
        "CK",
        "duration_cast",
        "duration",
        "count",
    ):
        return False
    found.reduced.add(short)
    if (
        reductions.ROBUST.search(short)
        or reductions.MEAN.search(short)
        or reductions.SPREAD.search(short)
    ):
        return False
    if re.search(r"check|CUDA|HIP|CK|ASSERT", callee, re.IGNORECASE):
        return False
    found.passed.append(call)
    return True


def _makes_returned(source: SourceFile, call: Node) -> bool:
    """Whether C++ code returns the record that a call makes: return Measurement("csr", seconds)."""
    returned = call.parent is not None and call.parent.kind == "return"
    scope = source.scopes.scope_of(call)
    return (
        source.language == "cuda"
        and returned
        and source.scopes.called_function(call, scope) is None
    )


def _converts(source: SourceFile, call: Node, value: Node) -> bool:
    """Whether a function of C++ does nothing but return what it computes from a value.

    double gbps(size_t bytes, float ms) { return bytes / 1e6 / ms; }
    """
    function = source.scopes.called_function(call, source.scopes.scope_of(call))
    if source.language != "cuda" or function is None or function.is_kernel:
        return False
    given = zip(positional(call), function.parameters, strict=False)
    taken = {name for part, name in given if part.start <= value.start < part.end}
    returned = [n.children[0] for n in function.nodes if n.kind == "return" and n.children]
    return len(returned) == 1 and any(
        n.kind == "name" and n.text in taken for n in returned[0].walk()
    )


def _show_converted(source: SourceFile, call: Node, found: Fate) -> None:
    """Note where the rate that a call computes from a time is printed or returned."""
    rate = Fate()
    name = _absorb(source, call, rate)
    uses = source.uses(name, source.scopes.scope_of(call)) if name else []
    for use in uses:
        if use.start > call.end and not is_target(use):
            _absorb(source, use, rate)
    found.printed += rate.printed
    found.returned += rate.returned


def _is_shown_by(source: SourceFile, call: Node, value: Node, depth: int) -> bool:
    """Whether a function of the file prints what it is given, or what it computes from it.

    void report(const char *name, float ms) { printf("%s: %f GB/s\\n", name, bytes / ms); }
    """
    function = source.scopes.called_function(call, source.scopes.scope_of(call))
    if function is None:
        return _tells_by_name(call)
    if function.is_kernel or depth > _MOST_SHOWING:
        return False
    name = _parameter_for(call, value, function)
    read = (key for key in function.names if key.partition(".")[0] == name)  # members as well
    todo = [use for key in read for use in source.uses(key, function)]
    seen: set[int] = set()
    while todo and len(seen) < _MOST_USES:
        use = todo.pop()
        if id(use) in seen or is_target(use):
            continue
        seen.add(id(use))
        told = Fate()
        stored = _absorb(source, use, told, depth + 1)
        if told.printed or told.shown:
            return True
        todo += [u for u in source.uses(stored, function) if u.start > use.start] if stored else []
    return False


def _told_converted(source: SourceFile, call: Node) -> list[Node]:
    """The call that tells what a function of another file makes of a time, as its argument.

    display("ms", to_msec(used)); std::to_string() and its like are looked through in any case.
    """
    if source.scopes.called_function(call, source.scopes.scope_of(call)) is not None:
        return []
    outer = next((p for p in call.ancestors() if p.kind not in ("args", "binary")), None)
    return [outer] if outer is not None and outer.kind == "call" and _tells_by_name(outer) else []


def _tells_by_name(call: Node) -> bool:
    """Whether a function or macro of another file that C++ code gives a text with a value tells it.

    logger.Info("took " + std::to_string(ms)); INFO("took " << ms); display_timing("ms", ms);
    """
    args = call_args(call)
    texts = args is not None and any(n.kind == "string" for n in args.walk())
    return (
        call.tree.language == "cuda"
        and texts
        and _TELLS.match(last_segment(callee_text(call))) is not None
    )


_TELLS = re.compile(
    r"(log|print|display|report|show|output|emit|info|debug|message|notice|trace|out)(?![a-z])"
    r"|(Log|Print|Display|Report|Show|Output|Emit|Info|Debug|Message|Notice|Trace)(?![a-z])"
    r"|(\w+_)?(LOG|PRINT|DISPLAY|REPORT|SHOW|INFO|DEBUG|MESSAGE|NOTICE|TRACE)(F|_\w+)?$"
)
_MOST_SHOWING = 1
_MOST_USES = 20


def _parameter_for(call: Node, value: Node, function: Scope) -> str:
    """The parameter under which a function knows a value of its call, or what is a part of it."""
    args = call_args(call)
    named = (
        squeeze(part.text).partition("=")[0]
        for part in (args.children if args is not None else ())
        if part.kind == "keyword" and part.start <= value.start < part.end
    )
    given = zip(positional(call), function.parameters, strict=False)
    placed = (name for part, name in given if part.start <= value.start < part.end)
    return next((name for name in (*named, *placed) if name in function.parameters), "")


def _into_target(target: Node, node: Node, found: Fate) -> str:
    if target.kind == "subscript":
        if loops_around(target):
            found.lists.add(base_name(target.text))
            return ""
        return target_key(target)
    if any(p.kind == "comp" for p in node.ancestors() if p.start >= target.start):
        found.lists.add(target_key(target))
        return ""
    return target_key(target) if target.kind == "name" else ""


def kept_running(source: SourceFile, region: Region) -> bool:
    """Whether a stopwatch is read elsewhere: a sum over frames, steps or phases of a program."""
    if not region.watch:
        return False
    if region.delta is not region.end:  # read at every n-th frame: if (++frames == limit)
        conditions = [
            parent.children[0].text
            for parent in region.delta.ancestors()
            if parent.kind == "if" and not parent.start <= region.start.start < parent.end
        ]
        return any(re.search(r"\+\+|%", text) for text in conditions)
    value = fate(source, region)
    used = value.printed or value.returned or value.names or value.passed
    return not (used or value.lists or value.sums or _printed_elsewhere(source, region))


def _printed_elsewhere(source: SourceFile, region: Region) -> bool:
    """Whether another function of C++ prints what a stopwatch says that all functions share.

    sdkStartTimer(&sort_timer); ... printf("sort %f ms", sdkGetTimerValue(&sort_timer) / runs);
    """
    given = positional(region.end)[:1] if region.end.kind == "call" else []
    watch = squeeze(given[0].text) if given and source.language == "cuda" else ""
    if not watch or not _outlives(region.scope, base_name(watch.lstrip("&*"))):
        return False
    asked = (
        call
        for scope in source.scopes.all
        if scope is not region.scope
        for call in scope.nodes
        if call.kind == "call"
        and watch in {squeeze(part.text) for part in positional(call)}
        and _ASKS_WATCH.search(last_segment(callee_text(call)))
    )
    return any(r.IO in s.roles for call in asked for s in _shown_in(source, call))


_ASKS_WATCH = re.compile(r"get|value|elapsed|average|read", re.IGNORECASE)


def _shown_in(source: SourceFile, call: Node) -> list[Step]:
    """The steps of a call's function in whose statement it stands."""
    statement, scope = source.statement(call), source.scopes.scope_of(call)
    return [s for s in source.flow.steps(scope) if source.statement(s.site) is statement]


# What enters a figure among the results of a benchmark: resultDB.AddResult("time", "", "s", t).
_ENTERS_RESULT = re.compile(
    r"(add|record|report|emit|save|store|insert)_?(result|measurement|benchmark)s?$", re.IGNORECASE
)


def enters_result(source: SourceFile, region: Region) -> bool:
    """Whether C++ code enters the time, or what it computes from it, among its results."""
    return source.language == "cuda" and any(
        _ENTERS_RESULT.match(last_segment(callee_text(call)))
        for call in fate(source, region).passed
    )


@remembered
def never_used(source: SourceFile, region: Region) -> bool:
    """Whether nothing is done with a time: Python callers drop it, C++ code asks for it alone."""
    if source.language == "python":
        return _dropped_by_callers(source, region)
    if region.kind != "event" or region.timer is not None:
        return False
    if region.watch:
        return False  # what stops it is not what tells the time
    given = positional(region.delta)
    name = base_name(given[0].text) if given else ""
    declared = any(
        node.kind == "decl" and re.search(rf"\b{re.escape(name)}\b(?!\s*\()", node.text)
        for node in region.scope.nodes
    )
    value = fate(source, region)
    shown = value.printed or value.returned or value.passed or value.lists or value.sums
    later = [u for u in source.uses(name, region.scope) if u.start > region.delta.end]
    return bool(name and declared and not later and not shown)


def _dropped_by_callers(source: SourceFile, region: Region) -> bool:
    """Whether a function returns its time, and no call of it in the file reads that.

    out, seconds, memory = run(model): of these the test compares the results and the memory.
    """
    value = fate(source, region)
    if value.printed or value.passed or value.lists or value.sums or region.timer is not None:
        return False
    sites = source.scopes.call_sites(region.scope) if value.returned else []
    places = {at for node in value.returned for at in _places(node, region, value.names)}
    return bool(sites and places) and all(_drops(source, s, at) for s in sites for at in places)


def _places(returned: Node, region: Region, names: set[str]) -> list[int]:
    """At which places of what a function returns its time stands; -1 where it is all of it."""
    whole = returned.children[0] if returned.children else returned
    parts = whole.children if whole.kind == "tuple" else [whole]
    found = [
        at
        for at, part in enumerate(parts)
        if part.start <= region.delta.start < part.end or leaf_names(part) & names
    ]
    return found if whole.kind == "tuple" else [-1]


def _drops(source: SourceFile, call: Node, at: int) -> bool:
    """Whether a caller never reads what a call returns at one place, or all of it (-1)."""
    parent = call.parent
    if parent is None or parent.kind != "assign" or parent.children[-1] is not call:
        return parent is not None and parent.kind == "block"
    target = parent.children[0]
    if at >= 0:
        if target.kind != "tuple" or at >= len(target.children):
            return False
        target = target.children[at]
    uses = source.uses(target.text, source.scopes.scope_of(call))
    return target.kind == "name" and all(is_target(u) or is_target(u.parent or u) for u in uses)


def hands_back_result(source: SourceFile, region: Region) -> bool:
    """Whether a Python function runs what it is given for its result, and tells the time beside it.

    result = closure(); ...; return result, elapsed: how often it is called, and what becomes of the
    times, is for the callers to know. Those of the file are looked at instead.
    """
    steps = workload.works(region)
    sites = source.scopes.call_sites(region.scope)
    if source.language != "python" or sites or not all(r.OPAQUE in s.roles for s in steps):
        return False
    calls = [s.site for s in steps if callee_text(s.site) in region.scope.parameters]
    kept = {
        target_key(c.parent.children[0]) for c in calls if c.parent and c.parent.kind == "assign"
    }
    returned = [n for node in fate(source, region).returned for n in node.walk()]
    return bool(kept) and len(calls) == len(steps) and bool(kept & {n.text for n in returned})


@remembered
def only_asserted(source: SourceFile, region: Region) -> bool:
    """Whether a test compares the samples one by one, so that there is no figure."""
    value = fate(source, region)
    if not value.lists or value.printed or value.returned or value.sums or value.passed:
        return False
    scope = source.scopes.scope_of(region.delta)
    return all(_loops_assert(name, scope) for name in value.lists)


def asserted_positive(source: SourceFile, region: Region) -> bool:
    """Whether a test asserts that a time is more than 0: what is tested is that there is one.

    assert start.elapsed_time(end) >= 0, self.assertGreater(ms, 0), EXPECT_GT(ms, 0.0f)
    """
    if not any(scope.is_test for scope in region.scope.enclosing()):
        return False
    names = fate(source, region).names
    asserts = (
        n
        for n in region.scope.nodes
        if n.kind == "assert" or (n.kind == "call" and _ASSERTS.search(callee_text(n)))
    )
    return any(
        _ABOVE_ZERO.search(squeeze(node.text)) and names & {leaf.text for leaf in node.walk()}
        for node in asserts
    )


_ASSERTS = re.compile(r"(^|[._])assert\w*$|^(ASSERT|EXPECT|REQUIRE|CHECK)(_\w+)?$")
_ABOVE_ZERO = re.compile(r">=?0(\.0?f?)?(?![\w.])|(Greater|_G[TE])\w*\(\w+,0(\.0?f?)?[,)]")


def _loops_assert(name: str, scope: Scope) -> bool:
    """Whether a list is used only as what a loop of assertions runs over."""
    names = [n for n in scope.nodes if n.kind == "name" and n.text == name]
    uses = [n for n in names if not (is_target(n) or is_target(n.parent or n))]
    for use in uses:
        loop = next((p for p in use.ancestors() if p.kind in ("for", "block")), None)
        body = loop.child("block") if loop is not None and loop.kind == "for" else None
        if body is None or any(c.kind != "assert" for c in body.children):
            return False
    return bool(uses)


def returns_time(source: SourceFile, region: Region) -> bool:
    """Whether a plain function times with events and returns what they say: that is its purpose.

    In C++ a method as well; in Python products time themselves in methods.
    """
    in_class = source.language == "python" and any(s.class_name for s in region.scope.enclosing())
    if region.kind != "event" or in_class:
        return False
    return bool(fate(source, region).returned)


def is_bounded(source: SourceFile, region: Region) -> bool:
    """Whether a test asserts that a time stays below a bound, and does nothing else with it."""
    value = fate(source, region)
    if value.lists or value.sums or value.printed or value.returned or value.passed:
        return False
    uses = [u for name in value.names for u in source.uses(name, region.scope)]
    read = [u for u in uses if not is_target(u)]
    times = {n for g in source.regions.all if g is not region for n in fate(source, g).names}
    checks = [p for u in read for p in u.ancestors() if p.kind == "assert"]
    others = {n.text for check in checks for n in check.walk() if n.kind == "name"}
    return len(checks) == len(read) > 0 and not others & (times - value.names)

"""What becomes of a measured time: where its value goes, and whether the work had run before.

The value of a region is followed through names, `append`, `+=` and keys to the statements that
print, return or reduce it (`fate`). `warmed` says whether the first sample is warm: the same
function or kernel ran before, in this function or in a caller; a warm-up is named; the first
samples are dropped; or a statistic is used that a first outlier cannot move.
"""

import bisect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from perf_timing.lint import kernel_choice, repetitions, variants
from perf_timing.lint import roles as r
from perf_timing.lint import vocabulary as words
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.flow import Step, exclusive
from perf_timing.lint.regions import Region, remembered
from perf_timing.lint.scopes import (
    Scope,
    argument,
    base_name,
    call_args,
    callee_text,
    last_segment,
    loop_body,
    loop_header,
    loops_around,
    positional,
    squeeze,
    target_key,
)

SUPPRESSION = re.compile(r"lint-timing:[^\n]*")
WARM = re.compile(
    r"warm|burn.?in|dry.?run|discard|skip_first|skip_iter|first_iter|untimed|prime_"
    r"|preheat|pre_?run"
    r"|\u9884\u70ed|\u70ed\u8eab",
    re.IGNORECASE,
)
ROBUST = re.compile(
    r"(^|[._])(sort|sorted|median|percentile|quantile|quantiles|nanmedian|min|amin"
    r"|nsmallest|trimmed?_mean|trim_mean"
    r"|min_element|nth_element|mode|kthvalue|nanpercentile|std::sort|std::nth_element"
    r"|(get|calc|compute)?_?([mM]in(imum)?|[mM]edian)(_?([vV]alue|[tT]ime|[eE]lapsed|[mMuU]s))?)$"
)
SPREAD = re.compile(
    r"(^|[._])(std|stdev|pstdev|var|variance|max|amax|iqr|sem|describe|hist|histogram|boxplot|plot"
    r"|max_element|minmax_element|ecdf|skew|DataFrame|Series|to_csv|dump|dumps|savetxt|save)$"
)
_MEANS = re.compile(r"mean|fmean|average|avg|nanmean")
MEAN = re.compile(r"(^|[._:])(mean|fmean|average|avg|nanmean|sum|accumulate|reduce)$")

# What a file speaks of whose kernels are compiled when they are first called.
JITS = re.compile(
    r"\b(triton|numba|taichi|jax|tilelang)\b|\bSourceModule\(|torch\.compile|cute\.compile"
)
# What rates are called.
RATES = re.compile(
    r"_per_s|per_?sec|throughput|speed|(^|_)(ips|fps|tps|qps|tput|rates?)(_|$)", re.IGNORECASE
)
OUTPUT = re.compile(r"(print|log|info|debug|warn|echo)\w*$")


@dataclass
class Fate:
    """Where the value of a region goes."""

    names: set[str] = field(default_factory=set)
    lists: set[str] = field(default_factory=set)
    sums: set[str] = field(default_factory=set)
    printed: list[Node] = field(default_factory=list)
    returned: list[Node] = field(default_factory=list)
    passed: list[Node] = field(default_factory=list)
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
            todo += [u for u in uses if u.start > node.start and not _is_target(u)]
    return found


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
    later = [u for u in source.uses(name, scope) if u.start > call.end and not _is_target(u)]
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
        found += [u for u in uses if u.start > site.end and not _is_target(u)]
    return found


def _is_target(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.kind == "assign" and parent.children[0] is node


def _absorb(source: SourceFile, node: Node, found: Fate) -> str:
    """Note what the statement around a value does with it; the name it is stored under, or ""."""
    child = node
    for parent in node.ancestors():
        kind = parent.kind
        if kind == "call":
            ended = _into_call(source, parent, child, found)
            if parent in found.passed[-1:] and _converts(source, parent, node):
                _show_converted(source, parent, found)
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


def in_google_benchmark(source: SourceFile, region: Region) -> bool:
    """Whether the loop around C++ samples is Google Benchmark's, which runs the function before.

    It looks for the number of iterations with runs of few, and reports the last run only.
    """
    heads = [loop.text[:120] for loop in region.sample_loops]
    return source.language == "cuda" and any(_BENCHMARK_LOOP.match(head) for head in heads)


_BENCHMARK_LOOP = re.compile(
    r"for\s*\(\s*auto\s*&*\s*\w+\s*:\s*\w*state\s*\)|while\s*\(\s*\w*state\.Keep"
)


@remembered
def calibrates(source: SourceFile, region: Region) -> bool:
    """Whether C++ code computes from a time how often it repeats what it measures afterwards."""
    return source.language == "cuda" and any(
        _TRIPS.search(name) and not _A_FIGURE.search(name) for name in fate(source, region).names
    )


_TRIPS = re.compile(r"(?<![a-z])(rep(eat|etition)?s?|iter(ation)?s?|trips?)(?![a-z])|Repeat|Iter")
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


def operator(node: Node) -> str:
    if len(node.children) < 2:
        return ""
    return node.tree.text[node.children[0].end : node.children[1].start].strip()


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
    if ROBUST.search(short) or MEAN.search(short) or SPREAD.search(short):
        return False
    if re.search(r"check|CUDA|HIP|CK|ASSERT", callee, re.IGNORECASE):
        return False
    found.passed.append(call)
    return True


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
        if use.start > call.end and not _is_target(use):
            _absorb(source, use, rate)
    found.printed += rate.printed
    found.returned += rate.returned


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


def reaching(name: str, scope: Scope) -> list[Scope]:
    """The scopes in which `name` of a scope is known.

    Those around it; for self.x the methods; for a variable of the module, all its functions.
    """
    known = list(scope.enclosing())
    if name.startswith("self.") and scope.owner is not None and scope.parent is not None:
        known += [s for s in scope.parent.children if s.owner is scope.owner and s is not scope]
    elif not any(binds(around, name) for around in known[:-1]) and binds(known[-1], name):
        known += [s for s in known[-1].children if s not in known and not binds(s, name)]
    return known


def binds(scope: Scope, name: str) -> bool:
    """Whether a scope gives a plain name its value."""
    return name in scope.parameters or any(
        node.kind == "assign" and node.children[0].kind == "name" and node.children[0].text == name
        for node in scope.nodes
    )


def reducers(source: SourceFile, name: str, scope: Scope) -> set[str]:
    """Short names of what is applied to the list `name` in a scope and in those around it.

    "raw" stands for the list itself being returned, printed or passed on, "slice" for dropping the
    first members, "loop" for looping over it. An attribute is followed through the class's methods.
    """
    found: set[str] = set()
    for around in reaching(name, scope):
        for use in around.nodes:
            if (
                use.kind == "name"
                and (use.text == name or use.text.startswith(name + "."))
                and not _is_target(use)
                and not _is_counter(use)
            ):
                found |= _applied(use, name)
    return found


def applied(use: Node) -> set[str]:
    """What is done with a value at one place, told as `reducers` tells it."""
    return _applied(use, use.text)


def _is_counter(node: Node) -> bool:
    """Whether a name stands in the head of a loop, which binds it: for name, times in ..."""
    child = node
    for parent in node.ancestors():
        if parent.kind in ("for", "comp_for"):
            return parent.children[0] is child
        if parent.kind != "tuple":
            return False
        child = parent
    return False


_BOUNDS = frozenset({"begin", "end", "cbegin", "cend", "data"})
_MIDDLE = re.compile(r"//|len\(|int\(|size\(\)|/\s*2|>>\s*1")


def _applied(use: Node, name: str) -> set[str]:
    found: set[str] = set()
    if use.text != name:
        method = use.text[len(name) + 1 :].split(".")
        if use.tree.language != "cuda" or method[-1] not in _BOUNDS or use.parent is None:
            return {m for m in method if m not in ("append", "push_back", "begin", "end", "size")}
        use = use.parent  # what is given t.begin() works on the list
    child = use
    for parent in use.ancestors():
        if parent.kind == "call":
            callee = callee_text(parent)
            short = last_segment(callee)
            if OUTPUT.match(short):
                found |= set() if found else {"raw"}
            elif child is call_args(parent) or child.kind == "comp" or child is parent.children[0]:
                found.add(short)
                if _MEANS.fullmatch(short):
                    found -= {"Series", "DataFrame"}  # only on the way to the mean
                if _MEANS.fullmatch(short) and not re.search(r"axis|dim", parent.text):
                    break  # what is done from here on is done to the mean
        elif parent.kind == "subscript" and child is parent.children[0]:
            index = parent.text[child.end - parent.start :]
            if re.match(r"\[\s*-?[\w.]+\s*:", index):
                found.add("slice")
            elif loops_around(use) and re.match(r"\[\s*-1\s*\]", index):
                pass  # the sample that was just taken, shown beside a progress bar
            elif _MIDDLE.search(index) or re.match(r"\[\s*-?\d+\s*\]", index):
                found.add("indexed")
        elif parent.kind == "return":
            if not found - {"list", "tuple"}:
                found.add("raw")
        elif (
            parent.kind in ("for", "comp_for")
            and len(parent.children) > 1
            and parent.children[1] is child
        ):
            found.add("loop")
        elif parent.kind == "assign" and parent.children[0].kind == "tuple" and child is use:
            found.add("raw")  # cold, second, third = times
        elif parent.kind in ("block", "module", "function", "lambda"):
            break
        child = parent
    return found


def identities(step: Step) -> set[str]:
    """Names under which the same work can be recognised elsewhere."""
    chosen = variants.chosen(step)
    if chosen is None:
        return set()
    names = {_identity(step.node), _model(step.node)}
    names |= set() if chosen else {_identity(step.site), _model(step.site)}
    if _is_backward(step.node) and (through := differentiated(step.node)):
        names = {f"backward of {callee}" for callee in through}
    if step.roles & {r.COPY, r.READ, r.UPLOAD} == {r.COPY, r.READ}:
        names = {f"{name} to the host" for name in names if name}
    helpers = [helper for helper in step.helpers if helper.name]
    names |= {f"function {h.node.start}{chosen if h is helpers[0] else ''}" for h in helpers}
    return {name for name in names if name}


_RUNS = re.compile(r"\.(generate|forward|predict|infer)$")


def _model(node: Node) -> str:
    """The model that a call runs, be it model(x), model.forward(x) or model.generate(x)."""
    callee = callee_text(node) if node.kind == "call" else ""
    if _LAUNCHES.search(callee):
        return ""
    name = _RUNS.sub("", callee)
    return f"model {name}" if words.MODEL.search(name) and name.isascii() else ""


def _identity(node: Node) -> str:
    if node.kind == "binary":
        return "matmul"
    if node.kind not in ("call", "launch"):
        return ""
    callee = re.sub(r"\[.*", "", callee_text(node))
    short = last_segment(callee)
    if _LAUNCHES.search(short) and (kernel := _launched(node)):
        return kernel
    if short in ("matmul", "mm", "bmm", "dot"):
        return "matmul"
    if node.kind == "launch":
        return re.sub(r"<.*", "", callee)
    if short in ("backward", "step", "item", "cpu", "to", "cuda"):
        return f".{short}"
    return callee + kernel_choice.chosen_by(node)


_LAUNCHES = re.compile(r"^(hip|cuda|cu)Launch(Cooperative)?Kernel(GGL|Ex|ExC)?$")


def _launched(call: Node) -> str:
    """The kernel that a call of hipLaunchKernelGGL() and its like launches, by its name."""
    given = positional(call)
    at = 1 if last_segment(callee_text(call)).endswith(("Ex", "ExC")) else 0
    text = squeeze(given[at].text) if at < len(given) else ""
    text = re.sub(r"\((const)?void\*+\)|reinterpret_cast<[^>]*>|HIP_KERNEL_NAME", "", text)
    return re.sub(r"<.*", "", text).strip("&()")


def _is_backward(node: Node) -> bool:
    return node.kind == "call" and callee_text(node).endswith(".backward")


def differentiated(backward: Node) -> set[str]:
    """The calls whose result `x.backward()` goes back through, as the block around it shows them.

    What makes or moves data is none of them, nor is a sum or a cast.
    """
    found: set[str] = set()
    todo = [backward.children[0]]
    seen: set[int] = set()
    while todo and len(seen) < _MOST_PARTS:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for part in node.walk():
            if part.kind == "call" and (callee := callee_text(part)):
                short = last_segment(callee)
                found |= set() if _makes_data(short) or short == "backward" else {callee}
            elif part.kind == "name":
                value = _assigned_before(squeeze(part.text).partition(".")[0], backward)
                todo += [value] if value is not None else []
    return found


_MOST_PARTS = 30
_REDUCES = frozenset(
    ["sum", "mean", "view", "reshape", "contiguous", "flatten", "scale", "range", "len"]
)


def _makes_data(short: str) -> bool:
    names = (words.HOST_METHODS - {"apply"}) | words.CLONES | _REDUCES
    return short in names or words.FACTORY.match(short) is not None


def _assigned_before(name: str, place: Node) -> Node | None:
    """The value that the block around `place` gives a variable last before it."""
    block = next((p for p in place.ancestors() if p.kind in ("block", "module", "function")), None)
    if block is None:
        return None
    for statement in reversed([c for c in block.children if c.end <= place.start]):
        parts = statement.walk() if statement.kind == "with" else [statement]
        for part in parts:
            if part.kind == "assign" and any(
                n.kind == "name" and n.text == name for n in part.children[0].walk()
            ):
                return part.children[-1]
    return None


def works(region: Region) -> list[Step]:
    """The steps of a region that use the device: work, copies and callables passed in."""
    return [
        s
        for s in region.steps
        if s.works or s.roles & {r.BLOCKING, r.OPAQUE} or (r.COPY in s.roles and _moves_data(s))
    ]


def _mine(steps: list[Step]) -> set[str]:
    """The identities of some work. A copy or a fill tells nothing of other work beside it."""
    copied = [s for s in steps if r.COPY not in s.roles] or steps
    telling = [s for s in copied if not fills(s)] or copied
    return set().union(*(identities(s) for s in telling)) if telling else set()


def handed_in(source: SourceFile, region: Region) -> Iterator[tuple[Node, list[Scope]]]:
    """Calls in the loops of a C++ region, with the functions that a helper is given to run."""
    for call in region.scope.nodes if source.language == "cuda" else ():
        if call.kind == "call" and region.holds(call) and region.inner_loops(call):
            yield call, source.flow.handed_in(call, region.scope)


_FILLS = re.compile(r"[mM]emset|\.(zero|fill)_$")


def fills(step: Step) -> bool:
    """Whether a step only gives memory a value."""
    return not step.helpers and bool(_FILLS.search(callee_text(step.node)))


def _moves_data(step: Step) -> bool:
    """Whether a copy moves a tensor: moving a model to the device is set-up."""
    receiver = callee_text(step.node).rpartition(".")[0] if step.node.kind == "call" else ""
    return not words.MODEL.search(receiver)


@remembered
def backward_is_new(source: SourceFile, region: Region) -> bool:
    """Whether the warm-up that the function shows is of the forward pass alone.

    The backward pass launches other kernels, and allocates the gradients, when it first runs.
    """
    ends = [s.node for s in region.steps if _is_backward(s.node)]
    through = set().union(*(differentiated(node) for node in ends)) if ends else set()
    start = region.start.start
    outer = [s for s in region.scope.enclosing() if s.node.kind == "function"][:1]
    if not through or not outer:
        return False
    before = [
        n for s in (region.scope, *outer) for n in s.nodes if n.kind == "call" and n.end <= start
    ]
    forward = any(callee_text(n) in through for n in before)
    gone_back = any(
        _is_backward(s.node) and (not (known := differentiated(s.node)) or known & through)
        for s in source.flow.steps(region.scope)
        if s.position <= start
    )
    return forward and not gone_back and not named_warm(before)


def named_warm(calls: list[Node]) -> bool:
    """Whether one of some calls is a warm-up by its name, whatever it runs."""
    return any(WARM.search(last_segment(callee_text(call))) for call in calls)


def warmed(source: SourceFile, region: Region) -> bool:
    """Whether the region's work had run before its first sample, or the first does not count."""
    if backward_is_new(source, region) and not drops_samples(source, region):
        return False
    steps = works(region)
    mine = _mine(steps)
    scope = region.scope
    start = region.start.start
    kernels = () if _only_copies(region) else mine  # a copy is warm when anything ran
    if starts_late(region) or _ran_before(source, scope, start, mine, _is_spared(source, region)):
        return True
    if _named_warm(source, scope, start, kernels) and not _of_another(source, region, mine):
        return True
    if _handed_on(source, scope, start, steps):
        return True
    return _warm_callers(source, scope, steps, mine, 0) or drops_samples(source, region)


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
            asked = parent.kind == "if" and _LATER.fullmatch(squeeze(parent.children[0].text))
            if asked and re.search(rf"\b{asked[1]}\b", head):
                return loop, asked[2]
    return None


_LATER = re.compile(r"\(?(\w+)==(?!0\)?$)(\w+)\)?")


def _of_another(source: SourceFile, region: Region, mine: set[str]) -> bool:
    """Whether the warm-up that C++ code speaks of has warmed another measurement than this one.

    What runs between the remark and the first measurement behind it is what that one measures, and
    all that this one measures is called here, and not there.
    """
    steps = [s for s in works(region) if not (r.COPY in s.roles or fills(s))]
    if source.language != "cuda" or not steps or not all(map(_is_told, steps)):
        return False
    start = region.start.start
    marks = [spot[0] for spot in _warm_words(source, None) if spot[0] < start]
    first = min((m for m in marks if m >= region.scope.node.start), default=start)
    others = [
        other
        for other in source.regions.all
        if other.scope is region.scope and first < other.start.start < other.end.end <= start
    ]
    if not others:
        return False
    opening = min(other.start.start for other in others)
    ran = [s for s in source.flow.steps(region.scope) if first < s.position <= opening and s.works]
    warm = set().union(*map(identities, ran)) if ran else set()
    warmed_here = any(_mine(works(o)) & warm for o in others if o.start.start == opening)
    return warmed_here and all(map(_is_told, ran)) and not any(m > opening for m in marks)


def _is_told(step: Step) -> bool:
    """Whether a step is a launch or a library call that stands in the measuring function itself."""
    return not step.helpers and r.OPAQUE not in step.roles and r.LIKELY not in step.roles


def ran_before(source: SourceFile, scope: Scope, position: int, steps: list[Step]) -> bool:
    """Whether the work of `steps` ran before `position`, in the scope or in a caller."""
    mine = _mine(steps)
    if _named_warm(source, scope, position) or _ran_before(source, scope, position, mine):
        return True
    return _handed_on(source, scope, position, steps) or _warm_callers(
        source, scope, steps, mine, 0
    )


def warmed_inside(source: SourceFile, region: Region, steps: list[Step]) -> bool:
    """Whether the function that measures runs the work of `steps` before it starts to."""
    mine = _mine(steps)
    start = region.start.start
    return _named_warm(source, region.scope, start) or _ran_before(
        source, region.scope, start, mine
    )


def warms_up(source: SourceFile, region: Region) -> bool:
    """Whether a Python function repeats the work before, and says that this warms it up.

    Who does so is there to measure, whatever the file is called.
    """
    start, mine = region.start.start, _mine(works(region))
    return (
        source.language == "python"
        and region.scope.node.kind == "function"
        and _between(source, _warm_words(source, None), region.scope.node.start, start)
        and any(
            loops_around(s.site) and identities(s) & mine
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
        if identities(step) & mine and not left_out(step.site):
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
    steps = works(region)
    given = [{squeeze(a.text) for a in positional(s.site)} for s in steps if s.site.kind == "call"]
    if source.language != "cuda" or len(given) != len(steps) or not steps:
        return []
    common = set.intersection(*given)
    around = {id(parent) for parent in region.start.ancestors()}
    found = []
    for node in region.scope.nodes:
        if node.kind == "if" and len(node.children) == 2 and id(node) not in around:
            asked = _ALL_BUT.fullmatch(squeeze(node.children[0].text))
            if asked and asked[1] in common and node.end <= region.start.start:
                found.append(node)
    return found


def _is_spared(source: SourceFile, region: Region) -> Callable[[Node], bool]:
    """What tells of work that it is not sure to run before a region, or never runs before it."""
    branches = sparing(source, region)
    return lambda node: (
        any(branch.start <= node.start < branch.end for branch in branches)
        or (source.language == "cuda" and exclusive(node, region.start))
    )


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
        and callee_text(call) == name
        and source.scopes.scope_of(call) is scope
        and not left_out(call)
        and not in_one_mode(source, call.start, position)
        and not (words.CPP_CUB.match(name) and source.roles.asks_size(call))
        for name in mine
        for call in source.scopes.calls_by_name.get(last_segment(name), [])
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
            if _between(source, _warm_words(source, None), first, position):
                return True
        elif around.node.kind == "module" and around is scope:
            return _between(source, _warm_words(source, around), first, position)
    return False


def _others_warmed(
    source: SourceFile, scope: Scope, position: int, mine: Collection[str]
) -> list[int]:
    """Where measurements of other work begin for which alone all is that ran before them."""
    if source.language != "python":
        return []
    calls = [n for n in scope.nodes if n.kind == "call" and n.end <= position]
    if named_warm(calls):
        return []
    found = []
    for other in source.regions.all:
        if other.scope is not scope or other.end.end > position or not other.is_plain:
            continue
        theirs = _mine(works(other))
        before = [s for s in source.flow.between(scope, -1, other.start.start) if s.works]
        ran = [s for s in before if r.COPY not in s.roles and r.ARITHMETIC not in s.roles]
        if ran and not theirs & set(mine) and all(identities(s) & theirs for s in ran):
            found.append(other.start.start)
    return found


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

    That is in a branch without an else, `if use_triton:` or `if scheme is not None:`.
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
        if WARM.search(text, branch.start, branch.end):
            while (above := text[:start].rsplit("\n", 2)[-2:-1]) and above[0].lstrip()[:1] == "#":
                start -= len(above[0]) + 1
        found.append((start, branch.end))
    return tuple(found)


_SCHEDULE = re.compile(r"\bschedule\([^()]*\)")


@lru_cache(maxsize=8)
def _warm_words(source: SourceFile, module: Scope | None) -> tuple[tuple[int, int], ...]:
    """Where a file speaks of a warm-up; with a module, in code outside of its functions."""
    # To silence missing-warmup by its name is no warm-up.
    # Nor are the steps that a profiler leaves out.
    text = SUPPRESSION.sub(lambda found: " " * len(found[0]), source.tree.text)
    if "profiler" in text:
        text = _SCHEDULE.sub(lambda found: " " * len(found[0]), text)
    spots = [found.span() for found in WARM.finditer(text)]
    if module is None:
        return tuple(spots)
    functions = sorted((c.node.start, c.node.end) for c in module.children)
    starts = [start for start, _ in functions]
    held = [bisect.bisect_right(starts, start) - 1 for start, _ in spots]
    return tuple(
        spot for spot, at in zip(spots, held, strict=True) if at < 0 or functions[at][1] <= spot[0]
    )


def _warm_callers(
    source: SourceFile, scope: Scope, steps: list[Step], mine: set[str], depth: int
) -> bool:
    """Whether the first call of the function in this file finds the work warm.

    A closure that only its outer function mentions runs after that function was called.
    """
    sites = source.scopes.call_sites(scope) if depth < 6 else []
    outer = scope.parent
    if not sites and depth < 6:
        sites = _calls_of_lambda(source, scope)
    if not sites and depth < 6 and outer is not None and outer.node.kind == "function":
        sites = _calls_of_made(source, scope, outer)
        if not sites:
            return _warm_callers(source, outer, steps, mine, depth + 1)
    if not sites and scope.name and _offers_warmup(source, scope, mine):
        return True
    discarded = [c for c in sites if c.parent is not None and c.parent.kind in ("block", "module")]
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


def _calls_of_lambda(source: SourceFile, scope: Scope) -> list[Node]:
    """The calls of a lambda of C++ under the name that it is given: auto run = [&](int n) {...}."""
    given = scope.node.parent
    if scope.node.tree.language != "cuda" or given is None or given.kind != "assign":
        return []
    name = given.children[0].text
    return [
        call
        for call in source.scopes.calls_by_name.get(name, [])
        if call.start > scope.node.end and source.scopes.scope_of(call) is scope.parent
    ]


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
    wanted = mine | {f"function {scope.node.start}"}
    return any(
        WARM.search(other.short_name)
        and other.class_name == scope.class_name
        and any(identities(s) & wanted for s in source.flow.steps(other))
        for other in source.scopes.all
        if other is not scope and other.name and not other.is_kernel
    )


def _warm_site(
    source: SourceFile, scope: Scope, site: Node, steps: list[Step], mine: set[str], depth: int
) -> bool:
    caller = source.scopes.scope_of(site)
    if WARM.search(caller.short_name):
        return True
    called = {callee_text(s.site) for s in steps if s.site.kind == "call"}
    passed = (
        {squeeze(a.text) for a in positional(site)} if called & set(scope.parameters) else set()
    )
    if _named_warm(source, caller, site.start) or _ran_before(
        source, caller, site.start, mine | passed
    ):
        return True
    inner: set[str] = set()
    for given in positional(site):
        function = source.scopes.callable_value(given, caller)
        if function is not None:
            inner |= {f"function {function.node.start}"}
            for step in source.flow.steps(function):
                inner |= identities(step) if step.works else set()
    if inner and _ran_before(source, caller, site.start, inner):
        return True
    return _warm_callers(source, caller, steps, mine, depth + 1)


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
    return not (value.printed or value.returned or value.names or value.passed or value.lists)


def unused(source: SourceFile, scope: Scope) -> bool:
    """Whether a function is private to the file, by its name, and nothing in the file uses it."""
    name = scope.short_name
    if not re.match(r"_[^_]", name) or scope.class_name:
        return False
    return not any(
        last_segment(node.text) == name
        for node in source.tree.of_kind("name")
        if node.parent is not scope.node
    )


def drops_samples(source: SourceFile, region: Region) -> bool:
    """Whether the first samples are left out, or only robust statistics of many are used."""
    if not region.sample_loops and not _looped_callers(source, region.scope):
        return False
    if _guarded(region.delta, region) or _guarded(region.end, region):
        return True
    value = fate(source, region)
    if any(_reset(source, name, region) for name in value.sums) or _keeps_least(source, region):
        return True
    if leaves_first_out(source, region):
        return True
    scope = source.scopes.scope_of(region.delta)
    for name in value.lists:
        applied = reducers(source, name, scope)
        for derived in _derived(name, scope):
            applied = applied | reducers(source, derived, scope)
        if applied & {"slice", "indexed"} or any(ROBUST.search(a) for a in applied):
            return True
        if _dropped_in_helper(source, name, scope):
            return True
        if re.search(
            rf"\b{re.escape(last_segment(name))}\s*\[\s*-?[\w.]+\s*:\s*\]", source.tree.text
        ):
            return True
    if any(ROBUST.search(name) for name in value.reduced):
        return True
    returned = value.returned or any(
        n.kind == "return" and value.sums & {u.text for u in n.walk() if u.kind == "name"}
        for n in region.scope.nodes
    )
    return bool(returned) and _robust_callers(source, region.scope)


def _dropped_in_helper(source: SourceFile, name: str, scope: Scope) -> bool:
    """Whether a list is handed to a function of the file that leaves the first of them out."""
    for use in source.uses(name, scope):
        call = next((p for p in use.ancestors() if p.kind not in ("args", "keyword")), None)
        function = (
            source.scopes.called_function(call, scope) if call and call.kind == "call" else None
        )
        for parameter in function.parameters if function is not None else ():
            given = source.scopes.argument_values(function, parameter) if function else []
            cut = rf"\b{re.escape(parameter)}\s*\[\s*[\w.]+\s*:\s*\]"
            if use in given and function and re.search(cut, function.node.text):
                return True
    return False


@remembered
def leaves_first_out(source: SourceFile, region: Region) -> bool:
    """Whether C++ code reads the samples from the second on: for (k = 1; ...) sum += times[k]."""
    names = fate(source, region).lists if source.language == "cuda" else set()
    if not region.sample_loops or not names:
        return False
    # Also one list of several: times[0].push_back().
    kept = "|".join(re.escape(last_segment(name).partition("[")[0]) for name in names)
    text = source.tree.text
    # A list of the lists of each round: all.push_back(times).
    outer = re.findall(rf"\b(\w+)(?:\.|->)(?:push|emplace)_back\(\s*(?:{kept})\s*\)", text)
    kept = "|".join([kept, *map(re.escape, outer)])
    if re.search(rf"\b(?:{kept})(?:\[\w+\])*(?:\.|->)c?begin\(\)\s*\+\s*(?!0\b)\w", text):
        return True
    loops = [n for n in source.tree.of_kind("for") if n.start >= region.sample_loops[-1].end]
    first = {id(loop): _first_index(loop, kept) for loop in loops}
    late = [loop for loop in loops if first[id(loop)] not in ("", "0")]
    others = [loop for loop in loops if first[id(loop)] == "0" and not _nested(loop, late)]
    alone = re.search(rf"\b(?:{kept})\s*\[\s*0\s*\](?!\s*\[)", text)  # where a minimum begins
    return bool(late) and not others and not alone


def _first_index(loop: Node, names: str) -> str:
    """With which number a loop begins that reads some lists by its counter, or ""."""
    body, head = loop_body(loop), loop_header(loop)
    begins = re.search(r"\b(\w+)\s*=\s*(\w+)\s*;", head)
    if begins is None or body is None or not re.fullmatch(_COUNTS_FROM, begins[2]):
        return ""
    read = rf"\b(?:{names})\s*(?:\[[^\]]*\]\s*)*\[[^\]]*\b{begins[1]}\b"
    return begins[2] if re.search(read, body.text) else ""


_COUNTS_FROM = re.compile(r"\d+|(?i:\w*(warm|skip|drop|burn|discard|ignore)\w*)")


def _nested(loop: Node, others: list[Node]) -> bool:
    """Whether a loop lies in one of some others, or around one."""
    return any(o.start <= loop.start < o.end or loop.start <= o.start < loop.end for o in others)


def _keeps_least(source: SourceFile, region: Region) -> bool:
    """Whether the shortest sample is kept: if (rep == 0 || best > ms) best = ms."""
    loops = loops_around(region.delta)
    return any(
        re.search(r"min|best|fastest|shortest|least", target_key(node.children[0]), re.IGNORECASE)
        and any(p.kind == "if" and re.search(r"[<>]", p.children[0].text) for p in node.ancestors())
        for node in region.scope.nodes
        if loops and node.kind == "assign" and loops[0].start < node.start < loops[0].end
    )


def _reset(source: SourceFile, name: str, region: Region) -> bool:
    """Whether a sum is set to zero again in its loop, when the first samples are in it."""
    loops = loops_around(region.delta)
    return any(
        value.kind == "number"
        and any(p.kind == "if" for p in target.ancestors() if p.start > loops[0].start)
        and loops[0].start < target.start < loops[0].end
        for target, value in (source.scopes.assignments(name, region.scope) if loops else ())
    )


def _derived(name: str, scope: Scope) -> set[str]:
    """Lists that are computed member by member from the list `name`: [a / b for a, b in ...]."""
    found = set()
    for node in scope.nodes:
        value = node.children[-1] if node.kind == "assign" and node.children else None
        header = value.child("comp_for") if value is not None and value.kind == "comp" else None
        if header and any(n.kind == "name" and n.text == name for n in header.walk()):
            found.add(target_key(node.children[0]))
    return found


def _robust_callers(source: SourceFile, scope: Scope) -> bool:
    """Whether the callers take a robust statistic of what the function returns again and again."""
    for site in source.scopes.call_sites(scope):
        for parent in site.ancestors():
            if parent.kind == "call" and ROBUST.search(callee_text(parent)):
                return True
            if parent.kind == "assign":
                target = parent.children[0]
                parts = target.children if target.kind == "tuple" else [target]
                where = source.scopes.scope_of(site)
                for part in parts:
                    name = base_name(part.text) if part.kind == "subscript" else target_key(part)
                    if any(ROBUST.search(a) for a in reducers(source, name, where)):
                        return True
            if parent.kind in ("block", "module", "assign"):
                break
    return False


def _looped_callers(source: SourceFile, scope: Scope) -> bool:
    return any(loops_around(site) for site in source.scopes.call_sites(scope))


def rare(node: Node, outside: Node, passing: Callable[[Node], bool] = lambda branch: False) -> bool:
    """Whether a condition that does not hold `outside` too keeps `node` from always running.

    Branches of which `passing` is true do not.
    """
    for parent in node.ancestors():
        if parent.start <= outside.start and outside.end <= parent.end:
            return False
        if parent.kind in ("if", "elif", "else") and passing(parent):
            continue
        if parent.kind in ("except", "finally", "case"):
            return True
        if parent.kind in ("if", "elif") and parent.children:
            text = parent.children[0].text
            if re.search(r"cuda|gpu|device|sync", text):
                continue  # it holds wherever there is a device
            if re.search(
                r"%|verbose|debug|\bprofil|==|>=?|<=?|\blast\b|\bfirst\b|is None"
                r"|is not None|rank|master"
                r"|main_process|is_log|should|(^|[_.\s])every_",
                text,
            ) or (text.isidentifier() and every_nth(text, parent)):
                return True
        if (
            parent.kind == "else"
            and parent.parent is not None
            and parent.parent.kind in ("if", "for")
        ):
            return True
    return False


def every_nth(name: str, branch: Node) -> bool:
    """Whether a condition's name is assigned a remainder before: report = step % 100 == 0."""
    before = branch.tree.text[max(0, branch.start - 4000) : branch.start]
    return re.search(rf"\b{name}\s*=[^=\n]*%", before) is not None


def conditional(node: Node, outside: Node) -> bool:
    """Whether any condition or error path lies around `node` but not around `outside`."""
    for parent in node.ancestors():
        if parent.start <= outside.start and outside.end <= parent.end:
            return False
        if parent.kind in ("if", "elif", "else", "except", "case", "cond"):
            return True
    return False


_BINDS = ("name", "tuple", "assign", "decl")
_GUARD = re.compile(r"(>=?|!=|==|<=?|%)\s*[\w.]+|not\s+\w*first|\bfirst\b|warm")


def _guarded(node: Node, region: Region) -> bool:
    """Whether an if that compares a counter decides about the sample.

    One with all of the measurement in it, and no else, drops nothing: nothing runs without it.
    """
    loops = loops_around(node)
    if not loops:
        return False
    counters = {
        n.text for loop in loops for n in loop.children[:2] if n.kind in _BINDS
                for n in n.walk() if n.kind == "name"}  # fmt: skip
    for parent in node.ancestors():
        if parent is loops[-1]:
            break
        if (
            parent.kind in ("if", "elif")
            and parent.children
            and _counts(parent.children[0], counters)
            and not (parent.start < region.start.start and len(parent.children) == 2)
        ):
            return True
    body = next((c for c in loops[0].children if c.kind == "block"), None)
    for statement in body.children if body else ():
        if (
            statement.kind == "if"
            and statement.children
            and _counts(statement.children[0], counters)
            and not (
                statement.start < region.start.start < statement.end
                and len(statement.children) == 2
            )
        ):
            inside = statement.child("block") or statement
            if (
                any(n.kind == "jump" and n.text == "continue" for n in inside.walk())
                or "+=" in statement.text
                or "append" in statement.text
                or "push_back" in statement.text
            ):
                return True
    return False


def _counts(condition: Node, counters: Iterable[str]) -> bool:
    names = {n.text for n in condition.walk() if n.kind == "name"}
    return bool(names & set(counters)) and bool(_GUARD.search(condition.text))


BENCHMARK = re.compile(
    r"bench|time|timing|timed|measure|perf|profil|speed|latency|throughput|test|eval|fps"
    r"|main|compare|demo"
    r"|experiment|trial|run_|^run|tflops|bandwidth|infer",
    re.IGNORECASE,
)


# A file that is a benchmark by its name, whatever its classes are called.
_NAMED_SO = re.compile(
    r"(^|_)(bench|benchmark(s|ing)?|perf|timing|speed|latency|throughput|profil\w+)(_|$)",
    re.IGNORECASE,
)
# A figure that goes to the log of a training or a service, step by step.
_LOGGED = re.compile(
    r"add_scalar|wandb|mlflow|log_metrics|log_dict|\bmetrics\[|meter", re.IGNORECASE
)


def _one_call(source: SourceFile, region: Region) -> bool:
    """Whether a region of C++ is one call of a straight function that times a part of itself."""
    helpers = {s.helpers[0].node.start: s.helpers[0] for s in works(region) if s.helpers}
    sites = {id(s.site) for s in works(region)}
    if source.language != "cuda" or len(helpers) != 1 or len(sites) != 1:
        return False
    (helper,) = helpers.values()
    inside = [g for g in source.regions.all if g.scope is helper and g.timer is None]
    return len(inside) == 1 and not any(n.kind in ("for", "while") for n in helper.nodes)


def _wraps_watch(source: SourceFile, region: Region) -> bool:
    """Whether a stopwatch of C++ runs around cycles that use others, as that of a program."""
    if source.language != "cuda":
        return False
    timed = {id(other.scope) for other in source.regions.all if other.watch}
    return any(
        region.inner_loops(step.site)
        for step in region.steps
        if any(id(helper) in timed for helper in step.helpers)
    )


def _is_one_launch(source: SourceFile, region: Region) -> bool:
    """Whether a method of C++ records events around a launch, and prints what they say at once."""
    launched = any(s.node.kind == "launch" and not s.helpers for s in region.steps)
    shown = fate(source, region).printed
    calls = {last_segment(callee_text(n)) if n.kind == "call" else "cout" for n in shown}
    return region.kind == "event" and launched and calls <= {"printf", "cout"}


def _benchmark_calls(source: SourceFile, function: Scope, depth: int) -> bool:
    """Whether a function that is a benchmark by its name, RunBenchmark(), calls another one."""
    callers = [source.scopes.scope_of(site) for site in source.scopes.call_sites(function)]
    return depth < _MOST_CALLS and any(
        re.search("bench", caller.short_name, re.IGNORECASE)
        or _benchmark_calls(source, caller, depth + 1)
        for caller in callers
        if caller is not function
    )


_MOST_CALLS = 3
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
def is_benchmark(source: SourceFile, region: Region) -> bool:
    """Whether a region measures for the sake of the figure: not a timer inside a product's code."""
    if region.kind == "harness":
        return True
    if region.wraps_measurement and not _one_call(source, region):
        return False
    if region.watch and _wraps_watch(source, region):
        return False
    if region.hooked or region.carried or any(s.is_async for s in region.scope.enclosing()):
        return False
    if _LOGGED.search(source.statement(region.delta).text[:400]):
        return False
    scopes = [s for s in region.scope.enclosing() if s.node.kind == "function"]
    if not scopes:
        return True
    if enters_result(source, region):
        return True
    if (
        source.language == "cuda"
        and fate(source, region).printed
        and (not scopes[-1].class_name or _is_one_launch(source, region))
    ):
        # Products do not print times to the terminal from a plain function, nor do their methods
        # record events around a launch for that.
        return True
    if any(s.class_name for s in scopes):
        names = " ".join([*(s.class_name for s in scopes), *(s.short_name for s in scopes)])
        stem = re.split(r"[\\/]", source.unit.path)[-1].partition(".")[0]
        if source.language == "python" and _NAMED_SO.search(stem):
            return True
        return bool(
            re.search(
                r"bench|timing|measure|latency|throughput|profil|(?<!deep)speed|timeit|perf(?!orm)",
                names,
                re.IGNORECASE,
            )
        )
    if source.language == "cuda" and "main" in source.scopes.functions:
        return True  # a program of one file, which prints what it measures
    if source.language == "cuda" and _benchmark_calls(source, scopes[-1], 0):
        return True
    if BENCHMARK.search(scopes[0].short_name) or BENCHMARK.search(scopes[-1].short_name):
        return True
    return bool(BENCHMARK.search(re.split(r"[\\/]", source.unit.path)[-1]))


_SERVERS = re.compile(r"^(gradio|streamlit|fastapi|flask|starlette|uvicorn|ray\.serve|chainlit)\b")


def serves(source: SourceFile) -> bool:
    """Whether a Python file is a web page or a service, which shows what one request took."""
    return source.language == "python" and any(
        _SERVERS.match(full) for full in source.scopes.imports.values()
    )


def answers_user(source: SourceFile, region: Region) -> bool:
    """Whether each turn of a dialogue is timed, in a loop that asks for input, and told."""
    places = [region.start, *source.scopes.call_sites(region.scope)]
    loops = (loop for place in places for loop in loops_around(place) if loop.kind == "while")
    return source.language == "python" and any(
        n.kind == "call" and callee_text(n) == "input" for loop in loops for n in loop.walk()
    )


_SAVES = re.compile(r"(^|[._])(save|save_image|save_video|imwrite|export_to_\w+|write_video)$")


def makes_product(source: SourceFile, region: Region) -> bool:
    """Whether an example runs a pipeline once to save what comes out, and says how long it took."""
    if source.language != "python" or region.sample_loops:
        return False
    if not any(r.BLOCKING in s.roles for s in region.steps):
        return False
    made = {
        target_key(node.children[0])
        for node in region.scope.nodes
        if node.kind == "assign" and region.holds(node)
    }
    later = (n for n in region.scope.nodes if n.kind == "call" and n.start > region.end.end)
    return any(
        _SAVES.search(callee_text(call))
        and any(n.kind == "name" and n.text.partition(".")[0] in made for n in call.walk())
        for call in later
    )


_TIMED_BUILD = re.compile(
    r"^[ \t]*#[ \t]*if(?:def\b|[ \t]+defined\b)?[ \t(]*"
    r"\w*(TIM(E|ER|ING)|DEBUG|PROFIL|VERBOSE|MEASURE)",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|endif|else|elif)[^\n]*", re.MULTILINE)


@remembered
def profiles(source: SourceFile, region: Region) -> bool:
    """Whether both readings are compiled only where a macro asks for times: #ifdef DEBUG_TIME.

    An application that runs as a whole tells then how its time is made up. Two separate directives
    are asked for: a program that is itself the measurement has all of it in one.
    """
    if source.language != "cuda" or region.kind != "clock":
        return False
    if "main" in source.scopes.functions:
        return False  # a program of one file is a measurement rather than an application
    first, last = (switched_on(source, node) for node in (region.start, region.end))
    return first is not None and last is not None and first != last


def switched_on(source: SourceFile, node: Node) -> int | None:
    """Where the innermost directive around a node is that switches times on, if it is one."""
    opened: list[re.Match[str]] = []
    for directive in _CONDITIONAL.finditer(source.tree.text, 0, node.start):
        if directive[1] == "if":
            opened.append(directive)
        elif directive[1] == "endif" and opened:
            opened.pop()
    if not opened or not _TIMED_BUILD.match(opened[-1][0]):
        return None
    return opened[-1].start()


_ENGINE = re.compile(r"(^|[._])(llm|engine|llm_engine|server)\.(generate|chat|encode|embed|score)$")


def serves_requests(source: SourceFile, region: Region) -> bool:
    """Whether an engine that warms up by itself gets many requests at once: its throughput."""
    steps = works(region)
    return (
        source.language == "python"
        and bool(steps)
        and all(s.node.kind == "call" and _ENGINE.search(callee_text(s.node)) for s in steps)
    )


@remembered
def never_used(source: SourceFile, region: Region) -> bool:
    """Whether a C++ function asks for the time of its events and does nothing with the answer."""
    if source.language != "cuda" or region.kind != "event" or region.timer is not None:
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


def hands_back_result(source: SourceFile, region: Region) -> bool:
    """Whether a Python function runs what it is given for its result, and tells the time beside it.

    result = closure(); ...; return result, elapsed: how often it is called, and what becomes of the
    times, is for the callers to know. Those of the file are looked at instead.
    """
    steps = works(region)
    sites = source.scopes.call_sites(region.scope)
    if source.language != "python" or sites or not all(r.OPAQUE in s.roles for s in steps):
        return False
    calls = [s.site for s in steps if callee_text(s.site) in region.scope.parameters]
    kept = {
        target_key(c.parent.children[0]) for c in calls if c.parent and c.parent.kind == "assign"
    }
    returned = [n for node in fate(source, region).returned for n in node.walk()]
    return bool(kept) and len(calls) == len(steps) and bool(kept & {n.text for n in returned})


# A copy of which the rate is told is measured for its own sake.
_BANDWIDTH = re.compile(r"(?<![a-z])[KMG]i?B(yte)?s?[ _]*(/|per)[ _]*s|bandwidth", re.IGNORECASE)


@remembered
def is_copy_stage(source: SourceFile, region: Region) -> bool:
    """Whether a stage of a C++ program, told apart from that of its kernels, only copies.

    What is to be said about such a breakdown of one run is said at the kernels. Where a loop takes
    samples of those, the one time of the copy is a figure of its own.
    """
    if source.language != "cuda" or region.sample_loops or not _only_copies(region):
        return False
    if _BANDWIDTH.search(source.intent(region)):
        return False
    return any(
        other.scope is region.scope
        and (region.end.end <= other.start.end or other.end.end <= region.start.end)
        and any(s.works and r.COPY not in s.roles for s in other.steps)
        for other in source.regions.all
        if other is not region
        and other.kind == region.kind
        and not (other.kind == "event" and any(o.kind == "for" for o in other.sample_loops))
        and not _repeats_kernels(source, other)
    )


def _repeats_kernels(source: SourceFile, region: Region) -> bool:
    """Whether a region of events repeats its kernels, and its time is divided by how often."""
    loops = [loop for s in works(region) if s.works for loop in region.inner_loops(s.site)]
    return region.kind == "event" and any(
        repetitions.is_divided(source, region, loop) for loop in loops
    )


def _only_copies(region: Region) -> bool:
    return all(r.COPY in s.roles for s in works(region))


@remembered
def only_asserted(source: SourceFile, region: Region) -> bool:
    """Whether a test compares the samples one by one, so that there is no figure."""
    value = fate(source, region)
    if not value.lists or value.printed or value.returned or value.sums or value.passed:
        return False
    scope = source.scopes.scope_of(region.delta)
    return all(_loops_assert(name, scope) for name in value.lists)


def _loops_assert(name: str, scope: Scope) -> bool:
    """Whether a list is used only as what a loop of assertions runs over."""
    names = [n for n in scope.nodes if n.kind == "name" and n.text == name]
    uses = [n for n in names if not (_is_target(n) or _is_target(n.parent or n))]
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


@remembered
def means_first(source: SourceFile, region: Region) -> bool:
    """Whether the names say that the first, cold execution is what is measured."""
    if _headed_warm(source, region.start):
        return True
    said = re.sub(r"torch\.compile", "", source.intent(region))
    said = _AFTER_WARM.sub("", said)
    return bool(
        re.search(
            r"first|cold|ttft|compil(?!ed)|compiled in\b|code[ _-]?gen|startup|start_up"
            r"|warm_?-?up"
            r"|(?<![a-z])load(?!er)"
            r"|(?<![a-z])init|(?<![a-z])build|setup|download|captur|(?<![a-z])tun(e|ing)"
            r"|(?<![a-z])allocat(e|ed|ing|ion)(?![a-z])"
            r"|conver(t|ting|sion)\W+(\w+\W+){0,2}(model|checkpoint|weights|ckpt)",
            said,
            re.IGNORECASE,
        )
    )


# That of a figure which was taken behind it: "post-warmup", "after warm-up".
_AFTER_WARM = re.compile(
    r"(?<![a-z])(post|after|past|following|excluding|excl\.?)[ _-]?(the[ _])?warm_?-?up",
    re.IGNORECASE,
)


def remarks_above(source: SourceFile, region: Region) -> str:
    """The remarks right above a measurement or above the loop that repeats it."""
    lines = {c.line: c.text for c in source.tree.comments}
    found = []
    for head in (source.statement(region.start), *region.sample_loops):
        line = head.line - 1
        while line in lines:
            found.append(lines[line])
            line -= 1
    return "\n".join(found)


@remembered
def headed_launch(source: SourceFile, region: Region) -> bool:
    """Whether a remark above C++ code says that what is timed is how long a launch takes."""
    return source.language == "cuda" and bool(_LAUNCH_HEAD.search(remarks_above(source, region)))


_LAUNCH_HEAD = re.compile(
    r"\b(enqueue|launch|dispatch|submission)(ing)? (rate|overhead|latency|cost)"
    r"|\btime (taken |needed |it takes |spent )?(to|for|in) (enqueu|launch|submit|dispatch)",
    re.IGNORECASE,
)


_WARM_HEAD = re.compile(r"(#|//|/\*)\s*(\W*\w+\W+){0,2}?(pre)?warm", re.IGNORECASE)


def _headed_warm(source: SourceFile, start: Node) -> bool:
    """Whether the comment right above a measurement, or the block around it, heads a warm-up."""
    lines = {c.line: c.text for c in source.tree.comments}
    heads = [source.statement(start)]
    heads += [p for p in start.ancestors() if p.kind in ("with", "for")]
    return any(_WARM_HEAD.match(lines.get(head.line - 1, "")) for head in heads)


@remembered
def means_launch(source: SourceFile, region: Region) -> bool:
    """Whether the names say that what a launch costs is what is measured, wait and all."""
    said = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", source.intent(region))
    return bool(_LAUNCH.search(said))


_LAUNCH = re.compile(
    r"(?<!grouped[ _])(?<!cooperative[ _])(?<!persistent[ _])(kernel[ _-]?)?launch"
    r"([ _-]*(time|cost|latency|overhead)|[ _](event|wall)[ _-]time)"
    r"|(empty|null|noop)[ _-]?(kernel|launch)",
    re.IGNORECASE,
)


@remembered
def host_time_meant(source: SourceFile, region: Region) -> bool:
    """Whether the names say host time and no wait in the region contradicts them."""
    return source.means_host_time(region) and not any(r.WAIT in s.roles for s in region.steps)


def is_bounded(source: SourceFile, region: Region) -> bool:
    """Whether a test asserts that a time stays below a bound, and does nothing else with it."""
    value = fate(source, region)
    if value.lists or value.sums or value.printed or value.returned or value.passed:
        return False
    uses = [u for name in value.names for u in source.uses(name, region.scope)]
    read = [u for u in uses if not _is_target(u)]
    times = {n for g in source.regions.all if g is not region for n in fate(source, g).names}
    checks = [p for u in read for p in u.ancestors() if p.kind == "assert"]
    others = {n.text for check in checks for n in check.walk() if n.kind == "name"}
    return len(checks) == len(read) > 0 and not others & (times - value.names)


@remembered
def is_long(source: SourceFile, region: Region) -> bool:
    """Whether a Python region is one answer of a whole model, which is many kernels long.

    That is a call that generates, or one function of the file in which much is computed.
    """
    steps = [s for s in works(region) if r.COPY not in s.roles]
    if source.language != "python" or not steps:
        return False
    inside = all(s.helpers for s in steps) and len({id(s.site) for s in steps}) == 1
    if inside and sum(r.ARITHMETIC not in s.roles for s in steps) >= _MANY:
        return True
    return all(r.BLOCKING in s.roles and _ANSWERS.search(callee_text(s.node)) for s in steps)


_MANY = 10
_ANSWERS = re.compile(r"(^|[._])(generate|chat|pipe|pipeline|transcribe|synthesi[sz]e)$")


def is_shown_once(region: Region) -> bool:
    """Whether `%time` of a notebook shows how long a cell takes, its first execution and all."""
    return "_ipython_time(" in region.report.text[:40]


# What is called once at the start of a program.
_STARTS = re.compile(
    r"(^|[._])(parse_(known_)?args|ArgumentParser|basicConfig|set_start_method|init_process_group)$"
    r"|^(ti|taichi)\.init$"
)
# A function that measures with events the run time of something, which is no program then.
_MEASURES = re.compile(r"_?(measure|profile|bench(mark)?|time|timeit)(_|$)")
# How a program says how long it ran.
_RUN_TIME = re.compile(
    r"(?<![a-z])(finished|completed|experiment|script|program|overall)(?![a-z])"
    r"|execution took|wall[ _-]?(clock[ _-]?)?time|end[ _-]?(to|2)[ _-]?end"
    r"|total[ _]*(run|elapsed|train\w*|eval\w*|processing|wall)?[ _-]*(time|duration|seconds)"
    r"|(training|quanti[sz]ation|calibration|evaluation|run)[ _]*(time|duration|completed|took)"
    r"|(quanti[sz]|calibrat|sparsif|prun)\w*(\W+\w+){0,6}\W+took"
    r"|seconds to (quanti[sz]e|calibrate)"
    r"|run_?time(?![a-z])|time_to_train|(?<![a-z])(whole|entire)(?![a-z])|time elapsed",
    re.IGNORECASE,
)
_LONG_UNITS = re.compile(
    r"timedelta\(|strftime\(|gmtime\(|//?\s*(60|3600)(\.0*)?(?![\d.])|hh:mm|(?<![a-z])(minutes|hours|mins)\b"
)


@remembered
def is_total(source: SourceFile, region: Region) -> bool:
    """Whether C++ code is measured as a whole, from its copy in to its copy out, and says so."""
    if source.language != "cuda" or not copies_both_ways(region):
        return False
    said = re.findall(r'"[^"]*"', source.intent(region))
    return any(_TOTAL.search(text) for text in said) or is_offload(source, region)


_TOTAL = re.compile(
    r"(?<![a-z])(total|overall|whole|entire|end[ _-]?(to|2)[ _-]?end|e2e|application|program)"
    r"(?!\w*[ _]*(gpu|kernel|device|bytes|flops))",
    re.IGNORECASE,
)
_OFFLOAD = re.compile(r"(?<![a-z])offload(ing)?(?![a-z])", re.IGNORECASE)


@remembered
def is_offload(source: SourceFile, region: Region) -> bool:
    """Whether C++ code is measured with its copies in and out, beside a figure of the kernels.

    That one is taken inside, in every build, or the text says that all that is offloaded is meant.
    """
    if source.language != "cuda" or not copies_both_ways(region):
        return False
    return bool(_OFFLOAD.search(source.intent(region))) or any(
        other is not region
        and other.scope is region.scope
        and other.kind in ("clock", "event")
        and region.holds(other.start)
        and region.holds(other.end)
        and (other.start, other.end) != (region.start, region.end)
        and any(s.works and r.COPY not in s.roles for s in other.steps)
        and not copies_both_ways(other)
        and switched_on(source, other.start) in (None, switched_on(source, region.start))
        for other in source.regions.all
    )


def is_told_inside(source: SourceFile, region: Region) -> bool:
    """Whether C++ code is measured with its copies, and the file has a figure of its kernels too.

    What is to be said of a cold or a single run is said at that one.
    """
    return is_offload(source, region) and any(
        other is not region
        and other.kind in ("clock", "event")
        and any(s.works and r.COPY not in s.roles for s in other.steps)
        and not copies_both_ways(other)
        for other in source.regions.all
    )


def copies_both_ways(region: Region) -> bool:
    """Whether C++ code copies its data in and its result out: it is measured end to end."""
    copies = [s.node.text for s in region.steps if {r.BLOCKING, r.COPY} <= s.roles]
    return any("HostToDevice" in text for text in copies) and any(
        "DeviceToHost" in text for text in copies
    )


# How a phase says that it is over, in tenths of seconds.
_DONE = re.compile(r"(?<![a-z])(done|finished|completed?|ready)(?![a-z])", re.IGNORECASE)
# A figure in whole seconds: what a kernel adds to it nobody sees.
_WHOLE = re.compile(r":\.0f\}\s*s(ec(ond)?s?)?(?![a-z])|%\.0f\s*s(ec(ond)?s?)?(?![a-z])")
_ROUGH = re.compile(r":\.[012]f\}\s*s|%\.[012]fs|%\.[012]f s")


@remembered
def is_program(source: SourceFile, region: Region) -> bool:
    """Whether a region is the run time of a program or of a phase of it, and no figure of a kernel.

    Its arguments are parsed inside; the figure is shown in minutes or as a clock shows it; a phase
    of another file runs inside; or its name says so and no work is seen but in helpers.
    """
    if source.language != "python":
        return False
    if any(r.PHASE in s.roles for s in region.steps):
        return True
    helpers = [s.helpers[0].short_name if s.helpers else "" for s in works(region)]
    if helpers and all(
        re.match(r"(main(_.*)?|run_main|train|validate|evaluate|test|_bench_\w+)$", name)
        for name in helpers
    ):
        return True
    calls = (n for n in region.scope.nodes if n.kind == "call" and region.holds(n))
    if any(_STARTS.search(callee_text(call)) for call in calls):
        return True
    if shown_in_hours(source, region) or _WHOLE.search(_shown(source, region)):
        return True
    if region.kind == "event" and _MEASURES.match(region.scope.short_name):
        return False
    direct = any(s.works and not s.helpers and r.LIKELY not in s.roles for s in region.steps)
    return not direct and not region.sample_loops and bool(_RUN_TIME.search(source.intent(region)))


def shown_in_hours(source: SourceFile, region: Region) -> bool:
    """Whether a time is shown in minutes or hours, or as a clock shows it."""
    return bool(_LONG_UNITS.search(_shown(source, region)))


@remembered
def is_progress(source: SourceFile, region: Region) -> bool:
    """Whether a program tells how it gets on: "done (3.2s)". Its waits matter, its samples not."""
    shown = _shown(source, region) if source.language == "python" else ""
    return bool(_DONE.search(shown) and _ROUGH.search(shown)) or is_program(source, region)


def _shown(source: SourceFile, region: Region) -> str:
    """The statements that show the time of a region, and those that scale it."""
    value = fate(source, region)
    uses = [u for name in value.names for u in source.uses(name, region.scope)]
    places = [region.delta, *value.printed, *uses]
    statements = {id(s): s for s in map(source.statement, places) if s.kind not in _BLOCKS}
    return "\n".join(s.text[:300] for s in statements.values())


_BLOCKS = ("if", "for", "with", "while", "try", "function", "class")


_COUNTED = re.compile(
    r"^(\w+\.)*(t?range|trange|xrange|repeat|arange|progress_bar|count)\(|^(enumerate|tqdm[\w.]*|zip|list)\(\s*"
    r"(\w+\.)*(t?range|count)\("
)


@remembered
def passes_over_data(region: Region) -> bool:
    """Whether a loop inside the region goes through a data set: it uploads batch after batch."""
    for step in region.steps:
        for loop in region.inner_loops(step.site) if step.roles & {r.UPLOAD, r.READ} else ():
            listed = loop.children[1].text if len(loop.children) > 1 else ""
            if loop.kind == "for" and listed and not _COUNTED.match(listed):
                return True
    return False


_LOADER = re.compile(r"loader|data_?set|(^|[._(])(coco|dali|data_iter\w*|dl)\b", re.IGNORECASE)


def samples_data(region: Region) -> bool:
    """Whether the samples are the batches of a data set: the first is one of very many."""
    return any(
        loop.kind == "for" and len(loop.children) > 1 and _LOADER.search(loop.children[1].text)
        for loop in region.sample_loops
    )


def is_phase(region: Region) -> bool:
    """Whether all work is in helpers that loop: a phase of a program, not a repeatable call.

    A loop that does the same again and again, and does not look at its counter, is no phase.
    """
    return all(
        any(_goes_on(n) for helper in s.helpers[:1] for n in helper.nodes) for s in works(region)
    )


def _goes_on(loop: Node) -> bool:
    """Whether a loop does something else each time around."""
    if loop.kind not in ("for", "while"):
        return False
    body = loop_body(loop)
    if loop.kind == "while" or body is None or not _COUNTED.match(loop.children[1].text):
        return True
    counter = loop.children[0].text
    return any(n.kind == "name" and n.text == counter for n in body.walk())


_LOADS = re.compile(
    r"(^|[._])(get|load|build|create|make|init|initiali[sz]e|setup|restore)_(\w+_)?"
    r"(model|pipe|pipeline|network|net|engine|checkpoint|ckpt|weights|adapter|processor)s?$"
)


@remembered
def loads_model(source: SourceFile, region: Region) -> bool:
    """Whether all that runs is a function of the file that makes a model, as its name says."""
    sites = {callee_text(s.site) if s.site.kind == "call" else "" for s in works(region)}
    return source.language == "python" and bool(sites) and all(map(_LOADS.search, sites))


def compiles(step: Step) -> bool:
    """Whether code is compiled right here; torch.compile and jax.jit only promise to."""
    lazy = r"(torch\.compile|jax\.jit|^jit)$"
    return r.COMPILE in step.roles and not re.search(lazy, callee_text(step.node))


@remembered
def repeats_a_pass(region: Region) -> bool:
    """Whether forward and backward passes are repeated without a step of an optimizer.

    They change nothing but gradients, so that one is like the other, which a training step is not.
    """
    outer = [s for s in region.scope.enclosing() if s.node.kind == "function"][-1:]
    if not any(_is_backward(s.node) for s in region.steps) or not outer:
        return False
    if re.search(r"train|epoch", region.scope.name):
        return False
    calls = (n for s in (region.scope, *outer) for n in s.nodes if n.kind == "call")
    names = {callee_text(call) for call in calls}
    names |= {callee_text(s.node) for s in region.steps if s.node.kind == "call"}
    return not any(_TRAINS.search(n) and "prof" not in n for n in names)


_TRAINS = re.compile(r"(^|[._])(step|zero_grad|train_step|optimize\w*)$")


def of_epochs(region: Region) -> bool:
    """Whether each sample is an epoch."""
    heads = [loop.children[0].text + loop.children[1].text for loop in region.sample_loops[:1]
             if len(loop.children) > 1]  # fmt: skip
    return any("epoch" in head.lower() for head in heads)


@remembered
def is_training(region: Region) -> bool:
    """Whether the region runs training: its steps change the model, so a pass is not repeatable."""
    for step in region.steps:
        if step.node.kind == "call" and last_segment(callee_text(step.node)) in (
            "backward",
            "step",
            "train_step",
            "zero_grad",
        ):
            return True
    return bool(re.search(r"train|epoch", region.scope.name)) or any(
        re.search(r"(^|[._])(train\w*|fit|run_epoch|evaluate\w*|validate\w*)$", callee_text(s.site))
        for s in region.steps
        if s.site.kind == "call"
    )

"""Whether the first samples of a measurement are left out of its figure.

A branch on the counter skips them, a slice or a loop that begins later leaves them out, the sum is
set to zero behind them, the function that takes them is first told to keep silent; or the figure is
a statistic of many that a first outlier cannot move.
"""

import re
from collections.abc import Iterable

from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    last_segment,
    leaf_names,
    loop_body,
    loop_header,
    loops_around,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, reductions
from perf_timing.lint.intent import searches
from perf_timing.lint.measured.regions import Region, remembered


def drops_samples(source: SourceFile, region: Region) -> bool:
    """Whether the first samples are left out, or only robust statistics of many are used."""
    if _first_untold(source, region):
        return True
    if not region.sample_loops and not _looped_callers(source, region.scope):
        return False
    if _guarded(region.delta, region) or _guarded(region.end, region):
        return True
    value = fates.fate(source, region)
    if any(_reset(source, name, region) for name in value.sums):
        return True
    if _keeps_least(source, region) and not value.sums:  # of which a mean is told as well
        return True
    if leaves_first_out(source, region):
        return True
    if _cuts_events(source, region):
        return True
    scope = source.scopes.scope_of(region.delta)
    for name in value.lists:
        applied = reductions.reducers(source, name, scope)
        for derived in _derived(name, scope):
            applied = applied | reductions.reducers(source, derived, scope)
        if "indexed" in applied or any(reductions.ROBUST.search(a) for a in applied):
            return True
        if _dropped_in_helper(source, name, scope) or _cut(source, region, name, applied):
            return True
    if any(reductions.ROBUST.search(name) for name in value.reduced):
        return True
    returned = value.returned or any(
        n.kind == "return" and value.sums & leaf_names(n) for n in region.scope.nodes
    )
    return bool(returned) and (
        _robust_callers(source, region.scope) or _kept_later_by_callers(source, region.scope)
    )


def _cut(source: SourceFile, region: Region, name: str, applied: Iterable[str]) -> bool:
    """Whether a slice leaves samples out; the last few, shown as more are taken, are no figure."""
    loop = region.sample_loops[0] if region.sample_loops else None
    cuts = rf"\b{re.escape(last_segment(name))}\s*\[\s*(-?)[\w.]+\s*:\s*\]"
    found = list(re.finditer(cuts, source.tree.text))
    shown = [c for c in found if c[1] and loop and loop.start <= c.start() < loop.end]
    return len(shown) < len(found) or ("slice" in applied and not shown)


def _cuts_events(source: SourceFile, region: Region) -> bool:
    """Whether the first events are left out: zip(starts[warmup:], ends[warmup:])."""
    if region.kind != "event" or region.start.kind != "call" or source.language != "python":
        return False
    held = re.match(r"([\w.]+)\[", squeeze(callee_text(region.start)))
    return held is not None and _cuts(region.scope, held[1])


def _dropped_in_helper(source: SourceFile, name: str, scope: Scope) -> bool:
    """Whether a list is handed to a function of the file that leaves the first of them out."""
    for use in source.uses(name, scope):
        call = next((p for p in use.ancestors() if p.kind not in ("args", "keyword")), None)
        function = (
            source.scopes.called_function(call, scope) if call and call.kind == "call" else None
        )
        for parameter in function.parameters if function is not None else ():
            given = source.scopes.argument_values(function, parameter) if function else []
            if use in given and function and _cuts(function, parameter):
                return True
    return False


def _cuts(function: Scope, parameter: str) -> bool:
    """Whether a function reads a list that it is given from a later member on."""
    name = re.escape(parameter)
    if function.node.tree.language != "cuda":
        return bool(re.search(rf"\b{name}\s*\[\s*[\w.]+\s*:\s*\]", function.node.text))
    if re.search(_later_begin(name), function.node.text):
        return True
    firsts = {_first_index(n, name) for n in function.nodes if n.kind == "for"} - {""}
    return bool(firsts) and "0" not in firsts


def _later_begin(names: str) -> str:
    """A pattern for an iterator of C++ that starts behind the first members of a list."""
    begin = rf"\b(?:{names})(?:\[\w+\])*(?:\.|->)c?begin\(\)"
    return rf"{begin}\s*\+\s*(?!0\b)\w|\bnext\(\s*{begin}\s*[,)](?!\s*0\b)"


@remembered
def leaves_first_out(source: SourceFile, region: Region) -> bool:
    """Whether C++ code reads the samples from the second on: for (k = 1; ...) sum += times[k]."""
    names = fates.fate(source, region).lists if source.language == "cuda" else set()
    if not region.sample_loops or not names:
        return False
    # Also one list of several: times[0].push_back().
    kept = "|".join(re.escape(last_segment(name).partition("[")[0]) for name in names)
    text = source.tree.text
    # A list of the lists of each round: all.push_back(times).
    outer = re.findall(rf"\b(\w+)(?:\.|->)(?:push|emplace)_back\(\s*(?:{kept})\s*\)", text)
    kept = "|".join([kept, *map(re.escape, outer)])
    if re.search(_later_begin(kept), text):
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
    loops = [] if searches.decides(source, region) else loops_around(region.delta)
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
            if parent.kind == "call" and reductions.ROBUST.search(callee_text(parent)):
                return True
            if parent.kind == "assign":
                target = parent.children[0]
                parts = target.children if target.kind == "tuple" else [target]
                where = source.scopes.scope_of(site)
                for part in parts:
                    name = base_name(part.text) if part.kind == "subscript" else target_key(part)
                    if any(
                        reductions.ROBUST.search(a)
                        for a in reductions.reducers(source, name, where)
                    ):
                        return True
            if parent.kind in ("block", "module", "assign"):
                break
    return False


def _looped_callers(source: SourceFile, scope: Scope) -> bool:
    return any(loops_around(site) for site in source.scopes.call_sites(scope))


_BINDS = ("name", "tuple", "assign", "decl")
_GUARD = re.compile(r"(>=?|!=|==|<=?|%)\s*[\w.]+|not\s+\w*first|\bfirst\b|warm")


def _guarded(node: Node, region: Region) -> bool:
    """Whether an if that compares a counter decides about the sample.

    One with all of the measurement in it, and no else, drops nothing: nothing runs without it.
    """
    loops = loops_around(node)
    if not loops:
        return False
    counters = _counters(loops)
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
            jumps = any(n.kind == "jump" and n.text == "continue" for n in inside.walk())
            if jumps or _KEEPS.search(statement.text):
                return True
    return False


_KEEPS = re.compile(r"\+=|append|push_back")


def _counters(loops: list[Node]) -> set[str]:
    """What loops count, or go through."""
    heads = (n for loop in loops for n in loop.children[:2] if n.kind in _BINDS)
    return set().union(*map(leaf_names, heads))


def _first_untold(source: SourceFile, region: Region) -> bool:
    """Whether a function tells its time if it is asked to, and the first call does not ask.

    run(x, false); run(x, true); or, in a loop, run(x, i > 0).
    """
    value = fates.fate(source, region)
    if not value.printed or value.returned or value.lists:
        return False
    flags = set(region.scope.parameters).intersection(*map(_conditions, value.printed))
    for flag in sorted(flags):
        given = source.scopes.argument_values(region.scope, flag)
        if given and min(given, key=lambda v: v.start).text in ("false", "False", "0"):
            return len({v.text for v in given}) > 1
        for said in given:
            made = source.scopes.definition(said, squeeze(said.text), source.scopes.scope_of(said))
            if _counts(made or said, _counters(loops_around(said))):
                return True
    return False


def _conditions(node: Node) -> set[str]:
    """What has to be true where a node stands, as the branches around it say."""
    found, child = set(), node
    for parent in node.ancestors():
        if parent.kind == "if" and child.kind not in ("else", "elif"):
            found.add(squeeze(parent.children[0].text).strip("()"))
        child = parent
    return found


def _kept_later_by_callers(source: SourceFile, scope: Scope) -> bool:
    """Whether a loop calls the function, and keeps what it returns in its later iterations only.

    for i in range(10): latency = run(); if i > 3: samples.append(latency)
    """
    for site in source.scopes.call_sites(scope):
        loops, made = loops_around(site), source.statement(site)
        if not loops or made.kind != "assign":
            continue
        name, counters = target_key(made.children[0]), _counters(loops)
        body = next((c for c in loops[0].children if c.kind == "block"), None)
        for kept in body.children if body else ():
            asked = kept.kind == "if" and kept.start > site.end and bool(kept.children)
            if (
                asked
                and _counts(kept.children[0], counters)
                and _KEEPS.search(kept.text)
                and name in leaf_names(kept)
            ):
                return True
    return False


def _counts(condition: Node, counters: Iterable[str]) -> bool:
    """Whether a condition compares a counter, or asks if it is 0: if i: total += seconds."""
    names = leaf_names(condition)
    alone = squeeze(condition.text).strip("()") in counters
    return alone or (bool(names & set(counters)) and bool(_GUARD.search(condition.text)))

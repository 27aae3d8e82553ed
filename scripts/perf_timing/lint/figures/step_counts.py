"""Whether a count is the number of the steps that were timed: ways in which it is not.

`restarted`: the clock is read anew in each turn of a loop, behind which all turns are counted.
`added_twice`: a branch that is taken in the last turn adds the sample of that turn once more.
`of_samples`: the loop adds up another number of samples than is counted: the first are left out, or
it goes through slices of a list. `of_window`: the loop that is timed as a whole runs another number
of times. `of_part`: the sum is of a part of the samples. Each returns a sentence, or "".
"""

import re
from itertools import pairwise

from perf_timing.lint.code.flow import exclusive
from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    last_segment,
    loop_body,
    loops_around,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import turns
from perf_timing.lint.figures.fates import fate
from perf_timing.lint.figures.quotients import Quotient, factors, named, operator_between


def restarted(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where each turn of a loop restarts the clock, and all turns are counted."""
    region = quotient.region
    around = {id(loop) for loop in loops_around(region.end)}
    inside = [loop for loop in loops_around(region.start) if id(loop) not in around]
    loop = inside[-1] if inside else None
    if region.kind != "clock" or region.carried or loop is None or loop.kind != "for":
        return ""
    if loop.end > quotient.node.start or _leaves(loop) or _asks_for_turn(region.start, loop):
        return ""
    counts = named(source, quotient.counts, region.scope, depth=1)
    told = sorted(counts & _added_up(loop)) or sorted(
        name for name in counts if base_name(name) in _gone_through(loop) and name != "self"
    )
    if not told:
        return ""
    return (
        f"each turn of the loop on line {loop.line} reads the clock anew on line"
        f" {region.start.line}; only the last turn is timed, but `{told[0]}` counts all"
    )


def _leaves(loop: Node) -> bool:
    """Whether a loop may end early: what is tried until it succeeds is timed by its last turn."""
    return any(n.kind == "return" or n.text.startswith("break") for n in loop.walk())


def _asks_for_turn(node: Node, loop: Node, first_only: bool = False) -> bool:
    """Whether a condition that may change from turn to turn stands before a place in a loop.

    With `first_only`, whether it is one that holds in the first turn alone: if i == 0.
    """
    if first_only:
        tests = [p.children[0].text for p in node.ancestors() if p.kind == "if" and p.children]
        return any(re.search(r"==\s*[01]\b|first", test) and "%" not in test for test in tests)
    changed = {base_name(n.children[0].text) for n in loop.walk() if n.kind in _SETS}
    body = loop_body(loop)
    changed |= {n.text for c in loop.children if c is not body for n in c.walk()}
    for parent in node.ancestors():
        if parent is loop:
            return False
        if parent.kind in ("else", "case", "except"):
            return True
        if parent.kind == "if" and parent.children:
            names = {base_name(n.text) for n in parent.children[0].walk() if n.kind == "name"}
            if names & changed:
                return True
    return True


_SETS = ("assign", "augassign", "update")


def _added_up(loop: Node) -> set[str]:
    """What a loop adds up without setting it back."""
    set_back = {
        target_key(n.children[0]) for n in loop.walk() if n.kind == "assign" and operator(n) == "="
    }
    added = {
        target_key(n.children[0])
        for n in loop.walk()
        if n.kind in ("assign", "augassign") and len(n.children) > 1 and operator(n) == "+="
    }
    return added - set_back


def _gone_through(loop: Node) -> set[str]:
    """Names of what a loop of Python goes through: the loader of enumerate(loader)."""
    over = loop.children[1] if loop.tree.language == "python" and len(loop.children) > 1 else None
    called = set() if over is None else {id(n.children[0]) for n in over.walk() if n.kind == "call"}
    return {
        base_name(n.text)
        for n in (over.walk() if over is not None else ())
        if n.kind == "name" and id(n) not in called
    }


def added_twice(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where the last sample is in the sum twice: if i + 1 == n: total += elapsed."""
    region = quotient.region
    loop = next(iter(loops_around(region.delta)), None)
    if loop is None or not loop.start < quotient.node.start:
        return ""
    scope = source.scopes.scope_of(region.delta)
    for first, second in pairwise(_additions(source, quotient, scope, loop)):
        same = squeeze(first.text) == squeeze(second.text) and not exclusive(first, second)
        before = first.end <= second.start <= quotient.node.start
        if same and before and _tells(second, quotient.node, loop):
            return (
                f"`{squeeze(second.children[-1].text)}` is added on line {first.line} and, in the"
                f" last turn, again on line {second.line}, but counted once"
            )
    return ""


def _additions(source: SourceFile, quotient: Quotient, scope: Scope, loop: Node) -> list[Node]:
    """Where a loop adds the plain sample to the sum that stands in a quotient."""
    value, read = fate(source, quotient.region), quotient.region.delta
    samples = set(value.names)
    if quotient.region.kind == "event" and source.language == "cuda" and positional(read):
        samples.add(base_name(positional(read)[0].text))
    summed = {n.text for n in quotient.node.walk() if n.kind == "name"} & value.sums
    return [
        node
        for node in scope.nodes
        if node.kind in ("assign", "augassign")
        and operator(node) == "+="
        and target_key(node.children[0]) in summed
        and next(iter(loops_around(node)), None) is loop
        and (node.children[-1].text in samples or node.children[-1] is read)
    ]


def _tells(addition: Node, quotient: Node, loop: Node) -> bool:
    """Whether the branch of an addition ends the loop or holds the quotient."""
    for parent in addition.ancestors():
        if parent is loop:
            return False
        if parent.kind == "if":
            inside = parent.start <= quotient.start < parent.end
            return inside or any(n.text.startswith("break") for n in parent.walk())
    return False


def of_samples(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where another number of samples is counted than is added up in a loop."""
    region = quotient.region
    loop = next(iter(loops_around(region.delta)), None)
    if loop is None or region.sample_loops[:1] != [loop] or quotient.node.start < loop.end:
        return ""
    scope = source.scopes.scope_of(region.delta)
    ran, added = turns.turns(source, loop, scope), _additions(source, quotient, scope, loop)
    if ran is None or len(added) != 1 or target_key(added[0].children[0]) not in _added_up(loop):
        return ""
    skipped = _skipped(source, added[0], loop, scope)
    if skipped is None:
        return ""
    summed = turns.difference(ran, skipped)
    count = _other_count(source, quotient, summed, scope, loop)
    counts = [turns.told(source, count, scope) for count in quotient.counts]
    if summed != ran and not any(summed) and summed not in counts and ran in counts:
        count = ran  # all are numbers
    if count is None or (_leaves(loop) and max(turns.difference(summed, count).values()) > 0):
        return ""  # where a loop that ends early ends is not known
    return (
        f"{turns.text(summed)} samples are added up on line {added[0].line}, but"
        f" {turns.text(count)} are counted"
    )


def _skipped(source: SourceFile, addition: Node, loop: Node, scope: Scope) -> turns.Terms | None:
    """In how many turns a loop adds no sample: if i >= warmup: total += t; None if unknown."""
    body, counter = loop_body(loop), _counter(loop)
    tests = [p for p in addition.ancestors() if p.start > loop.start and p.kind in _BRANCHES]
    leaving = [n for n in loop.walk() if n.kind == "jump" and n.text.startswith("continue")]
    guards = [next((p for p in n.ancestors() if p.kind == "if"), None) for n in leaving]
    if not tests and not guards:
        return {"": 0}
    if len(tests) + len(guards) > 1 or any(g is None or g.parent is not body for g in guards):
        return None
    branch, adds = (tests[0], True) if tests else (guards[0], False)
    if branch is None or branch.kind != "if" or len(branch.children) > 2:
        return None
    asked = next((n for n in branch.children[0].walk() if n.kind in ("compare", "binary")), None)
    if asked is None or len(asked.children) != 2 or squeeze(asked.children[0].text) != counter:
        return None
    bound, order = turns.told(source, asked.children[1], scope), operator_between(asked)
    if order not in ((">=", ">") if adds else ("<", "<=")):
        return None
    return turns.difference(bound, {"": -1}) if order in (">", "<=") else bound


_BRANCHES = ("if", "else", "elif", "try", "except", "case", "for", "while")


def _counter(loop: Node) -> str:
    if loop.tree.language == "python":
        target = loop.children[0]
        many = "enumerate(" in loop.children[1].text and target.kind == "tuple"
        return squeeze((target.children[0] if many else target).text)
    start = next((n for n in loop.children[0].walk() if n.kind == "assign"), None)
    return squeeze(start.children[0].text) if start is not None else ""


def _other_count(
    source: SourceFile, quotient: Quotient, ran: turns.Terms, scope: Scope, loop: Node
) -> turns.Terms | None:
    """The count in a quotient that differs from how often something ran, if there is one."""
    counts = [turns.told(source, count, scope) for count in quotient.counts]
    about = [count for count in counts if turns.is_about(count, ran)]
    if ran in counts or len(about) != 1 or _is_set(source, about[0], loop, quotient.node, scope):
        return None
    more = turns.difference(ran, about[0])
    terms = {term for term in more if term}
    if terms & named(source, quotient.counts, scope) - set(about[0]):
        return None  # it is taken into account, in a way that is not understood
    return about[0] if len({more[t] > 0 for t in terms}) < 2 else None


def _is_set(
    source: SourceFile, count: turns.Terms, loop: Node, quotient: Node, scope: Scope
) -> bool:
    """Whether a name of a count is given another value in the loop or behind it."""
    names = {re.sub(r"^len\(|\)$", "", term) for term in count if term}
    return any(
        loop.start < target.start < quotient.start
        for name in names
        for target, _ in source.scopes.assignments(name, scope)
    )


def of_window(source: SourceFile, quotient: Quotient, loop: Node) -> str:
    """What is wrong where the one loop of a window runs another number of times than is counted."""
    region = quotient.region
    ran = turns.turns(source, loop, region.scope)
    if ran is None or _leaves(loop) or "continue" in loop.text or not region.holds(loop):
        return ""
    outside = [s for s in region.steps if not loop.start <= s.site.start < loop.end]
    if any(s.works for s in outside):
        return ""
    count = _other_count(source, quotient, ran, region.scope, loop)
    if count is None and not any(ran):
        counts = [turns.told(source, n, region.scope) for n in quotient.counts]
        if counts == [{"": ran[""] - 1}] and ran[""] > 2:
            count = counts[0]  # for (i = 0; i <= 10; ++i) ... / 10
    if count is None:
        return ""
    return (
        f"the loop on line {loop.line} runs {turns.text(ran)} times, but {turns.text(count)} are"
        " counted"
    )


def of_one_batch(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where one batch is counted over the time of many steps of a training.

    Either the clock is read against one start before all steps, or it starts anew in every n-th.
    """
    region = quotient.region
    loop = next((n for n in loops_around(region.end) if n.kind == "for"), None)
    if not quotient.rate or loop is None or not _is_one_batch(source, quotient, loop):
        return ""
    inside = range(loop.start, loop.end)
    steps = [s for s in source.flow.steps(region.scope) if s.site.start in inside and s.works]
    if region.cumulative and not region.periodic and region.start.start not in inside:
        if not steps or _asks_for_turn(region.delta, loop, first_only=True):
            return ""
        return (
            f"the time goes back to line {region.start.line}, before all steps of the loop on line"
            f" {loop.line}, but one batch is counted"
        )
    guard = next((p for p in region.end.ancestors() if p.kind == "if" and p.start in inside), None)
    every = re.search(r"%\s*([\w.]+)", guard.children[0].text) if guard is not None else None
    if guard is None or every is None or not region.carried or not steps:
        return ""
    held = guard.start <= region.start.start < guard.end
    if not held or any(guard.start <= s.site.start < guard.end for s in steps):
        return ""
    return (
        f"the clock starts anew in every {every[1]}-th step of the loop on line {loop.line}, but"
        " one batch is counted"
    )


def _is_one_batch(source: SourceFile, quotient: Quotient, loop: Node) -> bool:
    """Whether what is counted is the size of a batch, times constants, and grows in no loop."""
    named_so = [n for n in quotient.above if _BATCH.search(squeeze(n.text))]
    others = [n for n in quotient.above if n not in named_so and n.kind != "number"]
    names = named(source, quotient.above, quotient.region.scope)
    return (
        bool(named_so)
        and not others
        and not names & _added_up(loop)
        and not _MANY.search(" ".join(names))
    )


_BATCH = re.compile(
    r"(^|[._])(batch_?size|bs|bsz)$|\w+\.(size\(0\)|shape\[0\])$|^len\((batch|inputs?|images?|x)\)$"
)
_MANY = re.compile(r"total|global|accum|interval|freq|every|period|num_|n_|steps|iters|seen|count")


def of_part(quotient: Node, listed: set[str]) -> str:
    """What is wrong where a part of a list is summed, and divided by the length of all of it."""
    above, below = factors(quotient)
    for part in above:
        given = positional(part)[:1] if part.kind == "call" else []
        if not given or last_segment(callee_text(part)) != "sum" or given[0].kind != "subscript":
            continue
        name, cut = squeeze(given[0].children[0].text), squeeze(given[0].children[-1].text)
        dropped = re.fullmatch(r"([\w.]+):|:-(\d+)|(\d+):-(\d+)", cut)
        counted = {squeeze(n.text) for n in below}
        if dropped and cut != "0:" and name in listed and f"len({name})" in counted:
            return f"the sum is of {name}[{cut}], but len({name}) samples are counted"
    return ""

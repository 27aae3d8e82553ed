"""Whether a count is the number of the steps that were timed: four ways in which it is not.

`restarted`: the clock is read anew in each turn of a loop, behind which all turns are counted.
`added_twice`: a branch that is taken in the last turn adds the sample of that turn once more.
`left_out`: the first samples are not added up, but counted. `of_slices`: the loop goes through
slices of a list, the count is another number of its members. Each returns a sentence, or "".
"""

import re
from itertools import pairwise

from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.fates import fate
from perf_timing.lint.flow import exclusive
from perf_timing.lint.quotients import Quotient, counted_loop, named
from perf_timing.lint.scopes import (
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

_PASSES_ON = frozenset({"enumerate", "tqdm", "trange", "list", "iter", "track", "reversed"})


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


def _asks_for_turn(node: Node, loop: Node) -> bool:
    """Whether a condition that may change from turn to turn stands before a place in a loop."""
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


def left_out(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where the first samples are left out of a sum, and the count holds them."""
    region = quotient.region
    loop = next(iter(loops_around(region.delta)), None)
    counted = counted_loop(loop) if loop is not None else None
    if loop is None or counted is None or counted.first is not None:
        return ""
    if quotient.node.start < loop.end or region.sample_loops[:1] != [loop]:
        return ""
    last = squeeze(counted.last.text)
    if last not in {squeeze(n.text) for n in quotient.counts}:
        return ""
    scope = source.scopes.scope_of(region.delta)
    added = _additions(source, quotient, scope, loop)
    skipped = _skipped(added[0], loop) if len(added) == 1 else ""
    if not skipped or _set_anew(source, last, loop, scope):
        return ""
    return (
        f"only samples where `{skipped}` holds are added up on line {added[0].line}, but all"
        f" {last} turns of the loop on line {loop.line} are counted"
    )


def _skipped(addition: Node, loop: Node) -> str:
    """The condition under which a sample is added, where it asks for a later turn: i >= warmup."""
    counter = _counter(loop)
    for parent in addition.ancestors():
        if parent is loop:
            return ""
        if parent.kind in ("if", "else", "elif"):
            text = squeeze(parent.children[0].text).strip("()") if parent.children else ""
            asked = re.fullmatch(rf"{re.escape(counter)}(>=|>|!=)[\w.]+", text)
            later = asked is not None and parent.kind == "if" and not text.endswith(">=0")
            return text if later else ""
    return ""


def _counter(loop: Node) -> str:
    if loop.tree.language == "python":
        return squeeze(loop.children[0].text)
    start = next((n for n in loop.children[0].walk() if n.kind == "assign"), None)
    return squeeze(start.children[0].text) if start is not None else ""


def _set_anew(source: SourceFile, name: str, loop: Node, scope: Scope) -> bool:
    """Whether a count is given another value behind the loop."""
    return any(t.start >= loop.end for t, _ in source.scopes.assignments(name, scope))


def of_slices(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where a loop over slices of a list runs another number of times than counted.

    for one, two in zip(images[:-1], images[1:]): ... print(total / len(images))
    """
    region = quotient.region
    loop = next(iter(loops_around(region.delta)), None)
    if source.language != "python" or loop is None or region.sample_loops[:1] != [loop]:
        return ""
    if loop.kind != "for" or quotient.node.start < loop.end or len(loop.children) < 2:
        return ""
    runs = _length(loop.children[1])
    for count in quotient.counts if runs is not None and "continue" not in loop.text else ():
        values = [v for t, v in source.scopes.assignments(count.text, region.scope)]
        told = _number(values[0] if len(values) == 1 else count)
        if runs is not None and told is not None and told[0] == runs[0] and told[1] != runs[1]:
            return (
                f"the loop on line {loop.line} runs {_less(*runs)} times, but {_less(*told)} are"
                " counted"
            )
    return ""


def _less(name: str, missing: int) -> str:
    return f"len({name}) - {missing}" if missing else f"len({name})"


def _length(over: Node) -> tuple[str, int] | None:
    """How many members of which list a loop goes through: (list, how many it leaves out)."""
    if over.kind == "name":
        return over.text, 0
    if over.kind == "subscript" and len(over.children) > 1 and over.children[1].kind == "slice":
        cut = re.fullmatch(r"(\d*):(?:-(\d+))?", squeeze(over.children[1].text))
        inner = _length(over.children[0]) if cut else None
        missing = sum(int(part or 0) for part in cut.groups()) if cut else 0
        return (inner[0], inner[1] + missing) if inner is not None else None
    if over.kind != "call" or not positional(over):
        return None
    short, given = last_segment(callee_text(over)), positional(over)
    if short in _PASSES_ON:
        return _length(given[0])
    if short == "range":
        end = _number(given[-1]) if len(given) < 3 else None
        first = int(given[0].text) if len(given) == 2 and given[0].text.isdigit() else 0
        known = end is not None and (len(given) == 1 or given[0].text.isdigit())
        return (end[0], end[1] + first) if known and end is not None else None
    parts = [_length(part) for part in given] if short == "zip" else []
    lists = [part for part in parts if part is not None]
    if not lists or len(lists) < len(given) or len({name for name, _ in lists}) > 1:
        return None
    return max(lists, key=lambda part: part[1])


def _number(count: Node) -> tuple[str, int] | None:
    """(list, how many are left out) of len(list) or len(list) - 1."""
    told = re.fullmatch(r"\(?len\(([\w.]+)\)(?:-(\d+))?\)?", squeeze(count.text))
    return (told[1], int(told[2] or 0)) if told else None

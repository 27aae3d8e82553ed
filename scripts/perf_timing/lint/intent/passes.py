"""Which loops of C++ code make the passes of one algorithm, one after another.

The variable of such a loop goes on by leaps, as the stride of a sort, the offset of a piece, or
what a reduction has left: s = (s + 255) / 256. Or the work is told which of n passes it is, or is
given the member of an array that belongs to it, as the weights of a layer.

Where the device says how far it is, as in a search or a solver, no pass is like another and nobody
knows how many there are: these loops are none.
"""

import re

from perf_timing.lint.code.scopes import (
    base_name,
    callee_text,
    last_segment,
    leaf_names,
    loop_body,
    loop_header,
    operator,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.intent import convergence

_COUNTED = re.compile(
    r"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=[^;]*;\s*\1\s*<=?\s*([^;]*);\s*(?:\+\+\s*\1|\1\s*\+\+)"
)
# A budget of time, which goes on by what the last iteration took, is no stride.
_NO_STRIDE = re.compile(r"time|elapsed|clock|sec|milli|micro|nano|(^|_)ms$|dur", re.IGNORECASE)
_REPETITIONS = re.compile(
    r"iter|rep|run|trial|round|loop|launch|times|count|warm|test|step|frame|sample|bench|epoch",
    re.IGNORECASE,
)
_COPIES = re.compile(r"cpy|copy|read|download|fetch", re.IGNORECASE)


def goes_by_leaps(loop: Node) -> bool:
    """Whether the next value of a loop's variable is computed from the last, and is no next number.

    stride >>= 1; offset += chunk; or by way of another variable: s = blocks.
    """
    body = loop_body(loop)
    if loop.tree.language != "cuda" or body is None:
        return False
    begins = loop.child("decl") or loop.child("assign") if loop.kind == "for" else None
    made = [n for n in loop.walk() if n.kind == "assign" and not _lies_in(n, begins)]
    brought = set().union(*map(_brought_to, _calls(body)))
    asked = set().union(*map(leaf_names, convergence.exits(loop)))
    return any(_leaps(name, made, brought) for name in asked if not _NO_STRIDE.search(name))


def _leaps(name: str, made: list[Node], brought: set[str]) -> bool:
    """Whether all that a loop gives a variable is computed from its last value, on the host."""
    steps = [n for n in made if squeeze(n.children[0].text) == name]
    told = any(name in brought or _made_of(step, made) & brought for step in steps)
    return bool(steps) and not told and all(_is_leap(step, name, made) for step in steps)


def _is_leap(step: Node, name: str, made: list[Node]) -> bool:
    """Whether an assignment leads on to another value than the next number."""
    done, value = operator(step), squeeze(step.children[-1].text)
    if done[:2] in ("+=", "-="):
        return value != "1"
    known = name in _made_of(step, made) and value not in (f"{name}+1", f"{name}-1", f"1+{name}")
    return bool(re.match(r"(<<|>>|\*|/)=", done)) or (done == "=" and known)


def _made_of(step: Node, made: list[Node]) -> set[str]:
    """The names that a value is computed from, also by way of variables set before it."""
    known = leaf_names(step.children[-1])
    for before in reversed([n for n in made if n.end <= step.start]):
        target = squeeze(before.children[0].text)
        known |= leaf_names(before.children[-1]) if target in known else set()
    return known


def _lies_in(node: Node, other: Node | None) -> bool:
    return other is not None and other.start <= node.start < other.end


def _calls(body: Node) -> list[Node]:
    return [n for n in body.walk() if n.kind in ("launch", "call")]


def _brought_to(call: Node) -> set[str]:
    """What a call is given to write: copy(h_left, d_left, n), or query(&left)."""
    given = positional(call)
    found = {base_name(a.text) for a in given if a.tree.text[a.start - 1] == "&"}
    if given and _COPIES.search(last_segment(callee_text(call))):
        found.add(base_name(given[0].text.lstrip("&* ")))
    return found


def tells_which(loop: Node) -> bool:
    """Whether a counted loop tells its work which pass of how many it is, or gives it its member.

    relax<<<...>>>(d, n, k) for k < n; layer<<<...>>>(x, weights[l]). A loop that counts to a number
    of repetitions, by its name, is none.
    """
    body = loop_body(loop)
    counted = _COUNTED.match(loop_header(loop))
    if loop.tree.language != "cuda" or body is None or counted is None:
        return False
    counter, limits = counted[1], set(re.findall(r"[A-Za-z_]\w*", counted[2]))
    if not limits or any(map(_REPETITIONS.search, limits)):
        return False
    return any(_is_told(call, counter, limits) for call in _calls(body))


def works_on_piece(loop: Node, work: Node) -> bool:
    """Whether a counted loop gives some work a piece that begins where its counter says.

    copy(to + i * size, from[i], size); butterfly<<<...>>>(x, m) with m = 1 << s. A counter that is
    taken modulo a number comes back to the same, and one that counts repetitions is none.
    """
    body = loop_body(loop)
    counted = _COUNTED.match(loop_header(loop))
    if loop.tree.language != "cuda" or body is None or counted is None:
        return False
    counter, limits = counted[1], set(re.findall(r"[A-Za-z_]\w*", counted[2]))
    if not limits or any(map(_REPETITIONS.search, {counter, *limits})):
        return False
    shifted = rf"(?:<<|[-+*/])\(?{counter}\b|\b{counter}\)?(?:<<|[-+*/])|\[\(?{counter}\b"
    given = _given(work) if work.kind in ("call", "launch") else []
    return any(
        re.search(shifted, text) is not None and "%" not in text
        for text in [*given, *_computed(body, work, counter, set(given))]
    )


def _computed(body: Node, work: Node, counter: str, given: set[str]) -> list[str]:
    """What variables of a loop's body are computed from that some work is given by name."""
    named = re.compile(rf"\b{counter}\b")
    return [
        squeeze(n.children[-1].text)
        for n in body.walk()
        if n.kind == "assign"
        and n.end <= work.start
        and squeeze(n.children[0].text) in given
        and named.search(n.children[-1].text)
    ]


def _is_told(call: Node, counter: str, limits: set[str]) -> bool:
    given = _given(call)
    member = any(re.search(rf"\w\[{counter}\]", text) for text in given)
    return (member and call.kind == "launch") or (counter in given and bool(limits & set(given)))


def _given(call: Node) -> list[str]:
    """The arguments of a call, or those of a launch behind its configuration."""
    if call.kind == "call":
        return [squeeze(a.text) for a in positional(call)]
    configured = [c for c in call.children if c.kind == "targs"]
    return [squeeze(c.text) for c in call.children if configured and c.start > configured[-1].end]

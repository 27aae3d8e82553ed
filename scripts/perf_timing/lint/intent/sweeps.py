"""Loops over configurations: each iteration measures something else, another size or variant.

A benchmark goes through sizes, types or kernels and takes a time of each. Such a loop takes no
samples: one time per iteration is one sample of each configuration. It is known by what it runs
over (a list of sizes, a literal list, a product of options), by a counter that grows by a factor or
that chooses from a list of constants, or by buffers that are made anew in each iteration with a
size that hangs on the counter. A loop over the batches of a data set, or over a plain number of
repetitions, is none.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    callee_text,
    last_segment,
    loop_body,
    loop_header,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.facts import Node

_CONFIGURATIONS = re.compile(
    r"(sizes?|shapes?|dims|dimensions|lens|lengths|configs?|configurations|cases|kernels|algos?"
    r"|algorithms|methods|backends|impls|implementations|variants|dtypes|modes|levels|params"
    r"|resolutions|seq_?lens|functions|funcs|fns|operators|ops|problems|options|combinations"
    r"|batches_per_\w+|num_\w+s|n_\w+s|[NMK]s)$",
    re.IGNORECASE,
)
_PRODUCT = re.compile(r"(^|\.)(product|combinations|permutations)\(")
# What a C++ loop over sizes does to its counter: n *= 2, n <<= 1, n = n * 2.
_GROWS = re.compile(r"\b(\w+)\s*(\*=|<<=|>>=|/=)|\b(\w+)\s*=\s*\3\s*(\*|<<)")
_POWER = re.compile(r"\b(1|2|10)(L|UL|ULL|u)?\s*(<<|\*\*)\s*\(?\s*(\w+)")
_MAKES = re.compile(
    r"malloc|Malloc|alloc_|new_\w+|device_array|RandomState|make_\w+", re.IGNORECASE
)


# for (auto x : {a, b}), with the list; the colon is none of a::b.
_RANGED = re.compile(r"for\s*\((?:[^;{]*[\s&*])?\w+\s*(?<!:):(?!:)\s*([^;]+)\)\s*$")
_NAMED_PARTS = re.compile(r"for\s*\([^;{]*\[\s*\w+(\s*,\s*\w+)+\s*\]\s*:")
# What a loop is called that does the same again, or goes on in time.
_STEPS = re.compile(
    r"iter|rep|run|trial|round|pass|sample|step|frame|epoch|time|try|attempt|test", re.IGNORECASE
)
_GRID_AND_BLOCK = 2  # of the configuration of a launch; then come shared memory and the stream
_LABELLED = 2  # arguments of a line that shows one value: its format and the value


def all_sweep(loops: Sequence[Node]) -> bool:
    """Whether there are loops, and each of them goes through configurations."""
    return bool(loops) and all(map(is_sweep, loops))


def is_sweep(loop: Node) -> bool:
    """Whether each iteration of a loop measures another configuration."""
    body = loop_body(loop)
    if body is None or loop.kind == "comp":
        return False
    if loop.kind == "while":
        return _grows(loop, body)
    if loop.tree.language == "cuda":
        return _is_cpp_sweep(loop, body)
    return len(loop.children) > 2 and _is_python_sweep(loop, body)


def _is_python_sweep(loop: Node, body: Node) -> bool:
    counters = {n.text for n in loop.children[0].walk() if n.kind == "name"}
    listed = loop.children[1]
    if not any(n.kind == "name" and n.text in counters for n in body.walk()):
        return False
    if listed.kind == "call" and callee_text(listed) in ("enumerate", "tqdm", "sorted", "zip"):
        listed = (positional(listed) or [listed])[0]
    text = squeeze(listed.text)
    if listed.kind in ("list", "tuple") and len(listed.children) > 1:
        return True
    if _CONFIGURATIONS.search(text) or _PRODUCT.search(text):
        return True
    return (
        listed.kind == "call"
        and last_segment(text.partition("(")[0]) == "range"
        and (_sizes_by(counters, body))
    )


def _sizes_by(counters: set[str], body: Node) -> bool:
    """Whether buffers are made with a size that hangs on the counters of a loop."""
    known = set(counters)
    for statement in body.children:
        if statement.kind == "assign" and _mentions(statement.children[-1], known):
            value = statement.children[-1]
            if any(_makes_buffer(n) and _mentions(n, known) for n in value.walk()):
                return True
            if value.kind != "subscript":  # one member of the data: x = batches[i]
                known.add(target_key(statement.children[0]))
    return False


def _makes_buffer(node: Node) -> bool:
    if node.kind != "call":
        return False
    short = last_segment(callee_text(node))
    return words.FACTORY.match(short) is not None or _MAKES.search(short) is not None


def _mentions(node: Node, names: set[str]) -> bool:
    return any(n.kind == "name" and n.text in names for n in node.walk())


def _is_cpp_sweep(loop: Node, body: Node) -> bool:
    head = loop_header(loop)
    if _NAMED_PARTS.match(head):
        return True
    ranged = _RANGED.match(head.strip())
    if ranged is not None:
        listed = squeeze(ranged[1])
        if listed.startswith("{") or _CONFIGURATIONS.search(listed):
            return True
        return _is_listed(listed, loop) or _holds_functions(listed, loop)
    step = head.rpartition(";")[2]
    if _GROWS.search(step):
        return True
    begins = re.search(r"\b(\w+)\s*=\s*[^;]*;", head)
    powers = {found[3] for found in _POWER.findall(body.text)}
    if begins is None:
        return False
    chosen = set(re.findall(rf"\b(\w+)\s*\[\s*{begins[1]}\s*\]", body.text))
    if begins[1] in powers or any(_is_listed(name, loop) for name in sorted(chosen)):
        return True
    if _names_member(begins[1], body):
        return True
    if _STEPS.search(begins[1] + head):
        return False
    return _is_shown_with(begins[1], body) or _configures(begins[1], body)


def _holds_functions(listed: str, loop: Node) -> bool:
    """Whether rows with a lambda each are added to what a loop of C++ goes through."""
    call = rf"\b{re.escape(listed)}\s*\.\s*(?:push|emplace)_back\s*\("
    added = call + r"[^;]{0,300}?\[[&=\w\s,]*\]\s*[({]"
    return re.search(added, loop.tree.text) is not None


def _configures(counter: str, body: Node) -> bool:
    """Whether a C++ loop tries launch configurations, as threads in a block, and prints each.

    scale<<<(n + threads - 1) / threads, threads>>>(x, n); ... printf("%d threads\\n", threads);
    """
    known = {counter}
    for node in body.walk():
        # dim3 block(side, side) reads like the declaration of a function.
        made = node.kind in ("assign", "declarator") and len(node.children) > 1
        if made and _mentions(node.children[-1], known):
            known.add(squeeze(node.children[0].text))
    shapes = (
        part
        for launch in body.walk()
        if launch.kind == "launch"
        for configured in launch.children[1:]
        if configured.kind == "targs"
        for part in configured.children[:_GRID_AND_BLOCK]
    )
    return any(_mentions(part, known) for part in shapes) and _is_written(counter, body)


def _is_written(counter: str, body: Node) -> bool:
    """Whether a loop of C++ prints its counter, with printf() or to a stream."""
    for node in body.walk():
        if node.kind == "call" and re.search(r"print\w*$", callee_text(node)):
            written = positional(node)[1:]
        elif node.kind == "binary" and _STREAM.match(node.text):
            written = node.children[-1:]
        else:
            continue
        if any(squeeze(part.text) == counter for part in written):
            return True
    return False


_STREAM = re.compile(r"(std::)?(cout|cerr|clog|\w*(out|file|csv|log)\w*)\s*<<", re.IGNORECASE)


def _is_shown_with(counter: str, body: Node) -> bool:
    """Whether a C++ loop hands its counter to a kernel, and prints a figure of each by it.

    copy<<<...>>>(x, stride); ... printf("%d, %f", stride, rate);
    """
    handed = any(
        squeeze(part.text) == counter
        for node in body.walk()
        if node.kind == "launch"
        for part in node.children[1:]
    )
    shown = (n for n in body.walk() if n.kind == "call" and callee_text(n).endswith("printf"))
    return handed and any(
        len(positional(call)) > _LABELLED
        and any(squeeze(part.text) == counter for part in positional(call)[1:])
        and any(re.search(r"%[-\d]*\.?\d*l?[fg]", part.text) for part in positional(call))
        and not _STEPS.search(call.text)
        for call in shown
    )


def _names_member(counter: str, body: Node) -> bool:
    """Whether a C++ loop works with the member that its counter chooses, and prints which it is.

    run(layers[i]); ... printf("layer %d: %f ms\\n", i + 1, ms); or the layer is layers + i.
    """
    at = re.escape(counter)
    chosen = re.search(rf"\w\s*\[\s*{at}\s*\]|=\s*[\w.>()-]+\s*\+\s*{at}\s*;", body.text)
    return chosen is not None and any(_is_numbered(node, at) for node in body.walk())


def _is_numbered(node: Node, counter: str) -> bool:
    """Whether a piece of output calls the counter of a loop the number of a layer or its like."""
    if node.kind == "binary" and _STREAM.match(node.text):
        return re.search(rf"{_MEMBER}\"\s*<<\s*\(?\s*{counter}\b", node.text) is not None
    given = positional(node) if node.kind == "call" and callee_text(node).endswith("printf") else []
    for place, text in enumerate(given):
        named = re.search(rf"{_MEMBER}%\d*l?[diuz]", text.text) if text.kind == "string" else None
        if named is not None:
            before = len(re.findall(r"%(?!%)", text.text[: named.start()]))
            told = given[place + 1 + before : place + 2 + before]
            return bool(told) and re.match(rf"{counter}\b", told[0].text) is not None
    return False


_MEMBER = (
    r"(?i:\b(?:layer|op|operator|kernel|config(?:uration)?|variant|case|algo(?:rithm)?)[\s#:=]*)"
)


def _is_listed(name: str, loop: Node) -> bool:
    """Whether a variable of C++ is declared with its members before a loop: int sizes[] = {1, 2}.

    Not so what is filled with zeros, or has but one member.
    """
    before = [members for at, members in _listed(loop.tree.text).get(name, []) if at < loop.start]
    return bool(before) and bool(re.search(r"[^\s0.,fFuUlL{}]", before[-1]))


# Bounded, so that brackets that nobody closes cost no more than the text is long.
_DECLARED = re.compile(
    r"[\w>*&\]]\s{1,9}\*?(\w+)\s{0,9}(?:\[[^\]\n]{0,80}\]\s{0,9}){0,4}=?\s{0,9}"
    r"\{([^;]{0,1200}?)\}\s{0,9};"
)


@lru_cache(maxsize=8)
def _listed(text: str) -> dict[str, list[tuple[int, str]]]:
    """Variables of C++ that are declared with several members: where, and which they are."""
    found: dict[str, list[tuple[int, str]]] = {}
    for declared in _DECLARED.finditer(text):
        if "," in declared[2]:
            found.setdefault(declared[1], []).append((declared.start(), declared[2]))
    return found


def _grows(loop: Node, body: Node) -> bool:
    """Whether a while loop goes on with a larger size: n *= 2 at its end."""
    names = {n.text for n in loop.children[0].walk() if n.kind == "name"}
    found = (match[1] or match[3] for match in _GROWS.finditer(body.text))
    return bool(names & set(found))

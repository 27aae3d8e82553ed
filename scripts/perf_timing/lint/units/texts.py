"""Which value stands beside which unit in printed text.

Each function yields (node of the value, value, label) for values beside which a unit is spelled.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from perf_timing.lint.facts import Node
from perf_timing.lint.units.quantities import Value
from perf_timing.lint.units.unit_labels import Label, label_after, label_before, words

Claim = tuple[Node, Value, Label]
Pair = tuple[Node, Value]

_PERCENT = re.compile(
    r"%(?:\((\w+)\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|z|j)?([diufFeEgGxXsc])"
)
_BRACES = re.compile(r"\{(\w*)[^{}:]*(?::[^{}]*)?\}")
_MANIPULATOR = re.compile(
    r"(std::)?(fixed|scientific|endl|flush|left|right|setprecision|setw|setfill)\b"
)
_SAYS = words(
    "print info debug warning error log write echo println log_info print_rank_0 main_print "
    "secho printOnRank0 rank_print print_rank0 rprint cprint critical"
)


def body_of(node: Node) -> str:
    """The characters of a string literal, without prefix and quotes, escapes resolved roughly."""
    return _body(node.text)


@lru_cache(maxsize=4096)
def _body(literal: str) -> str:
    text = re.sub(r"^[A-Za-z0-9]*(?=[\"'])", "", literal)
    for quote in ('"""', "'''", '"', "'"):
        if text.startswith(quote):
            text = text[len(quote) :].removesuffix(quote)
            break
    return text.replace("\\n", "\n").replace("\\t", "\t")


# What stands before the digits of a fraction: "{seconds}.{nanos:09d}s", ".%03ds".
_FRACTION = re.compile(r"(?:\A|[\dds}'\"])\.\Z")


# "Samples/second: 12.5 million": the value is in a unit that the text before does not name.
_SCALED = re.compile(r"\s*(thousand|million|billion|trillion|[kKMGT])\b(?!/)")


# "img/sec: " behind a value is the heading of the next one.
_HEADS = re.compile(r"\s*[\w/]+\s*[:=]")


def _beside(before: str, after: str) -> Label | None:
    if _FRACTION.search(before):
        return None
    if _SCALED.match(after):
        return label_after(after)
    label = label_after(after)
    if label is not None and label.kind == "rate" and _HEADS.match(after):
        label = None
    return label or label_before(before)


def claims_in_string(node: Node, values: Sequence[Pair]) -> Iterator[Claim]:
    """Claims in an f-string; `values` are its interpolations with their values."""
    text = node.tree.text
    end = node.end - (3 if node.text.endswith(('"""', "'''")) else 1)
    for number, (part, value) in enumerate(values):
        after_end = values[number + 1][0].start if number + 1 < len(values) else end
        after = text[part.end : after_end]
        if number + 1 == len(values) and not after:
            after = _continued(node)
        before = text[values[number - 1][0].end if number else node.start : part.start]
        label = _beside(before, after)
        if label is not None:
            yield part.children[0], value, label


def _continued(node: Node) -> str:
    """The text of a string literal that follows without a comma."""
    siblings = node.parent.children if node.parent else []
    for one, two in itertools.pairwise(siblings):
        beside = one is node and two.kind == "string"
        if beside and not node.tree.text[node.end : two.start].strip():
            return body_of(two).partition("{")[0]
    return ""


def claims_in_format(template: Node, values: Sequence[Pair]) -> Iterator[Claim]:
    """Claims in `"%f ms" % t`, printf("%f ms", t) and logger.info("%f ms", t)."""
    body = body_of(template).replace("%%", "  ")
    yield from _placed(body, list(_PERCENT.finditer(body)), values)


def _placed(body: str, places: Sequence[re.Match[str]], values: Sequence[Pair]) -> Iterator[Claim]:
    for number, place in enumerate(places):
        index = int(place[1]) if place[1] and place[1].isdigit() else number
        if index >= len(values):
            return
        after = body[place.end() : places[number + 1].start() if number + 1 < len(places) else None]
        before = body[places[number - 1].end() if number else 0 : place.start()]
        label = _beside(before, after)
        if label is not None:
            yield (*values[index], label)


def claims_in_chain(parts: Sequence[Pair]) -> Iterator[Claim]:
    """Claims in `std::cout << t << " ms"` and `"took " + str(t) + " ms"`."""
    shown = [(n, v) for n, v in parts if not _MANIPULATOR.match(n.text)]
    yield from _neighbours(shown)


def _neighbours(parts: Sequence[Pair]) -> Iterator[Claim]:
    for number, (node, value) in enumerate(parts):
        if node.kind == "string":
            continue
        previous = parts[number - 1][0] if number else None
        following = parts[number + 1][0] if number + 1 < len(parts) else None
        before = body_of(previous) if previous is not None and previous.kind == "string" else ""
        after = body_of(following) if following is not None and following.kind == "string" else ""
        rest = re.sub(r".*\}", "", before)
        if rest != before and label_after(rest) is not None:
            rest = ""  # the unit of what the text before shows by itself
        label = _beside(rest, after.partition("{")[0])
        if label is not None:
            yield node, value, label


def claims_in_call(call: Node, last: str, arguments: Sequence[Pair]) -> Iterator[Claim]:
    """Claims in the arguments of printf, print, logging and str.format."""
    if last == "format" and call.children and call.children[0].children:
        template = call.children[0].children[0]
        if template.kind == "string":
            body = body_of(template).replace("{{", "  ").replace("}}", "  ")
            yield from _placed(body, list(_BRACES.finditer(body)), arguments)
            return
    shown = _joined(arguments)
    for position, (node, _, body) in enumerate(shown[:3]):
        if node.kind != "string" or node.children:
            continue
        rest = [(n, v) for n, v, _ in shown[position + 1 :]]
        places = list(_PERCENT.finditer(body.replace("%%", "  ")))
        if not places and call.tree.language == "cuda":
            places = list(_BRACES.finditer(body))
        if rest and places:
            yield from _placed(body.replace("%%", "  "), places, rest)
            return
    if last in _SAYS:
        yield from _neighbours([(n, v) for n, v, _ in shown])


def _joined(arguments: Sequence[Pair]) -> list[tuple[Node, Value, str]]:
    """The arguments with their texts; string literals that stand side by side are one.

    A macro between two of them is text too: `"%" PRIu64 " operations"`.
    """
    shown: list[tuple[Node, Value, str]] = []
    end = 0
    for node, value in arguments:
        body = body_of(node) if node.kind == "string" else ""
        beside = shown and shown[-1][0].kind == "string" and node.kind in ("string", "name")
        if beside and "," not in node.tree.text[end : node.start]:
            before = shown[-1][2]
            if node.kind == "name":
                body = "lu" if re.search(r"%[-+ #0]*\d*$", before) else " "
            shown[-1] = (*shown[-1][:2], before + body)
        else:
            shown.append((node, value, body))
        end = node.end
    return shown

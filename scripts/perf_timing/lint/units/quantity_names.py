"""What names say about quantities: units, amounts of work, counts, and factors between units.

A name decides where the code does not: `latency_ms` declares milliseconds, `num_bytes` bytes,
`iterations` a count that converts nothing, `scale` a factor that may convert by any amount.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from perf_timing.lint.code.scopes import Scopes, callee_text, last_segment, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.units.quantities import (
    OPAQUE,
    Many,
    Number,
    Quantity,
    Several,
    Value,
    Work,
    literal,
)
from perf_timing.lint.units.texts import body_of
from perf_timing.lint.units.unit_labels import (
    TIME_UNITS,
    Label,
    label_before,
    label_of_name,
    tokens_of,
    words,
    work_of_name,
)

_REMEMBERED = 16_384  # names
_CHOOSES = words(
    "unit units ms us ns sec secs second seconds msec usec millis micros nanos milliseconds "
    "microseconds nanoseconds scale fmt format precision resolution human readable"
)
_COUNTS = re.compile(
    r"iter|rep|run|num|cnt|^n$|^n_|_n$|count|loop|step|trial|warm|epoch|sample|batch|size|len|times|calls"
    r"|rounds|^k$|total|max_|frames|tokens|^N$|NUM|COUNT|SIZE|ITER|REP|RUN",
    re.IGNORECASE,
)
_FACTOR_WORDS = words(
    "per to from factor scale mult multiplier unit units conv million billion thousand kilo "
    "mega giga milli micro nano k"
)
# A factor of one of these makes something else of a time (cycles, energy), or converts it.
_CHANGES = words(
    "freq frequency hz khz mhz ghz clock factor scale unit units mult multiplier conv watts "
    "power price cost weight tick ticks period resolution"
)
# kBytesPerMegabyte, BYTES_IN_GB: what it is multiplied by or divided into changes its unit.
_SIZE_FACTOR = re.compile(
    r"(per|in|to|2)_?([kmgt]i?b|(kilo|mega|giga|tera|kibi|mebi|gibi|tebi)[a-z]*)$", re.IGNORECASE
)


def key_of(node: Node) -> str:
    return _key(node.text)


@lru_cache(maxsize=_REMEMBERED)
def _key(text: str) -> str:
    return squeeze(text).replace("this->", "self.").replace("->", ".").lstrip("&*")


@lru_cache(maxsize=_REMEMBERED)
def by_name(key: str) -> Value:
    """What a name alone says: a declared unit, an amount of work, or a factor that may convert."""
    label = label_of_name(key)
    if label is not None and label.kind == "time":
        return label.quantity()
    if _SIZE_FACTOR.search(last_segment(key)):
        return OPAQUE
    work = work_of_name(key)
    if work is not None:
        return work
    last = last_segment(key)
    tokens = set(tokens_of(key))
    if tokens & _CHANGES or (last.isupper() and tokens & (_FACTOR_WORDS | TIME_UNITS.keys())):
        return OPAQUE
    return None


def named_number(number: Number, key: str) -> Number:
    """A constant with a name: a count, a factor between units, or possibly either."""
    tokens = set(tokens_of(key))
    counts = tokens & _FACTOR_WORDS == {"per"} and not tokens & TIME_UNITS.keys()
    if counts and not _SIZE_FACTOR.search(last_segment(key)) and "second" not in tokens:
        return Number(number.value, number.shift, True, number.binary)  # MSGS_PER_GPU
    if tokens & _FACTOR_WORDS or label_of_name(key) is not None:
        return number
    if _COUNTS.search(last_segment(key)):
        return Number(number.value)
    return Number(number.value, number.shift, True, number.binary)


def certain_work(found: Value, key: str) -> Value:
    """`flops = 2 * m * n * k`: a name that says what it counts vouches for the factors."""
    named = work_of_name(key)
    if named is None or named.kind == "count" or isinstance(found, (Quantity, Many, Several)):
        return found
    if found is None:
        return named
    if isinstance(found, Work) and found.kind in ("", "count"):
        agrees = abs(found.exponent - named.exponent) < 0.3
        return Work(found.exponent, named.kind, found.certain or agrees)
    return found


def target_label(target: Node) -> Label | None:
    if target.kind == "subscript":
        index = target.children[-1] if target.children else None
        if index is not None and index.kind == "string":
            return label_of_key(body_of(index))
        return label_of_name(target.children[0].text) if target.children else None
    return label_of_name(key_of(target)) if target.kind in ("name", "attribute") else None


def label_of_key(key: str) -> Label | None:
    """The unit in a key: a name, or a heading such as "Latency (ms)"."""
    if re.fullmatch(r"[\w.]+", key):
        return label_of_name(key)
    return label_before(key + ": ") if re.search(r"[\(\[]", key) else None


def chooses(words: Iterable[str]) -> bool:
    return any(set(tokens_of(word)) & _CHOOSES for word in words)


def macros_of(scopes: Scopes) -> dict[str, Value]:
    """Numbers that `#define` names."""
    found: dict[str, Value] = {}
    for node in scopes.tree.of_kind("macro"):
        parts = re.match(
            r"#\s*define\s+(\w+)\s+\(?\s*([\w.+-]+)\s*\)?\s*(//.*)?$", node.text.strip()
        )
        number = literal(parts[2]) if parts else None
        if parts and number is not None:
            found[parts[1]] = named_number(number, parts[1])
    return found


def types_of(scopes: Scopes) -> dict[str, str]:
    """C++ types that `using` and `typedef` name."""
    found = re.findall(r"\btypedef\s+([\w:<>, ]+?)\s+(\w+)\s*;", scopes.tree.text)
    found += [(t, n) for n, t in re.findall(r"\busing\s+(\w+)\s*=\s*([^;]+);", scopes.tree.text)]
    return {name: " ".join(target.split()) for target, name in found}


def count_values(scopes: Scopes) -> frozenset[float]:
    """Numbers that the file uses as counts: in range(), loop headers, and under names of counts."""
    found: set[float] = set()
    for node in scopes.tree.nodes():
        numbers: list[Node] = []
        if node.kind == "call" and last_segment(callee_text(node)) in (
            "range",
            "timeit",
            "repeat",
            "arange",
            "trange",
        ):
            numbers = [n for n in node.walk() if n.kind == "number"]
        elif node.kind in ("for", "while") and scopes.language == "cuda":
            numbers = [
                n
                for c in node.children
                if c.kind != "block"
                for n in c.walk()
                if n.kind == "number"
            ]
        elif node.kind in ("keyword", "assign") and len(node.children) >= 2:
            if (
                _COUNTS.search(last_segment(node.children[0].text))
                and node.children[-1].kind == "number"
            ):
                numbers = [node.children[-1]]
        elif node.kind in ("params", "tuple", "list", "compare"):
            numbers = [c for c in node.children if c.kind == "number"]
        for number in numbers:
            value = literal(number.text)
            if value is not None:
                found.add(value.value)
    return frozenset(found)

"""Which instantiation of a template of C++ code runs: `scale<int4>` is another kernel than
`scale<int>`, and is loaded on its own when it first runs.

Of two mentions of a template it can be said that they differ only where both write out a type or a
number at the same place. `names` gives the instantiations that a mention may stand for, out of
those that the file writes out: two mentions that may be the same share one of these names.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from perf_timing.lint.code.scopes import Scope, last_segment, split_top, squeeze
from perf_timing.lint.facts import Node, Tree

_MOST = 64  # names of one mention
_ANY = "?"  # an argument that is never written out: of a parameter, or deduced
_NUMBER = re.compile(r"-?(\d+|0x[\da-f]+)[ul]*|true|false", re.IGNORECASE)
_SIZED = re.compile(r"u?(char|short|int|long|longlong|float|double|half)[1-4]")
_WIDTH = re.compile(r"(?:std::)?(u?int)(8|16|32|64)(_t)?")
_C_TYPES = {
    "int": "int32", "signed": "int32", "signedint": "int32", "unsigned": "uint32",
    "unsignedint": "uint32", "uint": "uint32", "short": "int16", "unsignedshort": "uint16",
    "long": "int64", "longlong": "int64", "unsignedlong": "uint64", "size_t": "uint64",
    "unsignedlonglong": "uint64", "char": "int8", "signedchar": "int8",
    "unsignedchar": "uint8", "float": "float", "double": "double", "bool": "bool", "half": "half",
    "__half": "half", "half2": "half2", "__half2": "half2", "nv_bfloat16": "bfloat16",
    "__nv_bfloat16": "bfloat16", "hip_bfloat16": "bfloat16", "__hip_bfloat16": "bfloat16",
    "nv_bfloat162": "bfloat162", "__nv_bfloat162": "bfloat162",
}  # fmt: skip


def names(name: str, given: Sequence[str], tree: Tree) -> set[str]:
    """The instantiations of the template `name` that one with the arguments `given` may be.

    `name` alone where the file does not tell two of them apart.
    """
    told = _written(tree).get(last_segment(name), ())
    places = [
        [value] if (value := _told(given[at], tree) if at < len(given) else "") else [*values, _ANY]
        for at, values in told
    ]
    return {f"{name}<{','.join(values)}>" if values else name for values in product(*places)}


def arguments(mention: Node) -> list[str]:
    """The template arguments that a launch or a call writes out for what it names."""
    text = mention.tree.text
    for child in mention.children:
        if child.kind == "args" or (child.kind == "targs" and text[: child.start].endswith("<<")):
            break
        if child.kind == "targs":
            return [squeeze(part) for part in split_top(child.text[1:-1])]
    return []


def bound(call: Node, function: Scope) -> dict[str, str]:
    """What a call writes out for the template parameters of a function of the file."""
    return dict(zip(_parameters(function.node), arguments(call), strict=False))


def replaced(given: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Template arguments with the parameters around them replaced by what they stand for."""
    return [values.get(argument, argument) for argument in given]


def _parameters(function: Node) -> list[str]:
    """The names of a function's template parameters, in order."""
    around = function.parent.children if function.parent is not None else []
    at = next((i for i, node in enumerate(around) if node is function), 0)
    if not at or around[at - 1].kind != "template":
        return []
    parts = split_top(around[at - 1].text[1:-1])
    return [re.findall(r"\w+", part.partition("=")[0])[-1] for part in parts if "..." not in part]


@lru_cache(maxsize=8)
def _written(tree: Tree) -> dict[str, tuple[tuple[int, tuple[str, ...]], ...]]:
    """By template: at which places of its arguments a file writes out which different values."""
    if tree.language != "cuda":
        return {}
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    mentions = list(_mentions(tree))
    for name, given, _ in mentions:
        for at, argument in enumerate(given):
            if value := _told(argument, tree):
                found[name][at].add(value)
    for name, given, place in mentions:
        for at, values in _handed_on(given, place, found):
            found[name][at] |= values
    return {name: tuple(_telling(places)) for name, places in found.items()}


def _handed_on(
    given: Sequence[str], place: Node, found: Mapping[str, Mapping[int, set[str]]]
) -> Iterator[tuple[int, set[str]]]:
    """What the file writes out for the parameters of a template function, where it uses them."""
    function = next((node for node in place.ancestors() if node.kind == "function"), None)
    parameters = _parameters(function) if function is not None else []
    head = next((n for n in function.walk() if n.kind == "declarator"), None) if function else None
    named = re.match(r"[\s*&]*(?:\w+::)*(\w+)", head.text) if head is not None else None
    values = found.get(named[1], {}) if named is not None else {}
    for at, argument in enumerate(given):
        if argument in parameters and (told := values.get(parameters.index(argument))):
            yield at, set(told)


def _telling(places: Mapping[int, Collection[str]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The first places with more than one value, as many as give few names together."""
    count = 1
    for at, values in sorted(places.items()):
        count *= len(values) + 1 if len(values) > 1 else 1
        if len(values) > 1 and count <= _MOST:
            yield at, tuple(sorted(values))


def _mentions(tree: Tree) -> Iterator[tuple[str, list[str], Node]]:
    """The names in a file before template arguments, these, and where."""
    for targs in tree.of_kind("targs"):
        named = re.search(r"(\w+)\s*$", tree.text[max(0, targs.start - 200) : targs.start])
        if named is not None:
            yield named[1], [squeeze(part) for part in split_top(targs.text[1:-1])], targs


def _told(argument: str, tree: Tree) -> str:
    """The type or the number that an argument writes out, in one spelling; "" for a name."""
    if _NUMBER.fullmatch(argument):
        plain = argument.lower().rstrip("ul")
        return {"true": "1", "false": "0"}.get(plain, plain)
    plain = argument.removeprefix("const")
    if plain in _C_TYPES:
        return _C_TYPES[plain]
    if width := _WIDTH.fullmatch(plain):
        return f"{width[1]}{width[2]}"
    return plain if _SIZED.fullmatch(plain) or plain in _classes(tree) else ""


@lru_cache(maxsize=8)
def _classes(tree: Tree) -> frozenset[str]:
    """The classes of a file."""
    return frozenset(leaf.text for n in tree.of_kind("class") if (leaf := n.child("name")))

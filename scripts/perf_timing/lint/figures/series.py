"""A list of samples under all its names: what is done with it, and where it is spoken of.

The samples of a list are found again in an array made of it, in a part of it, in its conversion to
another unit, and under the key of a dictionary of lists, also where a loop goes through the
dictionary. `applied(...)` names all that is done with any of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    call_args,
    callee_text,
    last_segment,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import reductions
from perf_timing.lint.figures.quotients import factors, is_product, operator_between

# What may be done with a list of samples whose mean alone is reported.
NEUTRAL = {
    "len",
    "sum",
    "mean",
    "fmean",
    "average",
    "avg",
    "nanmean",
    "append",
    "array",
    "tensor",
    "as_tensor",
    "from_numpy",
    "FloatTensor",
    "float",
    "round",
    "print",
    "list",
    "asarray",
    "stack",
    "item",
    "format",
    "numel",
    "size",
    "shape",
    "clear",
    "info",
    "Tensor",
    "loop",
    "accumulate",
    "reduce",
    "begin",
    "end",
    "push_back",
    "tolist",
    "numpy",
    "cpu",
    "int",
    "str",
    "enumerate",
    "zip",
    "slice",
    "range",
}
_MOST_NAMES = 8
_MAKES = re.compile(
    r"(^|[._])(tensor|array|asarray|as_tensor|Tensor|FloatTensor|Series|stack|cat|concatenate|list"
    r"|tuple|fromiter)$"
)
_SAME = re.compile(
    r"(float|double|cpu|cuda|numpy|tolist|astype|to|flatten|ravel|squeeze|reshape|view|detach|copy"
    r"|values|to_numpy)$"
)


@dataclass(frozen=True)
class Name:
    """One name of a list: `base`, and the key under which a dictionary holds it ("*": any)."""

    base: str
    key: str = ""

    @property
    def pattern(self) -> str:
        """A regular expression for the name in text without white space."""
        base = rf"(?<![\w.]){re.escape(self.base)}"
        if not self.key:
            return base + r"(?!\w)"
        if self.key.isdigit():
            return base + rf"\[{self.key}\]"
        literal = r"['\"]" + re.escape(self.key) + r"['\"]"
        inside = r"[^\]]*" if self.key == "*" else rf"(?:{literal}|[A-Za-z_]\w*)"
        return base + r"(?:\[[^\]]*\])*?" + rf"\[{inside}\]"


def named(text: str) -> Name:
    """The name that a list has in the code: times, logs["time"], times.setdefault(name, [])."""
    key = squeeze(text)
    base = base_name(key)
    under = re.fullmatch(r"([\w.]+)\.setdefault\(([^,]*),.*\)", key)
    if under:
        literal = re.fullmatch(r"['\"](.*)['\"]", under[2])
        return Name(under[1], literal[1] if literal else "*")
    keys = re.findall(r"\[([^\]]*)\]", key[len(base) :])
    literals = [k[1:-1] for k in keys if k[:1] in "'\""]
    if literals:
        return Name(base, literals[-1])
    if keys and keys[-1].isdigit():
        return Name(base, keys[-1])
    return Name(base, "*" if keys else "") if base and "(" not in key else Name(key)


def names_of(source: SourceFile, text: str, scope: Scope) -> list[Name]:
    """A list's names in a function: its own, and those of what is made of it."""
    found = [named(text)]
    for name in found:
        for made in _made_of(source, name, scope):
            if made not in found and len(found) < _MOST_NAMES:
                found.append(made)
    return found


def applied(source: SourceFile, text: str, scope: Scope) -> set[str]:
    """What is done with a list under any of its names, as `reductions.reducers` tells it."""
    found: set[str] = set()
    for name in names_of(source, text, scope):
        found |= reductions.reducers(source, name.base, scope)
    if any(name.key for name in names_of(source, text, scope)):
        found -= {"items", "values", "keys", "setdefault", "get"}
    return found


def mentions(node: Node, name: Name) -> bool:
    """Whether a call is given the list, or called on it: mean(times), torch.tensor(times).mean()"""
    args = call_args(node)
    if args is not None and re.search(name.pattern, squeeze(args.text)):
        return True
    called_on = squeeze(callee_text(node)).rpartition(".")[0]
    return bool(re.match(name.pattern + r"(\[[^\]]*\])?(\.|$)", called_on)) or bool(
        re.search(r"\(" + name.pattern, called_on)
    )


def _made_of(source: SourceFile, name: Name, scope: Scope) -> Iterator[Name]:
    """Names that stand for the samples of `name`, in another form."""
    for around in reductions.reaching(name.base, scope):
        for node in around.nodes:
            if node.kind == "assign" and len(node.children) > 1:
                target = node.children[0]
                if target.kind == "name" and is_made_of(node.children[-1], name):
                    yield Name(target_key(target))
            elif node.kind in ("for", "comp_for") and name.key and len(node.children) > 1:
                yield from _member_of(node, name)


def _member_of(loop: Node, name: Name) -> Iterator[Name]:
    """The variable that holds each list of a dictionary: for key, times in all_times.items()."""
    over = squeeze(loop.children[1].text)
    through = rf"(?:sorted\(|list\(|enumerate\()?{re.escape(name.base)}\.(items|values)\(\).*"
    if not name.key.isdigit() and (told := re.fullmatch(through, over)):
        names = [n.text for n in loop.children[0].walk() if n.kind == "name"]
        if names and (told[1] == "values" or len(names) > 1):
            yield Name(names[-1])


def is_made_of(value: Node, name: Name) -> bool:
    """Whether an expression is the list, converted, cut or in another unit."""
    if re.fullmatch(name.pattern, squeeze(value.text)):
        return True
    if value.kind == "subscript" and value.children:
        sliced = len(value.children) > 1 and value.children[1].kind == "slice"
        return sliced and is_made_of(value.children[0], name)
    if value.kind == "call":
        callee = callee_text(value)
        given = positional(value)
        if _MAKES.search(callee) and given:
            return is_made_of(given[0], name)
        receiver = value.children[0].children[0] if value.children[0].children else None
        if receiver is not None and _SAME.search(last_segment(callee)):
            return is_made_of(receiver, name)
        return False
    if value.kind == "comp" and len(value.children) > 1 and value.children[0].kind != "pair":
        over = value.children[1]
        return len(over.children) > 1 and is_made_of(over.children[1], name)
    if is_product(value) and operator_between(value) in ("*", "/"):
        above, below = factors(value)
        lists = [n for n in above if is_made_of(n, name)]
        return len(lists) == 1 and all(n is lists[0] or n.kind == "number" for n in above + below)
    return False

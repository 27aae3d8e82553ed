"""What is applied to a list of samples: a median, a mean, a slice, a loop; also at one place of it.

`reducers` gives the short names of the functions, "raw", "slice", "indexed" and "loop", from all
scopes in which the list is known under one name; lint/figures/series.py asks it for each of the
names.
"""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    Scope,
    call_args,
    callee_text,
    is_target,
    last_segment,
    leaf_names,
    loops_around,
)
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node

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
                and not is_target(use)
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


# What leaves each member of a list as it is: print([f"{t:.3f}" for t in times])
_ONE_BY_ONE = frozenset({"loop", "join", "list", "tuple", "tolist", "str", "enumerate"})
_WRITTEN_OUT = re.compile(r"(float|double|round|str|format|to_string)$")


def _shows_each(loop: Node) -> bool:
    """Whether a loop over a list writes each member by itself: for t in times: print(t)."""
    body = loop.child("block")
    members = leaf_names(loop.children[0])
    return body is not None and any(
        _writes(statement, members) for statement in body.children if statement.kind == "call"
    )


def _writes(call: Node, members: set[str]) -> bool:
    """Whether a call writes one of some names, and not what another function makes of it."""
    if not words.OUTPUT.match(last_segment(callee_text(call))):
        return False
    for name in (n for n in call.walk() if n.kind == "name" and n.text in members):
        around = [p for p in name.ancestors() if p.kind == "call" and call.start < p.start]
        if all(_WRITTEN_OUT.search(callee_text(p)) for p in around):
            return True
    return False


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
            if words.OUTPUT.match(short):
                found |= set() if found - _ONE_BY_ONE else {"raw"}
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
            found.add("raw" if _shows_each(parent) else "loop")
        elif parent.kind == "assign" and parent.children[0].kind == "tuple" and child is use:
            found.add("raw")  # cold, second, third = times
        elif parent.kind in ("block", "module", "function", "lambda"):
            break
        child = parent
    return found

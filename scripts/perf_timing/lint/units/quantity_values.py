"""The value of an expression, and what contradicts the labels beside it.

The base of the analysis whose assumptions quantity_flow.py lists: variables, operators and texts.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    last_segment,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.units import time_sources
from perf_timing.lint.units.quantities import (
    OPAQUE,
    Conflict,
    Many,
    Number,
    Quantity,
    Several,
    Value,
    Work,
    constant,
    divide,
    join,
    literal,
    multiply,
    plain,
    time,
)
from perf_timing.lint.units.quantity_names import (
    by_name,
    certain_work,
    chooses,
    count_values,
    key_of,
    label_of_key,
    macros_of,
    named_number,
    target_label,
    types_of,
)
from perf_timing.lint.units.texts import (
    body_of,
    claims_in_chain,
    claims_in_format,
    claims_in_string,
)
from perf_timing.lint.units.unit_labels import Label, label_of_name, words

_EVALUATED = words(
    "number name attribute subscript unary cast await keyword pair tuple list comp cond compare"
    " binary assign named augassign call string"
)
_LAST_WORD = re.compile(r"\w+(?=\W*\Z)")
SKIP = frozenset({"function", "class", "import", "global", "decorator", "macro", "include"})


def _rescaled(node: Node) -> bool:
    """Whether a quotient is multiplied or divided by a power of ten: a_ms / b_us * 1000."""
    parent = node.parent
    if parent is None or parent.kind != "binary" or len(parent.children) != 2:
        return False
    other = parent.children[1] if parent.children[0] is node else parent.children[0]
    return bool(re.fullmatch(r"10{3,}(\.0*)?|1(\.0*)?e-?\d+|0?\.0{2,}1", other.text))


_SECONDS_MEMBER = re.compile(r"\bduration<\s*(?:float|double)\s*>\s+(\w+_)\s*[;={]")


@dataclass(frozen=True)
class Problem:
    """A contradiction at `node`.

    kind: "label" (value against label), "mixed" (value and other added, compared or divided),
    "paths" and "returns" (value here, other elsewhere), "factor" (1024 between units of time).
    """

    kind: str
    node: Node
    value: Quantity
    label: Label | None = None
    other: Quantity | None = None
    name: str = ""


@dataclass(frozen=True)
class Suspect:
    """A variable whose name contradicts its value: no problem where the next step rescales it."""

    value: Quantity
    problem: Problem


Stored = Value | Suspect


@dataclass
class Frame:
    """The state of one function while it is run."""

    scope: Scope
    env: dict[str, Stored] = field(default_factory=dict)
    returns: list[tuple[Node, Value]] = field(default_factory=list)
    types: dict[str, float | None] = field(default_factory=dict)  # C++ durations; None: unknown
    rescaled: str = ""  # the variable that the statement at hand computes from itself
    dead: bool = False


class Values:
    """What the parts of one file are worth. The state is shared by the classes built on it."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.cpp = scopes.language == "cuda"
        text = scopes.tree.text
        self.torch_timers = "utils.benchmark" in text or "blocked_autorange" in text
        self.problems: list[Problem] = []
        # What is worked out in another unit than the clock's, and is no part of more arithmetic.
        self.converted: list[Quantity] = []
        self.met_time = False  # whether a time was met in the scope that is run
        self._returns: dict[int, Value] = {}
        self._final: dict[int, dict[str, Stored]] = {}
        self._attributes: dict[tuple[str, str], Value] = {}
        self._given: dict[tuple[int, str], list[Value]] = defaultdict(list)
        self._given_now: dict[tuple[int, str], list[Value]] = defaultdict(list)
        self._counts = count_values(scopes)
        self._macros = macros_of(scopes)
        self._globals: dict[str, Value] = {}
        self._types = types_of(scopes) if self.cpp else {}
        # Members of C++ classes that hold durations in seconds, often declared behind their use.
        self._members = frozenset(_SECONDS_MEMBER.findall(scopes.tree.text) if self.cpp else ())
        self._without_string: set[int] = set()  # sums that are known to hold none

    # Expressions

    def value(self, node: Node, frame: Frame) -> Value:
        """The value of an expression; everything in it is checked on the way."""
        if node.kind in _EVALUATED:
            result: Value = getattr(self, f"_{node.kind}")(node, frame)
            if not self.met_time and result is not None:
                self.met_time = is_timed(result)
            return result
        if node.kind != "lambda":
            for child in node.children:
                if child.kind not in SKIP and child.kind not in ("block", "type"):
                    self.value(child, frame)
        return None

    def _number(self, node: Node, frame: Frame) -> Value:
        found = literal(node.text)
        if found is not None and found.shift and found.value in self._counts:
            return Number(found.value, found.shift, True, found.binary)
        return found

    def _name(self, node: Node, frame: Frame) -> Value:
        return self._lookup(key_of(node), node, frame)

    def _lookup(self, key: str, node: Node, frame: Frame) -> Value:
        if key in frame.env:
            return self._stored(key, node, frame)
        found = self._from_outside(key, node, frame)
        if found is not None:
            return found
        if key in self._macros:
            return self._macros[key]
        if self.cpp and (ratio := time_sources.PERIOD.search(node.text)):
            return literal("1" if ratio[2] == "num" else time_sources.PERIODS.get(ratio[1], "1"))
        last = last_segment(key)
        if self.cpp and last in time_sources.FIELDS:
            return time(time_sources.FIELDS[last], node)
        if "." in key and time_sources.PROFILER_ROW.match(last):
            return time("us", node)
        base, dot, attribute = key.rpartition(".")
        if dot and base in frame.env and attribute in ("mean", "median", "iqr", "times"):
            measured = frame.env[base]
            if isinstance(measured, Quantity) and measured.kind == "measurement":
                return time("s", measured.origin)
        return by_name(key)

    def _stored(self, key: str, node: Node, frame: Frame) -> Value:
        stored = frame.env[key]
        if isinstance(stored, Suspect):
            if frame.rescaled == key:
                return stored.value
            self.problems.append(stored.problem)
            frame.env[key] = OPAQUE
            return OPAQUE
        inner = plain(stored)
        if isinstance(inner, Conflict):
            at = inner.second.site or inner.second.origin or node
            problem = Problem("paths", at, inner.second, other=inner.first, name=key)
            self.problems.append(problem)
            frame.env[key] = OPAQUE
            return OPAQUE
        if stored is None:
            return by_name(key)
        return stored

    def _from_outside(self, key: str, node: Node, frame: Frame) -> Value:
        scope = frame.scope
        if "." in key:
            return self._attribute_value(key, node, scope)
        if key in scope.parameters:
            return self._parameter(scope, key)
        owner = class_name_of(scope)
        if self.cpp and owner and (owner, key) in self._attributes:
            return self._attributes[owner, key]
        if self.cpp and key in self._globals:
            return self._globals[key]
        for around in list(scope.enclosing())[1:]:
            if key in around.parameters:
                return self._parameter(around, key)
            stored = self._final.get(id(around.node), {}).get(key)
            if stored is not None and not isinstance(stored, (Suspect, Conflict)):
                return stored
        return None

    def _attribute_value(self, key: str, node: Node, scope: Scope) -> Value:
        base, _, name = key.rpartition(".")
        if base == "self":
            owner = next((c for s in scope.enclosing() if (c := class_name_of(s))), "")
        elif self.scopes.class_names:
            owner = self.scopes.class_of(base, scope, node)
        else:
            return None
        found = self._attributes.get((owner, name)) if owner else None
        if found is None and owner:
            # A property of the class.
            for method in self.scopes.classes.get(owner, []):
                if method.short_name == name:
                    return self._returns.get(id(method.node))
        return found

    def _parameter(self, scope: Scope, name: str) -> Value:
        values = self._given.get((id(scope.node), name), [])
        result: Value = None
        for number, value in enumerate(values):
            joined = join(result, value) if number else value
            if isinstance(joined, Conflict) or (number and joined is None):
                return None
            result = joined
        return named_number(result, name) if isinstance(result, Number) else result

    def _attribute(self, node: Node, frame: Frame) -> Value:
        inner = self.value(node.children[0], frame) if node.children else None
        name = last_segment(node.text)
        if isinstance(inner, Quantity) and inner.kind == "measurement":
            return time("s", inner.origin) if name in ("mean", "median") else None
        if time_sources.PROFILER_ROW.match(name):
            return time("us", node)
        if self.cpp and name in time_sources.FIELDS:
            return time(time_sources.FIELDS[name], node)
        return by_name(name)

    def _subscript(self, node: Node, frame: Frame) -> Value:
        key = squeeze(node.text)
        if key in frame.env:
            return self._stored(key, node, frame)
        base = self.value(node.children[0], frame) if node.children else None
        for child in node.children[1:]:
            self.value(child, frame)
        if len(node.children) == 2 and node.children[1].kind == "string":
            return by_name(body_of(node.children[1]))
        if isinstance(base, Several) and len(node.children) == 2:
            index = literal(node.children[1].text)
            if index is not None and int(index.value) < len(base.items):
                return base.items[int(index.value)]
        if isinstance(base, Many):
            return base if _has_slice(node) else base.item
        if re.search(r"\.(shape|size\(\))$", node.children[0].text if node.children else ""):
            return Work()
        return base if isinstance(base, Quantity) else None

    def _unary(self, node: Node, frame: Frame) -> Value:
        found = self.value(node.children[0], frame) if node.children else None
        if isinstance(found, Number) and node.text.lstrip().startswith("-"):
            return Number(-found.value)
        return found

    def _cast(self, node: Node, frame: Frame) -> Value:
        return self.value(node.children[-1], frame) if node.children else None

    def _await(self, node: Node, frame: Frame) -> Value:
        return self.value(node.children[-1], frame) if node.children else None

    def _keyword(self, node: Node, frame: Frame) -> Value:
        if len(node.children) < 2:
            return None
        found = self.value(node.children[1], frame)
        label = label_of_name(node.children[0].text)
        self._check(plain(found), label, node.children[1], node.children[0].text)
        return found

    def _pair(self, node: Node, frame: Frame) -> Value:
        if len(node.children) < 2:
            return None
        found = self.value(node.children[1], frame)
        if node.children[0].kind == "string":
            name = body_of(node.children[0])
            self._check(plain(found), label_of_key(name), node.children[1], name)
        return found

    def _tuple(self, node: Node, frame: Frame) -> Value:
        return Several(tuple(self.value(child, frame) for child in node.children))

    def _list(self, node: Node, frame: Frame) -> Value:
        values = [self.value(child, frame) for child in node.children]
        result = values[0] if values else None
        for value in values[1:]:
            result = join(result, value)
            if isinstance(result, Conflict):
                return None
        return Many(result)

    def _comp(self, node: Node, frame: Frame) -> Value:
        before, frame.env = frame.env, dict(frame.env)
        for part in node.children:
            if part.kind == "comp_for" and len(part.children) >= 2:
                self._bind(part.children[0], item_of(self.value(part.children[1], frame)), frame)
            elif part.kind == "comp_if":
                self.value(part, frame)
        element = self.value(node.children[0], frame) if node.children else None
        frame.env = before
        return Many(element)

    def _cond(self, node: Node, frame: Frame) -> Value:
        if len(node.children) < 3:
            return None
        order = (1, 0, 2) if not self.cpp else (0, 1, 2)
        condition, yes, no = (node.children[i] for i in order)
        self.value(condition, frame)
        joined = join(self.value(yes, frame), self.value(no, frame))
        if isinstance(joined, Conflict):
            chosen = chooses(re.findall(r"\w+", condition.text))
            if not chosen and joined.first.origin is not joined.second.origin:
                problem = Problem("paths", no, joined.second, other=joined.first)
                self.problems.append(problem)
            return OPAQUE
        return joined

    def _compare(self, node: Node, frame: Frame) -> Value:
        values = [self.value(child, frame) for child in node.children]
        if len(values) == 2:
            self._mixed(values[0], values[1], node)
        return None

    def _mixed(self, a: Value, b: Value, node: Node) -> None:
        if not (isinstance(a, Quantity) and isinstance(b, Quantity)):
            return
        if a.kind != "time" or b.kind != "time" or (a.declared and b.declared):
            return
        if not any(b.says(e) for e in a.exponents):
            self.problems.append(Problem("mixed", node, a, other=b))

    def _holds_string(self, node: Node) -> bool:
        """Whether an operand of the left-nested chain that ends at `node` is a string."""
        seen = []
        while node.kind == "binary" and node.children and id(node) not in self._without_string:
            if any(child.kind == "string" for child in node.children):
                return True
            seen.append(id(node))
            node = node.children[0]
        # Every sum inside of a long sum asks the same; each link is looked at once.
        self._without_string.update(seen)
        return False

    def _binary(self, node: Node, frame: Frame) -> Value:
        if len(node.children) != 2:
            return self._beside_sizeof(node, frame)
        left, right = node.children
        operator = node.tree.text[left.end : right.start].strip(" \t\n\\()") or ""
        operator = re.sub(r"#.*|//.*\n", "", operator).strip(" \t\n\\()") or "//"
        if operator == "<<" or (operator == "+" and self._holds_string(node)):
            parts = _chain(node, operator)
            if len(parts) > 2 or any(p.kind == "string" for p in parts):
                return self._text_chain(parts, frame)
        if operator == "%" and left.kind == "string":
            values = right.children if right.kind == "tuple" else [right]
            pairs = [(value, self.value(value, frame)) for value in values]
            self._claims(claims_in_format(left, pairs))
            return None
        a, b = self.value(left, frame), self.value(right, frame)
        return self._note_converted(self._arithmetic(operator, a, b, node), node)

    def _note_converted(self, found: Value, node: Node) -> Value:
        """`found`, the result of `node`, noted where it is a time that has been converted."""
        inner = plain(found)
        operand = node.parent is not None and node.parent.kind in ("binary", "compare")
        if isinstance(inner, Quantity) and inner.converted and not operand:
            self.converted.append(inner)
        return found

    def _beside_sizeof(self, node: Node, frame: Frame) -> Value:
        """`n * sizeof(float)`: the tree has no node for sizeof."""
        values = [self.value(child, frame) for child in node.children]
        if len(values) == 1 and "sizeof" in node.text and "*" in node.text:
            return multiply(values[0], Work(0.0, "bytes", per_item=True))
        return None

    def _arithmetic(self, operator: str, a: Value, b: Value, node: Node) -> Value:
        if operator in ("*", "/", "//"):
            a, b = self._without_binary(a, b, operator, node)
            if operator == "*":
                return multiply(a, b)
            if isinstance(a, Quantity) and a.kind == "ticks":
                return self._ticks(a, b, node)
            if not _rescaled(node):
                self._mixed(a, b, node)
            return divide(a, b)
        if operator in ("+", "-"):
            return self._sum(operator, a, b, node)
        if operator == "%" and isinstance(a, Quantity):
            return a
        if operator == "**":
            return _power(a, b)
        if operator == "<<" and isinstance(a, Number) and isinstance(b, Number):
            return constant(a.value * 2**b.value) if 0 <= b.value < 64 else None
        if operator in ("<", ">", "<=", ">=", "==", "!="):
            self._mixed(a, b, node)
        return None

    def _sum(self, operator: str, a: Value, b: Value, node: Node) -> Value:
        if isinstance(a, Many) or isinstance(b, Many):
            inner = self._sum(operator, plain(a), plain(b), node)
            return Many(inner)
        if isinstance(a, Quantity) and isinstance(b, Quantity):
            if a.kind == "point" and b.kind == "point":
                return Quantity("duration", frozenset({-9.0, -6.0}), origin=node)
            self._mixed(a, b, node)
            if a.kind == b.kind == "time" and a.declared and not b.declared:
                return b
            return a if a.kind == b.kind else None
        if isinstance(a, Number) and isinstance(b, Number):
            value = a.value + b.value if operator == "+" else a.value - b.value
            return Number(value)
        for one, two in ((a, b), (b, a)):
            if isinstance(one, Quantity):
                return one if not (isinstance(two, Number) and two.opaque) else None
        if isinstance(a, Work) or isinstance(b, Work):
            work = a if isinstance(a, Work) else b
            both = isinstance(a, (Work, Number)) and isinstance(b, (Work, Number))
            assert isinstance(work, Work)
            return Work(work.exponent, work.kind, work.certain and both)
        return None

    def _without_binary(self, a: Value, b: Value, operator: str, node: Node) -> tuple[Value, Value]:
        """Report 1024 as a factor of a time, and go on as if it were 1000."""
        for value, number, swapped in ((a, b, False), (b, a, True)):
            if not (isinstance(value, Quantity) and isinstance(number, Number) and number.binary):
                continue
            if value.kind != "time" or (swapped and operator != "*"):
                continue
            if not value.declared and not number.ambiguous and number.value in (1024.0, 1024.0**2):
                self.problems.append(Problem("factor", node, value))
                number = constant(1000.0 if number.value == 1024 else 1e6)
            elif number.value in (1024.0, 1024.0**2, 1024.0**3):
                # seconds * kBytesPerMegabyte may divide bytes as well as count something.
                number = Number(number.value, round(number.shift / 3.01) * 3.0, ambiguous=True)
            else:
                number = Number(number.value)
            return (number, value) if swapped else (value, number)
        return a, b

    def _ticks(self, a: Quantity, b: Value, node: Node) -> Value:
        if "CLOCKS_PER_SEC" in node.children[1].text or "CLK_TCK" in node.children[1].text:
            seconds = Quantity("time", a.exponents, origin=a.origin)
            # ticks / (CLOCKS_PER_SEC * 1e-3): the factor converts the seconds.
            shift = b.shift if isinstance(b, Number) else 0.0
            return divide(seconds, Number(10**shift, shift=shift)) if shift else seconds
        return divide(a, b)

    def _assign(self, node: Node, frame: Frame) -> Value:
        if len(node.children) < 2 or node.children[-1].kind == "type":
            return None
        target, source = node.children[0], node.children[-1]
        operator = node.tree.text[target.end : source.start].strip(" \t\n\\(")
        if operator in ("*=", "/=", "+=", "-=", "//="):
            return self._augassign(node, frame)
        key = key_of(target)
        outer, frame.rescaled = frame.rescaled, key if _reads(source, key) else ""
        found = self.value(source, frame)
        frame.rescaled = outer
        self._bind(target, found, frame, source)
        return found

    _named = _assign

    def _augassign(self, node: Node, frame: Frame) -> Value:
        if len(node.children) < 2:
            return None
        target, source = node.children[0], node.children[-1]
        operator = node.tree.text[target.end : source.start].strip(" \t\n\\(")
        key = key_of(target)
        added = self.value(source, frame)
        outer, frame.rescaled = frame.rescaled, key
        old = self.value(target, frame)
        frame.rescaled = outer
        found = self._note_converted(self._arithmetic(operator.rstrip("="), old, added, node), node)
        kept = isinstance(old, Many) or not isinstance(found, Quantity)
        if operator in ("+=", "-=") and kept:
            # A count that began at 0 is what is added to it.
            found = added if isinstance(old, Number) and isinstance(added, Work) else old
        self._bind(target, found, frame, source)
        return found

    def _bind(self, target: Node, found: Value, frame: Frame, source: Node | None = None) -> None:
        if target.kind in ("tuple", "list"):
            self._bind_parts(target, found, frame)
            return
        key = key_of(target)
        if isinstance(found, Quantity) and found.kind == "duration" and key in self._members:
            found = time_sources.duration(0.0, source or target)
        if isinstance(found, Quantity) and found.kind == "duration" and key in frame.types:
            exponent = frame.types[key]
            found = None if exponent is None else time_sources.duration(exponent, source or target)
        if isinstance(found, Number) and found.shift:
            found = named_number(found, key)
        label = target_label(target)
        inner = plain(found)
        if isinstance(inner, Quantity) and inner.kind in ("time", "rate") and label is not None:
            problem = self._contradiction(inner, label, source or target, _shown(target))
            if problem is not None and source is not None and _renames(target, source):
                problem = label = None
            if problem is not None:
                frame.env[key] = Suspect(inner, problem)
                return
            if label is not None and not inner.definite and inner.kind == label.kind:
                # Of the units that it may be in, the name says which; one that denies them all
                # leaves the unit open.
                fits = inner.says(label.exponent)
                found = replace(inner, exponents=frozenset({label.exponent})) if fits else None
        if isinstance(found, Quantity) and source is not None:
            found = replace(found, site=source)
        frame.env[key] = certain_work(found, key)
        if target.kind == "subscript" and isinstance(inner, Quantity):
            self._bind_element(target, found, frame)

    def _bind_element(self, target: Node, found: Value, frame: Frame) -> None:
        """`times[i] = t`: from here on the elements are like `t`."""
        base, index = target.children[0], target.children[-1]
        key = key_of(base)
        known = frame.env.get(key)
        if index.kind == "string" or isinstance(known, (Suspect, Quantity, Several)):
            return
        joined = join(known.item, found) if isinstance(known, Many) else found
        frame.env[key] = Many(None if isinstance(joined, Conflict) else joined)

    def _bind_parts(self, target: Node, found: Value, frame: Frame) -> None:
        for number, part in enumerate(target.children):
            if isinstance(found, Several):
                same = len(found.items) == len(target.children)
                item = found.items[number] if same else None
            elif isinstance(found, Many):
                item = found.item
            else:
                item = found if isinstance(found, Quantity) else None
            self._bind(part, item, frame)

    def _string(self, node: Node, frame: Frame) -> Value:
        pairs = []
        for part in node.children:
            if part.kind == "interpolation" and part.children:
                pairs.append((part, self.value(part.children[0], frame)))
        self._claims(claims_in_string(node, pairs))
        return None

    def _text_chain(self, parts: Sequence[Node], frame: Frame) -> Value:
        pairs = [
            (p, None if p.kind == "string" and not p.children else self.value(p, frame))
            for p in parts
        ]
        self._claims(claims_in_chain(pairs))
        return None

    def _claims(self, claims: Iterable[tuple[Node, Value, Label]]) -> None:
        for node, value, label in claims:
            self._check(plain(value), label, node, "")

    def _check(self, value: Value, label: Label | None, node: Node, name: str) -> None:
        if isinstance(value, Quantity) and label is not None:
            problem = self._contradiction(value, label, node, name)
            if problem is not None:
                self.problems.append(problem)

    def _contradiction(
        self, value: Quantity, label: Label, node: Node, name: str
    ) -> Problem | None:
        if value.kind == "time" and label.kind == "rate":
            # seconds printed as img/sec; a name or a product of its own may be anything.
            certain = not (name or value.declared or value.converted or value.divided)
            return Problem("label", node, value, label=label) if certain else None
        if value.kind != label.kind or value.says(label.exponent):
            return None
        if value.kind == "rate" and not _comparable(value, label):
            return None
        if label.work == "count" and name and value.converted:
            # `items_per_sec = n / seconds / 1e6`: a sloppy name for millions, said where printed.
            return None
        # A name alone contradicts a text, but not another name; and where a conversion of what it
        # declares leads to no unit in use, the name is the mistake, not the text.
        if value.declared and (name or not value.usual):
            return None
        return Problem("label", node, value, label=label, name=name)


def _comparable(value: Quantity, label: Label) -> bool:
    if label.work == "count":
        return value.work in ("count", "")
    # The product of three dimensions counts operations, whether or not its name says so.
    return value.work == label.work or (label.work == "flops" and value.work == "count")


def _renames(target: Node, source: Node) -> bool:
    """Whether the unit in a name is none: the value is its own, converted; or it tells a variant.

    total_ms = total_ms / 1000.0; t_s, t_m = run(model_s), run(model_m).
    """
    key = key_of(target)
    ending = re.search(r"_[a-zA-Z]$", key)
    names = [n for n in source.walk() if n.kind in ("name", "attribute")]
    given = [
        last_segment(n.text) for n in names if n.parent is not None and n.parent.kind == "args"
    ]
    variant = ending is not None and any(name.endswith(ending[0]) for name in given)
    return variant or any(key_of(n) == key for n in names)


def class_name_of(scope: Scope) -> str:
    return scope.class_name if scope.name else ""


def _shown(target: Node) -> str:
    return squeeze(target.text)


def _reads(node: Node, key: str) -> bool:
    word = _LAST_WORD.search(key)
    if word and word[0] not in node.text:
        return False
    return any(
        n.kind in ("name", "subscript", "attribute") and key_of(n) == key for n in node.walk()
    )


def is_timed(value: Stored) -> bool:
    """Whether a value is a time or a rate, or holds one."""
    if value is None or isinstance(value, (Number, Work)):
        return False
    inner = value if isinstance(value, Suspect) else plain(value)
    if isinstance(inner, Several):
        return any(is_timed(item) for item in inner.items)
    return isinstance(inner, (Quantity, Conflict, Suspect))


def item_of(value: Value) -> Value:
    return value.item if isinstance(value, Many) else None


def _has_slice(node: Node) -> bool:
    return any(child.kind == "slice" for child in node.children[1:])


def _power(a: Value, b: Value) -> Value:
    if isinstance(a, Number) and isinstance(b, Number) and abs(b.value) < 64:
        try:
            return constant(a.value**b.value)
        except (OverflowError, ZeroDivisionError):
            return None
    if isinstance(a, Work) and isinstance(b, Number):
        return Work(a.exponent * b.value, a.kind, a.certain)
    return None


def _chain(node: Node, operator: str) -> list[Node]:
    """The operands of a left-nested chain `a << b << c`."""
    parts: list[Node] = []
    while node.kind == "binary" and len(node.children) == 2:
        left, right = node.children
        between = node.tree.text[left.end : right.start].strip(" \t\n\\()")
        if between != operator:
            break
        parts.insert(0, right)
        node = left
    parts.insert(0, node)
    return parts

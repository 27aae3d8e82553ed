"""Follows times through a file and notes where their units contradict each other.

The statements of each function are run in order over an environment that maps variables to values
(quantities.py). At the end of a branch the environments are joined. What a function returns, what
attributes hold and what parameters are given is carried from one pass over the file to the next, so
that `timer.elapsed()` has the unit of the return statement it ends in. What the analysis assumes:

* A literal power of 1000 (or 1e-6 and so on) that multiplies or divides a time converts its unit;
  any other factor counts something. A literal that the file also uses as a number of iterations
  may do either.
* A name with a unit (`latency_ms`) is believed where nothing better is known.
* A branch on a name or text that speaks of units chooses the unit on purpose.
* A variable that is set on one path only keeps what it had on the other.

Only units that come from a clock, an event or a benchmark helper contradict a label.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from perf_timing.lint import time_sources
from perf_timing.lint.facts import Node
from perf_timing.lint.quantities import (
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
from perf_timing.lint.scopes import (
    Scope,
    Scopes,
    call_args,
    callee_text,
    keyword,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.texts import (
    body_of,
    claims_in_call,
    claims_in_chain,
    claims_in_format,
    claims_in_string,
)
from perf_timing.lint.unit_labels import (
    TIME_UNITS,
    Label,
    label_before,
    label_of_name,
    tokens_of,
    words,
    work_of_name,
)

PASSES = 3
_REDUCE = words(
    "mean median average avg nanmean nanmedian quantile quantiles percentile min max amin "
    "amax sum fsum abs fabs round float int item fmean trimmed std stdev pstdev double tolist "
    "sorted list tuple array asarray tensor Tensor float32 float64 cpu numpy detach fmin fmax "
    "static_cast reversed squeeze flatten ravel set copy str geometric_mean stack concatenate "
    "accumulate nanmin nanmax values str repr format_float clone to move"
)
_APPEND = frozenset({"append", "push_back", "emplace_back", "add", "insert", "appendleft"})
_CHOOSES = words(
    "unit units ms us ns sec secs second seconds msec usec millis micros nanos milliseconds "
    "microseconds nanoseconds scale fmt format precision resolution human readable"
)
_COUNTS = re.compile(
    r"iter|rep|run|num|^n$|^n_|_n$|count|loop|step|trial|warm|epoch|sample|batch|size|len|times|calls"
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
_SKIP = frozenset({"function", "class", "import", "global", "decorator", "macro", "include"})


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
    rescaled: str = ""  # the variable that the statement at hand computes from itself
    dead: bool = False


class QuantityFlow:
    """Runs a file and collects its problems."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.cpp = scopes.language == "cuda"
        text = scopes.tree.text
        self.torch_timers = "utils.benchmark" in text or "blocked_autorange" in text
        self.problems: list[Problem] = []
        self._returns: dict[int, Value] = {}
        self._final: dict[int, dict[str, Stored]] = {}
        self._attributes: dict[tuple[str, str], Value] = {}
        self._given: dict[tuple[int, str], list[Value]] = defaultdict(list)
        self._given_now: dict[tuple[int, str], list[Value]] = defaultdict(list)
        self._counts = _count_values(scopes)
        self._macros = _macros(scopes)
        self._without_string: set[int] = set()  # sums that are known to hold none

    def run(self) -> list[Problem]:
        """All problems, without duplicates, in order of the source."""
        for _ in range(PASSES):
            self.problems = []
            self._given_now = defaultdict(list)
            for scope in self.scopes.all:
                if not scope.is_kernel:
                    self._run_scope(scope)
            self._given = self._given_now
        unique = {(p.node.start, p.node.end, p.kind): p for p in self.problems}
        return sorted(unique.values(), key=lambda p: p.node.start)

    # Scopes

    def _run_scope(self, scope: Scope) -> None:
        frame = Frame(scope)
        if scope.node.kind == "lambda" and scope.node.child("block") is None:
            body = scope.node.children[-1] if scope.node.children else None
            if body is not None and body.kind != "params":
                frame.returns.append((body, self.value(body, frame)))
        elif scope.body is not None:
            self._block(scope.body, frame)
        elif scope.node.kind == "module":
            self._statements(scope.node.children, frame)
        self._close(frame)

    def _close(self, frame: Frame) -> None:
        for key, stored in frame.env.items():
            if isinstance(stored, Suspect):
                self.problems.append(stored.problem)
                frame.env[key] = OPAQUE
        scope = frame.scope
        self._final[id(scope.node)] = frame.env
        owner = _class_name(scope)
        for key, stored in frame.env.items():
            if not isinstance(stored, Suspect) and (
                key.startswith("self.") or (self.cpp and owner)
            ):
                name = key.removeprefix("self.")
                known = self._attributes.get((owner, name))
                if isinstance(plain(stored), (Quantity, Number)) and not isinstance(
                    known, Quantity
                ):
                    self._attributes[owner, name] = stored
        self._close_returns(frame)

    def _close_returns(self, frame: Frame) -> None:
        values = [(node, plain(value)) for node, value in frame.returns]
        times = [(n, v) for n, v in values if isinstance(v, Quantity)]
        label = label_of_name(frame.scope.short_name) if frame.scope.name else None
        for node, value in times:
            if label is not None:
                self._check(value, label, node, frame.scope.short_name)
        if label is None and not _chooses(frame.scope.parameters):
            self._compare_returns(times)
        result: Value = None
        for number, (_, returned) in enumerate(frame.returns):
            joined = join(result, returned) if number else returned
            result = None if isinstance(joined, Conflict) else joined
        if result is None and label is not None and label.kind == "time":
            result = label.quantity()
        self._returns[id(frame.scope.node)] = result

    def _compare_returns(self, times: Sequence[tuple[Node, Quantity]]) -> None:
        sure = [(n, v) for n, v in times if v.kind == "time" and v.definite and not v.declared]
        by_unit: dict[float, list[tuple[Node, Quantity]]] = defaultdict(list)
        for node, value in sure:
            by_unit[min(value.exponents)].append((node, value))
        if len(by_unit) < 2:
            return
        groups = sorted(by_unit.values(), key=lambda g: (len(g), -g[-1][0].start))
        (odd, value), (_, other) = groups[0][-1], groups[-1][-1]
        if value.origin is not other.origin:
            self.problems.append(Problem("returns", odd, value, other=other))

    # Statements

    def _block(self, block: Node, frame: Frame) -> None:
        self._statements(block.children, frame)

    def _statements(self, nodes: Iterable[Node], frame: Frame) -> None:
        for node in nodes:
            if frame.dead:
                return
            self._statement(node, frame)

    def _statement(self, node: Node, frame: Frame) -> None:
        kind = node.kind
        if kind in _SKIP:
            return
        if kind == "if":
            self._if(node, frame)
        elif kind in ("for", "while"):
            self._loop(node, frame)
        elif kind in ("block", "with", "try", "else", "finally"):
            self._statements(node.children, frame)
        elif kind in ("switch", "match"):
            self._switch(node, frame)
        elif kind == "except":
            self._branch(node.children, frame)
        elif kind == "return":
            value = self.value(node.children[0], frame) if node.children else None
            if node.children:
                frame.returns.append((node.children[0], value))
            frame.dead = True
        elif kind == "raise":
            frame.dead = True
        elif kind == "jump":
            frame.dead = node.text != "pass"
        elif kind == "decl":
            self._declaration(node, frame)
        else:
            self.value(node, frame)

    def _branch(self, nodes: Sequence[Node], frame: Frame) -> dict[str, Stored] | None:
        """The environment after `nodes`; None where they leave the block. The frame stays."""
        before, frame.env = frame.env, dict(frame.env)
        self._statements(nodes, frame)
        after = None if frame.dead else frame.env
        frame.env, frame.dead = before, False
        return after

    def _if(self, node: Node, frame: Frame) -> None:
        branches: list[dict[str, Stored] | None] = []
        conditions: list[str] = []
        has_else = False
        pending = [node]
        while pending:
            part = pending.pop(0)
            body = []
            for position, child in enumerate(part.children):
                if child.kind == "elif" or (
                    child.kind == "else" and child.children and child.children[0].kind == "if"
                ):
                    pending.append(child if child.kind == "elif" else child.children[0])
                elif child.kind == "else":
                    has_else = True
                    branches.append(self._branch(child.children, frame))
                elif position == 0:
                    conditions.append(child.text)
                    self.value(child, frame)
                else:
                    body.append(child)
            branches.insert(len(conditions) - 1, self._branch(body, frame))
        if not has_else:
            branches.append(frame.env)
        alive = [branch for branch in branches if branch is not None]
        frame.dead = not alive
        if alive:
            chosen = _chooses(re.findall(r"\w+", " ".join(conditions)))
            frame.env = _merge(alive, chosen)

    def _switch(self, node: Node, frame: Frame) -> None:
        cases = [c for c in node.walk() if c.kind == "case"]
        branches = [self._branch(case.children, frame) for case in cases]
        alive = [branch for branch in branches if branch is not None]
        # A case ends with break, which leaves the environment of the case unseen here.
        frame.env = _merge([frame.env, *alive], chosen=True)

    def _loop(self, node: Node, frame: Frame) -> None:
        before = dict(frame.env)
        body = node.child("block") or (node.children[-1] if node.children else None)
        header = [c for c in node.children if c is not body and c.kind != "else"]
        if (node.kind == "for" and not self.cpp and len(header) >= 2) or (
            node.kind == "for" and len(header) == 2 and ":" in node.text[: node.text.find("{") + 1]
        ):
            self._bind(header[0], _item(self.value(header[1], frame)), frame)
        else:
            self._statements(header, frame)
        if body is not None:
            self._statements([body] if body.kind != "block" else body.children, frame)
        frame.dead = False
        for key, stored in before.items():
            frame.env.setdefault(key, stored)
        self._statements([c for c in node.children if c.kind == "else"], frame)

    def _declaration(self, node: Node, frame: Frame) -> None:
        first = next((c for c in node.children if c.kind in ("assign", "call")), None)
        type_text = node.tree.text[node.start : first.start if first else node.end]
        exponent = None
        if "duration" in type_text or "second" in type_text:
            exponent = time_sources.duration_exponent(type_text, self.scopes.imports)
        for child in node.children:
            if child.kind == "assign" and child.children:
                self.value(child, frame)
                if exponent is not None:
                    frame.env[_key(child.children[0])] = time_sources.duration(exponent, child)
            elif child.kind not in ("name", "targs"):
                self.value(child, frame)
        if exponent is not None and first is None:
            for child in node.children[1:]:
                if child.kind == "name":
                    frame.env[_key(child)] = time_sources.duration(exponent, child)

    # Expressions

    def value(self, node: Node, frame: Frame) -> Value:
        """The value of an expression; everything in it is checked on the way."""
        method = getattr(self, f"_{node.kind}", None)
        if method is not None:
            result: Value = method(node, frame)
            return result
        for child in node.children:
            if child.kind not in _SKIP and child.kind not in ("lambda", "type"):
                self.value(child, frame)
        return None

    def _number(self, node: Node, frame: Frame) -> Value:
        found = literal(node.text)
        if found is not None and found.shift and found.value in self._counts:
            return Number(found.value, found.shift, True, found.binary)
        return found

    def _name(self, node: Node, frame: Frame) -> Value:
        return self._lookup(_key(node), node, frame)

    def _lookup(self, key: str, node: Node, frame: Frame) -> Value:
        if key in frame.env:
            return self._stored(key, node, frame)
        found = self._from_outside(key, node, frame)
        if found is not None:
            return found
        if key in self._macros:
            return self._macros[key]
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
        return _by_name(key)

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
            return _by_name(key)
        return stored

    def _from_outside(self, key: str, node: Node, frame: Frame) -> Value:
        scope = frame.scope
        if "." in key:
            return self._attribute_value(key, node, scope)
        if key in scope.parameters:
            return self._parameter(scope, key)
        owner = _class_name(scope)
        if self.cpp and owner and (owner, key) in self._attributes:
            return self._attributes[owner, key]
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
            owner = next((c for s in scope.enclosing() if (c := _class_name(s))), "")
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
        return result

    def _attribute(self, node: Node, frame: Frame) -> Value:
        inner = self.value(node.children[0], frame) if node.children else None
        name = last_segment(node.text)
        if isinstance(inner, Quantity) and inner.kind == "measurement":
            return time("s", inner.origin) if name in ("mean", "median") else None
        if time_sources.PROFILER_ROW.match(name):
            return time("us", node)
        if self.cpp and name in time_sources.FIELDS:
            return time(time_sources.FIELDS[name], node)
        return _by_name(name)

    def _subscript(self, node: Node, frame: Frame) -> Value:
        key = squeeze(node.text)
        if key in frame.env:
            return self._stored(key, node, frame)
        base = self.value(node.children[0], frame) if node.children else None
        for child in node.children[1:]:
            self.value(child, frame)
        if len(node.children) == 2 and node.children[1].kind == "string":
            return _by_name(body_of(node.children[1]))
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
            self._check(plain(found), _label_of_key(name), node.children[1], name)
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
                self._bind(part.children[0], _item(self.value(part.children[1], frame)), frame)
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
            chosen = _chooses(re.findall(r"\w+", condition.text))
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
        return self._arithmetic(operator, a, b, node)

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
            else:
                number = Number(number.value)
            return (number, value) if swapped else (value, number)
        return a, b

    def _ticks(self, a: Quantity, b: Value, node: Node) -> Value:
        if "CLOCKS_PER_SEC" in node.children[1].text or "CLK_TCK" in node.children[1].text:
            return Quantity("time", a.exponents, origin=a.origin)
        found = divide(a, b)
        return found

    def _assign(self, node: Node, frame: Frame) -> Value:
        if len(node.children) < 2 or node.children[-1].kind == "type":
            return None
        target, source = node.children[0], node.children[-1]
        operator = node.tree.text[target.end : source.start].strip(" \t\n\\(")
        if operator in ("*=", "/=", "+=", "-=", "//="):
            return self._augassign(node, frame)
        key = _key(target)
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
        key = _key(target)
        added = self.value(source, frame)
        outer, frame.rescaled = frame.rescaled, key
        old = self.value(target, frame)
        frame.rescaled = outer
        found = self._arithmetic(operator.rstrip("="), old, added, node)
        kept = isinstance(old, Many) or not isinstance(found, Quantity)
        if operator in ("+=", "-=") and kept:
            found = old
        self._bind(target, found, frame, source)
        return found

    def _bind(self, target: Node, found: Value, frame: Frame, source: Node | None = None) -> None:
        if target.kind in ("tuple", "list"):
            self._bind_parts(target, found, frame)
            return
        key = _key(target)
        if isinstance(found, Number) and found.shift:
            found = _named_number(found, key)
        label = _target_label(target)
        inner = plain(found)
        if isinstance(inner, Quantity) and inner.kind in ("time", "rate") and label is not None:
            problem = self._contradiction(inner, label, source or target, _shown(target))
            if problem is not None:
                frame.env[key] = Suspect(inner, problem)
                return
            if not inner.definite and inner.kind == label.kind:
                found = Quantity(
                    inner.kind, frozenset({label.exponent}), inner.work, origin=inner.origin
                )
        if isinstance(found, Quantity) and source is not None:
            found = replace(found, site=source)
        frame.env[key] = _certain_work(found, key)
        if target.kind == "subscript" and isinstance(inner, Quantity):
            self._bind_element(target, found, frame)

    def _bind_element(self, target: Node, found: Value, frame: Frame) -> None:
        """`times[i] = t`: from here on the elements are like `t`."""
        base, index = target.children[0], target.children[-1]
        key = _key(base)
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

    # Calls and texts

    def _call(self, node: Node, frame: Frame) -> Value:
        name = callee_text(node)
        last = last_segment(name)
        receiver = self._receiver(node, frame)
        arguments = [(a, self._argument(a, frame)) for a in positional(node)]
        args = call_args(node)
        for child in args.children if args and args.kind == "args" else ():
            if child.kind == "keyword":
                self.value(child, frame)
        self._claims(claims_in_call(node, last, arguments))
        if last in _APPEND and arguments:
            self._append(node, name, arguments[-1], frame)
            return None
        if time_sources.FILLS_MS.match(last) and self.cpp and arguments:
            self._fill(arguments[0][0], node, frame)
            return None
        local = self.scopes.called_function(node, frame.scope)
        if local is not None:
            return self._local_call(node, local, arguments)
        if last in self.scopes.functions:
            return self._namesake(last)
        return self._known_call(node, name, receiver, arguments)

    def _argument(self, node: Node, frame: Frame) -> Value:
        return None if node.kind == "lambda" else self.value(node, frame)

    def _receiver(self, node: Node, frame: Frame) -> Value:
        callee = node.children[0] if node.children else None
        if callee is None or callee.kind == "args":
            return None
        if callee.kind == "attribute" and callee.children:
            return self.value(callee.children[0], frame)
        base, dot, _ = squeeze(callee.text).replace("->", ".").rpartition(".")
        if callee.kind == "name" and dot and base in frame.env:
            return self._stored(base, callee, frame)
        if callee.kind == "name" and dot and base.startswith("self."):
            return self._lookup(base, callee, frame)
        return None

    def _append(self, node: Node, name: str, item: tuple[Node, Value], frame: Frame) -> None:
        key = name.replace("->", ".").rpartition(".")[0].replace("this.", "self.")
        known = frame.env.get(key)
        added = plain(item[1])
        inner = plain(known) if not isinstance(known, Suspect) else None
        if isinstance(inner, Quantity) and isinstance(added, Quantity):
            joined = join(inner, added)
            if isinstance(joined, Conflict) and inner.origin is not added.origin:
                if not (inner.declared or added.declared):
                    problem = Problem("paths", item[0], added, other=inner, name=key)
                    self.problems.append(problem)
                return
        label = label_of_name(key)
        if isinstance(added, Quantity):
            self._check(added, label, item[0], key)
            frame.env[key] = Many(
                added if label is None else OPAQUE if not added.definite else added
            )

    def _fill(self, target: Node, call: Node, frame: Frame) -> None:
        names = [n for n in target.walk() if n.kind == "name"]
        if names:
            self._bind(names[0], time("ms", call), frame, call)

    def _local_call(
        self, node: Node, local: Scope, arguments: Sequence[tuple[Node, Value]]
    ) -> Value:
        for position, (argument, value) in enumerate(arguments):
            if position < len(local.parameters):
                parameter = local.parameters[position]
                self._given_now[id(local.node), parameter].append(value)
                self._check(plain(value), label_of_name(parameter), argument, parameter)
        for parameter in local.parameters[len(arguments) :]:
            given = keyword(node, parameter)
            if given is not None:
                self._given_now[id(local.node), parameter].append(None)
        found = self._returns.get(id(local.node))
        return found

    def _namesake(self, name: str) -> Value:
        """What a call returns whose receiver is unknown, but whose name the file defines once."""
        found = self.scopes.functions[name]
        return self._returns.get(id(found[0].node)) if len(found) == 1 else None

    def _known_call(
        self,
        node: Node,
        name: str,
        receiver: Value,
        arguments: Sequence[tuple[Node, Value]],
    ) -> Value:
        last = last_segment(name)
        found = time_sources.of_call(name, self.scopes.resolve(name), node, self.torch_timers)
        if found is not None:
            return found
        if self.cpp and (chrono := self._chrono_call(node, last, receiver)) is not None:
            return chrono
        if isinstance(receiver, Quantity) and receiver.kind == "measurement":
            return None
        first = arguments[0][1] if arguments else None
        if last == "zip":
            return Many(Several(tuple(_item(value) for _, value in arguments)))
        if last == "enumerate":
            return Many(Several((Work(), _item(first))))
        if last in ("min", "max", "fmin", "fmax") and len(arguments) == 2:
            self._mixed(plain(arguments[0][1]), plain(arguments[1][1]), node)
        if last in _REDUCE or last.split("<")[0] in _REDUCE:
            chosen = receiver if isinstance(receiver, (Quantity, Many)) else first
            return chosen if last in ("sorted", "list", "tolist", "array") else plain(chosen)
        if last in ("len", "numel", "size", "range", "get_world_size", "device_count"):
            return Work() if last != "range" else Many(Work())
        if last in ("element_size", "sizeof"):
            return Work(0.0, "bytes", per_item=True)
        if last == "items" and isinstance(receiver, Many):
            return Many(Several((None, receiver.item)))
        return _by_name(last) if not arguments or "." in name else None

    def _chrono_call(self, node: Node, last: str, receiver: Value) -> Value:
        if last == "count" and isinstance(receiver, Quantity) and receiver.kind == "duration":
            return Quantity("time", receiver.exponents, origin=receiver.origin)
        targs = node.child("targs")
        head = node.children[0].text if node.children else ""
        if targs is not None and last_segment(head) in ("duration_cast", "floor", "round", "ceil"):
            exponent = time_sources.duration_exponent(targs.text[1:-1], self.scopes.imports)
        else:
            args = call_args(node)
            text = node.tree.text[node.start : args.start if args else node.end]
            exponent = time_sources.duration_exponent(text, self.scopes.imports)
        return time_sources.duration(exponent, node) if exponent is not None else None

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
        if value.kind != label.kind or value.says(label.exponent):
            return None
        if value.kind == "rate" and not _comparable(value, label):
            return None
        # A name alone contradicts a text, but not another name; and where a conversion of what it
        # declares leads to no unit in use, the name is the mistake, not the text.
        if value.declared and (name or not value.usual):
            return None
        return Problem("label", node, value, label=label, name=name)


def _comparable(value: Quantity, label: Label) -> bool:
    if label.work == "count":
        return value.work in ("count", "")
    return value.work == label.work


def _key(node: Node) -> str:
    return squeeze(node.text).replace("this->", "self.").replace("->", ".").lstrip("&*")


def _class_name(scope: Scope) -> str:
    return scope.class_name if scope.name else ""


def _by_name(key: str) -> Value:
    """What a name alone says: a declared unit, an amount of work, or a factor that may convert."""
    label = label_of_name(key)
    if label is not None and label.kind == "time":
        return label.quantity()
    work = work_of_name(key)
    if work is not None:
        return work
    last = last_segment(key)
    tokens = set(tokens_of(key))
    if tokens & _CHANGES or (last.isupper() and tokens & (_FACTOR_WORDS | TIME_UNITS.keys())):
        return OPAQUE
    return None


def _named_number(number: Number, key: str) -> Number:
    """A constant with a name: a count, a factor between units, or possibly either."""
    tokens = set(tokens_of(key))
    if tokens & _FACTOR_WORDS or label_of_name(key) is not None:
        return number
    if _COUNTS.search(last_segment(key)):
        return Number(number.value)
    return Number(number.value, number.shift, True, number.binary)


def _certain_work(found: Value, key: str) -> Value:
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


def _target_label(target: Node) -> Label | None:
    if target.kind == "subscript":
        index = target.children[-1] if target.children else None
        if index is not None and index.kind == "string":
            return _label_of_key(body_of(index))
        return label_of_name(target.children[0].text) if target.children else None
    return label_of_name(_key(target)) if target.kind in ("name", "attribute") else None


def _label_of_key(key: str) -> Label | None:
    """The unit in a key: a name, or a heading such as "Latency (ms)"."""
    if re.fullmatch(r"[\w.]+", key):
        return label_of_name(key)
    return label_before(key + ": ") if re.search(r"[\(\[]", key) else None


def _shown(target: Node) -> str:
    return squeeze(target.text)


def _reads(node: Node, key: str) -> bool:
    return any(n.kind in ("name", "subscript", "attribute") and _key(n) == key for n in node.walk())


def _item(value: Value) -> Value:
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


def _chooses(words: Iterable[str]) -> bool:
    return any(set(tokens_of(word)) & _CHOOSES for word in words)


def _merge(branches: Sequence[dict[str, Stored]], chosen: bool) -> dict[str, Stored]:
    merged = dict(branches[0])
    for branch in branches[1:]:
        for key, stored in branch.items():
            if key not in merged or merged[key] is stored:
                merged[key] = stored
                continue
            merged[key] = _merge_value(merged[key], stored, chosen)
    return merged


def _merge_value(a: Stored, b: Stored, chosen: bool) -> Stored:
    if isinstance(a, Suspect):
        return a
    if isinstance(b, Suspect):
        return b
    joined = join(a, b)
    inner = plain(joined)
    if isinstance(inner, Conflict):
        same = inner.first.origin is inner.second.origin
        if chosen or same or inner.first.declared or inner.second.declared:
            return OPAQUE
    return joined


def _macros(scopes: Scopes) -> dict[str, Value]:
    """Numbers that `#define` names."""
    found: dict[str, Value] = {}
    for node in scopes.tree.root.walk():
        if node.kind == "macro":
            parts = re.match(r"#\s*define\s+(\w+)\s+\(?\s*([\w.+-]+)\s*\)?\s*$", node.text)
            number = literal(parts[2]) if parts else None
            if parts and number is not None:
                found[parts[1]] = _named_number(number, parts[1])
    return found


def _count_values(scopes: Scopes) -> frozenset[float]:
    """Numbers that the file uses as counts: in range(), loop headers, and under names of counts."""
    found: set[float] = set()
    for node in scopes.tree.root.walk():
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

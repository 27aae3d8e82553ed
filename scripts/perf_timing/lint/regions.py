"""Measured regions: what lies between the two readings of a clock, or between two events.

A clock region is found from the difference of two clock values: the readings are followed from the
names back to the calls, through attributes (`self.t0`), keys (`times["start"]`), scaled values and
helpers of the file that return a time. A difference whose readings lie in two functions is a timer:
its regions are where the file uses it (`with Timer():`, `timer.start() ... timer.stop()`), and
between the hooks of a framework. An event region is found from the elapsed-time call, or from each
call of a function that is given the events whose time it reads; one event a step, read in pairs,
gives a region that goes around the loop.
A value that is assigned again later in the loop is read in the next iteration (`end = time.time()`
at the end of the body): the region then goes around the loop.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ParamSpec, TypeVar, cast

from perf_timing.lint import expected_failures, readings, scoped_objects
from perf_timing.lint import roles as r
from perf_timing.lint import vocabulary as words
from perf_timing.lint.facts import Node
from perf_timing.lint.flow import Flow, Step, exclusive
from perf_timing.lint.scopes import (
    Scope,
    Scopes,
    argument,
    base_name,
    callee_text,
    common_loop,
    keyword,
    last_segment,
    loop_body,
    loops_around,
    positional,
    split_top,
    squeeze,
    target_key,
)
from perf_timing.lint.stopwatches import watches

# Each region of a function is held against the whole of it; beyond this product a file takes
# longer than ten seconds.
_MOST_VISITS = 8_000_000
_MOST_CHECKED = 2  # arguments of a macro or function that checks what a call returns
# How many functions of the file a call is followed through that computes somewhere else.
_DEEPEST_CALL = 2


class TooManyRegionsError(Exception):
    """A function holds more measured regions than can be judged in bounded time."""


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def remembered(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """`function`, whose last argument is a region, worked out once for each region.

    Nearly every rule asks the same about a region; without this, a file of many regions would take
    time by the square of its length. The answer is shared: nobody may change it.
    """

    @functools.wraps(function)
    def recall(*arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        memory = cast(Region, arguments[-1]).memory
        if function not in memory:
            memory[function] = function(*arguments, **options)
        found: Answer = memory[function]
        return found

    return recall


@dataclass
class Region:
    """One measured region.

    `kind` is "clock", "event", "timeit" (the standard library's or IPython's) or "benchmark"
    (Google Benchmark). `scope` holds the measured code; `spans` are its stretches in order;
    `start` and `end` are the two readings (records), `report` is where to point for a wrong end.
    `delta` is the expression whose value is the time. `hooked`: the code between is run by a
    framework that calls the two functions.
    """

    kind: str
    scope: Scope
    start: Node
    end: Node
    report: Node
    delta: Node
    spans: tuple[tuple[int, int], ...]
    steps: list[Step] = field(default_factory=list)
    carried: bool = False
    hooked: bool = False
    periodic: bool = False  # a rate display: the start moves on when enough time has passed
    timer: Scope | None = None  # the function that reads the clock at the end, for a timer
    watch: bool = False  # between two calls that start and stop a stopwatch
    shown: bool = False  # a stopwatch for which there is also the region of its readings
    # What functions marked with `remembered` have found out about the region.
    memory: dict[Any, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    @cached_property
    def sample_loops(self) -> list[Node]:
        """The loops around the whole region: each iteration takes a sample."""
        around = {id(loop) for loop in loops_around(self.end)}
        return [loop for loop in loops_around(self.start) if id(loop) in around]

    @cached_property
    def cumulative(self) -> bool:
        """Read again and again against one start, as in a progress display: not a measurement."""
        if self.periodic:
            return True
        if self.kind != "clock" or self.carried or self.timer is not None or self.hooked:
            return False
        around = {id(loop) for loop in loops_around(self.start)}
        return any(
            id(loop) not in around and loop.kind != "comp" for loop in loops_around(self.delta)
        )

    @cached_property
    def wraps_measurement(self) -> bool:
        """Whether a helper that runs inside takes times itself: the run time of a program."""
        taken = {r.CLOCK, r.RECORD, r.ELAPSED}
        readings = {id(self.start), id(self.end)}
        return any(s.helpers and s.roles & taken and id(s.site) not in readings for s in self.steps)

    @property
    def is_plain(self) -> bool:
        """Two readings, or records, around code in view: the kind of region that loops repeat."""
        return self.kind in ("clock", "event") and not (
            self.carried or self.hooked or self.cumulative or self.wraps_measurement
        )

    def inner_loops(self, node: Node) -> list[Node]:
        """The loops around `node` that lie inside the region: they run once per window.

        So does one in whose first measured iteration the clock starts, and which ends before it
        stops: if i == warmup: start = time.time().
        """
        return [
            loop
            for loop in loops_around(node)
            if any(low <= loop.start and loop.end <= high for low, high in self.spans)
            or self._starts_in(loop)
        ]

    def _starts_in(self, loop: Node) -> bool:
        return (
            not self.carried
            and loop.kind != "comp"
            and loop.start < self.start.start < loop.end <= self.end.start
        )

    def holds(self, node: Node) -> bool:
        return any(low <= node.start and node.end <= high for low, high in self.spans)


@dataclass(frozen=True)
class Pair:
    """An elapsed-time call with the records of its two events, where the file shows them.

    Where a function of the file reads the time of two events that it is given, `call` is each call
    of that function: `events` are what it passes.
    """

    call: Node
    events: tuple[Node, Node]
    scope: Scope
    start: Node | None  # the last record of the start event before the call
    end: Node | None
    start_names: frozenset[str]
    end_names: frozenset[str]


# What a function is called that takes the difference of two times.
_SUBTRACTS = re.compile(r"sub(?!mit|mul|st)|diff|elapsed|interval|duration|delta", re.IGNORECASE)
# What helpers call the function that they time.
_TIMED_AS = ("fn", "func", "function", "f", "kernel", "stmt")
_HARNESS_LIKE = re.compile(r"bench|autorange|profile|measure|time|repeat|report|cupti")


class Regions:
    """All measured regions of a file."""

    def __init__(
        self, scopes: Scopes, flow: Flow, launches: Callable[[Node], str] = lambda _: ""
    ) -> None:
        """`launches` tells how a function of another file leaves the device (elsewhere_cpp.py)."""
        self.scopes = scopes
        self.flow = flow
        self.roles = flow.roles
        self.launches = launches

    # Clock values

    def clock_of(self, node: Node, scope: Scope, depth: int = 0) -> Node | None:
        """The call that read the clock whose value `node` has, or None."""
        if depth > 6:
            return None
        if node.kind == "call":
            return self._clock_call(node, scope, depth)
        if node.kind in ("name", "subscript", "attribute"):
            return self._clock_variable(node, scope, depth)
        if node.kind == "binary":
            if self.operator(node) == "-" or len(node.children) != 2:
                return None
            found = [self.clock_of(child, scope, depth + 1) for child in node.children]
            return next((call for call in found if call is not None), None)
        if node.kind in ("cond", "named", "cast"):
            found = [self.clock_of(child, scope, depth + 1) for child in node.children]
            return next((call for call in found if call is not None), None)
        return None

    def operator(self, node: Node) -> str:
        """The operator of a binary node."""
        if len(node.children) < 2:
            return ""
        gap = node.tree.text[node.children[0].end : node.children[1].start]
        gap = re.sub(r"//[^\n]*|/\*.*?\*/", "", gap) if node.tree.language == "cuda" else gap
        return re.sub(r"[\s()\\]|static_cast|double|float|int64_t|int|long|#[^\n]*", "", gap)

    def _clock_call(self, node: Node, scope: Scope, depth: int) -> Node | None:
        roles = self.roles.of(node, scope)
        if r.CLOCK in roles:
            return node
        function = self.scopes.called_function(node, scope)
        if self.returns_clock(function) or self.subtracts_from_clock(function):
            return node
        callee = callee_text(node)
        short = last_segment(callee)
        if short in (
            "float",
            "int",
            "double",
            "timestamp",
            "time_since_epoch",
            "count",
            "time_point_cast",
            "static_cast",
            "round",
        ):
            for part in (*positional(node), *node.children[:1]):
                inner = part.children[0] if part.kind == "attribute" and part.children else part
                if inner.kind == "name" and inner is node.children[0] and "." in inner.text:
                    return self._clock_name(
                        squeeze(inner.text).rpartition(".")[0], node, scope, depth
                    )
                found = self.clock_of(inner, scope, depth + 1) if inner.kind != "args" else None
                if found is not None:
                    return found
        return None

    def returns_clock(self, function: Scope | None) -> bool:
        """Whether a function of the file returns a reading of a clock."""
        if function is None or function.is_kernel:
            return False
        key = id(function)
        if key not in self._returns:
            self._returns[key] = False
            self._returns[key] = self._returns_clock(function)
        return self._returns[key]

    @cached_property
    def _returns(self) -> dict[int, bool]:
        return {}

    def _returns_clock(self, function: Scope) -> bool:
        if (
            function.node.kind == "lambda"
            and function.body is not None
            and function.body.kind != "block"
        ):
            return self.clock_of(function.body, function) is not None
        for node in function.nodes:
            if node.kind == "return" and node.children:
                value = node.children[0]
                if self.clock_of(value, function) is not None:
                    return True
        return False

    def subtracts_from_clock(self, function: Scope | None) -> bool:
        """Whether a C++ function returns a reading less what it is given: dtime(start)."""
        if function is None or function.is_kernel or self.scopes.language != "cuda":
            return False
        given = [n.children[0] for n in function.nodes if n.kind == "return" and n.children]
        value = given[0] if len(given) == len(function.parameters) == 1 else None
        if value is None or value.kind != "binary" or len(value.children) != 2:
            return False
        return (
            self.operator(value) == "-"
            and squeeze(value.children[1].text) == function.parameters[0]
            and self.clock_of(value.children[0], function) is not None
        )

    def _since(self, call: Node, scope: Scope) -> Node | None:
        """The reading that a call takes off its own: dtime(start), where start = dtime(0)."""
        given = positional(call)
        if len(given) != 1 or given[0].kind == "number":
            return None
        function = self.scopes.called_function(call, scope)
        found = self.subtracts_from_clock(function) and self.clock_of(given[0], scope)
        return found or None

    def _clock_variable(self, node: Node, scope: Scope, depth: int) -> Node | None:
        key = target_key(node)
        if self.scopes.language == "cuda":
            key = re.sub(r"\.(tv_\w+|QuadPart|time|millitm)$", "", key)
        return self._clock_name(key, node, scope, depth)

    def _clock_name(self, key: str, at: Node, scope: Scope, depth: int) -> Node | None:
        filler = self._filled(key, at, scope)
        if filler is not None:
            return filler
        pairs = self.scopes.assignments(key, scope)
        before = [p for p in pairs if p[0].end <= at.start and not exclusive(p[0], at)]
        # Not the assignment that the name is read for: t = since(t).
        before = [p for p in before if not p[1].start <= at.start < p[1].end]
        own = [pair for pair in before if self.scopes.scope_of(pair[0]) is scope]
        local = any(self.scopes.scope_of(target) is scope for target, _ in pairs)
        if not local and not any(key in around.parameters for around in scope.enclosing()):
            # A global, or a member of the class: some other function has set it.
            pairs = before = [*pairs, *self._set_elsewhere(key, scope)]
        for target, value in reversed(own or before or pairs):
            found = self.clock_of(value, self.scopes.scope_of(target), depth + 1)
            if found is not None:
                return found
        return None

    def _set_elsewhere(self, key: str, scope: Scope) -> list[tuple[Node, Node]]:
        """Assignments to a global or a member in other functions (of the same class)."""
        found = []
        for target, value in self.scopes.assignments(key):
            setter = self.scopes.scope_of(target)
            if setter is scope or not self._is_member(target, setter, scope):
                continue
            declares = any(n.kind == "global" and key in n.text for n in setter.nodes)
            if self.scopes.language == "cuda" or declares:
                found.append((target, value))
        return found

    @staticmethod
    def _is_member(target: Node, setter: Scope, scope: Scope) -> bool:
        """Whether a value is given in a function of a class, or in the class itself."""
        owner = scope.owner
        if setter.class_name != scope.class_name:
            return owner is not None and owner.start < target.start < owner.end
        return (
            owner is None or setter.node.kind != "module" or owner.start < target.start < owner.end
        )

    @cached_property
    def _fillers(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        if self.scopes.language == "cuda":
            for call in self.scopes.calls:
                position = words.CPP_CLOCK_FILLERS.get(last_segment(callee_text(call)))
                args = positional(call)
                if position is not None and position < len(args):
                    found.setdefault(base_name(args[position].text), []).append(call)
        return found

    def _filled(self, key: str, at: Node, scope: Scope) -> Node | None:
        calls = [
            c for c in self._fillers.get(base_name(key), []) if self.scopes.scope_of(c) is scope
        ]
        before = [c for c in calls if c.end <= at.start]
        found = before or calls
        return found[-1] if found else None

    # Regions

    @cached_property
    def all(self) -> list[Region]:
        """Every region, in the order of their ends; each pair of readings once.

        Raises TooManyRegionsError.
        """
        found: dict[tuple[int, int, int, int], Region] = {}
        for region in (*self._clock_regions(), *self._library_regions(), *self._event_regions()):
            region.steps = self._steps(region)
            found.setdefault(
                (
                    region.start.start,
                    region.end.start,
                    region.scope.node.start,
                    region.spans[0][0] if region.timer else 0,
                ),
                region,
            )
        if sum(len(region.scope.nodes) for region in found.values()) > _MOST_VISITS:
            raise TooManyRegionsError
        self._mark_shown(found.values())
        return sorted(found.values(), key=lambda g: (g.end.start, g.start.start))

    def _steps(self, region: Region) -> list[Step]:
        steps = region.steps
        for low, high in region.spans:
            steps = steps + self.flow.between(region.scope, low, high)
        if any(s.roles & {r.OPAQUE, r.HARNESS} or _computes(s) for s in steps):
            return steps
        found = self._elsewhere(region)
        if not found and not any(s.works or s.roles & {r.BLOCKING, r.COPY} for s in steps):
            found = self._implied(region, steps)
        return sorted([*steps, *found], key=lambda s: s.position)

    def _elsewhere(self, region: Region) -> list[Step]:
        """Calls of C++ functions that launch, by what other files on disk show of them.

        Looked at where the file itself shows nothing that computes, only copies at most.
        """
        if self.scopes.language != "cuda" or region.kind == "benchmark":
            return []
        if any(region.holds(n) for n in region.scope.names.get("argv", [])):
            return []  # the run time of a program
        found = []
        for call in region.scope.nodes:
            if call.kind == "call" and region.holds(call) and _is_statement(call):
                left = self.launches(call) if not self.roles.of(call, region.scope) else ""
                if left:
                    role = r.WORK if left == "works" else r.BLOCKING
                    found.append(Step(call, call, frozenset({role, r.LIKELY}), call.end))
        return found

    def _implied(self, region: Region, steps: list[Step]) -> list[Step]:
        """Calls of other files where nothing else can be what is measured.

        Two events enclose work of the device or nothing, and nobody waits for the device right
        before the closing reading who has not given it work.
        """
        last = next((s for s in reversed(steps) if r.CLOCK not in s.roles), None)
        waits = region.kind == "clock" and last is not None and r.WAIT in last.roles
        python = self.scopes.language == "python"
        if not (region.kind == "event" or waits) or (region.watch and (python or not waits)):
            return []
        may_compute = self._may_compute if self.scopes.language == "python" else self._may_launch
        calls = (n for n in region.scope.nodes if n.kind == "call" and region.holds(n))
        return [
            Step(call, call, frozenset({r.WORK, r.LIKELY}), call.end)
            for call in calls
            if _stands_alone(call)
            and not self.roles.of(call, region.scope)
            and not self.flow.host_only(call, region.scope)
            and may_compute(call, region.scope)
            and (self.scopes.language == "python" or not waits or _precedes(call, last))
        ]

    def _may_launch(self, call: Node, scope: Scope) -> bool:
        """Whether a call of C++ may launch: it is of another file, no macro and no check."""
        callee = re.sub(r"<.*", "", callee_text(call), flags=re.DOTALL)
        short = last_segment(callee)
        if self.scopes.called_function(call, scope) is not None or not positional(call):
            return False
        if "std::" in callee or re.match(r"[A-Z][A-Z0-9_]*$|[A-Z]\w*_[A-Z]\w*$", short):
            return False
        if words.CPP_VENDOR.match(short) or words.CPP_LIBRARY.match(short):
            return False
        given = positional(call)
        if len(given) <= _MOST_CHECKED and any(argument.kind == "call" for argument in given):
            return False  # a check around another call
        parent = call.parent
        if parent is not None and parent.kind == "assign":
            target = last_segment(squeeze(parent.children[0].text))
            if not re.search(r"stat|err|res|ret|rc$|ok$", target, re.IGNORECASE):
                return False
        return not words.CPP_OTHER.search(short) or self._is_queued(call, short)

    def _is_queued(self, call: Node, short: str) -> bool:
        """Whether a call is given a stream beside its data: table.insert(n, keys, stream)."""
        streams = set(words.CPP_QUEUE.findall(self.scopes.tree.text))
        given = [squeeze(argument.text) for argument in positional(call)]
        return (
            len(given) > _MOST_CHECKED
            and bool(streams & set(given))
            and words.CPP_ON_DATA.match(short) is not None
        )

    def _may_compute(self, call: Node, scope: Scope, depth: int = 0) -> bool:
        """Whether nothing is known of a call, and its name is not that of housekeeping."""
        callee = callee_text(call)
        short = last_segment(callee)
        known = self.scopes.called_function(call, scope)
        if known is not None:
            inner = (n for n in known.nodes if n.kind == "call" and depth < _DEEPEST_CALL)
            return any(self._may_compute(n, known, depth + 1) for n in inner)
        if callee in words.HOST_CALLS or self.scopes.resolve(callee).startswith(
            ("torch.", "numpy.")
        ):
            return False
        if self.scopes.resolve(callee).partition(".")[0] in words.HOST_MODULES:
            return False
        if "." in callee and (short in words.HOST_METHODS or words.HOUSEKEEPING.match(short)):
            return False
        return not (words.NOT_MODEL.search(callee) or re.match(r"[A-Z]", short))

    @cached_property
    def deltas_from(self) -> dict[int, list[tuple[Node, Node]]]:
        """(difference, end reading) of each difference, by the id of its start reading."""
        found: dict[int, list[tuple[Node, Node]]] = {}
        for delta, start, end, _ in self.deltas:
            found.setdefault(id(start), []).append((delta, end))
        return found

    @cached_property
    def deltas(self) -> list[tuple[Node, Node, Node, Scope]]:
        """(difference, start reading, end reading, scope) of each difference of clock values."""
        found: list[tuple[Node, Node, Node, Scope]] = []
        for scope in self.scopes.all:
            if scope.is_kernel:
                continue
            for node in scope.nodes:
                if node.kind == "binary" and self.operator(node) == "-" and len(node.children) == 2:
                    end = self.clock_of(node.children[0], scope)
                    start = self.clock_of(node.children[1], scope) if end is not None else None
                    if start is not None and end is not None and not self._is_deadline(node):
                        found += readings.before_branch(self, (node, start, end, scope))
                        found.append((node, start, end, scope))
                elif node.kind == "call" and (pair := self._handed_readings(node, scope)):
                    found.append((node, *pair, scope))
                elif node.kind == "call" and (begun := self._since(node, scope)) is not None:
                    found.append((node, begun, node, scope))
        return found

    def _handed_readings(self, call: Node, scope: Scope) -> tuple[Node, Node] | None:
        """The two readings that a C++ function is given to subtract: tvsub(&end, &start, &took).

        They are variables that gettimeofday() and its like have filled in the scope before, or that
        hold what a clock returned; the later is the end, in whatever order the function wants them.
        """
        if self.scopes.language != "cuda" or not _SUBTRACTS.search(last_segment(callee_text(call))):
            return None
        given = {base_name(argument.text): argument for argument in positional(call)}
        read = [self._reading(name, argument, scope) for name, argument in given.items()]
        known = {id(c): c for c in read if c is not None and c.end <= call.start}
        if len(known) != 2 or self._is_deadline(call):
            return None
        start, end = sorted(known.values(), key=lambda c: c.start)
        return start, end

    def _reading(self, name: str, argument: Node, scope: Scope) -> Node | None:
        """The reading in `scope` whose value an argument has, or None."""
        if name in self._fillers:
            return self._filled(name, argument, scope)
        if argument.kind != "name" or self.scopes.definition(argument, name, scope) is None:
            return None
        found = self.clock_of(argument, scope)
        return found if found is not None and self.scopes.scope_of(found) is scope else None

    def differences(self, call: Node) -> list[Node]:
        """Where the difference is used that a call has written: took.tv_sec, up to the next one."""
        scope = self.scopes.scope_of(call)
        names = {base_name(argument.text) for argument in positional(call)[2:]}
        again = (
            c.start
            for c in self.scopes.calls_by_name.get(last_segment(callee_text(call)), [])
            if c.start > call.start and self.scopes.scope_of(c) is scope
        )
        until = min(again, default=scope.node.end)
        return [
            node
            for name, nodes in scope.names.items()
            if name.partition(".")[0] in names
            for node in nodes
            if call.end < node.start < until
        ]

    def _is_deadline(self, delta: Node) -> bool:
        """Whether the difference is only compared: a time limit and not a measurement."""
        for parent in delta.ancestors():
            if parent.kind == "augassign" and parent.children:
                return self._moves_start(parent.children[0])
            if parent.kind == "compare" or (
                parent.kind == "binary" and self.operator(parent)[:1] in ("<", ">")
            ):
                return self.operator(parent)[:2] not in ("<<", ">>")
            if parent.kind not in ("binary", "args", "call", "attribute"):
                return False
        return False

    def _moves_start(self, target: Node) -> bool:
        """Whether a time is added to a reading, which leaves a pause out: start += clock() - t0."""
        pairs = self.scopes.assignments(target_key(target), self.scopes.scope_of(target))
        return any(self.clock_of(value, self.scopes.scope_of(value)) is value for _, value in pairs)

    def _clock_regions(self) -> Iterator[Region]:
        for delta, start, end, _scope in self.deltas:
            if end is start and not self._is_carried(delta, start, end):
                continue
            where_start, where_end = self.scopes.scope_of(start), self.scopes.scope_of(end)
            if where_start is where_end:
                yield from self._same_scope(delta, start, end, where_end)
                yield from self._read_in_other_branches(delta, end, where_end)
            else:
                yield from self._timer(delta, start, end, where_start, where_end)
        for value, start, end, scope in readings.handed_on(self):
            yield Region("clock", scope, start, end, end, value, ((start.end, end.end),))
        yield from self._stopwatches()

    def _is_carried(self, delta: Node, start: Node, end: Node) -> bool:
        return bool(loops_around(end))

    def _same_scope(self, delta: Node, start: Node, end: Node, scope: Scope) -> Iterator[Region]:
        target, later = self._later_start(delta, end, scope)
        loop = common_loop(end, later) if later is not None else None
        body = loop_body(loop) if loop is not None else None
        if (
            later is not None
            and body is not None
            and (start is end or not any(x is loop for x in loops_around(start)))
        ):
            spans = ((later.end, body.end), (body.start, end.end))
            region = Region("clock", scope, later, end, end, delta, spans, carried=True)
            region.periodic = target is not None and _is_periodic(delta, target)
            yield region
        elif (kept := self._kept_in(delta, scope)) is not None:
            spans = ((end.end, kept.end), (kept.start, end.end))
            yield Region("clock", scope, end, end, end, delta, spans, carried=True)
        elif start.start < end.start:
            function_yield = next(
                (n for n in scope.nodes if n.kind == "yield" and start.end < n.start < end.start),
                None,
            )
            region = Region("clock", scope, start, end, end, delta, ((start.end, end.end),))
            if function_yield is not None:
                yield from self._generator(region, function_yield)
            else:
                yield region

    def _read_in_other_branches(self, delta: Node, end: Node, scope: Scope) -> Iterator[Region]:
        """The spans that other branches of C++ code read into the same two variables.

        if (tiled) { t0 = now(); a(); t1 = now(); } else { t0 = now(); b(); t1 = now(); }
        """
        if self.scopes.language != "cuda" or {child.kind for child in delta.children} != {"name"}:
            return
        choice = _choice_around(end, delta)
        if choice is None:
            return
        given = [self.scopes.assignments(target_key(name), scope) for name in delta.children]
        read = [c for _, value in given[1] if (c := self.clock_of(value, scope)) is not None]
        for _, value in given[0]:
            last = self.clock_of(value, scope) if _holds(choice, value) else None
            if last is None or last is end or not exclusive(last, end):
                continue
            begun = _begun_for(last, read)
            if begun is not None and self.scopes.scope_of(last) is self.scopes.scope_of(begun):
                yield Region("clock", scope, begun, last, last, delta, ((begun.end, last.end),))

    def _later_start(self, delta: Node, end: Node, scope: Scope) -> tuple[Node | None, Node | None]:
        """Where the start value is replaced after the difference was taken, in its loop.

        That is (the target of the assignment, the reading that it takes).
        """
        key = target_key(delta.children[1])
        for target, value in self.scopes.assignments(key, scope):
            if target.start > delta.start and common_loop(target, delta) is not None:
                return target, self.clock_of(value, scope)
        return None, None

    def _kept_in(self, delta: Node, scope: Scope) -> Node | None:
        """The body of the loop in which the last reading is kept: `last, now = now, clock()`."""
        if {child.kind for child in delta.children} != {"name"}:
            return None
        end, start = (target_key(child) for child in delta.children)
        for target, value in self.scopes.assignments(start, scope):
            loop = common_loop(target, delta)
            if target.start < delta.start and loop is not None and squeeze(value.text) == end:
                return loop_body(loop)
        return None

    def _generator(self, region: Region, point: Node) -> Iterator[Region]:
        """A function with `yield` between its readings: the region is each block that uses it."""
        tail = [
            s for s in self.flow.steps(region.scope) if point.end < s.position <= region.end.end
        ]
        for with_node, _item, scope in self._with_sites(region.scope.short_name):
            body = with_node.child("block")
            if body is not None:
                yield Region("clock", scope, region.start, region.end, region.end, region.delta,
                             ((body.start, body.end),), timer=region.scope, steps=[])  # fmt: skip
                self._tails[(body.start, region.end.start)] = tail

    @cached_property
    def _tails(self) -> dict[tuple[int, int], list[Step]]:
        return {}

    def _with_sites(self, name: str) -> Iterator[tuple[Node, Node, Scope]]:
        """Where `with` enters what a function or a class returns, or an object made before."""
        for scope in self.scopes.all:
            for node in scope.nodes:
                if node.kind == "with":
                    for item in node.children:
                        entered = (
                            item.children[0] if item.kind == "item" and item.children else None
                        )
                        if entered is not None and self._enters(entered, name, scope):
                            yield node, item, scope

    def _enters(self, entered: Node, name: str, scope: Scope) -> bool:
        if entered.kind == "call":
            return last_segment(callee_text(entered)) == name
        if name not in self.scopes.class_names:
            return False
        if entered.kind == "subscript":  # clocks = (Timer(), Timer()); with clocks[0]:
            made = self.scopes.definition(entered, base_name(entered.text), scope)
            members = made.children if made is not None and made.kind in ("tuple", "list") else []
            return bool(members) and all(
                m.kind == "call" and last_segment(callee_text(m)) == name for m in members
            )
        key = squeeze(entered.text)
        return entered.kind == "name" and self.scopes.class_of(key, scope, entered) == name

    def _timer(
        self, delta: Node, start: Node, end: Node, first: Scope, last: Scope
    ) -> Iterator[Region]:
        """Readings in two functions: regions where the file uses them, one after the other."""
        tail = [
            s for s in self.flow.steps(last) if s.position <= end.end and r.CLOCK not in s.roles
        ]
        if scoped_objects.is_destructor(last) and self._is_member(start, first, last):
            for node, block, scope in scoped_objects.of_class(self.scopes, last.class_name):
                span = (node.end, block.end)
                yield self._used(delta, start, end, scope, span, last, tail)
            return
        if first.class_name and first.class_name == last.class_name:
            if last.name == "__exit__":
                for with_node, _item, scope in self._with_sites(first.class_name):
                    body = with_node.child("block")
                    if body is not None:
                        yield self._used(
                            delta, start, end, scope, (body.start, body.end), last, tail
                        )
                return
            yield from self._start_stop(delta, start, end, first, last, tail)
        elif first.name and last.name and not first.class_name and not last.class_name:
            yield from self._start_stop(delta, start, end, first, last, tail)
        if self._hooks(first, last):
            yield Region(
                "clock",
                last,
                start,
                end,
                end,
                delta,
                ((last.node.start, end.end),),
                hooked=True,
                timer=last,
            )

    def _used(
        self,
        delta: Node,
        start: Node,
        end: Node,
        scope: Scope,
        span: tuple[int, int],
        last: Scope,
        tail: list[Step],
    ) -> Region:
        self._tails[(span[0], end.start)] = tail
        return Region("clock", scope, start, end, end, delta, (span,), timer=last)

    def tail(self, region: Region) -> list[Step]:
        """What a timer does between the end of the measured code and its closing reading."""
        return self._tails.get((region.spans[0][0], region.end.start), [])

    def _start_stop(
        self, delta: Node, start: Node, end: Node, first: Scope, last: Scope, tail: list[Step]
    ) -> Iterator[Region]:
        stops = self._method_sites(last)
        for call in self._method_sites(first):
            receiver = callee_text(call).rpartition(".")[0]
            scope = self.scopes.scope_of(call)
            later = [c for c in stops if c.start > call.end and self.scopes.scope_of(c) is scope
                     and callee_text(c).rpartition(".")[0] == receiver]  # fmt: skip
            if later:
                yield self._used(delta, start, end, scope, (call.end, later[0].start), last, tail)

    def _method_sites(self, method: Scope) -> list[Node]:
        """Calls `x.method()` outside the class that can only mean this class's method.

        Of a function that is no method (`tic()`): all its calls.
        """
        if not method.class_name:
            return self.scopes.call_sites(method)
        found = []
        owners = [m for m in self.scopes.functions.get(method.short_name, []) if m.class_name]
        for call in self.scopes.calls_by_name.get(method.short_name, []):
            callee = callee_text(call)
            if "." not in callee or (callee.startswith("self.") and "." not in callee[5:]):
                continue
            scope = self.scopes.scope_of(call)
            target = self.scopes.called_function(call, scope)
            if target is method or (
                target is None
                and len(owners) == 1
                and method.short_name not in ("start", "stop", "get")
            ):
                found.append(call)
        return found

    def _hooks(self, first: Scope, last: Scope) -> bool:
        """Whether a framework calls the two functions around a step of its work."""
        names = (first.name or "", last.name or "")
        begin = re.match(r"on_(\w*?)_?(start|begin)$", names[0])
        finish = re.match(r"on_(\w*?)_?end$", names[1])
        if begin and finish and begin[1] == finish[1]:
            # A whole validation is a phase of a training.
            return bool(re.search(r"batch|step|predict|test", begin[1]))
        text = self.scopes.tree.text
        outer = [
            scope.parent.name if scope.parent and scope.parent.name else scope.name
            for scope in (first, last)
        ]
        return all(outer) and bool(
            re.search(rf"register_forward_pre_hook\(.*\b{outer[0]}\b", text)
            and re.search(rf"register_forward_hook\(.*\b{outer[1]}\b", text)
        )

    def _stopwatches(self) -> Iterator[Region]:
        """Between the calls that start and stop a stopwatch, in the function that makes them."""
        for use in watches(self.scopes):
            kind = "event" if use.on_device else "clock"
            span = ((use.start.end, use.stop.end),)
            yield Region(
                kind, use.scope, use.start, use.stop, use.stop, use.value, span, watch=True
            )

    def _mark_shown(self, regions: Iterable[Region]) -> None:
        """Note the stopwatches whose clock readings the file shows: a region of their own."""
        shown = {(id(g.scope), g.spans[0][0]) for g in regions if g.timer is not None}
        for region in regions:
            region.shown = region.watch and (id(region.scope), region.spans[0][0]) in shown

    def _library_regions(self) -> Iterator[Region]:
        for scope in self.scopes.all:
            for node in scope.nodes:
                if node.kind == "with":
                    yield from self._ipython(node, scope)
                elif node.kind == "call" and self.scopes.language == "python":
                    yield from self._timeit(node, scope)
                elif node.kind in ("for", "while") and self.scopes.language == "cuda":
                    yield from self._google(node, scope)

    def _ipython(self, node: Node, scope: Scope) -> Iterator[Region]:
        item, body = node.child("item"), node.child("block")
        if item is None or body is None or not re.match(r"_ipython_time(it)?\(", item.text):
            return
        kind = "timeit" if item.text.startswith("_ipython_timeit") else "clock"
        yield Region(kind, scope, item, item, item, item, ((body.start - 1, body.end),))

    def _timeit(self, node: Node, scope: Scope) -> Iterator[Region]:
        full = self.scopes.resolve(callee_text(node))
        statement: Node | None = None
        if full in ("timeit.timeit", "timeit.repeat"):
            given = positional(node)
            statement = given[0] if given else None
        elif (
            full.endswith((".timeit", ".repeat", ".autorange"))
            and "timeit.Timer" in self.scopes.tree.text
        ):
            maker = node.children[0]
            inner = maker.children[0] if maker.kind == "attribute" and maker.children else None
            if inner is None and maker.kind == "name":
                inner = self.scopes.definition(node, squeeze(maker.text).rpartition(".")[0], scope)
            if (
                inner is not None
                and inner.kind == "call"
                and self.scopes.resolve(callee_text(inner)) == "timeit.Timer"
            ):
                given = positional(inner)
                statement = given[0] if given else None
        function = self.scopes.callable_value(statement, scope) if statement is not None else None
        if function is not None:
            body = function.node
            yield Region("timeit", function, node, node, node, node, ((body.start - 1, body.end),))

    def _google(self, node: Node, scope: Scope) -> Iterator[Region]:
        body = loop_body(node)
        header = node.tree.text[node.start : body.start] if body else ""
        if body is None or not words.is_google_loop(header, node.tree.text):
            return
        if re.search(r"SetIterationTime|UseManualTime", node.tree.text):
            return
        yield Region("benchmark", scope, node, node, node, node, ((body.start - 1, body.end),))

    @cached_property
    def harnessed(self) -> list[Region]:
        """Functions of the file that it hands to a benchmark helper, which times each call."""
        found = []
        for scope in self.scopes.all:
            for node in scope.nodes:
                if (
                    node.kind == "call"
                    and _HARNESS_LIKE.search(callee_text(node))
                    and self._is_harness(node, scope)
                ):
                    for function in self._timed_functions(node, scope):
                        span = ((function.node.start - 1, function.node.end),)
                        region = Region("harness", function, node, node, node, node, span)
                        region.steps = self._steps(region)
                        found.append(region)
        return found

    def _timed_functions(self, call: Node, scope: Scope) -> list[Scope]:
        """The functions of the file that a helper may be given to time."""
        given = [*positional(call)[:3], *filter(None, (keyword(call, n) for n in _TIMED_AS))]
        found = [f for value in given for f in self.scopes.callable_values(value, scope)]
        return [function for function in found if not _yields(function)]

    def _is_harness(self, node: Node, scope: Scope) -> bool:
        if r.HARNESS in self.roles.of(node, scope):
            return True
        short = last_segment(callee_text(node))
        return bool(
            re.match(r"(bench(mark)?|profile|measure|time|timed)(_\w+)?$", short)
        ) and short not in ("time_ns", "time")

    # Events

    def event_names(self, node: Node, scope: Scope) -> frozenset[str]:
        """Names under which the file may know the event that `node` is.

        Followed are: the target of a loop over a list, `zip` or `enumerate`, and tuples that are
        appended to a list. `spans#1` is the second member of the tuples of the list `spans`,
        `marks@start` what a dictionary, or each of its members, holds under a literal key.
        """
        found: set[str] = set()
        todo = [self._event_key(node)]
        while todo and len(found) < 12:
            key = todo.pop()
            if key in found or not key:
                continue
            found.add(key)
            todo += self._aliases(key, node, scope)
        return frozenset(found)

    def _event_key(self, node: Node) -> str:
        return self._event_key_of(node.text)

    def _event_key_of(self, code: str) -> str:
        text = squeeze(code).lstrip("&*(")
        index = re.match(r"([\w.]+)\[(-?\d+)\]$", text)
        if index:
            return f"{index[1]}#{index[2]}"
        pair = re.match(r"([\w.]+)\[[^\]]*\]\[(-?\d+)\]$", text)
        if pair:
            return f"{pair[1]}#{pair[2]}"
        member = re.match(r"([\w.]+)(\[[^\]]*\])*\[(['\"])(\w+)\3\]$", text)
        if member:  # events[name]["start"]
            return f"{member[1]}@{member[4]}"
        text = text.replace("this->", "self.")
        text = re.sub(r"\[.*", "", text)
        return text.rstrip(")")

    def _aliases(self, key: str, node: Node, scope: Scope) -> list[str]:
        found = []
        for parent in node.ancestors():
            heads = (
                [c for c in parent.children if c.kind == "comp_for"]
                if parent.kind == "comp"
                else [parent]
            )
            if parent.kind in ("for", "comp"):
                for head in heads:
                    if len(head.children) >= 2:
                        found += self._bound(key, head.children[0], head.children[1])
        base, mark, index = key.partition("#")
        for call in self.scopes.calls_by_name.get("append", []):
            args = positional(call)
            if args and self._event_key_of(callee_text(call).removesuffix(".append")) == base:
                if (
                    mark
                    and args[0].kind in ("tuple", "list")
                    and abs(int(index)) < len(args[0].children)
                ):
                    found.append(self._event_key(args[0].children[int(index)]))
                elif not mark and args[0].kind == "name":
                    found.append(self._event_key(args[0]))
        return found

    def _bound(self, key: str, target: Node, iterable: Node) -> list[str]:
        callee = callee_text(iterable) if iterable.kind == "call" else ""
        given = positional(iterable) if iterable.kind == "call" else []
        if callee == "enumerate" and given and target.kind == "tuple" and len(target.children) > 1:
            return self._bound(key, target.children[1], given[0])
        if target.kind in ("tuple", "list"):
            for number, part in enumerate(target.children):
                if squeeze(part.text) == key:
                    if last_segment(callee) == "pairwise" and given:
                        return [self._event_key(given[0])]
                    if callee == "zip" and number < len(given):
                        return [self._event_key(given[number])]
                    return [f"{self._event_key(iterable)}#{number}"]
        elif squeeze(target.text) == key:
            return [
                self._event_key(
                    given[0] if callee in ("reversed", "list", "tqdm") and given else iterable
                )
            ]
        return []

    @cached_property
    def records(self) -> list[tuple[Node, Scope, frozenset[str]]]:
        """(call, scope, names of the event) of each call that records an event."""
        found = []
        for call in self.scopes.calls:
            if call.kind != "call" or "ecord" not in callee_text(call):
                continue
            scope = self.scopes.scope_of(call)
            if r.RECORD in self.roles.of(call, scope):
                event = self.recorded_event(call)
                if event is not None:
                    found.append((call, scope, self.event_names(event, scope)))
                names = self._record_result(call)
                if names:
                    found.append((call, scope, names))
        return found

    def _record_result(self, call: Node) -> frozenset[str]:
        # before = stream.record(): the event is the call's value.
        parent = call.parent
        if parent is not None and parent.kind == "assign" and parent.children[-1] is call:
            return frozenset({target_key(parent.children[0])})
        return frozenset()

    def recorded_event(self, call: Node) -> Node | None:
        """The node that names the event of a recording call."""
        if self.scopes.language == "cuda" and last_segment(callee_text(call)) not in ("record",):
            given = positional(call)
            return given[0] if given else None
        function = call.children[0]
        if function.kind == "attribute":
            return function.children[0]
        if last_segment(callee_text(call)) == "record_event":
            given = positional(call)
            return given[0] if given else None
        return _Receiver.of(function)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Each elapsed-time call with its events and their records."""
        found = []
        for call in self.scopes.calls:
            if call.kind != "call" or not re.search(
                r"lapsed|time_till|time_since", callee_text(call)
            ):
                continue
            scope = self.scopes.scope_of(call)
            if r.ELAPSED not in self.roles.of(call, scope) or scope.is_kernel:
                continue
            if expected_failures.is_expected(call, scope):
                continue
            events = self.elapsed_events(call)
            if events is None:
                continue
            sites = self._handed_events(events, scope)
            found += [self._pair(*site) for site in sites or [(call, events, scope)]]
        return found

    def _pair(self, call: Node, events: tuple[Node, Node], scope: Scope) -> Pair:
        names = [self.event_names(event, scope) for event in events]
        start, end = (self._last_record(call, scope, group) for group in names)
        return Pair(call, events, scope, start, end, names[0], names[1])

    def _handed_events(
        self, events: tuple[Node, Node], scope: Scope
    ) -> list[tuple[Node, tuple[Node, Node], Scope]]:
        """(call, events, scope) of each call of a function that is given both its events."""
        if self.scopes.language == "cuda":
            keys = [base_name(event.text) for event in events]
        else:
            keys = [squeeze(event.text) for event in events]
        if not scope.name or not set(keys) <= set(scope.parameters):
            return []
        if any(names & set(keys) for _, where, names in self.records if where is scope):
            return []
        found = []
        for site in self.scopes.call_sites(scope):
            given = [argument(site, scope.parameters.index(key), key) for key in keys]
            if given[0] is not None and given[1] is not None:
                found.append((site, (given[0], given[1]), self.scopes.scope_of(site)))
        return found

    def elapsed_events(self, call: Node) -> tuple[Node, Node] | None:
        """The nodes of the start and the end event of an elapsed-time call."""
        given = positional(call)
        short = last_segment(callee_text(call))
        if re.search(r"EventElapsedTime", short):
            return (given[1], given[2]) if len(given) >= 3 else None
        if short == "time_since":  # PyCUDA: end.time_since(start)
            receiver = _Receiver.of(call.children[0])
            return (given[0], receiver) if receiver is not None and given else None
        if short in ("get_elapsed_time", "event_elapsed_time"):  # of CuPy and Numba
            return (given[0], given[1]) if len(given) >= 2 else None
        function = call.children[0]
        receiver = function.children[0] if function.kind == "attribute" else _Receiver.of(function)
        return (receiver, given[0]) if receiver is not None and given else None

    def _last_record(self, call: Node, scope: Scope, names: frozenset[str]) -> Node | None:
        matching = [(c, s) for c, s, n in self.records if n & names]
        own = [c for c, s in matching if s is scope and c.end <= call.start]
        if own:
            return own[-1]
        around = [c for c, s in matching if s in list(scope.enclosing()) and c.end <= call.start]
        if around:
            return around[-1]
        members = [c for c, s in matching if scope.class_name and s.class_name == scope.class_name]
        if members:
            return members[-1]
        later = [c for c, s in matching if s is scope]
        return later[-1] if later else None

    def _event_regions(self) -> Iterator[Region]:
        for pair in self.pairs:
            start, end = pair.start, pair.end
            if start is None and end is not None and pair.call.kind == "call":
                yield from self._between_helpers(pair)
            if start is None or end is None:
                continue
            if start is end:
                yield from self._around(pair, start)
                continue
            one, two = self.scopes.scope_of(start), self.scopes.scope_of(end)
            if one is two and start.start < end.start:
                begin = self._taken_off(pair) or start
                yield Region(
                    "event", one, begin, end, pair.call, pair.call, ((begin.end, end.start),)
                )
                yield from self._in_other_branches(pair, end)

    def _in_other_branches(self, pair: Pair, end: Node) -> Iterator[Region]:
        """The spans that other branches of an `if` or `switch` record with the same events.

        switch (kind) { case 0: record(start); a(); record(stop); break; case 1: ... }
        """
        scope = self.scopes.scope_of(end)
        choice = _choice_around(end, pair.call)
        if choice is None:
            return
        own = [(call, names) for call, where, names in self.records if where is scope]
        starts = [call for call, names in own if names & pair.start_names]
        for last, names in own:
            if last is end or not names & pair.end_names or not _holds(choice, last):
                continue
            begun = _begun_for(last, starts) if exclusive(last, end) else None
            if begun is not None:
                span = ((begun.end, last.start),)
                yield Region("event", scope, begun, last, pair.call, pair.call, span)

    def _taken_off(self, pair: Pair) -> Node | None:
        """The end of an earlier span from the same start whose time is taken off: now - before.

        The figure begins there.
        """
        earlier = [
            p
            for p in self.pairs
            if p.start is pair.start and p.end is not None and p.call.end <= pair.call.start
        ]
        name, scope = self._elapsed_name(pair.call), pair.scope
        if not earlier or not name:
            return None
        before = earlier[-1]
        kept = {
            target_key(target)
            for target, value in self._assignments(scope)
            if before.call.end <= value.start < pair.call.start
            and squeeze(value.text) == self._elapsed_name(before.call)
        }
        differences = (
            n
            for n in scope.nodes
            if n.kind == "binary" and n.start > pair.call.end and self.operator(n) == "-"
        )
        taken = any(
            squeeze(n.children[0].text) == name and squeeze(n.children[1].text) in kept
            for n in differences
        )
        return before.end if taken else None

    @staticmethod
    def _assignments(scope: Scope) -> Iterator[tuple[Node, Node]]:
        for node in scope.nodes:
            if node.kind == "assign" and len(node.children) > 1:
                yield node.children[0], node.children[-1]

    def _elapsed_name(self, call: Node) -> str:
        """The variable that an elapsed-time call gives its value."""
        if re.search(r"EventElapsedTime", callee_text(call)):
            return base_name(positional(call)[0].text)
        parent = call.parent
        assigned = parent is not None and parent.kind == "assign" and parent.children[-1] is call
        return target_key(parent.children[0]) if parent is not None and assigned else ""

    def _between_helpers(self, pair: Pair) -> Iterator[Region]:
        """Between a call of a function that records the start and one of the function that ends it.

        begin(&start, &stop); kernel<<<...>>>(x); ms = finish(start, stop);
        """
        last = pair.scope
        name = self._parameter_key(pair.events[0])
        if not last.name or name not in last.parameters:
            return
        for site in self.scopes.call_sites(last):
            scope = self.scopes.scope_of(site)
            event = argument(site, last.parameters.index(name), name)
            begun = [
                call
                for call in self._begins
                if call.end <= site.start and self.scopes.scope_of(call) is scope
                and event is not None and self._begins_with(call, self._parameter_key(event))
            ]  # fmt: skip
            if begun:
                span = ((begun[-1].end, site.start),)
                yield Region("event", scope, begun[-1], site, site, site, span)

    def _parameter_key(self, event: Node) -> str:
        cpp = self.scopes.language == "cuda"
        return base_name(event.text.lstrip("&* ")) if cpp else squeeze(event.text)

    @cached_property
    def _begins(self) -> list[Node]:
        """Calls of functions of the file that record one event, which they are given."""
        found = []
        for _, where, names in self.records:
            if where.name and names & set(where.parameters) and self._records_in(where) == 1:
                found += self.scopes.call_sites(where)
        return sorted(found, key=lambda call: call.start)

    def _records_in(self, scope: Scope) -> int:
        return sum(where is scope for _, where, _ in self.records)

    def _begins_with(self, call: Node, event: str) -> bool:
        """Whether a call gives the event to the parameter that the function records."""
        function = self.scopes.called_function(call, self.scopes.scope_of(call))
        for _, where, names in self.records if function is not None else ():
            for name in names & set(where.parameters) if where is function else ():
                given = argument(call, where.parameters.index(name), name)
                if given is not None and self._parameter_key(given) == event:
                    return True
        return False

    def _around(self, pair: Pair, record: Node) -> Iterator[Region]:
        """One record in a loop, whose events are read in pairs: each iteration is measured."""
        loops = loops_around(record)
        body = loop_body(loops[0]) if loops else None
        if body is not None and pair.start_names != pair.end_names:
            spans = ((record.end, body.end), (body.start, record.start))
            scope = self.scopes.scope_of(record)
            yield Region("event", scope, record, record, pair.call, pair.call, spans, carried=True)


def _choice_around(node: Node, outside: Node) -> Node | None:
    """The outermost `if` or `switch` around a node that does not hold another, later one."""
    found = None
    for parent in node.ancestors():
        if _holds(parent, outside):
            break
        if parent.kind in ("if", "switch"):
            found = parent
    return found


def _holds(around: Node, node: Node) -> bool:
    return around.start <= node.start and node.end <= around.end


def _begun_for(last: Node, starts: list[Node]) -> Node | None:
    """Which of some readings or records, in order, is the one before another in its branch."""
    before = (c for c in reversed(starts) if c.end <= last.start and not exclusive(c, last))
    return next(before, None)


def _precedes(call: Node, wait: Step | None) -> bool:
    return wait is not None and call.end <= wait.site.start


def _stands_alone(call: Node) -> bool:
    """Whether a call is a statement, or what a statement assigns: no part of an expression."""
    parent = call.parent
    if parent is not None and parent.kind == "await":
        parent = parent.parent
    if parent is None:
        return False
    if call.tree.language == "cuda" and parent.kind in ("for", "while", "if", "else"):
        return parent.children[-1] is call and parent.kind != "while"  # a body without braces
    return parent.kind == "block" or (parent.kind == "assign" and parent.children[-1] is call)


def _is_statement(call: Node) -> bool:
    """Whether a call is a statement by itself, or within the check of its status."""
    outer = call.parent.parent if call.parent is not None and call.parent.kind == "args" else None
    checked = outer is not None and len(positional(outer)) <= _MOST_CHECKED
    return _stands_alone(call) or (checked and outer is not None and _stands_alone(outer))


def _computes(step: Step) -> bool:
    """Whether a step is work of the device other than a copy."""
    return bool(step.works or r.BLOCKING in step.roles) and r.COPY not in step.roles


def _yields(function: Scope) -> bool:
    """Whether a function runs on the device, or yields what is to be measured."""
    return function.is_kernel or any(node.kind == "yield" for node in function.nodes)


def _is_periodic(delta: Node, reset: Node) -> bool:
    """Whether the start is read anew only where the difference exceeds some limit."""
    names = {target_key(p.children[0]) for p in delta.ancestors() if p.kind == "assign"}
    for parent in reset.ancestors():
        if parent.kind in ("if", "elif") and parent.children:
            condition = parent.children[0]
            mentioned = {leaf.text for leaf in condition.walk() if leaf.kind == "name"}
            if mentioned & names and re.search(r"[<>]", condition.text):
                return True
        if parent.kind in ("function", "lambda"):
            break
    return False


class _Receiver(Node):
    """The object in front of a method's name, cut from one dotted name."""

    __slots__ = ()

    @staticmethod
    def of(function: Node) -> Node | None:
        text = function.text
        cut = max(text.rfind("."), text.rfind("->"))
        if cut < 0:
            return None
        node = _Receiver("name", function.start, function.start + cut, function.tree)
        node.parent = function.parent
        return node


def names_in(text: str) -> list[str]:
    """The identifiers of a text."""
    return re.findall(r"[A-Za-z_]\w*", text)


__all__ = ["Pair", "Region", "Regions", "names_in", "split_top"]

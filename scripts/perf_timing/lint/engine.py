"""What the rules ask about a file.

A rule gets a `SourceFile` and yields `Report`s. Everything is computed when first asked for:

    source.regions.all      measured regions (regions.Region), each with its `steps`
    source.regions.pairs    elapsed-time calls with the records of their events
    source.regions.deltas   differences of two readings of a clock
    source.flow.steps(s)    what a scope does, helpers inlined (flow.Step with roles of roles/)
    source.units            (contradictions between units of time, times that are converted)
    source.scopes           functions, imports, assignments, call sites
    source.devices.of(n, s) whether a value lives on the device
    source.tree             the uniform tree (facts.Node)

The assumptions are written down where they are made: the module docstrings of vocabulary, scopes,
devices, roles, flow and regions, which names the modules that find the regions.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from perf_timing.lint import roles as r
from perf_timing.lint.code import elsewhere, elsewhere_cpp
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Flow, Step, exclusive, leaves_before, pending
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    base_name,
    callee_text,
    is_target,
    last_segment,
    loops_around,
    positional,
    target_key,
)
from perf_timing.lint.facts import Node, Tree
from perf_timing.lint.measured.regions import Region, Regions, remembered
from perf_timing.lint.model import Fix, Unit
from perf_timing.lint.roles import Roles
from perf_timing.lint.units.quantities import Quantity
from perf_timing.lint.units.quantity_flow import QuantityFlow
from perf_timing.lint.units.quantity_values import Problem
from perf_timing.lint.work.devices import Devices


@dataclass(frozen=True)
class Report:
    """What a rule's `check` yields: the node to point at and what is wrong there.

    `note` replaces the rule's NOTE where given. `related` are (node, text) pairs of other places.
    `fixes` are replacements that mend it together (repairs.py). `anywhere`: it is right whatever
    the code is for, though the rule is BENCHMARK_ONLY.
    """

    node: Node
    message: str
    note: str = ""
    related: tuple[tuple[Node, str], ...] = ()
    fixes: tuple[Fix, ...] = ()
    anywhere: bool = False


@dataclass(frozen=True)
class Helpers:
    """Names of a project's own functions that wait for the device, or give it work."""

    sync: frozenset[str] = frozenset()
    gpu: frozenset[str] = frozenset()


_WARM_UP = re.compile(r"warm[ _-]?up", re.IGNORECASE)


def _but_warmups(said: str) -> str:
    """What is said of a region, without the line for the warm-up where there is another."""
    texts = re.findall(r"\"[^\"]*\"", said)
    warm = [text for text in texts if _WARM_UP.search(text)]
    if any(re.search(r"[A-Za-z]", text) for text in texts if text not in warm):
        for text in warm:
            said = said.replace(text, "")
    return said


class SourceFile:
    """One file as the rules see it."""

    def __init__(self, unit: Unit, tree: Tree, helpers: Helpers = Helpers()) -> None:
        self.unit = unit
        self.helpers = helpers
        self.tree = tree
        self.language = tree.language

    @cached_property
    def scopes(self) -> Scopes:
        return Scopes(self.tree)

    @cached_property
    def devices(self) -> Devices:
        return Devices(self.scopes)

    @cached_property
    def roles(self) -> Roles:
        helpers = self.helpers
        return Roles(self.scopes, self.devices, helpers.sync, helpers.gpu, self.unit.whole)

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.scopes, self.roles)

    @cached_property
    def regions(self) -> Regions:
        return Regions(self.scopes, self.flow, self._launches_elsewhere)

    @cached_property
    def units(self) -> tuple[list[Problem], list[Quantity]]:
        """Where units of time contradict each other, and the times that the code converts."""
        flow = QuantityFlow(self.scopes)
        return flow.run(), flow.converted

    @property
    def evidence(self) -> bool:
        """Whether the file computes on a device, or calls what is configured to do so."""
        return self.roles.evidence or bool(self.helpers.gpu)

    @cached_property
    def on_device(self) -> bool:
        """Whether what the file measures may run on a device: hooks of a framework may, too."""
        return self.evidence or any(region.hooked for region in self.regions.all)

    def left_running(self, region: Region, but: Collection[Step] = ()) -> Step | None:
        """The step whose device work may still run when the region's clock is read at the end.

        Steps of `but` are taken not to be done.
        """
        left_out = set(map(id, but))
        steps = [s for s in (*region.steps, *self.regions.tail(region)) if id(s) not in left_out]
        return pending(
            s
            for s in steps
            if not (exclusive(s.site, region.end) or leaves_before(s.site, region.end))
            and not self.flow.captured(s)
        )

    def ends_elsewhere(self, step: Step) -> bool:
        """Whether the work of a step is a function of another file that is read and found to wait.

        Asked before a report only, since it opens that file.
        """
        if step.node.kind != "call":
            return False
        name = callee_text(step.node)
        if self.language == "cuda":
            return self.leaves_device(step.node) in (elsewhere_cpp.WAITS, elsewhere_cpp.HOST)
        if name.partition(".")[0] not in self.scopes.imports:
            return False
        return elsewhere.waits(self.unit.path, self.scopes.resolve(name))

    def _launches_elsewhere(self, call: Node) -> str:
        """How a function of another file that launches, and that C++ calls, leaves the device."""
        name = re.sub(r"\s*<.*", "", callee_text(call), flags=re.DOTALL)
        if not re.fullmatch(r"(\w+::)*\w+", name) or self._is_known(name):
            return ""
        return elsewhere_cpp.launches(self._files_beside, last_segment(name))

    @cached_property
    def _files_beside(self) -> elsewhere_cpp.Files:
        return elsewhere_cpp.files_of(self.unit.path, self.tree.text)

    def leaves_device(self, call: Node) -> str:
        """How a function of another file that C++ calls leaves the device."""
        name = re.sub(r"\s*<.*", "", callee_text(call), flags=re.DOTALL)
        if not re.fullmatch(r"(\w+::)*\w+", name) or self._is_known(name):
            return elsewhere_cpp.UNKNOWN
        return elsewhere_cpp.leaves(self.unit.path, self.tree.text, last_segment(name))

    def _is_known(self, name: str) -> bool:
        """Whether this file shows a function of C++, or a library that is known has it."""
        if last_segment(name) in self.scopes.functions:
            return True
        return name.startswith("std::") or words.CPP_VENDOR.match(last_segment(name)) is not None

    def stopwatch_waits(self, reading: Node) -> bool:
        """Whether a stopwatch of another file, which C++ code reads, waits or times with events."""
        if self.language != "cuda" or reading.kind != "call":
            return False
        called = re.fullmatch(r"(\w+)\s*(?:\.|->)\s*(\w+)", callee_text(reading))
        if called is None:
            return self.leaves_device(reading) == elsewhere_cpp.WAITS
        declared = rf"\b(\w+)(?:<[^<>;]*>)?[\s*&]+{called[1]}\b\s*[;({{=,)]"
        kinds = set(re.findall(declared, self.tree.text)) - self.scopes.classes.keys()
        return len(kinds) == 1 and elsewhere_cpp.stopwatch_waits(
            self.unit.path, self.tree.text, kinds.pop(), called[2]
        )

    def waits_elsewhere(self, region: Region, left: Step) -> bool:
        """Whether a function of another file that is called after `left` ends the work.

        Asked before a report only, since it opens that file.
        """
        return self.waits_between(region, left, region.end)

    def waits_between(self, region: Region, left: Step, reading: Node) -> bool:
        """Whether a function of another file that is called between `left` and a reading waits."""
        later = [
            node
            for node in region.scope.nodes
            if node.kind == "call" and left.site.start <= node.end <= reading.start
            and node.end >= left.site.end and not exclusive(node, reading)
        ]  # fmt: skip
        if self.language == "cuda":
            others = [node for node in later if node is not left.site]
            return any(self.leaves_device(node) == elsewhere_cpp.WAITS for node in others) or bool(
                elsewhere_cpp.waiting_macros(
                    self.unit.path,
                    self.tree.text,
                    sorted(set(_MACRO.findall(self.tree.text, left.site.end, reading.start))),
                )
            )
        names = {callee_text(node) for node in later} & self.scopes.imports.keys()
        return any(
            elsewhere.waits(self.unit.path, self.scopes.resolve(name)) for name in sorted(names)
        )

    def works(self, region: Region) -> list[Step]:
        """The steps of a region that give the device work."""
        return [s for s in region.steps if s.works or r.BLOCKING in s.roles]

    @remembered
    def intent(self, region: Region) -> str:
        """The words that name a region's result.

        They are the name or key that the difference is stored under, the text it is printed with
        and the function's name; the names of the readings count where the result has none.
        """
        parts = [region.scope.name, region.timer.name if region.timer else ""]
        results = self._results(region)
        places = [region.delta]
        names = list(results)
        if not names and region.delta.kind == "binary":
            names = [target_key(c) for c in region.delta.children[:2] if c.kind != "call"]
        for name in names if results else ():
            places += self._uses_of(name, region)
        if region.kind == "clock" and region.delta is region.end and region.end.kind == "call":
            given = re.findall(r"\w+", region.end.text)[1:]
            places += [
                u for n in given for u in self.uses(n, region.scope) if u.start > region.end.end
            ]
            names = [*given, *results] if self.language == "cuda" else given
        parts += self._named_beside(region)
        if region.start.kind == "decl":  # GpuTimer init_timer("init_data");
            parts += re.findall(r'"[^"\n]*"|\w+(?=\s*[({;])', region.start.text[:200])
        places += [use for name in results for use in self._first_samples(name, region.scope)]
        places += [use for name in results for use in self._told_whole(name, region)]
        parts += [text for place in places for text in self._labels(place)]
        return " ".join([*parts, *names])

    def _uses_of(self, name: str, region: Region) -> list[Node]:
        """Where the time of a region is read that is stored as `name`.

        A name that is given another value on the way means that one from there on; what it meant
        before the region is of no account where the function has given it a value before.
        """
        statement, uses = self.statement(region.delta), self.uses(name, region.scope)
        given = [
            place
            for place in self._given(name, region.scope)
            if not statement.start <= place.start < statement.end
            and self._always_follows(place, statement)
        ]
        until = min((p.start for p in given if p.start >= statement.end), default=None)
        since = statement.start if any(p.start < statement.start for p in given) else None
        others = [p for p in self._given(name, region.scope) if p.end <= statement.start]
        return [
            use
            for use in uses
            if (until is None or use.start < until)
            and (since is None or use.start >= since)
            and not any(
                p.end <= use.start < statement.start and self._always_follows(p, use)
                for p in others
            )
        ]

    def _told_whole(self, name: str, region: Region) -> list[Node]:
        """Where a list that holds the samples of a region is handed on before it gets others.

        times[i] = end - start, in a loop; then report("enqueue rate", times).
        """
        if not (name.endswith("]") and region.sample_loops):
            return []
        base, done = name.partition("[")[0], region.sample_loops[-1].end
        uses = [use for use in self.uses(base, region.scope) if use.start >= done]
        again = (
            loop.start
            for use in uses
            if use.parent is not None and use.parent.kind == "subscript"
            for loop in loops_around(use)[-1:]
        )
        until = min(again, default=None)
        return [
            use
            for use in uses
            if use.parent is not None
            and use.parent.kind == "args"
            and (until is None or use.start < until)
        ]

    def _given(self, name: str, scope: Scope) -> list[Node]:
        """The statements in which a scope gives a variable a value that hangs on no earlier one."""
        places = [
            target
            for target, value in self.scopes.assignments(name, scope)
            if self.scopes.scope_of(target) is scope
            and not any(n.kind == "name" and n.text == name for n in value.walk())
        ]
        for call in self.scopes.calls if self.language == "cuda" else ():
            given = positional(call)
            reads = given and re.search(r"EventElapsedTime$", callee_text(call))
            if reads and base_name(given[0].text) == name and self.scopes.scope_of(call) is scope:
                places.append(call)
        return [self.statement(place) for place in places]

    @staticmethod
    def _always_follows(place: Node, statement: Node) -> bool:
        """Whether a statement lies in the block of another, or in a block around it."""
        around = place.parent
        return around is not None and around.start <= statement.start < around.end

    def _named_beside(self, region: Region) -> list[str]:
        """The text that C++ code appends to a list of names right beside the value."""
        statement = self.statement(region.delta)
        around = statement.parent.children if statement.parent is not None else []
        if self.language != "cuda" or "push_back" not in statement.text or statement not in around:
            return []
        at = around.index(statement)
        for other in around[max(0, at - 1) : at] + around[at + 1 : at + 2]:
            named = re.fullmatch(
                r"[\w.>-]+(?:push|emplace)_back\(\s*(\"[^\"]*\")\s*\);?", other.text
            )
            if named:
                return [named[1]]
        return []

    def _first_samples(self, name: str, scope: Scope) -> list[Node]:
        """The use of a list of samples that tells the first from the others: times[0] - mean."""
        if not name.endswith(".append"):
            return []
        uses = self.uses(name[: -len(".append")], scope)
        statements = {id(self.statement(use)) for use in uses if not is_target(use)}
        first = [u for u in uses if u.parent is not None and re.search(r"\[0\]$", u.parent.text)]
        return first if len(statements) == 1 else []

    def _labels(self, place: Node) -> list[str]:
        """The text that a value is printed or stored with."""
        statement = self.statement(place)
        if statement.end - statement.start >= 600 or statement.kind in _COMPOUND:
            return []
        for parent in place.ancestors():
            if parent.kind == "interpolation" and parent.parent is not None:
                return [_text_before(parent.parent, parent)]
            if parent is statement:
                break
        most = 160 if self.language == "cuda" else 80
        strings = [c for c in statement.walk() if c.kind == "string" and len(c.text) < most]
        before = [c for c in strings if c.end <= place.start]
        if (
            len(strings) > 1
            and before
            and "%" not in before[-1].text
            and "{" not in before[-1].text
        ):
            return [before[-1].text]  # print("cpu", cpu, "gpu", gpu)
        return [c.text for c in strings]

    def _results(self, region: Region) -> list[str]:
        names = []
        for node in (region.delta, *region.delta.ancestors()):
            if node.kind in ("assign", "augassign") and node.children:
                names.append(target_key(node.children[0]))
            if node.kind == "call" and re.search(r"EventElapsedTime", callee_text(node)):
                names += [base_name(a.text) for a in positional(node)[:1]]
            if node.kind == "call" and last_segment(callee_text(node)) in (
                "append",
                "update",
                "add",
            ):
                names.append(callee_text(node))
            if node.kind in ("block", "module", "function"):
                break
        if region.kind == "clock" and region.delta.kind == "call" and self.language == "cuda":
            written = self.regions.differences(region.delta)
            outer = [p for use in written for p in self.statement(use).walk()]
            names += [target_key(p.children[0]) for p in outer if p.kind in ("assign", "augassign")]
        statement = self.statement(region.delta)
        if not names and statement.kind == "call" and statement.end - statement.start < 120:
            # self.add(WRITE_SECONDS, time.time() - start): the key says what it is.
            names = [n.text for n in statement.walk() if n.kind == "name" and n.text.isupper()]
        return names

    def uses(self, name: str, scope: Scope) -> list[Node]:
        """Where a scope reads the (dotted) name `name`."""
        return scope.names.get(name, [])

    @staticmethod
    def statement(node: Node) -> Node:
        """The statement that holds `node`: its outermost ancestor below a block.

        Of C++ also what an `if` or a loop governs without a block: if (rank == 0) printf(...);
        """
        found = node
        for parent in node.ancestors():
            if parent.kind in ("block", "module", "case", "function", "lambda"):
                break
            if _governs(parent, found):
                break
            found = parent
        return found

    def first_remark(self, start: int) -> int:
        """The start of the first of the lines right above a line that are nothing but a remark."""
        text, mark = self.tree.text, "#" if self.language == "python" else "//"
        while (above := text[:start].rsplit("\n", 2)[-2:-1]) and above[0].lstrip().startswith(mark):
            start -= len(above[0]) + 1
        return start

    def means_host_time(self, region: Region) -> bool:
        """Whether the names say that host time (launch, compile, load...) is what is measured."""
        if region.kind == "event":
            return False
        said = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _but_warmups(self.intent(region)))
        return bool(words.INTENT_NOT_GPU.search(_DIRECTION.sub("copy", said)))


_MACRO = re.compile(r"\b[A-Z][A-Z0-9_]{3,}\b")

# "CPU to GPU copy" and "device -> host" speak of a transfer, which is device work.
_DIRECTION = re.compile(
    r"(?<![a-z])(cpu|host)\W{0,3}(_?to_?|2|\W?>)\W{0,3}(gpu|device|dev)(?![a-z])"
    r"|(?<![a-z])(gpu|device|dev)\W{0,3}(_?to_?|2|\W?>)\W{0,3}(cpu|host)(?![a-z])"
    r"|(?<![a-z])(cop(y|ies|ied|ying)|transfer(s|red|ring)?)(\W+\w+){0,3}?\W+(to|from|back to)"
    r"\W+(the\W+)?(cpu|host)(?![a-z])",
    re.IGNORECASE,
)


_COMPOUND = ("if", "for", "with", "while", "try")


def _governs(parent: Node, child: Node) -> bool:
    """Whether `child` is what an `if`, an `else` or a loop of C++ holds without a block."""
    if parent.tree.language == "python" or child.kind in ("block", "else", "condition"):
        return False
    if parent.kind == "if":
        return child is not parent.children[0]
    return parent.kind in ("else", "for", "while") and child is parent.children[-1]


def _text_before(string: Node, part: Node) -> str:
    """The literal text of an f-string between the value before `part` and `part` itself."""
    values = [c for c in string.children if c.kind == "interpolation" and c.end <= part.start]
    start = values[-1].end if values else string.start
    text = string.tree.text[start : part.start]
    if re.search(r"[A-Za-z]{2}", text):
        return text
    later = [c for c in string.children if c.kind == "interpolation" and c.start >= part.end]
    return text + string.tree.text[part.end : later[0].start if later else string.end]


__all__ = ["Report", "SourceFile"]

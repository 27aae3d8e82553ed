"""Pairs of calls that start and stop a stopwatch, told by their names and by what they are given.

`start_timer(&t) ... stop_timer(&t)`, `sdkStartTimer/sdkStopTimer/sdkGetTimerValue`, `tic() ...
toc()`, `timer.Start() ... timer.Stop() ... timer.Elapsed()`: two calls belong together when their
names differ in the word for start and stop only, and when they are given the same object, be it the
handle that the first returned (`t = Timer::Start(); ... Timer::Stop(t, "copy")`). A text that they
are given is a remark (`timer_start("sort"); ... timer_stop()`). The file need not show what they
do: the usual stopwatch of a header reads a host clock. One whose function in this file records an
event, or whose name speaks of the device where the file shows nothing, times with events.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from perf_timing.lint.code import vocabulary
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    callee_text,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Long lists of words read better as text.
# ruff: noqa: SIM905
_JOINED = re.compile(
    r"(start|stop|begin|end|get|read|reset)(?=timer|time|watch|clock)"
    r"|(timer|watch|clock)(?=start|stop|begin|end)",
    re.IGNORECASE,
)
_STARTS = frozenset({"start", "begin", "tic", "tick", "reset", "restart"})
_STOPS = frozenset({"stop", "end", "toc", "tock", "finish", "pause"})
_VALUES = frozenset(
    "get read elapsed diff value seconds second sec ms us millis millisecs milliseconds duration"
    " lap average print show report total in to since".split()
)
_NOTES = frozenset({"update", "set", "add", "log", "mark", "record", "report"})  # of a time
_CHECKS = frozenset({"test", "check", "throw", "throws", "fails"})
_WATCH = re.compile(r"timer|watch|chrono|clock|^time$|^ti[ck]k?$|^to[ck]k?$", re.IGNORECASE)
_NO_WATCH = re.compile(
    r"event|profil|nvtx|range|graph|capture|thread|server|stream|session|trace", re.IGNORECASE
)
_DECLARATION = re.compile(
    r"\b(\w*(?:[tT]imer|[wW]atch|Clock|Chrono)\w*)(?:<[^<>;]*>)?[\s*&]+(\w+(?:\s*,\s*\w+)*)\b"
)
# In Python the function that is called has to show that it takes a time.
_READS_CLOCK = re.compile(r"time\(|perf_counter|monotonic|timer\(|\bnow\(|Event\(|\.record\(")
# For may_use: the call of something that starts, and the types that speak of a stopwatch.
# One pattern for each beginning: a search for plain letters is ten times faster than for several.
_START_TEXTS = tuple(
    re.compile(rf"{word}\w*\s*\(")
    for word in ("tart", "START", "egin", "BEGIN", "reset", "Reset", "RESET", "tic", "Tic")
)
_READINGS = ("time(", "perf_counter", "monotonic", "timer(", "now(", "Event(", ".record(")
_LAST_NAME = re.compile(r"\w*\Z")
# As _DECLARATION has them; what stands before the word does not matter.
_DECLARES = tuple(
    re.compile(rf"{word}\w*(?:<[^<>;]*>)?[\s*&]+\w")
    for word in ("timer", "Timer", "watch", "Watch", "Clock", "Chrono")
)
_WATCH_CLASS = re.compile(r"class(?<!\wclass)\s+\w*(?:imer|atch|hrono|lock|Tic|Toc)")
_ON_DEVICE = re.compile(r"gpu|cuda|event|device|(?<![a-z])hip|stream", re.IGNORECASE)


@dataclass(frozen=True)
class Watch:
    """One use of a stopwatch: `value` is the call that gives the time, perhaps `stop` itself."""

    start: Node
    stop: Node
    value: Node
    scope: Scope
    on_device: bool


@dataclass(frozen=True)
class _Call:
    """A call that may belong to a stopwatch: the `verb` of its name, and what it is about."""

    node: Node
    verb: str  # "start", "stop" or "value"
    stem: tuple[str, ...]
    subject: str  # the receiver or the first argument
    method: bool
    handle: str = ""  # the variable that is given what a start without a subject returns

    def joins(self, start: "_Call") -> bool:
        """Whether this call stops or reads the stopwatch that `start` started."""
        if self.method != start.method or self.subject != (start.handle or start.subject):
            return False
        if self.verb == "value" and self.subject:
            return True
        return self.stem == start.stem


def may_use(text: str, language: str) -> bool:
    """Whether `watches` could find something in a text, told by its words alone."""
    if language == "python" and not any(word in text for word in _READINGS):
        return False
    if language == "cuda" and any(pattern.search(text) for pattern in _DECLARES):
        return True
    typed = language == "python" and _WATCH_CLASS.search(text) is not None
    for found in (found for pattern in _START_TEXTS for found in pattern.finditer(text)):
        name = _LAST_NAME.search(text, max(0, found.start() - 60), found.start())
        verb = (name[0] if name else "") + text[found.start() : found.end()]
        if not _STARTS.isdisjoint(_words(verb)):
            around = text[max(0, found.start() - 120) : found.end() + 60]
            if typed or any(_WATCH.search(word) for word in _words(around)):
                return True
    return False


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(_JOINED.sub(r"\g<0>_", text)))


def watches(scopes: Scopes) -> Iterator[Watch]:
    """Every use of a stopwatch in a file; in Python only of those that the file defines."""
    for scope in scopes.all:
        if scope.is_kernel:
            continue
        calls = [c for n in scope.nodes if n.kind == "call" and (c := _classify(n)) is not None]
        calls = [*_built(scope, calls), *calls]
        calls.sort(key=lambda call: call.node.start)
        for index, call in enumerate(calls):
            if call.verb == "start" and _is_watch(scopes, call):
                found = _use(call, calls[index + 1 :], scope, scopes)
                if found is not None:
                    yield found


def _built(scope: Scope, calls: list[_Call]) -> Iterator[_Call]:
    """Declarations of stopwatches that nothing starts: `Timer timer;` starts by itself."""
    if scope.node.tree.language != "cuda":
        return
    started = {call.subject for call in calls if call.verb == "start"}
    read = {call.subject for call in calls if call.verb != "start" and call.method} - started
    for node in scope.nodes:
        declared = re.match(r"(?:const\s+)?([\w:]+)(?:<[^<>;]*>)?\s+(\w+)", node.text)
        if node.kind == "decl" and declared and declared[2] in read:
            yield _Call(node, "start", (), declared[2], True)


def _use(start: _Call, later: list[_Call], scope: Scope, scopes: Scopes) -> Watch | None:
    same = []
    for call in later:
        if call.verb == "start" and call.stem == start.stem and _names(call) == _names(start):
            break
        if call.verb != "start" and call.joins(start):
            same.append(call)
    stop = next((c for c in same if c.verb == "stop"), same[0] if same else None)
    if stop is None or stop.node.start < start.node.end:
        return None
    if start.method and _is_lent(start.subject, scope):
        return None
    value = next((c for c in same if c.verb == "value" and c.node.start >= stop.node.start), stop)
    shown = _shown(scopes, start, stop, scope)
    if not shown and _is_inherited(start, scope):
        return None
    if scopes.language == "python" and not _READS_CLOCK.search(shown):
        return None
    called = callee_text(start.node) if start.node.kind == "call" else ""
    arguments = (a for call in (start, stop) for a in positional(call.node))
    given = [a.text for a in arguments if a.kind != "string"]  # a label is about what is measured
    about = " ".join((called, start.subject, _declared(scopes, start), *given))
    on_device = bool(re.search(r"EventRecord|\.record\(|record_event\(|\bEvent\(", shown))
    if "sdk" not in about and not _HOST_CLOCK.search(shown):
        # Nothing is shown, or it starts another stopwatch: void start() { timer.Start(stream); }
        on_device = on_device or bool(_ON_DEVICE.search(" ".join((about, *_started_in(shown)))))
    return Watch(start.node, stop.node, value.node, scope, on_device)


def _started_in(shown: str) -> list[str]:
    """What the stopwatches are given that a text starts."""
    return re.findall(r"\w*(?:[sS]tart|[bB]egin)\w*\s*(\([^();]*\))", shown)


_HOST_CLOCK = re.compile(
    r"gettime|wtime|\btime\(|clock|now\(|perf_counter|monotonic|chrono|tick|rdtsc", re.IGNORECASE
)


def _names(start: _Call) -> tuple[str, str]:
    """By what the calls that belong to a start know its stopwatch."""
    return start.subject, start.handle


def _is_inherited(start: _Call, scope: Scope) -> bool:
    """Whether a method of C++ calls its own object's stopwatch, which the file does not show.

    That of a base class which runs kernels may well wait for the device before it stops.
    """
    own = scope.node.tree.language == "cuda" and bool(scope.class_name or "::" in scope.name)
    return own and not start.method and not start.subject


def _is_lent(subject: str, scope: Scope) -> bool:
    """Whether a closure of C++ is given the stopwatch by who calls it, as nvbench does.

    What that one does when it stops is not known: [&](nvbench::launch &launch, auto &timer).
    """
    if scope.node.kind != "lambda" or scope.node.tree.language != "cuda":
        return False
    params = scope.node.child("params") or next(
        (n for n in scope.node.walk() if n.kind == "params"), None
    )
    named = rf"\bauto\s*&*\s*{re.escape(subject)}\b"
    return params is not None and re.search(named, params.text) is not None


def _classify(node: Node) -> _Call | None:
    callee = callee_text(node)
    name = last_segment(callee)
    words = _words(name)
    verb = _verb(words)
    if not verb or (verb != "value" and words[0] in _NOTES):
        return None
    if words[0] in _CHECKS or words[-1] in _CHECKS:
        return None  # test_timer_stop_throw() is no stopwatch
    receiver = squeeze(callee)[: -len(name)].rstrip(".:->") if name != callee else ""
    method = bool(receiver) and "::" not in callee
    given = [argument for argument in positional(node) if argument.kind != "string"]
    subject = receiver if method else (squeeze(given[0].text).lstrip("&*") if given else "")
    dropped = _STARTS | _STOPS | _VALUES
    # start_timer() ... elapsed_time(): one thing under two names.
    stem = tuple(w.replace("timer", "time") for w in words if w not in dropped)
    return _Call(node, verb, stem, subject, method, "" if subject else _handle(node, verb))


def _handle(node: Node, verb: str) -> str:
    """The variable that is given what a start returns: int t = Timer::Start()."""
    parent = node.parent
    if verb != "start" or parent is None or parent.kind != "assign" or "::" not in node.text:
        return ""
    return squeeze(parent.children[0].text)


def _verb(words: Sequence[str]) -> str:
    for verb, known in (("start", _STARTS), ("stop", _STOPS), ("value", _VALUES)):
        if known & set(words):
            return verb
    return ""


def _is_watch(scopes: Scopes, call: _Call) -> bool:
    """Whether the name of the call, its object or the object's type say that it takes a time."""
    subject_type = _declared(scopes, call)
    if call.node.kind == "decl":
        return bool(subject_type) and not _NO_WATCH.search(subject_type)
    name = last_segment(callee_text(call.node))
    if _NO_WATCH.search(name) or _NO_WATCH.search(subject_type.replace("EventTimer", "")):
        return False
    if scopes.language == "cuda" and call.subject in _queues(scopes.tree.text):
        return False  # an executor that times itself does so with events, and waits for them
    if scopes.language == "cuda" and not call.method:
        name = callee_text(call.node)  # Timer::Start()
    words = {*_WORDS.findall(_JOINED.sub(r"\g<0>_", name)), *_WORDS.findall(subject_type)}
    if call.method or re.search(r"timer|watch", call.subject, re.IGNORECASE):
        words |= set(_WORDS.findall(call.subject))
    return any(_WATCH.search(word.lower()) for word in words)


def _declared(scopes: Scopes, call: _Call) -> str:
    """The type of the call's subject: in C++ what the file last declared it with, if a watch's."""
    if scopes.language == "python" and call.method:
        return scopes.class_of(call.subject, scopes.scope_of(call.node), call.node)
    if scopes.language != "cuda" or not re.fullmatch(r"\w+", call.subject):
        return ""
    found = _declarations(scopes.tree.text).get(call.subject, [])
    before = [name for offset, name in found if offset < call.node.end]
    return before[-1] if before else (found[0][1] if found else "")


@lru_cache(maxsize=8)
def _queues(text: str) -> frozenset[str]:
    """Names that a C++ text declares as streams or executors."""
    return frozenset(vocabulary.CPP_QUEUE.findall(text))


@lru_cache(maxsize=8)
def _declarations(text: str) -> dict[str, list[tuple[int, str]]]:
    """For each name that a C++ text declares as a stopwatch: (offset, type) of each declaration."""
    found: dict[str, list[tuple[int, str]]] = {}
    for match in _DECLARATION.finditer(text):
        for name in match[2].split(","):
            found.setdefault(name.strip(), []).append((match.start(), match[1]))
    return found


def _shown(scopes: Scopes, start: _Call, stop: _Call, scope: Scope) -> str:
    """The text of the functions of this file that the two calls run, or nothing."""
    methods = scopes.classes.get(_declared(scopes, start), [])
    if methods:
        return " ".join(method.node.text for method in methods)
    calls = [call.node for call in (start, stop) if call.node.kind == "call"]
    functions = [scopes.called_function(call, scope) for call in calls]
    return " ".join(f.node.text for f in functions if f is not None)


__all__ = ["Watch", "watches"]

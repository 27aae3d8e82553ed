"""Blanks what cannot matter: functions and classes of a Python file that have no part in timing.

Most of a long file that times something does not time anything. What is left is what times, marks
or profiles; what that calls, directly or not; what calls it, and what that calls; and all code
outside of functions. Every character that goes becomes a space and every line end stays, so that
lines, columns and offsets are those of the file. Where a blanked text would no longer parse, the
caller takes the whole one.
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perf_timing.lint.files import evidence
from perf_timing.lint.files.prefilter import PYTHON_LOCAL, PYTHON_MEASURING
from perf_timing.lint.measured import ranges

_DEPTH = 3  # calls that are followed from a measurement into the file
_LARGE = 32_000  # characters; what is longer is no script that times, and is looked at more closely
_MOST_CALLED = 20_000  # characters of functions that are only called, perhaps indirectly
_MIN_LENGTH = 4000  # characters; below that there is nothing to win

# Where a measurement begins or ends: what such a function calls, and what calls it, matters too.
_REGION = tuple(word for words in PYTHON_MEASURING.values() for word in words)
# Helpers that time the functions that are passed to them.
_HELPERS = ("bench", "profile(", "measure(")
# Of these and of all that speaks of benchmarks, only the calls of helpers count (evidence.py).
_GENERAL = (".profile(", ".measure(", "autorange")
_LOCAL = tuple(word for words in PYTHON_LOCAL.values() for word in words)
# Without a measurement, what is left to check is the unit of times that come from somewhere.
_SOURCES = (
    *("perf_counter", "monotonic(", "process_time", "thread_time", "time.time", "time()"),
    *("time_ns", "_time_total", "total_seconds", "device_time", "default_timer", "datetime."),
    *("timeit", "autorange", "elapsed", "do_bench", "from time import"),
)
# Events that are never read order streams; only where they are read does their place matter.
_EVENT = ("Event(", ".record(")
_HEADER = re.compile(r"(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_INDENTED = re.compile(r"^([ \t]+)(?=[@\w])", re.MULTILINE)
_BINDING = re.compile(r"\bas\s+(\w+)|^\s*(\w+)\s*(?::[^=]+)?=(?!=)|^from\s+\S+\s+import\s+(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_TRIPLE = re.compile(r"\"\"\"|'''")


@dataclass(eq=False)
class _Part:
    """A function or class: the characters [start, end) of the text."""

    name: str
    start: int
    end: int
    is_class: bool
    owner: "_Part | None" = None


def elide(text: str) -> str:
    """`text` with the functions and classes blanked that have no part in timing."""
    if len(text) < _MIN_LENGTH:
        return text
    parts = list(_parts(text))
    if not parts:
        return text
    kept = _kept(text, parts)
    pieces, position = [], 0
    for part in parts:
        if part not in kept and part.start >= position:
            pieces += [text[position : part.start], _blank(text[part.start : part.end])]
            position = part.end
    return "".join([*pieces, text[position:]])


def _blank(text: str) -> str:
    """`pass` at the place of the first character, and nothing but space after it."""
    first, *rest = text.split("\n")
    return "\n".join(["pass".ljust(len(first)), *(" " * len(line) for line in rest)])


def _parts(text: str) -> Iterator[_Part]:
    """Classes and functions at the top, each class followed by its methods."""
    strings = _string_spans(text)
    for part in _blocks(text, "", 0, len(text), strings):
        yield part
        if part.is_class:
            first = _INDENTED.search(text, part.start, part.end)
            if first:
                for method in _blocks(text, first[1], part.start, part.end, strings):
                    method.owner = part
                    yield method


def _blocks(
    text: str, indent: str, start: int, end: int, strings: list[tuple[int, int]]
) -> Iterator[_Part]:
    """Functions and classes whose first line stands at `indent` between `start` and `end`."""
    # Not "^": a pattern that begins with a plain character is searched for ten times faster.
    line = re.compile(rf"\n{indent}(?=[@\w])")
    heads = [m.end() for m in line.finditer(text, max(start - 1, 0), end)]
    if start == 0 and re.match(rf"{indent}(?=[@\w])", text):
        heads.insert(0, len(indent))
    heads = _outside(heads, strings)
    bounds = [*heads, end]
    decorated: int | None = None
    for head, after in itertools.pairwise(bounds):
        if text[head] == "@":
            decorated = head if decorated is None else decorated
            continue
        first, decorated = (head if decorated is None else decorated), None
        header = _HEADER.match(text, head)
        if header:
            stop = after - len(indent) if after != end else end
            length = len(text[first:stop].rstrip())
            yield _Part(header[1], first, first + length, text.startswith("class", head))


def _outside(heads: list[int], strings: list[tuple[int, int]]) -> list[int]:
    """The offsets that lie in no string; both lists are in order."""
    found, spans = [], iter(strings)
    span = next(spans, None)
    for head in heads:
        while span is not None and span[1] <= head:
            span = next(spans, None)
        if span is None or not span[0] < head:
            found.append(head)
    return found


def _string_spans(text: str) -> list[tuple[int, int]]:
    """Extents of the triple-quoted strings, as far as quotes alone tell."""
    spans, quote, start = [], "", 0
    for found in _TRIPLE.finditer(text):
        if not quote:
            quote, start = found[0], found.start()
        elif found[0] == quote:
            spans.append((start, found.end()))
            quote = ""
    return spans


def _kept(text: str, parts: list[_Part]) -> set[_Part]:
    """The parts that stay. A class is kept with its methods as far as they are kept."""
    by_name: dict[str, list[_Part]] = {}
    for part in parts:
        by_name.setdefault(part.name, []).append(part)
    outside = _outside_of(parts, text)
    measures, large = evidence.measures(text, "python"), len(text) > _LARGE
    words, bound = (_measuring(text), (*_REGION, *_HELPERS)) if measures else (_SOURCES, _SOURCES)
    seeds = _around(words, text, parts) | _using(_bound(bound, outside), text, parts)
    if measures:
        seeds |= _owners(evidence.helper_calls(text), parts)
    names = {_called_name(part) for part in seeds if part}
    measuring = seeds | (_using if large else _around)(names, text, parts)
    seen = {part for part in measuring if part}
    mentioned = {word for part in seen if not part.is_class for word in _words_of(part, text)}
    if None in measuring:  # code outside of functions measures, or calls what does
        mentioned |= set(_WORD.findall(outside))
    room = _MOST_CALLED if large else len(text)
    for _ in range(_DEPTH if measures else 0):
        called = {part for word in by_name.keys() & mentioned for part in by_name[word]} - seen
        # The nearest come first; of a large file, what is far from any measurement is left out.
        room -= sum(part.end - part.start for part in called if not part.is_class)
        if room < 0:
            break
        seen |= called
        mentioned = {word for part in called if not part.is_class for word in _words_of(part, text)}
    kept = _local(text, parts, outside) | seen
    kept |= _of_what_they_collect({part for part in seeds if part}, text, parts)
    owners = {part.owner for part in kept if part.owner} | {part for part in kept if part.is_class}
    makers = {part for part in by_name.get("__init__", ()) if part.owner in owners}
    # What a constructor calls makes the members that a measurement uses.
    words_there = {word for part in makers for word in _words_of(part, text)}
    makers |= {
        p for word in by_name.keys() & words_there for p in by_name[word] if p.owner in owners
    }
    return kept | owners | makers


_COLLECTS = re.compile(r"\bself\.(\w+)(?:\.(?:append|add)\(|\[[^\]\n]*\]\s*=|\s*\+=)")


def _of_what_they_collect(seeds: set[_Part], text: str, parts: list[_Part]) -> set[_Part]:
    """The methods that use an attribute which a measuring method of their class fills."""
    filled: dict[_Part, set[str]] = {}
    for part in seeds:
        if part.owner is not None:
            names = _COLLECTS.findall(text, part.start, part.end)
            filled.setdefault(part.owner, set()).update(f"self.{name}" for name in names)
    return {
        part
        for part in parts
        if part.owner is not None
        and any(text.find(name, part.start, part.end) >= 0 for name in filled.get(part.owner, ()))
    }


def _present(table: dict[str, tuple[str, ...]], text: str) -> list[str]:
    """The words of a table of the prefilter that may occur in the text, as their keys tell."""
    found: list[str] = []
    for key, words in table.items():
        there = key in text
        found += [word for word in words if there or key not in word]
    return found


def _local(text: str, parts: list[_Part], outside: str) -> set[_Part]:
    """The parts that hold what is reported by itself, whatever is measured."""
    bound = _bound(_LOCAL, outside)
    words = _present(PYTHON_LOCAL, text)
    if "nvtx" not in words or ranges.uses_results(text):
        found = _around(words, text, parts) | _using(bound, text, parts)
        return {part for part in found if part}
    other = _around([word for word in words if word != "nvtx"], text, parts)
    other |= _using({name for name in bound if not ranges.is_helper(name)}, text, parts)
    marked = _around(["nvtx"], text, parts) | _using(bound, text, parts)
    quiet = {part for part in marked - other if part and _only_marks(part, text)}
    return {part for part in other | marked if part} - quiet


def _only_marks(part: _Part, text: str) -> bool:
    """Whether all that rules could look at in a function are ranges that are plainly closed."""
    code = text[part.start : part.end]
    # Events that are made in a loop are reported wherever a function is looked at.
    events = any(word in code for word in _EVENT)
    return not (part.is_class or events) and ranges.plainly_closed(code)


def _measuring(text: str) -> Iterable[str]:
    """The words that a function holds which measures, records, captures or brings times."""
    region = _present(PYTHON_MEASURING, text)
    if len(text) <= _LARGE:
        words = [*region, *_HELPERS]
        return [*words, *_EVENT] if "elapsed" in text else words
    words = [word for word in region if "bench" not in word and word not in _GENERAL]
    return [*words, *_EVENT] if evidence.reads_events(text, "python") else words


def _words_of(part: _Part, text: str) -> list[str]:
    return _WORD.findall(text, part.start, part.end)


def _bound(words: Iterable[str], outside: str) -> set[str]:
    """Names that code outside of functions binds on a line that holds one of the words."""
    found: set[str] = set()
    for word in words:
        at = outside.find(word)
        while at >= 0:
            end = outside.find("\n", at)
            end = len(outside) if end < 0 else end
            line = outside[outside.rfind("\n", 0, at) + 1 : end]
            found.update(name for names in _BINDING.findall(line) for name in names if name)
            at = outside.find(word, end)
    return found


def _using(names: set[str], text: str, parts: list[_Part]) -> set[_Part | None]:
    """The innermost parts that use one of the names."""
    places = (at for name in sorted(names) for at in evidence.word_places(name, text))
    return _owners(places, parts)


def _called_name(part: _Part) -> str:
    """By what name others call the part."""
    return part.owner.name if part.owner and part.name.startswith("__") else part.name


def _outside_of(parts: list[_Part], text: str) -> str:
    """All code that lies in no part."""
    pieces, position = [], 0
    for part in parts:
        if part.start >= position:
            pieces.append(text[position : part.start])
            position = part.end
    return "".join([*pieces, text[position:]])


def _around(words: Iterable[str], text: str, parts: list[_Part]) -> set[_Part | None]:
    """The innermost parts that hold one of the words; None for code outside of all parts."""
    return _owners((at for word in words for at in _places(word, text)), parts)


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _owners(places: Iterable[int], parts: list[_Part]) -> set[_Part | None]:
    starts = [part.start for part in parts]
    found: set[_Part | None] = set()
    for at in places:
        part: _Part | None = parts[max(bisect.bisect_right(starts, at) - 1, 0)]
        while part is not None and not part.start <= at < part.end:
            part = part.owner
        found.add(part)
    return found

"""Whether a text may hold what a rule starts from, told by its words alone.

A measurement needs a difference of clock readings, an elapsed-time call, a benchmark helper that is
given a function, or a stopwatch; most files that a scan meets have none, and those are neither
parsed nor analysed. The answer is True wherever the engine could find such a thing, and often where
it cannot: what is looked at are words, not code. Plain words come first: `str.find` is ten times
faster than a regular expression.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.measured import stopwatches

# What a rule's TRIGGER is: a regular expression, several that must all match, or a function of
# (text, language).
Trigger = str | tuple[str, ...] | Callable[[str, str], bool]
# A plain word, and the pattern that counts where it stands; None: the word alone.
Clue = tuple[str, re.Pattern[str] | None]


def clues(*given: str | tuple[str, str]) -> tuple[Clue, ...]:
    """Clues out of words, and of words with the pattern that counts where they stand."""
    return tuple(
        (clue, None) if isinstance(clue, str) else (clue[0], re.compile(clue[1])) for clue in given
    )


# The readings of vocabulary.PYTHON_CLOCKS, under their own names or imported as another.
_CLOCKS = clues(
    *("perf_counter", "process_time", "thread_time", "time_ns", "default_timer", "clock_gettime"),
    *("time.time", "time()", "time.clock", "import time as", "_get_time", "Wtime"),
    *("datetime.now", "datetime.utcnow", "Timestamp.now", ".monotonic"),
    ("from time import", r"from time import[^\n]*\b(?:time|monotonic)\b|from time import\s*[(\\*]"),
    # Helpers of other files that wait and then read the clock: time_sync(), synchronized_time().
    ("sync", r"sync\w*time\w*\s*\("),
    ("sync", r"time\w*sync\w*\s*\("),
)
_PYTHON_TIMES = clues(
    ("elapsed_time", r"elapsed_time\s*\("),
    ("time_till", r"time_till\s*\("),
    ("time_since", r"time_since\s*\("),
    "_ipython_time",
)
# Readings of vocabulary.CPP_CLOCKS, of its fillers and helpers; elapsed-time calls; the loops of
# Google Benchmark.
_CPP_TIMES = clues(
    ("lapsed", r"(?<!ol)lapsed\w*\s*\("),
    ("time_", r"time_(?:till|since)\s*\("),
    # The word first, then what may not stand before it: a pattern that begins with letters is
    # searched for ten times faster than one that begins with \b.
    ("clock", r"clock(?<!\wclock)\s*\("),
    ("now", r"now(?<!\wnow)\s*\("),
    ("time", r"time(?<!\wtime)\s*\("),
    *("gettimeofday", "clock_gettime", "QueryPerformanceCounter", "timespec_get", "ftime"),
    *("Wtime", "wtime", "GetTickCount", "__rdtsc", "absl::Now", "CurrentTimeNanos"),
    "KeepRunning",
    ("tate", r":\s*\*?\s*\w*[sS]tate\s*\)"),
    "benchmark::State",
)
_NO_ARGUMENTS = re.compile(r"\(\s*\)")
_LAST_NAME = re.compile(r"\w*\s*\Z")


_GRAPHS = clues(
    *("CUDAGraph", "cuda.graph", "capture_begin", "BeginCapture", "GraphLaunch", ".replay("),
)
_TELLS_TIME = re.compile(r"elapsed|millisec|microsec", re.IGNORECASE)
_PUSHES = re.compile(r"range_?push|push_?range", re.IGNORECASE)
_POPS = re.compile(r"range_?pop|pop_?range", re.IGNORECASE)


def triggers(trigger: Trigger, text: str, language: str) -> bool:
    """Whether a rule with this trigger could report something in the text."""
    if isinstance(trigger, str):
        return _occurs(trigger, text)
    if isinstance(trigger, tuple):
        return all(_occurs(pattern, text) for pattern in trigger)
    return trigger(text, language)


def _occurs(pattern: str, text: str) -> bool:
    plain = _plain_words(pattern)
    return any(word in text for word in plain) if plain else re.search(pattern, text) is not None


@cache
def _plain_words(pattern: str) -> tuple[str, ...]:
    """The words of a pattern that is nothing but a choice of words; else none."""
    if re.fullmatch(r"(?:[\w|]|\\\.)+", pattern) is None:
        return ()
    return tuple(pattern.replace("\\.", ".").split("|"))


@lru_cache(maxsize=1)  # most rules ask the same of a file, one after the other
def measures(text: str, language: str) -> bool:
    """Whether a region, an elapsed-time call or a function that is benchmarked may be found."""
    if language == "python":
        found = any_of(_PYTHON_TIMES, text) or _differences(text)
    else:
        found = any_of(_CPP_TIMES, text) or _has_clock_helper(text)
    return found or stopwatches.may_use(text, language) or _benchmarks(text, language)


def reads_events(text: str, language: str) -> bool:
    """Whether the time between events may be read, or CuPy or cuda.core subtract them."""
    if language == "python":
        return any_of(_PYTHON_TIMES, text) or (".record(" in text and "cuda.core" in text)
    times_itself = "CUDAEvent" in text and _TELLS_TIME.search(text) is not None
    return times_itself or any_of(_CPP_TIMES[:2], text)


def measures_graph(text: str, language: str) -> bool:
    """Whether a graph may be captured or replayed in a file that measures."""
    return any_of(_GRAPHS, text) and measures(text, language)


def measures_or_captures(text: str, language: str) -> bool:
    """Whether something may be measured, or CuTe code be captured in a graph."""
    return measures(text, language) or ("cute" in text and "graph(" in text)


def measures_kernels(text: str, language: str) -> bool:
    """Whether a kernel may be launched in a file that records events or measures."""
    launches = "__global__" in text and "<<<" in text
    return launches and ("EventRecord" in text or measures(text, language))


def pushes_ranges(text: str, language: str) -> bool:
    """Whether NVTX ranges may be pushed and popped."""
    near = "nvtx" in text or "roctx" in text or "NVTX" in text or "ROCTX" in text
    return near and _PUSHES.search(text) is not None and _POPS.search(text) is not None


def any_of(given: tuple[Clue, ...], text: str) -> bool:
    """Whether the text holds one of the clues."""
    for word, pattern in given:
        if word in text and (pattern is None or pattern.search(text)):
            return True
    return False


def _has_clock_helper(text: str) -> bool:
    for call in _NO_ARGUMENTS.finditer(text):
        name = _LAST_NAME.search(text, max(0, call.start() - 40), call.start())
        if name and words.CPP_CLOCK_HELPER.match(name[0].rstrip()):
            return True
    return False


# Calls of benchmark helpers, known by their names, that are given a function of the file

# One pattern for each beginning: a search for plain letters is ten times faster than for several.
_HELPERS = tuple(
    re.compile(rf"{word}\w*\s*\(")
    for word in (
        "ench",
        "autorange",
        "profile",
        "measure",
        "time",
        "repeat",
        "report",
        "cupti",
        "Timer",
    )
)
_NAMED_SO = re.compile(
    r"(?:bench(?:mark)?|profile|measure|timed?)(?:_\w+)?\Z|timeit\Z|repeat\Z|autorange\Z|Timer\Z"
)
_BEFORE = re.compile(r"[\w.]*\Z")
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINED = (re.compile(r"def[ \t]+(\w+)"), re.compile(r"class[ \t]+(\w+)"))
_LINE_BEFORE = re.compile(r"[ \t]*(?:async[ \t]+)?\Z")
_MADE = re.compile(r"^[ \t]*(\w+)[ \t]*=(?!=)[ \t]*(?:\([ \t]*\n)?([^\n]+)", re.MULTILINE)


def _benchmarks(text: str, language: str) -> bool:
    given = helper_calls(text)
    if language == "cuda":
        return any(True for _ in given)
    functions: set[str] = set()
    for arguments in (_arguments(at, text) for at in given):
        if "lambda" in arguments:
            return True
        if not functions:
            functions = set(_defined(text))
            functions |= set(_made(functions, text))
        if functions & set(_NAME.findall(arguments)):
            return True
    return False


def _defined(text: str) -> Iterator[str]:
    """Names of the functions and classes of a Python file."""
    for found in (found for pattern in _DEFINED for found in pattern.finditer(text)):
        start = text.rfind("\n", 0, found.start()) + 1
        if _LINE_BEFORE.match(text, start, found.start()):
            yield found[1]


def _made(functions: set[str], text: str) -> Iterator[str]:
    """Names that are assigned one of the functions, what it returns, or a function of no name."""
    for found in _MADE.finditer(text):
        if "lambda" in found[2] or functions & set(_NAME.findall(found[2])):
            yield found[1]


def helper_calls(text: str) -> Iterator[int]:
    """Where the arguments begin of each call whose name is like that of a benchmark helper."""
    for found in (found for pattern in _HELPERS for found in pattern.finditer(text)):
        before = _BEFORE.search(text, max(0, found.start() - 100), found.start())
        start = before.start() if before else found.start()
        name = text[start : found.end()].rstrip(" \t\n(")
        if _is_helper(name) and not text.endswith(("def ", "class "), 0, start):
            yield found.end()


def _is_helper(name: str) -> bool:
    return bool(_NAMED_SO.match(name.rpartition(".")[2]) or words.HARNESS.search(name))


def _arguments(start: int, text: str) -> str:
    """The text behind an open parenthesis, up to the one that closes it."""
    depth, end = 1, min(len(text), start + 600)
    for at in range(start, end):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if not depth:
                return text[start:at]
    return text[start:end]


# Differences of clock readings

# Targets of `a, b = ...` and of `self.t: float = ...`, and of `with x as name`.
_LEFT = re.compile(r"\s*([^=()]*?)(?::[^=]*)?(?<![-+*/%|&^<>!])=(?!=)")
_TARGET = re.compile(r"([A-Za-z_][\w.]*)(?:\[[^\]]*\])?\s*(?::[^=\n]+|:)?=(?!=)")
_ALIASES = re.compile(r"\s*(?:from|import|with|async)\b")
_ALIAS = re.compile(r"\bas\s+\(?(\w+)")
_CLOSED = re.compile(r"\([^()]*\)")
_DEF = re.compile(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
# A line that goes on in the next one, and a line that goes on from the one before.
_GOES_ON = re.compile(r"[(\[{,\\=+\-*/]\s*\Z|\b(?:and|or|not|in|if|else|lambda.*:)\s*\Z")
_CONTINUES = re.compile(r"\s*(?:[-+*/.)\]}]|(?:if|else|for|and|or)\b)")
_COMPARED = re.compile(r"[\w.\[\]\"'()]*\s*[<>](?![<>])")
_CALLED = re.compile(r"(\w+)\s*\(")
# A reading stays one in these calls, and behind these words.
_KEEPS = {
    *("float", "int", "double", "timestamp", "count", "round"),
    *("return", "if", "else", "and", "or", "in", "not", "lambda", "yield", "await"),
}
_HANDS_ON = re.compile(r"\breturn\b|\.append\(")
_Function = tuple[int, int, str]  # offset of the line, indentation and name
_FAR = 400  # characters between the readings of a difference, at the most
_ROUNDS = 6  # steps from a reading to the difference, as in Regions.clock_of


def _differences(text: str) -> bool:
    """Whether two values that may come from a clock stand on two sides of a minus.

    Names that take such a value are followed through assignments and functions that return one,
    by words and regardless of scopes.
    """
    places = sorted(_places(_CLOCKS, text))
    names: set[str] = set()
    fresh = places
    for _ in range(_ROUNDS if places else 0):
        if any(_subtracts(one, two, text) for one, two in pairwise(sorted(places))):
            return True
        bound = _bound(fresh, text) - names
        if not bound:
            break
        names |= bound
        fresh = [at for name in sorted(bound) for at in word_places(name, text)]
        places += fresh
    return any(_subtracts(one, two, text) for one, two in pairwise(sorted(places)))


def _subtracts(one: int, two: int, text: str) -> bool:
    if two - one <= _FAR and "," in text[one:two]:
        begin = _statement_start(two, text)
        if begin <= one and _HANDS_ON.search(text, begin, one):
            return True  # both are given away, for somebody else to subtract
    if two - one > _FAR or "-" not in text[one:two].replace("->", "").replace("-=", ""):
        return False
    # A difference that is only compared is a time limit.
    return _statement_start(two, text) <= one and not _COMPARED.match(text, two)


def word_places(name: str, text: str) -> Iterator[int]:
    """Where `name` stands in the text as a whole word."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (_is_word(text[at - 1 : at]) or _is_word(text[end : end + 1])):
            yield at
        at = text.find(name, end)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _places(given: tuple[Clue, ...], text: str) -> Iterator[int]:
    for word, pattern in given:
        if pattern is not None and word in text:
            yield from (found.start() for found in pattern.finditer(text))
        elif pattern is None:
            at = text.find(word)
            while at >= 0:
                yield at
                at = text.find(word, at + 1)


def _bound(places: Iterable[int], text: str) -> set[str]:
    """Names that a statement around one of the places binds, or whose function it returns from."""
    found: set[str] = set()
    for at in places:
        start = _statement_start(at, text)
        before = text[start:at]
        if _ALIASES.match(before):
            found.update(_ALIAS.findall(text[start : text.find("\n", at)]))
        if "=" in before and _kept(before.rpartition("=")[2]):
            left = _LEFT.match(before)
            found.update(_NAME.findall(left[1]) if left else ())
            line = before[before.rfind("\n") + 1 :]
            found.update(name.rpartition(".")[2] for name in _TARGET.findall(line))
        if "return" in before and _kept(before.rpartition("return")[2]):
            found |= _enclosing_function(start, text, _functions(text))
    return found - {"self", "cls", ""}


def _kept(between: str) -> bool:
    """Whether a value behind this text is what is assigned, and not an argument of some call."""
    while (without := _CLOSED.sub("", between)) != between:
        between = without
    return all(name in _KEEPS for name in _CALLED.findall(between))


def _statement_start(at: int, text: str) -> int:
    """The start of the line of `at`, or of an earlier one that the line continues."""
    start = text.rfind("\n", 0, at) + 1
    for _ in range(8):
        before = text.rfind("\n", 0, max(start - 1, 0)) + 1
        goes_on = _GOES_ON.search(text, before, start) or _CONTINUES.match(text, start)
        if not start or not goes_on:
            break
        start = before
    return start


@lru_cache(maxsize=1)
def _functions(text: str) -> list[_Function]:
    return [(m.start(), len(m[1]), m[2]) for m in _DEF.finditer(text)]


def _enclosing_function(start: int, text: str, functions: Sequence[_Function]) -> set[str]:
    """The name of the function around the line that begins at `start`."""
    line = text[start : text.find("\n", start)]
    indent = len(line) - len(line.lstrip())
    for at, depth, name in reversed(functions[: bisect_right(functions, (start, indent, ""))]):
        if at == start or depth < indent:
            return {name}
    return set()

"""Units that names and texts claim: `elapsed_ms`, `tokens_per_second`, "took {t:.2f} ms".

Every function returns None where no unit is claimed or where the claim is open to doubt.
"""

import math
import re
from dataclasses import dataclass
from functools import cache, lru_cache

from perf_timing.lint.units.quantities import Quantity, Work

_REMEMBERED = 4096  # texts


@dataclass(frozen=True)
class Label:
    """A claim: the kind ("time" or "rate"), the exponent, what a rate counts, and its spelling."""

    kind: str
    exponent: float
    work: str
    text: str

    def quantity(self) -> Quantity:
        """The quantity that the label declares."""
        return Quantity(self.kind, frozenset({self.exponent}), self.work, declared=True)


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


_TIME_WORDS = {
    -9.0: "ns nsec nsecs nanos nanosec nanosecs nanosecond nanoseconds",
    -6.0: "us usec usecs micros microsec microsecs microsecond microseconds \u00b5s \u03bcs",
    -3.0: "ms msec msecs millis millisec millisecs millisecond milliseconds",
    0.0: "s sec secs second seconds",
    round(math.log10(60), 3): "mins minute minutes",
    round(math.log10(3600), 3): "hrs hours",
}
TIME_UNITS = {word: exponent for exponent, words in _TIME_WORDS.items() for word in words.split()}
_PREFIX = {"": 0.0, "k": 3.0, "m": 6.0, "g": 9.0, "t": 12.0, "p": 15.0}
_PREFIX_WORDS = {"kilo": 3.0, "mega": 6.0, "giga": 9.0, "tera": 12.0, "peta": 15.0}
_BANDWIDTHS = frozenset(f"{prefix}b{second}" for prefix in "kmgt" for second in ("ps", "s"))
_FLOPS = frozenset(f"{prefix}flop{plural}" for prefix in "mgt" for plural in ("", "s"))
_COUNTED = (
    r"tok(?:en)?s?|samples?|images?|imgs?|it(?:er)?s?|iterations?|frames?|steps?|req(?:uest)?s?"
    r"|quer(?:y|ies)|batch(?:es)?|calls?|items?|seq(?:uence)?s?|sentences?|examples?|words?|runs?"
    r"|launch(?:es)?|kernels?|elements?|elems?|rows?|graphs?|nodes?|edges?|atoms?|pixels?"
)
# Words beside which a lone "s" is a unit: time_s, latency_s, but not params_s.
_TIMED = words(
    "time times t dt elapsed latency latencies duration durations wall total mean avg median "
    "p50 p90 p95 p99 min max step iter iteration cpu gpu host device kernel compile warmup "
    "train infer inference eval load wait sync forward backward fwd bwd prefill decode "
    "runtime"
)
# A name with one of these converts, chooses or limits; it claims nothing about its own unit.
_CONVERTS = words("to from factor scale unit units conv multiplier freq clock mhz ghz hz")


@cache
def tokens_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: `gpuTimeMs` and `gpu_time_ms` are (gpu, time, ms)."""
    last = re.split(r"\.|->|::", name)[-1]
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last)
    # milli_seconds, gpuTimeMilSec
    lower = re.sub(r"(?<![a-z])mil_(?=secs?(?![a-z]))", "milli_", spaced.lower())
    joined = re.sub(r"(nano|micro|milli)_(?=s(ec|econd)?s?(?![a-z]))", r"\1", lower)
    parts = re.split(r"[^A-Za-z0-9\u00b5\u03bc]+", joined)
    return tuple(part.rstrip("0123456789") or part for part in parts if part)


@cache
def label_of_name(name: str) -> Label | None:
    """The unit that a variable, key, argument or function claims by its name."""
    words = tokens_of(name)
    if not words or set(words) & _CONVERTS or "2" in words:
        return None
    if "per" in words:
        return _label_of_ratio(words)
    rate = _label_of_rate_word(words)
    if rate is not None:
        return rate
    found = {TIME_UNITS[w] for w in words if w in TIME_UNITS and _is_unit(w, words)}
    if len(found) != 1:
        return None
    text = next(w for w in words if w in TIME_UNITS and _is_unit(w, words))
    return Label("time", found.pop(), "", text)


def _is_unit(word: str, words: tuple[str, ...]) -> bool:
    position = len(words) - 1 - words[::-1].index(word)
    if word == "s":
        return position == len(words) - 1 and position > 0 and words[position - 1] in _TIMED
    if word in ("ns", "us", "second", "minute"):
        # `ns` alone is often a list of n; `second` the one after the first.
        return word == "us" or (len(words) > 1 and word != "second")
    return True


def _label_of_ratio(words: tuple[str, ...]) -> Label | None:
    at = words.index("per")
    before, after = words[:at], words[at + 1 :]
    if not before or not after:
        return None
    if any(c.isdigit() for c in after[0]) or after[0] in ("k", "thousand", "million", "hundred"):
        return None  # ms_per_1k_tokens: what it is per holds a factor
    if before[-1] in TIME_UNITS and before[-1] != "s" and after[0] not in TIME_UNITS:
        return Label("time", TIME_UNITS[before[-1]], "", before[-1])
    if after[0] not in TIME_UNITS or before[-1] in TIME_UNITS:
        return None
    work = _work_word(before[-1])
    if work is None:
        work = Work() if re.fullmatch(_COUNTED, before[-1]) else None
    if work is None:
        return None
    exponent = work.exponent - TIME_UNITS[after[0]]
    return Label("rate", exponent, work.kind, f"{before[-1]}/{after[0]}")


def _label_of_rate_word(words: tuple[str, ...]) -> Label | None:
    last = words[-1]
    if last in ("fps", "qps", "ips"):
        return Label("rate", 0.0, "count", last)
    if last in _BANDWIDTHS:
        return Label("rate", _PREFIX[last[0]], "bytes", last)
    for position, word in enumerate(words):
        if word in _FLOPS:
            return Label("rate", _PREFIX[word[0]], "flops", word)
        following = words[position + 1] if position + 1 < len(words) else ""
        if word in _PREFIX_WORDS and following in ("flops", "flop"):
            return Label("rate", _PREFIX_WORDS[word], "flops", word + following)
    return None


@cache
def _work_word(word: str) -> Work | None:
    found = re.fullmatch(r"([kmgt]?)i?(b|bytes?)", word)
    if found and (found[1] or found[2] != "b"):
        return Work(_PREFIX[found[1]], "bytes")
    found = re.fullmatch(r"([kmgt]?)flops?", word) or re.fullmatch(r"([gt])ops", word)
    if found:
        return Work(_PREFIX[found[1]], "flops")
    return None


_COUNT_WORDS = words(
    "tokens samples images imgs frames batch batches steps iters iterations requests queries "
    "items examples words elements elems numel count num n bs batchsize seqlen length len dim "
    "dims hidden heads head rows cols width height runs reps repeats trials loops calls iter "
    "ntokens shape nelem nheads headdim cnt channels world gpus ranks devices"
)


@cache
def work_of_name(name: str) -> Work | None:
    """What a name counts: `num_bytes`, `total_tokens`, `batch_size`, `gflop`, `M`, `sizeof`."""
    last = re.split(r"\.|->|::", name)[-1]
    words = tokens_of(name)
    if not words:
        return None
    if last in ("nbytes", "itemsize", "element_size", "sizeof"):
        return Work(0.0, "bytes")
    for word in reversed(words):
        work = _work_word(word)
        if work is not None:
            return work
    if set(words) & _COUNT_WORDS or (len(last) == 1 and last not in "tT"):
        return Work()
    return None


_TIME_TEXT = (
    r"ns|nsecs?|nanosec(?:ond)?s?|us|\u00b5s|\u03bcs|usecs?|microsec(?:ond)?s?|ms|msecs?"
    r"|millisec(?:ond)?s?|s|secs?|seconds?|mins|minutes|hours|hrs"
)
_SCALES = {"thousand": 3.0, "kilo": 3.0, "million": 6.0, "mega": 6.0, "billion": 9.0, "giga": 9.0}
_RATE_TEXT = (
    rf"(?:(?P<scale>{'|'.join(_SCALES)})[\s-]*|(?<![A-Za-z])(?P<letter>[KMGT])\s)?(?<![A-Za-z])(?P<counted>[kKMGT]?(?:{_COUNTED}))\s*(?:/|\bper\b|p)\s*(?P<base>s|sec|second|secs)\b"
    r"|(?P<prefix>[kKMGTP])(?P<binary>i?)B(?:ytes)?\s*(?:/\s*s(?:ec(?:ond)?)?|ps)\b"
    r"|(?P<flop>[MGTP])\s?FLOPS?(?:/s(?:ec)?|\b)|(?P<fps>fps|qps)\b"
)
_AFTER = re.compile(
    rf"\s*[\(\[]?\s*(?:(?P<rate>{_RATE_TEXT})|(?P<time>{_TIME_TEXT})(?![A-Za-z0-9_'-]))"
)
_PER_MANY = re.compile(
    r"(?:\s*/\s*|\s+per\s+)(?:\d[\d,.]*\d|\d\s?[kKMBG]|thousand|million|billion)", re.IGNORECASE
)
_AFTER_CASELESS = re.compile(_AFTER.pattern, re.IGNORECASE)
_END = r"\s*['\"]?\s*[:=]*\s*['\"]?\s*$"
_BEFORE_RATE = re.compile(rf"(?P<rate>{_RATE_TEXT})[\)\]]?{_END}", re.IGNORECASE)
_BEFORE = re.compile(
    rf"(?:[\(\[]\s*(?:in\s+)?(?P<time>{_TIME_TEXT})\s*[\)\]]"
    r"|\bin\s+(?P<word>millisec(?:ond)?s?|microsec(?:ond)?s?|nanosec(?:ond)?s?|seconds?|secs?|ms|us|ns)"
    r"|(?<!per )(?<!/ )(?:\b|_)(?<!/)(?P<bare>ms|us|msecs?|usecs?|milliseconds|microseconds"
    rf"|nanoseconds|seconds|secs?)|_(?P<short>s)){_END}",
    re.IGNORECASE,
)


@lru_cache(maxsize=_REMEMBERED)
def label_after(text: str) -> Label | None:
    """The unit that begins a text which follows a value: " ms (median)", "s", " GB/s"."""
    found = _AFTER.match(text) or _AFTER_CASELESS.match(text)
    if found is None:
        return None
    if found["time"] and _PER_MANY.match(text, found.end()):
        return None  # "sec / 1B samples": what it is per holds a factor
    return _time_label(found["time"]) if found["time"] else _rate_label(found)


@lru_cache(maxsize=_REMEMBERED)
def label_before(text: str) -> Label | None:
    """The unit that ends a text which precedes a value: "time (ms): ", "latency_us="."""
    found = _BEFORE_RATE.search(text)
    if found is not None:
        return _rate_label(found)
    found = _BEFORE.search(text)
    if found is None:
        return None
    return _time_label(found["time"] or found["word"] or found["bare"] or found["short"])


def _time_label(spelled: str) -> Label | None:
    # MS and US are no units of time; S is Siemens, or a plural.
    if spelled in ("MS", "US", "NS", "S", "Ms", "Us"):
        return None
    return Label("time", TIME_UNITS[spelled.lower()], "", spelled)


def _rate_label(found: re.Match[str]) -> Label | None:
    spelled = " ".join(found["rate"].split())
    if found["counted"]:
        plain = re.fullmatch(_COUNTED, found["counted"], re.IGNORECASE)
        scaled = None if plain else found["counted"][0].lower()
        exponent = _PREFIX[scaled or ""] + _SCALES.get((found["scale"] or "").lower(), 0.0)
        exponent += _PREFIX[(found["letter"] or "").lower()]  # M elements/s
        return Label("rate", exponent, "count", spelled)
    if found["prefix"]:
        return Label("rate", _PREFIX[found["prefix"].lower()], "bytes", spelled)
    if found["flop"]:
        return Label("rate", _PREFIX[found["flop"].lower()], "flops", spelled)
    return Label("rate", 0.0, "count", spelled)

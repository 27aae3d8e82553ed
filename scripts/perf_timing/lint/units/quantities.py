"""Times and rates with their units: the values that the unit rules compute with.

An exponent says what a number stands for: a time `t` with exponent -3 is `t * 10**-3` seconds, a
rate with exponent 9 is `10**9` base units (bytes, operations, items) a second. Exponents are log10,
so that 1024 (3.01) and 60 (1.78) have a place beside the powers of ten. What a number may stand for
is a set: division by the literal 1000 turns milliseconds into seconds, or a total of 1000 calls
into the time of one, and only a reader may know which.
"""

import math
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from perf_timing.lint.facts import Node

SECONDS = {"s": 0.0, "ms": -3.0, "us": -6.0, "ns": -9.0}
SAME = 0.3  # decades; binary prefixes (10**0.01 to 10**0.04) are taken for decimal ones
_NAMES = {
    0.0: "seconds",
    -3.0: "milliseconds",
    -6.0: "microseconds",
    -9.0: "nanoseconds",
    1.778: "minutes",
    3.556: "hours",
}
_MANY = {3.0: "thousands of", 6.0: "millions of", 9.0: "billions of", 12.0: "trillions of"}
_PREFIXES = {3.0: "kilo", 6.0: "mega", 9.0: "giga", 12.0: "tera", 15.0: "peta"}
_BINARY = math.log10(1024)


@dataclass(frozen=True)
class Quantity:
    """A time, a rate, C++ `duration` or `point` (of which count() makes a time), or clock ticks.

    `exponents` holds every unit that the number may be in. `work` is what a rate counts: "bytes",
    "flops", "count", or "" where that is not known. `declared` marks a unit known from a name
    only, `converted` one that a factor in the code has changed, `divided` a time over a count.
    """

    kind: str
    exponents: frozenset[float]
    work: str = ""
    declared: bool = False
    converted: bool = field(default=False, compare=False)
    divided: bool = field(default=False, compare=False)
    origin: Node | None = field(default=None, compare=False)  # the clock or the event
    site: Node | None = field(default=None, compare=False)  # the expression last assigned

    @property
    def definite(self) -> bool:
        return len(self.exponents) == 1

    @property
    def usual(self) -> bool:
        """Whether people give times or rates in this unit."""
        known = list(_NAMES) if self.kind == "time" else [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]
        return any(self.says(exponent) for exponent in known)

    def says(self, exponent: float) -> bool:
        """Whether the number may be in the unit of `exponent`."""
        return any(abs(e - exponent) <= SAME for e in self.exponents)


@dataclass(frozen=True)
class Number:
    """A constant. `shift` is the part of it that converts units (log10); `ambiguous`: or counts.

    `binary` marks 1024 and its powers, `opaque` a factor that may convert, by an unknown amount.
    """

    value: float
    shift: float = 0.0
    ambiguous: bool = False
    binary: bool = False
    opaque: bool = False


OPAQUE = Number(0.0, opaque=True)


@dataclass(frozen=True)
class Work:
    """What is done in the time: `value * 10**exponent` bytes, operations or items.

    `certain` says that nothing in it has an unknown unit; `per_item`, that it is the size of one
    item (sizeof), so that whatever it is multiplied by is a count.
    """

    exponent: float = 0.0
    kind: str = "count"
    certain: bool = True
    per_item: bool = False


@dataclass(frozen=True)
class Many:
    """A list, an array or an iterator of alike values."""

    item: "Value"


@dataclass(frozen=True)
class Several:
    """A tuple of different values."""

    items: tuple["Value", ...]


@dataclass(frozen=True)
class Conflict:
    """A value that is in one unit on one path and in another on the other."""

    first: Quantity
    second: Quantity


Value = Quantity | Number | Work | Many | Several | Conflict | None


def time(unit: str, origin: Node | None = None, kind: str = "time") -> Quantity:
    """A time in `unit` ("s", "ms", "us", "ns")."""
    return Quantity(kind, frozenset({SECONDS[unit]}), origin=origin)


def unit_name(value: Quantity) -> str:
    """How a reader would call the unit of `value`: `milliseconds`, `gigabytes a second`."""
    exponent = min(value.exponents, key=abs) if value.exponents else 0.0
    if value.kind == "rate":
        return f"{_amount(exponent, value.work)} a second"
    for known, name in _NAMES.items():
        if abs(known - exponent) < 0.02:
            return name
    return f"units of {float(f'{10.0**exponent:.3g}'):g} seconds".replace("e+0", "e")


def _amount(exponent: float, work: str) -> str:
    """What a rate counts, in units of 10**exponent: `gigabytes`, `millions of items`."""
    what = {"bytes": "bytes", "flops": "operations"}.get(work, "items")
    if abs(exponent) < 0.01:
        return what
    near = float(round(exponent))
    if work == "bytes" and near in _PREFIXES:
        return _PREFIXES[near] + what
    if work != "bytes" and near in _MANY:
        return f"{_MANY[near]} {what}"
    return f"units of 1e{round(exponent)} {what}"


@lru_cache(maxsize=4096)
def literal(text: str) -> Number | None:
    """The number that a literal of Python or C++ writes; None where it is none."""
    plain = text.replace("_", "").replace("'", "").rstrip("uUlLfFjJ")
    try:
        value = float(int(plain, 0)) if re.fullmatch(r"0[xXbBoO]\w+", plain) else float(plain)
    except ValueError:
        return None
    return constant(value, scientific="e" in plain.lower() and "x" not in plain.lower())


def constant(value: float, scientific: bool = False) -> Number:
    """A number, and whether it looks like a factor between units.

    In scientific notation a mantissa is allowed: 2e-9 counts 2 and converts by 1e-9.
    """
    if value <= 0 or not math.isfinite(value):
        return Number(value)
    exponent = math.log10(value)
    if abs(exponent) >= 2.9 and abs(exponent - 3 * round(exponent / 3)) < 1e-6:
        return Number(value, shift=float(3 * round(exponent / 3)))
    if value >= 1024 and abs(exponent / _BINARY - round(exponent / _BINARY)) < 1e-6:
        return Number(value, shift=exponent, binary=True)
    whole = math.floor(exponent + 1e-9)
    if scientific and whole % 3 == 0 and whole != 0:
        return Number(value, shift=float(whole))
    if value in (60.0, 3600.0):
        return Number(value, shift=exponent, ambiguous=True)
    return Number(value)


def multiply(a: Value, b: Value) -> Value:
    """The value of `a * b`."""
    if isinstance(a, Many) or isinstance(b, Many):
        return _spread(multiply, a, b)
    if isinstance(a, Number) and isinstance(b, Number):
        if 1.0 in (a.value, b.value):
            return a if b.value == 1.0 else b  # 1024**3 * 1.0
        if (a.binary or b.binary) and not (a.shift and b.shift):
            return Number(a.value * b.value, opaque=a.opaque or b.opaque)  # 64 * 1024 counts
        return _fold(a.value * b.value, a.shift + b.shift, a, b)
    if isinstance(a, Quantity) and isinstance(b, Number):
        if b.opaque:
            return None
        return _shift(a, -b.shift, b.ambiguous) if b.shift else _count_or_unit(a, b.value)
    if isinstance(b, Quantity) and isinstance(a, Number):
        return multiply(b, a)
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return None
    if isinstance(a, Quantity):
        return _times_work(a, b, 1)
    if isinstance(b, Quantity):
        return _times_work(b, a, 1)
    return _work_product(a, b)


def divide(a: Value, b: Value) -> Value:
    """The value of `a / b`; a time over a time is a plain ratio (None)."""
    if isinstance(a, Many) or isinstance(b, Many):
        return _spread(divide, a, b)
    if isinstance(b, Number):
        if isinstance(a, Number):
            return _part(a, b)
        if isinstance(a, Quantity):
            over = a if b.shift else replace(a, divided=True)
            return None if b.opaque else _shift(over, b.shift, b.ambiguous)
        if isinstance(a, Work):
            told = not (b.opaque or _holds_binary(b))
            return replace(a, exponent=a.exponent + b.shift, certain=a.certain and told)
        return Work(exponent=b.shift, kind="", certain=False)
    if isinstance(b, Quantity):
        return _over(a, b)
    if isinstance(a, Quantity):
        return _times_work(replace(a, divided=True), b, -1)
    if isinstance(a, Work) and isinstance(b, Work):
        return Work(a.exponent - b.exponent, a.kind, a.certain and b.certain)
    return Work(a.exponent, a.kind, False) if isinstance(a, Work) else None


def _part(a: Number, b: Number) -> Number:
    """The value of `a / b`. Of 1024 * 768 / 1e6 the millions are a unit, and the rest a count.

    Where WIDTH is 1000, nobody knows what WIDTH * HEIGHT / 1e6 is made of.
    """
    value = a.value / b.value if b.value else 0.0
    named = a.ambiguous and a.shift and not a.binary
    if not b.shift or b.binary or not (a.binary or named):
        return _fold(value, a.shift - b.shift, a, b)
    converts = 0.9 < value < 1.11  # 1024**2 / 1e6 makes megabytes of mebibytes
    opaque = bool(a.opaque or b.opaque or converts or named)
    return Number(value, -b.shift, b.ambiguous, opaque=opaque)


def _holds_binary(number: Number) -> bool:
    """Whether a number may be 1024 and a small count at once: size_mb / (2 * 1024)."""
    return not number.shift and number.value % 1024 == 0 and 1 < number.value / 1024 <= 16


def _times_work(a: Quantity, b: Value, sign: int) -> Quantity:
    # A count with a factor in it, as in `t / (1e3 * n)`, converts the time.
    factor = b.exponent if isinstance(b, Work) and b.kind in ("", "count") else 0.0
    return _shift(a, sign * factor, False)


def _count_or_unit(a: Quantity, factor: float) -> Quantity:
    # Nobody multiplies a time by a count that is in the loop already: `ms * 10` may well be the
    # microseconds of one of 100 calls.
    steps = range(4) if a.kind == "time" and factor >= 5 else range(1)
    shifts = [3 * step for step in steps if step == 0 or 10.0 ** (3 * step) > factor]
    return replace(a, exponents=frozenset(e - s for e in a.exponents for s in shifts[:2]))


def _over(a: Value, b: Quantity) -> Value:
    if isinstance(a, Quantity) or b.kind not in ("time", "rate"):
        return None
    inverse = "rate" if b.kind == "time" else "time"
    exponents = frozenset(-e for e in b.exponents)
    turned = Quantity(inverse, exponents, declared=b.declared, origin=b.origin)
    if isinstance(a, Number):
        if a.opaque:
            return None
        turned = replace(turned, work="count" if inverse == "rate" else "")
        return _shift(turned, 0.0 if a.binary else -a.shift, a.ambiguous)
    if inverse == "time":
        return None
    if isinstance(a, Work):
        return replace(_shift(turned, a.exponent, False), work=a.kind if a.certain else "")
    return turned


def _shift(value: Quantity, by: float, ambiguous: bool) -> Quantity:
    """`value` in another unit; where the number may be a count, in either."""
    if not by:
        return value
    moved = frozenset(round(e + by, 3) for e in value.exponents)
    exponents = moved | value.exponents if ambiguous else moved
    return replace(value, exponents=exponents, converted=True)


def _fold(value: float, shift: float, a: Number, b: Number) -> Number:
    ambiguous = a.ambiguous or b.ambiguous
    opaque = a.opaque or b.opaque
    return Number(value, round(shift, 3), ambiguous, a.binary or b.binary, opaque)


def _work_product(a: Value, b: Value) -> Value:
    parts = [p if isinstance(p, (Work, Number)) else Work(0.0, "", False) for p in (a, b)]
    exponent, kind, certain = 0.0, "", True
    for part in parts:
        if isinstance(part, Number):
            # 64 * 1024 tokens are tokens; bytes / 1024**3 are gigabytes.
            exponent -= 0.0 if (part.binary and part.shift > 0) or part.ambiguous else part.shift
            certain = certain and not part.opaque and not (part.ambiguous and part.shift)
        else:
            exponent += part.exponent
            certain = certain and part.certain
            if part.kind and kind in ("", "count"):
                kind = part.kind
    sized = any(isinstance(p, Work) and p.per_item for p in parts)
    return Work(round(exponent, 3), kind, certain or sized, sized)


def _spread(operation: "object", a: Value, b: Value) -> Value:
    assert callable(operation)
    one = a.item if isinstance(a, Many) else a
    two = b.item if isinstance(b, Many) else b
    return Many(operation(one, two))


def join(a: Value, b: Value) -> Value:
    """The value of a variable that is `a` on one path and `b` on another."""
    if isinstance(a, Many) and isinstance(b, Many):
        joined = join(a.item, b.item)
        return joined if isinstance(joined, Conflict) else Many(joined)
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        if a.kind == b.kind == "time" and not any(b.says(e) for e in a.exponents):
            return Conflict(a, b)
        if a.kind == b.kind:
            return (
                a if a.exponents >= b.exponents else replace(a, exponents=a.exponents | b.exponents)
            )
        return None
    if isinstance(a, Several) and isinstance(b, Several) and len(a.items) == len(b.items):
        joined_items = [join(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return Several(tuple(None if isinstance(j, Conflict) else j for j in joined_items))
    # A number or nothing on the other path is a start value or a failure.
    for one, two in ((a, b), (b, a)):
        started = not isinstance(two, (Quantity, Many, Several, Conflict))
        if isinstance(one, (Quantity, Many, Several, Conflict)) and started:
            return one
    return a if a == b else None


def plain(value: Value) -> Value:
    """The number in a list or a conflict: what printing it shows."""
    while isinstance(value, Many):
        value = value.item
    return value

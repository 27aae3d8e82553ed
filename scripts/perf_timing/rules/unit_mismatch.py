"""A time or a rate is in another unit than its name, its text or its other branch says.

## What it does
Follows times from where they are read (clocks, event times, do_bench, chrono, profiler rows)
through the arithmetic of the file, and reports where the unit contradicts what is claimed for it:
the text it is printed with, the name or key it is stored under, the unit of another branch or
return, a time it is added to, compared with or divided by; and 1024 as a factor between units of
time. Also FLOPS of operations that are divided by powers of 1024, and in C++ a rate of bytes that
are multiplied by `sizeof` once more.

## Why it misleads
The figure is wrong by 1000 or more, which is seen, or it is wrong on one path only (seconds on the
CPU, milliseconds on the GPU), which is not. Prefixes of FLOPS are decimal: with 1024**3 a GFLOPS
figure is 6.9 % too low. torch events and do_bench give milliseconds, host
clocks seconds, torch profiler rows and cutlass.testing.benchmark microseconds.

## Known problems
A literal power of 1000 is taken for a conversion unless the file also uses it as a count. Units in
comments and docstrings are not read. What other files do with a returned time is not known.

## Example
```python
import time
import torch

start = time.perf_counter()
fn()
torch.cuda.synchronize()
elapsed = (time.perf_counter() - start) * 1000
print(f"took {elapsed:.3f} s")
```

```cuda
float elapsed;
cudaEventElapsedTime(&elapsed, start, stop);
printf("kernel: %.3f us\\n", elapsed * 1e6 / iterations);
```

## Use instead
```python
import time
import torch

fn()
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(100):
    fn()
torch.cuda.synchronize()
elapsed_ms = (time.perf_counter() - start) * 1000
print(f"took {elapsed_ms / 100:.3f} ms")
```

```cuda
float elapsed_ms;
cudaEventElapsedTime(&elapsed_ms, start, stop);
printf("kernel: %.3f us\\n", elapsed_ms * 1e3 / iterations);
```
"""

import math
import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import callee_text, last_segment, operator, positional, squeeze
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import turns
from perf_timing.lint.figures.quotients import factors, is_product, operator_between, whole_product
from perf_timing.lint.units.quantities import Quantity, literal, unit_name
from perf_timing.lint.units.quantity_values import Problem
from perf_timing.lint.units.time_sources import may_time
from perf_timing.lint.units.unit_labels import Label, label_after, label_before, label_of_name

CODE = "TIM501"
LABEL = "UNITS"
DEFAULT = True
SEVERITY = "error"
DEVICE_ONLY = False
LANGUAGES = ("python", "cuda")
TRIGGER = may_time
MESSAGE = "`{shown}` is in {unit}, but {claim}"
NOTE = "Convert where the time is read, once, and carry the unit in the name (elapsed_ms, step_s)."
RENAME = (
    "Rename `{name}`: it holds {unit}, which is what the output says; there is nothing to convert."
)
EITHER = "Rename `{name}` if {unit} are meant; else convert where the time is read, once."
TEXT_NOTE = (
    "Correct the text or the key if {unit} are meant; else convert where the time is read, once."
)
MISCONVERTED = (
    "Convert once, in the right direction: 1 s is 1e3 ms, 1e6 us and 1e9 ns; and carry the unit in"
    " the name (elapsed_ms, step_s)."
)

PARENTHESES = (
    "Put the difference in parentheses: the division binds before the minus, so that only the"
    " earlier reading is divided."
)

BYTES_TWICE = (
    "`{name}` is in bytes, and is multiplied by `sizeof` once more; the rate is too large by the"
    " size of an element"
)
BYTES_NOTE = "Divide the bytes by the time, or multiply the number of elements by `sizeof` once."
BINARY_FLOPS = (
    "`{shown}` divides operations by {power}, but {label} counts powers of 1000; the figure is"
    " {percent:.1f} % too low"
)
BINARY_NOTE = "Divide by 1e9 for GFLOPS, by 1e12 for TFLOPS; prefixes of operations are decimal."
_IMPOSSIBLE = 15.0  # 1e15 a second as the unit of a rate


def check(source: SourceFile) -> Iterator[Report]:
    """Every contradiction between units."""
    binary = list(_binary_flops(source))
    yield from binary
    for problem in source.units[0]:
        if any(problem.node is report.node for report in binary):
            continue
        if problem.value.kind == "rate" and min(problem.value.exponents) >= _IMPOSSIBLE:
            continue  # a factor was taken for a unit: no device moves that much
        if _belongs_to_bytes(problem) or _averages(source, problem) or _seeds(source, problem):
            continue
        if _always_to_seconds(source, problem) or _converted_with_count(problem):
            continue
        if _told_as_it_is(source, problem) or _per_execution(source, problem):
            continue
        related = [place for value in (problem.value, problem.other) if value is not None
                   for place in _sources(problem, value)]  # fmt: skip
        note = _note(source, problem)
        yield Report(problem.node, _message(problem), note=note, related=tuple(related))
    if source.language == "cuda" and "sizeof" in source.tree.text:
        yield from _bytes_twice(source)


def _binary_flops(source: SourceFile) -> Iterator[Report]:
    """Rates of operations whose prefix is made with powers of 1024: flops / s / 1024**3."""
    text = source.tree.text
    flops = _FLOPS_TEXT.search(text) and _BINARY_TEXT.search(text)
    for node in source.tree.of_kind("binary") if flops else ():
        if not is_product(node) or is_product(node.parent) or not _BINARY_TEXT.search(node.text):
            continue
        above, below = factors(node)
        power = round(sum(map(_power_of_1024, below)) - sum(map(_power_of_1024, above)), 2)
        if power < 2 or _BYTES.search(node.text):
            continue
        for label in _claims(source, node):
            if label.work == "flops" and label.exponent == 3 * power:
                yield Report(
                    node,
                    BINARY_FLOPS.format(
                        shown=_shorten(node.text),
                        power=f"1024**{power:.0f}",
                        label=label.text,
                        percent=100 * (1 - (1000 / 1024) ** power),
                    ),
                    note=BINARY_NOTE,
                )
                break


_BINARY_TEXT = re.compile(r"1024|1\w*\s*<<\s*[2-4]0|\b2(\.0?)?\s*\*\*\s*[2-4]0")
_FLOPS_TEXT = re.compile(r"[MGT]\s?flop", re.IGNORECASE)
_BYTES = re.compile(r"byte|sizeof|element_size|itemsize", re.IGNORECASE)


def _power_of_1024(factor: Node) -> float:
    """The power of 1024 that a constant is: 2 for 1048576, 3 for 1024**3, 1 << 30, pow(1024, 3)."""
    text = squeeze(factor.text).strip("()")
    found = re.fullmatch(r"1\w*<<([2-4]0)|2(?:\.0?)?\*\*([2-4]0)", text)
    if found:
        return int(found[1] or found[2]) / 10
    found = re.fullmatch(r"(?:(?:std::|math\.)?pow\()?1024(?:\.0?)?f?(?:\*\*|,)([2-4])", text)
    if found:
        return float(found[1])
    number = literal(factor.text) if factor.kind == "number" else None
    exponent = math.log(number.value, 1024) if number is not None and number.value >= 1024 else 0.5
    return round(exponent) if abs(exponent - round(exponent)) < 1e-6 else 0.0


def _claims(source: SourceFile, node: Node) -> Iterator[Label]:
    """The units that a name, or the outputs of it, and a text beside a value give it."""
    assigned = next((p for p in node.ancestors() if p.kind in ("assign", "block", "call")), None)
    if assigned is None or assigned.kind != "assign":
        yield from _labels_beside(source, node)
        return
    name = squeeze(assigned.children[0].text)
    label = label_of_name(name)
    if label is not None:
        yield label
    for use in source.scopes.scope_of(node).names.get(name, []):
        if use.start > node.end:
            yield from _labels_beside(source, use)


def _bytes_twice(source: SourceFile) -> Iterator[Report]:
    """Rates of C++ code whose bytes are multiplied by the size of an element again."""
    for node in source.tree.of_kind("binary"):
        sized = _SIZED.search(node.text)
        within = node.parent is not None and node.parent.kind == "binary"
        if sized is None or within or not _BY_TIME.search(node.text):
            continue
        if _PER_SIZE.search(node.text):
            continue
        name = sized[1] or sized[2]
        pairs = source.scopes.assignments(name, source.scopes.scope_of(node))
        plain = [(target, value) for target, value in pairs if _sets(target)]
        if plain and all(_IN_BYTES.search(v.text) and "/" not in v.text for _, v in plain):
            related = tuple((target, "bytes from here") for target, _ in plain[:1])
            yield Report(node, BYTES_TWICE.format(name=name), note=BYTES_NOTE, related=related)


_SIZED = re.compile(
    r"(?<![\w.>])(\w+)\s*\*\s*sizeof\b|sizeof\s*\([^()]*\)\s*\*\s*(\w+)\b(?!\s*[(.\[-])"
)
_PER_SIZE = re.compile(r"/\s*\(*\s*sizeof")
_BY_TIME = re.compile(r"/\s*\(*\s*\w*(time|elapsed|sec|ms\b|duration)", re.IGNORECASE)
_IN_BYTES = re.compile(r"\*\s*sizeof\b|sizeof\s*\([^()]*\)\s*\*")


def _sets(target: Node) -> bool:
    """Whether an assignment sets its target anew; bytes /= ranks leaves bytes."""
    around = target.parent
    return around is None or not (around.kind == "augassign" or re.match("[*/]=", operator(around)))


def _sources(problem: Problem, value: Quantity) -> Iterator[tuple[Node, str]]:
    """Where the unit of a value comes from: the clock, or the factor in what was last assigned."""
    unit = f"{unit_name(value)} come from here"
    site, origin = value.site, value.origin
    within = value is problem.value and _rescales(problem.node)
    if value.converted and not within and site is not None and _rescales(site):
        place, text = site, unit
    elif origin is None:
        return
    else:
        place, text = origin, "the time comes from here" if value.converted else unit
    if place is not problem.node:
        yield place, text


def _rescales(node: Node) -> bool:
    """Whether an expression holds a factor between units."""
    numbers = (literal(leaf.text) for leaf in node.walk() if leaf.kind == "number")
    return any(number is not None and number.shift for number in numbers)


def _note(source: SourceFile, problem: Problem) -> str:
    """What to do, where it is something else than to convert: the name or the text may be wrong."""
    if _binds_tighter(problem.node):
        return PARENTHESES
    if not problem.value.usual and problem.value.kind == "time":
        return MISCONVERTED
    if problem.kind != "label" or problem.label is None:
        return ""
    unit = unit_name(problem.value)
    if not problem.name:
        return TEXT_NOTE.format(unit=unit)
    if _is_shown_rightly(source, problem):
        return RENAME.format(name=problem.name, unit=unit)
    return EITHER.format(name=problem.name, unit=unit)


def _binds_tighter(node: Node) -> bool:
    """Whether one of two readings is converted where their difference was meant: now - t0 // 60."""
    for part in node.walk():
        if part.kind == "binary" and operator(part).startswith("-") and len(part.children) == 2:
            first, second = part.children
            divided = second.kind == "binary" and operator(second).startswith("/")
            if divided and first.kind in ("name", "call") and "(" not in _gap(part, first, second):
                number = literal(second.children[-1].text)
                return number is not None and bool(number.shift)
    return False


def _gap(whole: Node, first: Node, second: Node) -> str:
    return whole.tree.text[first.end : second.start]


def _always_to_seconds(source: SourceFile, problem: Problem) -> bool:
    """Whether each use of a variable converts what it holds to seconds, whatever its name says.

    auto ms = duration_cast<microseconds>(...).count(); cout << ms / 1e6 << " seconds"
    """
    if not problem.name or problem.label is None or problem.value.kind != "time":
        return False
    uses = [
        use
        for use in source.scopes.scope_of(problem.node).names.get(problem.name, [])
        if use.start > problem.node.end
    ]
    shifts = [_shift_of(use) for use in uses]
    return bool(shifts) and all(shift and problem.value.says(shift) for shift in shifts)


def _told_as_it_is(source: SourceFile, problem: Problem) -> bool:
    """Whether a time is converted by what it holds wherever it is told, whatever its name says.

    ms = do_bench(f) * 1e-3; print(f"{ms * 1e6:.1f} us")
    """
    if not problem.name or problem.label is None or problem.value.kind != "time":
        return False
    told = [
        (_shift_of(use), found.exponent)
        for use in source.scopes.scope_of(problem.node).names.get(problem.name, [])
        if use.start > problem.node.end
        for found in _labels_beside(source, use)
        if found.kind == "time"
    ]
    return any(shift for shift, _ in told) and all(
        problem.value.says(exponent + shift) for shift, exponent in told
    )


def _shift_of(use: Node) -> float:
    """The power of ten that the factors around a use multiply it by."""
    above, below = factors(whole_product(use))
    shift = 0.0
    for nodes, sign in ((above, 1), (below, -1)):
        numbers = (literal(node.text) for node in nodes if node.kind == "number")
        shift += sign * sum(number.shift for number in numbers if number is not None)
    return shift


def _is_shown_rightly(source: SourceFile, problem: Problem) -> bool:
    """Whether the outputs of a wrongly named variable all give the unit that it is in."""
    label = problem.label
    scope = source.scopes.scope_of(problem.node)
    said = [
        found
        for use in scope.names.get(problem.name, [])
        for found in _labels_beside(source, use)
        if label is not None and found.kind == label.kind
    ]
    return bool(said) and all(problem.value.says(found.exponent) for found in said)


def _labels_beside(source: SourceFile, use: Node) -> Iterator[Label]:
    """The units in the text around a value in an f-string, or in the strings of its output."""
    inside = next((p for p in use.ancestors() if p.kind == "interpolation"), None)
    text = source.tree.text
    if inside is not None and inside.parent is not None:
        string = inside.parent
        found = label_after(text[inside.end : string.end]) or label_before(
            text[string.start : inside.start]
        )
        if found is not None:
            yield found
        return
    statement = source.statement(use)
    if statement.kind == "call":
        for node in statement.walk():
            if node.kind == "string":
                after = (
                    label_after(part) for part in re.split(r"%[\d.]*\w|\{[^}]*\}", node.text)[1:]
                )
                yield from (found for found in after if found is not None)


def _belongs_to_bytes(problem: Problem) -> bool:
    """Whether 1024 divides an amount of data, not the time beside it: size / (1024 * seconds)."""
    if problem.kind != "factor" or operator_between(problem.node) != "*":
        return False
    _, below = factors(whole_product(problem.node))
    return all(any(part is leaf for leaf in below) for part in factors(problem.node)[0])


def _averages(source: SourceFile, problem: Problem) -> bool:
    """Whether a factor is the unit over the number of executions: us are s * 10 for 100000."""
    product = problem.node
    if problem.kind != "label" or problem.label is None or product.kind != "binary":
        return False
    if len(product.children) != 2 or operator(product).strip(" ()") != "*":
        return False
    numbers = [literal(c.text) for c in product.children if c.kind == "number"]
    factors = [n.value for n in numbers if n is not None and n.value > 0]
    shifts = {exponent - problem.label.exponent for exponent in problem.value.exponents} - {0.0}
    return any(
        abs(math.log10(factor * trips) - shift) < 1e-6
        for factor in factors
        if not _converts(factor)
        for trips in _trips(source)
        for shift in shifts
    )


def _per_execution(source: SourceFile, problem: Problem) -> bool:
    """Whether a time is that of one execution as it stands: s of 1000 runs are the ms of one."""
    if problem.kind != "label" or problem.label is None or problem.value.kind != "time":
        return False
    above, below = factors(problem.node)
    if problem.value.divided or any(part.kind == "number" for part in below):
        return False
    numbers = [literal(part.text) for part in above if part.kind == "number"]
    if not all(number is not None and _converts(number.value) for number in numbers):
        return False
    scope = source.scopes.scope_of(problem.node)
    loops = (
        node
        for region in source.regions.all
        if region.scope is scope and not region.carried
        for node in scope.nodes
        if node.kind == "for" and region.holds(node)
    )
    trips = {count for loop in loops if (count := _counted(source, loop))}
    shifts = {exponent - problem.label.exponent for exponent in problem.value.exponents}
    return any(abs(math.log10(count) - shift) < 1e-6 for count in trips for shift in shifts)


def _counted(source: SourceFile, loop: Node) -> int:
    """How often a loop runs over range(1000), or up to 1000 in C++; 0 where it does not say so."""
    ran = turns.turns(source, loop, source.scopes.scope_of(loop))
    return ran[""] if ran is not None and not any(ran) and ran[""] > 1 else 0


def _converted_with_count(problem: Problem) -> bool:
    """Whether a factor over a time may be executions and a unit at once: 10000 * bytes / ms."""
    if problem.kind != "label" or problem.value.kind != "rate" or problem.label is None:
        return False
    numbers = (literal(part.text) for part in factors(problem.node)[0] if part.kind == "number")
    counts = [n for n in numbers if n is not None and n.value > 1000 and n.value % 1000 == 0]
    off = {exponent - problem.label.exponent for exponent in problem.value.exponents}
    return any(not _converts(n.value) for n in counts) and any(abs(o - 3) < 0.1 for o in off)


def _seeds(source: SourceFile, problem: Problem) -> bool:
    """Whether readings of a clock are mixed to get some number: seed = now.tv_sec + now.tv_usec."""
    said = source.statement(problem.node).text if problem.kind == "mixed" else ""
    return (
        re.search(r"(?<![a-z])(seed|s?rand|hash|key|getpid|uniq\w*|salt)", said[:400], re.I)
        is not None
    )


def _trips(source: SourceFile) -> Iterator[float]:
    """How often the loops over a literal range run."""
    for call in source.scopes.calls:
        given = positional(call)
        if last_segment(callee_text(call)) in ("range", "trange") and len(given) == 1:
            number = literal(given[0].text) if given[0].kind == "number" else None
            if number is not None and number.value > 1:
                yield number.value


def _converts(factor: float) -> bool:
    """Whether a factor is a power of 1000, and so converts a unit by itself."""
    exponent = math.log10(factor) / 3
    return abs(exponent - round(exponent)) < 1e-6


def _shorten(text: str) -> str:
    shown = re.sub(r"\s+", " ", text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


_LONGEST = 60  # characters of the code in a message


def _message(problem: Problem) -> str:
    unit = unit_name(problem.value)
    if problem.kind != "mixed" and problem.value.kind == "time" and not problem.value.usual:
        unit += ", as if converted twice or the wrong way"
    shown = _shorten(problem.node.text)
    if problem.kind == "factor":
        return f"`{shown}` converts a time by 1024; units of time differ by 1000"
    if problem.kind == "label":
        assert problem.label is not None
        where = f"the name `{problem.name}`" if problem.name else "the text beside it"
        return MESSAGE.format(shown=shown, unit=unit, claim=f"{where} says `{problem.label.text}`")
    assert problem.other is not None
    other = unit_name(problem.other)
    claims = {
        "mixed": f"it meets a time in {other} here without conversion",
        "paths": f"on another path the same value is in {other}",
        "returns": f"the function returns {other} on another path",
    }
    if problem.kind == "mixed":
        return f"`{shown}` puts {unit} and {other} together without converting one"
    return MESSAGE.format(shown=shown, unit=unit, claim=claims[problem.kind])

"""A time is divided by, or a rate is computed from, a number of steps that were not timed.

## What it does
Reports a quotient of a measured time and a count where the loop in the measured region runs another
number of times: from a first step other than 0, or with the warm-up, while the count is the last
step or the repetitions alone; up to and with its bound; another constant than the loop's; the
number of all steps where the clock starts in a later one, or anew in each; a number that is
multiplied behind the loop. Also a sum of samples that leaves the first out, is of a part of the
list, or holds the last twice, over the number of all; one batch over the time of many steps; the
whole length of what `generate()` of a causal language model returns, the prompt with it, as
generated tokens, and a prompt that is added to itself; and rates over a region that also sleeps.

## Why it misleads
A run that resumes at step 9000 of 10000 and divides 10000 steps by the time of 1000 reports ten
times the throughput. Work that is counted but not timed, or timed but not counted, scales the
figure by a factor that nothing in the output shows.

## Known problems
Only loops over `range` and counted `for` loops are understood, and only where the region holds one
of them. A power of 1000 is taken for a conversion of units. Where another time is taken off first,
it may be that of the steps which do not count: nothing is reported.

## Example
```python
import time
import torch

torch.cuda.synchronize()
start = time.perf_counter()
for step in range(first, last):
    train_step(step)
torch.cuda.synchronize()
seconds = time.perf_counter() - start
print("samples/s", last * batch_size / seconds)
```

```cuda
cudaEventRecord(start);
for (int i = 0; i < 200; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(stop);
cudaEventSynchronize(stop);
cudaEventElapsedTime(&elapsed_ms, start, stop);
printf("%f ms\\n", elapsed_ms / 100);
```

## Use instead
```python
import time
import torch

for step in range(first, first + 10):
    train_step(step)
torch.cuda.synchronize()
start = time.perf_counter()
for step in range(first + 10, last):
    train_step(step)
torch.cuda.synchronize()
seconds = time.perf_counter() - start
print("samples/s", (last - first - 10) * batch_size / seconds)
```

```cuda
for (int i = 0; i < 20; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(start);
for (int i = 0; i < 200; ++i) kernel<<<grid, block>>>(x);
cudaEventRecord(stop);
cudaEventSynchronize(stop);
cudaEventElapsedTime(&elapsed_ms, start, stop);
printf("%f ms\\n", elapsed_ms / 200);
```
"""

import math
import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.scopes import (
    base_name,
    callee_text,
    loop_body,
    operator,
    positional,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates, step_counts
from perf_timing.lint.figures.quotients import (
    CountedLoop,
    Quotient,
    counted_loop,
    integer,
    is_product,
    named,
    operator_between,
    quotients,
)
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.warmup import warmups
from perf_timing.lint.work import unseen, workload

CODE = "TIM502"
LABEL = "COUNT"
DEFAULT = True
SEVERITY = "error"
LANGUAGES = ("python", "cuda")
MESSAGE = "the loop on line {line} runs {times} times, but {count} are counted"
NOTE = (
    "Count what ran between the two readings: last - first steps, a counter in the loop, or the"
    " length of the output less that of the prompt."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Quotients whose count is not that of the measured loop."""
    seen: set[int] = set()
    yield from _of_parts(source)
    for region in source.regions.all:
        if region.kind not in ("clock", "event"):
            continue
        if region.cumulative or region.carried:
            yield from _of_one_batch(source, region, seen)
        if region.cumulative:
            continue
        if not (workload.works(region) or unseen.works(source, region)):
            continue
        loops = _loops(region)
        summed = [(q, _fault_of_sum(source, q)) for q in quotients(source, region, sums=True)]
        plain = [(q, _fault(source, q, loops)) for q in quotients(source, region)]
        for quotient, message in (*plain, *summed):
            if id(quotient.node) in seen:
                continue
            if message:
                seen.add(id(quotient.node))
                related = ((region.start, "timed from here"), (region.end, "to here"))
                yield Report(quotient.node, message, related=related)


def _of_one_batch(source: SourceFile, region: Region, seen: set[int]) -> Iterator[Report]:
    for quotient in quotients(source, region) if source.language == "python" else ():
        fault = step_counts.of_one_batch(source, quotient)
        if fault and id(quotient.node) not in seen:
            seen.add(id(quotient.node))
            yield Report(quotient.node, fault, related=((region.start, "timed from here"),))


def _of_parts(source: SourceFile) -> Iterator[Report]:
    """Means of a part of the samples over the number of all: sum(times[10:]) / len(times)."""
    regions = [g for g in source.regions.all if g.kind in ("clock", "event")]
    listed = {name for region in regions for name in fates.fate(source, region).lists}
    for node in source.tree.of_kind("binary") if listed else ():
        fault = step_counts.of_part(node, listed) if is_product(node) else ""
        if fault:
            yield Report(node, fault)


def _loops(region: Region) -> list[Node]:
    """The loops of the measured region in its own scope."""
    return [
        node for node in region.scope.nodes if node.kind in ("for", "while") and region.holds(node)
    ]


def _fault_of_sum(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong with the number of samples that a sum of them is told over."""
    if not quotient.counts:
        return ""
    return step_counts.added_twice(source, quotient) or step_counts.of_samples(source, quotient)


def _less_others(source: SourceFile, quotient: Quotient) -> bool:
    """Whether a time is taken off before the division: that of steps which are not counted.

    took = end - start - first_ten; ms -= ms_of_ten; then took / runs.
    """
    region = quotient.region
    names = set(fates.fate(source, region).names)
    if region.kind == "event" and source.language == "cuda" and positional(region.delta):
        names.add(base_name(positional(region.delta)[0].text))
    return any(
        operator(node) in ("-", "-=")
        and (node.children[0] is region.delta or target_key(node.children[0]) in names)
        for node in source.scopes.scope_of(region.delta).nodes
        if node.kind in ("binary", "augassign", "assign")
        and region.delta.start <= node.start
        and node.end <= quotient.node.end
        and len(node.children) > 1
    )


def _fault(source: SourceFile, quotient: Quotient, loops: list[Node]) -> str:
    if not quotient.counts or _less_others(source, quotient):
        return ""
    if quotient.rate and _sleeps(quotient.region):
        return "the region also sleeps; this rate divides the work by a time that holds the pauses"
    late = _late(source, quotient) or _with_prompt(source, quotient)
    late = late or step_counts.restarted(source, quotient) or _prompt_twice(source, quotient)
    if late:
        return late
    outer = [
        n
        for n in loops
        if not any(o is not n and o.start <= n.start and n.end <= o.end for o in loops)
    ]
    if len(outer) != 1:
        return ""
    counted = counted_loop(outer[0])
    if any(n.kind == "jump" and n.text == "break" for n in outer[0].walk()):
        return ""
    fault = step_counts.of_window(source, quotient, outer[0]) if len(loops) == 1 else ""
    if fault or counted is None:
        return fault
    return (
        _from_first(source, quotient, counted)
        or _changed(source, quotient, counted)
        or _constant(source, quotient, counted, loops)
    )


def _with_prompt(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where the tokens that generate() returns are counted as those it generated.

    A causal language model of Transformers returns the prompt before them.
    """
    text = source.tree.text
    if source.language != "python" or not _CAUSAL.search(text) or _ENCODES.search(text):
        return ""
    scope = quotient.region.scope
    for count in quotient.counts:
        values = [v for _, v in source.scopes.assignments(count.text, scope)] or [count]
        if len(values) != 1 or (count.kind == "name" and _OF_ALL.search(count.text)):
            continue
        told = _LENGTH.fullmatch(squeeze(values[0].text))
        name = next((n for n in told.groups() if n), "") if told else ""
        made = [v for _, v in source.scopes.assignments(name, scope)] if name else []
        if made and all(_generates(quotient.region, v) for v in made if v.start < count.start):
            return (
                f"what generate() returns on line {made[-1].line} begins with the prompt, and its"
                " whole length is counted as generated tokens"
            )
    return ""


def _prompt_twice(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where the tokens of the prompt are added to themselves."""
    scope = quotient.region.scope
    values = [v for n in quotient.counts for _, v in source.scopes.assignments(n.text, scope)]
    for node in (n for value in (*quotient.counts, *values) for n in value.walk()):
        if node.kind == "binary" and operator_between(node) == "+":
            one, two = (squeeze(child.text) for child in node.children)
            if one == two and _PROMPT.search(one):
                return f"`{one}` is added to itself on line {node.line}, and no other tokens are"
    return ""


_PROMPT = re.compile(
    r"(^|[._])(in|input|prompt|context|prefill|src|out|output|gen|generated|decode|new)_?"
    r"(len|length|tokens?|seq_?len)$"
)


def _generates(region: Region, value: Node) -> bool:
    """Whether a value is what generate() returns in the region, or the first sequence of it."""
    call = value.children[0] if re.search(r"\)\[0\]$", value.text) else value
    return (
        call.kind == "call"
        and callee_text(call).endswith(".generate")
        and "inputs_embeds" not in call.text
        and region.holds(call)
    )


_CAUSAL = re.compile(r"\b\w*(ForCausalLM|LMHeadModel)\b")
_ENCODES = re.compile(r"Seq2Seq|ForConditionalGeneration|encoder_decoder|\b(llm|vllm)\.generate\(")
_OF_ALL = re.compile(r"total|all_|prompt|input|seq_?len|length", re.IGNORECASE)
_LENGTH = re.compile(
    r"(?:int\()?(?:len\((\w+)(?:\.sequences)?(?:\[0\])?\)"
    r"|(\w+)(?:\.sequences)?(?:\.shape\[(?:1|-1)\]|\.size\((?:dim=)?(?:1|-1)\)"
    r"|\[0\]\.shape\[(?:0|-1)\]|\[0\]\.size\((?:0|-1)\)|\[0\]\.numel\(\)|\.numel\(\)))\)?"
)


def _late(source: SourceFile, quotient: Quotient) -> str:
    """What is wrong where the clock starts in a later step of the loop, and all steps count."""
    started = warmups.late_start(quotient.region)
    counted = counted_loop(started[0]) if started is not None else None
    if started is None or counted is None or counted.first is not None:
        return ""
    first, last = started[1], squeeze(counted.last.text)
    names = named(source, quotient.counts, quotient.region.scope, arithmetic=True)
    texts = [n.text for n in quotient.counts]
    for count in quotient.counts:
        if count.kind == "name":
            values = source.scopes.assignments(count.text, quotient.region.scope)
            texts += [value.text for _, value in values]
    told = last in names and first not in names and not any("-" in text for text in texts)
    if not (told and counted.last.kind == "name"):
        return ""
    return MESSAGE.format(line=started[0].line, times=f"{last} - {first}", count=last) + _FROM


_FROM = " (the clock starts in a later step)"


def _changed(source: SourceFile, quotient: Quotient, loop: CountedLoop) -> str:
    """What is wrong where the number of steps is multiplied between the loop and the quotient."""
    region, last = quotient.region, loop.last
    if last.kind != "name" or not any(n.text == last.text for n in quotient.counts):
        return ""
    factors = {n.text for n in (*quotient.above, *quotient.below) if n.kind == "number"}
    for node in region.scope.nodes:
        if (
            node.kind == "augassign"
            and region.end.end <= node.start < quotient.node.start
            and node.children[0].text == last.text
            and operator_between(node) in ("*=", "+=")
            and node.children[-1].text not in factors
            and not _set_anew(source, quotient, last.text, node.end)
        ):
            return (
                f"the loop on line {loop.node.line} ran {last.text} times before line"
                f" {node.line} changed that; the new count is not what was timed"
            )
    return ""


def _sleeps(region: Region) -> bool:
    return any(r.SLEEP in step.roles and region.inner_loops(step.node) for step in region.steps)


def _set_anew(source: SourceFile, quotient: Quotient, count: str, after: int) -> bool:
    """Whether the count or the time is set to something else on the way to the quotient."""
    names = {count, *fates.fate(source, quotient.region).names}
    return any(
        node.kind == "assign"
        and after <= node.start < node.end <= quotient.node.start
        and any(n.text in names for n in node.children[0].walk())
        for node in quotient.region.scope.nodes
    )


def _from_first(source: SourceFile, quotient: Quotient, loop: CountedLoop) -> str:
    if loop.first is None or loop.first.kind not in ("name", "number") or loop.last.kind != "name":
        return ""
    scope = quotient.region.scope
    last = squeeze(loop.last.text)
    direct = {squeeze(n.text) for n in quotient.counts if n.kind == "name"}
    if last not in direct:
        return ""
    if loop.first.kind == "name" and loop.first.text in named(source, quotient.counts, scope):
        return ""
    first = integer(source, loop.first, scope)
    if first == 0 or (first is None and loop.first.kind == "number"):
        return ""
    if _ran_outside(quotient.region, loop.node):
        return ""
    times = f"{last} - {squeeze(loop.first.text)}"
    return MESSAGE.format(line=loop.node.line, times=times, count=last)


def _ran_outside(region: Region, loop: Node) -> bool:
    """Whether a statement of the loop stands in the region once more, for the first steps."""
    body = loop_body(loop)
    repeated = {squeeze(n.text) for n in body.children if n.kind == "call"} if body else set()
    return any(
        n.kind == "call"
        and squeeze(n.text) in repeated
        and region.holds(n)
        and not loop.start <= n.start < loop.end
        for n in region.scope.nodes
    )


def _constant(source: SourceFile, quotient: Quotient, loop: CountedLoop, loops: list[Node]) -> str:
    if quotient.rate or len(loops) != 1 or loop.first is not None or len(quotient.below) != 1:
        return ""
    if any(n.kind != "number" for n in quotient.above):
        return ""
    scope = quotient.region.scope
    ran = integer(source, loop.last, scope)
    counted = integer(source, quotient.below[0], scope)
    if ran is None or counted is None or ran == counted or counted < 2 or ran < 2:
        return ""
    if any(_is_power_of_ten(n) for n in (counted, *(f for f in (counted / ran,) if f > 1))):
        # A conversion of units, or one in the same factor as the count: / 100000 for 100 calls.
        return ""
    return MESSAGE.format(line=loop.node.line, times=ran, count=counted)


def _is_power_of_ten(value: float) -> bool:
    exponent = math.log10(value)
    return exponent >= 2.9 and abs(exponent - round(exponent)) < 1e-9

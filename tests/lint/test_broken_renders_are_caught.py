"""Rendered code that is broken on purpose: the rule for that mistake reports it.

Each row takes a text out of the code that a scenario renders and puts another in its place. Rows of
`NOT_CAUGHT` are mistakes that no fair mechanism can tell from right code; the reason stands there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.model import Unit
from perf_timing.render import engine, scenarios

SCENARIOS = scenarios.load_all()
Form = tuple[tuple[str, Any], ...]
FULL: Form = ()
SHORT: Form = (("minimal", True),)


class Break(NamedTuple):
    """`old` of a form of a scenario becomes `new`; `rule` is to report that."""

    what: str
    scenario: str
    form: Form
    old: str
    new: str
    rule: str

    @property
    def sentence(self) -> str:
        size = "short" if ("minimal", True) in self.form else "full"
        more = "".join(f" {value}" for key, value in self.form if key != "minimal")
        return f"{self.what} in the {size} form of {self.scenario}{more} is {self.rule}"


# What is put into the measured stretch: (what, Python, C++, rule).
INTRUDERS = (
    (
        "an allocation that is measured",
        'torch.empty(4096, 4096, device="cuda")',
        "float* extra = nullptr; CHECK(cudaMalloc(&extra, 1024));",
        "allocation-in-measured-region",
    ),
    (
        "a wait for each call",
        "torch.cuda.synchronize()",
        "CHECK(cudaDeviceSynchronize());",
        "sync-in-measured-loop",
    ),
    (
        "a print for each call",
        'print("call")',
        'std::printf("launch\\n");',
        "io-in-measured-region",
    ),
)
# Where a call is measured: (scenario, form, text, indentation, what runs there).
MEASURED = (
    ("simple-event", SHORT, "for _ in range(iterations):\n    call()\n", "    ", "call()"),
    ("detailed-event", SHORT, "    start.record()\n    call()\n", "    ", "call()"),
    ("cuda-graph", SHORT, "for _ in range(10):\n    graph.replay()\n", "    ", "graph.replay()"),
    (
        "simple-event",
        FULL,
        "    start.record()\n    for _ in range(count):\n        call()\n",
        "        ",
        "call()",
    ),
    ("detailed-event", FULL, "        start.record()\n        call()\n", "        ", "call()"),
)
# One replay is measured there: the intruder comes with a loop.
REPLAYED = (
    ("compare", SHORT, "    "),
    ("cute", SHORT, ""),
    ("cuda-graph", FULL, "    "),
    ("compare", FULL, "    "),
    ("cute", FULL, "    "),
)
QUEUED = "    CHECK(cudaEventRecord(start, stream));\n    queue();\n"
CUDA_LOOP = "  for (int i = 0; i < iterations; ++i) {\n"


def intruders() -> Iterator[Break]:
    for what, python, cpp, rule in INTRUDERS:
        for scenario, form, text, indent, call in MEASURED:
            new = text.replace(f"{indent}{call}\n", f"{indent}{python}\n{indent}{call}\n")
            yield Break(what, scenario, form, text, new, rule)
        for scenario, form, indent in REPLAYED:
            old = f"{indent}start.record()\n{indent}graph.replay()\n"
            body = f"{indent}    {python}\n{indent}    graph.replay()\n"
            new = f"{indent}start.record()\n{indent}for _ in range(10):\n{body}"
            yield Break(what, scenario, form, old, new, rule)
        body = f"{{\n      {cpp}\n      queue();\n    }}\n"
        new = QUEUED.replace("queue();\n", f"for (int i = 0; i < 10; ++i) {body}")
        yield Break(what, "raw-cuda", FULL, QUEUED, new, rule)
        new = f"{CUDA_LOOP}    {cpp}\n"
        yield Break(what, "raw-cuda", SHORT, CUDA_LOOP, new, rule)


# The record of the end event: (scenario, form, the line before it, its indentation).
ENDS = (
    ("simple-event", SHORT, "    call()\n", ""),
    ("detailed-event", SHORT, "    call()\n", "    "),
    ("cuda-graph", SHORT, "    graph.replay()\n", ""),
    ("compare", SHORT, "    graph.replay()\n", "    "),
    ("cute", SHORT, "graph.replay()\n", ""),
    ("simple-event", FULL, "        call()\n", "    "),
    ("detailed-event", FULL, "        call()\n", "        "),
    ("cuda-graph", FULL, "    graph.replay()\n", "    "),
    ("compare", FULL, "    graph.replay()\n", "    "),
    ("cute", FULL, "    graph.replay()\n", "    "),
)


def events() -> Iterator[Break]:
    for scenario, form, before, indent in ENDS:
        old = f"{before}{indent}end.record()\n"
        yield Break(
            "an end event that is not recorded", scenario, form, old, before, "event-never-recorded"
        )
        new = f"{before}{indent}end.record(torch.cuda.Stream())\n"
        what = "an end event on another stream"
        yield Break(what, scenario, form, old, new, "wrong-stream")
        timed = "torch.cuda.Event(enable_timing=True)"
        what = "an event without timing"
        yield Break(what, scenario, form, timed, "torch.cuda.Event()", "event-without-timing")
        old = "start.elapsed_time(end) * 1e3"
        what = "a factor that is missing"
        yield Break(what, scenario, form, old, "start.elapsed_time(end)", "unit-mismatch")
    record = "  CHECK(cudaEventRecord(end, stream));\n"
    what = "an end event that is not recorded"
    yield Break(what, "raw-cuda", SHORT, record, "", "event-never-recorded")
    other = "  cudaStream_t other;\n  CHECK(cudaStreamCreate(&other));\n"
    new = other + record.replace("stream", "other")
    yield Break("an end event on another stream", "raw-cuda", SHORT, record, new, "wrong-stream")
    record = "    CHECK(cudaEventRecord(end, stream));\n"
    what = "an end event on another stream"
    yield Break(what, "raw-cuda", FULL, record, record.replace("stream", "0"), "wrong-stream")
    what = "a factor that is missing"
    old, new = "return 1e3 * elapsed_ms;", "return elapsed_ms;"
    yield Break(what, "raw-cuda", FULL, old, new, "unit-mismatch")
    old = "1e3 * elapsed_ms"
    what = "a factor that is missing"
    yield Break(what, "raw-cuda", SHORT, old, "elapsed_ms", "unit-mismatch")


def waits() -> Iterator[Break]:
    for scenario, form, before, indent in ENDS:
        hidden = f"{indent}hidden = not spun.query()\n" if scenario == "simple-event" else ""
        if form == FULL:
            tail = f"{indent}_queue_tail()\n" if scenario == "simple-event" else ""
            hidden = f"{tail}{indent}hidden = not opened.query()\n"
        wait = f"{indent}end.synchronize()\n"
        if scenario == "detailed-event":
            hidden, wait = "", "    ends[-1].synchronize()\n" if form == FULL else wait.lstrip()
            before, indent, record = "", "", ""
        else:
            record = f"{before}{indent}end.record()\n"
        old = f"{record}{hidden}{wait}"
        yield Break(
            "a wait that is missing", scenario, form, old, record + hidden, "elapsed-before-sync"
        )
    wait = "  CHECK(cudaEventSynchronize(end));\n"
    what = "a wait that is missing"
    yield Break(what, "raw-cuda", SHORT, wait, "", "elapsed-before-sync")
    wait = "    CHECK(cudaEventSynchronize(end));\n"
    yield Break(what, "raw-cuda", FULL, wait, "", "elapsed-before-sync")
    wait = "torch.cuda.synchronize()\n"
    yield Break(what, "loop", SHORT, wait, "", "elapsed-before-sync")
    wait = "    torch.cuda.synchronize()  # every step"
    sync: Form = (*SHORT, ("method", "sync"))
    yield Break(what, "loop", sync, wait, "    # every step", "host-clock-without-sync")


WARM_UP = "for _ in range(50):  # warm-up: compilation, autotuning, clocks\n    call()\n"
OTHERS = (
    Break("a warm-up that is missing", "simple-event", SHORT, WARM_UP, "", "missing-warmup"),
    Break(
        "a warm-up that is missing",
        "raw-cuda",
        SHORT,
        "  for (int i = 0; i < 50; ++i) {  // warm-up: module load, clocks\n"
        "    block_sum<<<1024, 256, 0, stream>>>(x, total, n);\n  }\n",
        "",
        "missing-warmup",
    ),
    Break(
        "a capture of work that has not run",
        "cuda-graph",
        SHORT,
        "    for _ in range(50):  # warm-up: compilation, autotuning, clocks\n        call()\n",
        "    pass\n",
        "graph-without-warmup",
    ),
    Break(
        "a capture of work that has not run",
        "compare",
        SHORT,
        "        for _ in range(50):  # warm-up\n            call()\n",
        "        pass\n",
        "graph-without-warmup",
    ),
    Break(
        "a capture of work that has not run",
        "cute",
        SHORT,
        "    for _ in range(50):  # warm-up\n        compiled(a, b, c, stream)\n",
        "",
        "graph-without-warmup",
    ),
    Break(
        "a label with another unit",
        "simple-event",
        SHORT,
        " us a call, mean",
        " ms a call, mean",
        "unit-mismatch",
    ),
    Break(
        "a factor that is missing", "triton", SHORT, "median_ms * 1e3", "median_ms", "unit-mismatch"
    ),
    Break(
        "a factor too many",
        "kernel-time",
        SHORT,
        "    us = row.self_device_time_total / calls\n",
        "    us = row.self_device_time_total / 1e3 / calls\n",
        "unit-mismatch",
    ),
    Break(
        "a factor that is missing",
        "loop",
        SHORT,
        "statistics.fmean(waits) * 1e3",
        "statistics.fmean(waits)",
        "unit-mismatch",
    ),
    Break(
        "a report of the mean alone",
        "detailed-event",
        SHORT,
        'print(f"{times_us[50]:.2f} us a call, median of {len(times_us)}, warm; ", end="")\n'
        'print(f"5 to 95 %: {times_us[5]:.2f} to {times_us[94]:.2f} us (3 us are the events\')")\n',
        'print(f"{sum(times_us) / len(times_us):.2f} us a call")\n',
        "mean-only-report",
    ),
    Break(
        "a compilation that is measured",
        "cute",
        SHORT,
        "start.record()\ngraph.replay()\n",
        "start.record()\ncompiled = cutlass.cute.compile(add, a, b, c, stream)\ngraph.replay()\n",
        "compile-in-measured-region",
    ),
    Break(
        "a first call of the jitted function that is measured",
        "cute",
        SHORT,
        "start.record()\ngraph.replay()\n",
        "start.record()\nadd(a, b, c, stream)\n",
        "uncompiled-cute-call",
    ),
    Break(
        "a call of the jitted function instead of the compiled one",
        "cute",
        (("method", "event"),),
        "        return compiled(*values, **named)\n",
        "        return add(*values, **named)\n",
        "uncompiled-cute-call",
    ),
    Break(
        "a wait for each step",
        "loop",
        SHORT,
        "    events[step + 1].record()",
        "    torch.cuda.synchronize()\n    events[step + 1].record()",
        "sync-in-measured-loop",
    ),
    Break(
        "a data wait that starts after the fetch",
        "loop",
        SHORT,
        "    fetched_from = time.perf_counter()\n    batch = next(batches)\n",
        "    batch = next(batches)\n    fetched_from = time.perf_counter()\n",
        "misattributed-data-wait",
    ),
)
# (why no fair mechanism can catch it, the break)
NOT_CAUGHT = (
    (
        "the median, p5 and p95 of a hundred samples do not move when the first one is cold",
        Break("a warm-up that is missing", "detailed-event", SHORT, WARM_UP, "", "missing-warmup"),
    ),
    (
        "the host time, waits and streams of the call are probed before: it has run often by then",
        Break(
            "a warm-up that is missing",
            "simple-event",
            FULL,
            "    warmup = _warm_up(_call, before)\n",
            "    warmup = {}\n",
            "missing-warmup",
        ),
    ),
    (
        "what a function returns is its result: that it is new each time may be what is compared",
        Break(
            "an allocation of the result in the call",
            "simple-event",
            SHORT,
            "    return torch.matmul(a, b, out=c)\n",
            '    c = torch.empty(4096, 4096, device="cuda")\n'
            "    return torch.matmul(a, b, out=c)\n",
            "allocation-in-measured-region",
        ),
    ),
    (
        "do_bench prints one statistic for everybody: that it is a mean is its documented default",
        Break(
            "a report of the mean alone",
            "triton",
            SHORT,
            ', return_mode="median"',
            "",
            "mean-only-report",
        ),
    ),
    (
        "do_bench itself calls the function before it measures",
        Break(
            "a warm-up that is missing",
            "triton",
            SHORT,
            "call()  # compiles and autotunes\n",
            "",
            "missing-warmup",
        ),
    ),
    (
        "torch.profiler waits for the device itself when its block ends",
        Break(
            "a wait that is missing",
            "kernel-time",
            SHORT,
            "        torch.cuda.synchronize()\n",
            "",
            "host-clock-without-sync",
        ),
    ),
)
CAUGHT = (*intruders(), *events(), *waits(), *OTHERS)


@functools.cache
def rendered(scenario: str, form: Form) -> str:
    return engine.render(SCENARIOS[scenario], dict(form))


@functools.cache
def reported() -> dict[Break, set[str]]:
    """The names of the default rules that report something in each broken render."""
    breaks = [*CAUGHT, *(row for _, row in NOT_CAUGHT)]
    units, found = {}, {}
    for number, row in enumerate(breaks):
        suffix = SCENARIOS[row.scenario].language
        code = rendered(row.scenario, row.form).replace(row.old, row.new)
        language = "cuda" if suffix == "cu" else "python"
        units[row] = Unit(f"bench_{number:03d}.{suffix}", language, code)
    result = check.check(list(units.values()), [r for r in catalog.load_rules() if r.default])
    assert not result.unchecked
    for row, unit in units.items():
        found[row] = {f.rule for f in result.findings if f.path == unit.path}
    return found


@pytest.mark.parametrize("row", CAUGHT, ids=lambda row: row.sentence)
def test_mistake_is_reported(row: Break) -> None:
    assert row.old in rendered(row.scenario, row.form)
    assert row.rule in reported()[row]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.xfail(strict=True, reason=why))
        for why, row in NOT_CAUGHT
    ],
    ids=lambda row: row.sentence,
)
def test_mistake_that_cannot_be_told_from_right_code(row: Break) -> None:
    assert row.rule in reported()[row]


@pytest.mark.parametrize("row", [row for _, row in NOT_CAUGHT], ids=lambda row: row.sentence)
def test_text_of_what_is_not_caught_is_in_the_render(row: Break) -> None:
    assert row.old in rendered(row.scenario, row.form)


def test_each_sentence_is_told_once() -> None:
    sentences = [row.sentence for row in (*CAUGHT, *(row for _, row in NOT_CAUGHT))]
    assert len(set(sentences)) == len(sentences)

"""What is told by words alone is told of every text in which the engine finds a measurement."""

from pathlib import Path

import pytest
import yaml
from perf_timing.lint import engine, facts
from perf_timing.lint.catalog import load_rules
from perf_timing.lint.files import evidence
from perf_timing.lint.model import Unit
from perf_timing.lint.parsing import astgrep

EXAMPLES = Path(__file__).resolve().parents[1] / "rules"
LANGUAGES = {
    "invalid": "python",
    "valid": "python",
    "invalid-cuda": "cuda",
    "valid-cuda": "cuda",
}


def snippets() -> list[tuple[str, str]]:
    """(language, code) of every example of every rule, good and bad."""
    found = [block for rule in load_rules() for block in (*rule.examples, *rule.replacements)]
    for path in sorted(EXAMPLES.glob("*.yml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        for kind, language in LANGUAGES.items():
            found += [(language, code) for code in (data.get(kind) or {}).values()]
    return found


def test_every_measurement_that_the_engine_finds_is_told_by_words() -> None:
    given = snippets()
    sources = [astgrep.Source(language, code) for language, code in given]
    documents = "\n---\n".join(map(facts.documents, sorted({language for language, _ in given})))
    measured = 0
    for (language, code), scan in zip(given, astgrep.scan(sources, documents), strict=True):
        tree = facts.build_tree(code, language, scan.matches)
        source = engine.SourceFile(Unit("x", language, code), tree)
        if source.regions.all or source.regions.pairs or source.regions.harnessed:
            measured += 1
            assert evidence.measures(code, language), code
    assert measured > 500


START = "import time\nimport torch\n\n\n"
MEASURES = {
    "a difference of two readings": "t = time.time()\nf()\nprint(time.time() - t)\n",
    "readings that a function hands on": (
        "def step():\n    t0 = time.time()\n    f()\n    t1 = time.time()\n    return t0, t1\n"
    ),
    "readings in two methods": (
        "class Timer:\n    def __enter__(self):\n        self.t0 = time.perf_counter()\n\n"
        "    def __exit__(self, *args):\n        self.s = time.perf_counter() - self.t0\n"
    ),
    "a clock under another name": (
        "from timeit import default_timer as clock\nt = clock()\nf()\nprint(clock() - t)\n"
    ),
    "a function that returns a reading": (
        "def now():\n    torch.cuda.synchronize()\n    return time.perf_counter()\n\n\n"
        "begun = now()\nf()\nprint(now() - begun)\n"
    ),
    "readings in a dictionary": (
        'times = {}\ntimes["a"] = time.time()\nf()\nprint(time.time() - times["a"])\n'
    ),
    "a difference over two lines": (
        "begun = time.time()\nf()\nspent = (\n    time.time()\n    - begun\n)\n"
    ),
    "a reading that is scaled": (
        "begun = time.time() * 1000\nf()\nended = time.time() * 1000\nprint(ended - begun)\n"
    ),
    "the time between events": "f()\nprint(start.elapsed_time(end))\n",
    "a helper that is given a function": "def op():\n    f()\n\n\nprint(do_bench(op))\n",
    "a helper that is given a lambda": "measure_ms(lambda: f())\n",
    "a stopwatch of the file": (
        "class Timer:\n    def start(self):\n        self.event.record()\n\n\n"
        "timer = Timer()\ntimer.start()\nf()\ntimer.stop()\n"
    ),
}
MEASURES_NOTHING = {
    "no clock": "x = torch.ones(3)\nprint(x - 1)\n",
    "a time that is only logged": "print(time.time(), x - y)\n",
    "a deadline": "end = time.time() + 5\nwhile time.time() < end:\n    f()\n",
    "a time limit": "t = time.time()\nwhile time.time() - t < 5:\n    f()\n",
    "a reading among the arguments": "when = load(time.time())\nx = when - 1\n",
    "a helper that is given no function": "model.profile(enabled)\n",
    "a list that begins": "timer = torch.ones(3)\nfor x in range(timer.begin):\n    f()\n",
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measurement_is_told(name: str) -> None:
    assert evidence.measures(START + MEASURES[name], "python")


@pytest.mark.parametrize("name", MEASURES_NOTHING)
def test_what_measures_nothing_is_left_out(name: str) -> None:
    assert not evidence.measures(START + MEASURES_NOTHING[name], "python")


CUDA = {
    "the time between events": ("cudaEventElapsedTime(&ms, start, stop);", True),
    "a reading of chrono": ("auto t = std::chrono::steady_clock::now();", True),
    "a helper of another file": ("double t = cpuSecond();", True),
    "a stopwatch by its type": ("GpuTimer watch; watch.Start(); f(); watch.Stop();", True),
    "a kernel launch": ("kernel<<<1, 32>>>(x);", False),
    "iterators": ("for (auto it = xs.begin(); it != xs.end(); ++it) use(*it);", False),
    "words that only contain one": ("// collapsed(x), synchronous\nint x = unknown(y);", False),
}


@pytest.mark.parametrize("name", CUDA)
def test_cuda_code(name: str) -> None:
    code, measures = CUDA[name]
    assert evidence.measures(f"void f() {{\n  {code}\n}}\n", "cuda") == measures


def test_a_trigger_of_several_patterns_needs_all_of_them() -> None:
    trigger = ("nvtx", r"range_push\(")
    assert evidence.triggers(trigger, "nvtx.range_push('x')", "python")
    assert not evidence.triggers(trigger, "nvtx.mark('x')", "python")
    assert not evidence.triggers(trigger, "torch.range_push('x')", "python")

"""What is left out before ast-grep sees it can hold nothing that a rule reports."""

import os
import re
from pathlib import Path

import pytest
import yaml
from perf_timing.lint.catalog import load_rules
from perf_timing.lint.check import check
from perf_timing.lint.files.evidence import triggers
from perf_timing.lint.files.prefilter import may_match
from perf_timing.lint.model import Finding, Unit
from perf_timing.lint.parsing.elide import elide

RULES = load_rules()
EXAMPLES = Path(__file__).resolve().parents[1] / "rules"
FILLER = "".join(f"def filler_{i}(x):\n    y = x + {i}\n    return y * 2\n\n\n" for i in range(90))


def invalid() -> list[tuple[str, str, str, str]]:
    """(rule, title, language, code) of every snippet that a rule must report."""
    found = []
    for rule in RULES:
        blocks = enumerate(rule.examples)
        found += [(rule.name, f"example {i}", language, code) for i, (language, code) in blocks]
        path = EXAMPLES / f"{rule.name}.yml"
        data = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
        for kind, language in (("invalid", "python"), ("invalid-cuda", "cuda")):
            for title, code in (data.get(kind) or {}).items():
                found.append((rule.name, title, language, code))
    return found


def places(language: str, text: str) -> list[tuple[int, str, str]]:
    found: tuple[Finding, ...] = check([Unit("x", language, text)], RULES).findings
    return [(f.line, f.rule, f.message) for f in found]


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_every_reported_snippet_passes_the_filter(rule: str) -> None:
    for name, title, language, code in invalid():
        if name == rule:
            assert may_match(code.encode("utf-8"), language), title


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_blanking_changes_no_finding(rule: str) -> None:
    for name, title, language, code in invalid():
        if name == rule and language == "python":
            whole = code.rstrip("\n") + "\n\n\n" + FILLER
            part = elide(whole)
            assert part != whole, title
            assert places("python", part) == places("python", whole), title


def test_blanking_changes_no_finding_about_ranges_of_helpers() -> None:
    changed = 0
    for name, title, language, code in invalid():
        if name == "nvtx-unbalanced" and language == "python":
            helpers = re.sub(r"[\w.]*range_(push|pop)\b|[\w.]*\b(push|pop)_range\b",
                             lambda m: f"nvtx_range_{m[1] or m[2]}", code)  # fmt: skip
            changed += helpers != code
            whole = helpers.rstrip("\n") + "\n\n\n" + FILLER
            assert places("python", elide(whole)) == places("python", whole), title
    assert changed > 2


@pytest.mark.parametrize(
    ("pattern", "text", "occurs"),
    [
        ("nvtx|roctx", "a roctx b", True),
        ("nvtx|roctx", "a nvt x", False),
        (r"torch\.utils|cp\.", "torch-utils", False),
        (r"torch\.utils|cp\.", "cp.cuda", True),
        ("torch.utils", "torch-utils", True),
        (r"a\b", "ab", False),
    ],
)
def test_a_choice_of_words_is_searched_for_as_words(pattern: str, text: str, occurs: bool) -> None:
    assert triggers(pattern, text, "python") is occurs


BLANKED = {
    "a function that times nothing": ("def quiet(x):\n    return x\n", False),
    "a function that times": ("def loud(x):\n    t = time.perf_counter()\n    return t\n", True),
    "a class of which nothing times": ("class Quiet:\n    def f(self):\n        return 1\n", False),
    "a suppression": ("def f(x):\n    return x  # lint-timing: ignore[TIM101]\n", True),
    "ranges of helpers that are closed in their block": (
        "def f(x):\n    nvtx_range_push('a')\n    if x:\n        nvtx_range_push('b')\n"
        "        x = g(x)\n        nvtx_range_pop('b')\n    nvtx_range_pop('a')\n    return x\n",
        False,
    ),
    "a range that a way out leaves open": (
        "def f(x):\n    nvtx_range_push('a')\n    if x:\n        return 1\n"
        "    nvtx_range_pop('a')\n    return x\n",
        True,
    ),
    "a range that is popped in another block": (
        "def f(x):\n    nvtx_range_push('a')\n    if x:\n        nvtx_range_pop('a')\n"
        "    return x\n",
        True,
    ),
    "a range that is pushed on one branch": (
        "def f(x):\n    if x:\n        nvtx_range_push('a')\n    else:\n"
        "        nvtx_range_pop('a')\n    return x\n",
        True,
    ),
    "an event in a file that does not read events": (
        "def f():\n    e = make()\n    e.record(s)\n\n\n"
        "def g():\n    t = time.time()\n    return time.time() - t\n",
        True,
    ),
    "events beside closed ranges": (
        "def f(x):\n    nvtx_range_push('a')\n    for i in x:\n"
        "        e = torch.cuda.Event()\n    nvtx_range_pop('a')\n",
        True,
    ),
    "a range of NVTX itself": (
        "def f(x):\n    nvtx.range_push('a')\n    nvtx.range_pop()\n",
        True,
    ),
    "a pop that depends on its push": (
        "def f(x):\n    level = nvtx_range_push('a')\n    if level:\n        nvtx_range_pop()\n",
        True,
    ),
    "code outside of functions": ("x = 1\n", True),
}


@pytest.mark.parametrize("name", BLANKED)
def test_only_what_has_no_part_in_timing_is_blanked(name: str) -> None:
    code, stays = BLANKED[name]
    text = f"import time, torch\n\n\n{code}\n\n{FILLER}"
    assert elide(text).startswith(f"import time, torch\n\n\n{code}") == stays


def test_what_a_measurement_calls_and_what_calls_it_stays() -> None:
    code = (
        "def wait():\n    inner()\n\n\ndef inner():\n    torch.cuda.synchronize()\n\n\n"
        "def bench(fn):\n    t = time.perf_counter()\n    fn()\n    wait()\n    return t\n\n\n"
        "def op(x):\n    return x @ x\n\n\ndef main():\n    bench(lambda: op(1))\n\n\n"
    )
    assert elide(code + FILLER).startswith(code)


def test_of_a_large_file_what_is_far_from_the_measurement_is_blanked() -> None:
    long = "".join(f"    x = x * {i} + 1\n" for i in range(1500))
    near = (
        "def bench(x):\n    t = time.perf_counter()\n    near(x)\n"
        "    return time.perf_counter() - t\n\n\ndef near(x):\n    far(x)\n\n\n"
    )
    assert elide(f"{near}def far(x):\n{long}\n\n{FILLER}").startswith(f"{near}pass")


def test_a_name_inside_of_another_is_no_call() -> None:
    code = (
        "def run():\n    t = time.perf_counter()\n    f()\n    return time.perf_counter() - t\n\n\n"
    )
    quiet = "def quiet(x):\n    prune(x)\n    return running\n\n\n"
    assert elide(code + quiet + 8 * FILLER).startswith(code + "pass")


def test_a_word_in_a_docstring_is_no_function() -> None:
    code = 'def f():\n    """\ndef g():\n    """\n    return time.perf_counter()\n\n\n'
    assert elide(code + FILLER).startswith(code)


def test_corpus_is_the_same_with_and_without_blanking() -> None:
    root = os.environ.get("LINT_TIMING_CORPUS")
    if not root:
        pytest.skip("set LINT_TIMING_CORPUS to a folder of Python files")
    for path in sorted(Path(root).rglob("*.py")):
        text = path.read_bytes().decode("utf-8", "replace")
        if may_match(text.encode("utf-8", "replace"), "python"):
            assert places("python", elide(text)) == places("python", text), path

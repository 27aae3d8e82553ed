"""Spoilt input never gets a traceback: a small share of what fuzz_lint_timing.py runs."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lint.fuzz_lint_timing import check, inputs
from lint.lint_command import run_process
from perf_timing.lint.files.gitignore import IgnoreFile
from perf_timing.lint.files.source import UnreadableError, decode
from perf_timing.lint.model import Unit
from perf_timing.lint.output.suppress import find_directives
from perf_timing.lint.parsing.elide import elide

SLOW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(st.integers(0, 10**9))
def test_mutated_snippets_are_checked_or_named(seed: int) -> None:
    check(inputs(20, seed))


@given(st.binary(max_size=300), st.sampled_from(["python", "cuda", "markdown"]))
def test_any_bytes_are_decoded_or_refused(data: bytes, kind: str) -> None:
    try:
        text = decode(data, kind)
    except UnreadableError:
        return
    assert text.bom + text.text.encode(text.encoding) == data or text.encoding not in (
        "utf-8",
        "latin-1",
    )


@given(st.text(alphabet="def classX():@\n \t\"'#x=1time.()", max_size=6000))
def test_blanking_keeps_every_place(text: str) -> None:
    padded = text + "\n" + "x = 1\n" * 700
    shorter = elide(padded)
    assert len(shorter) == len(padded)
    assert [len(line) for line in shorter.split("\n")] == [len(s) for s in padded.split("\n")]
    for before, after in zip(padded, shorter, strict=True):
        assert before == after or after in " pas"


@given(st.text(alphabet="ab/*?[]!\\#. -^", max_size=12), st.text(alphabet="ab/.", max_size=9))
def test_any_ignore_pattern_is_read(pattern: str, path: str) -> None:
    IgnoreFile([pattern]).decide(path.strip("/") or "a", False)


@given(st.text(max_size=200), st.sampled_from(["python", "cuda"]))
def test_any_comment_is_read(text: str, language: str) -> None:
    list(find_directives(Unit("x", language, f"{text}\n# lint-timing: ignore[x] {text}")))


def test_random_bytes_as_a_file_end_well() -> None:
    import random

    rng = random.Random(5)
    for name in ("a.py", "a.cu", "a.ipynb"):
        run = run_process("-", "--stdin-filename", name, data=rng.randbytes(5000))
        assert run.status in (0, 2)

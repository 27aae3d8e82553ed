"""What names and texts claim about units, and what they leave open."""

import pytest
from perf_timing.lint.units.unit_labels import (
    label_after,
    label_before,
    label_of_name,
    tokens_of,
    work_of_name,
)


@pytest.mark.parametrize(
    ("name", "kind", "exponent"),
    [
        ("elapsed_ms", "time", -3),
        ("gpuTimeMs", "time", -3),
        ("msecPerVectorAdd", "time", -3),
        ("time_usec2", "time", -6),
        ("self.latency_s", "time", 0),
        ("ms_per_iter", "time", -3),
        ("p50_us", "time", -6),
        ("tokens_per_second", "rate", 0),
        ("gb_per_s", "rate", 9),
        ("tflops", "rate", 12),
        ("gigaFlops", "rate", 9),
        ("fps", "rate", 0),
        ("total_minutes", "time", 1.778),
    ],
)
def test_names_that_claim_a_unit(name: str, kind: str, exponent: float) -> None:
    label = label_of_name(name)
    assert label is not None
    assert (label.kind, label.exponent) == (kind, pytest.approx(exponent))


@pytest.mark.parametrize(
    "name",
    [
        "params_s",
        "ms_per_1k_tokens",
        "ns",
        "second",
        "ms_to_s",
        "us2ms",
        "time_unit",
        "scale_ms",
        "elapsed",
        "s",
        "items",
        "bus",
        "status",
    ],
)
def test_names_that_claim_nothing_or_too_much(name: str) -> None:
    assert label_of_name(name) is None


@pytest.mark.parametrize(
    ("text", "kind", "exponent"),
    [
        (" ms", "time", -3),
        ("s", "time", 0),
        (" seconds elapsed", "time", 0),
        ("ms/iter", "time", -3),
        (" us per call", "time", -6),
        (" \u00b5s", "time", -6),
        (" GB/s", "rate", 9),
        (" MiB/s", "rate", 6),
        (" TFLOPS", "rate", 12),
        (" tok/s", "rate", 0),
        (" images/sec", "rate", 0),
        (" tokens per second", "rate", 0),
        (" FPS", "rate", 0),
    ],
)
def test_texts_that_begin_with_a_unit(text: str, kind: str, exponent: float) -> None:
    label = label_after(text)
    assert label is not None
    assert (label.kind, label.exponent) == (kind, exponent)


@pytest.mark.parametrize(
    "text", [" MS", " steps", " samples", "x", "", " msg", " sizes", " S", " %", "-s"]
)
def test_texts_that_begin_otherwise(text: str) -> None:
    assert label_after(text) is None


@pytest.mark.parametrize(
    ("text", "exponent"),
    [
        ("time (ms): ", -3),
        ("latency_us=", -6),
        ("Elapsed Time (s) = ", 0),
        ("took, in seconds: ", 0),
        ('"latency_ms": ', -3),
        ("avg [us] ", -6),
        ("samples per sec: ", 0),
        ("Bandwidth (GB/s): ", 9),
        ("Tokens per second: ", 0),
    ],
)
def test_texts_that_end_with_a_unit(text: str, exponent: float) -> None:
    label = label_before(text)
    assert label is not None
    assert label.exponent == exponent


@pytest.mark.parametrize("text", ["params: ", "x = ", "MS: ", "steps: ", "per sec: ", "Warmups: "])
def test_texts_that_end_otherwise(text: str) -> None:
    assert label_before(text) is None


def test_names_are_cut_into_words_in_both_spellings() -> None:
    assert tokens_of("gpuTimeMs") == tokens_of("gpu_time_ms") == ("gpu", "time", "ms")


@pytest.mark.parametrize(
    ("name", "kind", "exponent"),
    [
        ("num_bytes", "bytes", 0),
        ("size_gb", "bytes", 9),
        ("gflop", "flops", 9),
        ("batch_size", "count", 0),
        ("M", "count", 0),
    ],
)
def test_names_that_count_work(name: str, kind: str, exponent: float) -> None:
    work = work_of_name(name)
    assert work is not None
    assert (work.kind, work.exponent) == (kind, exponent)


@pytest.mark.parametrize("name", ["size", "data", "mem_io", "t", "factor"])
def test_names_that_may_count_anything(name: str) -> None:
    assert work_of_name(name) is None

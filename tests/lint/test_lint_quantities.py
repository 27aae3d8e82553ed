"""The arithmetic of units: what a number stands for after each operation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_timing.lint.units.quantities import (
    OPAQUE,
    Conflict,
    Many,
    Number,
    Quantity,
    Work,
    constant,
    divide,
    join,
    literal,
    multiply,
    time,
    unit_name,
)

UNITS = ("s", "ms", "us", "ns")


@pytest.mark.parametrize(
    ("text", "value", "shift"),
    [
        ("1000", 1000, 3),
        ("1e3", 1000, 3),
        ("1_000_000", 1e6, 6),
        ("1000.0f", 1000, 3),
        ("1e-6", 1e-6, -6),
        ("2e-9", 2e-9, -9),
        ("100", 100, 0),
        ("2000", 2000, 0),
        ("0x10", 16, 0),
        ("1'000'000", 1e6, 6),
        ("20L", 20, 0),
    ],
)
def test_literals_of_both_languages_and_the_part_that_converts(
    text: str, value: float, shift: float
) -> None:
    found = literal(text)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert found.shift == shift


def test_what_is_no_number_is_none() -> None:
    assert literal("0xfg") is None
    assert literal("name") is None


def test_1024_and_its_powers_are_marked() -> None:
    assert constant(1024).binary and constant(1024**3).binary
    assert not constant(1000).binary and not constant(64).binary


@given(st.sampled_from(UNITS), st.sampled_from([3, 6, 9]))
def test_multiplying_and_dividing_by_a_power_of_1000_undo_each_other(unit: str, power: int) -> None:
    factor = constant(10.0**power)
    start = time(unit)
    there = multiply(start, factor)
    assert isinstance(there, Quantity)
    assert there.exponents == {min(start.exponents) - power}
    assert divide(there, factor) == start


@given(st.sampled_from(UNITS), st.integers(2, 4))
def test_a_small_count_leaves_the_unit_alone(unit: str, count: int) -> None:
    start = time(unit)
    assert divide(start, Number(count)) == start
    assert multiply(start, Number(count)) == start
    assert divide(start, Work()) == start


def test_a_factor_of_ten_may_hold_a_conversion_and_a_count() -> None:
    found = multiply(time("ms"), Number(10))
    assert isinstance(found, Quantity)
    assert found.says(-3) and found.says(-6) and not found.says(0)


def test_an_ambiguous_factor_leaves_both_units_open() -> None:
    found = divide(time("s"), Number(1000, 3, ambiguous=True))
    assert isinstance(found, Quantity)
    assert found.says(0) and found.says(3) and not found.says(-3)


@pytest.mark.parametrize(
    ("work", "unit", "exponent"),
    [(Work(0, "bytes"), "s", 0), (Work(9, "bytes"), "s", 9), (Work(9, "flops"), "ms", 12)],
)
def test_work_over_time_is_a_rate(work: Work, unit: str, exponent: float) -> None:
    found = divide(work, time(unit))
    assert isinstance(found, Quantity)
    assert found.kind == "rate" and found.work == work.kind
    assert found.exponents == {exponent}


def test_a_number_over_a_time_is_a_rate_of_items() -> None:
    found = divide(Number(1000, 3), time("ms"))
    assert isinstance(found, Quantity)
    assert found.kind == "rate" and found.says(0)


def test_a_time_over_a_time_is_a_plain_ratio() -> None:
    assert divide(time("s"), time("s")) is None


def test_a_size_of_one_item_makes_counts_of_its_factors() -> None:
    unknown = Work(0, "", certain=False)
    found = multiply(unknown, Work(0, "bytes", per_item=True))
    assert isinstance(found, Work)
    assert found.certain and found.kind == "bytes"


def test_1024_multiplies_a_count_and_divides_a_size() -> None:
    tokens = multiply(Work(), constant(1024))
    gigabytes = divide(Work(0, "bytes"), constant(1024**3))
    assert isinstance(tokens, Work) and tokens.exponent == 0
    assert isinstance(gigabytes, Work) and gigabytes.exponent == pytest.approx(9.03, abs=0.01)


def test_dimensions_that_happen_to_be_powers_of_1024_are_counts() -> None:
    operations = multiply(multiply(Number(2), Number(1152)), constant(1024))
    assert operations == Number(2 * 1152 * 1024)
    mebi = multiply(constant(1024), constant(1024))
    assert isinstance(mebi, Number) and mebi.binary and mebi.shift == pytest.approx(6.02, abs=0.01)
    found = divide(constant(1024), time("ms"))
    assert isinstance(found, Quantity) and found.exponents == {3}


def test_an_unknown_conversion_ends_what_is_known() -> None:
    assert multiply(time("s"), OPAQUE) is None
    assert divide(time("s"), OPAQUE) is None


def test_two_units_on_two_paths_are_a_conflict() -> None:
    assert isinstance(join(time("s"), time("ms")), Conflict)
    assert join(time("s"), time("s")) == time("s")
    assert join(Number(0), time("ms")) == time("ms")
    assert join(Many(time("ms")), None) == Many(time("ms"))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (time("s"), "seconds"),
        (time("us"), "microseconds"),
        (Quantity("time", frozenset({1.778})), "minutes"),
        (Quantity("rate", frozenset({9.0}), "bytes"), "gigabytes a second"),
        (Quantity("rate", frozenset({12.0}), "flops"), "trillions of operations a second"),
        (Quantity("rate", frozenset({6.0}), "count"), "millions of items a second"),
        (Quantity("time", frozenset({3.0})), "units of 1000 seconds"),
        (Quantity("rate", frozenset({0.0}), "count"), "items a second"),
    ],
)
def test_units_have_the_names_that_readers_know(value: Quantity, name: str) -> None:
    assert unit_name(value) == name

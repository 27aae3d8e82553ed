"""Numbers and layout: four digits, a unit, one printable line, within the width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_timing.report import figures
from perf_timing.report.estimates import summarize
from perf_timing.report.layout import as_markdown, as_text
from perf_timing.report.view import Facts, Table


@pytest.mark.parametrize(
    ("value_us", "text"),
    [
        (0.0, "0 us"),
        (0.912, "0.9120 us"),
        (5.3701, "5.370 us"),
        (93.2146, "93.21 us"),
        (999.97, "1.000 ms"),
        (12346.0, "12.35 ms"),
        (1_204_000.0, "1.204 s"),
        (9.99996, "10.00 us"),
    ],
)
def test_time(value_us: float, text: str) -> None:
    assert figures.time(value_us) == text


@given(st.floats(1e-2, 1e9))
def test_a_time_read_back_is_within_a_thousandth(value_us: float) -> None:
    number, unit = figures.time(value_us).split()
    assert float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit] == pytest.approx(value_us, rel=1e-3)


def test_latency_has_value_spread_and_count_in_one_unit() -> None:
    assert figures.latency(summarize([12000.0, 12100.0, 12200.0])) == "12.100 +/- 0.100 ms (n=3)"


@given(st.text())
def test_printable_text_is_one_line_that_a_terminal_does_not_obey(text: str) -> None:
    line = figures.printable(text)
    assert line.isprintable()


@given(
    st.lists(st.tuples(st.text("ab c", max_size=30), st.text("de f", max_size=200)), max_size=6),
    st.integers(40, 200),
)
def test_text_keeps_to_the_width(lines: list[tuple[str, str]], width: int) -> None:
    shown = as_text([Facts("title", tuple(lines))], width)
    assert all(len(line) <= width for line in shown.splitlines())


def _table(width_of_cell: int) -> Table:
    cell = "x" * width_of_cell
    return Table(
        "", ("first", "spare", "last"), ((cell, cell, cell),), ("spare",), (Facts("instead", ()),)
    )


def test_a_table_that_fits_is_whole() -> None:
    assert "spare" in as_text([_table(10)], 80)


def test_a_table_too_wide_loses_what_it_can_spare() -> None:
    shown = as_text([_table(30)], 80)
    assert "spare" not in shown
    assert "last" in shown


def test_a_table_that_is_wide_still_gives_way_to_its_rows() -> None:
    assert as_text([_table(60)], 80) == "instead\n"


def test_markdown_escapes_what_markdown_reads() -> None:
    table = Table("a|b", ("c",), (("`x` | *y* <b>",),))
    assert as_markdown([table]) == (
        "### a\\|b\n\n| c |\n| --- |\n| \\`x\\` \\| \\*y\\* \\<b\\> |\n"
    )

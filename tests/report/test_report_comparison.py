"""What may be compared, what the verdict is, and what withholds or weakens it."""

from pathlib import Path
from typing import Any

import pytest
from perf_timing._cli import UserError
from perf_timing.report.comparison import Comparison, compare, recorded_pairs
from perf_timing.report.flags import WITHHOLDING, all_flags, throughput
from perf_timing.report.record import Record, validate
from report.report_records import (
    CLOCKS,
    DEVICE,
    compare_record,
    loop_record,
    op_record,
    series,
)


def record(data: Any, label: str) -> Record:
    return Record(str(Path(f"{label}.json")), label, validate(data))


def versus(one: Any, other: Any, margin: float = 0.01, allow: tuple[str, ...] = ()) -> Comparison:
    return compare(record(one, "one"), record(other, "other"), margin=margin, allow_different=allow)


@pytest.mark.parametrize(
    ("factor", "said"),
    [(1.03, "slower"), (0.97, "faster"), (1.0, "same"), (1.01, "undecided")],
    ids=["3 % longer", "3 % shorter", "equal", "just at the margin"],
)
def test_verdict_of_two_runs(factor: float, said: str) -> None:
    result = versus(op_record(100.0, seed=1), op_record(100.0 * factor, seed=2))
    assert result.verdict == result.interval_verdict == said
    assert result.ratio is not None
    assert result.ratio.value == pytest.approx(factor, rel=2e-3)


def test_the_margin_decides() -> None:
    pair = op_record(100.0, seed=1), op_record(103.0, seed=2)
    assert versus(*pair, margin=0.05).verdict == "same"
    assert versus(*pair, margin=0.0).verdict == "slower"


# -- what forbids a comparison ------------------------------------------------------------------

UNLIKE = [
    pytest.param("device", {"device": {**DEVICE, "name": "NVIDIA A100"}}, id="another model"),
    pytest.param("device", {"device": {**DEVICE, "sm_count": 16}}, id="a slice of the device"),
    pytest.param("device", {"device": None}, id="an unknown device"),
    pytest.param("cache", {"cache": "warm"}, id="warm and cold"),
    pytest.param("cache", {"cache": None}, id="cold and not stated"),
    pytest.param("cache", {"cache_method": "rotation of 64 copies"}, id="flushed and rotated"),
    pytest.param("method", {"method": "event-pairs"}, id="another method"),
]


@pytest.mark.parametrize(("what", "change"), UNLIKE)
def test_unlike_conditions_are_refused_unless_allowed(what: str, change: dict[str, Any]) -> None:
    pair = op_record(seed=1), op_record(seed=2, **change)
    with pytest.raises(UserError) as caught:
        versus(*pair)
    assert f"--allow-different {what}" in str(caught.value)
    assert "one.json and other.json" in str(caught.value)
    allowed = versus(*pair, allow=(what,))
    assert allowed.verdict == "same"
    assert any(note.startswith(f"{what} differs: ") for note in allowed.notes)


def test_sizes_and_evidence_of_a_flush_may_differ() -> None:
    one = op_record(seed=1, cache_method="flush of 256 MiB; a copy takes 1.64 x warm")
    other = op_record(seed=2, cache_method="flush of 120.5 MiB; a copy takes 1.6 x warm")
    assert versus(one, other).verdict == "same"


def test_allowing_one_condition_does_not_allow_another() -> None:
    pair = op_record(), op_record(method="event-pairs", cache="warm", cache_method=None)
    with pytest.raises(UserError, match="method is graph-slope and event-pairs"):
        versus(*pair, allow=("cache",))


@pytest.mark.parametrize(
    ("one", "other"),
    [(op_record(), loop_record()), (compare_record(), compare_record())],
    ids=["an op and a loop", "two that hold their own comparison"],
)
def test_kinds_that_have_no_common_figure_are_refused(one: Any, other: Any) -> None:
    with pytest.raises(UserError, match="--no-compare only shows them"):
        versus(one, other)


@pytest.mark.parametrize(
    "change",
    [
        {"device": {**DEVICE, "uuid": "GPU-2"}},
        {"device": {**DEVICE, "driver": "550.1"}},
        {"versions": {"python": "3.11.2", "torch": "2.4.0", "cuda": "13.0"}},
        {"dims": "8192x8192 float32"},
        {"bytes": 1, "gb_per_s": None},
    ],
    ids=["another card", "another driver", "another torch", "other dimensions", "other bytes"],
)
def test_what_else_differs_is_noted(change: dict[str, Any]) -> None:
    result = versus(op_record(seed=1), op_record(seed=2, **change))
    assert result.verdict == "same"
    assert any(" differs: " in note for note in result.notes)


# -- flags --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(WITHHOLDING))
@pytest.mark.parametrize("side", ["one", "other"])
def test_a_figure_that_is_no_device_time_withholds_the_verdict(code: str, side: str) -> None:
    flags = [{"code": code, "message": "said so"}]
    pair = {"one": op_record(100.0, seed=1), "other": op_record(110.0, seed=2)}
    pair[side]["flags"] = flags
    result = versus(pair["one"], pair["other"])
    assert result.verdict == "undecided"
    assert result.interval_verdict == "slower"
    assert any(reason.startswith(f"{side} is {code}") for reason in result.withheld)


def test_work_on_another_stream_is_in_a_window_over_the_device() -> None:
    flags = [{"code": "other-stream", "message": "it is in"}]
    pair = [op_record(seed=i, method="device-span", flags=flags) for i in (1, 2)]
    assert versus(*pair).verdict == "same"


@pytest.mark.parametrize("code", ["not-converged", "power-cap", "launch-gap", "of-the-future"])
def test_any_other_flag_weakens_the_verdict_by_a_note(code: str) -> None:
    flagged = op_record(110.0, seed=2, flags=[{"code": code, "message": ""}])
    result = versus(op_record(100.0, seed=1), flagged)
    assert result.verdict == "slower"
    assert f"other is flagged {code}" in result.notes


FOUND = [
    pytest.param("host-bound", {"host_bound": True}, id="host_bound without the flag"),
    pytest.param("not-converged", {"converged": False}, id="converged is false"),
    pytest.param("below-floor", {"samples_us": [-0.1, 0.0, -0.2]}, id="a median of no time"),
    pytest.param("above-peak", {"bytes": 10**9}, id="more bytes than the peak, cold"),
    pytest.param("above-peak", {"flops": 10**11}, id="more flops than the peak"),
    pytest.param("clock-drift", {"clock_trace": [[0, 1980], [1, 1500]]}, id="a clock that fell"),
]


@pytest.mark.parametrize(("code", "change"), FOUND)
def test_what_the_figures_show_is_flagged_though_the_writer_did_not(
    code: str, change: dict[str, Any]
) -> None:
    flags = all_flags(record(op_record(**change), "one"))
    assert [flag.code for flag in flags] == [code]
    assert flags[0].message


def test_a_sound_record_is_not_flagged() -> None:
    assert all_flags(record(op_record(), "one")) == ()
    assert all_flags(record(compare_record(), "one")) == ()
    assert all_flags(record(loop_record(), "one")) == ()


def test_a_warm_cache_may_beat_the_memory() -> None:
    assert all_flags(record(op_record(bytes=10**9, cache="warm"), "one")) == ()


def test_a_flag_is_not_given_twice() -> None:
    flags = [{"code": "host-bound", "message": "by the writer"}]
    found = all_flags(record(op_record(host_bound=True, flags=flags), "one"))
    assert [flag.message for flag in found] == ["by the writer"]


def test_throughput_is_made_from_the_samples() -> None:
    data = op_record(100.0, bytes=200_000_000, flops=4_000_000_000, gb_per_s=1, tflop_per_s=1)
    assert throughput(data, "gb_per_s") == pytest.approx(2000, rel=1e-3)
    assert throughput(data, "tflop_per_s") == pytest.approx(40, rel=1e-3)
    assert throughput({**data, "bytes": None}, "gb_per_s") is None
    assert throughput({**data, "samples_us": [0.0]}, "gb_per_s") is None


# -- intervals that do not exist ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([100.0, 100.1, 99.9], "fewer than 6 samples"),
        ([100.0 + i for i in range(40)], "drift"),
        ([0.0] * 40, "zero"),
    ],
    ids=["three samples", "a drift", "zeros"],
)
def test_without_an_interval_there_is_no_verdict(values: list[float], why: str) -> None:
    result = versus(op_record(), op_record(samples_us=values))
    assert result.verdict == "undecided"
    assert any(why in reason for reason in result.withheld)


def test_a_few_samples_are_noted() -> None:
    result = versus(op_record(), op_record(n=10))
    assert "other has 10 samples, too few to show drift" in result.notes


# -- clocks -------------------------------------------------------------------------------------


def _with_clock(median_us: float, mhz: float, seed: int) -> Any:
    return op_record(median_us, seed=seed, clock_trace=[[0.0, mhz], [0.5, mhz + 5]])


def test_a_difference_that_the_clock_explains_is_withheld() -> None:
    result = versus(_with_clock(100.0, 1980, 1), _with_clock(104.0, 1900, 2))
    assert result.verdict == "undecided"
    assert any("the verdict is same" in reason for reason in result.withheld)


def test_a_difference_that_the_clock_hides_is_withheld() -> None:
    result = versus(_with_clock(100.0, 1980, 1), _with_clock(100.0, 1800, 2))
    assert result.interval_verdict == "same"
    assert result.verdict == "undecided"


def test_a_difference_beyond_the_clocks_stands_with_a_note() -> None:
    result = versus(_with_clock(100.0, 1980, 1), _with_clock(130.0, 1900, 2))
    assert result.verdict == "slower"
    assert any("MHz" in note for note in result.notes)


def test_clocks_read_after_the_run_only_note() -> None:
    slow = {"before": None, "after": {**CLOCKS, "sm_mhz": 1500}}
    result = versus(op_record(100.0, seed=1), op_record(104.0, seed=2, clocks=slow))
    assert result.verdict == "slower"
    assert any("1500 MHz" in note for note in result.notes)


# -- loops --------------------------------------------------------------------------------------


def test_loops_are_compared_by_step_time_and_rate() -> None:
    result = versus(loop_record(34000.0, seed=1), loop_record(30000.0, seed=2))
    assert (result.quantity, result.verdict) == ("step time", "faster")
    assert result.rate_ratio == pytest.approx(34 / 30)


def test_loops_with_steps_of_another_size_are_compared_by_item() -> None:
    doubled = loop_record(60000.0, seed=2, items=2 * 61440, items_per_s=2 * 1024 / 0.06)
    result = versus(loop_record(34000.0, seed=1), doubled)
    assert result.quantity.startswith("time per item")
    assert result.verdict == "faster"
    assert result.ratio is not None
    assert result.ratio.value == pytest.approx(30 / 34, rel=1e-2)


def test_loops_that_hold_wall_time_are_compared_by_it() -> None:
    """A step that got faster while the loader got slower is no gain."""
    before = loop_record(30000.0, period_us=series(34000.0, seed=3))
    after = loop_record(28000.0, period_us=series(40000.0, seed=4))
    result = versus(before, after)
    assert (result.quantity, result.verdict) == ("wall time per step", "slower")


def test_wall_time_is_not_compared_with_step_time() -> None:
    with pytest.raises(UserError, match="only one holds period_us"):
        versus(loop_record(), loop_record(period_us=series(34000.0)))


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({"data_wait_share": 0.2}, []),
        ({"data_wait_share": 0.21}, ["data-bound"]),
        ({"data_wait_share": 0.19, "data_wait_over_step": 0.23}, ["data-bound"]),
        ({"data_wait_share": 0.3, "flags": [{"code": "data-hidden"}]}, ["data-hidden"]),
        ({"ranks": loop_record()["ranks"][:2]}, ["missing-ranks"]),
    ],
    ids=["at 0.2", "over 0.2", "over 0.2 of the step", "judged by the writer", "two ranks away"],
)
def test_flags_of_a_loop(change: dict[str, Any], codes: list[str]) -> None:
    assert [flag.code for flag in all_flags(record(loop_record(**change), "one"))] == codes


def test_missing_ranks_are_named() -> None:
    [flag] = all_flags(record(loop_record(ranks=loop_record()["ranks"][:2]), "one"))
    assert flag.message == "no answer from rank 2, 3"


# -- records of kind compare --------------------------------------------------------------------


def test_a_recorded_comparison_is_passed_on() -> None:
    [pair] = recorded_pairs(record(compare_record(), "one"))
    assert (pair.candidate, pair.baseline, pair.verdict) == ("two", "one", "slower")
    assert pair.margin == 0.01
    assert pair.paired


def test_a_margin_of_the_users_makes_the_verdict_anew() -> None:
    [pair] = recorded_pairs(record(compare_record(), "one"), margin=0.05)
    assert (pair.verdict, pair.margin) == ("same", 0.05)


@pytest.mark.parametrize("place", ["record", "variant"])
def test_a_flag_withholds_a_recorded_verdict(place: str) -> None:
    data = compare_record()
    holder = data if place == "record" else data["variants"][1]
    holder["flags"] = [{"code": "host-bound", "message": "launch cost"}]
    [pair] = recorded_pairs(record(data, "one"))
    assert pair.verdict == "undecided"
    assert pair.interval_verdict == "slower"


def test_outputs_that_differ_withhold_a_recorded_verdict() -> None:
    [pair] = recorded_pairs(record(compare_record(outputs_match=False), "one"), margin=0.02)
    assert pair.verdict == "undecided"
    assert pair.withheld == ("one is outputs-differ: the versions do not compute the same",)

"""The compare scenario: the verdict follows the known ratio, whatever drifts meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from simulated_device import DeviceModel, Result, run_script
from simulated_device.rendering import measure, rendered, replace_once

SETUP = """
import simulated
import torch

x = torch.ones(64, device="cuda")
one = simulated.kernel("one", {first}, inputs=[x])
two = simulated.kernel("two", {second}, inputs=[x])
"""


def setup(first: str, second: str) -> str:
    return SETUP.format(first=first, second=second)


def compared(first: str, second: str, *options: str, edit: Any = None, **model: Any) -> Result:
    calls = ["--call=base=one()", "--call=candidate=two()"]
    device = DeviceModel(**model)
    calls.append("--warmup-ms=60")
    return measure(
        "compare", f"--setup={setup(first, second)}", *calls, *options, device=device, edit=edit
    )


def pair(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0 and result.record is not None, str(result)
    found: dict[str, Any] = result.record["pairs"][0]
    assert (found["baseline"], found["candidate"]) == ("base", "candidate")
    assert found["ratio_ci95_low"] <= found["ratio_median"] <= found["ratio_ci95_high"]
    return found


@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(0.9, "faster"), (0.97, "faster"), (1.0, "same"), (1.03, "slower"), (2.0, "slower")],
)
def test_the_verdict_follows_the_known_ratio(ratio: float, verdict: str, cache: str) -> None:
    result = compared("50.0", str(50.0 * ratio), f"--cache={cache}")
    found = pair(result)
    assert found["ratio_median"] == pytest.approx(ratio, abs=0.004)
    assert found["verdict"] == verdict
    assert result.record and result.record["outputs_match"] is True
    assert verdict.upper() in result.stdout


@pytest.mark.parametrize("seed", range(6))
def test_equal_versions_are_never_called_different(seed: int) -> None:
    noise = {"jitter": 0.02, "spike_probability": 0.005, "seed": seed}
    assert pair(compared("20.0", "20.0", **noise))["verdict"] in ("same", "undecided")


@pytest.mark.parametrize("seed", range(6))
def test_three_percent_are_found_in_noise(seed: int) -> None:
    noise = {"jitter": 0.02, "spike_probability": 0.005, "seed": seed}
    assert pair(compared("20.0", "20.6", **noise))["verdict"] == "slower"


def test_the_interval_of_equal_versions_holds_one_though_captures_differ() -> None:
    held = 0
    for seed in range(12):
        found = pair(compared("20.0", "20.0", graph_spread=0.001, seed=seed))
        assert found["verdict"] == "same"
        held += found["ratio_ci95_low"] <= 1 <= found["ratio_ci95_high"]
    assert held >= 10  # 97 % of the time


@pytest.mark.parametrize(("second", "verdict"), [("100.0", "same"), ("103.0", "slower")])
def test_a_clock_that_falls_meanwhile_does_not_change_the_verdict(
    second: str, verdict: str
) -> None:
    falling = {"power_cap_after_s": 0.2, "power_cap_fall_s": 2.0}
    result = compared("100.0", second, **falling)
    assert pair(result)["verdict"] == verdict
    assert {"power-cap", "clock-drift"} & set(result.flags)


def test_short_kernels_with_python_in_front_are_compared_by_their_kernels() -> None:
    assert pair(compared("4.0", "4.0, host_us=40"))["verdict"] == "same"
    assert pair(compared("4.0, host_us=40", "4.4"))["verdict"] == "slower"


def test_graphs_whose_launch_cannot_be_hidden_are_marked() -> None:
    for serialized in (False, True):  # as with CUDA_LAUNCH_BLOCKING: nothing runs ahead
        result = compared("50.0", "50.0", serialize_launches=serialized)
        assert result.record is not None and result.record["method"] == "graph"
        for variant in result.record["variants"]:
            codes = [flag["code"] for flag in variant["flags"]]
            assert ("host-bound" in codes) == serialized


def test_versions_that_cannot_be_captured_are_compared_with_events() -> None:
    result = compared("50.0, allocates=True", "55.0")
    assert pair(result)["verdict"] == "slower"
    assert result.record and result.record["method"] == "event-pairs"
    assert "events instead of graphs" in result.stderr


def test_outputs_that_differ_leave_the_verdict_open() -> None:
    code = setup("50.0", "40.0").replace(
        'two = simulated.kernel("two", 40.0, inputs=[x])',
        'two = simulated.kernel("two", 40.0, inputs=[x, x])',
    )
    calls = ["--call=base=one()", "--call=candidate=two()"]
    result = measure("compare", f"--setup={code}", *calls)
    assert pair(result)["verdict"] == "undecided"
    assert result.record and result.record["outputs_match"] is False
    assert "outputs-differ" in result.flags and "DIFFER" in result.stdout


@pytest.mark.parametrize("working_calls", [1, 40])
def test_a_version_that_stops_working_is_not_called_faster(working_calls: int) -> None:
    result = compared("50.0", f"50.0, working_calls={working_calls}")
    if result.exit_code == 2:
        assert "candidate" in result.stderr.splitlines()[-1] and result.record is None
        return
    assert pair(result)["verdict"] == "undecided"
    assert result.record
    flags = [flag["code"] for variant in result.record["variants"] for flag in variant["flags"]]
    assert "empty-work" in flags or "outputs-differ" in result.flags


def test_work_left_on_another_stream_does_not_win() -> None:
    result = compared("100.0", "100.0, stream='side', join='none'")
    assert pair(result)["verdict"] != "faster", str(result)


def test_three_versions_are_compared_with_the_first() -> None:
    code = setup("20.0", "30.0") + 'three = simulated.kernel("three", 10.0, inputs=[x])\n'
    calls = [f"--call={name}={name}()" for name in ("one", "two", "three")]
    result = measure("compare", f"--setup={code}", *calls)
    assert result.record, str(result)
    verdicts = {p["candidate"]: p["verdict"] for p in result.record["pairs"]}
    assert verdicts == {"two": "slower", "three": "faster"}
    ratios = {p["candidate"]: p["ratio_median"] for p in result.record["pairs"]}
    assert ratios == {"two": pytest.approx(1.5, abs=0.01), "three": pytest.approx(0.5, abs=0.01)}


@pytest.mark.parametrize("size", [[], ["--minimal"]], ids=["full", "minimal"])
def test_the_demonstration_runs_as_rendered(size: list[str]) -> None:
    result = run_script(rendered("compare", *size))
    assert result.exit_code == 0, str(result)


def test_without_a_gpu_one_line_and_status_2() -> None:
    result = run_script(rendered("compare"), DeviceModel(has_gpu=False))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


SEQUENTIAL = """

def _one_after_the_other(timers):
    columns = {name: [timer(0) for _ in range(200)] for name, timer in timers.items()}
    return [{name: columns[name][i] for name in columns} for i in range(200)]


def _compare(timers):"""


def test_versions_timed_one_after_the_other_get_the_drift_and_are_noticed() -> None:
    """The check that interleaving exists for: without it the falling clock decides."""

    def edit(code: str) -> str:
        interleaved = "rounds.append(_round(timers, len(rounds)))"
        code = replace_once(interleaved, "rounds += _one_after_the_other(timers)")(code)
        return replace_once("\n\ndef _compare(timers):", SEQUENTIAL)(code)

    falling = {"power_cap_after_s": 0.2, "power_cap_fall_s": 2.0}
    assert pair(compared("100.0", "100.0", **falling))["verdict"] == "same"
    assert pair(compared("100.0", "100.0", edit=edit, **falling))["verdict"] != "same"


def test_a_wrong_divisor_is_noticed() -> None:
    edit = replace_once(" else floor_us)) / count", " else floor_us))")
    assert pair(compared("50.0", "100.0"))["ratio_median"] == pytest.approx(2.0, abs=0.01)
    broken = pair(compared("50.0", "100.0", edit=edit))["ratio_median"]
    assert broken != pytest.approx(2.0, abs=0.2)

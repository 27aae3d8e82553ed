"""Whatever the operation and the machine: a figure without a doubt flagged is within 5 %."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated_device import DeviceModel, Result, run_script
from simulated_device.rendering import JSON_NAME, rendered

# Codes that tell of the machine and leave the figure as it is.
HARMLESS = {"power-cap", "thermal-cap", "hardware-slowdown"}

operations = st.fixed_dictionaries(
    {
        "us": st.sampled_from([1.0, 1.7, 2.5, 4.0, 7.0, 12.0, 33.0, 90.0, 400.0, 2500.0]),
        "count": st.sampled_from([1, 1, 1, 2, 5, 12]),
        "host_us": st.sampled_from([0.0, 0.0, 3.0, 12.0, 60.0, 400.0]),
        "bytes": st.sampled_from([0, 1 << 12, 1 << 20, 8 << 20, 40 << 20, 200 << 20]),
        "sync": st.sampled_from([False, False, False, False, True]),
        "stream": st.sampled_from([None, None, None, "side"]),
        "join": st.sampled_from(["both", "both", "none", "fork"]),
        "working_calls": st.sampled_from([None, None, None, None, 1, 60]),
    }
)
machines = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 1000),
        "launch_us": st.sampled_from([2.0, 4.0, 9.0]),
        "dispatch_us": st.sampled_from([1.0, 3.5, 12.0]),
        "event_record_us": st.sampled_from([1.0, 2.5, 7.0]),
        "sync_us": st.sampled_from([4.0, 8.0, 40.0]),
        "eager_gap_us": st.sampled_from([0.6, 1.0, 2.2]),
        "event_us": st.sampled_from([0.8, 1.25, 2.0]),
        "event_kernel_us": st.sampled_from([0.8, 1.4, 3.0]),
        "event_resolution_us": st.sampled_from([0.0, 0.032, 0.5]),
        "graph_start_us": st.sampled_from([1.0, 3.0, 8.0]),
        "jitter": st.sampled_from([0.0, 0.003, 0.02]),
        "spike_probability": st.sampled_from([0.0, 0.001]),
        "host_jitter": st.sampled_from([0.0, 0.02, 0.3]),
        "l2_bytes": st.sampled_from([24 << 20, 60 << 20, 126 << 20]),
        "profile_drops_head": st.sampled_from([0, 0, 2]),
        "profile_never_records": st.sampled_from([False, False, False, True]),
        "torch_version": st.sampled_from(["2.4.1", "2.7.0", "2.11.0"]),
    }
)


def measured(scenario: str, cache: str, op: dict[str, Any], machine: dict[str, Any]) -> Result:
    code = rendered(
        scenario,
        "--setup=import simulated\n\nop = simulated.OPERATION",
        "--call=op()",
        f"--json={JSON_NAME}",
        f"--cache={cache}",
        "--warmup-ms=40",
        "--min-time-ms=40",
        "--max-time-ms=800",
    )
    options = ", ".join(f"{key}={value!r}" for key, value in op.items())
    code = code.replace("simulated.OPERATION", f"simulated.kernel('k', {options})")
    return run_script(code, DeviceModel(**machine))


@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize(
    "scenario", ["simple-event", "detailed-event", "cuda-graph", "kernel-time"]
)
@given(op=operations, machine=machines)
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_an_unflagged_figure_is_true(
    scenario: str, cache: str, op: dict[str, Any], machine: dict[str, Any]
) -> None:
    result = measured(scenario, cache, op, machine)
    if result.exit_code == 2:
        assert result.stderr.strip(), "a refusal says why"
        return
    assert result.exit_code == 0 and result.record, str(result)
    if set(result.flags) - HARMLESS:
        return
    known = result.machine.ops["k"]
    truth = known.cold_us if cache == "cold" else known.warm_us
    assert op["working_calls"] is None, "a call that does nothing was believed"
    read = result.record["summary"]["median_us"]
    if op["bytes"] > 0.9 * machine["l2_bytes"]:
        assert 0.95 * known.warm_us < read < 1.05 * known.cold_us  # it cannot stay warm as a whole
    else:
        assert read == pytest.approx(truth, rel=0.05), str(result)


@pytest.mark.parametrize("cache", ["warm", "cold"])
@given(
    us=st.sampled_from([2.5, 8.0, 40.0, 300.0]),
    ratio=st.sampled_from([0.8, 0.96, 1.0, 1.0, 1.0, 1.04, 1.5]),
    count=st.sampled_from([1, 3]),
    host_us=st.sampled_from([0.0, 40.0]),
    drift=st.sampled_from([None, 0.1, 0.3]),
    allocates=st.sampled_from([False, False, True]),
    machine=machines,
)
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_verdict_contradicts_the_truth(
    cache: str,
    us: float,
    ratio: float,
    count: int,
    host_us: float,
    drift: float | None,
    allocates: bool,
    machine: dict[str, Any],
) -> None:
    code = rendered(
        "compare",
        "--setup=import simulated\n\none = simulated.ONE\ntwo = simulated.TWO",
        "--call=one()",
        "--call=two()",
        f"--json={JSON_NAME}",
        f"--cache={cache}",
        "--warmup-ms=40",
        "--min-time-ms=100",
        "--max-time-ms=2000",
    )
    shared = f"count={count}, allocates={allocates}"
    code = code.replace("simulated.ONE", f"simulated.kernel('one', {us}, {shared})")
    second = f"simulated.kernel('two', {us * ratio}, host_us={host_us}, {shared})"
    model = DeviceModel(**machine, power_cap_after_s=drift, power_cap_fall_s=1.0)
    result = run_script(code.replace("simulated.TWO", second), model)
    assert result.exit_code == 0 and result.record, str(result)
    verdict = result.record["pairs"][0]["verdict"]
    doubted = {flag["code"] for variant in result.record["variants"] for flag in variant["flags"]}
    allowed = {"faster"} if ratio < 1 else {"slower"} if ratio > 1 else {"same"}
    assert verdict in allowed | {"undecided"} or doubted - HARMLESS, str(result)

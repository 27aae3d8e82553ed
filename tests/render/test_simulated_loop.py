"""The loop scenario reports the known step time, data wait and throughput of a simulated loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from simulated_device import DeviceModel, Result, run_script
from simulated_device.rendering import measure, rendered, replace_once

QUIET = {"jitter": 0.0, "spike_probability": 0.0, "host_jitter": 0.0, "ramp_ms": 0.0}


def setup(step_ms: float, wait_ms: float, sizes: str = "[32] * 200", synced: bool = False) -> str:
    """A loader that takes `wait_ms` a batch and a step whose kernel takes `step_ms`."""
    wait_for_it = "    total.item()\n" if synced else ""
    return (
        "import time\n\nimport simulated\nimport torch\n\n"
        f"kernel = simulated.kernel('step', {step_ms * 1e3}, bytes=0)\n"
        "total = torch.zeros(1, device='cuda')\n\n\n"
        "class Loader:\n"
        f"    sizes = {sizes}\n\n"
        "    def __len__(self):\n        return len(self.sizes)\n\n"
        "    def __iter__(self):\n"
        "        for size in self.sizes:\n"
        f"            time.sleep({wait_ms} / 1e3 - 50e-6)\n"
        "            yield torch.ones(size, 8)\n\n\n"
        "loader = Loader()\n\n\n"
        f"def train_step(batch):\n    kernel()\n{wait_for_it}"
    )


def looped(
    code: str, *options: str, edit: Callable[[str], str] | None = None, **model: Any
) -> Result:
    device = DeviceModel(**(QUIET | model))
    return measure(
        "loop", f"--setup={code}", "--call=train_step(batch)", *options, device=device, edit=edit
    )


def figures(result: Result) -> tuple[float, float, float]:
    """(step ms, data wait ms, items per second), means."""
    record = result.record
    assert result.exit_code == 0 and record is not None, str(result)
    step, wait = record["step_us"]["mean_us"] / 1e3, record["data_wait_us"]["mean_us"] / 1e3
    return step, wait, record["items_per_s"]


@pytest.mark.parametrize("method", ["event", "sync"])
def test_a_loop_that_waits_each_step_is_step_plus_data_wait(method: str) -> None:
    step, wait, rate = figures(looped(setup(20.0, 5.0, synced=True), f"--method={method}"))
    assert step == pytest.approx(20.0, rel=0.01)
    assert wait == pytest.approx(5.0, rel=0.01)
    assert rate == pytest.approx(32 / 25e-3, rel=0.01)


def test_a_device_bound_loop_hides_its_loader() -> None:
    result = looped(setup(20.0, 5.0))
    step, wait, rate = figures(result)
    assert step + wait == pytest.approx(20.0, rel=0.01)
    assert wait == pytest.approx(5.0, rel=0.02)
    assert rate == pytest.approx(32 / 20e-3, rel=0.01)
    assert "data-bound" not in result.flags


def test_a_loader_bound_loop_is_called_data_bound() -> None:
    result = looped(setup(5.0, 20.0))
    step, wait, rate = figures(result)
    assert step + wait == pytest.approx(20.0, rel=0.01)
    assert wait == pytest.approx(20.0, rel=0.01)
    assert rate == pytest.approx(32 / 20e-3, rel=0.01)
    assert "data-bound" in result.flags


def test_the_sync_method_serialises_loader_and_device_and_the_event_method_does_not() -> None:
    event = looped(setup(20.0, 5.0), "--method=event").record
    sync = looped(setup(20.0, 5.0), "--method=sync").record
    assert event and sync
    assert sync["wall_s"] / event["wall_s"] == pytest.approx(1.25, rel=0.02)


@pytest.mark.parametrize("wait_ms", [0.5, 5.0])
@pytest.mark.parametrize("step_ms", [3.5, 34.0])
def test_the_event_method_costs_less_than_half_a_percent(step_ms: float, wait_ms: float) -> None:
    def spent_s(steps: int, instrumented: bool) -> float:
        code = setup(step_ms, wait_ms)
        if instrumented:
            result = looped(code, f"--measure-steps={steps}", "--warmup-steps=5")
        else:
            loop = (
                f"\n\nfor step, batch in zip(range({steps + 5}), loader):\n    train_step(batch)\n"
            )
            result = run_script(code + loop + "torch.cuda.synchronize()\n", DeviceModel(**QUIET))
        assert result.exit_code == 0, str(result)
        return result.machine.now / 1e6

    bare, timed = (spent_s(150, i) - spent_s(50, i) for i in (False, True))
    assert timed / bare == pytest.approx(1.0, abs=0.005)


def test_slow_first_steps_are_left_out() -> None:
    step, _, _ = figures(looped(setup(20.0, 5.0, synced=True), first_call_ms=900.0))
    assert step == pytest.approx(20.0, rel=0.01)


def test_unequal_batches_are_counted_one_by_one() -> None:
    result = looped(setup(20.0, 5.0, sizes="[32] * 9 + [8]"), "--measure-steps=20")
    record = result.record
    assert record is not None
    assert record["items"] == 2 * (9 * 32 + 8)
    assert record["items_per_s"] == pytest.approx(record["items"] / record["wall_s"], rel=0.001)


def test_the_batch_size_that_is_given_wins() -> None:
    result = looped(setup(20.0, 5.0), "--batch-size=256", "--measure-steps=10")
    assert result.record and result.record["items"] == 2560


def test_items_can_be_an_expression_over_the_batch() -> None:
    result = looped(setup(20.0, 5.0), "--items=batch.numel()", "--measure-steps=10")
    assert result.record and result.record["items"] == 10 * 32 * 8


def test_a_loader_shorter_than_the_measurement_is_read_again() -> None:
    result = looped(setup(2.0, 1.0, sizes="[32] * 7"), "--measure-steps=30")
    assert result.record and result.record["steps"] == 30


def test_an_empty_loader_is_an_error_and_does_not_hang() -> None:
    result = looped(setup(2.0, 1.0, sizes="[]"))
    assert result.exit_code == 2 and result.record is None


def test_no_step_waits_for_the_device() -> None:
    few, many = (looped(setup(1.0, 5.0), f"--measure-steps={n}").machine.syncs for n in (20, 120))
    assert many == few


@pytest.mark.parametrize("version", ["2.4.0", "2.6.0", "2.11.0"])
def test_old_and_new_torch_run_the_demonstration(version: str) -> None:
    result = measure("loop", device=DeviceModel(torch_version=version))
    assert result.exit_code == 0 and result.record, str(result)


def test_without_a_gpu_the_demonstration_stops_with_one_line() -> None:
    result = run_script(rendered("loop"), DeviceModel(has_gpu=False))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("method", ["event", "sync"])
def test_the_minimal_size_reports_the_known_loop(method: str) -> None:
    code = rendered(
        "loop",
        "--minimal",
        f"--method={method}",
        f"--setup={setup(20.0, 5.0, synced=True)}",
        "--call=train_step(batch)",
    )
    result = run_script(code, DeviceModel(**QUIET))
    assert result.exit_code == 0, str(result)
    step = re.search(r"step ([0-9.]+) ms", result.stdout)
    wait = re.search(r"data wait ([0-9.]+) ms", result.stdout)
    rate = re.search(r"([0-9,.]+) items/s", result.stdout)
    assert step and wait and rate, result.stdout
    assert float(step[1]) == pytest.approx(20.0, rel=0.01)
    assert float(wait[1]) == pytest.approx(5.0, rel=0.02)
    assert float(rate[1].replace(",", "")) == pytest.approx(32 / 25e-3, rel=0.01)


def trustworthy(result: Result, synced: bool) -> bool:
    """Whether a loop of 20 ms steps and 5 ms waits was read right."""
    if result.exit_code != 0 or result.record is None:
        return False
    if result.record["steps"] != 30 or "[timing] Both events" in result.stdout:
        return False  # steps whose events could not be read are left out, and that is told
    step, wait, rate = figures(result)
    wall = 25.0 if synced else 20.0
    near = pytest.approx
    return (
        step + wait == near(wall, rel=0.02)
        and wait == near(5.0, 0.04)
        and (rate == near(32e3 / wall, 0.02))
    )


RECORD = "event.record(*[stream] if stream is not None else [])"
BROKEN = {
    "warm-up steps counted": ("self.steps_run >= self.warmup_steps", "True", True),
    "data wait not taken off": ('period - step["data_wait"]', "period", True),
    "seconds taken for milliseconds": (
        "begin.elapsed_time(end) * 1e3",
        "begin.elapsed_time(end)",
        True,
    ),
    "events on another stream": (RECORD, "event.record(torch.cuda.Stream())", False),
    "no wait for the last steps": ("last.synchronize()", "pass", False),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_loop_template_broken_on_purpose_is_noticed(what: str) -> None:
    old, new, synced = BROKEN[what]
    code, world = setup(20.0, 5.0, synced=synced), {"first_call_ms": 900.0 if synced else 1.0}
    assert trustworthy(looped(code, **world), synced)
    assert not trustworthy(looped(code, edit=replace_once(old, new), **world), synced)


def test_a_wait_in_each_step_is_noticed_by_its_cost() -> None:
    edit = replace_once(RECORD, f"torch.cuda.synchronize()\n        {RECORD}")
    _, _, rate = figures(looped(setup(20.0, 5.0), edit=edit))
    assert rate < 0.9 * 32 / 20e-3

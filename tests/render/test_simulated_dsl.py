"""Kernels in Triton and CuTe DSL: compiled and tuned before timing, read at their known time."""

from __future__ import annotations

from typing import Any

import pytest
from simulated_device import DeviceModel, Result, run_script
from simulated_device.rendering import measure, rendered, replace_once

TRITON_SETUP = """
import simulated
import torch
import triton
import triton.language as tl

simulated.semantics("scale_kernel", us={us}, cold_us={cold})


{tuned}
@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    pass


x = torch.randn(1 << 20, device="cuda")
y = torch.empty_like(x)


def scale():
    scale_kernel[(1024,)](x, y, x.numel(){block})
"""
TUNED = '@triton.autotune([triton.Config({"BLOCK": n}) for n in (128, 256, 512)], key=["n"])'


def triton_setup(us: float, cold: float, tuned: bool = False) -> str:
    return TRITON_SETUP.format(
        us=us, cold=cold, tuned=TUNED if tuned else "", block="" if tuned else ", BLOCK=128"
    )


def median_us(result: Result) -> float:
    assert result.exit_code == 0 and result.record is not None, str(result)
    return float(result.record["summary"]["median_us"])


def doubts(result: Result) -> set[str]:
    surroundings = {"power-cap", "thermal-cap", "unchecked"}
    return set(result.flags) - surroundings


@pytest.mark.parametrize("tuned", [False, True], ids=["plain", "autotuned"])
@pytest.mark.parametrize("us", [12.0, 100.0])
@pytest.mark.parametrize("scenario", ["triton", "cuda-graph", "kernel-time"])
def test_a_triton_kernel_reads_its_known_time(scenario: str, us: float, tuned: bool) -> None:
    code = triton_setup(us, us * 1.2, tuned)
    result = measure(scenario, f"--setup={code}", "--call=scale()", "--cache=cold")
    assert median_us(result) == pytest.approx(us * 1.2, rel=0.03)
    assert doubts(result) - {"host-bound"} == set(), str(result)


@pytest.mark.parametrize("us", [12.0, 100.0])
def test_a_warm_triton_kernel_reads_its_known_time_or_is_flagged(us: float) -> None:
    code = triton_setup(us, us * 1.2)
    result = measure("triton", f"--setup={code}", "--call=scale()", "--cache=warm")
    assert median_us(result) == pytest.approx(us, rel=0.05) or doubts(result)
    assert result.record and result.record["cache"] == "warm"


def test_a_launch_bound_triton_call_is_marked() -> None:
    code = triton_setup(2.0, 2.5)
    result = measure("triton", f"--setup={code}", "--call=scale()", "--cache=cold")
    assert "host-bound" in result.flags, str(result)


@pytest.mark.parametrize("size", [[], ["--minimal"]], ids=["full", "minimal"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_the_triton_demonstration_runs_as_rendered(size: list[str], cache: str) -> None:
    result = run_script(rendered("triton", f"--cache={cache}", *size))
    assert result.exit_code == 0, str(result)


@pytest.mark.parametrize(
    ("scenario", "model"),
    [("triton", {"has_triton": False}), ("cute", {"has_cutlass": False})],
    ids=["Triton", "CuTe DSL"],
)
def test_a_missing_library_is_one_line_and_status_2(scenario: str, model: dict[str, Any]) -> None:
    result = run_script(rendered(scenario), DeviceModel(**model))
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, str(result)
    assert "pip install" in result.stderr


@pytest.mark.parametrize("scenario", ["triton", "cute"])
def test_without_a_gpu_one_line_and_status_2(scenario: str) -> None:
    result = run_script(rendered(scenario), DeviceModel(has_gpu=False))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


CUTE_SETUP = """
import simulated
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

simulated.semantics("scale", us={us}, cold_us={cold})


@cute.jit
def scale(x: cute.Tensor, y: cute.Tensor, stream):
    pass


torch_x = torch.randn(1 << 20, device="cuda")
torch_y = torch.empty_like(torch_x)
x, y = from_dlpack(torch_x), from_dlpack(torch_y)
"""


def cute(us: float, *options: str, call: str = "scale(x, y, stream)", **model: Any) -> Result:
    code = CUTE_SETUP.format(us=us, cold=us * 1.2)
    device = DeviceModel(**model)
    return measure("cute", f"--setup={code}", f"--call={call}", *options, device=device)


@pytest.mark.parametrize("version", ["4.3.0", "4.8.1"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize("us", [3.6, 50.0])
def test_a_cute_function_reads_its_known_time(us: float, cache: str, version: str) -> None:
    result = cute(us, f"--cache={cache}", cute_version=version)
    truth = us if cache == "warm" else us * 1.2
    assert median_us(result) == pytest.approx(truth, rel=0.03)
    assert doubts(result) == set(), str(result)


def test_the_event_method_reads_a_cute_function_as_well() -> None:
    assert median_us(cute(50.0, "--method=event")) == pytest.approx(50.0, rel=0.03)


def test_the_compiled_object_is_timed_and_the_jit_function_is_not() -> None:
    result = cute(3.6)
    assert result.record and result.record["host_us_per_call"] < 100
    compiled_outside = CUTE_SETUP.format(us=3.6, cold=4.0) + (
        "import cuda.bindings.driver as driver\n\n"
        "stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)\n"
        "compiled = cute.compile(scale, x, y, stream)\n"
    )
    result = measure("cute", f"--setup={compiled_outside}", "--call=compiled(x, y, stream)")
    assert median_us(result) == pytest.approx(3.6, rel=0.03)


def test_a_false_check_stops_before_timing() -> None:
    result = cute(5.0, "--check=1 + 1 == 3")
    assert result.exit_code == 2 and result.record is None
    assert "check" in result.stderr.splitlines()[-1]


def test_a_kernel_launched_on_a_stale_stream_is_not_believed() -> None:
    setup = CUTE_SETUP.replace("y: cute.Tensor, stream", "y: cute.Tensor")
    code = setup.format(us=50.0, cold=60.0)
    result = measure("cute", f"--setup={code}", "--call=scale(x, y)")
    assert result.exit_code == 2 or doubts(result) & {
        "empty-work",
        "disagrees",
        "other-stream",
    }, str(result)


@pytest.mark.parametrize("method", ["graph", "event"])
def test_the_cute_demonstration_runs_as_rendered(method: str) -> None:
    result = run_script(rendered("cute", f"--method={method}"))
    assert result.exit_code == 0, str(result)


def test_the_minimal_cute_size_runs_as_rendered() -> None:
    result = run_script(rendered("cute", "--minimal"), DeviceModel(ramp_ms=1.0))
    assert result.exit_code == 0, str(result)
    truth = 0.9 + 3 * 4 * 2**22 / 6.5e6
    assert float(result.stdout.split()[0]) == pytest.approx(truth, rel=0.03)


def test_timing_the_jit_function_itself_is_noticed() -> None:
    """What the scenario exists to avoid: without cute.compile a call costs milliseconds."""
    code = CUTE_SETUP.format(us=50.0, cold=60.0)
    whole = rendered("cute", "--method=event", f"--setup={code}", "--call=scale(x, y, stream)")
    edit = replace_once(
        "compiled = cutlass.cute.compile(function, *values, **named)", "compiled = function"
    )
    sound, broken = (run_script(text).stdout for text in (whole, edit(whole)))
    assert "host-bound" not in sound and "host-bound" in broken


@pytest.mark.parametrize("size", [[], ["--minimal"]], ids=["full", "minimal"])
def test_the_nvtx_demonstration_runs_as_rendered(size: list[str]) -> None:
    result = run_script(rendered("nvtx", *size))
    assert result.exit_code == 0, str(result)

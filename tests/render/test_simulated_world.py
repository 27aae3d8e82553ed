"""The simulated device itself: it must mislead careless timing code exactly as a GPU does."""

from __future__ import annotations

import sys
import time
from textwrap import dedent
from typing import Any

import pytest
from simulated_device import EXIT_LIMIT, MIB, DeviceModel, Result, run_script

QUIET = {"jitter": 0.0, "spike_probability": 0.0, "host_jitter": 0.0, "ramp_ms": 0.0}

PRELUDE = """
import statistics, time
import torch, simulated

def pair():
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

def window_us(function, calls=100):
    start, end = pair()
    start.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / calls

def behind_spin_us(function):
    start, end = pair()
    torch.cuda._sleep(2_000_000)
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3

def replay_us(function, calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    graph.replay()
    torch.cuda.synchronize()
    return window_us(graph.replay, 10)
"""


def run(body: str, **model: Any) -> Result:
    """Run a snippet after the prelude on a device without noise."""
    return run_script(PRELUDE + dedent(body), DeviceModel(**(QUIET | model)))


def value(body: str, **model: Any) -> float:
    """The number that the snippet prints last."""
    result = run(body, **model)
    assert result.exit_code == 0, str(result)
    return float(result.stdout.split()[-1])


def test_an_event_window_over_a_short_kernel_reads_the_launch_cost() -> None:
    read = value("op = simulated.kernel('k', 1.0); op(); print(window_us(op, 500))")
    assert read == pytest.approx(4.0, rel=0.03)


def test_an_event_window_over_a_long_kernel_reads_kernel_and_gap() -> None:
    read = value("op = simulated.kernel('k', 100.0); op(); print(window_us(op, 500))")
    assert read == pytest.approx(101.0, rel=0.01)


def test_an_empty_event_pair_reads_the_floor_of_the_device() -> None:
    assert value("print(behind_spin_us(lambda: None))") == pytest.approx(1.25, abs=0.04)


def test_a_null_kernel_between_two_events_reads_the_pair_cost_as_well() -> None:
    read = value("op = simulated.kernel('k', 0.65, bytes=0); op(); print(behind_spin_us(op))")
    assert read == pytest.approx(2.85, abs=0.05)


def test_an_event_pair_adds_less_near_the_end_of_what_is_queued() -> None:
    body = """
    op = simulated.kernel('k', 0.65, bytes=0)
    op()
    marks = [[torch.cuda.Event(enable_timing=True) for _ in 'ab'] for _ in range(30)]
    torch.cuda.synchronize()
    torch.cuda._sleep(4_000_000)
    for start, end in marks:
        start.record()
        op()
        end.record()
    torch.cuda.synchronize()
    first, last = marks[0], marks[-1]
    print(1e3 * (first[0].elapsed_time(first[1]) - last[0].elapsed_time(last[1])))
    """
    assert value(body) == pytest.approx(0.65, abs=0.05)


def test_coarse_event_resolution_shows_in_steps_of_half_a_microsecond() -> None:
    read = value("print(behind_spin_us(lambda: None))", event_resolution_us=0.5)
    assert read % 0.5 == pytest.approx(0.0, abs=1e-6)


def test_waiting_on_each_call_adds_the_wait_to_the_host_clock() -> None:
    body = """
    op = simulated.kernel('k', 5.0)
    op()
    begin = time.perf_counter()
    for _ in range(100):
        op()
        torch.cuda.synchronize()
    print((time.perf_counter() - begin) * 1e4)
    """
    assert value(body) == pytest.approx(19.0, abs=1.0)


def test_a_host_clock_without_a_wait_misses_the_kernel() -> None:
    body = """
    op = simulated.kernel('k', 100.0)
    op()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(100):
        op()
    print((time.perf_counter() - begin) * 1e4)
    """
    assert value(body) == pytest.approx(4.0, abs=0.1)


def test_the_host_blocks_when_the_launch_queue_is_full() -> None:
    body = """
    op = simulated.kernel('k', 100.0)
    op()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(3000):
        op()
    print((time.perf_counter() - begin) * 1e3)
    """
    assert value(body) == pytest.approx(2000 * 0.101, rel=0.02)


def test_the_first_call_of_a_kernel_costs_milliseconds() -> None:
    body = """
    torch.cuda.synchronize()
    op = simulated.kernel('k', 5.0)
    print(window_us(op, 1))
    """
    assert value(body) > 3_000


def test_the_clock_ramps_up_after_idle() -> None:
    body = "op = simulated.kernel('k', 100.0); op(); print(window_us(op, 10))"
    assert value(body, ramp_ms=1000.0) > 130


def test_the_slope_of_two_graphs_reads_the_kernel() -> None:
    body = "op = simulated.kernel('k', 5.0); op(); print(replay_us(op, 120) - replay_us(op, 20))"
    assert value(body) / 100 == pytest.approx(5.05, rel=0.005)


def test_a_sub_microsecond_kernel_in_a_graph_reads_its_launch_period() -> None:
    body = "op = simulated.kernel('k', 0.92); op(); print(replay_us(op, 120) - replay_us(op, 20))"
    assert value(body) / 100 == pytest.approx(1.3, rel=0.02)


@pytest.mark.parametrize(
    ("flush_mib", "expected_us"),
    [(256, 20.0), (40, 10.0)],
    ids=["a flush beyond the cache makes it cold", "a flush that fits beside it leaves it warm"],
)
def test_a_flush_evicts_what_does_not_fit(flush_mib: int, expected_us: float) -> None:
    body = f"""
    op = simulated.kernel('k', 10.0, cold_us=20.0, bytes=8 << 20)
    flush = torch.empty({flush_mib} << 20, dtype=torch.int8, device='cuda')
    op()
    flush.zero_()
    print(behind_spin_us(op) - 2.2)
    """
    assert value(body) == pytest.approx(expected_us, abs=0.05)


def test_a_persisting_buffer_survives_the_flush_until_it_is_reset() -> None:
    body = """
    op = simulated.kernel('k', 10.0, cold_us=20.0, persisting=True)
    flush = torch.empty(256 << 20, dtype=torch.int8, device='cuda')
    op()
    flush.zero_()
    print(round(behind_spin_us(op)))
    torch.cuda.cudart().cudaCtxResetPersistingL2Cache()
    flush.zero_()
    print(round(behind_spin_us(op)))
    """
    assert run(body, persisting_l2=True).stdout.split() == ["12", "22"]


def test_dirty_lines_of_a_flush_can_cost_the_next_kernel() -> None:
    body = """
    op = simulated.kernel('k', 10.0, cold_us=20.0, bytes=8 << 20)
    flush = torch.empty(256 << 20, dtype=torch.int8, device='cuda')
    op()
    flush.zero_()
    print(behind_spin_us(op))
    """
    extra = value(body, writeback_fraction=1.0) - value(body)
    assert extra == pytest.approx(8 * MIB / 4.3e6, abs=0.05)


def test_work_on_an_unjoined_stream_is_missing_from_the_events() -> None:
    body = """
    op = simulated.kernel('k', 300.0, stream='side', join='none')
    op()
    print(window_us(op, 10))
    """
    result = run(body)
    assert float(result.stdout) < 10
    assert result.machine.busy_us > 3000


def test_a_joined_side_stream_is_in_the_events() -> None:
    body = "op = simulated.kernel('k', 300.0, stream='side'); op(); print(window_us(op, 10))"
    assert value(body) == pytest.approx(303, abs=3)


def test_the_power_cap_slows_kernels_and_shows_in_nvml() -> None:
    body = """
    import pynvml
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    op = simulated.kernel('k', 1000.0, bytes=0)
    op()
    print(window_us(op, 50), pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    window_us(op, 3000)
    print(window_us(op, 50), pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    print(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
    """
    before, reason, after, capped, mhz = run(body, power_cap_after_s=1.0).stdout.split()
    assert float(after) / float(before) == pytest.approx(1.32, rel=0.01)
    assert (reason, capped, mhz) == ("0", "4", "1500")


def test_nvml_can_be_opened_with_ctypes() -> None:
    body = """
    import ctypes
    nvml = ctypes.CDLL('libnvidia-ml.so.1')
    assert nvml.nvmlInit_v2() == 0
    handle, clock = ctypes.c_void_p(), ctypes.c_uint()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    op = simulated.kernel('k', 5.0)
    op()
    assert nvml.nvmlDeviceGetClockInfo(handle, 1, ctypes.byref(clock)) == 0
    print(clock.value)
    """
    assert value(body) == 1980
    assert run(body, has_nvml=False).exit_code == 1


CAPTURE = """
op = simulated.kernel('k', 5.0{options})
x = torch.ones(4, device='cuda')
op()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        {call}
except RuntimeError as error:
    print(error)
    print(error.__context__)
"""


@pytest.mark.parametrize(
    ("options", "call", "message"),
    [
        (", sync=True", "op()", "operation not permitted when stream is capturing"),
        ("", "torch.cuda.synchronize()", "operation not permitted when stream is capturing"),
        ("", "x.sum().item()", "operation not permitted when stream is capturing"),
        ("", "x.cpu()", "Cannot copy between CPU and CUDA tensors during CUDA graph capture"),
        (", allocates=True", "op()", "operation not permitted when stream is capturing"),
        (", stream='side', join='fork'", "op()", "capturing stream has unjoined work"),
    ],
    ids=[
        "a call that waits",
        "synchronize",
        "item",
        "a copy to the host",
        "cudaMalloc",
        "a fork without a join",
    ],
)
def test_capture_refuses(options: str, call: str, message: str) -> None:
    result = run(CAPTURE.format(options=options, call=call))
    assert message in result.stdout


def test_a_joined_fork_is_captured_with_its_dependencies() -> None:
    body = "op = simulated.kernel('k', 50.0, stream='side'); op(); print(replay_us(op, 10))"
    assert value(body) == pytest.approx(10 * 50.05 + 3.5, abs=1.5)


def test_work_on_another_stream_leaves_the_graph_empty_with_a_warning() -> None:
    body = """
    op = simulated.kernel('k', 50.0, stream='side', join='none')
    op()
    print(replay_us(op, 10))
    """
    result = run(body)
    assert "The CUDA Graph is empty" in result.stderr
    assert float(result.stdout) < 20


def test_elapsed_time_needs_events_that_are_recorded_timed_and_complete() -> None:
    body = """
    op = simulated.kernel('k', 5000.0)
    for first, second, act in (
        (torch.cuda.Event(), torch.cuda.Event(), True),
        (*pair(), False),
        (*pair(), True),
    ):
        if act:
            first.record(); op(); second.record()
        try:
            first.elapsed_time(second)
        except (RuntimeError, ValueError) as error:
            print(error)
    """
    lines = run(body).stdout.splitlines()
    assert [line.split()[4] for line in lines] == ["created", "recorded", "completed"]


def test_the_first_profiler_session_of_a_process_is_empty() -> None:
    body = """
    from torch.profiler import profile, ProfilerActivity
    from torch.autograd import DeviceType
    op = simulated.kernel('k', 5.0)
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CUDA]) as session:
            op(); op()
        events = [e for e in session.events() if e.device_type == DeviceType.CUDA]
        print(len(events), sum(e.device_time_total for e in events))
    """
    counts = run(body).stdout.split()
    assert counts[:3] == ["0", "0", "2"]
    assert float(counts[3]) == pytest.approx(10.0, rel=0.01)


def test_the_chrome_trace_ties_kernels_to_their_launches() -> None:
    body = """
    import json, torch.profiler
    op = simulated.kernel('k', 5.0)
    x = torch.empty(1024, device='cuda')
    for _ in range(2):
        with torch.profiler.profile() as session:
            with torch.profiler.record_function('call'):
                op()
            x.zero_()
    session.export_chrome_trace('trace.json')
    """
    import json

    rows = json.loads(run(body).files["trace.json"])["traceEvents"]
    by_category = {row["cat"]: row for row in rows}
    kernel, launch = by_category["kernel"], next(r for r in rows if r["name"] == "cudaLaunchKernel")
    assert kernel["args"]["correlation"] == launch["args"]["correlation"]
    assert kernel["dur"] == pytest.approx(5.0)
    assert kernel["args"]["stream"] == 7 and "gpu_memset" in by_category
    assert kernel["ts"] > launch["ts"]


@pytest.mark.parametrize(
    ("version", "body", "works"),
    [
        ("2.9.1", "torch.cuda.get_device_properties(0).memory_clock_rate", False),
        ("2.10.0", "torch.cuda.get_device_properties(0).memory_clock_rate", True),
        ("2.5.0", "torch.accelerator.synchronize()", False),
        ("2.6.0", "torch.accelerator.synchronize()", True),
        ("2.7.0", "torch.cuda.Event(enable_timing=True, external=True)", False),
        ("2.8.0", "torch.cuda.Event(enable_timing=True, external=True)", True),
    ],
)
def test_newer_names_are_missing_from_older_torch(version: str, body: str, works: bool) -> None:
    assert (run(body, torch_version=version).exit_code == 0) is works


def test_a_result_that_is_not_recomputed_differs_from_a_fresh_one() -> None:
    body = """
    x = torch.randn(16, device='cuda')
    op = simulated.kernel('k', 5.0, inputs=[x], working_calls=1)
    first = op().clone()
    x.normal_()
    print(torch.equal(op(), first), torch.equal(op(), 2 * x))
    """
    assert run(body).stdout.split() == ["True", "False"]


def test_unfused_and_fused_results_agree() -> None:
    body = """
    x = torch.randn(8, 16, device='cuda')
    e = torch.exp(x - x.max(dim=-1, keepdim=True))
    torch.testing.assert_close(e / e.sum(dim=-1, keepdim=True), torch.softmax(x, dim=-1))
    try:
        torch.testing.assert_close(x + 1, x)
    except AssertionError:
        print('different')
    """
    assert (
        run(body.replace("x.max(dim=-1, keepdim=True)", "x.amax(dim=-1, keepdim=True)")).stdout
        == "different\n"
    )


def test_an_autotuned_kernel_cannot_be_tuned_inside_a_capture() -> None:
    body = """
    import triton, triton.language as tl
    @triton.autotune(configs=[triton.Config({'B': 128}), triton.Config({'B': 256})], key=['n'])
    @triton.jit
    def add_kernel(x, y, o, n, B: tl.constexpr):
        pass
    x, y, o = (torch.randn(1 << 20, device='cuda') for _ in range(3))
    call = lambda: add_kernel[lambda meta: (triton.cdiv(x.numel(), meta['B']),)](x, y, o, x.numel())
    if tune:
        call()
        torch.testing.assert_close(o, x + y)
    print(replay_us(call, 100) / 100)
    """
    good, bad = run("tune = True" + dedent(body)), run("tune = False" + dedent(body))
    assert 2 < float(good.stdout) < 6, str(good)
    assert "not permitted when stream is capturing" in bad.stderr


def test_a_compiled_cute_kernel_is_cheap_and_the_jit_function_is_not() -> None:
    body = """
    import cutlass, cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack
    @cute.jit
    def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        pass
    a, b, c = (from_dlpack(torch.randn(1 << 20, device='cuda')) for _ in range(3))
    compiled = cute.compile(add, a, b, c)
    compiled(a, b, c)
    add(a, b, c)
    print(window_us(lambda: compiled(a, b, c)), window_us(lambda: add(a, b, c), 5))
    """
    compiled, jit = run(body).stdout.split()
    assert float(compiled) == pytest.approx(13, abs=1)
    assert float(jit) > 10_000


def test_a_script_that_never_ends_is_stopped() -> None:
    result = run("while True: time.sleep(1)")
    assert result.exit_code == EXIT_LIMIT


def test_no_gpu_is_seen_where_there_is_none() -> None:
    result = run("print(torch.cuda.is_available()); torch.empty(1, device='cuda')", has_gpu=False)
    assert result.stdout == "False\n" and result.exit_code == 1


def test_this_process_is_left_as_it_was() -> None:
    before = {
        name: module
        for name, module in sys.modules.items()
        if name.split(".")[0] in ("torch", "time")
    }
    run("import os, sys, gc; os.chdir('/'); sys.argv.append('x'); gc.disable(); sys.exit(3)")
    after = {
        name: module
        for name, module in sys.modules.items()
        if name.split(".")[0] in ("torch", "time")
    }
    assert after == before and sys.modules["time"] is time
    assert sys.argv[-1] != "x"


def test_two_runs_with_one_seed_are_equal() -> None:
    body = "op = simulated.kernel('k', 5.0); op(); print(window_us(op, 50), time.perf_counter())"
    noise = {"jitter": 0.01, "host_jitter": 0.1}
    assert run(body, **noise).stdout == run(body, **noise).stdout
    assert run(body, **noise).stdout != run(body, **noise, seed=1).stdout

"""raw-cuda programs, compiled by nvcc and linked with a simulated runtime, tell the known time."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from simulated_device.program import Done, build, has_compilers, run_program
from simulated_device.rendering import rendered, replace_once

pytestmark = pytest.mark.skipif(not has_compilers(), reason="needs nvcc and g++")

DEMO = "9block_sum"
SPIN, FLUSH = ["4spin"], ["8read_all"]
Build = Any


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles a render once a module; the options are the key."""
    programs: dict[Any, pathlib.Path] = {}

    def build_once(*options: str, old: str = "", new: str = "") -> pathlib.Path:
        key = (*options, old, new)
        if key not in programs:
            code = rendered("raw-cuda", *options)
            if old:
                code = replace_once(old, new)(code)
            programs[key] = build(code, tmp_path_factory.mktemp("raw-cuda"))
        return programs[key]

    return build_once


def run(program: pathlib.Path, warm_us: float, cold_us: float | None = None, **more: Any) -> Done:
    kernels = {DEMO: (warm_us, cold_us or 1.25 * warm_us)}
    return run_program(program, kernels, spin=SPIN, flush=FLUSH, **more)


def record(done: Done) -> dict[str, Any]:
    assert done.exit_code == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.files["record.json"])
    return found


def complaints(done: Done, truth_us: float, within: float) -> list[str]:
    if done.exit_code != 0:
        return [f"exit {done.exit_code}: {done.stderr}"]
    found = record(done)
    doubts = [flag["code"] for flag in found["flags"]]
    if found["kernel_time_us"] is None:
        doubts.remove("unchecked")  # CUPTI could not be had, and the program says so
    read = found["summary"]["median_us"]
    if abs(read - truth_us) > within * truth_us:
        doubts.append(f"reads {read}, is {truth_us}")
    return doubts


JSON = "--json=record.json"


@pytest.mark.parametrize(
    ("method", "cache", "us", "within"),
    [
        ("event", "warm", 20.0, 0.05),
        ("event", "warm", 100.0, 0.02),
        ("event", "cold", 20.0, 0.05),
        ("event", "cold", 100.0, 0.02),
        ("graph", "warm", 3.5, 0.03),
        ("graph", "warm", 5.1, 0.03),
        ("graph", "warm", 100.0, 0.02),
        ("graph", "cold", 5.1, 0.05),
        ("graph", "cold", 100.0, 0.02),
    ],
)
def test_the_known_time_is_reported(
    built: Build, method: str, cache: str, us: float, within: float
) -> None:
    program = built(f"--method={method}", f"--cache={cache}", JSON)
    truth = us if cache == "warm" else 1.25 * us
    assert complaints(run(program, us), truth, within) == []


CUPTI = {"SIM_CUPTI": "1"}


@pytest.mark.parametrize("method", ["event", "graph"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize("flush", ["write", "read"])
def test_cupti_cross_checks_the_figure(built: Build, method: str, cache: str, flush: str) -> None:
    program = built(f"--method={method}", f"--cache={cache}", f"--flush={flush}", JSON)
    done = run(program, 20.0, environ=CUPTI)
    truth_us = 20.0 if cache == "warm" else 25.0
    assert complaints(done, truth_us, 0.01) == []
    assert record(done)["kernel_time_us"] == pytest.approx(truth_us, rel=0.005)
    assert record(done)["kernels_per_call"] == 1 and "(cross-check)" in done.stdout
    assert record(done)["doubt_us"] < 0.14


@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize("gap_us", ["0.0", "0.08", "0.4"])
def test_the_gap_in_a_graph_is_read_where_cupti_can_be_had(
    built: Build, cache: str, gap_us: str
) -> None:
    program = built("--method=graph", f"--cache={cache}", JSON)
    environ = {**CUPTI, "SIM_GRAPH_GAP_US": gap_us, "SIM_FLUSH_GAP_US": "0.2"}
    truth_us = 5.1 if cache == "warm" else 6.375
    assert complaints(run(program, 5.1, environ=environ), truth_us, 0.01) == []


@pytest.mark.parametrize("state", [None, "busy", "lossy"])
def test_without_cupti_the_figure_says_that_it_is_unchecked(
    built: Build, state: str | None
) -> None:
    program = built("--method=graph", "--cache=warm", JSON)
    done = run(program, 20.0, environ={"SIM_CUPTI": state} if state else {})
    assert [flag["code"] for flag in record(done)["flags"]] == ["unchecked"]
    assert record(done)["kernel_time_us"] is None
    assert record(done)["summary"]["median_us"] == pytest.approx(20.0, rel=0.01)


@pytest.mark.parametrize("method", ["event", "graph"])
@pytest.mark.parametrize(("us", "cache"), [(4.0, "warm"), (20.0, "warm"), (100.0, "cold")])
def test_what_tracing_adds_to_many_blocks_is_told_and_not_taken_over(
    built: Build, method: str, us: float, cache: str
) -> None:
    program = built(
        "--kernel=__global__ void scale(float* out) {}",
        "--setup=float* out = device_array<float>(9);",
        "--launch=scale<<<131072, 256>>>(out)",
        f"--method={method}",
        f"--cache={cache}",
        JSON,
    )
    kernels = {"5scale": (us, us)}
    environ = {**CUPTI, "SIM_CUPTI_SLOWS": "5scale"}
    done = run_program(program, kernels, spin=SPIN, flush=FLUSH, environ=environ)
    found = record(done)
    assert found["summary"]["median_us"] == pytest.approx(us, rel=0.015, abs=0.06)
    assert found["kernel_time_us"] == pytest.approx(1.06 * us, rel=0.01)
    flags = {flag["code"]: flag["message"] for flag in found["flags"]}
    assert "131072 blocks" in flags["unchecked"] and "disagrees" not in flags


def test_a_figure_below_cupti_is_flagged(built: Build) -> None:
    program = built("--method=event", "--cache=cold", JSON)
    done = run(program, 20.0, environ={**CUPTI, "SIM_CUPTI_SLOWS": DEMO})
    flags = {flag["code"]: flag["message"] for flag in record(done)["flags"]}
    assert "more than the figure" in flags["disagrees"]  # its blocks all run at a time


def test_kernels_are_timed_in_a_process_where_two_streams_have_worked(built: Build) -> None:
    old, options = "    use_second_stream();\n", ("--method=graph", "--cache=warm", JSON)
    assert complaints(run(built(*options), 5.1), 5.1, 0.02) == []
    assert complaints(run(built(*options, old=old), 5.1), 5.1, 0.02) != []


def test_the_gap_after_a_flush_is_calibrated_there(built: Build) -> None:
    program = built("--method=graph", "--cache=cold", JSON)
    found = record(run(program, 4.0, 5.0, environ={"SIM_FLUSH_GAP_US": "0.3"}))
    assert found["summary"]["median_us"] == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_a_short_figure_tells_its_doubt(built: Build, cache: str) -> None:
    found = record(run(built("--method=graph", f"--cache={cache}", JSON), 2.0, 2.5))
    assert "below-floor" in [flag["code"] for flag in found["flags"]]
    truth_us = 2.0 if cache == "warm" else 2.5
    assert found["summary"]["median_us"] == pytest.approx(truth_us, abs=0.1)


def test_a_launch_bound_figure_is_labelled(built: Build) -> None:
    done = run(built("--method=event", "--cache=warm", JSON), 2.0)
    assert record(done)["host_bound"] is True
    assert "host-bound" in done.stdout and "--method graph" in done.stdout


@pytest.mark.parametrize("method", ["event", "graph"])
def test_data_that_persists_in_the_l2_is_told(built: Build, method: str) -> None:
    program = built(f"--method={method}", "--cache=cold", JSON)
    found = record(run(program, 20.0, environ={"SIM_PERSIST": DEMO}))
    assert "not-cold" in [flag["code"] for flag in found["flags"]]
    assert found["summary"]["median_us"] == pytest.approx(20.0, rel=0.05)


@pytest.mark.parametrize("method", ["event", "graph"])
def test_the_interval_holds_the_doubt_about_what_is_subtracted(built: Build, method: str) -> None:
    summary = record(run(built(f"--method={method}", "--cache=warm", JSON), 20.0))["summary"]
    assert summary["ci95_low_us"] < summary["median_us"] - 0.1
    assert summary["ci95_high_us"] > summary["median_us"] + 0.1
    assert summary["ci95_low_us"] < 20.0 < summary["ci95_high_us"]


def test_the_record_has_the_keys_of_the_schema(built: Build) -> None:
    found = record(run(built("--method=graph", "--cache=warm", JSON), 5.1))
    assert found["schema"] == "perf-timing/1" and found["kind"] == "op"
    assert found["summary"]["n"] == len(found["samples_us"]) >= 30
    assert found["device"]["name"] == "NVIDIA H200" and found["versions"]["cuda"] == "13.0"
    assert found["warmup"]["ms"] >= 300 and found["converged"] is True


@pytest.mark.parametrize(
    "call", ["cudaMalloc", "cudaEventRecord", "cudaLaunchKernel", "cudaEventElapsedTime"]
)
def test_a_cuda_error_is_told_with_its_line(built: Build, call: str) -> None:
    program = built("--method=event", "--cache=warm", JSON)
    done = run(program, 20.0, environ={"SIM_FAIL": call})
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1 and "invalid argument" in done.stderr
    assert "line" in done.stderr


def test_without_a_gpu_one_line_and_status_2(built: Build) -> None:
    done = run(built("--method=event", "--cache=warm", JSON), 20.0, environ={"SIM_NO_GPU": "1"})
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_record_that_cannot_be_written_is_an_error(built: Build) -> None:
    program = built("--method=event", "--cache=warm", JSON)
    (program.parent / "record.json").unlink(missing_ok=True)
    (program.parent / "record.json").mkdir()
    done = run(program, 20.0)
    (program.parent / "record.json").rmdir()
    assert done.exit_code == 2 and "record.json" in done.stderr


def test_an_own_kernel_is_timed_and_hostile_names_stay_values(built: Build) -> None:
    name = 'a"b\\c\n??/ %s %n {{ 1 }} \u00e9 */'
    program = built(
        "--kernel=__global__ void scale(float* out, const float* in, float by, int n) {}",
        "--setup=int n = 9;\nauto* a = device_array<float>(n);\nauto* b = device_array<float>(n);",
        "--launch=scale<<<4, 256>>>(a, b, 2.0f, n)",
        "--method=graph",
        f"--name={name}",
        f"--dims={name}",
        JSON,
    )
    kernels = {"5scale": (7.0, 8.0)}
    done = run_program(program, kernels, spin=SPIN, flush=FLUSH)
    assert complaints(done, 7.0, 0.03) == []
    assert (record(done)["name"], record(done)["dims"]) == (name, name)


def test_the_minimal_program_reports_the_known_time(built: Build) -> None:
    done = run(built("--minimal"), 100.0, environ={"SIM_RAMP_US": "1000"})
    assert done.exit_code == 0, done.stderr
    assert float(done.stdout.split()[0]) == pytest.approx(100.0, rel=0.03)


BROKEN = {
    "no wait for the end": (
        "event",
        "warm",
        100.0,
        "    CHECK(cudaEventSynchronize(end));\n    float elapsed_ms = 0.0f;\n"
        "    CHECK(cudaEventElapsedTime(&elapsed_ms, start, end));\n    return",
        "    float elapsed_ms = 0.0f;\n"
        "    CHECK(cudaEventElapsedTime(&elapsed_ms, start, end));\n    return",
    ),
    "no flush": (
        "graph",
        "cold",
        20.0,
        "        flush();\n        what(timer.stream);",
        "        what(timer.stream);",
    ),
    "a wait per launch": (
        "event",
        "warm",
        20.0,
        "for (int i = 0; i < count; ++i) what(timer.stream);",
        "for (int i = 0; i < count; ++i) what(timer.stream), cudaDeviceSynchronize();",
    ),
    "seconds for milliseconds": (
        "event",
        "warm",
        20.0,
        "return 1e3 * elapsed_ms;",
        "return elapsed_ms;",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_program_broken_on_purpose_fails_the_check(built: Build, what: str) -> None:
    method, cache, us, old, new = BROKEN[what]
    options = [f"--method={method}", f"--cache={cache}", JSON]
    truth = us if cache == "warm" else 1.25 * us
    assert complaints(run(built(*options), us), truth, 0.05) == []
    assert complaints(run(built(*options, old=old, new=new), us), truth, 0.05) != []

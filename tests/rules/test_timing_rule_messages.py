"""What rules say: the message, the note and the related places, where they depend on the code.

Facts about torch and nvtx are checked against what is installed.
"""

import inspect
import warnings

import nvtx
import pytest
import torch
from perf_timing.lint.catalog import load_rules
from perf_timing.lint.check import check
from perf_timing.lint.model import Finding, Unit


def reported(rule: str, code: str, language: str = "python") -> list[Finding]:
    """The findings of one rule in a snippet."""
    rules = [r for r in load_rules() if r.name == rule]
    result = check([Unit("example", language, code)], rules)
    assert not result.unchecked
    return list(result.findings)


PROFILED = """\
from torch.profiler import profile
with profile() as prof:
    step()
"""
LOOP = PROFILED + "for row in prof.{rows}():\n    print(row.{name})\n"


@pytest.fixture(scope="module")
def profiled() -> torch.profiler.profile:
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as prof:
        torch.ones(8) + 1
    return prof


def outcome(row: object, name: str) -> str:
    """ "gone", "warns" or "works": what reading an attribute comes to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            getattr(row, name)
        except AttributeError:
            return "gone"
    return "warns" if any(issubclass(w.category, FutureWarning) for w in caught) else "works"


@pytest.mark.parametrize("rows", ["key_averages", "events"])
@pytest.mark.parametrize(
    "name",
    [
        "cuda_time",
        "cuda_time_total",
        "self_cuda_time_total",
        "cuda_time_total_str",
        "self_cuda_memory_usage",
        "device_time_total",
        "self_device_time_total",
    ],
)
def test_what_is_said_of_a_profiler_name_is_what_torch_does(
    profiled: torch.profiler.profile, rows: str, name: str
) -> None:
    found = reported("profiler-removed-name", LOOP.format(rows=rows, name=name))
    said = "works"
    if found:
        said = "gone" if "AttributeError" in found[0].message else "warns"
        assert found[0].severity == ("error" if said == "gone" else "warning")
        assert ("FutureWarning" in found[0].message) == (said == "warns")
    assert said == outcome(getattr(profiled, rows)()[0], name)


def test_a_sort_key_that_torch_takes_is_a_remark(profiled: torch.profiler.profile) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiled.key_averages().table(sort_by="cuda_time_total")
    code = PROFILED + 'print(prof.key_averages().table(sort_by="cuda_time_total"))\n'
    (finding,) = reported("profiler-removed-name", code)
    assert finding.severity == "info"
    assert "still takes it, without a warning" in finding.message


def test_the_names_of_nvtx_are_those_that_the_rule_knows() -> None:
    for name in ("push_range", "pop_range", "start_range", "end_range", "annotate"):
        assert hasattr(nvtx, name) and not hasattr(torch.cuda.nvtx, name)
    for name in ("range_push", "range_pop", "range_start", "range_end", "range"):
        assert hasattr(torch.cuda.nvtx, name) and not hasattr(nvtx, name)
    takes = set(inspect.signature(nvtx.annotate).parameters) - {"self"}
    assert takes == {"message", "color", "domain", "category", "payload"}


BETWEEN = """\
__global__ void k(float *x);
int main() {
  for (int i = 0; i < 100; ++i) {
    cudaEventRecord(start);
    cudaDeviceSynchronize();
    k<<<1, 32>>>(x);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&ms, start, stop);
    total += ms;
  }
  printf("%f ms\\n", total / 100);
}
"""


def test_a_wait_before_the_work_of_each_sample_is_to_move_before_the_start_event() -> None:
    (finding,) = reported("sync-in-measured-loop", BETWEEN, "cuda")
    assert "between the start event and the work" in finding.message
    assert finding.note.startswith("Wait before the start event is recorded, once")
    assert "after the loop" not in finding.note


HELPER = """\
import time
import torch
def finish():
    torch.cuda.synchronize()
def bench(n):
    x = torch.randn(8, 8, device="cuda")
    t0 = time.perf_counter()
    for _ in range(n):
        torch.mm(x, x)
        finish()
    return n / (time.perf_counter() - t0)
bench(10)
"""


def test_a_wait_in_a_helper_is_named_with_its_line() -> None:
    (finding,) = reported("sync-in-measured-loop", HELPER)
    assert finding.line == 10
    assert "finish(), by synchronize() on line 4, waits" in finding.message
    assert (finding.related[0].line, finding.related[0].message) == (4, "the wait")


SAMPLES = """\
import time
import torch
def bench():
    x = torch.randn(256, 256, device="cuda")
    for _ in range(100):
        t0 = time.perf_counter()
        torch.mm(x, x)
        torch.cuda.synchronize()
        print(time.perf_counter() - t0)
"""


def test_the_wait_of_a_sample_that_is_printed_is_not_to_move_behind_the_loop() -> None:
    (finding,) = reported("sync-in-measured-loop", SAMPLES)
    assert "each figure holds a launch latency beside the work" in finding.message
    assert "Wait once after the loop" not in finding.note
    assert "unless one takes milliseconds" in finding.note


def test_two_waits_in_a_row_are_one_finding() -> None:
    twice = HELPER.replace("        finish()\n", "        finish()\n        finish()\n")
    assert [f.line for f in reported("sync-in-measured-loop", twice)] == [10]


def test_a_clone_costs_its_copy() -> None:
    code = (
        "import torch\n"
        "def bench(c, out, start, end):\n"
        "    start.record()\n"
        "    for _ in range(100):\n"
        "        d = c.clone()\n"
        "        torch.mm(c, d, out=out)\n"
        "    end.record()\n"
        "    end.synchronize()\n"
        "    return start.elapsed_time(end) / 100\n"
        "bench(torch.randn(8, 8, device='cuda'), o, a, b)\n"
    )
    (finding,) = reported("allocation-in-measured-region", code)
    assert finding.message.startswith("clone() copies inside the region")
    assert finding.message.endswith("includes the copy")
    made = code.replace("c.clone()", "torch.empty(8, 8, device='cuda')")
    (finding,) = reported("allocation-in-measured-region", made)
    assert finding.message.endswith("includes the allocation")


def unit_finding(body: str) -> Finding:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (finding,) = reported("unit-mismatch", f"import time\ndef f(n, flops, out):\n{lines}")
    return finding


SPAN = "t0 = time.perf_counter()\nrun()\ndt = time.perf_counter() - t0\n"


def test_a_time_converted_the_wrong_way_is_said_to_be() -> None:
    finding = unit_finding(SPAN + 'print(f"took {dt / n / 1000} msec")')
    assert "units of 1000 seconds, as if converted twice or the wrong way" in finding.message
    assert finding.note.startswith("Convert once, in the right direction")
    # The clock gives seconds; what gives the unit is the division, which is reported itself.
    assert [s.message for s in finding.related] == ["the time comes from here"]


def test_the_place_with_the_factor_is_where_the_unit_comes_from() -> None:
    finding = unit_finding(SPAN + 'ms = dt * 1000\nprint(f"time (us): {ms}")')
    assert [(s.line, s.message) for s in finding.related] == [(6, "milliseconds come from here")]
    assert finding.note.startswith("Correct the text or the key if milliseconds are meant")


def test_a_name_that_every_output_contradicts_is_to_be_renamed() -> None:
    wrong = "flops_per_sec = flops / dt / 1e12\n"
    finding = unit_finding(SPAN + wrong + 'print(f"{flops_per_sec:.1f} TFLOPS")')
    assert finding.note.startswith("Rename `flops_per_sec`: it holds trillions of operations")
    finding = unit_finding(SPAN + wrong + "out.append(flops_per_sec)")
    assert "else convert where the time is read" in finding.note


UNSYNCED = """\
import time
import torch
def bench(model, x):
    t0 = time.perf_counter()
    {body}
    return time.perf_counter() - t0
bench(torch.nn.Linear(8, 8).cuda(), torch.randn(8, 8, device="cuda"))
"""


@pytest.mark.parametrize(
    ("body", "imports", "holds"),
    [
        ("torch.mm(x, x)", "", "the figure is launch time"),
        ("for _ in range(100):\n        torch.mm(x, x)", "", "what a full queue makes the host"),
        ("print(x.sum().item())\n    torch.mm(x, x)", "", "leaves out what is left of it then"),
        ("torch.mm(x, x)", "import triton\n", "compilation where the first call compiles"),
        (
            "load()\n    print(time.perf_counter() - t0)\n    torch.mm(x, x)",
            "",
            "leaves out what is left of it then",
        ),
    ],
    ids=["one call", "a loop", "a wait before the work", "a compiler", "an earlier reading"],
)
def test_the_message_says_what_the_figure_holds(body: str, imports: str, holds: str) -> None:
    code = imports + UNSYNCED.format(body=body)
    (finding,) = reported("host-clock-without-sync", code)
    assert holds in finding.message
    assert "inject-timing" not in finding.note


def test_many_steps_of_a_training_are_more_than_their_launches() -> None:
    body = "for _ in range(9):\n        for _ in range(14):\n            model(x).backward()"
    (finding,) = reported("host-clock-without-sync", UNSYNCED.format(body=body))
    assert "leaves out what is left of it then" in finding.message


STAGES = """\
void stages() {{
  double t0 = get_time();
  {work};
  double t1 = get_time();
  cudaMemcpy(h, x, n, cudaMemcpyDeviceToHost);
  double t2 = get_time();
  printf("%f s compute, %f s copy", t1 - t0, t2 - t1);
}}
"""


@pytest.mark.parametrize(
    ("work", "holds"),
    [
        ("scale<<<1, 256>>>(x)", "launch time, and the figure that ends on line 6 holds it"),
        ("sort_forward(d_x, n)", "leaves out what is left of it then, and the figure that ends on"),
        ("reduce_and_scale(x)", "leaves out what is left of it then, and the figure that ends"),
    ],
    ids=["a launch", "a function of another file", "a helper that waits and launches"],
)
def test_the_next_stage_is_said_to_hold_what_one_left(work: str, holds: str) -> None:
    helper = "void reduce_and_scale(float *x) { cudaDeviceSynchronize(); f<<<1, 1>>>(x); }\n"
    code = STAGES.format(work=work) + helper
    (finding,) = reported("host-clock-without-sync", code, "cuda")
    assert holds in finding.message


def costs(code: str, language: str = "python") -> str:
    (finding,) = reported("missing-warmup", code, language)
    return finding.message.partition("(")[2].partition(")")[0]


COLD = """\
import time
import torch
def bench():
    x = torch.randn(8, 8, device="cuda")
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    for _ in range(100):
        torch.mm(x, x)
    torch.cuda.synchronize()
    print((time.perf_counter() - t0) / 100)
bench()
"""


def test_one_time_costs_are_those_that_are_still_to_pay() -> None:
    assert costs(COLD).startswith("module load, first allocations")
    assert costs("import triton\n" + COLD).startswith("compilation of kernels, module load")
    events = (
        "int main() {\n  cudaMalloc(&x, n);\n  cudaEventRecord(start);\n  scale<<<1, 32>>>(x);\n"
        "  cudaEventRecord(stop);\n  cudaEventSynchronize(stop);\n"
        '  cudaEventElapsedTime(&ms, start, stop);\n  printf("%f ms\\n", ms);\n}\n'
    )
    assert costs(events, "cuda") == "module load"
    copies = events.replace("scale<<<1, 32>>>(x)", "cudaMemcpy(x, h, n, cudaMemcpyHostToDevice)")
    assert costs(copies, "cuda") == "set-up of the first copy"
    clock = (
        "int main() {\n  double t0 = omp_get_wtime();\n  scale<<<1, 32>>>(x);\n"
        '  cudaDeviceSynchronize();\n  printf("%f\\n", omp_get_wtime() - t0);\n}\n'
    )
    assert costs(clock, "cuda") == "context, module load"
    made = clock.replace("  double", "  buffer.copyToDevice();\n  double")
    assert costs(made, "cuda") == "module load"


def test_a_unit_that_nobody_uses_is_explained_on_two_paths_as_well() -> None:
    body = (
        "t0 = time.perf_counter_ns()\nfirst = (time.perf_counter_ns() - t0) / 1e6\n"
        "span = time.perf_counter_ns() - t0\n"
        "if n > 1:\n    step = span / n / 1e6\nelse:\n    step = first / 1e6\nout.append(step)"
    )
    finding = unit_finding(body)
    assert "units of 1000 seconds, as if converted twice or the wrong way" in finding.message
    assert "on another path the same value is in milliseconds" in finding.message
    assert finding.note.startswith("Convert once, in the right direction")

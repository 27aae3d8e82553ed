"""C++ functions, stopwatches and macros of other files: read from disk before a report."""

from pathlib import Path

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.model import Unit

PROGRAM = """\
#include "tools.h"
int main() {{
  float *d_x;
  cudaMalloc(&d_x, 1024);
  scale<<<1, 32>>>(d_x);
  cudaDeviceSynchronize();
  auto t0 = std::chrono::steady_clock::now();
  {work}
  auto t1 = std::chrono::steady_clock::now();
  printf("%f s\\n", std::chrono::duration<double>(t1 - t0).count());
}}
"""
WAITS = "void run(float *x) {\n  scale<<<1, 32>>>(x);\n  cudaDeviceSynchronize();\n}\n"
LEAVES = "void run(float *x) {\n  cudaDeviceSynchronize();\n  scale<<<1, 32>>>(x);\n}\n"
HOST = "void run(float *x) {\n  for (int i = 0; i < 8; ++i) counts[i] += 1;\n}\n"
CALLS = "static void finish() { cudaStreamSynchronize(s); }\n" + LEAVES.replace(
    "\n}", "\n  finish();\n}"
)
ASLEEP = "// cudaDeviceSynchronize();\n" + LEAVES.replace(
    "cudaDeviceSynchronize();", 'log("synchronize");'
)
OVERLOADED = WAITS + "void run(float *x, int n) {\n  scale<<<1, 32>>>(x);\n}\n"
KERNEL = "__global__ void run(float *x) { x[0] = 1; }\n" + WAITS


def reported(path: Path, text: str, rule: str = "host-clock-without-sync") -> bool:
    """Whether a rule reports something in a C++ text that lies at `path`."""
    found = check.check([Unit(str(path), "cuda", text)], catalog.load_rules()).findings
    return any(f.rule == rule for f in found)


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        pytest.param(WAITS, True, id="it waits after its launch"),
        pytest.param(CALLS, True, id="a function that it calls waits"),
        pytest.param(HOST, True, id="it runs on the host only"),
        pytest.param(KERNEL, True, id="a kernel has the same name"),
        pytest.param(LEAVES, False, id="it waits before its launch"),
        pytest.param(ASLEEP, False, id="its wait is a remark, or text"),
        pytest.param(OVERLOADED, True, id="one of two of its name waits"),
    ],
)
def test_a_report_hangs_on_what_the_function_does(tmp_path: Path, text: str, silent: bool) -> None:
    (tmp_path / "tools.h").write_text("void run(float *x);\n", encoding="utf-8")
    (tmp_path / "tools.cu").write_text(text, encoding="utf-8")
    program = PROGRAM.format(work="run(d_x);")
    assert reported(tmp_path / "main.cu", program) is not silent


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("src/tools.h", id="in the header itself"),
        pytest.param("src/kernels.cu", id="in another source beside the file"),
        pytest.param("include/tools.h", id="in a header of the repository's include folder"),
        pytest.param("common/tools.h", id="in a header of a folder of common code"),
    ],
)
def test_the_function_is_found(tmp_path: Path, place: str) -> None:
    (tmp_path / ".git").mkdir()
    for folder in ("src", "include", "common"):
        (tmp_path / folder).mkdir()
    (tmp_path / place).write_text(WAITS, encoding="utf-8")
    assert not reported(tmp_path / "src" / "main.cu", PROGRAM.format(work="run(d_x);"))


def test_nothing_is_read_above_the_repository(tmp_path: Path) -> None:
    header = WAITS.replace("run", "launch_run")
    (tmp_path / "tools.h").write_text(header, encoding="utf-8")
    work = PROGRAM.format(work="launch_run(d_x);")
    assert not reported(tmp_path / "main.cu", work)
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    assert reported(repository / "main.cu", work)


@pytest.mark.parametrize(
    ("header", "last", "silent"),
    [
        pytest.param("#define DONE() check(cudaDeviceSynchronize())\n", "DONE();", True, id="call"),
        pytest.param("#define DONE cudaDeviceSynchronize();\n", "DONE", True, id="bare name"),
        pytest.param("#define DONE() check(cudaGetLastError())\n", "DONE();", False, id="no wait"),
        pytest.param(WAITS.replace("run", "compare"), "compare(d_x);", True, id="a check reads"),
    ],
)
def test_a_later_call_may_wait(tmp_path: Path, header: str, last: str, silent: bool) -> None:
    (tmp_path / "tools.h").write_text(header, encoding="utf-8")
    program = PROGRAM.format(work="scale<<<1, 32>>>(d_x);\n  " + last)
    assert reported(tmp_path / "main.cu", program) is not silent


STOPWATCH = """\
class GpuClock {{
 public:
  void start() {{ begin_ = now(); }}
  void stop() {{ {stop} end_ = now(); }}
}};
"""
TIMED = """\
#include "tools.h"
int main() {
  GpuClock clock;
  clock.start();
  scale<<<1, 32>>>(x);
  clock.stop();
  printf("%f\\n", clock.elapsed());
}
"""


@pytest.mark.parametrize(
    ("stop", "silent"),
    [
        pytest.param("cudaDeviceSynchronize();", True, id="it waits before it reads the clock"),
        pytest.param("cudaEventRecord(last_);", True, id="it records an event"),
        pytest.param("", False, id="it only reads the clock"),
    ],
)
def test_a_stopwatch_may_wait(tmp_path: Path, stop: str, silent: bool) -> None:
    (tmp_path / "tools.h").write_text(STOPWATCH.format(stop=stop), encoding="utf-8")
    text = TIMED.replace("GpuClock", "WallClock")
    header = (tmp_path / "tools.h").read_text(encoding="utf-8").replace("GpuClock", "WallClock")
    (tmp_path / "tools.h").write_text(header, encoding="utf-8")
    assert reported(tmp_path / "main.cu", text) is not silent


STARTED = """\
#include "tools.h"
int main() {
  scale<<<1, 32>>>(d_out);
  validate(d_out);
  auto t0 = std::chrono::steady_clock::now();
  scale<<<1, 32>>>(d_out);
  cudaDeviceSynchronize();
  auto t1 = std::chrono::steady_clock::now();
  printf("%f s\\n", std::chrono::duration<double>(t1 - t0).count());
}
"""


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        pytest.param("cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost);", True, id="it copies back"),
        pytest.param("cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost);", False, id="it queues"),
    ],
)
def test_a_check_before_the_start_waits(tmp_path: Path, body: str, silent: bool) -> None:
    header = f"template <class T> void validate(T *d) {{ {body} }}\n"
    (tmp_path / "tools.h").write_text(header, encoding="utf-8")
    assert reported(tmp_path / "main.cu", STARTED, "unsynced-clock-start") is not silent


def test_a_result_hangs_on_the_files_that_were_read(tmp_path: Path) -> None:
    header = tmp_path / "tools.h"
    header.write_text(LEAVES, encoding="utf-8")
    unit = Unit(str(tmp_path / "main.cu"), "cuda", PROGRAM.format(work="run(d_x);"))
    consulted = check.check([unit], catalog.load_rules()).consulted[unit.path]
    assert ("content", str(header)) in consulted


COLD = """\
#include "tools.h"
int main(int argc, char **argv) {{
  float *buffer;
  cudaMalloc(&buffer, 1024);
  auto t0 = std::chrono::steady_clock::now();
  {work}
  auto t1 = std::chrono::steady_clock::now();
  printf("%f s\\n", std::chrono::duration<double>(t1 - t0).count());
}}
"""
SORTS = "void run(float *x) {\n  thrust::sort(thrust::device, x, x + 9);\n}\n"
CASTS = "void run(float *x) {\n  keep(thrust::raw_pointer_cast(x));\n}\n"
FREES = "void run(float *x) {\n  cudaFree(x);\n  cudaDeviceSynchronize();\n}\n"
DEEPER = "static void go(float *x) { scale<<<1, 32>>>(x); }\nvoid run(float *x) { go(x); }\n"


@pytest.mark.parametrize(
    ("text", "work", "cold"),
    [
        pytest.param(WAITS, "run(data);", True, id="it launches and waits"),
        pytest.param(LEAVES, "run(data);", True, id="it waits and launches"),
        pytest.param(DEEPER, "CHECK(run(data));", True, id="a function launches that it calls"),
        pytest.param(SORTS, "for (int i = 0; i < 9; ++i) run(data);", True, id="it uses Thrust"),
        pytest.param(HOST, "run(data);", False, id="it runs on the host only"),
        pytest.param(FREES, "run(data);", False, id="it frees and waits only"),
        pytest.param(CASTS, "run(data);", False, id="it casts a pointer of Thrust only"),
        pytest.param(WAITS, "run(data); run(argv[1]);", False, id="the program is what is timed"),
        pytest.param(WAITS, "pool.run(data);", False, id="a method has the name"),
        pytest.param(WAITS, "other(data);", False, id="another function is called"),
    ],
)
def test_work_is_found_where_only_another_file_shows_it(
    tmp_path: Path, text: str, work: str, cold: bool
) -> None:
    (tmp_path / "tools.h").write_text("void run(float *x);\n", encoding="utf-8")
    (tmp_path / "tools.cu").write_text(text, encoding="utf-8")
    program = COLD.format(work=work)
    assert reported(tmp_path / "main.cu", program, "missing-warmup") is cold


def test_work_of_another_file_is_warm_where_it_ran_before(tmp_path: Path) -> None:
    (tmp_path / "tools.h").write_text(WAITS, encoding="utf-8")
    program = COLD.format(work="run(data);").replace("  auto t0", "  run(data);\n  auto t0")
    assert not reported(tmp_path / "main.cu", program, "missing-warmup")

"""What --fix and --unsafe-fixes make of timing code."""

import pytest
from lint.lint_command import Lint, Project

EVENTS = """\
import torch


def run(work):
    start, end = {start}, {end}
    work()
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)
"""
CUDA_EVENTS = """\
#include <cuda_runtime.h>
void run(float* ms) {{
  cudaEvent_t a, b;
  cudaEventCreateWithFlags(&a, {a});
  cudaEventCreateWithFlags(&b, {b});
  kernel<<<1, 1>>>();
  cudaEventRecord(a);
  kernel<<<1, 1>>>();
  cudaEventRecord(b);
  cudaEventSynchronize(b);
  cudaEventElapsedTime(ms, a, b);
}}
"""
CPU_CLOCK = """\
import time

import torch


def run(model, x):
    x = x.cuda()
    for _ in range(10):
        model(x)
    torch.cuda.synchronize()
    t0 = time.{clock}()
    for _ in range(10):
        model(x)
    torch.cuda.synchronize()
    t1 = time.{clock}()
    print("took", (t1 - t0) / 10){more}
"""
NVTX = """\
import nvtx


def run(step, loader):
    for i in range(100):
        with nvtx.annotate({a}):
            step()
    for i, batch in enumerate(loader):
        nvtx.{push}({b})
        step(batch)
        nvtx.{pop}()
"""
SAFE = {
    "events of torch get timing": (
        "a.py",
        EVENTS.format(start="torch.cuda.Event()", end="torch.cuda.Event(blocking=True)"),
        EVENTS.format(
            start="torch.cuda.Event(enable_timing=True)",
            end="torch.cuda.Event(blocking=True, enable_timing=True)",
        ),
    ),
    "timing that was turned off is turned on": (
        "a.py",
        EVENTS.format(
            start="torch.cuda.Event(enable_timing=False)", end="torch.cuda.Event(False,)"
        ),
        EVENTS.format(start="torch.cuda.Event(enable_timing=True)", end="torch.cuda.Event(True,)"),
    ),
    "events of CUDA keep their other flags": (
        "a.cu",
        CUDA_EVENTS.format(
            a="cudaEventDisableTiming | cudaEventBlockingSync", b="cudaEventDisableTiming"
        ),
        CUDA_EVENTS.format(a="cudaEventDefault | cudaEventBlockingSync", b="cudaEventDefault"),
    ),
    "all readings of a function change their clock": (
        "a.py",
        CPU_CLOCK.format(clock="process_time", more=""),
        CPU_CLOCK.format(clock="perf_counter", more=""),
    ),
    "a count goes from the message to the payload, and names are those of the package": (
        "a.py",
        NVTX.format(a='f"step {i}"', b='f"batch_{i} of epoch"', push="range_push", pop="range_pop"),
        NVTX.format(
            a='"step", payload=i',
            b='"batch of epoch", payload=i',
            push="push_range",
            pop="pop_range",
        ),
    ),
}
LEFT = {
    "a reading that leaves the function": CPU_CLOCK.format(
        clock="process_time", more="\n    return t0"
    ),
    "a value that is no count": "import nvtx\nfor i in range(9):\n"
    '    with nvtx.annotate(f"step {name}"):\n        step()\n',
    "a name without an equivalent": "import torch\ntorch.cuda.nvtx.get_domain('a')\n",
    "a wait is not safe": "import time\nimport torch\nx = x.cuda()\nmodel(x)\n"
    "torch.cuda.synchronize()\nstart = time.time()\nmodel(x)\nprint(time.time() - start)\n",
}


@pytest.mark.parametrize("name", SAFE)
def test_safe_fixes(lint: Lint, project: Project, name: str) -> None:
    path, before, after = SAFE[name]
    folder = project({path: before})
    run = lint(path, "--fix", "--format", "json")
    assert (folder / path).read_text() == after
    assert not [f for f in run.findings if f["fix"] == "safe"]
    lint(path, "--fix")
    assert (folder / path).read_text() == after


@pytest.mark.parametrize("name", LEFT)
def test_what_safe_fixes_leave_alone(lint: Lint, project: Project, name: str) -> None:
    folder = project({"a.py": LEFT[name]})
    run = lint("a.py", "--fix", "--select", "ALL", "--format", "json")
    assert run.findings
    assert (folder / "a.py").read_text() == LEFT[name]


WAITS = """\
import time
import torch as th


def run(model, x):
    x = x.cuda()
    for _ in range(10):
        model(x)
{0}    start = time.perf_counter()
    for _ in range(10):
        model(x)
{0}    return (time.perf_counter() - start) / 10
"""
CUDA_WAITS = """\
#include <chrono>
#include <{0}_runtime.h>
void run() {{
  for (int i = 0; i < 10; ++i) kernel<<<1, 1>>>();
{1}  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) kernel<<<1, 1>>>();
{1}  auto stop = std::chrono::steady_clock::now();
  printf("%f\\n", std::chrono::duration<double>(stop - start).count() / 10);
}}
"""


@pytest.mark.parametrize(
    ("path", "code", "wait"),
    [
        ("a.py", WAITS, "    th.cuda.synchronize()\n"),
        ("a.cu", CUDA_WAITS.replace("{0}", "cuda").replace("{1}", "{0}"),
         "  cudaDeviceSynchronize();\n"),
        ("a.hip", CUDA_WAITS.replace("{0}", "hip/hip").replace("{1}", "{0}"),
         "  hipDeviceSynchronize();\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_wait_stands_before_each_reading(
    lint: Lint, project: Project, path: str, code: str, wait: str, end: str
) -> None:
    folder = project({path: code.format("").replace("\n", end).encode()})
    assert lint(path, "--fix").status == 1
    assert (folder / path).read_bytes().decode() == code.format("").replace("\n", end)
    run = lint(path, "--fix", "--unsafe-fixes", "--format", "json")
    assert (folder / path).read_bytes().decode() == code.format(wait).replace("\n", end)
    assert not {f["rule"] for f in run.findings} & {
        "host-clock-without-sync", "unsynced-clock-start"
    }  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        'import time, torch\nx = x.to("mps" if mps else "cuda")\n'
        "start = time.time()\nmodel(x)\nprint(time.time() - start)\n",
        "import time\nimport torch\nx = x.cuda()\nstart = time.time()\n"
        "model(x); print(time.time() - start)\n",
        "import time\nimport cupy\nx = cupy.ones(3)\nstart = time.time()\n"
        "y = x @ x\nprint(time.time() - start)\n",
    ],
    ids=["another device may be meant", "the work is on the same line", "no torch"],
)
def test_no_wait_where_it_is_not_plain(lint: Lint, project: Project, code: str) -> None:
    folder = project({"a.py": code})
    assert lint("a.py", "--fix", "--unsafe-fixes", "--fail-on", "info").status == 1
    assert (folder / "a.py").read_text() == code


SHORT = """\
{imports}
import torch

x = torch.randn(64, 64, device="cuda")
for _ in range(10):
    y = x @ x
torch.cuda.synchronize()


def once():
    a = {clock}()
    y = x @ x
    torch.cuda.synchronize()
    b = {clock}()
    print("matmul us:", (b - a) * 1e6){more}


def other():
    return {clock}()
"""


@pytest.mark.parametrize(
    ("imports", "old", "new"),
    [
        ("import time", "time.time", "time.perf_counter"),
        ("import time as t  # \u00b5s", "t.time", "t.perf_counter"),
        ("from time import perf_counter, time", "time", "perf_counter"),
        ("from time import time\nfrom time import perf_counter as now", "time", "now"),
        ("from time import time as wall\nimport time", "wall", "time.perf_counter"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_two_readings_of_a_short_span_become_perf_counter(
    lint: Lint, project: Project, imports: str, old: str, new: str, end: str
) -> None:
    before = SHORT.format(imports=imports, clock=old, more="").replace("\n", end)
    folder = project({"a.py": before.encode()})
    found = lint("a.py", "--format", "json").findings
    run = lint("a.py", "--fix", "--format", "json")
    after = (folder / "a.py").read_bytes().decode()
    for name in "ab":
        before = before.replace(f"{name} = {old}()", f"{name} = {new}()")
    assert after == before
    assert [f["rule"] for f in run.findings] == [
        f["rule"] for f in found if f["rule"] != "coarse-clock"
    ]


@pytest.mark.parametrize(
    ("imports", "clock", "more"),
    [
        ("from time import time", "time", ""),
        ("from time import time\nif x:\n    from time import perf_counter", "time", ""),
        ("from time import time, perf_counter\nperf_counter = time", "time", ""),
        ("import time", "time.time", "\n    print(a)"),
        ("import time", "time.time", "\n    return b"),
        ("import time", "time.time", "\n    log.start = a"),
        ("import time", "time.time", "\n    if a > limit:\n        stop()"),
        ("import time", "time.time", "\n    print(b - began)"),
        ("import time", "time.time", "\n    a = parse(text)\n    print(b - a)"),
        ("import time", "time.time", "\n    def late():\n        return a"),
        ("import time", "time.time", "\n    a += pause"),
        ("import time", "time.time", '\n    print(f"{a=}")'),
        ("import time", "time.time", "\n    c = d = time.time()\n    print(c - b, d)"),
    ],
    ids=[
        "perf_counter is not imported",
        "perf_counter may not be imported",
        "the name perf_counter is another function",
        "a reading is printed",
        "a reading is returned",
        "a reading is stored",
        "a reading is compared",
        "a reading meets a time from elsewhere",
        "a variable holds another time later",
        "an inner function uses a reading",
        "a reading is moved",
        "a reading is shown with its name",
        "a reading meets one that is printed",
    ],
)
def test_a_wall_clock_stays_where_its_readings_are_more_than_subtracted(
    lint: Lint, project: Project, imports: str, clock: str, more: str
) -> None:
    code = SHORT.format(imports=imports, clock=clock, more=more)
    folder = project({"a.py": code})
    arguments = ("a.py", "--select", "coarse-clock", "--format", "json")
    assert [f["fix"] for f in lint(*arguments).findings] == [None]
    lint(*arguments, "--fix", "--unsafe-fixes")
    assert (folder / "a.py").read_text() == code


def test_a_reading_of_the_module_stays_where_a_function_uses_it(
    lint: Lint, project: Project
) -> None:
    code = (
        "import time\nimport torch\nx = torch.randn(64, 64, device='cuda')\nbegan = time.time()\n"
        "y = x @ x\ntorch.cuda.synchronize()\nprint('us', (time.time() - began) * 1e6)\n"
        "def report():\n    print(began)\n"
    )
    folder = project({"a.py": code})
    lint("a.py", "--select", "coarse-clock", "--fix")
    assert (folder / "a.py").read_text() == code
    project({"a.py": code.replace("    print(began)", "    pass")})
    lint("a.py", "--select", "coarse-clock", "--fix")
    assert "began = time.perf_counter()" in (folder / "a.py").read_text()

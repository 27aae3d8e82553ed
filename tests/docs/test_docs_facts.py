"""What the references say of libraries, asked of the libraries that are installed."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import warnings
from typing import Any

import pytest
from docs.documents import ROOT, read

NVTX_PAGE = read("references/nvtx-api.md")
PROFILER_PAGE = read("references/pytorch-profiler-api.md")
PATTERNS_PAGE = read("references/benchmarking-patterns.md")


# --- nvtx --------------------------------------------------------------------------------------


def test_every_name_of_nvtx_on_the_page_exists() -> None:
    nvtx = pytest.importorskip("nvtx")
    named = set(re.findall(r"(?<![.\w])nvtx\.(\w+)", NVTX_PAGE))
    assert {"annotate", "push_range", "pop_range", "get_domain", "mark"} <= named
    missing = {name for name in named if not hasattr(nvtx, name)}
    assert missing == {"range_push"}  # the page says that this one does not exist
    assert "`nvtx.range_push` and `torch.cuda.nvtx.push_range` do not exist" in NVTX_PAGE


def test_a_domain_is_a_string_and_an_object_is_refused() -> None:
    nvtx = pytest.importorskip("nvtx")
    with nvtx.annotate("fine", domain="training", category="a", payload=1, color="blue"):
        pass
    with pytest.raises(TypeError), nvtx.annotate("refused", domain=nvtx.get_domain("training")):
        pass


def test_torch_has_the_other_set_of_names() -> None:
    torch = pytest.importorskip("torch")
    for name in ("range", "range_push", "range_pop", "range_start", "range_end", "mark"):
        assert hasattr(torch.cuda.nvtx, name)
    for name in ("push_range", "pop_range", "annotate"):
        assert not hasattr(torch.cuda.nvtx, name)


# --- torch.profiler ----------------------------------------------------------------------------

ATTRIBUTES = """
import warnings
import torch
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    torch.rand(8) + 1
rows = {"key_averages": profiler.key_averages()[0], "events": profiler.events()[0]}
for kind, row in rows.items():
    for name in NAMES:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                getattr(row, name)
                state = "warns" if told else "works"
            except AttributeError:
                state = "raises"
        print("FACT", kind, name, state)
profiler.key_averages().table(sort_by="cuda_time_total", row_limit=1)
print("FACT table cuda_time_total works")
"""


@pytest.fixture(scope="module")
def facts() -> dict[tuple[str, str], str]:
    pytest.importorskip("torch")
    names = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PROFILER_PAGE, re.M)
    assert len(names) == 4
    code = f"NAMES = {[name for pair in names for name in pair]}\n{ATTRIBUTES}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    found = re.findall(r"^FACT (\w+) (\w+) (\w+)", done.stdout, re.M)
    return {(kind, name): state for kind, name, state in found}


def test_old_and_new_names_behave_as_the_table_says(facts: dict[tuple[str, str], str]) -> None:
    meaning = {"raises": "AttributeError", "warns": "works, with a warning", "works": "works"}
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+?) \| (.+?) \|$", PROFILER_PAGE, re.M)
    for old, new, on_rows, on_events in rows:
        assert meaning[facts["key_averages", old]] == on_rows.strip("*")
        assert meaning[facts["events", old]] == on_events.strip("*")
        assert facts["key_averages", new] == "works"
    assert facts["table", "cuda_time_total"] == "works"


def test_arguments_of_the_profiler_exist() -> None:
    profiler = pytest.importorskip("torch.profiler")
    known = inspect.signature(profiler.profile.__init__).parameters
    named = set(re.findall(r"profile\((\w+)=", PROFILER_PAGE))
    assert named >= {"activities", "acc_events", "profile_memory"}
    assert named - set(known) == set()


# --- torch.cuda, Triton ------------------------------------------------------------------------


def test_names_of_torch_cuda_exist() -> None:
    torch = pytest.importorskip("torch")
    named = set(re.findall(r"torch\.cuda\.(\w+)", PATTERNS_PAGE))
    assert {"CUDAGraph", "graph", "Event", "Stream", "_sleep"} <= named
    missing = {name for name in named if not hasattr(torch.cuda, name)}
    assert missing <= {"_sleep"}  # only where torch is built with CUDA
    assert "enable_timing" in inspect.getsource(torch.cuda.Event)


def test_device_properties_are_those_of_the_installed_torch() -> None:
    torch = pytest.importorskip("torch")
    properties = getattr(torch._C, "_CudaDeviceProperties", None)
    if properties is None:
        pytest.skip("torch is built without CUDA")
    for name in ("L2_cache_size", "total_memory", "multi_processor_count", "uuid"):
        assert hasattr(properties, name)
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    for name in ("memory_clock_rate", "memory_bus_width", "clock_rate"):
        assert hasattr(properties, name) == (version >= (2, 10))


def test_do_bench_has_the_signature_that_is_shown() -> None:
    testing = pytest.importorskip("triton.testing")
    shown = re.findall(r"`do_bench\((.+?)\)`", PATTERNS_PAGE)[0]
    parameters = inspect.signature(testing.do_bench).parameters.values()
    has = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}".replace("'", '"')
        for p in parameters
    ]
    assert set(shown.split(", ")) <= set(has)  # later versions may have more


def test_the_simulated_do_bench_has_the_same_signature() -> None:
    """Where Triton is not installed, the stand-in that the blocks run on must agree at least."""
    from simulated_device import triton_module

    with warnings.catch_warnings():
        source = inspect.getsource(triton_module)
    shown = re.findall(r"`do_bench\((.+?)\)`", PATTERNS_PAGE)[0]
    for name in re.findall(r"(\w+)=", shown):
        assert name in source


# --- measured tables ---------------------------------------------------------------------------


def records(name: str) -> Any:
    [path] = (ROOT / "tests/gpu/records").glob(f"*-{name}.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_tables_of_the_accuracy_page_are_those_of_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests/gpu"), *sys.path])
    accuracy = importlib.import_module("accuracy")
    page, tables = read("references/accuracy.md"), accuracy.tables(records("accuracy"))
    assert len(tables) == 5
    for heading, table in tables.items():
        assert table in page, heading


def test_the_table_of_cuda_programs_is_that_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests/gpu"), *sys.path])
    rows = records("raw-cuda")
    assert importlib.import_module("raw_cuda").table(rows) in read("references/accuracy.md")
    for row in rows:
        if row["truth_us"] >= 5 and not row["flags"]:
            assert round(abs(row["ratio"] - 1), 3) <= 0.015, row
        if row["truth_us"] >= 15:  # shorter kernels take longer when they run one at a time
            assert round(abs(row["ratio_serial"] - 1), 3) <= 0.024, row


def test_no_measured_figure_is_far_off_without_a_flag() -> None:
    ours = {"simple-event", "detailed-event", "cuda-graph", "triton"}
    for row in records("accuracy"):
        if row["method"] in ours and row["ratio"] and not row["flags"]:
            assert abs(row["ratio"] - 1) < 0.05, row


def test_verdicts_and_intervals_of_the_accuracy_page_are_those_of_the_records() -> None:
    page, found = read("references/accuracy.md"), records("trials")
    for more, verdict in ((False, "same"), (True, "slower")):
        rows = [row for row in found["verdicts"] if row["more"] == more]
        right = sum(row["verdict"] == verdict for row in rows)
        assert f"| {right} of {len(rows)} `{verdict}` |" in page
    for one in found["coverage"]:
        line = f"| `{one['scenario']}` | {one['pooled_us']:.3f} us | {one['held']} |"
        assert line in page and one["repeats"] == 50

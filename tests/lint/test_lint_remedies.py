"""Notes: what to do, for the framework of the file."""

import pytest
from perf_timing.lint.facts import build_tree
from perf_timing.lint.output import remedies

BOTH = "Allocate before; render-timing simple-event and raw-cuda do so."
WAIT = (
    "Wait for the device before the clock is read, or let events on the stream take the time;"
    " render-timing simple-event and raw-cuda do so."
)
TORCH = "import torch\ntorch.cuda.synchronize()\n"


def fit(note: str, text: str, language: str = "python") -> str:
    return remedies.fit(note, build_tree(text, language, ()))


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (BOTH, "Allocate before; render-timing simple-event does so."),
        ("Wait; render-timing raw-cuda does so.", "Wait."),
        ("Wait; render-timing loop, triton and cute do so.",
         "Wait; render-timing loop, triton and cute do so."),
        ("Reduce; render-timing loop reports every rank.",
         "Reduce; render-timing loop reports every rank."),
        ("Add up the work.", "Add up the work."),
    ],
)  # fmt: skip
def test_torch_on_cuda_is_shown_the_scenarios_of_python(note: str, said: str) -> None:
    assert fit(note, TORCH) == said


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (BOTH, "Allocate before; render-timing raw-cuda does so."),
        ("Sample; render-timing simple-event does so.", "Sample; render-timing raw-cuda does so."),
        ("Replay; render-timing cuda-graph does so.", "Replay."),
        ("Reduce; render-timing loop reports every rank.", "Reduce."),
    ],
)
def test_cuda_cpp_is_shown_the_scenario_of_cpp(note: str, said: str) -> None:
    assert fit(note, "cudaEventRecord(e);\n", "cuda") == said


@pytest.mark.parametrize(
    ("text", "language", "wait"),
    [
        ("import taichi as ti\n", "python", "ti.sync()"),
        ("import mlx.core as mx\n", "python", "mx.eval(result)"),
        ("import jax\n", "python", "jax.block_until_ready(result)"),
        ("import cupy as cp\n", "python", "cupy.cuda.Device().synchronize()"),
        ("import torch\nx.to('mps')\n", "python", "torch.mps.synchronize()"),
        ("hipMalloc(&x, n);\n", "cuda", "hipDeviceSynchronize()"),
        ("id<MTLCommandBuffer> b;\n", "cuda", "waitUntilCompleted"),
    ],
)
def test_other_frameworks_are_told_their_own_wait(text: str, language: str, wait: str) -> None:
    said = fit(WAIT, text, language)
    assert said.startswith(f"Wait for the device before the clock is read; {wait} waits") or (
        wait in said
    )
    assert "render-timing" not in said and "events on the stream" not in said
    assert fit(BOTH, text, language) == "Allocate before."


def test_a_file_for_cuda_and_mps_is_shown_the_scenarios() -> None:
    assert "render-timing simple-event" in fit(WAIT, TORCH + "x.to('mps')\n")

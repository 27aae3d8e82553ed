"""Names of the user's code: each works in the rendered script or is refused, never confused."""

from __future__ import annotations

import pytest
from simulated_device import run_script
from simulated_device.rendering import render_timing

NAMES = [
    "args",
    "batch",
    "before",
    "call",
    "calls",
    "compiled",
    "end",
    "events",
    "fn",
    "graph",
    "iterations",
    "main",
    "probe",
    "run",
    "samples",
    "side",
    "start",
    "step",
    "stream",
    "take",
    "timer",
    "values",
]
SCENARIOS = ["simple-event", "detailed-event", "cuda-graph", "kernel-time", "compare", "loop"]
SETUP = """
import simulated
import torch

loader = [torch.ones(4, 4)] * 50
{name} = simulated.kernel("k", 50.0)
other = simulated.kernel("other", 50.0)
"""


@pytest.mark.parametrize("size", [[], ["--minimal"]], ids=["full", "minimal"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_any_name_of_the_users_works_or_is_refused(scenario: str, size: list[str]) -> None:
    quick = [] if size or scenario in ("loop", "kernel-time") else ["--iterations=30"]
    quick += [] if size or scenario == "loop" else ["--warmup-ms=5"]
    # In a loop `batch` is what the loader gave.
    for name in NAMES if scenario != "loop" else [n for n in NAMES if n != "batch"]:
        calls = [f"--call={name}()"] + (["--call=other()"] if scenario == "compare" else [])
        outcome = render_timing(
            scenario, f"--setup={SETUP.format(name=name)}", *calls, *size, *quick
        )
        if outcome.exit_code == 2:
            assert name in outcome.stderr and "rename" in outcome.stderr
            continue
        result = run_script(outcome.stdout)
        assert result.exit_code == 0, f"{name}: {result}"
        assert result.machine.executed.get("k", 0) > 30, f"{name}: {result}"
        assert "host-bound" not in result.stdout and "empty-work" not in result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_cute_function_works_or_is_refused(name: str) -> None:
    setup = (
        "import simulated\nimport torch\nfrom cutlass import cute\n\n"
        f"simulated.semantics({name!r}, us=50.0)\n\n\n"
        f"@cute.jit\ndef {name}(x, stream):\n    pass\n\n\nx = torch.ones(4, device='cuda')\n"
    )
    call = f"--call={name}(x, stream)"
    quick = ["--iterations=30", "--warmup-ms=5"]
    outcome = render_timing("cute", f"--setup={setup}", call, *quick)
    if outcome.exit_code == 2:
        assert name in outcome.stderr and "rename" in outcome.stderr
        return
    result = run_script(outcome.stdout)
    assert result.exit_code == 0, str(result)
    assert result.machine.executed.get(name, 0) > 5

"""What the tests of the command share: ways to run it, and snippets whose findings are known."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

CLEAN = "import time\n\ntime.sleep(1)\n"
# One error on line 3 (nvtx-unknown-api, TIM603), which has no fix.
BAD = "import torch\n\ntorch.cuda.nvtx.get_domain('a')\n"
# One error on line 5 (profiler-removed-name, TIM604), which --fix corrects.
FIXABLE = """\
from torch.profiler import profile

with profile() as prof:
    step()
print(prof.key_averages()[0].cuda_time_total)
"""
# One info on line 5 (nvtx-dynamic-message, TIM601).
INFO = """\
import nvtx


for i in range(3):
    with nvtx.annotate(f"step {i}"):
        step()
"""


class Run(NamedTuple):
    """What a run of the command came to."""

    status: int
    out: str
    err: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of a run with `--format json`."""
        found: list[dict[str, Any]] = json.loads(self.out)
        return found

    @property
    def places(self) -> list[tuple[str, int]]:
        """(rule, line) of the findings of a run with `--format json`."""
        return [(f["rule"], f["line"]) for f in self.findings]


Lint = Callable[..., Run]


def run_process(
    *arguments: str | bytes, cwd: Path | None = None, data: bytes = b"", prefix: Sequence[str] = ()
) -> Run:
    """Run the command in a process of its own."""
    command = [*prefix, sys.executable, str(SCRIPTS / "lint_timing.py"), *arguments]
    done = subprocess.run(command, cwd=cwd, input=data, capture_output=True, timeout=120)
    out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
    assert "Traceback" not in err
    return Run(done.returncode, out, err)


Project = Callable[[dict[str, str | bytes]], Path]

"""Functions that were blanked, as they do not time, may wait for the device all the same."""

from lint.lint_command import Lint, Project

FILLER = "".join(f"SETTING_{number} = {number}  # of the experiment\n" for number in range(200))
PROGRAM = """\
import time
import torch

{filler}

def write_results(path, logits):
    rows = logits{read}
    with open(path, "w") as file:
        file.write(str(rows))


def run(model, batch):
    start = time.time()
    logits = model(batch.cuda())
    {call}
    elapsed = time.time() - start
    print(f"forward {{elapsed * 1000:.3f}} ms")
    return elapsed
"""


def test_a_wait_in_a_blanked_function_counts(lint: Lint, project: Project) -> None:
    waits = PROGRAM.format(filler=FILLER, read=".cpu()", call='write_results("a", logits)')
    works = PROGRAM.format(filler=FILLER, read=".shape", call='write_results("a", logits)')
    project({"waits.py": waits, "works.py": works})
    assert not {f["rule"] for f in lint("waits.py", "--format", "json").findings} & {
        "host-clock-without-sync"
    }
    found = {f["rule"] for f in lint("works.py", "--format", "json").findings}
    assert "host-clock-without-sync" in found

"""What the report of a loop says of its data wait."""

from pathlib import Path
from typing import Any

import pytest
from inject.injected import instrumented

LOOP = """
class Work:
    def backward(self): pass
    def step(self): pass

loss = optimizer = Work()
for batch in [[1, 2]] * 12:
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("wait_us", "told"),
    [
        (30.0, "0.03 of step time (within 0.2: not data-bound)"),
        (200.0, "0.20 of step time (within 0.2: not data-bound)"),
        (201.0, "0.20 of step time (over 0.2: data-bound)"),
        (900.0, "0.90 of step time (over 0.2: data-bound)"),
    ],
)
def test_the_share_of_data_wait_is_judged_in_words(
    wait_us: float, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    script = instrumented(tmp_path, LOOP)
    names: dict[str, Any] = {"__name__": "instrumented"}
    exec(compile(script.read_bytes(), str(script), "exec"), names)
    timer = names["_perf_timing"]
    timer._read(wait=True)
    n = len(timer.seen["step"])
    timer.deficit_us = 0.0
    timer.seen |= {"step": [1000.0] * n, "data_wait": [wait_us] * n}
    timer.finish()
    err = capsys.readouterr().err
    assert told in err
    assert ("note: data-bound" in err) is ("not data-bound" not in told)

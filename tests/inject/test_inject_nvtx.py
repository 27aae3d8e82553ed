"""NVTX ranges: balanced whatever the loop does, without timing unless it is asked for."""

from pathlib import Path
from typing import Any

import pytest
from inject.injected import code, instrumented

HEAD = code("""
    class Loss:
        def backward(self):
            log.append("work backward")

    class Optimizer:
        def step(self):
            log.append("work optimizer")

    loss, optimizer = Loss(), Optimizer()
    """)
LOOP = "loss.backward()\n    optimizer.step()\n"


def ranges(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[list[str], dict[str, Any]]:
    """What an instrumented script pushes and pops, with the names of what it does in between."""
    torch = pytest.importorskip("torch")
    log: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "mark", lambda name: None)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda name: log.append(f"push {name}"))
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: log.append("pop"))
    script = instrumented(folder, HEAD + code(text), "--nvtx", *options)
    names: dict[str, Any] = {"__name__": "instrumented", "log": log}
    exec(compile(script.read_bytes(), str(script), "exec"), names)
    return log, names


def is_balanced(log: list[str]) -> bool:
    depth = 0
    for entry in log:
        depth += entry.startswith("push ")
        depth -= entry == "pop"
        if depth < 0:
            return False
    return depth == 0


def test_each_step_holds_the_ranges_of_its_phases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = ranges(tmp_path, "for batch in [1]:\n    " + LOOP, monkeypatch)
    assert log == [
        *("push step", "push data", "pop", "push forward", "pop"),
        *("push backward", "work backward", "pop"),
        *("push optimizer", "work optimizer", "pop"),
        *("push other", "pop", "pop"),
        *("push step", "push data", "pop", "pop"),  # the fetch that found the end
    ]


BODIES = {
    "a plain loop": "for i, batch in enumerate([1, 2, 3]):\n    " + LOOP,
    "continue": "for i in enumerate([1, 2, 3]):\n    if i[0] == 1:\n        continue\n    " + LOOP,
    "break": "for i in enumerate([1, 2, 3]):\n    " + LOOP + "    if i[0] == 1:\n        break\n",
    "an exception": (
        "try:\n    for i in enumerate([1, 2, 3]):\n        loss.backward()\n"
        "        optimizer.step()\n        if i[0] == 1:\n            raise KeyError\n"
        "except KeyError:\n    pass\n"
    ),
    "an exception in the optimizer": (
        "optimizer.step = None\ntry:\n    for i in [1, 2, 3]:\n        loss.backward()\n"
        "        optimizer.step()\nexcept TypeError:\n    pass\n"
    ),
    "an empty loader": "for i in []:\n    " + LOOP,
    "a while loop": (
        "it, n = iter([1, 2, 3, 4]), 0\nwhile n < 3:\n    x = next(it)\n    n += 1\n"
        "    if n == 2:\n        continue\n    " + LOOP
    ),
    "a while loop that breaks": (
        "it, n = iter([1, 2, 3, 4]), 0\nwhile True:\n    x = next(it)\n    n += 1\n    "
        + LOOP
        + "    if n == 2:\n        break\n"
    ),
    "two epochs": "for e in range(2):\n    for i in [1, 2]:\n        loss.backward()\n"
    "        optimizer.step()\n",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("options", [(), ("--phases",)], ids=["ranges", "ranges and timing"])
def test_ranges_are_balanced(
    name: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, names = ranges(tmp_path, BODIES[name], monkeypatch, *options)
    assert is_balanced(log), log
    if options:
        names["_perf_timing"].finished = True


def test_ranges_alone_time_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, names = ranges(tmp_path, BODIES["a plain loop"], monkeypatch)
    assert not hasattr(names["_perf_timing"], "seen")
    text = (tmp_path / "train.py").read_text()
    for word in ("perf_counter", "Event(", "atexit"):
        assert word not in text


def test_ranges_and_timing_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "for batch in [1] * 9:\n    " + LOOP
    log, names = ranges(tmp_path, text, monkeypatch, "--timing")
    names["_perf_timing"].finish()
    assert is_balanced(log)
    assert "n = 4" in capsys.readouterr().err


def test_without_nvtx_the_script_runs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    torch = pytest.importorskip("torch")

    def missing(*_: object) -> None:
        raise RuntimeError("NVTX functions not installed")

    monkeypatch.setattr(torch.cuda.nvtx, "mark", missing)
    monkeypatch.setitem(sys.modules, "nvtx", None)
    script = instrumented(tmp_path, HEAD + "for batch in [1, 2]:\n    " + LOOP, "--nvtx")
    log: list[str] = []
    exec(compile(script.read_bytes(), str(script), "exec"), {"__name__": "x", "log": log})
    assert log == ["work backward", "work optimizer"] * 2
    assert "no NVTX" in capsys.readouterr().err

"""SIGTERM: the report comes out and the process ends as it would; a script's handler stays."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inject.injected import Outcome, code, instrumented

LOOP = code("""
    import signal
    import sys
    import threading
    import time

    import torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train():
        for number, batch in enumerate([torch.ones(4, 2)] * 12):
            model(batch).sum().backward()
            optimizer.step()
            if number == 11:
                print("ready", flush=True)
                time.sleep(60)
    """)


def terminated(folder: Path, text: str) -> Outcome:
    """What a script leaves that gets SIGTERM in its twelfth step, which never ends."""
    pytest.importorskip("torch")
    script = instrumented(folder, LOOP + code(text), "--json", "record.json")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, script.name],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert ready == "ready\n", err
    return Outcome(process.returncode, out, err)


def test_a_terminated_run_reports_and_ends_by_the_signal(tmp_path: Path) -> None:
    outcome = terminated(tmp_path, "train()")
    assert outcome.status == -signal.SIGTERM
    assert outcome.err.count("Loop timing: train.py") == 1
    assert "Traceback" not in outcome.err
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["steps"], record["items"]) == (6, 24)


def test_a_handler_of_the_script_stays(tmp_path: Path) -> None:
    text = """
        def stop(number, frame):
            print("mine", flush=True)
            sys.exit(7)

        signal.signal(signal.SIGTERM, stop)
        train()
        """
    outcome = terminated(tmp_path, text)
    assert (outcome.status, outcome.out) == (7, "mine\n")
    assert outcome.err.count("Loop timing: train.py") == 1  # at exit, as ever


def test_a_script_that_ignores_the_signal_goes_on_ignoring_it(tmp_path: Path) -> None:
    text = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pause = time.sleep
        time.sleep = lambda seconds: pause(1)
        train()
        """
    assert terminated(tmp_path, text).status == 0


def test_a_loop_in_a_thread_leaves_the_signal_alone(tmp_path: Path) -> None:
    text = "thread = threading.Thread(target=train, daemon=True)\nthread.start()\nthread.join()"
    outcome = terminated(tmp_path, text)
    assert outcome.status == -signal.SIGTERM
    assert "Traceback" not in outcome.err


def timer(folder: Path) -> Any:
    """The timer of a script that ran its loop in this process and has not reported."""
    pytest.importorskip("torch")
    script = instrumented(folder, LOOP.replace("time.sleep(60)", "pass") + "train()\n")
    names: dict[str, Any] = {"__name__": "instrumented"}
    exec(compile(script.read_bytes(), str(script), "exec"), names)
    return names["_perf_timing"]


def test_after_the_report_the_signal_has_its_default_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        made = timer(tmp_path)
        assert signal.getsignal(signal.SIGTERM) == made._on_sigterm
        made.finish()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_during_the_report_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        made = timer(tmp_path)
        record = made._record

        def interrupted() -> Any:
            made._on_sigterm(signal.SIGTERM, None)
            assert not sent
            return record()

        made._record = interrupted
        made.finish()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert sent == [(os.getpid(), signal.SIGTERM)]
    assert "Loop timing" in capsys.readouterr().err

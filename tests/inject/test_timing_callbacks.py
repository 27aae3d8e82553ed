"""Rendered callbacks, driven in the order in which the two trainers call them.

The trainers here are stand-ins that make the calls of Lightning 2.x and of transformers 4.40 to 5
around planted sleeps; a real trainer is used where it is installed.
"""

import json
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest
from perf_timing.render import main as render

# Sleeps and processes on a real clock: a busy machine can delay any of them.
pytestmark = pytest.mark.flaky(reruns=3, reruns_delay=2)

SLEPT: dict[str, list[float]] = {}


def sleep(seconds: float, what: str) -> None:
    """A planted time; how long it really was is kept, since a loaded machine ends it late."""
    begun = time.perf_counter()
    time.sleep(seconds)
    SLEPT.setdefault(what, []).append(time.perf_counter() - begun)


@pytest.fixture(autouse=True)
def _nothing_slept() -> None:
    SLEPT.clear()


def close(told: dict[str, Any], slept_s: list[float]) -> bool:
    """Whether the low end (5 %) of a summary is that of what was slept, to 5 % or 2.5 ms."""
    truth_ms = statistics.quantiles(slept_s, n=20)[0] * 1e3
    return abs(told["p5_us"] / 1e3 - truth_ms) <= max(0.05 * truth_ms, 2.5)


def callback(folder: Path, scenario: str, *options: str) -> Any:
    """TimingCallback of a rendered file, with its record written into the folder."""
    pytest.importorskip("torch")
    path = folder / "callback.py"
    record = str(folder / "record.json")
    assert render([scenario, "--json", record, "-o", str(path), *options]) == 0
    names: dict[str, Any] = {"__name__": "callback"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["TimingCallback"]()


def record(folder: Path) -> Any:
    return json.loads((folder / "record.json").read_text())


@pytest.fixture
def lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("lightning.pytorch")
    module.Callback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", module)


class Strategy:
    def batch_to_device(self, batch: Any, device: Any = None, dataloader_idx: int = 0) -> Any:
        sleep(0.005, "copy")
        return batch


class LightningTrainer:
    """The calls of `Trainer.fit`, evaluation every five batches."""

    def __init__(self, callback: Any, batches: int = 13, epochs: int = 2) -> None:
        self.strategy, self.training = Strategy(), True
        self.state = types.SimpleNamespace(fn="fit")
        self.callback, self.batches, self.epochs = callback, batches, epochs

    def fit(self) -> None:
        import torch

        hook, model = self.callback, object()
        hook.on_fit_start(self, model)
        for _ in range(self.epochs):
            hook.on_train_epoch_start(self, model)
            for index in range(self.batches):
                sleep(0.02, "data")
                batch = self.strategy.batch_to_device(torch.ones(4, 2), dataloader_idx=0)
                hook.on_train_batch_start(self, model, batch, index)
                sleep(0.01, "forward")
                for name in ("on_before_backward", "on_after_backward", "on_before_optimizer_step"):
                    if hasattr(hook, name):
                        rest = () if name == "on_after_backward" else (None,)
                        getattr(hook, name)(self, model, *rest)
                    if name == "on_before_backward":
                        sleep(0.015, "backward")
                hook.on_train_batch_end(self, model, None, batch, index)
                if index % 5 == 4:
                    hook.on_validation_start(self, model)
                    time.sleep(0.6)
                    hook.on_validation_end(self, model)
            hook.on_train_epoch_end(self, model)
            time.sleep(0.1)
        hook.on_train_end(self, model)


@pytest.mark.usefixtures("lightning")
def test_lightning_times_come_out_as_planted(tmp_path: Path) -> None:
    LightningTrainer(callback(tmp_path, "lightning-callback", "--phases")).fit()
    told = record(tmp_path)
    assert told["steps"] == 26 - 5
    assert told["items"] == 4 * 21
    assert close(told["data_wait_us"], SLEPT["data"])
    assert close(told["copy_wait_us"], SLEPT["copy"])
    parts = zip(SLEPT["copy"], SLEPT["forward"], SLEPT["backward"], strict=True)
    assert close(told["step_us"], [sum(part) for part in parts])
    assert close(told["phases"]["backward"], SLEPT["backward"])
    assert told["period_us"]["max_us"] < 500e3, "an evaluation was counted"


@pytest.mark.usefixtures("lightning")
def test_lightning_stops_measuring_after_the_steps_asked_for(tmp_path: Path) -> None:
    options = ("--measure-steps", "6", "--warmup-steps", "2")
    LightningTrainer(callback(tmp_path, "lightning-callback", *options)).fit()
    assert record(tmp_path)["steps"] == 6


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("transformers")
    module.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)


class HuggingFaceTrainer:
    """The calls of `Trainer.train`: two batches an optimizer step, with logs and evaluations."""

    def __init__(self, callback: Any, steps: int = 12, epochs: int = 2) -> None:
        self.callback, self.steps, self.epochs = callback, steps, epochs

    def train(self) -> None:
        import torch

        hook, model = self.callback, torch.nn.Linear(2, 1)
        control = types.SimpleNamespace(should_log=False, should_evaluate=False, should_save=False)
        call = (None, None, control)
        hook.on_train_begin(*call, model=model)
        for _ in range(self.epochs):
            hook.on_epoch_begin(*call)
            for index in range(self.steps):
                sleep(0.04, "data")
                hook.on_step_begin(*call)
                model(torch.ones(4, 2))
                sleep(0.02, "step")
                model(torch.ones(4, 2))
                control.should_log, control.should_evaluate = index % 3 == 2, index % 6 == 5
                hook.on_step_end(*call)
                self._log_and_evaluate(hook, model, call, control)
            hook.on_epoch_end(*call)
            time.sleep(0.1)
        hook.on_train_end(*call)

    def _log_and_evaluate(self, hook: Any, model: Any, call: Any, control: Any) -> None:
        import torch

        if control.should_log:
            time.sleep(0.05)
            hook.on_log(*call)
        if control.should_evaluate:
            model.eval()
            model(torch.ones(100, 2))
            time.sleep(0.6)
            model.train()
            hook.on_evaluate(*call)
        control.should_log = control.should_evaluate = False


@pytest.mark.usefixtures("transformers")
def test_hugging_face_times_come_out_as_planted(tmp_path: Path) -> None:
    HuggingFaceTrainer(callback(tmp_path, "hf-callback")).train()
    told = record(tmp_path)
    assert told["steps"] == 24 - 5
    assert told["items"] == 8 * 19
    assert close(told["data_wait_us"], SLEPT["data"])
    assert close(told["step_us"], SLEPT["step"])
    assert told["period_us"]["max_us"] < 500e3, "a log or an evaluation was counted"


def test_the_real_lightning_trainer_reports(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("pytorch_lightning")

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            time.sleep(0.01)
            return self.layer(batch).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    loader = torch.utils.data.DataLoader(torch.ones(60, 2), 4)
    trainer = lightning.Trainer(
        max_epochs=2,
        callbacks=[callback(tmp_path, "lightning-callback")],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Model(), loader)
    assert record(tmp_path)["steps"] == 25
    assert record(tmp_path)["items"] == 100


def test_the_real_hugging_face_trainer_reports(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x: Any, labels: Any = None) -> Any:
            time.sleep(0.01)
            return {"loss": (self.layer(x)[:, 0] - labels).square().mean()}

    data = [{"x": torch.ones(2), "labels": torch.tensor(1.0)}] * 64
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )
    hooks = [callback(tmp_path, "hf-callback")]
    transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=hooks).train()
    assert record(tmp_path)["steps"] == 27
    assert record(tmp_path)["items"] == 108

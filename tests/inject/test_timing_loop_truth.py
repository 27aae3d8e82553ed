"""Planted times come out of instrumented loops that run on real torch, on the CPU.

Sleeps are planted. A sleep ends late by what the machine's load makes of it, so each is timed
where it is planted, and the low end (5 %) is compared, which load moves least: to 5 % or 2.5 ms.
Sums must be within 1 % of the wall time that the script itself took.
"""

import io
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from inject.injected import Outcome, code, instrumented, record_of, run

# Sleeps and processes on a real clock: a busy machine can delay any of them.
pytestmark = pytest.mark.flaky(reruns=3, reruns_delay=2)

HEAD = code("""
    import time
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    slept = {}

    def sleep(seconds, what):
        begun = time.perf_counter()
        time.sleep(seconds)
        slept.setdefault(what, []).append(time.perf_counter() - begun)

    class Loader:
        def __init__(self, count, wait_s=0.01, rows=4, last=4, stall_s=0.0):
            self.count, self.wait_s, self.rows, self.last = count, wait_s, rows, last
            self.stall_s = stall_s

        def __len__(self):
            return self.count

        def __iter__(self):
            for number in range(self.count):
                sleep(self.wait_s + (self.stall_s if number % 8 == 7 else 0), "data")
                yield torch.ones(self.last if number == self.count - 1 else self.rows, 8)

    def compute(seconds=0.02):
        sleep(seconds, "compute")
    """)
STEP = "model(batch).sum().backward(); compute(); optimizer.step()\n"


def execute(folder: Path, text: str, *options: str) -> Any:
    """Instrument the text behind HEAD, run it in this process; returns (record, namespace)."""
    pytest.importorskip("torch")
    target = folder / "record.json"
    script = instrumented(folder, HEAD + code(text), "--json", str(target), *options)
    namespace: dict[str, Any] = {"__name__": "instrumented"}
    exec(compile(script.read_bytes(), str(script), "exec"), namespace)
    namespace["_perf_timing"].finish()
    record = json.loads(target.read_text()) if target.exists() else None
    return record, namespace


def close(told: dict[str, Any], slept_s: list[float], warmup: int = 5) -> bool:
    """Whether a summary is that of what was really slept after the warm-up steps."""
    truth_ms = statistics.quantiles(slept_s[warmup:], n=20)[0] * 1e3
    return abs(told["p5_us"] / 1e3 - truth_ms) <= max(0.05 * truth_ms, 2.5)


FORMS = {
    "a for loop": "for batch in Loader(20):\n    " + STEP,
    "a for loop under enumerate": "for i, batch in enumerate(Loader(20)):\n    " + STEP,
    "a while loop with next": (
        "it, step = iter(Loader(20)), 0\nwhile step < 20:\n    batch = next(it)\n"
        "    step += 1\n    " + STEP
    ),
    "a while loop that continues": (
        "it, step = iter(Loader(20)), 0\nwhile step < 20:\n    batch = next(it)\n"
        "    step += 1\n    " + STEP + "    if step % 2:\n        continue\n    x = 1\n"
    ),
    "a step loop with next": (
        "it = iter(Loader(20))\nfor step in range(20):\n    batch = next(it)\n    " + STEP
    ),
    "a step loop that prefetches at its end": (
        "it = iter(Loader(21))\nbatch = next(it)\nfor step in range(20):\n    "
        + STEP
        + "    batch = next(it)\n"
    ),
    "a condition that fetches": (
        "it = iter(Loader(20))\nwhile (batch := next(it, None)) is not None:\n    " + STEP
    ),
    "a step that is a method": code("""
        class Trainer:
            def train_step(self, batch):
                model(batch).sum().backward()
                compute()
                optimizer.step()

            def fit(self):
                for batch in Loader(20):
                    self.train_step(batch)

        Trainer().fit()
        """),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("method", ["event", "sync"])
def test_step_time_and_data_wait_come_out_as_planted(
    name: str, method: str, tmp_path: Path
) -> None:
    record, names = execute(tmp_path, FORMS[name], "--method", method)
    assert record["steps"] == 15
    assert close(record["step_us"], names["slept"]["compute"])
    assert close(record["data_wait_us"], names["slept"]["data"])
    assert record["items"] == 60
    assert record["items_per_s"] == pytest.approx(60 / record["wall_s"])
    assert [flag["code"] for flag in record["flags"]] == ["data-bound"]


def test_steps_and_waits_add_up_to_the_wall_time_of_the_loop(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        begun = time.perf_counter()
        for batch in Loader(24, stall_s=0.05):
            model(batch).sum().backward()
            compute()
            optimizer.step()
        took_s = time.perf_counter() - begun
        """,
        "--warmup-steps",
        "0",
    )
    told_us = sum(record["step_us"]["samples_us"]) + sum(record["data_wait_us"]["samples_us"])
    assert abs(told_us / 1e6 / names["took_s"] - 1) < 0.01
    assert abs(record["wall_s"] / names["took_s"] - 1) < 0.01
    assert max(record["data_wait_us"]["samples_us"]) > 55e3


def test_evaluation_between_epochs_is_left_out(tmp_path: Path) -> None:
    record, _ = execute(
        tmp_path,
        """
        for epoch in range(3):
            for batch in Loader(8):
                model(batch).sum().backward()
                compute()
                optimizer.step()
            time.sleep(0.6)
        """,
    )
    assert record["steps"] == 19
    assert record["period_us"]["max_us"] < 500e3


def test_evaluation_and_checkpoints_in_the_body_are_told_apart(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        def evaluate():
            sleep(0.15, "evaluation")
            for batch in Loader(3):
                with torch.no_grad():
                    model(batch)

        def save_checkpoint():
            sleep(0.1, "checkpoint")

        begun = time.perf_counter()
        for step, batch in enumerate(Loader(24)):
            if step % 8 == 7:
                evaluate()
            model(batch).sum().backward()
            compute()
            optimizer.step()
            if step % 10 == 9:
                save_checkpoint()
                continue
        took_s = time.perf_counter() - begun
        """,
        "--warmup-steps",
        "0",
    )
    assert (record["steps"], record["items"]) == (24, 24 * 4)
    assert record["period_us"]["max_us"] < 100e3
    asides, slept = record["asides"], names["slept"]
    assert (asides["evaluation"]["n"], asides["checkpoint"]["n"]) == (3, 2)
    evaluated_s = sum(slept["evaluation"]) + sum(slept["data"]) - record["steps"] * 0.01
    assert asides["evaluation"]["total_us"] / 1e6 == pytest.approx(evaluated_s, abs=0.03)
    assert asides["checkpoint"]["total_us"] / 1e6 == pytest.approx(
        sum(slept["checkpoint"]), abs=0.01
    )
    aside_s = sum(aside["total_us"] for aside in asides.values()) / 1e6
    assert record["wall_s"] + aside_s == pytest.approx(names["took_s"], rel=0.01)


def test_a_step_that_evaluation_and_training_share_fetches_once(tmp_path: Path) -> None:
    record, _ = execute(
        tmp_path,
        """
        def forward_step(iterator):
            batch = next(iterator)
            return model(batch).sum()

        def train_step(iterator):
            forward_step(iterator).backward()
            compute()
            optimizer.step()

        def evaluate(iterator):
            for _ in range(4):
                with torch.no_grad():
                    forward_step(iterator)

        iterator, step = iter(Loader(100)), 0
        while step < 20:
            train_step(iterator)
            step += 1
            if step % 5 == 0:
                evaluate(iterator)
        evaluate(iterator)
        """,
    )
    assert (record["steps"], record["items"]) == (15, 60)
    assert record["data_wait_us"]["p5_us"] > 9e3
    assert record["data_wait_us"]["max_us"] < 35e3


def test_a_while_loop_entered_again_leaves_out_what_is_between(tmp_path: Path) -> None:
    record, _ = execute(
        tmp_path,
        """
        for epoch in range(3):
            it, step = iter(Loader(8)), 0
            while step < 8:
                batch = next(it)
                model(batch).sum().backward()
                compute()
                optimizer.step()
                step += 1
            time.sleep(0.6)
        """,
    )
    assert record["steps"] == 19
    assert record["period_us"]["max_us"] < 500e3


def test_a_short_last_batch_counts_with_what_it_holds(tmp_path: Path) -> None:
    record, _ = execute(tmp_path, "for batch in Loader(10, last=1):\n    " + STEP)
    assert (record["steps"], record["items"]) == (5, 4 * 4 + 1)


def test_an_empty_loader_reports_nothing_and_fails_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = execute(tmp_path, "for batch in Loader(0):\n    " + STEP)
    assert record is None
    assert "Traceback" not in capsys.readouterr().err


def test_fewer_steps_than_warm_up_are_called_nothing_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = execute(tmp_path, "for batch in Loader(3):\n    " + STEP)
    assert record is None
    assert "nothing measured: 3 steps ran and the first 5 are warm-up" in capsys.readouterr().err


ENDS = {
    "a break before the work drops the step": ("if i == 12:\n        break\n    ", "", 12 - 5),
    "a break after the work counts the step": ("", "    if i == 12:\n        break\n", 13 - 5),
    "a pass that continues before the work is no step": (
        "if i == 12:\n        continue\n    ",
        "",
        19 - 5,
    ),
    "a pass that continues after the work is one": ("", "    if i == 12:\n        continue\n", 15),
    "a last pass that continues before the work": (
        "if i == 19:\n        continue\n    ",
        "",
        19 - 5,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_early_ends(name: str, tmp_path: Path) -> None:
    before, after, steps = ENDS[name]
    text = "for i, batch in enumerate(Loader(20, 0.001)):\n    " + before + STEP + after
    record, _ = execute(tmp_path, text)
    assert record["steps"] == steps
    assert record["items"] == 4 * steps


def test_an_exception_in_the_body_passes_and_the_next_epoch_is_measured(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        caught = 0
        for epoch in range(3):
            try:
                for i, batch in enumerate(Loader(10, 0.001)):
                    if i == 7:
                        raise ValueError("out of memory")
                    model(batch).sum().backward()
                    compute()
                    optimizer.step()
            except ValueError:
                caught += 1
                time.sleep(0.6)
        """,
    )
    assert names["caught"] == 3
    assert record["steps"] == 3 * 7 - 5
    assert record["period_us"]["max_us"] < 500e3


def test_phases_come_out_as_planted(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        class Slow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                sleep(0.01, "forward")
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                sleep(0.03, "backward")
                return grad

        for batch in Loader(16, 0.02):
            loss = Slow.apply(model(batch)).sum()
            loss.backward()
            sleep(0.005, "other")
            optimizer.step()
        """,
        "--phases",
    )
    for name in ("data", "forward", "backward", "other"):
        assert close(record["phases"][name], names["slept"][name]), name
    assert list(record["phases"]) == ["data", "forward", "backward", "optimizer", "other"]


def test_copy_wait_is_apart_from_data_wait(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        class Late(torch.Tensor):
            def to(self, *where):
                sleep(0.03, "copy")
                return self.as_subclass(torch.Tensor)

        device = torch.device("cpu")
        for batch in Loader(16):
            batch = batch.as_subclass(Late)
            batch = batch.to(device)
            model(batch).sum().backward()
            compute()
            optimizer.step()
        """,
    )
    slept = names["slept"]
    assert close(record["copy_wait_us"], slept["copy"])
    assert close(record["data_wait_us"], slept["data"])
    both = [copy + compute for copy, compute in zip(slept["copy"], slept["compute"], strict=True)]
    assert close(record["step_us"], both)


def test_a_copy_inside_an_expression_returns_what_it_copied(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        device = torch.device("cpu")
        seen = []
        for batch in Loader(8, 0.001):
            loss = model(batch.to(device)).sum()
            seen.append(batch.shape)
            loss.backward()
            optimizer.step()
        """,
    )
    assert len(names["seen"]) == 8
    assert record["copy_wait_us"]["n"] == 3


ITEMS = {
    "a tensor": ("torch.ones(6, 3)", 6),
    "a pair": ("(torch.ones(6, 3), torch.ones(6))", 6),
    "a number and a pair": ("(3, (torch.ones(6, 3), torch.ones(6)))", 6),
    "a dictionary": ("{'ids': torch.ones(6, 3), 'n': 4}", 6),
    "a nested dictionary": ("{'a': {'b': [torch.ones(6)]}}", 6),
    "a list of images": ("([torch.ones(3, 9, 9)] * 6, [{'boxes': torch.ones(2, 4)}] * 6)", 6),
    "texts of one sample each": ("[{'ids': torch.arange(9), 'mask': torch.arange(9)}] * 6", 6),
    "micro-batches of texts": (
        "[{'ids': torch.ones(3, 9).long(), 'n': 9, 'id': torch.arange(3)}] * 2",
        6,
    ),
    "images with their boxes": (
        "[{'image': torch.ones(3, 9, 9).byte(), 'boxes': torch.ones(2, 4)}] * 6",
        6,
    ),
    "a mapping that is no dict": ("collections.UserDict(ids=torch.ones(6, 3))", 6),
    "a list of dictionaries": ("(None, [{'boxes': torch.ones(2, 4)}] * 6)", 6),
    "an array": ("types.SimpleNamespace(shape=(6, 3))", 6),
    "an object that holds tensors": ("types.SimpleNamespace(x=None, ids=torch.ones(6, 3))", 6),
    "an object that holds tensors with their lengths": (
        "types.SimpleNamespace(ids=['a'], sig=(torch.ones(6, 9), torch.ones(6)))",
        6,
    ),
    "an object whose attributes fail": ("type('B', (), {'shape': property(lambda s: 1 / 0)})()", 0),
    "a batch size that is no number": ("types.SimpleNamespace(batch_size=torch.Size([6]))", 0),
    "a graph batch": ("types.SimpleNamespace(num_graphs=6)", 6),
    "a number": ("3", 0),
    "text": ("['a', 'b']", 0),
    "a scalar tensor": ("torch.tensor(3.0)", 0),
}


@pytest.mark.parametrize("name", ITEMS)
def test_items_are_the_first_dimension_of_the_batch(name: str, tmp_path: Path) -> None:
    expression, count = ITEMS[name]
    record, _ = execute(
        tmp_path,
        f"""
        import collections, types
        for batch in [{expression}] * 7:
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
        """,
    )
    assert record["items"] == 2 * count
    told = "no-items" in [flag["code"] for flag in record["flags"]]
    assert told == (count == 0)


def test_an_expression_counts_items(tmp_path: Path) -> None:
    record, _ = execute(
        tmp_path,
        "for batch in Loader(9, 0.0):\n    ids = batch\n    " + STEP,
        "--items",
        "ids.numel()",
    )
    assert record["items"] == 4 * 4 * 8
    assert record["items_by"] == "ids.numel()"


def test_measure_steps_ends_the_measuring_and_the_loop_goes_on(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        "count = 0\nfor batch in Loader(20, 0.0):\n    count += 1\n    " + STEP,
        "--measure-steps",
        "4",
        "--warmup-steps",
        "2",
    )
    assert record["steps"] == 4
    assert names["count"] == 20


def test_stop_ends_the_script_after_the_measured_steps(tmp_path: Path) -> None:
    text = "count = 0\nfor batch in Loader(20, 0.0):\n    count += 1\n    " + STEP
    with pytest.raises(SystemExit) as end:
        execute(tmp_path, text, "--measure-steps", "4", "--warmup-steps", "2", "--stop")
    assert end.value.code == 0
    assert json.loads((tmp_path / "record.json").read_text())["steps"] == 4


def test_the_wrapped_loader_keeps_length_attributes_and_lifetime(tmp_path: Path) -> None:
    _, names = execute(
        tmp_path,
        """
        import weakref

        class Wrap:
            def __init__(self, loader):
                self.loader, self.length, self.rows = loader, len(loader), loader.rows

            def __iter__(self):
                yield from self.loader

        class logger:
            @staticmethod
            def log_every(loader, frequency):
                return Wrap(loader)

        wrap = logger.log_every(Loader(7, 0.0), 1)
        alive = []
        last = None
        for batch in logger.log_every(Loader(7, 0.0), 1):
            alive.append(last() is not None if last else False)
            model(batch).sum().backward()
            optimizer.step()
            last = weakref.ref(batch)
            del batch
        """,
    )
    assert (names["wrap"].length, names["wrap"].rows) == (7, 4)
    assert not any(names["alive"]), "the timing kept a batch alive that the script had dropped"


def test_a_generator_that_ends_inside_the_loop_is_closed_on_break(tmp_path: Path) -> None:
    _, names = execute(
        tmp_path,
        """
        closed = []

        def loader():
            try:
                while True:
                    yield torch.ones(4, 8)
            finally:
                closed.append(True)

        for i, batch in enumerate(loader()):
            if i == 7:
                break
            model(batch).sum().backward()
            optimizer.step()
        at_end = list(closed)
        """,
    )
    assert names["at_end"] == [True]


def test_workers_of_a_real_loader_and_a_report_at_exit(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        text=code("""
            import time
            import torch

            class Data(torch.utils.data.Dataset):
                def __len__(self):
                    return 60

                def __getitem__(self, index):
                    time.sleep(0.04)
                    return torch.ones(8)

            def main():
                model = torch.nn.Linear(8, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                loader = torch.utils.data.DataLoader(Data(), 2, num_workers=1, prefetch_factor=2)
                for epoch in range(1):
                    for batch in loader:
                        model(batch).sum().backward()
                        time.sleep(0.02)
                        optimizer.step()

            if __name__ == "__main__":
                main()
            """),
    )
    # Two items a batch at 40 ms each, 20 ms of it behind the step: 60 ms to wait, more under load.
    assert 50e3 < record["data_wait_us"]["median_us"] < 150e3
    assert 20e3 <= record["step_us"]["median_us"] < 50e3
    assert record["steps"] == 25


CRASH = (
    HEAD + "for i, batch in enumerate(Loader(20, 0.0)):\n    if i == 9:\n        1 / 0\n    " + STEP
)


def test_a_crash_of_the_script_is_reported_as_before_and_what_was_measured_too(
    tmp_path: Path,
) -> None:
    outcome = run(instrumented(tmp_path, CRASH))
    assert outcome.status == 1
    assert "ZeroDivisionError" in outcome.err
    assert "n = 4" in outcome.err


def test_the_script_computes_and_prints_what_it_did_before(tmp_path: Path) -> None:
    text = HEAD + code("""
        for epoch in range(2):
            for batch in Loader(8, 0.0):
                loss = (model(batch * epoch) - torch.rand(1)).square().mean()
                loss.backward()
                optimizer.step()
        print(loss.item(), model.weight.sum().item())
        """)
    bare = tmp_path / "bare.py"
    bare.write_text(text)
    before = run(bare)
    for method in ("event", "sync"):
        after = run(instrumented(tmp_path, text, "--method", method, name=f"{method}.py"))
        assert (after.status, after.out) == (before.status, before.out)
        assert "step time" in after.err


def test_a_run_without_workers_imports_nothing_of_this_package(tmp_path: Path) -> None:
    text = HEAD + "import sys\nfor batch in Loader(8, 0.0):\n    " + STEP
    text += "print([m for m in sys.modules if m.startswith('perf_timing')])\n"
    assert run(instrumented(tmp_path, text)).out == "[]\n"


def test_a_line_every_so_many_steps(tmp_path: Path) -> None:
    text = HEAD + "for batch in Loader(16, 0.0):\n    " + STEP
    lines = _log_lines(run(instrumented(tmp_path, text, "--log-every", "4")))
    assert [line.split(":")[0] for line in lines] == ["[timing] step 9", "[timing] step 13"]
    assert _log_lines(run(instrumented(tmp_path, text, "--log-every", "0", name="b.py"))) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_that_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    text = "for batch in Loader(30, 0.03):\n    " + STEP
    execute(tmp_path, text, "--log-every", "0", "--measure-steps", "20")
    shown = [part for part in terminal.getvalue().split("\r") if "[timing] step" in part]
    assert len(shown) >= 2
    assert all(re.match(r"\[timing\] step \d+/20, \d+\.\d+ ms", part) for part in shown)


def test_the_record_goes_where_it_was_meant_to_though_the_script_moves(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    text = HEAD + "import os\nos.chdir('elsewhere')\nfor batch in Loader(8, 0.0):\n    " + STEP
    assert run(instrumented(tmp_path, text, "--json", "out.json")).status == 0
    assert json.loads((tmp_path / "out.json").read_text())["steps"] == 3


def test_a_record_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    text = HEAD + "for batch in Loader(8, 0.0):\n    " + STEP
    outcome = run(instrumented(tmp_path, text, "--json", "no/such/folder/out.json"))
    assert outcome.status == 0
    assert "[timing] cannot write" in outcome.err
    assert "Traceback" not in outcome.err


def _log_lines(outcome: Outcome) -> list[str]:
    assert outcome.status == 0, outcome.err
    return [line for line in outcome.err.splitlines() if line.startswith("[timing] step")]


def test_marks_cost_little_on_the_host(tmp_path: Path) -> None:
    record, names = execute(
        tmp_path,
        """
        def loop(loader):
            for batch in loader:
                optimizer.step()

        loop([torch.ones(4, 8)] * 10)
        begun = time.perf_counter()
        loop([torch.ones(4, 8)] * 3000)
        timed_s = time.perf_counter() - begun
        begun = time.perf_counter()
        for batch in [torch.ones(4, 8)] * 3000:
            optimizer.step()
        bare_s = time.perf_counter() - begun
        """,
        "--loop",
        str(HEAD.count("\n") + 2),
        "--log-every",
        "0",
    )
    assert record["steps"] > 2900
    cost_us = (names["timed_s"] - names["bare_s"]) / 3000 * 1e6
    assert cost_us < 60, f"{cost_us:.1f} us a step; 2 % of a 3 ms step"
    assert sys.getsizeof(record) < 10_000

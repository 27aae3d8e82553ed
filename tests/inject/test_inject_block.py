"""The inserted block as code: old Pythons, compiled steps, processes that import the script."""

import ast
import json
from pathlib import Path

import pytest
from inject.injected import code, instrumented, run
from perf_timing.inject import block

FORMS = {
    "timing": {"timing": True, "nvtx": False},
    "ranges": {"timing": False, "nvtx": True},
    "both": {"timing": True, "nvtx": True},
}
LATER = ("removeprefix", "removesuffix", "pairwise", "math.lcm", "functools.cache", "aiter")


@pytest.mark.parametrize("name", FORMS)
def test_it_needs_no_python_later_than_3_8(name: str) -> None:
    settings = {"script": "train.py", "flops_per_item": 6e9, "phases": True}
    text = block.render("0" * 64, settings, **FORMS[name])
    tree = ast.parse(text, feature_version=(3, 8))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.keyword) and node.arg == "strict")
        if isinstance(node, ast.AugAssign | ast.BinOp) and isinstance(node.op, ast.BitOr):
            operands = (getattr(node, "right", None), getattr(node, "value", None))
            assert not any(isinstance(part, ast.Dict) for part in operands)
    assert not [name for name in LATER if name in text]


@pytest.mark.parametrize("decorated", [True, False], ids=["decorated", "compiled by a call"])
def test_a_compiled_step_stays_whole(decorated: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = code("""
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        graphs = []

        def backend(graph, inputs):
            graphs.append(graph)
            return graph.forward

        COMPILED
        def loss_of(batch):
            device = torch.device("cpu")
            return model(batch.to(device)).sum()

        def train_step(batch):
            loss = step(batch)
            loss.backward()
            optimizer.step()
            return loss.item()

        step = MADE
        losses = [0]
        for batch in [torch.ones(4, 8)] * 9:
            losses.append(train_step(batch))
        print(losses, len(graphs))
        """)
    compiled = "torch.compile(backend=backend, fullgraph=True)"
    made = "loss_of" if decorated else "torch.compile(loss_of, backend=backend, fullgraph=True)"
    text = text.replace("COMPILED\n", f"@{compiled}\n" if decorated else "").replace("MADE", made)
    (tmp_path / "bare.py").write_text(text)
    bare = run(tmp_path / "bare.py")
    outcome = run(instrumented(tmp_path, text, "--phases"))
    assert (bare.status, outcome.status) == (0, 0), bare.err + outcome.err
    assert outcome.out == bare.out
    assert outcome.out.rstrip().endswith(" 1")


COMPILED = """
    DECORATOR
    def train_step(batch):
        loss = model(batch.to(device))
        loss.backward()
        optimizer.step()

    for batch in loader:
        train_step(batch)
    """


@pytest.mark.parametrize(
    ("decorator", "is_marked"),
    [
        ("@torch.compile", False),
        ("@torch.compile(mode='max-autotune')", False),
        ("@partial(torch.compile, fullgraph=True)", False),
        ("@torch.jit.script", False),
        ("@record_time", True),
    ],
)
def test_nothing_is_marked_inside_a_compiled_function(
    decorator: str, is_marked: bool, tmp_path: Path
) -> None:
    text = code(COMPILED).replace("DECORATOR", decorator)
    body = instrumented(tmp_path, text, "--phases").read_text().split("# <<< perf-timing <<<\n")[-1]
    assert ("_perf_timing.phase" in body) is is_marked
    assert "in _perf_timing.steps(loader)" in body


@pytest.mark.flaky(reruns=2, reruns_delay=2)
def test_workers_that_are_spawned_import_the_script_and_time_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = code("""
        import torch

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 24

            def __getitem__(self, index):
                return torch.ones(8)

        def main():
            model = torch.nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            loader = torch.utils.data.DataLoader(
                Data(), batch_size=4, num_workers=1, multiprocessing_context="spawn"
            )
            for batch in loader:
                model(batch).sum().backward()
                optimizer.step()

        if __name__ == "__main__":
            main()
        """)
    script = instrumented(tmp_path, text, "--json", "record.json", "--warmup-steps", "1")
    outcome = run(script)
    assert outcome.status == 0, outcome.err
    assert outcome.err.count("Loop timing:") == 1
    assert outcome.err.count("[timing]") == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["steps"], record["items"]) == (5, 20)


def test_a_report_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = code("""
        import torch
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        _timing = globals()["_perf" + "_timing"]
        _timing._rank_record = lambda: 1 / 0
        for batch in [torch.ones(4, 8)] * 20:
            model(batch).sum().backward()
            optimizer.step()
        print("trained")
        """)
    outcome = run(instrumented(tmp_path, text, "--measure-steps", "5"))
    assert (outcome.status, outcome.out) == (0, "trained\n")
    assert outcome.err == "[timing] no report: ZeroDivisionError: division by zero\n"


def test_the_driver_is_not_started_for_a_script_that_does_not_use_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = code("""
        import torch
        asked = []
        torch.cuda.is_available = lambda: asked.append(1)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for batch in [torch.ones(4, 8)] * 20:
            model(batch).sum().backward()
            optimizer.step()
        print(asked)
        """)
    assert run(instrumented(tmp_path, text)).out == "[]\n"

"""What is inserted where: the marked lines of instrumented scripts."""

import ast
from pathlib import Path

import pytest
from inject.injected import code, command, instrumented, marks

PLAIN = code("""
    for batch in loader:
        loss = model(batch)
        loss.backward()
        optimizer.step()
    """)

MARKS = {
    "a loop over a loader is wrapped and nothing else": (
        PLAIN,
        [],
        ["for batch in _perf_timing.steps(loader):"],
    ),
    "copies that stand together share one pair of marks": (
        """
        for x, y in loader:
            x = x.to(device)
            y = y.cuda(non_blocking=True)
            criterion(model(x), y).backward()
            optimizer.step()
        """,
        [],
        [
            "for x, y in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "a copy inside a larger expression is wrapped": (
        """
        for x, y in loader:
            loss = criterion(model(x.to(device)), y)
            loss.backward()
            optimizer.step()
        """,
        [],
        [
            "for x, y in _perf_timing.steps(loader):",
            "loss = criterion(model(_perf_timing.copied(_perf_timing.copy(), x.to(device))), y)",
        ],
    ),
    "a dictionary of copies has one pair of marks": (
        """
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            model(**batch).backward()
            optimizer.step()
        """,
        [],
        [
            "for batch in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "a loop that only copies has one pair of marks around it": (
        """
        for batch in loader:
            for key in batch:
                batch[key] = batch[key].to(device)
            model(**batch).backward()
            optimizer.step()
        """,
        [],
        [
            "for batch in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "a loop that copies what is a tensor": (
        """
        for batch in loader:
            for key, value in batch.items():
                if isinstance(value, torch.Tensor):
                    batch[key] = value.cuda()
            model(**batch).backward()
            optimizer.step()
        """,
        [],
        [
            "for batch in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "a copy in the only loop of an epoch": (
        """
        for epoch in range(3):
            for x, y in loader:
                x = x.to(device)
                criterion(model(x), y).backward()
                optimizer.step()
        """,
        [],
        [
            "for x, y in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "casts and moves of the model are no copies": (
        """
        for x in loader:
            x = x.to(torch.bfloat16)
            model.to(device)
            net.to(device).train()
            model(x).backward()
            optimizer.step()
        """,
        [],
        ["for x in _perf_timing.steps(loader):"],
    ),
    "copies and fetches of an evaluation in the body are left alone": (
        """
        for x in loader:
            model(x).backward()
            optimizer.step()
            if step % 100 == 0:
                for v in val_loader:
                    v = v.to(device)
                    model(v)
                with torch.no_grad():
                    model(next(val_iter).to(device))
        """,
        [],
        [
            "for x in _perf_timing.steps(loader):",
            '_perf_timing.aside("evaluation")',
            "_perf_timing.resume()",
        ],
    ),
    "a while loop has its start, its steps, its fetch and its end marked": (
        """
        while step < 100:
            x, y = next(it)
            criterion(model(x), y).backward()
            optimizer.step()
            step += 1
        """,
        [],
        [
            "_perf_timing.start()",
            "_perf_timing.step()",
            "x, y = _perf_timing.fetched(_perf_timing.fetch(), next(it))",
            "_perf_timing.done()",
        ],
    ),
    "a fetch in the condition of a while loop is wrapped": (
        """
        while (x := next(it, None)) is not None:
            model(x).backward()
            optimizer.step()
        """,
        [],
        [
            "_perf_timing.start()",
            "while (x := _perf_timing.fetched(_perf_timing.fetch(), next(it, None))) is not None:",
            "_perf_timing.step()",
            "_perf_timing.done()",
        ],
    ),
    "a break after the work counts the step, one before it does not": (
        """
        for i, batch in enumerate(loader):
            if i == limit:
                break
            model(batch).backward()
            optimizer.step()
            for other in things:
                break
            if i > 10:
                break
        """,
        [],
        ["for i, batch in _perf_timing.steps(enumerate(loader)):", "_perf_timing.done()"],
    ),
    "phases": (
        PLAIN,
        ["--phases"],
        [
            "for batch in _perf_timing.steps(loader):",
            '_perf_timing.phase("forward")',
            '_perf_timing.phase("backward")',
            '_perf_timing.phase("optimizer")',
            '_perf_timing.phase("other")',
        ],
    ),
    "after the backward pass of a micro-step comes another forward pass": (
        """
        for batch in loader:
            for part in batch.chunk(micro_batches):
                model(part).backward()
            optimizer.step()
        """,
        ["--phases"],
        [
            "for batch in _perf_timing.steps(loader):",
            '_perf_timing.phase("backward")',
            '_perf_timing.phase("forward")',
            '_perf_timing.phase("optimizer")',
            '_perf_timing.phase("other")',
        ],
    ),
    "a distributed script has its backward pass and collectives marked unasked": (
        "import torch.distributed as dist\n"
        + PLAIN.replace("optimizer.step()", "dist.all_reduce(loss)\n    optimizer.step()"),
        [],
        [
            "for batch in _perf_timing.steps(loader):",
            '_perf_timing.phase("backward")',
            '_perf_timing.phase("communication")',
            '_perf_timing.phase("body")',
        ],
    ),
    "collectives side by side are one phase": (
        "import torch.distributed as dist\n"
        + PLAIN.replace("optimizer", "dist.all_reduce(a)\n    dist.all_reduce(b)\n    optimizer"),
        [],
        [
            "for batch in _perf_timing.steps(loader):",
            '_perf_timing.phase("backward")',
            '_perf_timing.phase("communication")',
            '_perf_timing.phase("body")',
        ],
    ),
    "a loader zipped with numbers": (
        PLAIN.replace("batch in loader", "step, batch in zip(range(9), loader)"),
        [],
        ["for step, batch in _perf_timing.steps(zip(range(9), loader)):"],
    ),
    "a copy that is a statement of its own": (
        PLAIN.replace("loss =", "batch.to(device)\n    loss ="),
        [],
        [
            "for batch in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "copies of a loop under no_grad that was picked by line": (
        """
        with torch.no_grad():
            for batch in loader:
                batch = batch.to(device)
                model(batch)
        """,
        ["--loop", "2"],
        [
            "for batch in _perf_timing.steps(loader):",
            "_perf_timing.copy()",
            "_perf_timing.copied()",
        ],
    ),
    "a break in an exception handler drops the step": (
        """
        while True:
            try:
                x = next(it)
                model(x).backward()
                optimizer.step()
            except StopIteration:
                break
        """,
        [],
        [
            "_perf_timing.start()",
            "_perf_timing.step()",
            "x = _perf_timing.fetched(_perf_timing.fetch(), next(it))",
            "_perf_timing.done()",
        ],
    ),
    "the loader of a generator that logs, under enumerate": (
        """
        for i, (x, y) in enumerate(logger.log_every(loader, 20)):
            loss_scaler(model(x), optimizer)
        """,
        ["--phases"],
        [
            "for i, (x, y) in enumerate(logger.log_every(_perf_timing.steps(loader), 20)):",
            '_perf_timing.phase("backward")',
            '_perf_timing.phase("other")',
        ],
    ),
    "items are counted as soon as their names are bound": (
        """
        for batch in loader:
            ids = batch["input_ids"]
            model(ids).backward()
            optimizer.step()
        """,
        ["--items", "ids.numel()"],
        ["for batch in _perf_timing.steps(loader):", "_perf_timing.items(ids.numel())"],
    ),
    "items over the loop's own names are counted first": (
        PLAIN,
        ["--items", "len(batch)"],
        ["for batch in _perf_timing.steps(loader):", "_perf_timing.items(len(batch))"],
    ),
    "the loader inside a generator that logs is what is wrapped": (
        """
        for x, y in metric_logger.log_every(loader, 20, header):
            criterion(model(x), y).backward()
            optimizer.step()
        """,
        [],
        ["for x, y in metric_logger.log_every(_perf_timing.steps(loader), 20, header):"],
    ),
    "a fetch in a method that does the step": (
        """
        class Trainer:
            def train_step(self, it):
                batch = next(it)
                self.model(batch).backward()
                self.optimizer.step()

            def train(self):
                it = iter(self.loader)
                while self.step < self.steps:
                    self.train_step(it)
        """,
        [],
        [
            "batch = _perf_timing.fetched(_perf_timing.fetch(), next(it))",
            "_perf_timing.start()",
            "_perf_timing.step()",
            "_perf_timing.done()",
        ],
    ),
}


@pytest.mark.parametrize("name", MARKS)
def test_marks_are_placed(name: str, tmp_path: Path) -> None:
    text, options, wanted = MARKS[name]
    path = instrumented(tmp_path, code(text), *options)
    assert marks(path) == wanted
    ast.parse(path.read_text())


def test_a_marked_statement_keeps_its_block(tmp_path: Path) -> None:
    text = code("""
        for x in loader:
            if accelerate:
                loss.backward()
            else:
                scaler.scale(loss).backward()
            optimizer.step()
        """)
    body = instrumented(tmp_path, text, "--phases").read_text().split("<<<\n")[-1]
    assert body.splitlines()[1:8] == [
        "    if accelerate:",
        '        _perf_timing.phase("backward")  # perf-timing',
        "        loss.backward()",
        '        _perf_timing.phase("other")  # perf-timing',
        "    else:",
        '        _perf_timing.phase("backward")  # perf-timing',
        "        scaler.scale(loss).backward()",
    ]


def test_what_shares_its_line_is_reported_and_not_marked(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("for x in loader: model(x).backward(); optimizer.step()\n")
    outcome = command(str(path), "--write", "--phases")
    assert outcome.status == 0
    assert "backward shares line 1: not timed" in outcome.err
    assert marks(path) == [
        "for x in _perf_timing.steps(loader): model(x).backward(); optimizer.step()"
    ]


def test_a_loop_without_a_fetch_says_that_data_wait_is_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("for epoch in range(9):\n    model(x).backward()\n    optimizer.step()\n")
    assert "data wait is not measured" in command(str(path)).err


HEADS = {
    "after docstring, future and imports": (
        '"""Doc."""\nfrom __future__ import annotations\n\nimport os\nimport torch\nx = 1\n',
        5,
    ),
    "after imports between which a variable is set": (
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nimport torch\n\nx = 1\n",
        3,
    ),
    "after an import in a try": (
        "import os\ntry:\n    import torch\nexcept ImportError:\n    torch = None\nx = 1\n",
        5,
    ),
    "before the first definition": ("import os\n\ndef f():\n    pass\n\nimport torch\n", 1),
    "after comments where nothing is imported": ("#!/usr/bin/env python\n# a comment\nx = 1\n", 2),
    "after an import that shares its line": ("import os; x = [\n    1]\nimport re\ny = 1\n", 3),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_block_stands_near_the_top(name: str, tmp_path: Path) -> None:
    head, line = HEADS[name]
    path = instrumented(tmp_path, head + PLAIN)
    lines = path.read_text().splitlines()
    assert lines[line].startswith("# >>> perf-timing >>>")
    assert lines[:line] == head.splitlines()[:line]


def test_the_block_binds_two_names_and_no_module(tmp_path: Path) -> None:
    path = instrumented(tmp_path, "from time import time\n" + PLAIN)
    block = path.read_text().split("# <<< perf-timing <<<")[0]
    tree = ast.parse(block)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    targets = [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]  # type: ignore[attr-defined]
    assert (names, targets) == (["_make_perf_timing"], ["_perf_timing"])
    assert len([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]) == 1


def test_the_block_imports_the_standard_library_and_torch_only(tmp_path: Path) -> None:
    import sys

    path = instrumented(tmp_path, PLAIN, "--phases", "--nvtx", "--flops-per-item", "1e9")
    tree = ast.parse(path.read_text())
    make = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    needed = {a.name.split(".")[0] for n in make.body if isinstance(n, ast.Import) for a in n.names}
    assert needed - set(sys.stdlib_module_names) == {"torch"}
    # What else it can use stands where its absence is caught.
    caught = [n for n in ast.walk(make) if isinstance(n, ast.Try | ast.With)]
    everywhere = {n for n in ast.walk(make) if isinstance(n, ast.Import)} - set(make.body)
    assert everywhere <= {n for block in caught for n in ast.walk(block)}

"""Where `--items EXPR` is counted: for each batch fetched, or once a step."""

import ast
import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from inject.injected import code, command, instrumented

HEAD = code("""
    import torch

    class Loss:
        def backward(self):
            pass

    class Optimizer:
        def step(self):
            pass

    def model(x, y=None):
        return Loss()

    def get_batch(split="train"):
        return torch.ones(2, 3), torch.ones(2)

    optimizer, tokens_per_iter = Optimizer(), 48
    it = iter(get_batch() for _ in range(10**6))
    loader = [torch.ones(8, 3)] * 9
    """)

# What a step processes: a batch is 2 x 3, of the loader 8 x 3.
FORMS = {
    "a prefetch at the end of a micro-step, for the next one": (
        """
        X, Y = get_batch()
        for step in range(9):
            for micro_step in range(4):
                loss = model(X, Y)
                X, Y = get_batch()
                loss.backward()
            optimizer.step()
        """,
        "X.numel()",
        24,
    ),
    "a prefetch in a while loop": (
        """
        X, Y = get_batch()
        n = 0
        while True:
            for micro_step in range(4):
                loss = model(X, Y)
                X, Y = get_batch()
                loss.backward()
            optimizer.step()
            n += 1
            if n == 9:
                break
        """,
        "X.numel()",
        24,
    ),
    "a fetch at the beginning of a micro-step": (
        """
        for step in range(9):
            for micro_step in range(4):
                X, Y = next(it)
                model(X, Y).backward()
            optimizer.step()
        """,
        "X.numel()",
        24,
    ),
    "what is taken from the batch of a micro-step": (
        """
        for step in range(9):
            for micro_step in range(4):
                batch = next(it)
                if step:
                    ids = batch[0]
                else:
                    ids = batch[0]
                model(ids).backward()
            optimizer.step()
        """,
        "ids.numel()",
        24,
    ),
    "a constant bound outside, once a step": (
        """
        for step in range(9):
            for micro_step in range(4):
                X, Y = next(it)
                model(X, Y).backward()
            optimizer.step()
        """,
        "tokens_per_iter",
        48,
    ),
    "a constant, where the body begins with two statements on a line": (
        """
        for batch in loader:
            torch.ones(1); torch.ones(2)
            model(batch).backward()
            optimizer.step()
        """,
        "tokens_per_iter",
        48,
    ),
    "a fetched batch times a constant": (
        """
        for step in range(9):
            for micro_step in range(4):
                X, Y = next(it)
                model(X, Y).backward()
            optimizer.step()
        """,
        "len(X) * tokens_per_iter",
        4 * 2 * 48,
    ),
    "one fetch a step, split into micro-steps": (
        """
        for step in range(9):
            X, Y = next(it)
            for part in X.chunk(2):
                model(part).backward()
            optimizer.step()
        """,
        "X.numel()",
        6,
    ),
    "the parts of a batch that an inner loop goes through": (
        """
        for batch in loader:
            for part in batch.chunk(4):
                model(part).backward()
            optimizer.step()
        """,
        "part.numel()",
        24,
    ),
    "the batch of the loop's own head": (
        """
        for batch in loader:
            for part in batch.chunk(4):
                model(part).backward()
            optimizer.step()
        """,
        "batch.numel()",
        24,
    ),
    "an iterator that is renewed when it ends": (
        """
        few = iter([])
        for step in range(9):
            try:
                X, Y = next(few)
            except StopIteration:
                few = iter([get_batch()])
                X, Y = next(few)
            model(X, Y).backward()
            optimizer.step()
        """,
        "X.numel()",
        6,
    ),
    "a loop that only prepares the batch": (
        """
        for batch in loader:
            for scale in (1, 2):
                x = batch * scale
            model(x).backward()
            optimizer.step()
        """,
        "x.numel()",
        24,
    ),
    "a batch of an evaluation in the body is not counted": (
        """
        for step in range(9):
            if step % 2 == 0:
                with torch.no_grad():
                    X, Y = get_batch("val")
            for micro_step in range(4):
                X, Y = get_batch()
                model(X, Y).backward()
            optimizer.step()
        """,
        "X.numel()",
        24,
    ),
    "an attribute that a method fetches": (
        """
        class Trainer:
            def train_step(self):
                for micro_step in range(4):
                    self.x, self.y = next(it)
                    model(self.x).backward()
                optimizer.step()

            def fit(self):
                for step in range(9):
                    self.train_step()

        Trainer().fit()
        """,
        "self.x.numel()",
        24,
    ),
    "a name of the function that does the step": (
        """
        def train_step(source):
            rows, y = next(source)
            model(rows).backward()
            optimizer.step()

        for step in range(9):
            train_step(it)
        """,
        "rows.numel()",
        6,
    ),
    "a fetch in the condition": (
        """
        few = iter([get_batch() for _ in range(9)])
        while (pair := next(few, None)) is not None:
            model(*pair).backward()
            optimizer.step()
        """,
        "pair[0].numel()",
        6,
    ),
}


def measured(folder: Path, text: str, *options: str) -> Any:
    """The timer of an instrumented script that has run, unreported."""
    pytest.importorskip("torch")
    script = instrumented(folder, HEAD + code(text), "--warmup-steps", "0", *options)
    names: dict[str, Any] = {"__name__": "instrumented"}
    exec(compile(script.read_bytes(), str(script), "exec"), names)
    with contextlib.redirect_stderr(io.StringIO()):
        names["_perf_timing"]._read(wait=True)
    names["_perf_timing"].finished = True
    return names["_perf_timing"]


@pytest.mark.parametrize("name", FORMS)
def test_a_step_counts_the_items_that_it_processes(name: str, tmp_path: Path) -> None:
    text, expression, wanted = FORMS[name]
    seen = measured(tmp_path, text, "--items", expression).seen["items"]
    assert list(seen) == [wanted] * 9


@pytest.mark.parametrize("name", [name for name in FORMS if "fetch at" in name or "pref" in name])
def test_rows_by_expression_are_those_of_the_first_dimension(name: str, tmp_path: Path) -> None:
    text, _, _ = FORMS[name]
    told = measured(tmp_path, text, "--items", "X.shape[0]").seen["items"]
    assert list(told) == list(measured(tmp_path, text).seen["items"]) == [8] * 9


UNBOUND = {
    "nothing binds it": ("ids.numel()", "ids"),
    "only another function binds it": ("hidden.numel()", "hidden"),
    "only an evaluation in the loop binds it": ("val.numel()", "val"),
    "only a comprehension binds it": ("row.numel()", "row"),
    "of two, one is not bound": ("X.numel() * ids", "ids"),
}


@pytest.mark.parametrize("name", UNBOUND)
def test_a_name_that_is_not_bound_is_refused(name: str, tmp_path: Path) -> None:
    expression, missing = UNBOUND[name]
    text = HEAD + code("""
        def other():
            hidden = 1

        for step in range(9):
            X, Y = get_batch()
            rows = [row for row in X]
            with torch.no_grad():
                val = get_batch("val")
            model(X).backward()
            optimizer.step()
        """)
    path = tmp_path / "train.py"
    path.write_text(text)
    outcome = command(str(path), "--write", "--items", expression)
    line = 1 + text.splitlines().index("for step in range(9):")
    wanted = f"--items: {missing} is not bound at line {line}; the loop binds X, Y, rows, step, val"
    assert (outcome.status, outcome.err) == (2, f"inject-timing: {wanted}\n")
    assert path.read_text() == text


BOUND = {
    "a parameter of the function around": "args.batch_size",
    "a name of the module": "tokens_per_iter",
    "an import": "torch.numel(X)",
    "a name of Python": "len(X)",
    "a name that the expression binds": "sum(part.numel() for part in (X, Y))",
}


@pytest.mark.parametrize("name", BOUND)
def test_a_name_that_is_bound_around_the_loop_is_taken(name: str, tmp_path: Path) -> None:
    text = HEAD + code("""
        def train(args):
            for step in range(9):
                X, Y = get_batch()
                model(X).backward()
                optimizer.step()
        """)
    path = instrumented(tmp_path, text, "--items", BOUND[name])
    ast.parse(path.read_text())


def test_a_star_import_may_bind_any_name(tmp_path: Path) -> None:
    text = "from settings import *\n" + HEAD + code(FORMS["the batch of the loop's own head"][0])
    instrumented(tmp_path, text, "--items", "BATCH_TOKENS")

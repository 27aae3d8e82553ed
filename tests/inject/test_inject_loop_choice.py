"""Which loop is taken, and what is said where none can be."""

from pathlib import Path

import pytest
from inject.injected import code, command, instrumented, marks

LOOPS = {
    "a loop over a loader": """
        for batch in loader:  # here
            loss = model(batch)
            loss.backward()
            optimizer.step()
        """,
    "the inner loop of nested epochs": """
        for epoch in range(10):
            for i, (x, y) in enumerate(train_loader):  # here
                criterion(model(x), y).backward()
                optimizer.step()
        """,
    "a loop under tqdm": """
        for x, y in tqdm(train_loader, desc="train"):  # here
            criterion(model(x), y).backward()
            optimizer.step()
        """,
    "a loop over a progress bar made before": """
        bar = tqdm(loader)
        for x, y in bar:  # here
            criterion(model(x), y).backward()
            optimizer.step()
        """,
    "a loop over zipped loaders": """
        for (x, y), u in zip(labeled, unlabeled):  # here
            (criterion(model(x), y) + model(u).mean()).backward()
            optimizer.step()
        """,
    "a loop over a loader zipped with numbers": """
        for step, batch in zip(range(100), loader):  # here
            model(batch).backward()
            optimizer.step()
        """,
    "a while loop that draws from an iterator": """
        it = iter(loader)
        while step < 100:  # here
            x, y = next(it)
            criterion(model(x), y).backward()
            optimizer.step()
            step += 1
        """,
    "a step loop that draws from an iterator": """
        it = iter(loader)
        for step in range(100):  # here
            x, y = next(it)
            criterion(model(x), y).backward()
            optimizer.step()
        """,
    "the outer loop of a prefetching step loop with micro-steps": """
        x, y = get_batch("train")
        while True:  # here
            for micro_step in range(accumulation):
                loss = model(x, y)
                x, y = get_batch("train")
                scaler.scale(loss).backward()
            scaler.step(optimizer)
            if step > 10:
                break
        """,
    "gradient accumulation over a loader": """
        for i, batch in enumerate(loader):  # here
            model(batch).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
        """,
    "accelerate": """
        for step, batch in enumerate(train_dataloader):  # here
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
        """,
    "torch.amp": """
        for x, y in loader:  # here
            with torch.amp.autocast("cuda"):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    "a loop whose step is a function of the file": """
        def run_batch(x):
            model(x).backward()
            optimizer.step()

        for batch in loader:  # here
            run_batch(batch)
        """,
    "a method whose step is another method": """
        class Trainer:
            def _update(self, batch):
                self.model(batch).backward()
                self.optimizer.step()

            def fit(self):
                for epoch in range(self.epochs):
                    for batch in self.loader:  # here
                        self._update(batch)
        """,
    "a loop that calls a step of another file": """
        for batch in train_loader:  # here
            loss = engine.train_step(batch)
        """,
    "a loop whose function calls a step of another file": """
        class Loop:
            def run_iter(self, batch):
                self.model.train_step(batch, self.wrapper)

            def run_epoch(self):
                for batch in self.dataloader:  # here
                    self.run_iter(batch)
        """,
    "a class that trains beside one that evaluates with a method of the same name": """
        class TrainLoop:
            def run_iter(self, batch):
                self.model.train_step(batch)

            def run(self):
                for batch in self.dataloader:  # here
                    self.run_iter(batch)

        class CheckLoop:
            def run_iter(self, batch):
                self.model.check(batch)

            def run(self):
                for batch in self.dataloader:
                    self.run_iter(batch)
        """,
    "a loss scaler that steps": """
        def train_one_epoch():
            for x, y in metric_logger.log_every(data_loader, 20, header):  # here
                loss = criterion(model(x), y)
                loss_scaler(loss, optimizer, parameters=model.parameters())
        """,
    "training beside evaluation over the same names": """
        def evaluate():
            with torch.no_grad():
                for x, y in loader:
                    model(x)

        def train():
            for x, y in loader:  # here
                model(x).backward()
                optimizer.step()
        """,
    "a GAN with a critic loop inside": """
        for i, data in enumerate(dataloader):  # here
            for _ in range(n_critic):
                critic(data).backward()
                optimizer_d.step()
            generator(noise).backward()
            optimizer_g.step()
        """,
    "an outer loop that fetches, around phases that step": """
        while True:  # here
            real = next(iterator)
            for phase, noise in zip(phases, all_noise):
                phase.loss(real, noise).backward()
                phase.opt.step()
        """,
    "a replay buffer": """
        for global_step in range(100000):  # here
            action = policy(obs)
            if global_step > 1000:
                data = rb.sample(256)
                loss(data).backward()
                optimizer.step()
        """,
    "a whole-graph epoch": """
        for epoch in range(200):  # here
            model(graph).backward()
            optimizer.step()
        """,
    "a warm-up loop before the one that trains": """
        for step in warmup_steps:
            model(loader.send(step)).backward()
            optimizer.step()
        for step in range(100):  # here
            model(loader.send(step)).backward()
            optimizer.step()
        """,
    "a step of another file over an iterator called itr": """
        def main():
            while epoch < 3:
                train(epoch)

        def train(epoch):
            progress = progress_bar.progress_bar(itr)
            for i, samples in enumerate(progress):  # here
                trainer.train_step(samples)
        """,
    "networks that take turns in a step, each with a batch": """
        for step in range(1000):  # here
            for turn in range(2):
                x, y = train_loader.next()
                if turn:
                    netD(x).backward()
                    optimizer_D.step()
                else:
                    netG(y).backward()
                    optimizer_G.step()
        """,
    "a step that a class of the file overrides": """
        class Trainer:
            def train(self):
                for self.iter in range(100):  # here
                    self.run_step()

            def run_step(self):
                raise NotImplementedError

        class Simple(Trainer):
            def run_step(self):
                self.model(next(self.it)).backward()
                self.optimizer.step()
        """,
    "a progress bar of one's own, in a function that trains and validates": """
        class Solver:
            def common_train_valid(self, split):
                loader = self.dataloaders[split]
                progress = self.log_progress("stage", loader, total=9)
                for i, batch in enumerate(progress):  # here
                    self.run_step(i, batch)
        """,
    "a compiled step under another name": """
        def train_step(x):
            model(x).sum().backward()
            optimizer.step()

        step = torch.compile(train_step)
        for x in loader:  # here
            step(x)
        """,
    "validation batches drawn inside a step loop": """
        for step in range(100):  # here
            if step % 10 == 0:
                with torch.no_grad():
                    for _ in range(5):
                        model(val_loader.next_batch())
            for micro_step in range(4):
                model(train_loader.next_batch()).backward()
            optimizer.step()
        """,
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_training_loop_is_taken(name: str, tmp_path: Path) -> None:
    text = code(LOOPS[name])
    wanted = next(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# here"))
    path = tmp_path / "train.py"
    path.write_text(text)
    outcome = command(str(path))
    assert outcome.status == 0, outcome.err
    assert f"line {wanted} " in outcome.err


TWO = code("""
    def warm():
        for batch in loader:
            model(batch).backward()
            optimizer.step()

    def other():
        for batch in loader:
            model(batch).backward()
            optimizer.step()
    """)


def test_two_equal_loops_are_listed_with_line_loader_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TWO)
    outcome = command(str(path), "--write")
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    for part in ("--loop LINE", "line 2", "line 7", "over loader", "optimizer (line 4)"):
        assert part in outcome.err
    assert path.read_text() == TWO


def test_a_line_picks_one_of_several_loops(tmp_path: Path) -> None:
    path = instrumented(tmp_path, TWO, "--loop", "7")
    assert marks(path) == ["for batch in _perf_timing.steps(loader):"]
    assert "loop_line=7" in path.read_text()


def test_a_line_without_a_loop_names_the_lines_that_have_one(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TWO)
    outcome = command(str(path), "--loop", "3")
    assert outcome.status == 2
    assert "no loop begins at line 3" in outcome.err
    assert "2, 7" in outcome.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("print('nothing')\n", "no training loop found"),
        ("for x in items:\n    print(x)\n", "looked for a for or while loop with .backward()"),
        (
            "from transformers import Trainer\ntrainer = Trainer(model=m)\ntrainer.train()\n",
            "render-timing hf-callback",
        ),
        (
            "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(model)\n",
            "render-timing lightning-callback",
        ),
        (
            "import lightning as L\n\nclass M(L.LightningModule):\n"
            "    def training_step(self, b):\n        return self(b)\n",
            "render-timing lightning-callback",
        ),
    ],
    ids=["no loop", "a loop that does not train", "Trainer", "pl.Trainer", "a LightningModule"],
)
def test_no_loop_says_what_was_looked_for_and_what_to_use(
    text: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    outcome = command(str(path))
    assert outcome.status == 2
    assert told in outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


def test_a_class_of_ones_own_named_trainer_is_not_the_hugging_face_one(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("from mine import Trainer\ntrainer = Trainer(model)\ntrainer.train()\n")
    assert "no training loop found" in command(str(path)).err


def test_an_async_loop_is_refused(tmp_path: Path) -> None:
    text = code("""
        async def train():
            async for batch in loader:
                model(batch).backward()
                optimizer.step()
        """)
    path = tmp_path / "train.py"
    path.write_text(text)
    outcome = command(str(path), "--write", "--loop", "2")
    assert outcome.status == 2
    assert "async for" in outcome.err
    assert path.read_text() == text

"""Evaluation and checkpoints in the loop's body: which lines are left out of the steps."""

import re
from pathlib import Path

import pytest
from inject.injected import code, command, instrumented

# Scripts with the marks that they get: `#> evaluation`, `#> checkpoint`, and `#> step` behind them.
BODIES = {
    "a function that evaluates, under a condition": """
        for n, x in enumerate(loader):
            if n % 100 == 0:
                #> evaluation
                losses = estimate_loss()
                print(losses)
                #> step
            model(x).backward()
            optimizer.step()
        """,
    "evaluation and a checkpoint inside it": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n % 100 == 99:
                #> evaluation
                accuracy = validate(model, val_loader)
                if accuracy > best:
                    torch.save(model.state_dict(), path)
                #> step
        """,
    "each of several branches of one rank": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if is_main:
                log(n)
                if n % 10 == 0:
                    print(n)
                if n % 100 == 0:
                    #> checkpoint
                    save_checkpoint(model)
                    #> step
                if n % 200 == 0:
                    #> evaluation
                    model.eval()
                    with torch.no_grad():
                        for v in loader_of_held_out:
                            model(v)
                    model.train()
                    #> step
        """,
    "a branch that ends the loop": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n > 100:
                #> checkpoint
                accelerator.save_state(path)
                break
        """,
    "a loop over validation data": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n % 100 == 0:
                #> evaluation
                for v in val_loader:
                    total += metric(v)
                #> step
        """,
    "an evaluation of the file that every step calls": """
        def validate_and_save(n):
            pass

        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            #> evaluation
            stop = validate_and_save(n)
            #> step
        """,
    "either branch of a condition": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n % 100 == 0:
                #> evaluation
                trainer.evaluate(model)
                #> step
            elif n % 10 == 0:
                #> checkpoint
                model.save_pretrained(path)
                #> step
            else:
                print(n)
        """,
}
STEPS = {
    "a condition that chooses how the step is done": """
        for x in loader:
            if evaluating:
                model.eval()
                model(x).backward()
            else:
                model(x).backward()
            optimizer.step()
        """,
    "a frozen part of the model set to evaluation": """
        for x in loader:
            if freeze:
                backbone.eval()
            model(x).backward()
            optimizer.step()
        """,
    "a loss whose function has such a name": """
        for x in loader:
            if weighted:
                loss = evaluate_loss(model(x))
            else:
                loss = model(x)
            loss.backward()
            optimizer.step()
        """,
    "metrics that are logged now and then": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n % 10 == 0:
                log_data = {"loss": 1}
                for name, val in log_data.items():
                    writer.add_scalar(name, val)
                for name, value in val_metrics.items():
                    writer.add_scalar(name, value)
        """,
    "a check of the input": """
        for x in loader:
            if debug:
                validate_input(x)
            model(x).backward()
            optimizer.step()
        """,
    "gradients averaged without gradients": """
        for x in loader:
            model(x).backward()
            if averaged:
                with torch.no_grad():
                    ema.update(model)
            optimizer.step()
        """,
    "evaluated literals": """
        for x in loader:
            if text:
                x = ast.literal_eval(x)
                y = eval(y)
            model(x).backward()
            optimizer.step()
        """,
    "activation checkpoints": """
        for x in loader:
            if saving:
                x = torch.utils.checkpoint.checkpoint(block, x)
            model(x).backward()
            optimizer.step()
        """,
    "a branch on the line of its condition": """
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n % 100 == 0: evaluate(model)
        """,
    "a fetch of training data beside an evaluation": """
        it = iter(loader)
        for n in range(100):
            if n % 10 == 0:
                evaluate(model)
                x = next(it)
            model(x).backward()
            optimizer.step()
        """,
}


def told(folder: Path, text: str) -> str:
    """The instrumented text with its asides as comments, without other marks."""
    told = instrumented(folder, text).read_text()
    told = re.sub(r"(?s)# >>> perf-timing.*# <<< perf-timing <<<\n", "", told)
    told = re.sub(r'_perf_timing\.aside\("(\w+)"\)  # perf-timing', r"#> \1", told)
    told = told.replace("_perf_timing.resume()  # perf-timing", "#> step")
    return re.sub(r"(?m)^ *_perf_timing\..*\n", "", told).replace("_perf_timing.steps", "")


@pytest.mark.parametrize("name", BODIES)
def test_what_is_no_part_of_a_step_is_marked(name: str, tmp_path: Path) -> None:
    wanted = code(BODIES[name])
    marked = told(tmp_path, re.sub(r"(?m)^ *#> .*\n", "", wanted))
    assert re.sub(r"[()]", "", marked) == re.sub(r"[()]", "", wanted)


@pytest.mark.parametrize("name", STEPS)
def test_parts_of_a_step_are_no_asides(name: str, tmp_path: Path) -> None:
    assert "#>" not in told(tmp_path, code(STEPS[name]))


def test_the_summary_names_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(re.sub(r"(?m)^ *#> .*\n", "", code(BODIES["either branch of a condition"])))
    assert "evaluation at line 5 left out; checkpoint at line 7 left out" in command(str(path)).err


def test_nothing_is_marked_in_an_aside(tmp_path: Path) -> None:
    text = """
        import torch.distributed as dist
        for n, x in enumerate(loader):
            model(x).backward()
            optimizer.step()
            if n % 100 == 0:
                v = held_out.to(device)
                loss = evaluate(v)
                dist.all_reduce(loss)
        """
    body = instrumented(tmp_path, code(text)).read_text().split("# <<< perf-timing <<<\n")[1]
    aside = body[body.index("aside(") : body.index("resume(")]
    assert aside.count("_perf_timing") == 1  # that of resume

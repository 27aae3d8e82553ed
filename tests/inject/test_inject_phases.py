"""--phases and --nvtx: what of a step is forward, backward, optimizer, and other work."""

import re
from pathlib import Path

import pytest
from inject.injected import code, instrumented
from inject.test_inject_nvtx import is_balanced, ranges

# Scripts with the marks that they get, each a line `#> phase`. Their steps begin with other work.
STEPS = {
    "gradient accumulation with evaluation, clipping and a scaler": """
        while True:
            lr = get_lr(n)
            if n % 100 == 0:
                losses = estimate_loss()
                torch.save(losses, path)
            for micro_step in range(4):
                with ctx:
                    #> forward
                    logits, loss = model(X, Y)
                    loss = loss / 4
                X, Y = get_batch()
                #> backward
                scaler.scale(loss).backward()
                #> other
            #> optimizer
            if grad_clip != 0.0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            #> other
            n += 1
        """,
    "gradients set to zero before the forward pass": """
        for x, y in loader:
            #> optimizer
            optimizer.zero_grad()
            #> other
            x = x.float()
            #> forward
            output = net(x)
            loss = F.nll_loss(output, y)
            #> backward
            loss.backward()
            #> other
            total += loss.item()
            #> optimizer
            clip_grad_value_(net.parameters(), 1.0)
            optimizer.step()
            #> other
            scheduler.step()
        """,
    "forward passes in both branches": """
        for x in loader:
            if amp:
                with autocast():
                    #> forward
                    loss = model(x).sum()
            else:
                #> forward
                loss = model(x).sum()
            #> backward
            loss.backward()
            #> optimizer
            optimizer.step()
            #> other
        """,
    "an optimizer that steps every fourth time only": """
        for i, batch in enumerate(loader):
            #> forward
            outputs = model(**batch)
            loss = outputs.loss / 4
            #> backward
            accelerator.backward(loss)
            #> other
            if i % 4 == 3:
                #> optimizer
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                #> other
            log(i)
        """,
    "two models that take turns": """
        for real in loader:
            #> optimizer
            netD.zero_grad()
            #> forward
            errD = criterion(netD(real), ones)
            #> backward
            errD.backward()
            #> optimizer
            optimizerD.step()
            netG.zero_grad()
            #> other
            noise = torch.randn(8)
            #> forward
            fake = netG(noise)
            errG = criterion(netD(fake), ones)
            #> backward
            errG.backward()
            #> optimizer
            optimizerG.step()
            #> other
        """,
    "evaluation with the same model in the body": """
        for x in loader:
            if step % 100 == 0:
                with torch.no_grad():
                    loss = model(held_out)
            #> forward
            loss = model(x).mean()
            #> backward
            loss.backward()
            #> optimizer
            optimizer.step()
            #> other
        """,
    "evaluation over other data, with gradients": """
        for x in loader:
            for v in val_loader:
                loss = model(v)
            #> forward
            loss = model(x).mean()
            #> backward
            loss.backward()
            #> optimizer
            optimizer.step()
            #> other
        """,
    "metrics between the loss and the backward pass": """
        for x in loader:
            #> forward
            output = model(x)
            with autocast():
                loss = criterion(output)
                #> other
                accuracy = top1(output)
            log(loss.item())
            #> backward
            scaler.scale(loss).backward()
            #> optimizer
            optimizer.step()
            #> other
        """,
    "metrics behind losses of two branches": """
        for x in loader:
            if amp:
                #> forward
                loss = model(x).half().sum()
            else:
                #> forward
                loss = model(x).sum()
            #> other
            meter.update(loss.item(), 1)
            #> backward
            accelerator.backward(loss)
            #> optimizer
            optimizer.step()
            #> other
        """,
    "a loss that is read, and divided only before two backward passes": """
        for x in loader:
            if amp:
                with autocast():
                    #> forward
                    output = model(x)
                    loss = criterion(output)
            else:
                #> forward
                output = model(x)
                loss = criterion(output)
            #> other
            value = loss.item()
            if amp:
                loss /= 4
                #> backward
                loss_scaler(loss, optimizer)
                #> other
            else:
                loss /= 4
                #> backward
                loss.backward()
                #> optimizer
                optimizer.step()
                #> other
        """,
    "a profiler that steps": """
        with torch.profiler.profile() as p:
            for x in loader:
                x = prepare(x)
                #> forward
                loss = model(x)
                #> backward
                loss.backward()
                #> optimizer
                optimizer.step()
                #> other
                p.step()
        """,
    "a call of the accelerator between the loss and the backward pass": """
        for x in loader:
            #> forward
            loss = model(x).sum()
            #> other
            accelerator.log(loss.detach())
            #> backward
            accelerator.backward(loss)
            #> optimizer
            optimizer.step()
            #> other
        """,
    "a module of an unusual name, told by its parameters": """
        opt = torch.optim.SGD(gpt.parameters())
        for x in loader:
            x = prepare(x)
            #> forward
            loss = gpt(x)
            #> backward
            loss.backward()
            #> optimizer
            opt.step()
            #> other
        """,
    "a function of the file that calls the model": """
        def compute(x):
            return model(x).mean()

        for x in loader:
            x = prepare(x)
            #> forward
            value = compute(x)
            #> backward
            value.backward()
            #> optimizer
            optimizer.step()
            #> other
        """,
    "losses that are collected in a list": """
        for x in loader:
            losses = []
            for head in heads:
                #> forward
                losses.append(criterion(head(x), y))
            #> backward
            sum(losses).backward()
            #> optimizer
            optimizer.step()
            #> other
        """,
    "gradients clipped for each parameter": """
        for x in loader:
            #> forward
            loss = model(x)
            #> backward
            loss.backward()
            #> optimizer
            for p in model.parameters():
                clip_grad_norm_(p, 1.0)
            optimizer.step()
            #> other
        """,
    "a loss of the object itself": """
        class Trainer:
            def fit(self):
                for x in self.loader:
                    x = self.prepare(x)
                    #> forward
                    self.loss = self.model(x)
                    #> backward
                    self.loss.backward()
                    #> optimizer
                    self.optimizer.step()
                    #> other
        """,
}


@pytest.mark.parametrize("name", STEPS)
def test_each_phase_is_marked_where_it_begins(name: str, tmp_path: Path) -> None:
    wanted = code(STEPS[name])
    plain = re.sub(r"(?m)^ *#> .*\n", "", wanted)
    text = instrumented(tmp_path, plain, "--phases").read_text()
    assert re.search(r"first_segment=.other.", text)
    body = text.split("# <<< perf-timing <<<\n")[-1]
    head = text.split("# >>> perf-timing >>>")[0]
    told = re.sub(r'_perf_timing\.phase\("(\w+)"\)  # perf-timing', r"#> \1", head + body)
    told = re.sub(r"(?m)^ *_perf_timing\..*\n", "", told)
    told = re.sub(r"_perf_timing\.(steps|fetched)\((_perf_timing.fetch\(\), )?", "(", told)
    bare = re.sub(r"(?m)[()]|^\n", "", told)
    assert bare == re.sub(r"(?m)[()]|^\n", "", wanted)


def test_without_a_call_of_the_model_a_step_begins_with_its_forward_pass(tmp_path: Path) -> None:
    text = "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    assert "first_segment=" not in instrumented(tmp_path, text, "--phases").read_text().replace(
        'first_segment=""', ""
    ).replace('first_segment="forward"', "")


def test_a_zeroed_gradient_is_no_optimizer_step(tmp_path: Path) -> None:
    from inject.injected import command

    path = tmp_path / "train.py"
    path.write_text("for x in loader:\n    net.zero_grad()\n    net(x).backward()\n")
    assert "no optimizer found in the loop" in command(str(path), "--phases").err


@pytest.mark.parametrize("options", [(), ("--phases",)], ids=["ranges", "ranges and timing"])
def test_ranges_of_accumulated_steps_hold_their_work(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        def model(x):
            log.append("work forward")
            return loss

        def clip_grad_norm_(parameters):
            log.append("work clip")

        for x in [1]:
            log.append("work other")
            for micro_step in range(2):
                loss = model(x)
                loss.backward()
            clip_grad_norm_([])
            optimizer.step()
            log.append("work other")
        """
    log, names = ranges(tmp_path, text, monkeypatch, *options)
    step = log[: 1 + [n for n, e in enumerate(log) if e == "work other"][1]]
    assert step == [
        *("push step", "push data", "pop", "push other", "work other", "pop"),
        *("push forward", "work forward", "pop", "push backward", "work backward", "pop"),
        *("push other", "pop"),
        *("push forward", "work forward", "pop", "push backward", "work backward", "pop"),
        *("push other", "pop"),
        *("push optimizer", "work clip", "work optimizer", "pop", "push other", "work other"),
    ]
    assert is_balanced(log)
    if options:
        names["_perf_timing"].finished = True

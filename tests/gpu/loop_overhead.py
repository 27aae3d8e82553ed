"""What the timing of a training loop costs and how true it is, measured on a GPU.

    python tests/gpu/loop_overhead.py prepare FOLDER    # where this package runs; no GPU needed
    python tests/gpu/loop_overhead.py run FOLDER [--json FILE]   # one GPU, < 100 s a part
    torchrun --nproc-per-node 2 tests/gpu/loop_overhead.py ranks FOLDER    # two GPUs, < 60 s

`prepare` writes a training script and instrumented forms of it; the other two need torch alone.
Bare, `event` and `sync` forms of the same loop run in turn, in an order that rotates.
"""

import argparse
import functools
import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path

OVERHEAD = '''"""A training script whose step is as long as its batch makes it."""

import torch
import torch.nn.functional as F


def build(width, layers, device):
    torch.manual_seed(0)
    blocks = [torch.nn.Linear(64, width)]
    for _ in range(layers):
        blocks += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*blocks, torch.nn.Linear(width, 16)).to(device, torch.bfloat16)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3)


def train(model, optimizer, loader, device):
    loss = None
    for batch, target in loader:
        batch = batch.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        loss = F.cross_entropy(model(batch).float(), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss
'''

PLANTED = '''"""A training script with a stalling loader and a large unpinned copy in the step."""

import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Stalling(Dataset):
    """Batches of 77 MB, always the same one; every 32nd comes late."""

    def __init__(self, steps, stall_s):
        self.steps, self.stall_s = steps, stall_s
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(128, 3, 224, 224, generator=generator)
        self.labels = torch.randint(0, 16, (128,), generator=generator)

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        if index % 32 == 31:
            time.sleep(self.stall_s)
        return self.images, self.labels


def make_loader(steps, stall_s=0.27):
    return DataLoader(Stalling(steps, stall_s), batch_size=None, num_workers=1, prefetch_factor=2)


class Tokens(torch.nn.Module):
    def forward(self, patches):
        return patches.flatten(2).transpose(1, 2)


def build(width, layers, device):
    torch.manual_seed(0)
    blocks = [torch.nn.Conv2d(3, 64, 16, 16), Tokens(), torch.nn.Linear(64, width)]
    for _ in range(layers):
        blocks += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*blocks, torch.nn.Linear(width, 16)).to(device, torch.bfloat16)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3)


def train_step(model, optimizer, images, labels, device):
    images, labels = images.to(device), labels.to(device)
    loss = F.cross_entropy(model(images.bfloat16()).float().mean(1), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def train(model, optimizer, loader, device):
    loss = None
    for images, labels in loader:
        loss = train_step(model, optimizer, images, labels, device)
    return loss
'''

RANKS = OVERHEAD.replace(
    "import torch\n", "import time\n\nimport torch\nimport torch.distributed\n", 1
)
RANKS = RANKS.replace("optimizer, loader, device):", "optimizer, loader, device, late_s=0.0):")
RANKS = RANKS.replace(
    "        loss = F.cross_entropy",
    "        if late_s:\n            time.sleep(late_s)\n        loss = F.cross_entropy",
)
SCRIPTS = {"overhead": OVERHEAD, "planted": PLANTED, "ranks": RANKS}
FORMS = ("bare", "event", "sync")
WITH_CONTROL = ("bare", "again", "event", "sync")  # `again` is bare: what is between them is noise


def prepare(folder: Path) -> int:
    """Write every script in its three forms; `ranks_late` is another copy of the event form."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
    from perf_timing.inject import main as inject

    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    for name, script in SCRIPTS.items():
        for form in (*WITH_CONTROL, "late"):
            path = folder / f"{name}_{form}.py"
            path.write_text(script, encoding="utf-8")
            method = ["--method", "sync" if form == "sync" else "event", "--log-every", "0"]
            if form not in ("bare", "again") and inject([str(path), "--write", *method]):
                return 1
    return 0


def load(folder: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def timed(torch, train) -> tuple[float, object]:
    """Seconds of wall time of `train()` with the device idle before and after, and its result."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = train()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def rotated(repeat: int, forms=FORMS):
    """The forms in an order that rotates, and is reversed every other time."""
    shift = repeat % len(forms)
    order = forms[shift:] + forms[:shift]
    return order[::-1] if repeat % 2 else order


def new_us(timer, counts: dict) -> dict[str, float]:
    """Sums over the steps that the timer has accounted for since the last call, in us."""
    if timer is None:
        return {}
    timer._read(wait=True)
    sums = {}
    for key in ("period", "step", "data_wait", "copy_wait"):
        values = timer.seen[key]
        sums[key] = sum(values[counts.get(key, 0) :])
        sums["n"] = len(values) - counts.get(key, 0)
        counts[key] = len(values)
    return sums


def batches(torch, rows: int, count: int):
    generator = torch.Generator().manual_seed(rows)
    batch = torch.randn(rows, 64, generator=generator).bfloat16().pin_memory()
    return [(batch, torch.randint(0, 16, (rows,), generator=generator).pin_memory())] * count


def rows_for(torch, module, model, optimizer, device, target_ms: float, **more) -> int:
    """Batch size at which a step of the bare loop takes about `target_ms`."""
    rows, width = 1024, 64
    for _ in range(3):
        loader = batches(torch, rows, max(4, int(200 / target_ms)))
        module.train(model, optimizer, loader[:2], device, **more)
        wall_s, _ = timed(torch, lambda: module.train(model, optimizer, loader, device, **more))  # noqa: B023
        step_ms = wall_s * 1e3 / len(loader)
        rows = max(width, int(rows * min(target_ms / step_ms, 40)) // width * width)
    return rows


def overhead(torch, folder: Path, device, target_ms: float, seconds: float, repeats: int) -> dict:
    """Wall time of the three forms in turn; every form has its own model, from the same seed."""
    modules = {form: load(folder, f"overhead_{form}") for form in FORMS}
    # Few layers for the short step: its launches must not be what takes the time.
    built = {form: modules[form].build(4096, 4 if target_ms < 10 else 12, device) for form in FORMS}
    probe = modules["bare"].build(4096, 4 if target_ms < 10 else 12, device)
    rows = rows_for(torch, modules["bare"], *probe, device, target_ms)
    del probe
    steps = max(6, int(seconds * 1e3 / target_ms))
    loader = batches(torch, rows, steps)
    timers = {form: getattr(modules[form], "_perf_timing", None) for form in FORMS}
    walls: dict[str, list[float]] = {form: [] for form in FORMS}
    told: dict[str, list[dict]] = {form: [] for form in FORMS}
    seen: dict[str, dict] = {form: {} for form in FORMS}
    for form in FORMS:
        modules[form].train(*built[form], loader[: max(6, steps // 4)], device)
        new_us(timers[form], seen[form])
    losses = {}
    for repeat in range(repeats):
        for form in rotated(repeat):
            run = modules[form].train
            wall_s, loss = timed(torch, lambda: run(*built[form], loader, device))  # noqa: B023
            walls[form].append(wall_s)
            told[form].append(new_us(timers[form], seen[form]))
            losses[form] = float(loss.detach())
    for timer in filter(None, timers.values()):
        timer.finished = True
    result = {"target_ms": target_ms, "rows": rows, "steps": steps, "repeats": repeats}
    result["bare_step_ms"] = statistics.median(walls["bare"]) * 1e3 / steps
    for form in ("event", "sync"):
        result[form] = ratios(walls["bare"], walls[form])
        result[f"{form}_told_over_wall"] = spread(
            [
                (t["step"] + t["data_wait"]) / w / 1e6
                for t, w in zip(told[form], walls[form], strict=True)
            ]
        )
    result["losses_equal"] = len(set(losses.values())) == 1
    result["losses"] = losses
    return result


def ratios(bare: list[float], other: list[float]) -> dict[str, float]:
    return spread([b / a for a, b in zip(bare, other, strict=True)])


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def stopwatch(torch, module, model, optimizer, loader, device) -> dict[str, float]:
    """Truth of the planted loop: a stopwatch around `next()`, two events around all steps."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    iterator = iter(loader)
    waits = []
    begin.record()
    while True:
        start = time.perf_counter()
        try:
            images, labels = next(iterator)
        except StopIteration:
            break
        waits.append(time.perf_counter() - start)
        module.train_step(model, optimizer, images, labels, device)
    end.record()
    torch.cuda.synchronize()
    return {
        "wait_ms": statistics.fmean(waits) * 1e3,
        "wall_ms": begin.elapsed_time(end) / len(waits),
        "steps": len(waits),
    }


def layers_for(torch, module, device, target_ms: float) -> int:
    """Number of layers at which the planted loop's step, its copy left out, takes `target_ms`."""
    step_ms = {}
    images, labels = (part.to(device) for part in module.Stalling(1, 0)[0])
    for layers in (2, 6):
        model, optimizer = module.build(2048, layers, device)
        step = functools.partial(module.train_step, model, optimizer, images, labels, device)
        for repeats in (3, 10):
            wall_s, _ = timed(torch, lambda: [step() for _ in range(repeats)])  # noqa: B023
        step_ms[layers] = wall_s * 1e3 / 10
    layer_ms = (step_ms[6] - step_ms[2]) / 4
    return max(1, round((target_ms - step_ms[2]) / layer_ms) + 2)


def planted(torch, folder: Path, device, repeats: int, steps: int = 64) -> dict:
    """The loop with planted stalls and copies: what each form says against the stopwatch."""
    modules = {form: load(folder, f"planted_{form}") for form in FORMS}
    bare = modules["bare"]
    layers = layers_for(torch, bare, device, target_ms=30)
    truth_model = bare.build(2048, layers, device)
    bare.train(*truth_model, bare.make_loader(8, 0.0), device)
    built = {form: modules[form].build(2048, layers, device) for form in FORMS}
    timers = {form: getattr(modules[form], "_perf_timing", None) for form in FORMS}
    seen: dict[str, dict] = {form: {} for form in FORMS}
    for form in FORMS:
        modules[form].train(*built[form], bare.make_loader(8, 0.0), device)
        new_us(timers[form], seen[form])
    walls: dict[str, list[float]] = {form: [] for form in FORMS}
    told: dict[str, list[dict]] = {form: [] for form in FORMS}
    truths, losses = [], {}
    for repeat in range(repeats):
        truths.append(stopwatch(torch, bare, *truth_model, bare.make_loader(steps), device))
        for form in rotated(repeat):
            loader = bare.make_loader(steps)
            run = modules[form].train
            wall_s, loss = timed(torch, lambda: run(*built[form], loader, device))  # noqa: B023
            walls[form].append(wall_s)
            told[form].append(new_us(timers[form], seen[form]))
            losses[form] = float(loss.detach())
    result = {
        "layers": layers,
        "truth_wait_ms": spread([truth["wait_ms"] for truth in truths]),
        "truth_wall_ms": spread([truth["wall_ms"] for truth in truths]),
        "losses_equal": len(set(losses.values())) == 1,
        "losses": losses,
    }
    for form in ("event", "sync"):
        result[form] = ratios(walls["bare"], walls[form])
        for key in ("period", "step", "data_wait", "copy_wait"):
            result[f"{form}_{key}_ms"] = spread([t[key] / t["n"] / 1e3 for t in told[form]])
        result[f"{form}_told_over_wall"] = spread(
            [
                (t["step"] + t["data_wait"]) / w / 1e6
                for t, w in zip(told[form], walls[form], strict=True)
            ]
        )
    print(f"\n-- report of the event form ({steps * repeats} steps, planted stalls)", flush=True)
    timers["event"].json_path = folder / "planted_event.json"
    timers["event"].out = sys.stdout
    timers["event"].finish()
    timers["sync"].finished = True
    return result


def run(folder: Path, json_path: str, parts: str) -> int:
    import torch

    device = torch.device("cuda")
    started = time.monotonic()
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "overhead": []}
    sizes = ((3, 0.6, 6), (30, 0.9, 6), (250, 1.5, 4)) if "overhead" in parts else ()
    for target_ms, seconds, repeats in sizes:
        row = overhead(torch, folder, device, target_ms, seconds, repeats)
        result["overhead"].append(row)
        torch.cuda.empty_cache()
        print_overhead(row, time.monotonic() - started)
    if "planted" in parts:
        result["planted"] = planted(torch, folder, device, repeats=6)
        print_planted(result["planted"])
    result["took_s"] = time.monotonic() - started
    write(result, json_path)
    print(f"took {result['took_s']:.0f} s")
    return 0


def print_planted(result: dict) -> None:
    for key, values in result.items():
        shown = values
        if isinstance(values, dict) and "median" in values:
            shown = "{median:.4f} ({min:.4f} .. {max:.4f})".format(**values)
        print(f"{key:>24}: {shown}", flush=True)


def print_overhead(row: dict, at_s: float) -> None:
    def percent(ratio):
        return f"{100 * (ratio - 1):+.3f} %"

    print(f"\n-- bare step {row['bare_step_ms']:.3f} ms, {row['steps']} steps x {row['repeats']}")
    if "again" in row:
        low, high = percent(row["again"]["min"]), percent(row["again"]["max"])
        print(f" again: bare once more {percent(row['again']['median'])} (from {low} to {high})")
    for form in ("event", "sync"):
        slow, told = row[form], row[f"{form}_told_over_wall"]
        print(
            f"{form:>6}: slowdown {percent(slow['median'])}"
            f" (from {percent(slow['min'])} to {percent(slow['max'])}),"
            f" steps + waits over wall {percent(told['median'])}"
            f" (from {percent(told['min'])} to {percent(told['max'])})"
        )
    print(f"losses equal: {row['losses_equal']}; {at_s:.0f} s since the start", flush=True)


def write(result: dict, json_path: str) -> None:
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def ranks(folder: Path, json_path: str) -> int:
    """Two processes with NCCL and DistributedDataParallel: overhead, then rank 1 late by 20 ms."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    result = {"world_size": dist.get_world_size(), "torch": torch.__version__, "overhead": []}
    for target_ms, seconds, repeats in ((1.5, 0.5, 8), (4, 0.6, 8), (30, 0.9, 6)):
        row = ddp_overhead(torch, dist, folder, device, target_ms, seconds, repeats)
        result["overhead"].append(row)
        if rank == 0:
            print_overhead(row, 0)
    late = load(folder, "ranks_late")
    model, optimizer = late.build(4096, 4, device)
    model = torch.nn.parallel.DistributedDataParallel(model)
    late._perf_timing.json_path = folder / "late.json"
    late._perf_timing.out = sys.stdout
    loader = batches(torch, 2048, 60)
    late.train(model, optimizer, loader, device, 0.02 if rank == 1 else 0.0)
    dist.destroy_process_group()
    late._perf_timing.finish()
    if rank == 0:
        record = json.loads((folder / "late.json").read_text(encoding="utf-8"))
        result["late"] = {key: record[key] for key in ("slowest_rank", "lag_us", "missing_ranks")}
        print(f"\nrank 1 sleeps 20 ms a step: {result['late']}", flush=True)
        write(result, json_path)
    return 0


def ddp_overhead(torch, dist, folder, device, target_ms, seconds, repeats) -> dict:
    modules = {form: load(folder, f"ranks_{form}") for form in WITH_CONTROL}
    ddp = torch.nn.parallel.DistributedDataParallel
    # DistributedDataParallel's launches take 2 ms of the host: a step of 3 ms needs few of them.
    width, layers = (8192, 1) if target_ms < 10 else (4096, 12)
    built = {}
    for form in WITH_CONTROL:
        model, _ = modules[form].build(width, layers, device)
        model = ddp(model)
        built[form] = model, torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = torch.tensor(rows_for(torch, modules["bare"], *built["bare"], device, target_ms))
    shared = rows.to(device)
    dist.broadcast(shared, 0)
    steps = max(6, int(seconds * 1e3 / target_ms))
    loader = batches(torch, int(shared), steps)
    timers = {form: getattr(modules[form], "_perf_timing", None) for form in WITH_CONTROL}
    walls: dict[str, list[float]] = {form: [] for form in WITH_CONTROL}
    told: dict[str, list[dict]] = {form: [] for form in WITH_CONTROL}
    seen: dict[str, dict] = {form: {} for form in WITH_CONTROL}
    for form in WITH_CONTROL:
        modules[form].train(*built[form], loader[: max(6, steps // 4)], device)
        new_us(timers[form], seen[form])
    for repeat in range(repeats):
        for form in rotated(repeat, WITH_CONTROL):
            dist.barrier()
            run = modules[form].train
            wall_s, _ = timed(torch, lambda: run(*built[form], loader, device))  # noqa: B023
            walls[form].append(wall_s)
            told[form].append(new_us(timers[form], seen[form]))
    result = {
        "rows": int(shared),
        "steps": steps,
        "repeats": repeats,
        "losses_equal": "not compared",
    }
    result["bare_step_ms"] = statistics.median(walls["bare"]) * 1e3 / steps
    result["walls_s"] = walls
    result["again"] = ratios(walls["bare"], walls["again"])
    for form in ("event", "sync"):
        result[form] = ratios(walls["bare"], walls[form])
        result[f"{form}_told_over_wall"] = spread(
            [
                (t["step"] + t["data_wait"]) / w / 1e6
                for t, w in zip(told[form], walls[form], strict=True)
            ]
        )
    for timer in filter(None, timers.values()):
        timer.finished = True
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("prepare", "run", "ranks"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", default="")
    parser.add_argument("--parts", default="overhead,planted", help="what `run` measures")
    chosen = parser.parse_args()
    if chosen.mode == "prepare":
        return prepare(chosen.folder)
    if chosen.mode == "run":
        return run(chosen.folder, chosen.json, chosen.parts)
    return ranks(chosen.folder, chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())

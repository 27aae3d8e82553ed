"""What counts as evidence that a file computes on a device, and what does not."""

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.model import Unit
from perf_timing.lint.work.devices import mentions_device, stays_on_host

ON_DEVICE = {
    "a tensor is put on the GPU": "import torch\nx = torch.ones(3, device='cuda')\n",
    "a device that the caller chooses": (
        "import torch\ndef f(x, device):\n    return x.to(device)\n"
    ),
    "the GPU where there is one": (
        "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    ),
    "a CPU device that another branch replaces": (
        "import torch\ndevice = 'cpu'\nif big:\n    device = pick()\nx = x.to(device)\n"
    ),
    "one tensor on the CPU and a device that the caller chooses": (
        "import torch\ndef f(x, device):\n    t = torch.ones(\n        3,\n        device='cpu')\n"
        "    return run(x, device=pick()), t\n"
    ),
    "CuPy": "import cupy as cp\n",
    "Triton from another package": "from vllm.triton_utils import tl, triton\n",
    "a provider of ONNX Runtime": "s = Session(p, providers=['CUDAExecutionProvider'])\n",
    "a GPU by name beside Paddle": "import paddle\npaddle.set_device('gpu')\n",
}
ON_HOST = {
    "a device that is the CPU": "import torch\ndevice = 'cpu'\nmodel.to(device)\n",
    "a device object of the CPU": (
        "import torch\ndevice = torch.device('cpu')\nx = torch.ones(3, device=device)\n"
    ),
    "a device that is the CPU, and a target of another kind": (
        "import torch\ndevice = 'cpu'\ntarget = args.target\nq = Quantizer(device=target)\n"
    ),
    "tensors without any device": "import torch\nx = torch.tensor([1]) + 1\n",
    "a pool of workers called gpu": (
        "import subprocess\nfor gpu in gpus:\n    subprocess.run(cmd, env={'gpu': gpu})\n"
    ),
    "a comment": "import torch\n# as fast as cuda\nx = torch.ones(3)\n",
    "a docstring": 'import torch\n"""Runs on cuda."""\nx = torch.ones(3)\n',
    "a part of another package's name": (
        "import torch\nfrom executorch.backends.mlx.llm import args\n"
    ),
}


@pytest.mark.parametrize("text", ON_DEVICE.values(), ids=ON_DEVICE)
def test_what_is_evidence(text: str) -> None:
    assert mentions_device(text, "python")


@pytest.mark.parametrize("text", ON_HOST.values(), ids=ON_HOST)
def test_what_is_no_evidence(text: str) -> None:
    assert not mentions_device(text, "python")


_LOADS = "import torch\nprint(torch.cuda.is_available())\nmodel = Net.from_pretrained(name)\n"
STAYS = {
    "a model that is loaded and never moved": _LOADS,
    "a model that is only given another type": _LOADS + "model.to(torch.bfloat16)\n",
    "a model that is put on the CPU": _LOADS + "model.to('cpu')\nx = torch.ones(3, device='cpu')\n",
    "a remark that moves it": _LOADS + "# model.cuda()\n",
}
MAY_MOVE = {
    "a model that is moved": _LOADS + "model.cuda()\n",
    "a model that goes to a device of the caller": _LOADS + "model = model.to(args.device)\n",
    "a model that is loaded to where there is room": _LOADS + "load(device_map='auto')\n",
    "tensors made on a device": _LOADS + "x = torch.ones(3, device=d)\n",
    "a wait for the device": _LOADS + "torch.cuda.synchronize()\n",
    "a model of another file": "import torch\nprint(torch.cuda.is_available())\nrun(model)\n",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_a_file_that_moves_nothing_computes_on_the_host(text: str) -> None:
    assert stays_on_host(text)


@pytest.mark.parametrize("text", MAY_MOVE.values(), ids=MAY_MOVE)
def test_what_may_move_a_model(text: str) -> None:
    assert not stays_on_host(text)


@pytest.mark.parametrize("moved", [False, True])
def test_what_moves_a_model_counts_where_no_part_in_timing_was_blanked(moved: bool) -> None:
    timed = _LOADS + "import time\nt = time.time()\nmodel(x)\nprint(time.time() - t)\n"
    whole = timed + ("def load():\n    return Net().cuda()\n" if moved else "")
    found = check.check([Unit("a.py", "python", timed, whole=whole)], catalog.load_rules()).findings
    assert any(f.rule == "host-clock-without-sync" for f in found) is moved

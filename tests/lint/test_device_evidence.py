"""What counts as evidence that a file computes on a device, and what does not."""

import pytest
from perf_timing.lint.devices import mentions_device

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

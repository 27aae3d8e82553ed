"""Just enough of torch.nn, torch.optim and torch.utils.data for demonstration models."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import tensors
from .active import machine
from .tensors import Tensor, elementwise, grad_mode, make, matmul


class Parameter(Tensor):
    """A leaf that requires grad."""

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Any:
        leaf = Tensor(data.shape, data.dtype, data._storage)
        leaf.requires_grad = requires_grad
        return leaf


class Module:
    """torch.nn.Module"""

    def __init__(self) -> None:
        self.training = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine().host(1.0)
        return self.forward(*args, **kwargs)

    def children(self) -> Iterator[Module]:
        for value in vars(self).values():
            if isinstance(value, Module):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (one for one in value if isinstance(one, Module))

    def modules(self) -> Iterator[Module]:
        yield self
        for child in self.children():
            yield from child.modules()

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        for module in self.modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor) and not value._leaves:
                    yield name, value

    def parameters(self) -> Iterator[Tensor]:
        return (parameter for _, parameter in self.named_parameters())

    def buffers(self) -> Iterator[Tensor]:
        return iter(())

    def to(self, *args: Any, **kwargs: Any) -> Module:
        for module in self.modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, Tensor):
                    moved = value.detach().to(*args, **kwargs)
                    moved.requires_grad = value.requires_grad
                    setattr(module, name, moved)
        return self

    def cuda(self, index: Any = None) -> Module:
        return self.to(tensors.device("cuda", index))

    def half(self) -> Module:
        return self.to(tensors.DTYPES["float16"])

    def bfloat16(self) -> Module:
        return self.to(tensors.DTYPES["bfloat16"])

    def train(self, mode: bool = True) -> Module:
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, on: bool = True) -> Module:
        for parameter in self.parameters():
            parameter.requires_grad = on
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters():
            parameter.grad = None


def _weight(*shape: int, device: Any = None, dtype: Any = None) -> Tensor:
    weight = make(shape, dtype, device)
    weight._storage.value = 0.01 + 0.01 * machine().data_rng.random()
    weight.requires_grad = True
    return weight


class Linear(Module):
    def __init__(
        self, inputs: int, outputs: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = inputs, outputs
        self.weight = _weight(outputs, inputs, device=device, dtype=dtype)
        self.bias = _weight(outputs, device=device, dtype=dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class LayerNorm(Module):
    def __init__(
        self, shape: Any, eps: float = 1e-5, device: Any = None, dtype: Any = None, **_: Any
    ) -> None:
        super().__init__()
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        self.weight, self.bias = (_weight(*sizes, device=device, dtype=dtype) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise("layer_norm", lambda v, w, b: 0.5 * w + b, [x, self.weight, self.bias])


class Sequential(Module):
    def __init__(self, *parts: Module) -> None:
        super().__init__()
        self.parts = list(parts)

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def __getitem__(self, index: int) -> Module:
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)


class ModuleList(Module):
    def __init__(self, parts: Any = ()) -> None:
        super().__init__()
        self.parts = list(parts)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def _activation(name: str) -> type[Module]:
    class Activation(Module):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            return tensors.FREE_FUNCTIONS[name](x)

    Activation.__name__ = name.upper()
    return Activation


def _loss(function: Callable[..., Tensor]) -> type[Module]:
    class Loss(Module):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        def forward(self, x: Tensor, target: Tensor) -> Tensor:
            return function(x, target)

    return Loss


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = matmul(x, weight.t())
    return out if bias is None else elementwise("add", lambda a, b: a + b, [out, bias])


def mse_loss(x: Tensor, target: Tensor, **_: Any) -> Tensor:
    return elementwise("mse", lambda a, b: (a - b) ** 2, [x, target]).mean()


def cross_entropy(x: Tensor, target: Tensor, **_: Any) -> Tensor:
    classes = x.shape[-1]
    return elementwise("log_softmax", lambda v: math.log(classes), [x]).mean()


def attention(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    out = make(q.shape, q.dtype, q.device)
    flops = 4.0 * q.numel() * k.shape[-2]
    tensors.launch("flash_fwd_kernel", [q, k, v], out, flops=flops)
    out._storage.value = v.value
    return out


class Optimizer:
    """One fused kernel over every parameter."""

    def __init__(self, parameters: Any, lr: float = 0.01, **_: Any) -> None:
        self.parameters, self.lr = list(parameters), lr
        self.param_groups = [{"params": self.parameters, "lr": lr}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, closure: Any = None) -> None:
        changed = [p for p in self.parameters if p.grad is not None]
        machine().host(10.0)
        if changed:
            tensors.launch("multi_tensor_apply_kernel", changed, changed[0])
        for parameter in changed:
            parameter._storage.value -= self.lr * parameter.grad.value


class Dataset:
    """torch.utils.data.Dataset"""


class TensorDataset(Dataset):
    def __init__(self, *columns: Tensor) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(column[index] for column in self.columns)


class DataLoader:
    """Single-process loader: whole batches of representative values."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        pin_memory: bool = False,
        **_: Any,
    ) -> None:
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.pin_memory = pin_memory

    def __len__(self) -> int:
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        for first in range(0, count, self.batch_size):
            size = min(self.batch_size, count - first)
            if size < self.batch_size and self.drop_last:
                return
            machine().host(100.0)
            yield _collate(self.dataset[first], size, self.pin_memory)


def _collate(sample: Any, size: int, pinned: bool) -> Any:
    if isinstance(sample, (tuple, list)):
        return type(sample)(_collate(one, size, pinned) for one in sample)
    if isinstance(sample, Tensor):
        batch = make((size, *sample.shape), sample.dtype, sample.device)
        batch._storage.value = sample.value
        return batch.pin_memory() if pinned else batch
    return [sample] * size


def modules() -> dict[str, types.ModuleType]:
    """torch.nn and its relatives, by full name."""
    nn, functional, optim = (
        types.ModuleType(n) for n in ("torch.nn", "torch.nn.functional", "torch.optim")
    )
    utils, data, parallel = (
        types.ModuleType(n) for n in ("torch.utils", "torch.utils.data", "torch.nn.parallel")
    )
    for one in (Module, Parameter, Linear, LayerNorm, Sequential, ModuleList):
        setattr(nn, one.__name__, one)
    for name in ("relu", "gelu", "tanh", "sigmoid", "silu"):
        spelled = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}.get(name, name.capitalize())
        setattr(nn, spelled, _activation(name))
        setattr(functional, name, tensors.FREE_FUNCTIONS[name])
    nn.MSELoss, nn.CrossEntropyLoss = _loss(mse_loss), _loss(cross_entropy)
    functional.linear, functional.mse_loss, functional.cross_entropy = (
        linear,
        mse_loss,
        cross_entropy,
    )
    functional.softmax, functional.scaled_dot_product_attention = tensors.softmax, attention
    nn.functional, nn.parallel = functional, parallel
    parallel.DistributedDataParallel = lambda module, **_: module
    for name in ("SGD", "Adam", "AdamW"):
        setattr(optim, name, type(name, (Optimizer,), {}))
    optim.Optimizer = Optimizer
    for one in (Dataset, TensorDataset, DataLoader):
        setattr(data, one.__name__, one)
    utils.data = data
    return {
        "torch.nn": nn,
        "torch.nn.functional": functional,
        "torch.nn.parallel": parallel,
        "torch.optim": optim,
        "torch.utils": utils,
        "torch.utils.data": data,
    }


no_grad = grad_mode

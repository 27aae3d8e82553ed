"""Simulated torch: builds a fresh module tree for one run."""

from __future__ import annotations

import contextlib
import math
import types
from typing import Any

from . import cuda, neural, profiler, tensors
from .active import machine
from .tensors import (
    BOOL,
    DTYPES,
    FREE_FUNCTIONS,
    LONG,
    Tensor,
    elementwise,
    grad_mode,
    make,
    matmul,
)


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    return (
        tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else tuple(sizes)
    )


def _filled(name: str, value: Any) -> Any:
    """A factory like torch.ones: `value` is a number or draws one."""

    def factory(
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        out: Tensor | None = None,
        generator: Any = None,
        **_: Any,
    ) -> Tensor:
        tensor = (
            out if out is not None else make(_shape(sizes) if size is None else size, dtype, device)
        )
        if value is not None:
            kind = "memset" if name == "zeros" else "kernel"
            label = "Memset (Device)" if name == "zeros" else name
            tensor._inplace(label, value() if callable(value) else value, kind=kind)
        tensor.requires_grad = requires_grad
        return tensor.pin_memory() if pin_memory else tensor

    factory.__name__ = name
    return factory


def _gauss() -> float:
    return machine().data_rng.gauss(0.0, 1.0)


def _uniform() -> float:
    return machine().data_rng.random()


def _like(factory: Any) -> Any:
    def like(tensor: Tensor, *, dtype: Any = None, device: Any = None, **rest: Any) -> Tensor:
        rest.pop("memory_format", None)
        return factory(
            *tensor.shape, dtype=dtype or tensor.dtype, device=device or tensor.device, **rest
        )

    return like


def full(size: Any, fill_value: float, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    kind = dtype or (tensors.FLOAT if isinstance(fill_value, float) else LONG)
    return make(_shape((size,)), kind, device)._inplace("fill", float(fill_value))


def randint(
    low: int, high: Any = None, size: Any = None, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:
    if size is None:
        low, high, size = 0, low, high
    return make(size, dtype or LONG, device)._inplace(
        "randint", machine().data_rng.randrange(low, high)
    )


def arange(*bounds: Any, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    numbers = range(*[int(b) for b in bounds])
    return make((len(numbers),), dtype or LONG, device)._inplace("arange", len(numbers) / 2)


def tensor(
    data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    shape, first, inner = [], data, data
    while isinstance(inner, (list, tuple)):
        shape.append(len(inner))
        inner = inner[0] if inner else 0
    first = inner.value if isinstance(inner, Tensor) else inner
    kind = dtype or (
        BOOL if isinstance(first, bool) else tensors.FLOAT if isinstance(first, float) else LONG
    )
    built = make(shape, kind, "cpu")
    built._storage.value = float(first)
    built.requires_grad = requires_grad
    return (
        built
        if device is None or tensors.place(device).type == "cpu"
        else built._move(tensors.place(device), kind, False)
    )


def stack(parts: Any, dim: int = 0, out: Tensor | None = None) -> Tensor:
    shape = list(parts[0].shape)
    shape.insert(dim, len(parts))
    return _joined("stack", parts, shape, out)


def cat(parts: Any, dim: int = 0, out: Tensor | None = None) -> Tensor:
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return _joined("cat", parts, shape, out)


def _joined(name: str, parts: Any, shape: list[int], out: Tensor | None) -> Tensor:
    out = out if out is not None else make(shape, parts[0].dtype, parts[0].device)
    tensors.launch(name, list(parts), out)
    out._storage.value = sum(part.value for part in parts) / len(parts)
    return out


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    return elementwise("where", lambda c, x, y: x if c else y, [condition, a, b])


def addmm(bias: Tensor, a: Tensor, b: Tensor, **_: Any) -> Tensor:
    return matmul(a, b) + bias


def allclose(
    a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    elementwise("isclose", lambda x, y: 0.0, [a, b], BOOL)
    tensors._read_back(a)
    return a.shape == b.shape and tensors._close(a.value, b.value, rtol, atol, equal_nan)


def isclose(
    a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    return elementwise(
        "isclose", lambda x, y: tensors._close(x, y, rtol, atol, equal_nan), [a, b], BOOL
    )


def equal(a: Tensor, b: Tensor) -> bool:
    tensors._read_back(a)
    return a.shape == b.shape and a.value == b.value


TOLERANCES = {
    "float32": (1.3e-6, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float16": (1e-3, 1e-5),
    "float64": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: Any = None,
    atol: Any = None,
    equal_nan: bool = False,
    msg: Any = None,
    **_: Any,
) -> None:
    """torch.testing.assert_close over tensors, numbers and nested sequences."""
    if isinstance(actual, (tuple, list)):
        if len(actual) != len(expected):
            raise AssertionError("The length of the sequences mismatch")
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
        return
    if not isinstance(actual, Tensor):
        if actual != expected and not math.isclose(actual, expected, rel_tol=rtol or 1e-7):
            raise AssertionError("Scalars are not close!")
        return
    if actual.shape != expected.shape:
        raise AssertionError(
            f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}."
        )
    tensors._read_back(actual)
    default = TOLERANCES.get(actual.dtype.name, (0.0, 0.0))
    wanted = (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
    if not tensors._close(actual.value, expected.value, *wanted, equal_nan):
        raise AssertionError(f"Tensor-likes are not close! {actual.value} against {expected.value}")


def compile(model: Any = None, **_: Any) -> Any:
    """torch.compile: the first call costs two seconds on the host, later calls a guard check."""
    if model is None:
        return lambda function: compile(function)
    compiled = [False]

    def call(*args: Any, **kwargs: Any) -> Any:
        machine().host(10.0 if compiled[0] else 2_000_000.0)
        compiled[0] = True
        return model(*args, **kwargs)

    return call


class Generator:
    def __init__(self, device: Any = "cpu") -> None:
        self.device = tensors.device(device)

    def manual_seed(self, seed: int) -> Generator:
        machine().data_rng.seed(seed)
        return self


def manual_seed(seed: int) -> Generator:
    machine().data_rng.seed(seed)
    return Generator()


@contextlib.contextmanager
def autocast(*_: Any, **__: Any) -> Any:
    yield


def _distributed() -> types.ModuleType:
    """torch.distributed for one process."""
    built = types.ModuleType("torch.distributed")
    state = {"initialized": False}

    def init_process_group(*_: Any, **__: Any) -> None:
        state["initialized"] = True

    def destroy_process_group(*_: Any) -> None:
        state["initialized"] = False

    def all_gather_object(into: list[Any], value: Any, group: Any = None) -> None:
        machine().host(200.0)
        into[:] = [value] * len(into)

    def gather_object(
        value: Any, into: list[Any] | None = None, dst: int = 0, group: Any = None
    ) -> None:
        machine().host(200.0)
        if into is not None:
            into[:] = [value] * len(into)

    def collective(value: Any = None, *_: Any, **__: Any) -> None:
        machine().host(30.0)

    built.is_available = lambda: True
    built.is_initialized = lambda: state["initialized"]
    built.init_process_group, built.destroy_process_group = (
        init_process_group,
        destroy_process_group,
    )
    built.get_rank, built.get_world_size = (lambda group=None: 0), (lambda group=None: 1)
    built.get_backend = lambda group=None: "nccl"
    built.all_gather_object, built.gather_object = all_gather_object, gather_object
    built.all_reduce = built.broadcast = built.barrier = built.reduce = collective
    built.ReduceOp = types.SimpleNamespace(SUM=0, MAX=1, MIN=2, AVG=3)
    return built


def _accelerator() -> types.ModuleType:
    built = types.ModuleType("torch.accelerator")
    built.is_available = cuda.is_available
    built.current_accelerator = lambda: tensors.device("cuda") if cuda.is_available() else None
    built.synchronize, built.device_count = cuda.synchronize, cuda.device_count
    built.current_stream, built.set_stream = cuda.current_stream, cuda.set_stream
    built.current_device_index, built.set_device_index = cuda.current_device, cuda.set_device
    return built


def _functions() -> dict[str, Any]:
    """Everything that lives directly in torch."""
    random_normal, random_uniform = _filled("normal", _gauss), _filled("uniform", _uniform)
    empty, zeros, ones = _filled("empty", None), _filled("zeros", 0.0), _filled("ones", 1.0)
    found: dict[str, Any] = dict(FREE_FUNCTIONS)
    found |= dict(DTYPES.items())
    found |= {"float": DTYPES["float32"], "half": DTYPES["float16"], "double": DTYPES["float64"]}
    found |= {"int": DTYPES["int32"], "long": LONG}
    found |= {
        "empty": empty,
        "zeros": zeros,
        "ones": ones,
        "randn": random_normal,
        "rand": random_uniform,
    }
    found |= {
        f"{name}_like": _like(found[name]) for name in ("empty", "zeros", "ones", "randn", "rand")
    }
    found["full_like"] = lambda t, value, **_: full(t.shape, value, dtype=t.dtype, device=t.device)
    found |= {
        "full": full,
        "randint": randint,
        "arange": arange,
        "tensor": tensor,
        "as_tensor": tensor,
    }
    found |= {
        "stack": stack,
        "cat": cat,
        "concat": cat,
        "where": where,
        "addmm": addmm,
        "softmax": tensors.softmax,
    }
    found |= {
        "matmul": matmul,
        "mm": matmul,
        "bmm": matmul,
        "allclose": allclose,
        "isclose": isclose,
        "equal": equal,
    }
    for name in (
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "norm",
        "argmax",
        "all",
        "any",
        "clamp",
        "clone",
        "reshape",
    ):
        found[name] = getattr(Tensor, name)
    for name in ("transpose", "unsqueeze", "squeeze", "permute", "flatten", "chunk"):
        found[name] = getattr(Tensor, name)
    found |= {
        "compile": compile,
        "autocast": autocast,
        "Generator": Generator,
        "manual_seed": manual_seed,
    }
    found |= {
        "device": tensors.device,
        "dtype": tensors.dtype,
        "Size": tensors.Size,
        "Tensor": Tensor,
    }
    found |= {
        "OutOfMemoryError": tensors.OutOfMemoryError,
        "is_tensor": lambda value: isinstance(value, Tensor),
    }
    found |= {
        "no_grad": lambda function=None: (
            grad_mode(False)(function) if function else grad_mode(False)
        ),
        "enable_grad": lambda: grad_mode(True),
        "set_grad_enabled": grad_mode,
        "is_grad_enabled": tensors.grad_enabled,
        "inference_mode": lambda mode=True: (
            grad_mode(False)(mode) if callable(mode) else grad_mode(not mode)
        ),
        "set_float32_matmul_precision": lambda precision: None,
        "get_default_dtype": lambda: tensors.FLOAT,
        "is_floating_point": lambda value: value.dtype.is_floating_point,
        "contiguous_format": "contiguous_format",
        "preserve_format": "preserve_format",
        "channels_last": "channels_last",
        "strided": "strided",
        "set_default_device": lambda where: tensors._default_devices.append(tensors.device(where)),
    }
    return found


def modules() -> dict[str, types.ModuleType]:
    """The fake torch tree, by full module name."""
    model = machine().model
    torch = types.ModuleType("torch")
    torch.__path__ = []
    for name, value in _functions().items():
        setattr(torch, name, value)
    torch.__version__ = model.torch_version
    torch.version = types.SimpleNamespace(
        cuda=model.cuda_version, hip=None, git_version="0" * 40, __version__=model.torch_version
    )
    torch.cuda = cuda.module()
    torch.profiler = profiler.module()
    torch.distributed = _distributed()
    torch.testing = types.ModuleType("torch.testing")
    torch.testing.assert_close = assert_close
    torch.autograd = types.ModuleType("torch.autograd")
    torch.autograd.DeviceType = profiler.DeviceType
    torch.autograd.profiler = types.SimpleNamespace(
        record_function=profiler.record_function,
        profile=profiler.profile,
        DeviceType=profiler.DeviceType,
    )
    torch.backends = types.SimpleNamespace(
        cudnn=types.SimpleNamespace(
            benchmark=False, version=lambda: 91300, is_available=lambda: True, allow_tf32=True
        ),
        cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False)),
    )
    torch._dynamo = types.SimpleNamespace(
        config=types.SimpleNamespace(cache_size_limit=8), reset=lambda: None
    )
    torch._C = types.SimpleNamespace(
        _cuda_getCurrentRawStream=lambda index: cuda.current_stream().cuda_stream
    )
    torch.autograd.profiler_util = types.SimpleNamespace(EventList=profiler.EventList)
    found = {
        "torch": torch,
        "torch.cuda": torch.cuda,
        "torch.cuda.nvtx": torch.cuda.nvtx,
        "torch.cuda.memory": torch.cuda.memory,
        "torch.profiler": torch.profiler,
        "torch.distributed": torch.distributed,
        "torch.testing": torch.testing,
        "torch.autograd": torch.autograd,
    } | neural.modules()
    if model.torch_release >= (2, 6):
        torch.accelerator = found["torch.accelerator"] = _accelerator()
    torch.nn, torch.optim, torch.utils = (
        found["torch.nn"],
        found["torch.optim"],
        found["torch.utils"],
    )
    torch.amp = types.SimpleNamespace(autocast=autocast, GradScaler=None)
    for module in found.values():
        if module.__name__.count(".") == 1 and not hasattr(module, "__path__"):
            module.__path__ = []
    return found

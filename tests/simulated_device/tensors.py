"""Simulated tensors: shapes, types and memory are real, contents are one representative value.

A tensor holds the single float that all its elements would have, and every operation applies
itself to that float: two ways of computing one result agree, a stale result differs from a fresh
one, and NaN poison spreads.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .active import machine
from .machine import Kernel


class dtype:  # noqa: N801 - torch's own spelling
    """Element type: name, bytes, floating or not."""

    def __init__(self, name: str, itemsize: int, is_floating_point: bool) -> None:
        self.name, self.itemsize, self.is_floating_point = name, itemsize, is_floating_point

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def is_complex(self) -> bool:
        return False


DTYPES = {
    name: dtype(name, size, floating)
    for name, size, floating in (
        ("float64", 8, True),
        ("float32", 4, True),
        ("bfloat16", 2, True),
        ("float16", 2, True),
        ("float8_e4m3fn", 1, True),
        ("float8_e5m2", 1, True),
        ("int64", 8, False),
        ("int32", 4, False),
        ("int16", 2, False),
        ("int8", 1, False),
        ("uint8", 1, False),
        ("bool", 1, False),
    )
}
FLOAT, LONG, BOOL = DTYPES["float32"], DTYPES["int64"], DTYPES["bool"]


class device:  # noqa: N801 - torch's own spelling
    """torch.device: type and index."""

    def __init__(self, kind: Any = "cpu", index: int | None = None) -> None:
        if isinstance(kind, device):
            kind, index = kind.type, kind.index
        elif isinstance(kind, int):
            kind, index = "cuda", kind
        elif ":" in str(kind):
            kind, _, number = str(kind).partition(":")
            index = int(number)
        if kind not in ("cpu", "cuda", "meta"):
            raise RuntimeError(
                f"Expected one of cpu, cuda, ... device type at start of device string: {kind}"
            )
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (
            f", index={self.index})" if self.index is not None else ")"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __enter__(self) -> device:
        _default_devices.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _default_devices.pop()


_default_devices: list[device] = []


def place(where: Any) -> device:
    """A device with its index filled in."""
    if where is None:
        found = _default_devices[-1] if _default_devices else device("cpu")
    else:
        found = device(where)
    if found.type == "cuda" and found.index is None:
        return device("cuda", machine().device)
    return found


class Size(tuple):
    """torch.Size"""

    __slots__ = ()

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


class Storage:
    """Memory of one or more tensors, and the representative value."""

    def __init__(self, nbytes: int, where: device) -> None:
        self._nbytes, self.device = nbytes, where
        self.value: float = 0.0
        self.version = 0
        self.buffer = -1
        self.owner = None
        if where.type == "cuda":
            if not machine().model.has_gpu:
                raise RuntimeError("No CUDA GPUs are available")
            try:
                self.buffer = machine().allocate(nbytes)
            except MemoryError:
                raise OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {nbytes / 2**30:.2f} GiB."
                ) from None
            self.owner = machine()
        else:
            machine().host(0.5)

    def __del__(self) -> None:
        if self.owner is not None:
            self.owner.free(self.buffer, self._nbytes)

    def nbytes(self) -> int:
        return self._nbytes

    size = nbytes

    def data_ptr(self) -> int:
        return (self.buffer + 1) << 32


class OutOfMemoryError(RuntimeError):
    """torch.cuda.OutOfMemoryError"""


_grad_modes: list[bool] = [True]


def grad_enabled() -> bool:
    return _grad_modes[-1]


class grad_mode:  # noqa: N801
    """no_grad, enable_grad, inference_mode: context manager and decorator."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __enter__(self) -> grad_mode:
        _grad_modes.append(self.enabled)
        return self

    def __exit__(self, *_: object) -> None:
        _grad_modes.pop()

    def __call__(self, function: Any = None) -> Any:
        if function is None:
            return self

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with grad_mode(self.enabled):
                return function(*args, **kwargs)

        return wrapped


class Tensor:
    """torch.Tensor with one representative value."""

    def __init__(self, shape: Sequence[int], kind: dtype, storage: Storage) -> None:
        self.shape = Size(int(n) for n in shape)
        self.dtype = kind
        self._storage = storage
        self.requires_grad = False
        self.grad: Tensor | None = None
        self.grad_fn: Any = None
        self._leaves: tuple[Tensor, ...] = ()
        self._forward_us: tuple[float, ...] = ()
        self._contiguous = True

    # --- facts ----------------------------------------------------------------------------------
    device = property(lambda self: self._storage.device)
    is_cuda = property(lambda self: self._storage.device.type == "cuda")
    is_leaf = property(lambda self: not self._leaves)
    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.numel() * self.dtype.itemsize)
    data = property(lambda self: self.detach())
    T = property(lambda self: self.t())
    mT = property(lambda self: self.transpose(-1, -2))  # noqa: N815
    value = property(lambda self: self._storage.value)
    _version = property(lambda self: self._storage.version)

    def numel(self) -> int:
        return math.prod(self.shape)

    nelement = numel

    def element_size(self) -> int:
        return self.dtype.itemsize

    def dim(self) -> int:
        return len(self.shape)

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis: int | None = None) -> Any:
        strides, step = [], 1
        for n in reversed(self.shape):
            strides.insert(0, step)
            step *= n
        return tuple(strides) if axis is None else strides[axis]

    def data_ptr(self) -> int:
        return self._storage.data_ptr()

    def untyped_storage(self) -> Storage:
        return self._storage

    storage = untyped_storage

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_contiguous(self, **_: Any) -> bool:
        return True

    def get_device(self) -> int:
        return self.device.index if self.is_cuda else -1

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        if self.is_cuda:
            machine().sync_device()
        return f"tensor({self.value:.4f} x {list(self.shape)}, {self.device}, {self.dtype})"

    def __hash__(self) -> int:
        return id(self)

    # --- views ----------------------------------------------------------------------------------
    def _view(self, shape: Sequence[int]) -> Tensor:
        machine().host(0.8)
        view = Tensor(shape, self.dtype, self._storage)
        view.requires_grad = self.requires_grad and grad_enabled()
        view._leaves, view._forward_us = (
            self._leaves or ((self,) if self.requires_grad else ()),
            self._forward_us,
        )
        return view

    def view(self, *shape: Any) -> Tensor:
        if len(shape) == 1 and isinstance(shape[0], dtype):
            view = self._view(self.shape)
            view.dtype = shape[0]
            return view
        return self._view(_resolve(shape, self.numel()))

    reshape = view

    def flatten(self, *_: Any) -> Tensor:
        return self._view((self.numel(),))

    def transpose(self, first: int, second: int) -> Tensor:
        shape = list(self.shape)
        shape[first], shape[second] = shape[second], shape[first]
        return self._view(shape)

    def t(self) -> Tensor:
        return self._view(tuple(reversed(self.shape)))

    def permute(self, *axes: Any) -> Tensor:
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return self._view([self.shape[a] for a in order])

    def unsqueeze(self, axis: int) -> Tensor:
        shape = list(self.shape)
        shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
        return self._view(shape)

    def squeeze(self, axis: int | None = None) -> Tensor:
        return self._view(
            [n for i, n in enumerate(self.shape) if n != 1 or (axis is not None and i != axis)]
        )

    def expand(self, *shape: Any) -> Tensor:
        return self._view(shape[0] if isinstance(shape[0], (tuple, list)) else shape)

    def contiguous(self, **_: Any) -> Tensor:
        return self

    def detach(self) -> Tensor:
        view = self._view(self.shape)
        view.requires_grad, view._leaves, view._forward_us = False, (), ()
        return view

    def requires_grad_(self, on: bool = True) -> Tensor:
        self.requires_grad = on
        return self

    def __getitem__(self, key: Any) -> Tensor:
        keys = key if isinstance(key, tuple) else (key,)
        shape: list[int] = []
        for n, one in zip(self.shape, keys, strict=False):
            if isinstance(one, slice):
                shape.append(len(range(*one.indices(n))))
            elif isinstance(one, Tensor):
                shape.extend(one.shape)
            elif one is Ellipsis:
                shape.append(n)
        return self._view(shape + list(self.shape[len(keys) :]))

    def __setitem__(self, key: Any, value: Any) -> None:
        part = self[key]
        part._inplace("copy", value.value if isinstance(value, Tensor) else float(value))

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))

    def chunk(self, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
        shape = list(self.shape)
        shape[axis] //= parts
        return tuple(self._view(shape) for _ in range(parts))

    def unbind(self, axis: int = 0) -> tuple[Tensor, ...]:
        return tuple(
            self._view(self.shape[:axis] + self.shape[axis + 1 :]) for _ in range(self.shape[axis])
        )

    # --- movement -------------------------------------------------------------------------------
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        where, kind = kwargs.get("device"), kwargs.get("dtype")
        for one in args:
            if isinstance(one, dtype):
                kind = one
            elif isinstance(one, Tensor):
                where, kind = one.device, one.dtype
            elif not isinstance(one, bool):
                where = one
        where = self.device if where is None else place(where)
        kind = kind or self.dtype
        if where == self.device and kind is self.dtype and not kwargs.get("copy"):
            return self
        if where == self.device:
            return elementwise("to", lambda v: _cast(v, kind), [self], kind)
        return self._move(where, kind, bool(kwargs.get("non_blocking")))

    def _move(self, where: Any, kind: dtype, non_blocking: bool) -> Tensor:
        moved = make(self.shape, kind, where)
        moved._storage.value = _cast(self.value, kind)
        _transfer(self, moved, non_blocking)
        moved.requires_grad = self.requires_grad
        return moved

    def cuda(self, index: Any = None, non_blocking: bool = False) -> Tensor:
        return self.to(
            device("cuda", index if isinstance(index, int) else None), non_blocking=non_blocking
        )

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def pin_memory(self) -> Tensor:
        self._pinned = True
        return self

    def is_pinned(self) -> bool:
        return getattr(self, "_pinned", False)

    def record_stream(self, _stream: Any) -> None:
        machine().host(0.5)

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        _read_back(self)
        if self.dtype is BOOL:
            return bool(self.value)
        return self.value if self.dtype.is_floating_point else int(self.value)

    def tolist(self) -> Any:
        _read_back(self)
        return _nest(self.shape, self.value if self.dtype.is_floating_point else int(self.value))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    # --- contents -------------------------------------------------------------------------------
    def _inplace(
        self, name: str, value: float, reads: Iterable[Tensor] = (), kind: str = "kernel"
    ) -> Tensor:
        launch(name, list(reads), self, kind=kind)
        self._storage.value = _cast(value, self.dtype)
        self._storage.version += 1
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Tensor:
        if isinstance(source, Tensor) and source.device != self.device:
            self._storage.value = _cast(source.value, self.dtype)
            self._storage.version += 1
            _transfer(source, self, non_blocking)
            return self
        return self._inplace("copy", source.value, [source], kind="memcpy")

    def zero_(self) -> Tensor:
        return self._inplace("Memset (Device)", 0.0, kind="memset")

    def fill_(self, value: Any) -> Tensor:
        return self._inplace("fill", float(value.value if isinstance(value, Tensor) else value))

    def normal_(self, mean: float = 0.0, std: float = 1.0, **_: Any) -> Tensor:
        return self._inplace("normal", machine().data_rng.gauss(mean, std))

    def uniform_(self, low: float = 0.0, high: float = 1.0, **_: Any) -> Tensor:
        return self._inplace("uniform", machine().data_rng.uniform(low, high))

    def random_(self, low: int = 0, high: int | None = None, **_: Any) -> Tensor:
        low, high = (0, low or 127) if high is None else (low, high)
        return self._inplace("random", machine().data_rng.randrange(low, high))

    def clone(self, **_: Any) -> Tensor:
        return elementwise("copy", lambda v: v, [self])

    def type(self, kind: dtype) -> Tensor:
        return self.to(kind)

    def float(self) -> Tensor:
        return self.to(FLOAT)

    def double(self) -> Tensor:
        return self.to(DTYPES["float64"])

    def half(self) -> Tensor:
        return self.to(DTYPES["float16"])

    def bfloat16(self) -> Tensor:
        return self.to(DTYPES["bfloat16"])

    def long(self) -> Tensor:
        return self.to(LONG)

    def int(self) -> Tensor:
        return self.to(DTYPES["int32"])

    def bool(self) -> Tensor:
        return self.to(BOOL)

    # --- reductions -----------------------------------------------------------------------------
    def sum(
        self, dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None, **_: Any
    ) -> Tensor:
        shape = _reduced(self.shape, dim, keepdim)
        share = self.numel() / max(1, math.prod(shape))
        kind = dtype or (self.dtype if self.dtype.is_floating_point else LONG)
        return reduction("sum", lambda v: v * share, self, shape, kind)

    def mean(self, dim: Any = None, keepdim: builtins.bool = False, **_: Any) -> Tensor:
        return reduction("mean", lambda v: v, self, _reduced(self.shape, dim, keepdim))

    def max(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        if isinstance(dim, Tensor):
            return elementwise("maximum", builtins.max, [self, dim])
        return reduction("max", lambda v: v, self, _reduced(self.shape, dim, keepdim))

    amax = min = amin = median = max

    def all(self, *_: Any) -> Tensor:
        return reduction("all", lambda v: float(v != 0), self, (), BOOL)

    any = all

    def norm(self, *_: Any, **__: Any) -> Tensor:
        count = self.numel()
        return reduction("norm", lambda v: abs(v) * math.sqrt(count), self, ())

    def argmax(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        return reduction("argmax", lambda v: 0.0, self, _reduced(self.shape, dim, keepdim), LONG)

    # --- autograd -------------------------------------------------------------------------------
    def backward(self, *_: Any, **__: Any) -> None:
        """Twice the forward time, one kernel per forward kernel; gradients add up."""
        host = machine()
        host.host(10.0)
        for us in self._forward_us or (1.0,):
            host.launch(Kernel("backward", 2 * us, 2 * us), host_us=5.0)
        for leaf in self._leaves:
            if leaf.grad is None:
                leaf.grad = make(leaf.shape, leaf.dtype, leaf.device)
            leaf.grad._storage.value += self.value

    def retain_grad(self) -> None:
        machine().host(0.5)


def _cast(value: float, kind: dtype) -> float:
    if kind is BOOL:
        return float(value != 0)
    if kind.is_floating_point or math.isnan(value) or math.isinf(value):
        return float(value)
    return float(int(value))


def _nest(shape: Sequence[int], value: Any) -> Any:
    if not shape:
        return value
    return [_nest(shape[1:], value) for _ in range(shape[0])]


def _resolve(shape: tuple[Any, ...], count: int) -> list[int]:
    sizes = (
        list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    )
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = count // max(1, known)
    if math.prod(sizes) != count:
        raise RuntimeError(f"shape '{sizes}' is invalid for input of size {count}")
    return sizes


def _reduced(shape: Sequence[int], axis: Any, keep: bool) -> tuple[int, ...]:
    if axis is None:
        return ()
    axes = {a % len(shape) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))}
    if keep:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def make(shape: Sequence[int], kind: dtype | None = None, where: Any = None) -> Tensor:
    """An uninitialised tensor."""
    kind = kind or FLOAT
    return Tensor(
        shape, kind, Storage(math.prod(int(n) for n in shape) * kind.itemsize, place(where))
    )


def launch(
    name: str,
    reads: list[Tensor],
    out: Tensor,
    flops: float = 0.0,
    kind: str = "kernel",
    writes: bool = True,
) -> float:
    """Enqueue one tensor kernel (CPU tensors: spend host time); its warm time."""
    host, model = machine(), machine().model
    sizes: dict[int, tuple[int, int, bool]] = {}
    for tensor in reads:
        sizes[tensor._storage.buffer] = (tensor._storage.buffer, tensor.nbytes, False)
    if writes:
        sizes[out._storage.buffer] = (out._storage.buffer, out.nbytes, True)
    total = sum(size for _, size, _ in sizes.values())
    devices = {tensor.device for tensor in [*reads, out] if tensor.shape or tensor.is_cuda}
    if len({d.type for d in devices}) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices"
        )
    if not out.is_cuda:
        host.host(2.0 + total / 2e4 + flops / 1e6)
        return 0.0
    compute = model.gemm_fixed_us + flops / model.flops_per_us if flops else 0.0
    warm = max(model.kernel_fixed_us + total / model.l2_bytes_per_us, compute)
    cold = max(model.cold_fixed_us + total / model.hbm_bytes_per_us, compute + 0.4)
    host.launch(Kernel(name, warm, cold, tuple(sizes.values()), kind), host_us=model.dispatch_us)
    return warm


def _track(out: Tensor, inputs: Sequence[Tensor], us: float) -> Tensor:
    if grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        out.requires_grad = True
        leaves: dict[int, Tensor] = {}
        for tensor in inputs:
            for leaf in tensor._leaves or ((tensor,) if tensor.requires_grad else ()):
                leaves[id(leaf)] = leaf
            out._forward_us += tensor._forward_us
        out._leaves = tuple(leaves.values())
        out._forward_us += (us,)
    return out


def _broadcast(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    result: list[int] = []
    for shape in shapes:
        padded = [1] * max(0, len(result) - len(shape)) + list(shape)
        result = [1] * max(0, len(padded) - len(result)) + result
        for i, (a, b) in enumerate(zip(result, padded, strict=True)):
            if a != b and 1 not in (a, b):
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) "
                    f"at non-singleton dimension {i}"
                )
            result[i] = a if b == 1 else b
    return tuple(result)


def elementwise(
    name: str,
    function: Callable[..., float],
    inputs: list[Any],
    kind: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """One elementwise kernel over tensors and numbers."""
    tensors = [one for one in inputs if isinstance(one, Tensor)]
    first = max(tensors, key=lambda t: (t.is_cuda, t.ndim))
    if out is None:
        shape = _broadcast(tensor.shape for tensor in tensors)
        out = make(shape, kind or first.dtype, first.device)
    us = launch(name, tensors, out)
    values = [one.value if isinstance(one, Tensor) else float(one) for one in inputs]
    try:
        value = float(function(*values))
    except (ZeroDivisionError, ValueError, OverflowError):
        value = math.nan
    if any(isinstance(v, float) and math.isnan(v) for v in values) and out.dtype is not BOOL:
        value = math.nan
    out._storage.value = _cast(value, out.dtype)
    out._storage.version += 1
    return _track(out, tensors, us)


def reduction(
    name: str,
    function: Callable[[float], float],
    tensor: Tensor,
    shape: Sequence[int],
    kind: dtype | None = None,
) -> Tensor:
    """One reduction kernel."""
    out = make(shape, kind or tensor.dtype, tensor.device)
    us = launch(name, [tensor], out)
    out._storage.value = _cast(function(tensor.value), out.dtype)
    return _track(out, [tensor], us)


def matmul(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Matrix product of the last two axes; the time follows FLOPs and bytes."""
    left, right = a.shape, b.shape
    if left[-1] != (right[-2] if len(right) > 1 else right[0]):
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({list(left)} and {list(right)})"
        )
    batch = _broadcast([left[:-2], right[:-2]])
    shape = (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    if out is None:
        out = make(shape, a.dtype, a.device)
    flops = 2.0 * math.prod(shape) * left[-1]
    scale = 8.0 if a.dtype is FLOAT else 1.0
    us = launch("gemm_kernel", [a, b], out, flops=flops * scale)
    out._storage.value = a.value * b.value * left[-1]
    out._storage.version += 1
    return _track(out, [a, b], us)


def _transfer(source: Tensor, target: Tensor, non_blocking: bool) -> None:
    """A copy across the bus; without pinned memory and non_blocking the host waits for it."""
    host, model = machine(), machine().model
    pinned = source.is_pinned() or target.is_pinned()
    if not (non_blocking and pinned):
        host.forbid_in_capture(
            "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU "
            "tensor is pinned. "
            "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."
        )
    us = 1.5 + source.nbytes / model.pcie_bytes_per_us
    way = "DtoH" if source.is_cuda else "HtoD"
    host.launch(
        Kernel(f"Memcpy {way}", us, us, (), "memcpy", fixed_time=True), host_us=model.dispatch_us
    )
    if not (non_blocking and (pinned or way == "HtoD")):
        host.sync_until(host.stream.tail_us)


def _read_back(tensor: Tensor) -> None:
    if tensor.is_cuda:
        host = machine()
        host.forbid_in_capture()
        host.launch(Kernel("Memcpy DtoH", 1.5, 1.5, (), "memcpy"), host_us=2.0)
        host.sync_until(host.stream.tail_us)
    else:
        machine().host(0.5)


def _close(a: float, b: float, rtol: float, atol: float, equal_nan: bool = False) -> bool:
    if math.isnan(a) or math.isnan(b):
        return equal_nan and math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= atol + rtol * abs(b)


def _sigmoid(v: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, v))))


UNARY: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "neg": operator.neg,
    "exp": lambda v: math.exp(min(v, 700.0)),
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda v: 1.0 / math.sqrt(v),
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda v: v if math.isnan(v) else max(0.0, v),
    "gelu": lambda v: 0.5 * v * (1.0 + math.erf(v / math.sqrt(2.0))),
    "silu": lambda v: v * _sigmoid(v),
    "square": lambda v: v * v,
    "reciprocal": lambda v: 1.0 / v,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "sign": lambda v: (v > 0) - (v < 0),
    "erf": math.erf,
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "maximum": max,
    "minimum": min,
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
PREDICATE: dict[str, Callable[[float], bool]] = {
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
}
OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "pow": "pow",
}
FREE_FUNCTIONS: dict[str, Any] = {}


def _define_unary(name: str, function: Callable[[float], float], kind: dtype | None = None) -> None:
    def free(tensor: Tensor, *_: Any, out: Tensor | None = None, **__: Any) -> Tensor:
        return elementwise(name, function, [tensor], kind, out)

    FREE_FUNCTIONS[name] = free
    setattr(Tensor, name, free)
    if kind is None:
        setattr(Tensor, name + "_", lambda tensor, *a, **k: free(tensor, out=tensor))


def _define_binary(name: str, function: Callable[..., Any], kind: dtype | None = None) -> None:
    def free(a: Any, b: Any, *, alpha: float = 1, out: Tensor | None = None, **_: Any) -> Tensor:
        if alpha != 1:
            return elementwise(name, lambda x, y: function(x, alpha * y), [a, b], kind, out)
        return elementwise(name, function, [a, b], kind, out)

    FREE_FUNCTIONS[name] = free
    setattr(Tensor, name, free)
    if kind is None:
        setattr(Tensor, name + "_", lambda a, b, **k: free(a, b, out=a, **k))
    if name in OPERATORS:
        python = OPERATORS[name]
        setattr(Tensor, f"__{python}__", lambda a, b: free(a, b))
        setattr(
            Tensor,
            f"__r{python}__",
            lambda a, b: elementwise(name, lambda x, y: function(y, x), [a, b]),
        )
        setattr(Tensor, f"__i{python}__", lambda a, b: free(a, b, out=a))
    if kind is BOOL:
        setattr(Tensor, f"__{name}__", lambda a, b: free(a, b))


for _name, _function in UNARY.items():
    _define_unary(_name, _function)
for _name, _function in PREDICATE.items():
    _define_unary(_name, _function, BOOL)
for _name, _function in BINARY.items():
    _define_binary(_name, _function)
for _name, _function in COMPARE.items():
    _define_binary(_name, _function, BOOL)
Tensor.__neg__ = lambda self: FREE_FUNCTIONS["neg"](self)  # type: ignore[attr-defined]
Tensor.__abs__ = lambda self: FREE_FUNCTIONS["abs"](self)  # type: ignore[attr-defined]
Tensor.__matmul__ = matmul  # type: ignore[attr-defined]
Tensor.matmul = Tensor.mm = Tensor.bmm = matmul  # type: ignore[attr-defined]


def softmax(tensor: Tensor, dim: int = -1, **_: Any) -> Tensor:
    count = tensor.shape[dim] if tensor.shape else 1
    return elementwise("softmax", lambda v: v if math.isnan(v) else 1.0 / count, [tensor])


Tensor.softmax = softmax  # type: ignore[attr-defined]
Tensor.clamp = lambda self, min=-math.inf, max=math.inf: elementwise(  # type: ignore[attr-defined]
    "clamp", lambda v: builtins.max(min, builtins.min(max, v)), [self]
)

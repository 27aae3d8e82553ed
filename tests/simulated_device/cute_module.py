"""Simulated CuTe DSL and cuda.bindings: compiling costs host time, kernels are launched by name."""

from __future__ import annotations

import types
from typing import Any

from . import cuda, tensors, user
from .active import machine

COMPILE_US = 200_000.0
JIT_CALL_US = 12_000.0
COMPILED_CALL_US = 9.0
TVM_FFI_CALL_US = 2.0


class CUstream:
    """cuda.bindings.driver.CUstream"""

    def __init__(self, handle: int = 0) -> None:
        self.handle = int(handle)

    def __int__(self) -> int:
        return self.handle

    getPtr = __int__  # noqa: N815


class CuteTensor:
    """What from_dlpack returns."""

    def __init__(self, tensor: tensors.Tensor) -> None:
        self.tensor, self.shape, self.element_type = tensor, tensor.shape, tensor.dtype

    def mark_layout_dynamic(self, *_: Any, **__: Any) -> CuteTensor:
        return self

    mark_compact_shape_dynamic = mark_layout_dynamic


class FakeStream:
    def __init__(self, use_tvm_ffi_env_stream: bool = False) -> None:
        self.follows_torch = use_tvm_ffi_env_stream


def _queue(args: tuple[Any, ...], kwargs: dict[str, Any], follows_torch: bool) -> Any:
    """Where a launch goes: the stream given, torch's current one, or the legacy default."""
    for one in (*args, *kwargs.values()):
        if isinstance(one, CUstream):
            return machine().streams[one.handle // 4096]
        if isinstance(one, cuda.Stream):
            return one._queue
    return machine().stream if follows_torch else machine().streams[0]


class Compiled:
    """The result of cute.compile."""

    def __init__(self, name: str, tvm_ffi: bool, follows_torch: bool) -> None:
        self.__name__, self.tvm_ffi, self.follows_torch = name, tvm_ffi, follows_torch

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        host_us = TVM_FFI_CALL_US if self.tvm_ffi else COMPILED_CALL_US
        user.launch_dsl(
            self.__name__, args, kwargs, _queue(args, kwargs, self.follows_torch), host_us
        )


class JitFunction:
    """What cute.jit returns: compiles or looks up on every call."""

    def __init__(self, function: Any) -> None:
        self.function = self.__wrapped__ = function
        self.__name__ = function.__name__
        self._seen = False

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        machine().host(JIT_CALL_US if self._seen else COMPILE_US)
        self._seen = True
        user.launch_dsl(self.__name__, args, kwargs, _queue(args, kwargs, False), 0.0)


class CuteKernel:
    """What cute.kernel returns; launched only from jit functions, which are never run."""

    def __init__(self, function: Any) -> None:
        self.__name__ = function.__name__


class Compiler:
    """cute.compile, also subscripted with options."""

    def __init__(self, tvm_ffi: bool = False) -> None:
        self.tvm_ffi = tvm_ffi

    def __getitem__(self, options: Any) -> Compiler:
        return Compiler("TVM" in str(options) or self.tvm_ffi)

    def __call__(self, function: Any, *args: Any, options: str = "", **kwargs: Any) -> Compiled:
        machine().forbid_in_capture()
        machine().host(COMPILE_US)
        tvm_ffi = self.tvm_ffi or "tvm-ffi" in options
        streams = [one for one in (*args, *kwargs.values()) if isinstance(one, FakeStream)]
        follows = tvm_ffi and any(one.follows_torch for one in streams)
        return Compiled(getattr(function, "__name__", "kernel"), tvm_ffi, follows)


class JitArguments:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def add_to_scope(self, kept: Any) -> None:
        self.kept = kept


def benchmark(
    callable: Any,
    *,
    warmup_iterations: int = 10,
    iterations: int = 100,
    stream: Any = None,
    kernel_arguments: Any = None,
    workspace_generator: Any = None,
    workspace_count: int = 1,
    use_cuda_graphs: bool = False,
    **_: Any,
) -> float:
    """cutlass.testing.benchmark: microseconds a call from one event pair around the loop."""
    arguments = (
        [workspace_generator() for _ in range(workspace_count)]
        if workspace_generator
        else [kernel_arguments]
    )

    def call(i: int) -> None:
        use = arguments[i % len(arguments)] or JitArguments()
        callable(*use.args, **use.kwargs)

    for i in range(warmup_iterations):
        call(i)
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    for i in range(iterations):
        call(i)
    end.record()
    cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / iterations


class _Anything(types.ModuleType):
    """A module whose unknown names are empty types, good enough for annotations."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(
            name,
            (),
            {
                "__init__": lambda self, *a, **k: None,
                "__class_getitem__": classmethod(lambda c, k: c),
            },
        )
        setattr(self, name, made)
        return made


def modules() -> dict[str, types.ModuleType]:
    """cutlass, cutlass.cute, cutlass.cute.runtime, cutlass.testing, cuda.bindings.driver."""
    cutlass, cute = _Anything("cutlass"), _Anything("cutlass.cute")
    cutlass.__version__ = machine().model.cute_version
    cutlass.__path__ = cute.__path__ = []
    runtime, testing = types.ModuleType("cutlass.cute.runtime"), types.ModuleType("cutlass.testing")
    runtime.from_dlpack = lambda tensor, **_: CuteTensor(tensor)
    runtime.make_fake_stream = FakeStream
    runtime.make_fake_compact_tensor = runtime.make_fake_tensor = lambda *a, **k: None
    cute.jit, cute.kernel, cute.compile = JitFunction, CuteKernel, Compiler()
    cute.runtime, cute.testing = runtime, testing
    cute.sym_int = lambda *a, **k: 0
    testing.benchmark, testing.JitArguments = benchmark, JitArguments
    cutlass.cute = cute
    found = {"cutlass": cutlass, "cutlass.cute": cute, "cutlass.cute.runtime": runtime}
    release = tuple(int(part) for part in machine().model.cute_version.split(".")[:2])
    found["cutlass.cute.testing"] = testing
    if release >= (4, 6):
        cutlass.testing = found["cutlass.testing"] = testing
    cuda_package, bindings, driver = (
        types.ModuleType(name) for name in ("cuda", "cuda.bindings", "cuda.bindings.driver")
    )
    cuda_package.__path__ = bindings.__path__ = []
    driver.CUstream = CUstream
    cuda_package.bindings, bindings.driver = bindings, driver
    return found | {"cuda": cuda_package, "cuda.bindings": bindings, "cuda.bindings.driver": driver}

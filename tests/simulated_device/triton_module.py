"""Simulated Triton: kernels are launched by name and never run."""

from __future__ import annotations

import statistics
import types
from typing import Any

from . import cuda, tensors, user
from .active import machine

COMPILE_US = 300_000.0
LAUNCHER_US = 9.0


class JITFunction:
    """What triton.jit returns."""

    def __init__(self, function: Any) -> None:
        self.fn, self.__name__ = function, function.__name__
        self.arg_names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
        self._compiled: set[Any] = set()

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def __call__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        kwargs = {
            k: v for k, v in kwargs.items() if k not in ("num_warps", "num_stages", "num_ctas")
        }
        if callable(grid):
            grid(dict(zip(self.arg_names, args, strict=False)) | kwargs)
        key = (
            *[getattr(a, "dtype", type(a)) for a in args],
            *sorted((k, str(v)) for k, v in kwargs.items()),
        )
        if key not in self._compiled:
            self._compiled.add(key)
            machine().host(COMPILE_US)
        user.launch_dsl(self.__name__, args, kwargs, None, LAUNCHER_US)


class Config:
    def __init__(
        self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, **_: Any
    ) -> None:
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages

    def __repr__(self) -> str:
        return f"{self.kwargs}, num_warps: {self.num_warps}, num_stages: {self.num_stages}"


class Autotuner:
    """Tries every configuration on the first call with a key, and waits for each."""

    def __init__(self, function: JITFunction, configs: list[Config], key: list[str]) -> None:
        self.fn, self.configs, self.keys = function, configs, key
        self.__name__ = function.__name__
        self.cache: dict[Any, Config] = {}
        self.best_config: Config | None = None

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        named = dict(zip(self.fn.arg_names, args, strict=False)) | kwargs
        key = tuple(str(named.get(name)) for name in self.keys)
        if key not in self.cache:
            for config in self.configs:
                do_bench(
                    lambda c=config: self.fn.run(*args, grid=grid, **kwargs, **c.kwargs),
                    warmup=2,
                    rep=5,
                )
            self.cache[key] = self.configs[0]
        self.best_config = self.cache[key]
        self.fn.run(*args, grid=grid, **kwargs, **self.best_config.kwargs)


def autotune(configs: list[Config], key: list[str], **_: Any) -> Any:
    return lambda function: Autotuner(function, configs, key)


def jit(function: Any = None, **_: Any) -> Any:
    return JITFunction(function) if function is not None else JITFunction


def _summary(times: list[float], quantiles: Any, return_mode: str) -> Any:
    if quantiles is not None:
        ordered = sorted(times)
        picked = [ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in quantiles]
        return picked[0] if len(picked) == 1 else picked
    if return_mode == "all":
        return times
    return {"mean": statistics.mean, "median": statistics.median, "min": min, "max": max}[
        return_mode
    ](times)


def _timed(function: Any) -> float:
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    function()
    end.record()
    cuda.synchronize()
    return start.elapsed_time(end)


def do_bench(
    fn: Any,
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Any = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds of fn: an event pair a call, a 256 MiB clear in front; warmup and rep in ms."""
    fn()
    cuda.synchronize()
    cache = tensors.make((64 << 20,), tensors.DTYPES["int32"], "cuda")

    def five() -> None:
        for _ in range(5):
            cache.zero_()
            fn()

    estimate = max(_timed(five) / 5, 1e-4)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    count = max(1, int(rep / estimate))
    pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(count)]
    for start, end in pairs:
        for tensor in grad_to_none or ():
            tensor.grad = None
        cache.zero_()
        start.record()
        fn()
        end.record()
    cuda.synchronize()
    return _summary([s.elapsed_time(e) for s, e in pairs], quantiles, return_mode)


def do_bench_cudagraph(
    fn: Any,
    rep: float = 20,
    grad_to_none: Any = None,
    quantiles: Any = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds of fn: means of ten replays of one graph of unrolled calls, warm cache."""
    with cuda.stream(cuda.Stream()):
        fn()
        cuda.synchronize()
        estimate = max(_timed(lambda: [fn() for _ in range(5)]) / 5, 1e-4)
        calls = max(1, min(2000, int(rep / estimate)))
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for _ in range(calls):
                fn()
        cuda.synchronize()
        times = [_timed(graph.replay) / calls for _ in range(10)]
    return _summary(times, quantiles, return_mode)


class _Language(types.ModuleType):
    """triton.language: every name exists, none does anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


def modules() -> dict[str, types.ModuleType]:
    """triton, triton.language, triton.testing, triton.runtime."""
    triton = types.ModuleType("triton")
    triton.__path__ = []
    triton.__version__ = machine().model.triton_version
    triton.jit, triton.autotune, triton.Config = jit, autotune, Config
    triton.heuristics = lambda values: lambda function: function
    triton.cdiv = lambda a, b: -(-a // b)
    triton.next_power_of_2 = lambda n: 1 << (n - 1).bit_length()
    triton.JITFunction = JITFunction
    testing, language = types.ModuleType("triton.testing"), _Language("triton.language")
    testing.do_bench, testing.do_bench_cudagraph = do_bench, do_bench_cudagraph
    runtime = types.ModuleType("triton.runtime")
    runtime.JITFunction, runtime.Autotuner = JITFunction, Autotuner
    runtime.autotuner = types.SimpleNamespace(Autotuner=Autotuner)
    runtime.driver = types.SimpleNamespace(
        active=types.SimpleNamespace(
            get_empty_cache_for_benchmark=lambda: tensors.make(
                (64 << 20,), tensors.DTYPES["int32"], "cuda"
            ),
            clear_cache=lambda cache: cache.zero_(),
            get_current_device=lambda: machine().device,
        )
    )
    triton.testing, triton.language, triton.runtime = testing, language, runtime
    return {
        "triton": triton,
        "triton.testing": testing,
        "triton.language": language,
        "triton.runtime": runtime,
    }

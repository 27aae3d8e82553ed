"""The `simulated` module: operations of known time, for the set-up code of scripts under test."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from . import tensors
from .active import machine
from .cuda import Stream
from .machine import Kernel, Mark


class Op:
    """A callable of known device time.

    warm_us, cold_us: GPU busy time of one call at boost clock, gaps between kernels excluded.
    """

    def __init__(
        self,
        name: str,
        us: float,
        *,
        cold_us: float | None = None,
        bytes: int = 1 << 20,
        count: int = 1,
        host_us: float = 0.0,
        stream: str | None = None,
        join: str = "both",
        sync: bool = False,
        working_calls: int | None = None,
        persisting: bool = False,
        inputs: Sequence[Any] = (),
        allocates: bool = False,
        memory_bound: bool = True,
    ) -> None:
        self.name, self.host_us, self.sync, self.join = name, host_us, sync, join
        self.working_calls, self.inputs, self.allocates = working_calls, tuple(inputs), allocates
        self.calls = 0
        cold = us * (1.25 if bytes else 1.0) if cold_us is None else cold_us
        self.warm_us, self.cold_us = us * count, cold * count
        self.kernels = []
        for i in range(count):
            machine().next_buffer += 1
            access = ((machine().next_buffer, max(1, bytes // count), True),) if bytes else ()
            label = name if count == 1 else f"{name}_{i}"
            self.kernels.append(Kernel(label, us, cold, access, persisting=persisting))
        self.side = Stream() if stream else None
        self.output: Any = None
        machine().ops[name] = self

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        host = machine()
        if self.allocates:
            host.forbid_in_capture()
        if self.working_calls is not None and self.calls > self.working_calls:
            host.host(self.host_us)
            return self.output
        queue = self.side._queue if self.side else host.stream
        if self.side and self.join in ("both", "fork"):
            self._order(host.stream, queue)
        for i, kernel in enumerate(self.kernels):
            host.launch(kernel, queue, host_us=self.host_us if i == 0 else 0.0)
        if not self.kernels:
            host.host(self.host_us)
        if self.side and self.join == "both":
            self._order(queue, host.stream)
        if self.sync:
            host.sync_device()
        return self._result(args)

    @staticmethod
    def _order(first: Any, second: Any) -> None:
        mark = Mark()
        machine().record(mark, first)
        machine().wait(mark, second)

    def _result(self, args: tuple[Any, ...]) -> Any:
        sources = [one for one in (*self.inputs, *args) if isinstance(one, tensors.Tensor)]
        if not sources:
            return None
        if self.output is None:
            self.output = tensors.make(sources[0].shape, sources[0].dtype, sources[0].device)
        self.output._storage.value = 2.0 * sum(one.value for one in sources)
        return self.output


def kernel(name: str, us: float, **options: Any) -> Op:
    """An operation of `count` kernels of `us` microseconds each; see Op for the options."""
    return Op(name, us, **options)


def nothing(name: str = "nothing") -> Op:
    """An operation without any device work."""
    return Op(name, 0.0, count=0)


def semantics(
    name: str, us: float | None = None, apply: Callable[..., None] | None = None, **facts: Any
) -> None:
    """What a DSL kernel does: its time (None: from its tensors' bytes), its effect on values."""
    machine().dsl[name] = {"us": us, "apply": apply} | facts


def write(tensor: Any, value: float) -> None:
    """Set the representative value, as a kernel would."""
    tensor._storage.value = float(value)
    tensor._storage.version += 1


def launch_dsl(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], queue: Any, host_us: float
) -> None:
    """Launch a kernel that was written in Triton or CuTe DSL."""
    host, model = machine(), machine().model
    facts = {**model.kernels.get(name, {}), **host.dsl.get(name, {})}
    held = [getattr(one, "tensor", one) for one in (*args, *kwargs.values())]
    touched = {t._storage.buffer: t for t in held if isinstance(t, tensors.Tensor)}
    last = list(touched)[-1] if touched else None
    accesses = tuple((b, t.nbytes, b == last) for b, t in touched.items())
    total = sum(size for _, size, _ in accesses)
    us = facts.get("us")
    warm = model.kernel_fixed_us + total / model.l2_bytes_per_us if us is None else us
    cold = (
        model.cold_fixed_us + total / model.hbm_bytes_per_us
        if us is None
        else facts.get("cold_us", us * 1.25)
    )
    host.launch(Kernel(name, warm, cold, accesses), queue, host_us=host_us)
    if facts.get("apply"):
        facts["apply"](*[getattr(one, "tensor", one) for one in args], **kwargs)
    elif last is not None:
        others = [t.value for b, t in touched.items() if b != last]
        write(touched[last], sum(others))


def module() -> types.ModuleType:
    """A fresh `simulated`."""
    built = types.ModuleType("simulated")
    built.kernel, built.nothing, built.semantics, built.write = kernel, nothing, semantics, write
    built.machine = machine
    return built

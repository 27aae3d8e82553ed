"""Simulated pynvml, and the same library as ctypes would open it."""

from __future__ import annotations

import ctypes
import types
from typing import Any

from . import cuda
from .active import machine

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND = 0, 2, 3, 13


class NVMLError(Exception):
    """pynvml.NVMLError"""

    def __init__(self, value: int = 999) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Handle:
    """A device handle, also usable as an opaque pointer."""


def _spent() -> None:
    machine().host(machine().model.nvml_call_us)


def _clock(kind: int) -> int:
    _spent()
    return int(machine().model.memory_mhz if kind == NVML_CLOCK_MEM else machine().visible_mhz())


def _max_clock(kind: int) -> int:
    _spent()
    return int(machine().model.memory_mhz if kind == NVML_CLOCK_MEM else machine().model.boost_mhz)


def _reasons() -> int:
    _spent()
    return machine().event_reasons()


def _power_mw() -> int:
    _spent()
    busy = machine().now < machine().last_busy_end + 1e4
    return 690_000 if machine().event_reasons() & 4 else 350_000 if busy else 75_000


def _temperature() -> int:
    _spent()
    return 88 if machine().event_reasons() & 0x20 else 45


def module() -> types.ModuleType:
    """A fresh pynvml."""
    built = types.ModuleType("pynvml")
    built.NVMLError = NVMLError
    for suffix in ("NotSupported", "FunctionNotFound", "LibraryNotFound", "NotFound"):
        setattr(built, f"NVMLError_{suffix}", type(f"NVMLError_{suffix}", (NVMLError,), {}))
    built.NVML_CLOCK_GRAPHICS, built.NVML_CLOCK_SM, built.NVML_CLOCK_MEM = (
        0,
        NVML_CLOCK_SM,
        NVML_CLOCK_MEM,
    )
    built.NVML_TEMPERATURE_GPU = NVML_TEMPERATURE_GPU
    for name, bit in (
        ("SwPowerCap", 0x4),
        ("HwSlowdown", 0x8),
        ("SwThermalSlowdown", 0x20),
        ("HwThermalSlowdown", 0x40),
    ):
        setattr(built, f"nvmlClocksEventReason{name}", bit)
        setattr(built, f"nvmlClocksThrottleReason{name}", bit)

    def handle(*_: Any) -> Handle:
        _spent()
        if not machine().model.has_gpu:
            raise NVMLError(6)
        return Handle()

    built.nvmlInit = built.nvmlInit_v2 = built.nvmlShutdown = lambda *_: _spent()
    built.nvmlDeviceGetHandleByIndex = built.nvmlDeviceGetHandleByUUID = handle
    built.nvmlDeviceGetHandleByPciBusId = handle
    built.nvmlDeviceGetCount = lambda: machine().model.device_count
    built.nvmlDeviceGetName = lambda h: machine().model.name
    built.nvmlDeviceGetUUID = lambda h: f"GPU-{cuda.UUID}"
    built.nvmlSystemGetDriverVersion = lambda: machine().model.driver_version
    built.nvmlDeviceGetClockInfo = lambda h, kind: _clock(kind)
    built.nvmlDeviceGetMaxClockInfo = lambda h, kind: _max_clock(kind)
    built.nvmlDeviceGetCurrentClocksEventReasons = lambda h: _reasons()
    built.nvmlDeviceGetCurrentClocksThrottleReasons = lambda h: _reasons()
    built.nvmlDeviceGetTemperature = lambda h, kind: _temperature()
    built.nvmlDeviceGetTemperatureV = lambda h, kind: _temperature()
    built.nvmlDeviceGetMemoryBusWidth = lambda h: 6144
    built.nvmlDeviceGetPowerUsage = lambda h: _power_mw()
    built.nvmlDeviceGetEnforcedPowerLimit = lambda h: 700_000
    built.nvmlDeviceGetUtilizationRates = lambda h: types.SimpleNamespace(gpu=100, memory=50)
    return built


class SharedLibrary:
    """libnvidia-ml.so.1 as ctypes.CDLL gives it: C functions that write through pointers."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(self, f"_{name}", None) if not name.startswith("_") else None
        if function is None:
            raise AttributeError(f"undefined symbol: {name}")

        class Symbol:
            """A function object that takes argtypes and restype."""

            argtypes: Any = None
            restype: Any = None

            def __call__(self, *args: Any) -> int:
                return function(*args)

        symbol = Symbol()
        self.__dict__[name] = symbol
        return symbol

    @staticmethod
    def _store(pointer: Any, value: Any) -> int:
        target = getattr(pointer, "_obj", None)
        (target if target is not None else pointer.contents).value = value
        return SUCCESS

    def _nvmlInit_v2(self) -> int:  # noqa: N802
        _spent()
        return SUCCESS

    _nvmlInit = _nvmlShutdown = _nvmlInit_v2  # noqa: N815

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, out: Any) -> int:  # noqa: N802
        _spent()
        text = getattr(uuid, "value", uuid)
        if cuda.UUID not in (text.decode() if isinstance(text, bytes) else str(text)):
            return INVALID_ARGUMENT
        return self._store(out, 1)

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> int:  # noqa: N802
        _spent()
        return self._store(out, 1)

    _nvmlDeviceGetHandleByIndex = _nvmlDeviceGetHandleByIndex_v2  # noqa: N815
    _nvmlDeviceGetHandleByPciBusId_v2 = _nvmlDeviceGetHandleByIndex_v2  # noqa: N815

    def _nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, out: Any) -> int:  # noqa: N802
        return self._store(out, _clock(getattr(kind, "value", kind)))

    def _nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: Any, out: Any) -> int:  # noqa: N802
        return self._store(out, _max_clock(getattr(kind, "value", kind)))

    def _nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, out: Any) -> int:  # noqa: N802
        return self._store(out, _reasons())

    _nvmlDeviceGetCurrentClocksThrottleReasons = _nvmlDeviceGetCurrentClocksEventReasons  # noqa: N815

    def _nvmlDeviceGetTemperature(self, handle: Any, kind: Any, out: Any) -> int:  # noqa: N802
        return self._store(out, _temperature())

    def _nvmlDeviceGetPowerUsage(self, handle: Any, out: Any) -> int:  # noqa: N802
        return self._store(out, _power_mw())

    def _nvmlSystemGetDriverVersion(self, buffer: Any, length: Any) -> int:  # noqa: N802
        buffer.value = machine().model.driver_version.encode()
        return SUCCESS


class Driver:
    """libcuda.so.1 as ctypes.CDLL gives it."""

    def cuCtxResetPersistingL2Cache(self) -> int:  # noqa: N802
        machine().reset_persisting_l2()
        return SUCCESS


def opener(real: Any) -> Any:
    """ctypes.CDLL that hands out the simulated NVML and driver; other libraries are real."""

    def open_library(name: Any, *args: Any, **kwargs: Any) -> Any:
        if "nvidia-ml" in str(name):
            if not machine().model.has_nvml:
                raise OSError(
                    "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
                )
            return SharedLibrary()
        if "libcuda.so" in str(name):
            return Driver()
        return real(name, *args, **kwargs)

    return open_library


REAL_CDLL = ctypes.CDLL

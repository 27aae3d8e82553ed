"""Runs one script as __main__ against the simulated machine, inside this process."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import io
import json
import linecache
import multiprocessing.util
import os
import pathlib
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import active, cute_module, host_time, nvml, tensors, torch_module, triton_module, user
from .machine import Machine, RunLimit
from .model import DeviceModel

REPLACED = (
    "torch",
    "triton",
    "cutlass",
    "pynvml",
    "time",
    "cuda",
    "simulated",
    "atexit",
    "__main__",
)
EXIT_LIMIT = 124


@dataclass
class Result:
    """What a run left: its output, its exit status, the JSON record it wrote, and the machine."""

    stdout: str
    stderr: str
    exit_code: int
    record: dict[str, Any] | None
    machine: Machine
    files: dict[str, str]
    error: BaseException | None = None

    @property
    def flags(self) -> list[str]:
        """The codes of the record's flags."""
        return [flag["code"] for flag in (self.record or {}).get("flags", [])]

    def __str__(self) -> str:
        return f"exit {self.exit_code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def _belongs(name: str) -> bool:
    return name.split(".")[0] in REPLACED


def _fakes(machine: Machine) -> dict[str, types.ModuleType | None]:
    model = machine.model
    found: dict[str, types.ModuleType | None] = dict(torch_module.modules())
    found |= triton_module.modules() if model.has_triton else {"triton": None}
    found |= cute_module.modules() if model.has_cutlass else {"cutlass": None, "cuda": None}
    found["pynvml"] = nvml.module() if model.has_nvml else None
    found["time"], found["simulated"] = host_time.module(), user.module()
    found["atexit"] = _exit_module()
    return found


def _exit_module() -> types.ModuleType:
    """An atexit whose functions run when the script ends, not when this process does."""
    built = types.ModuleType("atexit")
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def register(function: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append((function, args, kwargs))
        return function

    def run() -> None:
        while calls:
            function, args, kwargs = calls.pop()
            function(*args, **kwargs)

    built.register, built.run = register, run  # type: ignore[attr-defined]
    built.unregister = lambda function: calls.__setitem__(  # type: ignore[attr-defined]
        slice(None), [call for call in calls if call[0] != function]
    )
    return built


@contextlib.contextmanager
def _installed(machine: Machine) -> Iterator[None]:
    """The fakes in sys.modules; everything that the script may have changed is put back."""
    saved = {name: module for name, module in sys.modules.items() if _belongs(name)}
    environment, argv, where = dict(os.environ), sys.argv, pathlib.Path.cwd()
    collecting, path, blocking = gc.isenabled(), list(sys.path), sys.dont_write_bytecode
    hook, finalizers = sys.excepthook, dict(multiprocessing.util._finalizer_registry)
    grads, devices = list(tensors._grad_modes), list(tensors._default_devices)
    active.push(machine)
    gc.freeze()  # the script's own collections would go through everything that the tests hold
    try:
        for name in saved:
            del sys.modules[name]
        sys.modules.update(_fakes(machine))  # type: ignore[arg-type]
        ctypes.CDLL = nvml.opener(nvml.REAL_CDLL)  # type: ignore[assignment,misc]
        yield
    finally:
        ctypes.CDLL = nvml.REAL_CDLL  # type: ignore[misc]
        for name in [name for name in sys.modules if _belongs(name)]:
            del sys.modules[name]
        sys.modules.update(saved)
        active.pop()
        gc.unfreeze()
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(where)
        sys.excepthook = hook
        multiprocessing.util._finalizer_registry.clear()
        multiprocessing.util._finalizer_registry.update(finalizers)
        sys.argv, sys.path[:], sys.dont_write_bytecode = argv, path, blocking
        tensors._grad_modes[:], tensors._default_devices[:] = grads, devices
        (gc.enable if collecting else gc.disable)()


def run_script(
    source: str,
    device: DeviceModel | None = None,
    argv: Sequence[str] = (),
    *,
    files: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Result:
    """Execute `source` as __main__ in an empty folder holding `files`, and collect what it leaves.

    The record is the one JSON object with a "schema" key that the script wrote, or None.
    """
    machine = Machine(device or DeviceModel())
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, _installed(machine):
        os.chdir(folder)
        for name, text in (files or {}).items():
            pathlib.Path(name).write_text(text)
            pathlib.Path(name).chmod(0o755)  # the folder is the PATH: a file can be a program
        # Programs such as nvidia-smi would tell of this machine's device.
        os.environ.update({"PATH": folder, **(environ or {})})
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if machine.model.prepare is not None:
                machine.model.prepare(machine)
            code, error = _execute(source, [str(pathlib.Path(folder, "script.py")), *argv])
            code, error = _run_exit_functions(code, error)
        written = {
            str(path.relative_to(folder)): path.read_text(errors="replace")
            for path in pathlib.Path(folder).rglob("*")
            if path.is_file() and path.stat().st_size < 50_000_000
        }
    return Result(out.getvalue(), err.getvalue(), code, _record(written), machine, written, error)


def _run_exit_functions(code: int, error: BaseException | None) -> tuple[int, BaseException | None]:
    """As the interpreter does after the script; their errors are printed and change no status."""
    try:
        sys.modules["atexit"].run()  # type: ignore[attr-defined]
    except RunLimit as limit:
        return EXIT_LIMIT, limit
    except Exception:
        traceback.print_exc(file=sys.stderr)
    return code, error


def _show_warning(message: Any, category: Any, filename: str, line: int, *_: Any) -> None:
    print(f"{filename}:{line}: {category.__name__}: {message}", file=sys.stderr)


def _execute(source: str, argv: list[str]) -> tuple[int, BaseException | None]:
    """(exit status, the exception that ended the script)"""
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = argv[0], builtins  # type: ignore[attr-defined]
    sys.modules["__main__"], sys.argv = main, argv
    sys.path.insert(0, str(pathlib.Path(argv[0]).parent))
    linecache.cache[argv[0]] = (len(source), None, source.splitlines(keepends=True), argv[0])
    before = set(threading.enumerate())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning
            exec(compile(source, argv[0], "exec"), main.__dict__)
        return 0, None
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0, stop
        print(stop.code, file=sys.stderr)
        return 1, stop
    except RunLimit as limit:
        traceback.print_exc(file=sys.stderr)
        return EXIT_LIMIT, limit
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return 1, error
    finally:
        for thread in set(threading.enumerate()) - before:
            thread.join(timeout=1.0)
        linecache.cache.pop(argv[0], None)


def _record(written: Mapping[str, str]) -> dict[str, Any] | None:
    for name, text in written.items():
        if name.endswith(".json"):
            with contextlib.suppress(ValueError):
                value = json.loads(text)
                if isinstance(value, dict) and "schema" in value:
                    return value
    return None

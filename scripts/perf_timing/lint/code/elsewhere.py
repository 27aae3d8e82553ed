"""What a function of another file does, read from that file when a finding hangs on it.

A rule that is about to report asks whether the callee, imported by name from a module that lies on
disk beside the linted file or above it, waits for the device. Only the text of that function, and
of the functions of its own module that it calls, is looked at. What is found depends on the files
on disk, not on which of them are linted, nor on their order; nothing is found for standard input.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from perf_timing.lint.files import consulted
from perf_timing.lint.files.nearby import folders_above

_DEEPEST = 3
_ABOVE = 6
_WAITS = re.compile(
    r"synchronize\(|\.(item|cpu|tolist|numpy|asnumpy|block_until_ready)\(\s*\)|\.to\(\s*[\"']cpu"
    r"|\b(device_get|asnumpy|to_python_float)\(|np\.(array|asarray)\(|assert_(all)?close\("
    r"|\.barrier\(|\bfloat\(\s*\w*loss|(^|\W)print\([^\n]*\.item|\.images\b|batch_decode\("
    # How many members there are is known on the host only when the device has counted them.
    r"|(\bnonzero|\.unique|masked_select)\(|=\s*[\w.]+\[\w*mask\]"
)
_SOURCES = ("*.cu", "*.cpp", "*.cc", "*.cxx", "*.hip")
_MOST_SOURCES = 40
_CPP_WAITS = re.compile(r"(Device|Stream|Event)_?[sS]ynchronize\s*\(|\.item\s*[<(]")
_DEVICE = re.compile(r"torch|cuda|cupy|\bjax\b|triton|tensorrt|cutlass|\bmlx\b|numba")


def waits(path: str, full_name: str) -> bool:
    """Whether the function `full_name`, imported by the file `path`, ends work before it returns.

    That is a function whose text holds a wait or a blocking read, or one of a module that does not
    mention a device at all; where no module is found, a function of an extension in C++ whose
    source lies beside the file and that waits.
    """
    found = _function(path, full_name)
    if found is None:
        return _extension_waits(path, full_name)
    module, name = found
    if not _DEVICE.search(module):
        return True
    return any(_WAITS.search(body) for body in _bodies(module, name, 0))


def _extension_waits(path: str, full_name: str) -> bool:
    """Whether a C++ source beside the file `path` binds the function and has a wait in it."""
    _, dot, name = full_name.rpartition(".")
    return bool(dot) and any(_binds_wait(text, name) for text in _sources(Path(path).parent))


def _binds_wait(text: str, name: str) -> bool:
    bound = re.search(rf"\.def\(\s*\"{re.escape(name)}\"\s*,\s*&?\s*(?:\w+::)*(\w+)", text)
    if bound is None:
        return False
    body = re.search(
        rf"^[\w:<>&*, ]+\b{bound[1]}\s*\([^;{{}}]*\)\s*\{{.*?^\}}", text, re.MULTILINE | re.DOTALL
    )
    return body is not None and _CPP_WAITS.search(body[0]) is not None


def _sources(folder: Path) -> Iterator[str]:
    """The C++ sources of a folder."""
    for pattern in _SOURCES:
        consulted.names(folder, pattern)
        try:
            files = sorted(folder.glob(pattern))
        except OSError:
            continue
        for file in files[:_MOST_SOURCES]:
            yield _text(file)


def _function(path: str, full_name: str) -> tuple[str, str] | None:
    """The text of the module that defines a function, and the function's name in it."""
    module, _, name = full_name.rpartition(".")
    if not module.strip(".") and not module.startswith("."):
        return None
    defines = re.compile(rf"^(async )?def {re.escape(name)}\(", re.MULTILINE)
    for place in _places(path, module):
        text = _text(place)
        for _ in range(2):
            if text and defines.search(text):
                return text, name
            for star in re.findall(r"^from \.(\w+) import \*", text, re.MULTILINE):
                behind = _text(place.parent / f"{star}.py")
                if defines.search(behind):
                    return behind, name
            # A package that imports the function from one of its modules.
            again = re.search(
                rf"^from \.(\w+) import (?:[^\n(]*|\([^)]*)\b{re.escape(name)}\b",
                text or "",
                re.MULTILINE,
            )
            if again is None:
                break
            text = _text(place.parent / f"{again[1]}.py")
    return None


def _places(path: str, module: str) -> Iterator[Path]:
    """Where the file of `module` may lie, seen from the file `path`."""
    dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.split(".") if part]
    relative = Path(path).absolute().parents[dots - 1 : dots]
    for base in relative if dots else folders_above(path, _ABOVE):
        place = base.joinpath(*parts)
        yield place.with_name(f"{place.name}.py")
        yield place / "__init__.py"


def _text(path: Path) -> str:
    """The text of a module, or "" where there is none to read."""
    return consulted.text(path, consulted.content(path))


def _bodies(module: str, name: str, depth: int) -> Iterator[str]:
    """The text of a function of a module, and of those of the module that it calls."""
    found = re.search(
        rf"^(async )?def {re.escape(name)}\(.*?(?=^[^\s#)]|\Z)", module, re.MULTILINE | re.DOTALL
    )
    if found is None:
        return
    yield found[0]
    if depth < _DEEPEST:
        for called in sorted(set(re.findall(r"(?<![\w.])([A-Za-z_]\w*)\(", found[0])) - {name}):
            yield from _bodies(module, called, depth + 1)

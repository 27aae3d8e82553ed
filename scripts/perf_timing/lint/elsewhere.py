"""What a function of another file does, read from that file when a finding hangs on it.

A rule that is about to report asks whether the callee, imported by name from a module that lies on
disk beside the linted file or above it, waits for the device. Only the text of that function, and
of the functions of its own module that it calls, is looked at. What is found depends on the files
on disk, not on which of them are linted, nor on their order; nothing is found for standard input.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from perf_timing.lint import consulted
from perf_timing.lint.nearby import folders_above

_MOST_BYTES = 400_000
_DEEPEST = 3
_ABOVE = 6
_WAITS = re.compile(
    r"synchronize\(|\.(item|cpu|tolist|numpy|asnumpy|block_until_ready)\(\s*\)|\.to\(\s*[\"']cpu"
    r"|\b(device_get|asnumpy|to_python_float)\(|np\.(array|asarray)\(|assert_(all)?close\("
    r"|\.barrier\(|\bfloat\(\s*\w*loss|(^|\W)print\([^\n]*\.item|\.images\b|batch_decode\("
)
_DEVICE = re.compile(r"torch|cuda|cupy|\bjax\b|triton|tensorrt|cutlass|\bmlx\b|numba")


def waits(path: str, full_name: str) -> bool:
    """Whether the function `full_name`, imported by the file `path`, ends work before it returns.

    That is a function whose text holds a wait or a blocking read, or one of a module that does not
    mention a device at all.
    """
    found = _function(path, full_name)
    if found is None:
        return False
    module, name = found
    if not _DEVICE.search(module):
        return True
    return any(_WAITS.search(body) for body in _bodies(module, name, 0))


def _function(path: str, full_name: str) -> tuple[str, str] | None:
    """The text of the module that defines a function, and the function's name in it."""
    module, _, name = full_name.rpartition(".")
    if not module.strip(".") and not module.startswith("."):
        return None
    for place in _places(path, module):
        text = _text(place)
        for _ in range(2):
            if text and re.search(rf"^(async )?def {re.escape(name)}\(", text, re.MULTILINE):
                return text, name
            # A package that imports the function from one of its modules.
            again = re.search(rf"^from \.(\w+) import [^\n]*\b{re.escape(name)}\b", text or "",
                              re.MULTILINE)  # fmt: skip
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
    return _read(path, consulted.content(path))


@lru_cache(maxsize=256)
def _read(path: Path, state: str) -> str:
    try:
        if not state or state == "folder" or path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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

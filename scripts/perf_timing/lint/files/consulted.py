"""Which other files the answer about a file hangs on.

Whoever opens a file beside the one that is checked asks here for its state first. The states that
were asked for while a file was checked are kept with its result (cache.py): where one of them is
another by then, the file is checked anew.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

# (_CONTENT or a pattern of names, path) -> state
Consulted = dict[tuple[str, str], str]

_MOST_BYTES = 400_000

_CONTENT = "content"
_open: list[Consulted] = []


@contextlib.contextmanager
def consulting() -> Iterator[Consulted]:
    """Collects what is asked for inside of the block."""
    found: Consulted = {}
    _open.append(found)
    try:
        yield found
    finally:
        _open.remove(found)


def content(path: str | os.PathLike[str]) -> str:
    """The state of the file at `path`: a digest of its bytes; "" where there is none to read."""
    return _asked(_CONTENT, os.fspath(path))


@lru_cache(maxsize=256)
def text(path: Path, state: str) -> str:
    """The text of a file in a state that `content` found; "" for none, or one of over 400 kB."""
    try:
        if not state or state == "folder" or path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def names(folder: str | os.PathLike[str], pattern: str) -> str:
    """The state of a folder: a digest of the names in it that match a pattern."""
    return _asked(pattern, os.fspath(folder))


def _asked(what: str, path: str) -> str:
    found = state(what, path)
    for noted in _open:
        noted[what, path] = found
    return found


def digest(data: bytes) -> str:
    """A digest that no two different contents share."""
    return hashlib.sha256(data).hexdigest()[:32]


@cache
def state(what: str, path: str) -> str:
    """What `content` or `names` finds at a path; looked up once a run (see `forget`)."""
    try:
        if what != _CONTENT:
            found = "\0".join(sorted(entry.name for entry in Path(path).glob(what)))
            return digest(found.encode("utf-8", "surrogatepass"))
        if Path(path).is_dir():
            return "folder"
        return digest(Path(path).read_bytes()) if Path(path).is_file() else ""
    except (OSError, ValueError):
        return ""


def forget() -> None:
    """Look at the disk again: a new run begins."""
    state.cache_clear()

"""What the project around a file says of the versions of a package that it supports.

Asked before a fix is called safe that writes a name which an older version does not have. Read are
the usual places: pyproject.toml, setup.py, setup.cfg and requirements*.txt in the file's folder and
in those above it, up to the repository's root. Nothing declared, or no bound, counts as the newest.
"""

import re
from functools import cache
from pathlib import Path

from perf_timing.lint.files import consulted
from perf_timing.lint.files.nearby import folders_above

_ABOVE = 8
_MOST_BYTES = 400_000
_NAMES = ("pyproject.toml", "setup.py", "setup.cfg")
_LISTS = "*requirements*.txt"


def supports_older(path: str, since: str) -> bool:
    """Whether the project of the file `path` admits versions before `since`, as in "torch 2.4"."""
    package, _, version = since.partition(" ")
    places = folders_above(path, _ABOVE)
    numbers = _numbers(version)
    return any(_admits(place, _declaring(place), package, numbers) for place in places)


def _declaring(folder: Path) -> tuple[tuple[Path, str], ...]:
    """The files of a folder that may declare versions, with their states."""
    try:
        consulted.names(folder, _LISTS)
        files = [folder / n for n in _NAMES] + sorted(folder.glob(_LISTS))
    except OSError:
        return ()
    return tuple((file, consulted.content(file)) for file in files)


@cache
def _admits(
    folder: Path, files: tuple[tuple[Path, str], ...], package: str, version: tuple[int, ...]
) -> bool:
    pattern = re.compile(
        rf"(?:^|[\"'\s\[,]){re.escape(package)}(?:\[[^\]]*\])?\s*\(?((?:[<>=~!]=?=?\s*[\d.*]+[\w.+]*\s*,?\s*)+)",
        re.MULTILINE,
    )
    return any(
        _is_older(comparator, number, version)
        for file, _ in files
        for bounds in pattern.findall(_read(file))
        for comparator, number in re.findall(r"([<>=~!]=?=?)\s*(\d[\d.]*)", bounds)
    )


def _is_older(comparator: str, number: str, version: tuple[int, ...]) -> bool:
    """Whether a bound lets an older version in: as a lower or exact one, or an upper one below."""
    bound = _numbers(number)
    if comparator in ("<", "<="):
        return bound < version or (comparator == "<" and bound == version)
    return comparator != "!=" and bound < version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""

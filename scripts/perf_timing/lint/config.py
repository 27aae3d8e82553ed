"""`[tool.lint-timing]` of the nearest pyproject.toml.

The nearest is meant per file: the first folder from the file upwards whose pyproject.toml has the
table. A file's findings therefore never depend on which other files are checked with it.
"""

import difflib
import os
import sys
from dataclasses import dataclass, field
from typing import Any

from perf_timing._cli import UserError
from perf_timing.lint.files.gitignore import IgnoreFile

TABLE = "lint-timing"
LISTS = ("select", "ignore", "exclude", "sync-helpers", "gpu-helpers")
KEYS = (*LISTS, "per-file-ignores")


@dataclass(frozen=True)
class Settings:
    """What one pyproject.toml says. `root` is its folder; patterns are relative to it."""

    root: str = ""
    origin: str = ""
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sync_helpers: tuple[str, ...] = ()
    gpu_helpers: tuple[str, ...] = ()
    excluded: IgnoreFile = field(default_factory=lambda: IgnoreFile(()), compare=False)

    def ignored_for(self, path: str) -> tuple[str, ...]:
        """Selectors of `per-file-ignores` that apply to the absolute `path`."""
        found: list[str] = []
        for pattern, selectors in self.per_file_ignores:
            if matches_path(IgnoreFile([pattern]), self.root, path):
                found += selectors
        return tuple(found)


DEFAULTS = Settings()


def matches_path(patterns: IgnoreFile, root: str, path: str) -> bool:
    """Whether the absolute `path`, or a folder between it and `root`, matches the patterns."""
    if not patterns or not path.startswith(root.rstrip(os.sep) + os.sep):
        return False
    parts = path[len(root.rstrip(os.sep)) + 1 :].split(os.sep)
    for end in range(1, len(parts)):
        if patterns.decide("/".join(parts[:end]), True):
            return True
    return bool(patterns.decide("/".join(parts), False))


class SettingsFinder:
    """Finds the settings that count for a folder; every folder is looked at once."""

    def __init__(self, isolated: bool = False) -> None:
        self._isolated = isolated
        self._known: dict[str, Settings] = {}

    def for_folder(self, folder: str) -> Settings:
        """Settings for files directly in the absolute `folder`; raises UserError."""
        if self._isolated:
            return DEFAULTS
        found = self._known.get(folder)
        if found is None:
            own = read_settings(os.path.join(folder, "pyproject.toml"))
            parent = os.path.dirname(folder)
            if own is not None or parent == folder:
                found = own or DEFAULTS
            else:
                found = self.for_folder(parent)
            self._known[folder] = found
        return found


def read_settings(path: str) -> Settings | None:
    """The settings in the pyproject.toml at `path`; None where it has none. Raises UserError."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if TABLE.encode() not in data:
        return None
    table = _table(path, data)
    return None if table is None else _settings(path, table)


def _table(path: str, data: bytes) -> dict[str, Any] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    tool = document.get("tool", {})
    table = tool.get(TABLE) if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UserError(f"{path}: [tool.{TABLE}] must be a table")
    return table


def _settings(path: str, table: dict[str, Any]) -> Settings:
    for key in table:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"keys are {', '.join(KEYS)}"
            raise UserError(f"{path}: [tool.{TABLE}] has no key {key!r}; {hint}")
    lists = {key: _strings(path, key, table[key]) for key in LISTS if key in table}
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise UserError(f"{path}: per-file-ignores must be a table of lists")
    exclude = lists.get("exclude", ())
    return Settings(
        root=os.path.dirname(path),
        origin=path,
        select=lists.get("select"),
        ignore=lists.get("ignore", ()),
        exclude=exclude,
        per_file_ignores=tuple(
            (pattern, _strings(path, f"per-file-ignores.{pattern!r}", selectors))
            for pattern, selectors in per_file.items()
        ),
        sync_helpers=lists.get("sync-helpers", ()),
        gpu_helpers=lists.get("gpu-helpers", ()),
        excluded=IgnoreFile(exclude),
    )


def _strings(path: str, key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise UserError(f"{path}: {key} must be a list of strings")

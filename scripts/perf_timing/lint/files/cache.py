"""Remembers what came of each file: one that has not changed is not checked again.

A remembered result counts only where everything that it hangs on is the same:

* the bytes of the file, how it was reached, its settings, and the rules that were selected;
* the other files that were consulted while it was checked (consulted.py);
* this program with its rules, byte by byte, Python, and ast-grep.

A file that could not be checked for a reason that may pass, such as a right that is missing, is
not remembered. The memory is a file for each folder that the command
is called in, in the cache folder of the user: nothing is written into a checkout, which may be
read-only or somebody else's, and nothing is read from one, which may hold a forged memory. Where
it cannot be read or written, everything is checked, without a word.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perf_timing._cli import UserError, write_whole_bytes
from perf_timing.lint.files import consulted
from perf_timing.lint.files.discover import Target
from perf_timing.lint.files.source import UnreadableError, read_bytes
from perf_timing.lint.model import Finding, Fix, Span
from perf_timing.lint.runner import FileResult, Related, Report

_PACKAGE = Path(__file__).resolve().parents[2]
_ENDING = ".json"
_KEPT_DAYS = 30
# What is remembered of a file: its digest, and what was found (0: nothing at all).
_Entry = tuple[str, Any]


def folder() -> Path | None:
    """The cache folder of the user, or None where there is none."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not given.is_absolute():
        windows = os.environ.get("LOCALAPPDATA", "") if sys.platform == "win32" else None
        with contextlib.suppress(RuntimeError):  # no home
            given = Path.home() / ".cache" if windows is None else Path(windows)
    return given / "lint-timing" if given.is_absolute() else None


class Cache:
    """What is remembered of the files that were checked from one folder."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self.identity = identity
        self.entries: dict[str, _Entry] = _read(path, identity)
        self._settings: dict[int, str] = {}

    def digest(self, target: Target, data: bytes) -> str:
        """A digest of a file and of how it is checked."""
        key = self._settings.get(id(target.settings))
        if key is None:
            s = target.settings
            key = repr((s.root, s.origin, s.select, s.ignore, s.per_file_ignores,
                        s.sync_helpers, s.gpu_helpers))  # fmt: skip
            self._settings[id(target.settings)] = key
        how = "\0".join((target.path, target.shown, target.kind, str(target.named), key, ""))
        return consulted.digest(how.encode("utf-8", "surrogatepass") + data)

    def known(self, targets: Sequence[Target]) -> dict[str, FileResult]:
        """The remembered results of the files that have not changed, by the shown path."""
        found = {}
        for target in targets if self.entries else ():
            entry = self.entries.get(target.shown)
            if entry is None:
                continue
            with contextlib.suppress(UnreadableError, *_MALFORMED):
                if entry[0] == self.digest(target, read_bytes(target.path)):
                    result = _result(target.shown, entry[1])
                    if result is not None:
                        found[target.shown] = result
        return found

    def keep(self, results: Iterable[FileResult]) -> None:
        """Remember the results of files that were checked; never fails."""
        new = {r.shown: (r.digest, _outcome(r)) for r in results if r.digest}
        if not new:
            return
        self.entries.update(new)
        data = json.dumps({"identity": self.identity, "files": self.entries}).encode("ascii")
        with contextlib.suppress(UserError, OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole_bytes(self.path, data, overwrite=True)
            _drop_old(self.path.parent)


def open_cache(select: Sequence[str] | None, ignore: Sequence[str]) -> Cache | None:
    """The cache for runs with these rules in this folder; None where there can be none."""
    from perf_timing.lint.parsing import astgrep

    consulted.forget()
    place = folder()
    try:
        if place is None:
            return None
        called = repr((str(Path.cwd()), select, list(ignore)))
        engine = astgrep.executable()
        identity = repr((called, _program(), sys.version, engine, astgrep.version(engine)))
    except (UserError, OSError):
        return None  # told where it is needed
    name = consulted.digest(called.encode("utf-8", "surrogatepass"))
    return Cache(place / (name + _ENDING), identity)


def _program() -> str:
    """A digest of every file that this program consists of, and of where it lies."""
    parts = [os.fsencode(_PACKAGE)]
    for path in sorted(_files(str(_PACKAGE))):
        parts += [os.fsencode(path), Path(path).read_bytes()]
    return consulted.digest(b"\0".join(parts))


def _files(place: str) -> Iterator[str]:
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith((".py", ".yml")):
                yield entry.path


def _read(path: Path, identity: str) -> dict[str, _Entry]:
    try:
        data = json.loads(path.read_bytes())
        files: dict[str, _Entry] = data["files"] if data["identity"] == identity else {}
        return files if all(len(entry) == 2 for entry in files.values()) else {}
    except (OSError, RecursionError, *_MALFORMED):
        return {}


def _drop_old(place: Path) -> None:
    """Forget folders from which nothing new was checked for a month."""
    oldest = time.time() - _KEPT_DAYS * 86400
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.name.endswith(_ENDING) and entry.stat().st_mtime < oldest:
                Path(entry.path).unlink()


# Results as JSON. What is malformed was not written by this version: nothing is remembered.
_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def _outcome(result: FileResult) -> Any:
    consulted_files = [[what, path, state] for (what, path), state in result.consulted.items()]
    if not (result.reports or result.problems or result.silenced or consulted_files):
        return 0
    return {
        "reports": [asdict(report) for report in result.reports],
        "problems": result.problems,
        "silenced": result.silenced,
        "consulted": consulted_files,
    }


def _result(shown: str, outcome: Any) -> FileResult | None:
    """The remembered result; None where a file that was consulted has changed."""
    if outcome == 0:
        return FileResult(shown)
    if any(consulted.state(what, path) != state for what, path, state in outcome["consulted"]):
        return None
    reports = [_report(report) for report in outcome["reports"]]
    return FileResult(shown, reports, outcome["problems"], outcome["silenced"])


def _report(data: dict[str, Any]) -> Report:
    finding = dict(data["finding"])
    finding["related"] = tuple(Span(**span) for span in finding["related"])
    finding["fixes"] = tuple(Fix(**fix) for fix in finding["fixes"])
    related = tuple(
        Related(Span(**other["span"]), other["cell"], other["source"]) for other in data["related"]
    )
    return Report(Finding(**finding), data["source"], data["end_source"], related)

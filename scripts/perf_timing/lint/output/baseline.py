"""Findings that are known: a file of counts, which later runs leave out.

A finding is known by its file, its rule and the text of its line, not by the line's number, so
that a baseline survives moved lines. The same line found twice counts twice.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perf_timing._cli import UserError, write_whole_bytes
from perf_timing.lint.runner import Report

_VERSION = 1


def key_of(report: Report, folder: str) -> tuple[str, str, str]:
    """(path relative to `folder`, rule, digest of the line's text) of a finding."""
    f = report.finding
    path = os.path.relpath(os.path.abspath(f.path), folder).replace(os.sep, "/")
    text = " ".join(report.source.split())
    return path, f.rule, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def write_baseline(path: str, reports: Sequence[Report]) -> None:
    """Write all `reports` to `path`, whole or not at all; raises UserError."""
    counts = Counter(key_of(report, _folder(path)) for report in reports)
    files: dict[str, dict[str, dict[str, int]]] = {}
    for (file, rule, digest), count in sorted(counts.items()):
        files.setdefault(file, {}).setdefault(rule, {})[digest] = count
    text = json.dumps({"version": _VERSION, "findings": files}, indent=1) + "\n"
    write_whole_bytes(Path(path), text.encode("ascii"), overwrite=True)


def read_baseline(path: str) -> Counter[tuple[str, str, str]]:
    """The counts in `path`; raises UserError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the baseline {path}: {error.strerror}") from None
    try:
        return _counts(json.loads(data.decode("utf-8")))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise UserError(
            f"{path} is not a baseline of this tool; write it anew with --write-baseline {path}"
        ) from None


def _counts(document: Any) -> Counter[tuple[str, str, str]]:
    if document["version"] != _VERSION:
        raise ValueError("version")
    counts: Counter[tuple[str, str, str]] = Counter()
    for file, rules in document["findings"].items():
        for rule, digests in rules.items():
            for digest, count in digests.items():
                if type(count) is not int or count < 1:
                    raise ValueError("count")
                counts[file, rule, digest] = count
    return counts


def leave_out(
    reports: Sequence[Report], path: str, checked: Sequence[str]
) -> tuple[list[Report], int]:
    """The reports that the baseline at `path` does not know, and how many entries match nothing.

    Only entries for the files in `checked` are expected to match. Raises UserError.
    """
    left = read_baseline(path)
    folder = _folder(path)
    kept = []
    for report in reports:
        key = key_of(report, folder)
        if left[key] > 0:
            left[key] -= 1
        else:
            kept.append(report)
    files = {os.path.relpath(os.path.abspath(f), folder).replace(os.sep, "/") for f in checked}
    return kept, sum(count for (file, *_), count in left.items() if file in files)


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))

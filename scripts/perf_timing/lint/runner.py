"""Checks files: in batches, on as many processes as pay off, with results in one fixed order."""

import contextlib
import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from perf_timing._cli import UserError
from perf_timing.lint import workers
from perf_timing.lint.files.consulted import Consulted
from perf_timing.lint.files.discover import Target
from perf_timing.lint.files.source import Document, internal_error, load
from perf_timing.lint.model import Finding, Span

_PARALLEL_FROM = 200  # files; below that a second process costs more than it saves
_BATCH = 256  # files; bounds the memory that their texts take

# Gives the names of the rules that count for a target.
Chooser = Callable[[Target], frozenset[str]]


class Memory(Protocol):
    """What may know the results of files from an earlier run (cache.py)."""

    def known(self, targets: Sequence[Target]) -> "dict[str, FileResult]": ...
    def digest(self, target: Target, data: bytes) -> str: ...
    def keep(self, results: "Iterable[FileResult]") -> None: ...


@dataclass(frozen=True)
class Related:
    """A place that explains a finding, as the reader sees it."""

    span: Span
    cell: int | None
    source: str


@dataclass(frozen=True)
class Report:
    """A finding at the reader's place, with the text of its first and last line."""

    finding: Finding
    source: str
    end_source: str
    related: tuple[Related, ...] = ()

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders reports the same way whatever order they were found in."""
        f = self.finding
        cell = -1 if f.cell is None else f.cell
        end = (f.end_line, f.end_column)
        return (os.fsencode(f.path), cell, f.line, f.column, f.code, *end, f.message)


@dataclass
class FileResult:
    """What came of one file. `problems` say why it, or a part of it, could not be checked.

    `passing`: the next run may come to something else though nothing has changed.
    """

    shown: str
    reports: list[Report] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    silenced: int = 0
    passing: bool = False
    digest: str = ""  # of the file and of how it was checked, where it is to be remembered
    consulted: Consulted = field(default_factory=dict)


def run(
    targets: Sequence[Target], choose: Chooser, jobs: int, memory: Memory | None = None
) -> list[FileResult]:
    """One result for each target, in the order of `targets`. Raises UserError.

    What `memory` knows is not checked again, and what is checked is kept there.
    """
    with _rare_collections():
        known = memory.known(targets) if memory else {}
        fresh = [target for target in targets if target.shown not in known]
        results = _run(fresh, choose, jobs, memory)
        if memory:
            memory.keep(results)
    if not known:
        return results
    known.update({result.shown: result for result in results})
    return [known[target.shown] for target in targets]


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage less often: trees are large and live as long as their file is checked."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run(
    targets: Sequence[Target], choose: Chooser, jobs: int, memory: Memory | None
) -> list[FileResult]:
    if jobs > 1 and len(targets) >= _PARALLEL_FROM and workers.supported():
        return _run_parallel(targets, choose, jobs, memory)
    batches = [targets[i : i + _BATCH] for i in range(0, len(targets), _BATCH)]
    return [result for batch in batches for result in check_targets(batch, choose, memory)]


def check_targets(
    targets: Sequence[Target], choose: Chooser, memory: Memory | None = None
) -> list[FileResult]:
    """Read and check `targets` in this process. Raises UserError."""
    documents = [load(target) for target in targets]
    results = check_documents(documents, choose)
    if memory:
        for document, result in zip(documents, results, strict=True):
            if not result.passing:
                result.digest = memory.digest(document.target, document.data)
    return results


def check_documents(documents: Sequence[Document], choose: Chooser) -> list[FileResult]:
    """Check documents that were read; raises UserError when ast-grep cannot be used.

    Whatever a file does to a rule stays with that file, which is named as not checked.
    """
    try:
        return _judged(documents, choose)
    except (UserError, ModuleNotFoundError):  # no file is to blame
        raise
    except Exception as error:
        if len(documents) > 1:
            return [check_documents([document], choose)[0] for document in documents]
        problems = [internal_error(error)]
        return [FileResult(documents[0].target.shown, problems=problems, passing=True)]


def unchecked(document: Document) -> FileResult:
    """A result to begin with: of a document's problems alone."""
    problems = list(document.problems)
    return FileResult(document.target.shown, problems=problems, passing=document.passing)


def _judged(documents: Sequence[Document], choose: Chooser) -> list[FileResult]:
    if any(document.pieces for document in documents):
        from perf_timing.lint.judge import judge  # loads the rules, which most files never need

        results = judge(documents, choose)
    else:
        results = [unchecked(document) for document in documents]
    for result in results:
        result.reports.sort(key=lambda report: report.sort_key)
        result.problems.sort()
    return results


def _run_parallel(
    targets: Sequence[Target], choose: Chooser, jobs: int, memory: Memory | None
) -> list[FileResult]:
    size = max(16, min(_BATCH, -(-len(targets) // (jobs * 4))))
    starts = range(0, len(targets), size)

    def check_batch(number: int) -> list[FileResult] | str:
        start = starts[number]
        return _carried(targets[start : start + size], choose, memory)

    done = workers.map_forked(check_batch, len(starts), jobs)
    lost = [
        i for n, start in enumerate(starts) if n not in done for i in range(start, start + size)
    ]
    lost = [i for i in lost if i < len(targets)]
    # A process that died took its whole batch along; one file at a time finds the culprit.
    alone = workers.map_forked(
        lambda n: _carried([targets[lost[n]]], choose, memory), len(lost), jobs
    )
    died = "the process that checked it ended unexpectedly"
    by_target = {
        lost[n]: alone.get(n) or [FileResult(targets[lost[n]].shown, problems=[died], passing=True)]
        for n in range(len(lost))
    }
    results: list[FileResult] = []
    for number, start in enumerate(starts):
        parts = (
            [done[number]]
            if number in done
            else [by_target[i] for i in lost if start <= i < start + size]
        )
        for part in parts:
            if isinstance(part, str):
                raise UserError(part)
            results += part
    return results


def _carried(
    targets: Sequence[Target], choose: Chooser, memory: Memory | None
) -> list[FileResult] | str:
    """The results, or the text of the UserError that stopped the check."""
    try:
        return check_targets(targets, choose, memory)
    except UserError as error:
        return str(error)

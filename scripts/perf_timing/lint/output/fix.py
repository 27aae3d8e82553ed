"""Applies fixes: only those whose result, checked again, is better and not worse.

A fix is kept when the fixed file still parses, has that finding no more, gains no finding of any
rule, and differs in nothing but the replaced characters. A file is written whole or not at all.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perf_timing._cli import UserError, write_whole_bytes
from perf_timing.lint.files.discover import Target
from perf_timing.lint.files.source import Document, Text, UnreadableError, load, read_bytes
from perf_timing.lint.judge import all_rules
from perf_timing.lint.model import Fix
from perf_timing.lint.runner import Chooser, FileResult, Report, check_documents

_ROUNDS = 10  # fixes that overlap are applied one after another


@dataclass
class Fixed:
    """A file with its fixes applied in memory. `failures` say which fix was left out, and why."""

    document: Document
    original: Document
    result: FileResult
    count: int = 0
    failures: list[str] = field(default_factory=list)


def fix_documents(documents: Sequence[Document], choose: Chooser, *, unsafe: bool) -> list[Fixed]:
    """Each document with every fix of a chosen rule that holds.

    A fix holds only if it brings up no finding of any rule that is chosen or on by default.
    Raises UserError when ast-grep cannot be used.
    """
    defaults = frozenset(rule.name for rule in all_rules() if rule.default)

    def watched(target: Target) -> frozenset[str]:
        return choose(target) | defaults

    results = check_documents(documents, watched)
    states = [Fixed(d, d, r) for d, r in zip(documents, results, strict=True)]
    for _ in range(_ROUNDS):
        tries = [(s, _applicable(s, choose, unsafe)) for s in states if not s.failures]
        tries = [(state, reports) for state, reports in tries if reports]
        if not tries:
            break
        _round(tries, watched)
    for state in states:
        wanted = choose(state.document.target)
        state.result.reports = [r for r in state.result.reports if r.finding.rule in wanted]
    return states


def _applicable(state: Fixed, choose: Chooser, unsafe: bool) -> list[Report]:
    """Reports that can be fixed together: in order, without overlap."""
    if state.document.target.kind not in ("python", "cuda"):
        return []
    found, end = [], -1
    wanted = choose(state.document.target)
    candidates = [r for r in state.result.reports if r.finding.fixes and r.finding.rule in wanted]
    for report in sorted(candidates, key=lambda r: min(f.start for f in r.finding.fixes)):
        fixes = report.finding.fixes
        if not unsafe and not all(fix.safe for fix in fixes):
            continue
        if min(fix.start for fix in fixes) >= end:
            found.append(report)
            end = max(fix.end for fix in fixes) + 1
    return found


def _round(tries: Sequence[tuple[Fixed, Sequence[Report]]], watched: Chooser) -> None:
    """Try all fixes of each file at once; where that fails, one after another."""
    good = _try(tries, watched)
    for (state, reports), held in zip(tries, good, strict=True):
        if held or len(reports) == 1:
            if not held:
                state.failures.append(_failure(reports[0]))
            continue
        for report in reports:
            current = _same_report(state, report)
            if current is None or not _try([(state, [current])], watched)[0]:
                state.failures.append(_failure(report))


def _same_report(state: Fixed, report: Report) -> Report | None:
    """`report` as it is in the present state of the file, whose offsets may have moved."""
    for other in state.result.reports:
        if other.finding.fixes and other.source == report.source:
            same = (other.finding.rule, other.finding.column)
            if same == (report.finding.rule, report.finding.column):
                return other
    return None


def _failure(report: Report) -> str:
    f = report.finding
    return f"{f.rule} on line {f.line} was not fixed: the result would not check better"


def _try(tries: Sequence[tuple[Fixed, Sequence[Report]]], watched: Chooser) -> list[bool]:
    """Apply the reports' fixes to each state where the result holds; says where it did."""
    changed = [_changed(state.document, reports) for state, reports in tries]
    documents = [document for document in changed if document is not None]
    after = iter(check_documents(documents, watched))
    held = []
    for (state, reports), document in zip(tries, changed, strict=True):
        result = next(after) if document is not None else None
        good = result is not None and _is_better(state.result, result, reports)
        if good and document is not None and result is not None:
            state.document, state.result = document, result
            state.count += len(reports)
        held.append(good)
    return held


def _is_better(before: FileResult, after: FileResult, fixed: Sequence[Report]) -> bool:
    if after.problems:
        return False
    allowed = Counter(report.finding.rule for report in before.reports)
    allowed.subtract(report.finding.rule for report in fixed)
    found = Counter(report.finding.rule for report in after.reports)
    return all(count <= allowed[rule] for rule, count in found.items())


def _changed(document: Document, reports: Sequence[Report]) -> Document | None:
    """The document with the fixes applied; None where its bytes could not be written back."""
    text = document.text
    try:
        if text.bom + text.text.encode(text.encoding) != document.data:
            return None
        fixes = {fix for report in reports for fix in report.finding.fixes}
        new = text.bom + apply_fixes(text.text, fixes).encode(text.encoding)
    except UnicodeError:
        return None
    # As if it were named: all of a fixed file must parse, not only what is checked.
    return load(replace(document.target, named=True), new)


def apply_fixes(text: str, fixes: set[Fix]) -> str:
    """`text` with the replacements made; those that overlap an earlier one are left out."""
    parts, position = [], 0
    for fix in sorted(fixes, key=lambda fix: (fix.start, fix.end)):
        if fix.start < position or fix.end > len(text):
            continue
        replacement = fix.replacement.replace("\r\n", "\n")
        if _ends_with_crlf(text, fix.start):
            replacement = replacement.replace("\n", "\r\n")
        parts += [text[position : fix.start], replacement]
        position = fix.end
    return "".join([*parts, text[position:]])


def _ends_with_crlf(text: str, start: int) -> bool:
    """Whether the line around `start` ends in CRLF; the last line goes by the one before."""
    end = text.find("\n", start)
    end = text.rfind("\n", 0, start) if end < 0 else end
    return end > 0 and text[end - 1] == "\r"


def write(fixed: Fixed) -> None:
    """Write the file of `fixed`; raises UserError if it has changed since, or is read-only."""
    path = fixed.original.target.path
    try:
        if read_bytes(path) != fixed.original.data:
            raise UserError(f"{path} changed while it was being checked; it was not fixed")
    except UnreadableError as reason:
        raise UserError(f"{path} was not fixed: {reason}") from None
    if not os.access(path, os.W_OK):
        raise UserError(f"{path} was not fixed: it is read-only")
    write_whole_bytes(Path(path), fixed.document.data, overwrite=True)


def diff(fixed: Fixed) -> bytes:
    """A unified diff of what fixing changes, in the file's own encoding."""
    import difflib

    before, after = fixed.original.text, fixed.document.text
    name = fixed.original.target.shown
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"a/{name}", f"b/{name}", lineterm="\n"
    )
    return b"".join(_encoded(line, before) for line in lines)


def _lines(text: Text) -> list[str]:
    *ended, last = text.text.split("\n")
    return [f"{line}\n" for line in ended] + ([last] if last else [])


def _encoded(line: str, text: Text) -> bytes:
    if not line.endswith("\n"):
        line += "\n\\ No newline at end of file\n"
    if line.startswith(("--- ", "+++ ")):
        return os.fsencode(line)
    return line.encode(text.encoding, "replace")

"""How findings are printed: one module a format, each with `render(outcome) -> str`."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from perf_timing.lint.runner import Report

NAMES = ("full", "concise", "json", "sarif", "github")
SEVERITIES = ("error", "warning", "info")


@dataclass
class Outcome:
    """What a run came to. `reports` are those to print; `hidden` were left out of them."""

    reports: Sequence[Report]
    problems: Sequence[tuple[str, str]] = ()
    checked: int = 0
    hidden: int = 0
    silenced: int = 0
    in_baseline: int = 0
    stale_in_baseline: int = 0
    fixed: int = 0
    colour: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    fixable: int = 0


def summary(outcome: Outcome) -> str:
    """The last line: what was checked, and what was found."""
    counts = [plural(outcome.counts[s], s) for s in SEVERITIES if outcome.counts[s]]
    total = outcome.counts.total()
    found = f"{plural(total, 'finding')} ({', '.join(counts)})" if total else "no findings"
    text = f"Checked {plural(outcome.checked, 'file')}: {found}"
    extras = (
        (outcome.fixed, "fixed"),
        (outcome.silenced, "suppressed"),
        (outcome.in_baseline, "in the baseline"),
        (outcome.stale_in_baseline, "in the baseline but no longer found"),
        (outcome.fixable, "fixable with --fix"),
        (outcome.hidden, "not shown (--max-findings)"),
        (len({path for path, _ in outcome.problems}), "not checked"),
    )
    return "; ".join([text, *(f"{count} {what}" for count, what in extras if count)]) + "."


def plural(count: int, noun: str) -> str:
    """`count` with `noun`, such as "1 file" and "2 files"; "info" has no plural."""
    return f"{count} {noun}{'s' if count != 1 and noun != 'info' else ''}"


def printable(text: str) -> str:
    """`text` without characters that would move or colour a terminal; tabs stay."""
    return "".join(c if c == "\t" or c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def place(report: Report, column: bool = True) -> str:
    """`path:line:column`, in a notebook `path:cell 3:line:column`."""
    f = report.finding
    cell = "" if f.cell is None else f"cell {f.cell}:"
    end = f":{f.column}" if column else ""
    return f"{printable(f.path)}:{cell}{f.line}{end}"


def path_bytes(path: str) -> bytes:
    """The bytes that name the file, with forward slashes."""
    return os.fsencode(path.replace(os.sep, "/"))

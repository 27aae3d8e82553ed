"""What ast-grep finds in a script: the facts that the choice of the loop and its marks rest on."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from perf_timing._cli import UserError
from perf_timing.inject.source import Source
from perf_timing.lint.parsing import astgrep


@dataclass(frozen=True)
class Fact:
    """A match of the rule `kind` of patterns.yml; offsets count code points of the text."""

    kind: str
    start: int
    end: int
    code: str


class Facts:
    """All facts of one file, in order of place."""

    def __init__(self, facts: list[Fact]) -> None:
        self._by_kind: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            self._by_kind[fact.kind].append(fact)

    def without(self, kind: str, codes: set[str]) -> "Facts":
        """The same facts, without those of a kind with one of the texts."""
        kept = {**self._by_kind, kind: [f for f in self._by_kind[kind] if f.code not in codes]}
        return Facts([fact for facts in kept.values() for fact in facts])

    def of(self, *kinds: str) -> list[Fact]:
        found = {(fact.start, fact.end): fact for kind in kinds for fact in self._by_kind[kind]}
        return [found[place] for place in sorted(found)]

    def within(self, start: int, end: int, *kinds: str) -> Iterator[Fact]:
        """Facts of the kinds that lie between two offsets."""
        return (fact for fact in self.of(*kinds) if start <= fact.start and fact.end <= end)


@cache
def _patterns() -> str:
    return (Path(__file__).resolve().parent / "patterns.yml").read_text(encoding="utf-8")


def collect(source: Source) -> Facts:
    """Facts of a file; raises UserError when ast-grep cannot read it."""
    [scan] = astgrep.scan([astgrep.Source("python", source.text)], _patterns())
    if scan.failure:
        raise UserError(f"{source.path}: {scan.failure}; nothing was changed")
    return Facts(
        [Fact(m.rule_id, m.start, m.end, source.text[m.start : m.end]) for m in scan.matches]
    )

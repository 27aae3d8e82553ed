"""Which rules a run reports: codes, names, prefixes of either, ALL and DEFAULT."""

import difflib
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from perf_timing._cli import UserError
from perf_timing.lint.config import Settings
from perf_timing.lint.files.discover import Target


class Named(Protocol):
    """What a rule is known by."""

    @property
    def name(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def default(self) -> bool: ...


def split_selectors(values: Iterable[str]) -> list[str]:
    """Selectors out of option values, each of which may hold several with commas between."""
    return [part for value in values for part in value.replace(",", " ").split()]


def matching(selector: str, rules: Sequence[Named], origin: str) -> frozenset[str]:
    """Names of the rules that `selector` means; raises UserError naming `origin` if none.

    ALL, DEFAULT, a code (TIM101), a name, or the beginning of either (TIM1, nvtx-).
    """
    if selector.upper() == "DEFAULT":
        return frozenset(rule.name for rule in rules if rule.default)
    if selector.upper() == "ALL":
        return frozenset(rule.name for rule in rules)
    exact = frozenset(r.name for r in rules if selector in (r.name, r.code, r.code.lower()))
    found = exact or frozenset(
        r.name for r in rules if r.code.startswith(selector.upper()) or r.name.startswith(selector)
    )
    if not selector or not found:
        raise UserError(f"{origin}: no rule is called {selector!r}; {near(selector, rules)}")
    return found


def near(selector: str, rules: Sequence[Named]) -> str:
    """What to try instead of a selector that means nothing."""
    names = [text for rule in rules for text in (rule.name, rule.code)]
    close = difflib.get_close_matches(selector, names, n=3, cutoff=0.5)
    close += [text for text in names if selector and selector.lower() in text.lower()]
    unique = list(dict.fromkeys(close))[:3]
    hint = f"did you mean {' or '.join(unique)}?" if unique else "see"
    return f"{hint} (--list-rules shows all)" if unique else "see --list-rules"


class Selection:
    """The rules that count for each file, from the command line and from its settings."""

    def __init__(
        self, rules: Sequence[Named], select: Sequence[str] | None, ignore: Sequence[str]
    ) -> None:
        self._rules = rules
        self._select = None if select is None else self._names(select, "--select")
        self._ignore = self._names(ignore, "--ignore")
        self._known: dict[Settings, frozenset[str]] = {}

    def for_settings(self, settings: Settings) -> frozenset[str]:
        """Names of the rules that count where `settings` do; raises UserError.

        `--select` takes the place of `select`; `--ignore` adds to `ignore`.
        """
        found = self._known.get(settings)
        if found is None:
            origin = f"{settings.origin}: [tool.lint-timing]"
            if self._select is not None:
                found = self._select
            elif settings.select is not None:
                found = self._names(settings.select, f"{origin} select")
            else:
                found = matching("DEFAULT", self._rules, origin)
            found -= self._ignore | self._names(settings.ignore, f"{origin} ignore")
            for pattern, selectors in settings.per_file_ignores:
                self._names(selectors, f"{origin} per-file-ignores {pattern!r}")
            self._known[settings] = found
        return found

    def for_target(self, target: Target) -> frozenset[str]:
        """Names of the rules that count for `target`."""
        settings = target.settings
        found = self.for_settings(settings)
        if settings.per_file_ignores:
            found -= self._names(settings.ignored_for(os.path.abspath(target.path)), "")
        return found

    def _names(self, selectors: Iterable[str], origin: str) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for selector in split_selectors(selectors):
            found |= matching(selector, self._rules, origin)
        return found

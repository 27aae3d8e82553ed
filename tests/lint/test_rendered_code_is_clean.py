"""What render-timing prints, with each option, gives the default rules nothing to report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.model import Finding, Unit
from perf_timing.render import engine, scenarios

SCENARIOS = scenarios.load_all()
SETUP = """
import torch

x = torch.randn(1024, device="cuda")
w = torch.randn(1024, device="cuda")
loader = [x, w]
"""
# A user's own operation; `stream` is the current stream in cute.
OWN_WORK: dict[str, dict[str, Any]] = {
    "compare": {"setup": SETUP, "calls": [("plain", "x + w"), ("fused", "torch.add(x, w)")]},
    "cute": {"setup": SETUP, "call": "torch.add(x, w, stream)"},
    "loop": {"setup": SETUP, "call": "torch.add(batch, w)"},
}
# One value for each option that has no list of choices and changes the code.
VALUES: dict[str, Any] = {
    "name": "scaled add",
    "dims": "1024 float32",
    "bytes": "3 * 2**20",
    "flops": "2 * 10**9",
    "iterations": 200,
    "json": "out.json",
    "batch_size": 64,
    "items": "len(batch)",
}
SKIPPED = {"call", "calls", "setup", "setup_file", "minimal", "rotate"}


def forms(name: str) -> Iterator[dict[str, Any]]:
    """The scenario as it is, with each of its options alone, and with a user's own operation."""
    options = SCENARIOS[name].options
    yield {}
    for key, (option, default) in options.items():
        if key in SKIPPED:
            continue
        for choice in option.choices or ([True] if default is False else []):
            yield {key: choice}
        if key in VALUES:
            yield {key: VALUES[key]}
    own = OWN_WORK.get(name, {"setup": SETUP, "call": "torch.add(x, w)"})
    if set(own) <= set(options):
        yield own
        if "rotate" in options:
            yield {**own, "rotate": ["x", "w"]}


def sizes(name: str) -> list[dict[str, Any]]:
    minimal = "minimal" in SCENARIOS[name].options
    return [{}, {"minimal": True}] if minimal else [{}]


def units(name: str) -> list[Unit]:
    """All forms of a scenario in files whose names say what they measure, each text once."""
    scenario = SCENARIOS[name]
    language = "cuda" if scenario.language == "cu" else "python"
    found: dict[str, str] = {}
    for size in sizes(name):
        for form in forms(name):
            chosen = {**form, **size}
            told = "_".join(f"{key}={value}" for key, value in chosen.items() if key != "setup")
            code = engine.render(scenario, chosen)
            found.setdefault(code, f"bench_{name}[{told or 'as it is'}]")
    return [Unit(f"{path}.{scenario.language}", language, code) for code, path in found.items()]


def findings(checked: list[Unit]) -> tuple[Finding, ...]:
    result = check.check(checked, [rule for rule in catalog.load_rules() if rule.default])
    assert not result.unchecked
    return result.findings


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_form_of_the_scenario_gives_the_linter_nothing_to_report(name: str) -> None:
    checked = units(name)
    told = [f"{f.path}:{f.line}: {f.severity} {f.rule}: {f.message}" for f in findings(checked)]
    assert not told, "\n".join(told)


def test_there_are_many_forms() -> None:
    assert sum(len(list(forms(name))) * len(sizes(name)) for name in SCENARIOS) > 120


def test_the_check_above_can_fail() -> None:
    code = engine.render(SCENARIOS["simple-event"], {"minimal": True})
    broken = code.replace("end.synchronize()\n", "")
    assert broken != code
    assert findings([Unit("bench_broken.py", "python", broken)])

"""Scenarios, as their templates describe themselves."""

import functools
from dataclasses import dataclass
from typing import Any

from perf_timing import _paths
from perf_timing._cli import UserError
from perf_timing.render.options import OPTIONS, Option, method_option

_OPENING = "{#---\n"
_CLOSING = "---#}"


@dataclass(frozen=True)
class Scenario:
    """A template with what its front matter says.

    `options` maps each option's name to the option and the default of this scenario.
    """

    name: str
    template: str
    language: str
    summary: str
    pick_when: str
    order: int
    run: str
    options: dict[str, tuple[Option, Any]]


@functools.cache
def load_all() -> dict[str, Scenario]:
    """All scenarios by name, in the order in which `--list` shows them."""
    found = []
    for path in sorted(_paths.templates_dir().glob("*.j2")):
        if not path.name.startswith("_"):
            found.append(_load(path.name, path.read_text(encoding="utf-8")))
    if not found:
        raise UserError("no template was found; reinstall the package")
    return {scenario.name: scenario for scenario in sorted(found, key=lambda s: (s.order, s.name))}


def _load(template: str, source: str) -> Scenario:
    import yaml

    if not source.startswith(_OPENING):
        raise UserError(f"template {template} has no front matter; reinstall the package")
    about = yaml.safe_load(source[len(_OPENING) : source.index(_CLOSING)])
    name, language, _ = template.rsplit(".", 2)
    options: dict[str, tuple[Option, Any]] = {}
    for key, default in about["options"].items():
        if key == "method":
            option = method_option(tuple(default["choices"]), default["help"])
            options[key] = (option, option.default)
        else:
            option = OPTIONS[key]
            options[key] = (option, option.default if default is None else default)
    return Scenario(
        name,
        template,
        language,
        about["summary"],
        about["pick_when"],
        about["order"],
        about["run"],
        options,
    )

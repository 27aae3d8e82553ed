"""From a scenario and checked option values to rendered code."""

import functools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from perf_timing import __version__, _paths
from perf_timing._cli import UserError
from perf_timing.render import setup_code, values
from perf_timing.render.scenarios import Scenario


@functools.cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_paths.templates_dir(), encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the results are programs; values go through the filters below
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["py"] = values.python_literal
    environment.filters["cpp"] = values.cpp_literal
    environment.filters["comment"] = values.comment
    return environment


def render(scenario: Scenario, chosen: Mapping[str, Any], argv: Sequence[str] = ()) -> str:
    """Rendered code of `scenario`; raises UserError when the values do not fit together.

    `chosen` maps names of options to parsed values; what is missing gets its default.
    """
    context = {name: default for name, (_, default) in scenario.options.items()}
    context.update(chosen)
    setup = _setup(context)
    _require_call(scenario, context, setup)
    context.update(
        scenario=scenario.name,
        version=__version__,
        command=shlex.join(["render-timing", scenario.name, *argv]),
        run=scenario.run,
        setup=setup.code.rstrip("\n"),
        future=setup.future,
        demo=not setup.code and not context.get("call") and not context.get("calls"),
    )
    if scenario.language == "py":
        context.update(_python_context(context))
    template = _environment().get_template(scenario.template)
    if scenario.language == "py" and setup.bound:
        bare = template.render({**context, "setup": "", "future": ""})
        setup_code.refuse_clash(setup, bare, _setup_flag(context))
    return _tidy(template.render(context))


def _setup(context: Mapping[str, Any]) -> setup_code.SetupCode:
    if context.get("setup") and context.get("setup_file"):
        raise UserError("--setup and --setup-file exclude each other; put all into the file")
    code = context.get("setup") or context.get("setup_file") or ""
    return setup_code.prepare(code)


def _setup_flag(context: Mapping[str, Any]) -> str:
    return "--setup-file" if context.get("setup_file") else "--setup"


def _require_call(
    scenario: Scenario, context: Mapping[str, Any], setup: setup_code.SetupCode
) -> None:
    for name in ("call", "calls"):
        if name in scenario.options and setup.code and not context.get(name):
            flag = scenario.options[name][0].flag
            raise UserError(f"--setup without {flag}: say which expression is timed")
    calls = context.get("calls")
    if calls is not None and len(calls) == 1:
        raise UserError("--calls is needed twice or more: one version has nothing to compare with")
    labels = [label for label, _ in calls or [] if label]
    if len(set(labels)) < len(labels):
        raise UserError("--calls: two versions have the same name")
    for name in context.get("rotate") or []:
        if context.get("call") and name not in setup_code.names_read(context["call"]):
            raise UserError(f"--rotate {name}: the call does not read {name}")


def _python_context(context: Mapping[str, Any]) -> dict[str, Any]:
    expressions = [context["call"]] if context.get("call") else []
    expressions += [expression for _, expression in context.get("calls") or []]
    read = setup_code.names_read(*expressions)
    return {"input_names": [name for name in read if name != "torch"]}


def _tidy(code: str) -> str:
    """`code` with at most two blank lines in a row and one newline at its end."""
    lines: list[str] = []
    for line in code.split("\n"):
        if line.strip() or len(lines) < 2 or lines[-1].strip() or lines[-2].strip():
            lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"

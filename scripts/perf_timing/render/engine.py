"""From a scenario and checked option values to rendered code."""

import ast
import functools
import json
import re
import secrets
import shlex
import string
from collections.abc import Mapping, Sequence
from typing import Any

from perf_timing import __version__, _paths
from perf_timing._cli import UserError
from perf_timing.render import setup_code, values
from perf_timing.render.scenarios import Scenario
from perf_timing.render.unused import without_unused


@functools.cache
def environment() -> Any:
    """The Jinja environment of every template, those that inject-timing renders included."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_paths.templates_dir(), encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the results are programs; values go through the filters below
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["py"] = values.python_literal
    made.filters["cpp"] = values.cpp_literal
    made.filters["comment"] = values.comment
    made.filters["json_text"] = json.dumps
    return made


def render(scenario: Scenario, chosen: Mapping[str, Any], argv: Sequence[str] = ()) -> str:
    """Rendered code of `scenario`; raises UserError when the values do not fit together.

    `chosen` maps names of options to parsed values; what is missing gets its default.
    """
    context = {name: default for name, (_, default) in scenario.options.items()}
    context.update(chosen)
    if context.get("rotate"):
        if chosen.get("cache") == "warm":
            raise UserError("--rotate makes the cache cold; it does not go with --cache warm")
        context["cache"] = "cold"
    context["missing"] = missing_names(scenario, context)
    setup = _setup(context)
    _require_call(scenario, context, setup)
    # The set-up goes in last: tidying must not touch the blank lines in its strings.
    mark = f"set_up_{secrets.token_hex(16)}"
    context.update(
        scenario=scenario.name,
        version=__version__,
        command=shlex.join(["render-timing", scenario.name, *argv]),
        run=scenario.run,
        setup=mark if setup.code else "",
        future=setup.future,
        demo=not setup.code and not context.get("call") and not context.get("calls"),
    )
    if scenario.language == "cu":
        _check_cuda(context)
    else:
        context.update(_python_context(scenario, context))
    template = environment().get_template(scenario.template)
    if scenario.language == "cu" and context.get("kernel"):
        _refuse_cuda_clash(context["kernel"], template.render({**context, "kernel": "// none"}))
    if scenario.language == "py" and setup.bound:
        bare = template.render({**context, "setup": "", "future": ""})
        setup_code.refuse_clash(setup, bare, _setup_flag(context))
    code = _tidy(template.render(context))
    if scenario.language == "py":
        code = without_unused(code)
    return code.replace(mark, setup.code.rstrip("\n"))


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
    if scenario.name == "loop" and setup.code and "loader" not in setup.bound:
        raise UserError("--setup of loop must define `loader`, what the batches come from")
    calls = context.get("calls")
    if calls is not None and len(calls) == 1:
        raise UserError("--call is needed twice or more: one version has nothing to compare with")
    labels = [label for label, _ in calls or [] if label]
    if calls is not None and len(calls) > 20:
        raise UserError("--call: at most 20 versions in one comparison")
    if len(set(labels)) < len(labels):
        raise UserError("--call: two versions have the same name")
    for name in context.get("rotate") or []:
        if context.get("call") and name not in setup_code.names_read(context["call"]):
            raise UserError(f"--rotate {name}: the call does not read {name}")


def _calls(chosen: Mapping[str, Any]) -> list[str]:
    """The expressions that are timed, of one call or of several."""
    one = [chosen["call"]] if chosen.get("call") else []
    return one + [expression for _, expression in chosen.get("calls") or []]


def missing_names(scenario: Scenario, chosen: Mapping[str, Any]) -> list[str]:
    """Names that the calls read and that the set-up does not define: what is left to edit."""
    expressions = _calls(chosen) + [
        chosen[name] for name in ("bytes", "flops", "check") if chosen.get(name)
    ]
    code = chosen.get("setup") or chosen.get("setup_file") or ""
    known = {"cute": ["stream"], "loop": ["batch"]}.get(scenario.name, [])
    return setup_code.names_missing(code, expressions, known)


def _python_context(scenario: Scenario, context: Mapping[str, Any]) -> dict[str, Any]:
    read = [name for name in setup_code.names_read(*_calls(context)) if name != "torch"]
    extra: dict[str, Any] = {"input_names": read, "missing": context["missing"]}
    if "calls" in scenario.options:
        extra["versions"] = _versions(context.get("calls"))
    if scenario.name == "cute":
        extra.update(_split_call(context.get("call")))
    return extra


_DEMO_VERSIONS = (("unfused", "unfused(x)"), ("fused", "torch.softmax(x, 1)"))


def _versions(calls: Sequence[tuple[str | None, str]] | None) -> list[tuple[str, str]]:
    """(label, expression) of each version; what has no label is called by its letter."""
    letters = (letter for letter in string.ascii_lowercase)
    taken = {label for label, _ in calls or []}
    free = (letter for letter in letters if letter not in taken)
    return [(label or next(free), expression) for label, expression in calls or _DEMO_VERSIONS]


_CPP_KNOWN = frozenset(
    [
        "sizeof",
        "dim3",
        "int",
        "unsigned",
        "long",
        "short",
        "char",
        "float",
        "double",
        "bool",
        "const",
        "static_cast",
        "reinterpret_cast",
        "size_t",
        "nullptr",
        "true",
        "false",
        "std",
        "min",
        "max",
    ]
)


def _check_cuda(context: dict[str, Any]) -> None:
    """Raise UserError where kernel, launch and set-up do not make a program together."""
    kernel, launch = context.get("kernel"), context.get("launch")
    setup = context.get("cuda_setup") or context.get("cuda_setup_file")
    if context.get("cuda_setup") and context.get("cuda_setup_file"):
        raise UserError("--setup and --setup-file exclude each other; put all into the file")
    if bool(kernel) != bool(launch):
        raise UserError("--kernel and --launch belong together; one of them is missing")
    if setup and not kernel:
        raise UserError("--setup without --kernel and --launch: say what is timed")
    for name in ("bytes", "flops"):
        if context.get(name):
            context[name] = values.cpp_expression(f"--{name}", context[name])
    if not kernel or not launch:
        return
    defined = set(values.cpp_names(values.cpp_file_scope(kernel), setup or "")) | _CPP_KNOWN
    used = {"launch": [launch["config"], launch["arguments"], launch["kernel"]]}
    used |= {name: [context[name]] for name in ("bytes", "flops") if context.get(name)}
    for option, codes in used.items():
        missing = [name for name in values.cpp_names(*codes) if name not in defined]
        if not missing:
            continue
        raise UserError(
            f"--{option} uses {', '.join(missing)}, which neither --kernel nor --setup defines;"
            " add --setup 'const int n = 1 << 20; float* x = device_array<float>(n);'"
        )


_CPP_DEFINITION = re.compile(
    r"^(?:template\s*<[^>\n]*>\s*)?"
    r"(?:#define|struct|class|enum|using|[A-Za-z_][\w:<>,*& ]*[\s*&])\s*"
    r"([A-Za-z_]\w*)\s*[({=\n]",
    re.M,
)


def _refuse_cuda_clash(kernel: str, program: str) -> None:
    """Raise UserError when the kernel's code defines what the rendered program defines as well."""
    own = set(_CPP_DEFINITION.findall(program))
    clash = sorted(own & set(_CPP_DEFINITION.findall(kernel)))
    if clash:
        raise UserError(
            f"--kernel defines {', '.join(clash)}, which the rendered program uses itself;"
            " rename it there"
        )


def _split_call(call: str | None) -> dict[str, Any]:
    """Function and arguments of a call, apart: CuTe's function is compiled with the arguments."""
    if call is None:
        return {"call_function": None, "call_arguments": None, "uses_stream": True}
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call):
        raise UserError(
            f"--call of cute must be a call such as 'add(a, b, c, stream)', not {call!r}"
        )
    arguments = [ast.unparse(argument) for argument in node.args]
    for keyword in node.keywords:
        value = ast.unparse(keyword.value)
        arguments.append(f"{keyword.arg}={value}" if keyword.arg else f"**{value}")
    return {
        "call_function": ast.unparse(node.func),
        "call_arguments": ", ".join(arguments),
        "uses_stream": "stream" in setup_code.names_read(call),
    }


def _tidy(code: str) -> str:
    """`code` with at most two blank lines in a row and one newline at its end."""
    lines: list[str] = []
    for line in code.split("\n"):
        if line.strip() or len(lines) < 2 or lines[-1].strip() or lines[-2].strip():
            lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"

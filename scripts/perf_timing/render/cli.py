"""Command line of `render-timing`."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from perf_timing import __version__, _cli
from perf_timing._cli import UserError
from perf_timing.render import engine, scenarios
from perf_timing.render.scenarios import Scenario

PROGRAM = "render-timing"


def main(argv: Sequence[str] | None = None) -> int:
    """Render a scenario; returns 0 when done, 2 when it could not be."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return _cli.run_command(PROGRAM, lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        return _run_general(arguments)
    known = scenarios.load_all()
    name = arguments[0]
    if name not in known:
        raise UserError(
            f"unknown scenario {name!r}{_cli.near(name, known)}; '{PROGRAM} --list' shows all"
        )
    return _run_scenario(known[name], arguments[1:])


def _run_general(arguments: list[str]) -> int:
    parser = general_parser()
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print(_listing(scenarios.load_all().values()))
        return _cli.CLEAN
    raise UserError(f"no scenario was named; '{PROGRAM} --list' says which to pick when")


def general_parser() -> argparse.ArgumentParser:
    """Parser of what stands before or instead of a scenario."""
    parser = _cli.Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} SCENARIO [options]\n"
        f"       {PROGRAM} SCENARIO --help | --list | --version",
        description="Print correct GPU timing code for a scenario. Nothing is run and nothing of"
        " this package is imported by the result.",
        epilog="Exit status: 0 rendered, 2 could not (one line on stderr says why).",
        allow_abbrev=False,
    )
    parser.add_argument("--list", action="store_true", help="say which scenario to pick when")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def scenario_parser(scenario: Scenario) -> argparse.ArgumentParser:
    """Parser of the options that `scenario` has."""
    parser = _cli.Parser(
        prog=f"{PROGRAM} {scenario.name}",
        description=f"{scenario.summary} Pick it when {scenario.pick_when}",
        epilog="The last line on stderr says what to edit, if anything, and how to run it.",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=34, width=98),
    )
    for option, default in scenario.options.values():
        option.add_to(parser, default)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to FILE, whole or not at all, not to stdout"
    )
    parser.add_argument("--force", action="store_true", help="let -o replace an existing file")
    return parser


def _run_scenario(scenario: Scenario, arguments: list[str]) -> int:
    parser = scenario_parser(scenario)
    namespace, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_unknown(scenario, parser, unknown[0])
    chosen = _parse_values(scenario, vars(namespace))
    code = engine.render(scenario, chosen, _shown(arguments))
    if namespace.output is None:
        sys.stdout.write(code)
    else:
        _refuse_shadow(Path(namespace.output))
        _cli.write_whole(Path(namespace.output), code, overwrite=namespace.force)
    print(_last_line(scenario, chosen, namespace.output), file=sys.stderr)
    return _cli.CLEAN


def _parse_values(scenario: Scenario, given: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, (option, _) in scenario.options.items():
        value = given[name]
        if value is None or value is False:
            continue
        if value is True:
            chosen[name] = True
        elif option.repeat:
            chosen[name] = [
                option.parse(option.flag, "--" if part == [] else part) for part in value
            ]
        else:
            # Before Python 3.13 argparse makes an empty list of the value "--".
            chosen[name] = option.parse(option.flag, "--" if value == [] else value)
    return chosen


def _refuse_shadow(path: Path) -> None:
    """Raise UserError for a name under which Python would import the script, not the package."""
    hidden = {"torch", "triton", "nvtx", "cuda", "cutlass", "pynvml", *sys.stdlib_module_names}
    if path.suffix == ".py" and path.stem in hidden:
        raise UserError(
            f"{path} would hide the module {path.stem!r} from the scripts beside it;"
            f" choose another name, such as time_{path.name}"
        )


def _refuse_unknown(scenario: Scenario, parser: argparse.ArgumentParser, argument: str) -> NoReturn:
    flag = argument.split("=", 1)[0]
    flags = [name for action in parser._actions for name in action.option_strings]
    if not flag.startswith("-"):
        raise UserError(f"{scenario.name} takes no argument {argument!r}; values need their option")
    if flag in flags:
        raise UserError(f"{flag} takes no value")
    raise UserError(
        f"{scenario.name} has no option {flag}{_cli.near(flag, flags)};"
        f" '{parser.prog} --help' shows all"
    )


def _shown(arguments: list[str]) -> list[str]:
    """Arguments as the rendered header repeats them: without where the result went."""
    shown, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in ("-o", "--output"):
            skip = True
        elif argument != "--force" and not argument.startswith(("--output=", "-o")):
            shown.append(argument)
    return shown


def _last_line(scenario: Scenario, chosen: dict[str, Any], output: str | None) -> str:
    file = output or f"FILE.{scenario.language}"
    if scenario.name.endswith("-callback"):
        edit = "nothing to edit: import the callback and pass it to the trainer"
        return _cli.ascii_line(f"{PROGRAM}: {edit}; {scenario.run.replace('FILE', file)}")
    has_work = any(chosen.get(name) for name in ("call", "calls", "kernel", "setup", "setup_file"))
    if scenario.name == "nvtx":
        edit = "replace the demonstration's phases with yours"
    elif missing := _missing(scenario, chosen):
        edit = f"edit: define {', '.join(missing)} where the file says EDIT"
    elif has_work:
        edit = "nothing to edit"
    else:
        wanted = "--kernel and --launch" if scenario.language == "cu" else "--setup-file and --call"
        edit = f"runs as it is, on a demonstration; {wanted} time your own"
    return _cli.ascii_line(f"{PROGRAM}: {edit}; run: {_run_line(scenario, chosen, file)}")


def _missing(scenario: Scenario, chosen: dict[str, Any]) -> list[str]:
    return engine.missing_names(scenario, chosen) if scenario.language == "py" else []


def _run_line(scenario: Scenario, chosen: dict[str, Any], file: str) -> str:
    """How to run what was written to `file`, quoted for a shell."""
    stem = Path(file).stem if scenario.language == "cu" else file
    words = {"FILE.cu": file, "FILE": stem, "ARCH": chosen.get("arch", "native")}
    return re.sub(r"FILE\.cu|FILE|ARCH", lambda m: shlex.quote(words[m[0]]), scenario.run)


def _listing(known: Iterable[Scenario]) -> str:
    known = list(known)
    width = max(len(scenario.name) for scenario in known)
    rows = [
        f"{s.name:<{width}}  {s.summary}\n{'':<{width}}  Pick it when {s.pick_when}" for s in known
    ]
    return "\n".join(rows)

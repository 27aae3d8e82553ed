"""No value of an option can become code or template syntax, whatever it holds."""

from __future__ import annotations

import ast
import functools
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from perf_timing.render import scenarios
from simulated_device.rendering import render_timing, rendered

SCENARIOS = scenarios.load_all()
PYTHON = [name for name, s in SCENARIOS.items() if s.language == "py"]
CUDA = [name for name, s in SCENARIOS.items() if s.language == "cu"]
TEXT_OPTIONS = ("name", "dims", "json")
LIMITS = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)

NASTY = [
    '"',
    "'",
    '"""',
    "'''",
    "\n",
    "\r",
    "\u2028",
    "\\",
    "\\\\",
    "\\N{DASH}",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{% endblock %}",
    "{#",
    "#}",
    "---#}",
    "#",
    "//",
    "/*",
    "*/",
    "??/",
    "%s",
    "{x}",
    "$(id)",
    "`id`",
    "\x00",
    "\x1b[31m",
    "\udc80",
    "\U0001f600",
    "); import os; os._exit(3)  #",
    '"\nimport os\nos._exit(3)\n"',
    "-1",
    "",
]
hostile_text = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=8)), max_size=6).map(
    "".join
)


class _Skeleton(ast.NodeTransformer):
    """Replaces every constant, so that two trees compare by shape."""

    def visit_Constant(self, node: ast.Constant) -> Any:
        return ast.Constant(0)


def shape(code: str) -> str:
    """The syntax tree without the constants' values."""
    return ast.dump(_Skeleton().visit(ast.parse(code)))


def constants(code: str) -> set[Any]:
    return {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}


@functools.cache
def plain_shape(name: str, *extra: str) -> str:
    """The skeleton with harmless text in every text option."""
    return shape(rendered(name, *extra, *arguments(name, "plain")))


def text_options(name: str) -> list[str]:
    return [option for option in TEXT_OPTIONS if option in SCENARIOS[name].options]


def arguments(name: str, value: str) -> list[str]:
    """Every text option of the scenario with the same value."""
    return [f"--{option}={value}" for option in text_options(name)]


@pytest.mark.parametrize("name", PYTHON)
@given(value=hostile_text)
@example(value="".join(NASTY))
@example(value="--")
@LIMITS
def test_text_stays_one_string_in_python(name: str, value: str) -> None:
    code = rendered(name, *arguments(name, value))
    assert shape(code) == plain_shape(name)
    if text_options(name) and value:
        assert value in constants(code)
    assert code.isascii()


@pytest.mark.parametrize("name", [n for n in PYTHON if "minimal" in SCENARIOS[n].options])
@given(value=hostile_text)
@LIMITS
def test_text_stays_one_string_in_minimal_python(name: str, value: str) -> None:
    code = rendered(name, "--minimal", *arguments(name, value))
    assert shape(code) == plain_shape(name, "--minimal")


def cuda_skeleton(code: str) -> tuple[str, list[str]]:
    """CUDA code without comments and with its string literals taken out; the literals."""
    literals: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            literals.append(match[0])
            return "S"
        return "" if match[0].startswith("/") else match[0]

    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, take, code, flags=re.S), literals


def decoded(literal: str) -> bytes:
    """Bytes of a C++ string literal of simple and octal escapes."""
    simple = {"n": b"\n", "r": b"\r", "t": b"\t"}

    def one(match: re.Match[bytes]) -> bytes:
        text = match[1].decode()
        if text[0] in "01234567":
            return bytes([int(text, 8)])
        return simple.get(text, text.encode())

    return re.sub(rb"\\([0-7]{1,3}|.)", one, literal[1:-1].encode("ascii"), flags=re.S)


@pytest.mark.parametrize("name", CUDA)
@given(value=hostile_text)
@example(value="".join(NASTY))
@LIMITS
def test_text_stays_one_string_in_cuda(name: str, value: str) -> None:
    code = rendered(name, *arguments(name, value))
    skeleton, literals = cuda_skeleton(code)
    assert skeleton == cuda_skeleton(rendered(name, *arguments(name, "plain")))[0]
    assert code.isascii() and "??/" not in code
    if value and text_options(name):
        wanted = value.encode("utf-8", "surrogateescape")
        assert wanted in [decoded(literal) for literal in literals]


def holds(code: str, node: ast.AST) -> bool:
    """Whether the code has exactly this node somewhere."""
    wanted = ast.dump(node)
    return any(
        ast.dump(found) == wanted
        for found in ast.walk(ast.parse(code))
        if type(found) is type(node)
    )


@pytest.mark.parametrize("name", [n for n in PYTHON if "call" in SCENARIOS[n].options])
@pytest.mark.parametrize("size", ["full", "minimal"])
@given(value=hostile_text)
@LIMITS
def test_a_call_is_the_expression_that_was_given(name: str, size: str, value: str) -> None:
    call = f"work(data, {value!r})"
    setup = f"data = loader = {value!r}\n\n\ndef work(*parts):\n    return parts"
    extra = ["--minimal"] if size == "minimal" else []
    code = rendered(name, f"--call={call}", f"--setup={setup}", *extra)
    wanted = ast.parse(call, mode="eval").body
    assert isinstance(wanted, ast.Call)
    # CuTe compiles the function apart, so that its arguments are all that stays together.
    assert all(holds(code, node) for node in ([wanted] if name != "cute" else wanted.args))
    assert holds(code, ast.parse(setup).body[0])


@pytest.mark.parametrize("name", [n for n in PYTHON if "call" in SCENARIOS[n].options])
@pytest.mark.parametrize("extra", [[], ["--minimal"]], ids=["full", "minimal"])
def test_strings_of_the_set_up_keep_their_lines(name: str, extra: list[str]) -> None:
    text = 'data = loader = """a  \n\n\n\n\n\tb\n{{ 1 }}\n\n\n"""'
    setup = f"{text}\n\n\n\n\n\ndef work(x):\n    return x"
    code = rendered(name, f"--setup={setup}", "--call=work(data)", *extra)
    assert holds(code, ast.parse(setup).body[0])


@pytest.mark.parametrize("name", [n for n in PYTHON if "call" in SCENARIOS[n].options])
@given(value=hostile_text)
@example(value="x); import os; (x")
@example(value="x\nimport os")
@example(value="x # comment")
@example(value="(x\n  + 1)")
@example(value="x if")
@example(value="lambda: (yield)")
@example(value="x := 1")
@example(value="*x")
@LIMITS
def test_a_call_that_is_no_expression_is_refused(name: str, value: str) -> None:
    outcome = render_timing(name, f"--call={value}")
    if outcome.exit_code == 0:
        assert holds(outcome.stdout, ast.parse(value.strip(), mode="eval").body)
    else:
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert outcome.stderr.count("\n") == 1 and outcome.stderr.isascii()


@pytest.mark.parametrize("option", ["bytes", "flops", "items"])
@given(value=hostile_text)
@LIMITS
def test_other_expressions_are_expressions_or_refused(option: str, value: str) -> None:
    for name in PYTHON:
        if option not in SCENARIOS[name].options:
            continue
        outcome = render_timing(name, f"--{option}={value}")
        if outcome.exit_code == 0:
            assert holds(outcome.stdout, ast.parse(value.strip(), mode="eval").body)
        else:
            assert (outcome.exit_code, outcome.stdout) == (2, "")
            assert outcome.stderr.count("\n") == 1


NUMBERS = (
    "warmup_ms",
    "warmup_iterations",
    "iterations",
    "min_time_ms",
    "max_time_ms",
    "batch_size",
)


@pytest.mark.parametrize("option", [*NUMBERS, "rotate", "cache", "method", "arch", "launch"])
@given(value=st.one_of(hostile_text, st.text(alphabet="0123456789.eE+-_ naif", max_size=8)))
@example(value="--")
@example(value="1_0")
@example(value="0x10")
@example(value="1e999")
@example(value="nan")
@example(value="\u0663")
@LIMITS
def test_strict_options_refuse_what_they_do_not_know(option: str, value: str) -> None:
    flag = "--" + option.replace("_", "-")
    for name, scenario in SCENARIOS.items():
        if option not in scenario.options:
            continue
        outcome = render_timing(name, f"{flag}={value}")
        if outcome.exit_code == 0:
            assert "import os" not in outcome.stdout or "import os" in rendered(name)
            if scenario.language == "py":
                ast.parse(outcome.stdout)
        else:
            assert (outcome.exit_code, outcome.stdout) == (2, ""), outcome
            assert outcome.stderr.count("\n") == 1

"""Helpers that a scenario does not use are left out of its code; everything else stays."""

import ast

import pytest
from perf_timing.render import engine, scenarios
from perf_timing.render.unused import without_unused

CASES = {
    "a helper that nothing calls goes, with its comments and decorators": (
        "a = 1\n\n\n# About it.\n@f\ndef _helper():\n    return 1\n\n\ndef main():\n    pass\n",
        "a = 1\n\n\ndef main():\n    pass\n",
    ),
    "a helper of a helper that goes, goes as well": (
        "def _one():\n    return _T\n\n\n_T = {1: 2}\n\n\ndef _two():\n    _one()\n\n\nx = 1\n",
        "x = 1\n",
    ),
    "a helper that only calls itself goes": (
        "def _again(n):\n    _again.seen = 1\n    return n and _again(n - 1)\n\n\nx = 1\n",
        "x = 1\n",
    ),
    "what is read anywhere stays": (
        "def _helper():\n    return 1\n\n\n_BY_NAME = {'f': _helper}\nprint(_BY_NAME)\n",
        None,
    ),
    "a helper that another function names stays": (
        "def _helper():\n    return 1\n\n\ndef main():\n    return lambda: _helper()\n",
        None,
    ),
    "public names stay": ("def helper():\n    return 1\n\n\nLIMIT = 3\n", None),
}


@pytest.mark.parametrize("what", CASES)
def test_what_is_left_out(what: str) -> None:
    code, expected = CASES[what]
    assert without_unused(code) == (code if expected is None else expected)


@pytest.mark.parametrize(
    "name", [one.name for one in scenarios.load_all().values() if one.language == "py"]
)
def test_rendered_code_holds_no_helper_that_it_does_not_use(name: str) -> None:
    code = engine.render(scenarios.load_all()[name], {})
    functions = [
        node.name
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_")
    ]
    read = [node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    assert [function for function in functions if function not in read] == []


def test_private_functions_of_the_set_up_stay() -> None:
    setup = "import torch\n\n\ndef _mine():\n    pass\n\n\nx = torch.ones(1)"
    code = engine.render(scenarios.load_all()["kernel-time"], {"setup": setup, "call": "x + 1"})
    assert "def _mine():" in code

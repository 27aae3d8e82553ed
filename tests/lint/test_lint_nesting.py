"""C++ that is nested so deep that ast-grep would take gigabytes is named, and nothing else is."""

import pytest
from lint.lint_command import Lint, Project
from perf_timing.lint.parsing.nesting import DEEPEST, too_deep

DEEP = DEEPEST + 1


def test_a_file_of_five_hundred_levels_is_checked_and_one_of_five_thousand_named(
    lint: Lint, project: Project
) -> None:
    head = "void f(cudaEvent_t a, cudaEvent_t b, float* ms) {\n"
    inner = "cudaEventElapsedTime(ms, a, b);\n"
    project(
        {
            "few.cu": head + "if (x) {\n" * 500 + inner + "}\n" * 501,
            "many.cu": head + "if (x) {\n" * 5000 + inner + "}\n" * 5001,
        }
    )
    run = lint(".")
    assert run.status == 2
    assert run.err == "lint-timing: many.cu: its code is nested deeper than 1000 levels\n"


@pytest.mark.parametrize(
    "text",
    [
        "{" * DEEP + "}" * DEEP,
        "f(" * DEEP + ")" * DEEP,
        "if (x) { a[0]; } else " * DEEP + "g();",
        "if (x) a(); else\n" * DEEP + "g();",
        "{ if (x) a(); else " * (DEEP // 2 + 1),
    ],
    ids=["blocks", "calls", "branches with blocks", "branches of one statement", "both"],
)
def test_is_too_deep(text: str) -> None:
    assert too_deep(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f(x); " * 5000,
        "{" * 500 + "}" * 500,
        "if (x) { a(); } else { b(); }\n" * 5000,
        "if (x) a(); else b(); y = 1;\n" * 5000,
        'const char* t = "(((";\n' * 5000,
        "char c = '(';\n" * 5000,
        "// ((( else\n" * 5000,
        "/* ((( */\n" * 5000,
        "}" * 5000,
        "int elsewhere = 0;\n" * 5000,
    ],
    ids=[
        *("nothing", "many calls", "500 blocks", "many short branches", "many branches in a row"),
        *("brackets in strings", "brackets in characters", "brackets behind //", "in comments"),
        *("brackets that close nothing", "a word that begins with else"),
    ],
)
def test_is_not_too_deep(text: str) -> None:
    assert not too_deep(text)

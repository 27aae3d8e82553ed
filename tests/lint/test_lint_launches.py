"""Launches are written for the grammar: without directives inside, and with closed brackets."""

import pytest
from perf_timing.lint.parsing.launches import readable_launches

LAUNCH = "f<<<1, 1>>>(x,\n#if A\n  (int*)\n#endif\n  y);\nwait();\n"


def test_directives_among_the_arguments_become_spaces() -> None:
    found = readable_launches(LAUNCH)
    assert found == LAUNCH.replace("#if A", "     ").replace("#endif", "      ")


def test_a_directive_of_several_lines_goes_as_a_whole() -> None:
    text = "f<<<1, 1>>>(x\n# if A && \\\n   B\n, y\n# endif\n);\n"
    found = readable_launches(text)
    assert "#" not in found and "B" not in found
    assert len(found) == len(text) and found.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#if A\nf<<<1, 1>>>(x);\n#endif\n", id="around a launch"),
        pytest.param("f<<<1, 1>>>(\n#if A\n x);\n#else\n y);\n#endif\n", id="branches that close"),
        pytest.param(
            "f<<<1, 1>>>(x, '#', \"\\n#if\" /*\n#if A\n*/);\n", id="in texts and comments"
        ),
        pytest.param("g(x,\n#if A\n y,\n#endif\n z);\n", id="among the arguments of a call"),
        pytest.param("f<<<1, 1>>>(x,\n#if A\n", id="in a list that does not end"),
    ],
)
def test_directives_elsewhere_stay(text: str) -> None:
    assert readable_launches(text) == text


def test_brackets_with_spaces_in_them_are_closed_up() -> None:
    text = "f << < 1, 256 >> > (x, y);\nstd::cout << a << b;\n"
    found = readable_launches(text)
    assert found == "f <<< 1, 256   >>> (x, y);\nstd::cout << a << b;\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('f<<<1, 256>>>(x); cout << "<< <";', id="closed already"),
        pytest.param("std::map<int, std::vector<std::pair<int, int>> >(x << < y);", id="templates"),
        pytest.param("x << < a; b >> > (c);", id="two statements"),
    ],
)
def test_brackets_of_no_launch_stay(text: str) -> None:
    assert readable_launches(text) == text


def test_brackets_behind_template_arguments_are_closed_up() -> None:
    assert readable_launches("f <1024><< <1, 2 >> >(x);\n") == "f <1024><<<1, 2   >>>(x);\n"

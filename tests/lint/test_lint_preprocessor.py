"""Branches of the preprocessor that no compiler reads are not read by the linter either."""

import pytest
from lint.lint_command import Lint, Project
from perf_timing.lint.parsing.preprocessor import without_dead_branches

LIVING = {
    "a branch that a macro decides": "#if USE_HIP\na\n#else\nb\n#endif\n",
    "#ifdef": "#ifdef X\na\n#else\nb\n#endif\n",
    "#if 10": "#if 10\na\n#endif\n#if 0x1\nb\n#endif\n",
    "one of two conditions": "#if 0 || X\na\n#else\nb\n#endif\n#if 1 && X\na\n#else\nb\n#endif\n",
    "a comment that begins in a dead branch": "#if 0\n/* a\n#endif\n*/\nb\n",
    "a macro for times": "#ifdef DEBUG_TIME\na\n#endif\n#if defined(_DEBUG) || X\nb\n#endif\n",
    "a build for finding faults that the file asks for": (
        "#define DEBUG\n#ifdef DEBUG\na\n#endif\n#define VERBOSE 2\n#if VERBOSE\nb\n#endif\n"
    ),
    "a level below": "#if DEBUG < 1\na\n#endif\n#if VERBOSE == 0\nb\n#endif\n",
    "what is built for another device": (
        "#if !defined(ENABLE_CUDA) || !defined(ENABLE_HIP)\na\n#endif\n#ifndef USE_HIP\nb\n#endif\n"
    ),
    "an #else without an #if": "a\n#else\nb\n#endif\n",
    "an #if without an end": "#if 0\na\nb\n",
}
DEAD = {
    "#if 0": ("#if 0\na\n#endif\nb\n", "#if 0\n \n#endif\nb\n"),
    "#if 0 with #else": ("#if 0\na\n#else\nb\n#endif\n", "#if 0\n \n#else\nb\n#endif\n"),
    "the #else of #if 1": (
        "#if 1 // on\na\n#else\nb\n#endif\n",
        "#if 1 // on\na\n#else\n \n#endif\n",
    ),
    "in parentheses": ("# if (0) /* off */\na\n# endif\n", "# if (0) /* off */\n \n# endif\n"),
    "#elif 0": (
        "#if X\na\n#elif 0\nb\n#else\nc\n#endif\n",
        "#if X\na\n#elif 0\n \n#else\nc\n#endif\n",
    ),
    "all after #elif 1": (
        "#if X\na\n#elif 1\nb\n#elif Y\nc\n#else\nd\n#endif\n",
        "#if X\na\n#elif 1\nb\n#elif Y\n \n#else\n \n#endif\n",
    ),
    "a branch in a dead branch": (
        "#if 0\n#if X\na\n#else\nb\n#endif\nc\n#else\nd\n#endif\n",
        "#if 0\n     \n \n     \n \n      \n \n#else\nd\n#endif\n",
    ),
    "a dead branch in a branch": (
        "#ifdef X\n#if 0\na\n#endif\nb\n#else\nc\n#endif\n",
        "#ifdef X\n#if 0\n \n#endif\nb\n#else\nc\n#endif\n",
    ),
    "a build for finding faults": (
        "#ifdef DEBUG\na\n#else\nb\n#endif\n#if VERBOSE > 1\nc\n#endif\n",
        "#ifdef DEBUG\n \n#else\nb\n#endif\n#if VERBOSE > 1\n \n#endif\n",
    ),
    "all but the build that is measured": (
        "#ifndef NDEBUG\na\n#else\nb\n#endif\n#if !defined(_DEBUG)\nc\n#else\nd\n#endif\n",
        "#ifndef NDEBUG\n \n#else\nb\n#endif\n#if !defined(_DEBUG)\nc\n#else\n \n#endif\n",
    ),
    "what is built for no device": (
        "#if !defined(LIB_ENABLE_CUDA) && !defined(LIB_ENABLE_HIP)\na\n#else\nb\n#endif\n",
        "#if !defined(LIB_ENABLE_CUDA) && !defined(LIB_ENABLE_HIP)\n \n#else\nb\n#endif\n",
    ),
    "what the file switches off": (
        "#define CPU_DEBUG 0\n#if CPU_DEBUG\na\n#endif\n",
        "#define CPU_DEBUG 0\n#if CPU_DEBUG\n \n#endif\n",
    ),
    "0 && X, with line ends of Windows": (
        "#if 0 && X\r\na\r\n#endif\r\n",
        "#if 0 && X\r\n \r\n#endif\r\n",
    ),
}
PROGRAM = """\
#include <chrono>
void run(float *x, int n) {{
  auto t0 = std::chrono::steady_clock::now();
  scale<<<n / 256, 256>>>(x, n);
{wait}
  auto t1 = std::chrono::steady_clock::now();
  printf("%f s\\n", std::chrono::duration<double>(t1 - t0).count());
}}
"""
TEMPLATE = """\
{%% if profiled %%}
{# auto begun = std::chrono::steady_clock::now();
   it is told elsewhere #}
%s
{%% endif %%}
"""


@pytest.mark.parametrize("name", LIVING)
def test_what_some_compiler_reads_stays(name: str) -> None:
    assert without_dead_branches(LIVING[name]) == LIVING[name]


@pytest.mark.parametrize("name", DEAD)
def test_what_no_compiler_reads_is_blanked(name: str) -> None:
    text, expected = DEAD[name]
    assert without_dead_branches(text) == expected
    assert len(text) == len(expected)


def test_a_wait_in_a_dead_branch_is_none(lint: Lint, project: Project) -> None:
    dead = "#if 0\n  cudaDeviceSynchronize();\n#endif"
    alive = "#if 1\n  cudaDeviceSynchronize();\n#else\n  more<<<1, 1>>>(x);\n#endif"
    files = {"a.cu": PROGRAM.format(wait=dead), "b.cu": PROGRAM.format(wait=alive)}
    project(dict(files))
    found = lint("--select", "host-clock-without-sync", "--format", "concise", ".")
    assert "a.cu:8:" in found.out
    assert "b.cu" not in found.out


def test_a_wait_in_a_build_for_finding_faults_is_none(lint: Lint, project: Project) -> None:
    debug = "#ifdef DEBUG\n  cudaDeviceSynchronize();\n#endif"
    release = "#ifndef DEBUG\n  cudaDeviceSynchronize();\n#endif"
    project({"a.cu": PROGRAM.format(wait=debug), "b.cu": PROGRAM.format(wait=release)})
    found = lint("--select", "host-clock-without-sync", "--format", "concise", ".")
    assert "a.cu:8:" in found.out
    assert "b.cu" not in found.out


def test_findings_show_the_line_as_it_stands(lint: Lint, project: Project) -> None:
    dead = "#if 0\n  nothing();\n#endif"
    project({"a.cu": PROGRAM.format(wait=dead)})
    found = lint("--select", "host-clock-without-sync", "a.cu")
    assert "auto t1 = std::chrono::steady_clock::now();" in found.out


def test_remarks_of_a_template_are_no_code() -> None:
    text = TEMPLATE % "scale<<<1, 1>>>(x); {# once #} more();"
    living = without_dead_branches(text)
    assert "steady_clock" not in living and "once" not in living
    assert "scale<<<1, 1>>>(x);" in living and "more();" in living
    assert [len(line) for line in living.split("\n")] == [len(line) for line in text.split("\n")]


def test_what_a_macro_makes_a_text_of_is_no_remark() -> None:
    text = "#define NAMED(a, b) {#a, a}, {#b, b}\n"
    assert without_dead_branches(text) == text

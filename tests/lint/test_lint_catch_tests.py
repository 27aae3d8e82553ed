"""Tests of Catch2 are read as the functions that they are; nothing else changes."""

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.model import Unit
from perf_timing.lint.parsing.catch_tests import as_functions


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('TEST_CASE("copies, twice", "[stream]")', "copies__twice"),
        ('TEST_CASE( "Unit_hipEvent - \\"x\\"" )', "Unit_hipEvent"),
        ('TEMPLATE_TEST_CASE("sums", "[a][b]", int, float)', "sums"),
        ('TEMPLATE_TEST_CASE_SIG("sums", "", ((int V), V), 1, 2)', "sums"),
        ('TEST_CASE_METHOD(Fixture, "3 kernels")', "__kernels"),
        ('SCENARIO("a (long) stream")', "a__long__stream"),
        ('TEST_CASE("one"\n          " name", "[x]")', "one"),
        ('HIP_TEST_CASE("", "[x]")', ""),
    ],
)
def test_headers_become_functions(header: str, name: str) -> None:
    text = f"{header} {{\n  run();\n}}\n"
    changed = as_functions(text)
    assert len(changed) == len(text)
    assert changed.count("\n") == text.count("\n")
    assert changed.endswith(" {\n  run();\n}\n")
    assert '"' not in changed
    assert name in changed.partition("(")[2].partition(")")[0]


@pytest.mark.parametrize(
    "text",
    [
        "TEST(Streams, Overlap) {\n  run();\n}\n",
        'TEST_CASE("declared elsewhere", "[x]");\n',
        'void f() {\n  SECTION("x") { run(); }\n}\n',
        '#define TEST_CASE(name) void name()\nconst char *t = "TEST_CASE(";\n',
        'TEST_CASE("never closed", "[x]" {\n',
    ],
    ids=["googletest", "no body", "a section", "a definition", "never closed"],
)
def test_other_text_stays(text: str) -> None:
    assert as_functions(text) == text


def test_what_one_test_names_is_not_what_the_next_one_means() -> None:
    test = """\
TEST_CASE("{name}") {{
  cudaEvent_t start, stop;
  cudaEventCreate{flags};
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  {read}
}}
"""
    untimed = "WithFlags(&start, cudaEventDisableTiming)"
    read = 'cudaEventElapsedTime(&ms, start, stop); printf("%f", ms);'
    rules = [rule for rule in catalog.load_rules() if rule.name == "event-without-timing"]
    for first_read, found in (("", []), (read, [3])):
        text = test.format(name="orders", flags=untimed, read=first_read)
        text += test.format(name="times", flags="(&start)", read=read)
        findings = check.check([Unit("t.cu", "cuda", text)], rules).findings
        assert [f.line for f in findings] == found

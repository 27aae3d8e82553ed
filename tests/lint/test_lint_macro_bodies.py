"""Macros that hold a whole measurement are read as functions, line for line."""

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.model import Unit
from perf_timing.lint.parsing.macro_bodies import as_functions

MEASURES = """\
#define RUN(BLOCK, SHARED)                       \\
  auto t0 = std::chrono::steady_clock::now();    \\
  for (int i = 0; i < repeat; i++)               \\
    scale<BLOCK><<<grid, BLOCK, SHARED>>>(x, n); \\
  {wait}                                         \\
  auto t1 = std::chrono::steady_clock::now();    \\
  std::chrono::duration<double> took = t1 - t0;  \\
  printf("%f s\\n", took.count() / repeat)

void bench(float *x, int n, int repeat) {{
  {warmup}
  RUN(256, 0);
}}
int main() {{ bench(d_x, 1 << 20, 100); }}
"""
EVENTS = """\
#define TIME_IT(ms, count, func)             \\
  do {                                       \\
    cudaEventRecord(start);                  \\
    for (int i = 0; i < count; ++i) {        \\
      func;                                  \\
    }                                        \\
    cudaEventRecord(stop);                   \\
    cudaEventSynchronize(stop);              \\
    cudaEventElapsedTime(&ms, start, stop);  \\
  } while (0)
"""
ONE_READING = """\
#define START(label)                                    \\
  std::chrono::time_point<std::chrono::system_clock> t; \\
  t = std::chrono::system_clock::now();
"""
WAIT = "cudaDeviceSynchronize();"


def found(text: str) -> list[tuple[str, int]]:
    """(rule, line) of what is reported in a C++ text."""
    unit = Unit("bench.cu", "cuda", text)
    return [(f.rule, f.line) for f in check.check([unit], catalog.load_rules()).findings]


def test_what_a_macro_measures_is_judged_on_its_lines() -> None:
    text = MEASURES.format(wait="", warmup="")
    assert {("host-clock-without-sync", 6), ("missing-warmup", 2)} <= set(found(text))


@pytest.mark.parametrize(
    "warmup",
    [
        pytest.param("scale<256><<<grid, 256>>>(x, n);\n  " + WAIT, id="the kernel ran before"),
        pytest.param("RUN(256, 0);\n  for (int i = 0; i < 9; ++i)", id="the macro runs again"),
    ],
)
def test_a_macro_that_waits_and_is_warm_is_clean(warmup: str) -> None:
    rules = {rule for rule, _ in found(MEASURES.format(wait=WAIT, warmup=warmup))}
    assert "host-clock-without-sync" not in rules
    assert "missing-warmup" not in rules or "RUN" in warmup


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MEASURES.format(wait=WAIT, warmup=""), id="statements"),
        pytest.param(EVENTS, id="a loop that runs once"),
        pytest.param(MEASURES.replace(" \\\n", "\\\n"), id="no space before the backslashes"),
        pytest.param(EVENTS.replace(" while (0)\n", " while (0)  \\\n\n"), id="an empty last line"),
        pytest.param(MEASURES.replace("\n\nvoid", " \\\n\nvoid"), id="statements, an empty line"),
    ],
)
def test_the_text_keeps_its_length_and_its_lines(text: str) -> None:
    written = as_functions(text)
    assert written != text and "#define" not in written
    assert len(written) == len(text) and written.count("\n") == text.count("\n")
    assert written.count("{") == written.count("}")


def test_a_loop_that_runs_once_goes_and_a_parameter_is_called() -> None:
    written = as_functions(EVENTS)
    assert "while" not in written and "do" not in written.replace("void", "")
    assert "func();" in written
    assert as_functions(EVENTS.replace("func;  ", "func(x);")) != EVENTS


def test_what_is_passed_to_a_macro_and_left_running_is_seen() -> None:
    text = (
        EVENTS.replace("cudaEventRecord(start)", "double t0 = seconds()")
        .replace("cudaEventRecord(stop)", "ms = seconds() - t0")
        .replace("cudaEventSynchronize(stop);", "")
        .replace("cudaEventElapsedTime(&ms, start, stop);", 'printf("%f", ms);')
    )
    use = "void bench() {\n  double ms;\n  TIME_IT(ms, 10, scale<<<64, 256>>>(x));\n}\n"
    assert ("host-clock-without-sync", 7) in found(text + use)
    host = "void bench() {\n  double ms;\n  TIME_IT(ms, 10, std::sort(x, x + n));\n}\n"
    assert ("host-clock-without-sync", 7) not in found(text + host + "__global__ void k();\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ONE_READING, id="one reading is no measurement"),
        pytest.param("#define NOW() std::chrono::steady_clock::now()\n", id="a macro of one line"),
        pytest.param("#define CHECK(x) \\\n  do { x; } while (0)\n", id="no reading"),
        pytest.param("void f() {\n" + EVENTS + "  TIME_IT(a, 1, g());\n}\n", id="in a function"),
        pytest.param("#if A\n#else\n#endif\nauto t = now() - now();\n", id="no macro at all"),
    ],
)
def test_other_macros_stay(text: str) -> None:
    assert as_functions(text) == text


def test_a_macro_that_launches_what_it_is_given_stays_where_that_ran_elsewhere() -> None:
    macro = MEASURES[: MEASURES.index("\n\nvoid")].replace("RUN(BLOCK, SHARED)", "RUN(kernel)")
    macro = macro.replace("scale<BLOCK><<<grid, BLOCK, SHARED>>>", "kernel<<<grid, 256>>>")
    use = "\n\nint main() {\n  RUN(scale);\n}\n"
    assert as_functions(macro + use).startswith("void ")
    before = use.replace("RUN(", "scale<<<1, 32>>>(x, n);\n  RUN(")
    assert as_functions(macro + before) == macro + before
    remark = use.replace("RUN(", "// scale<<<1, 32>>>(x, n);\n  RUN(")
    assert as_functions(macro + remark).startswith("void ")

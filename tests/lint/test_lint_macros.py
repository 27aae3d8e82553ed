"""Calls in C++ macros that stand without a semicolon are statements; nothing else changes."""

import pytest
from lint.lint_command import Lint, Project
from perf_timing.lint.parsing.macros import as_statements

PROGRAM = """\
#define CHECK(call) { if ((call) != cudaSuccess) exit(1); }
int main() {
  scale<<<64, 256>>>(x);
  CHECK( cudaDeviceSynchronize() )
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; i++) {
    CHECK( cusparseSpMV(handle, op, &one, a, x, &nil, y, kind, algorithm,
                        buffer) )  // "(" is text
  }
  CHECK( cudaDeviceSynchronize() )
  auto end = std::chrono::steady_clock::now();
  printf("%f us\\n", std::chrono::duration<double, std::micro>(end - start).count() / 100);
}
"""


def test_calls_become_statements_at_their_places() -> None:
    changed = as_statements(PROGRAM)
    assert len(changed) == len(PROGRAM)
    lines = changed.split("\n")
    assert lines[3].strip() == "cudaDeviceSynchronize() ;"
    assert lines[3].index("cudaDevice") == PROGRAM.split("\n")[3].index("cudaDevice")
    assert lines[7].strip().startswith("buffer) ;")
    unchanged = {n for n, line in enumerate(PROGRAM.split("\n")) if line == lines[n]}
    assert unchanged == set(range(len(lines))) - {3, 6, 7, 9}


@pytest.mark.parametrize(
    "text",
    [
        "int main() {\n  CHECK(cudaFree(x));\n  y();\n}\n",
        "int main() {\n  if (CHECK(f(x)) && g()) h();\n}\n",
        "int main() {\n  return\n  CHECK(f(x))\n  + 1;\n}\n",
        "  TEST(sum(), adds)\n  {\n    f();\n  }\n",
        "int main() {\n  PUSH_RANGE(\"MPI\", 5)\n  f();\n}\n",
        "int main() {\n  int n = CHECK(f(x)) ? 1 : 2;\n}\n",
        "int main() {\n  CHECK(f(x)\n  y();\n}\n",
    ],
    ids=[
        "a semicolon stands there", "in a condition", "in an expression", "before a body",
        "no call inside", "beside an operator", "a parenthesis that never closes",
    ],
)  # fmt: skip
def test_other_text_stays_as_it_is(text: str) -> None:
    assert as_statements(text) is text


def test_waits_in_such_macros_are_seen(lint: Lint, project: Project) -> None:
    project({"a.cu": PROGRAM})
    names = {f["rule"] for f in lint("a.cu", "--format", "json").findings}
    assert not names & {"host-clock-without-sync", "unsynced-clock-start"}
    late = PROGRAM.replace("  CHECK( cudaDeviceSynchronize() )\n  auto end", "  auto end")
    project({"b.cu": late})
    run = lint("b.cu")
    assert "host-clock-without-sync" in run.out


BARE = """\
int main() {
  cudaDeviceSynchronize(); ERRCHECK
  times[i] = t;
  scale<<<64, 256>>>(x); ERRCHECK  // of the launch
  ERRCHECK
  y = 3;
  for (;;) { f(); ERRCHECK }
  const int one = x ? 1 : 2; ERRCHECK
  {
    g();
  }
}
"""


def test_bare_macros_behind_statements_become_statements() -> None:
    changed = as_statements(BARE)
    assert len(changed) == len(BARE)
    lines = changed.split("\n")
    assert lines[1] == "  cudaDeviceSynchronize();ERRCHECK;"
    assert lines[3].startswith("  scale<<<64, 256>>>(x);ERRCHECK;")
    unchanged = {n for n, line in enumerate(BARE.split("\n")) if line == lines[n]}
    assert unchanged == set(range(len(lines))) - {1, 3}


def test_samples_behind_a_bare_macro_are_seen(lint: Lint, project: Project) -> None:
    code = """\
float measure(Table& table, int iterations) {
  std::vector<float> times(iterations);
  for (int i = 0; i < iterations; i++) {
    cudaEventRecord(a);
    scale<<<64, 256>>>(x);
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    cudaEventElapsedTime(&t, a, b);
    cudaDeviceSynchronize(); ERRCHECK
    times[i] = t;
  }
  return *std::min_element(times.begin(), times.end());
}
"""
    project({"bench.cu": code, "mean.cu": code.replace("*std::min_element(", "mean(")})
    assert "missing-warmup" not in {
        f["rule"] for f in lint("bench.cu", "--format", "json").findings
    }
    assert "missing-warmup" in {f["rule"] for f in lint("mean.cu", "--format", "json").findings}

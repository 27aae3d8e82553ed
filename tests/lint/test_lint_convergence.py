"""Loops that the device decides about are told from loops that count or watch a clock."""

import pytest
from lint.test_engine import source
from perf_timing.lint.intent import convergence


def asked(body: str, head: str = "while (err > tol)") -> tuple[bool, bool]:
    """(steered, runs_to_tolerance) of the one loop of a measured C++ program."""
    text = f"""int main() {{
  auto t0 = std::chrono::steady_clock::now();
  {head} {{
    smooth<<<64, 256, 0, s>>>(y, x, err_d);
    {body}
  }}
  auto t1 = std::chrono::steady_clock::now();
  printf("%f", std::chrono::duration<double>(t1 - t0).count());
}}
"""
    file = source(text, "cuda")
    region = next(g for g in file.regions.all if g.end.line > 4)
    wait = next(s for s in region.steps if s.waits)
    loop = region.inner_loops(wait.site)[0]
    return convergence.steered(loop, region.steps), convergence.runs_to_tolerance(region)


@pytest.mark.parametrize(
    "body",
    [
        "cudaStreamSynchronize(s); err = *err_h;",
        "cudaMemcpy(&err, err_d, 4, cudaMemcpyDeviceToHost);",
        "cudaStreamSynchronize(s); MPI_Allreduce(err_h, &err, 1, MPI_FLOAT, MPI_MAX, comm);",
        "cudaStreamSynchronize(s); if (n % 10 == 0) { sum += *err_h; err = sqrt(sum); }",
    ],
)
def test_a_result_that_the_condition_compares_steers_the_loop(body: str) -> None:
    assert asked(body) == (True, True)


def test_a_flag_that_holds_a_comparison_is_followed() -> None:
    body = "cudaStreamSynchronize(s); more = (*err_h > tol);"
    assert asked(body, "while (more && n < most)") == (True, True)


def test_a_flag_without_a_bound_is_no_tolerance() -> None:
    body = "cudaMemcpyAsync(found, found_d, 4, cudaMemcpyDeviceToHost); cudaStreamSynchronize(s);"
    assert asked(body, "while (*found)") == (True, False)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("while (n < most)", "cudaStreamSynchronize(s); n++;"),
        ("while (n < most)", "cudaStreamSynchronize(s); n = n + 1;"),
        ("for (int i = 0; i < 100; ++i)", "cudaStreamSynchronize(s); total += 1;"),
        ("while (spent < 1.0)", "cudaStreamSynchronize(s); spent = omp_get_wtime() - t;"),
        ("for (int i = 0; i < 9; ++i)", "rc = cudaStreamSynchronize(s); if (rc) return 1;"),
        ("while (true)", "cudaStreamSynchronize(s); e = cudaGetLastError(); if (e) break;"),
    ],
)  # fmt: skip
def test_counters_clocks_and_status_do_not_steer(head: str, body: str) -> None:
    assert asked(body, head) == (False, False)

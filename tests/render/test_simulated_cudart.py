"""The simulated CUDA runtime: a compiled program meets the same launch costs, events and cache."""

from __future__ import annotations

import pathlib

import pytest
from simulated_device.program import Done, build, has_compilers, run_program

pytestmark = pytest.mark.skipif(not has_compilers(), reason="needs nvcc and g++")

SOURCE = r"""
#include <chrono>
#include <cstdio>
#include <cstdlib>
__global__ void work(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
__global__ void spin(long long cycles) {
  long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}
static float window(cudaStream_t s, float* x, int calls, long long gate) {
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  cudaDeviceSynchronize();
  if (gate) spin<<<1, 1, 0, s>>>(gate);
  cudaEventRecord(a, s);
  for (int i = 0; i < calls; ++i) work<<<4, 256, 0, s>>>(x, 1000);
  cudaEventRecord(b, s);
  cudaEventSynchronize(b);
  float ms = -1.0f;
  cudaEventElapsedTime(&ms, a, b);
  return ms * 1e3f;
}
int main() {
  float *x, *flush;
  cudaMalloc(&x, 4096);
  cudaMalloc(&flush, 256 << 20);
  cudaStream_t s;
  cudaStreamCreate(&s);
  for (int i = 0; i < 20000; ++i) work<<<4, 256, 0, s>>>(x, 1000);
  spin<<<1, 1, 0, s>>>(1);
  std::printf("launch_bound %.3f\n", window(s, x, 200, 0) / 200);
  std::printf("hidden %.3f\n", (window(s, x, 200, 4000000) - window(s, x, 1, 4000000)) / 199);
  cudaMemsetAsync(flush, 0, 256 << 20, s);
  std::printf("cold %.3f\n", window(s, x, 1, 4000000) - 2.65);
  std::printf("warm %.3f\n", window(s, x, 1, 4000000) - 2.65);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  for (int i = 0; i < 100; ++i) work<<<4, 256, 0, s>>>(x, 1000);
  cudaStreamEndCapture(s, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  auto begin = std::chrono::steady_clock::now();
  cudaGraphLaunch(exec, s);
  cudaStreamSynchronize(s);
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  std::printf("graph %.3f\n", took.count() / 100);
  cudaStream_t second;
  cudaStreamCreate(&second);
  for (int i = 0; i < 20; ++i) work<<<4, 256, 0, second>>>(x, 1000);
  cudaDeviceSynchronize();
  begin = std::chrono::steady_clock::now();
  cudaGraphLaunch(exec, s);
  cudaStreamSynchronize(s);
  took = std::chrono::steady_clock::now() - begin;
  std::printf("graph_two_streams %.3f\n", took.count() / 100);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  std::printf("refused %d\n", cudaDeviceSynchronize() != cudaSuccess);
  std::printf("broken %d\n", cudaStreamEndCapture(s, &graph) != cudaSuccess);
  work<<<1, 2048, 0, s>>>(x, 1);
  std::printf("error %s\n", cudaGetErrorString(cudaGetLastError()));
}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder: pathlib.Path = tmp_path_factory.mktemp("program")
    return run_program(build(SOURCE, folder), {"4work": (2.0, 9.0)}, spin=["4spin"])


def test_a_program_sees_the_costs_of_the_simulated_runtime(done: Done) -> None:
    assert done.exit_code == 0, done.stderr
    read = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert float(read["launch_bound"]) == pytest.approx(3.0, abs=0.1)
    assert float(read["hidden"]) == pytest.approx(3.0, abs=0.03)
    assert float(read["cold"]) == pytest.approx(9.0, abs=0.15)
    assert float(read["warm"]) == pytest.approx(2.0, abs=0.1)
    assert float(read["graph"]) == pytest.approx(1.9 + 0.19, abs=0.05)
    assert float(read["graph_two_streams"]) == pytest.approx(2.08 + 0.19, abs=0.05)
    assert (read["refused"], read["broken"]) == ("1", "1")
    assert read["error"] == "invalid configuration argument"

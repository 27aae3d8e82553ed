"""Decides from a file's bytes whether any rule could report something in it.

Most files hold no timing code at all. They are read, but neither parsed nor handed to ast-grep.
The words below are a superset of what the rules look for; a test holds every rule's examples
against them.
"""

import re

# What times, marks or profiles.
_PYTHON_TIMING = (
    b"perf_counter", b"time.time", b"monotonic", b"process_time", b"elapsed_time", b"Event(",
    b"timeit", b"do_bench", b"nvtx", b"profil", b"default_timer", b"import time", b"%time",
)  # fmt: skip
# What runs on a device. Without one of these words in the file, a clock measures the host.
_PYTHON_DEVICE = re.compile(
    rb"torch|cuda|cupy|numba|jax|triton|cutlass|cute|nvtx|tensorrt|\bhip|xpu|accelerator"
)
_CUDA_TIMING = (
    b"cudaEvent", b"hipEvent", b"chrono", b"nvtx", b"clock(", b"gettimeofday", b"clock_gettime",
    b"cuEvent", b"<<<", b"cudaDeviceProp", b"hipDeviceProp", b"omp_get_wtime", b"MPI_Wtime",
    b"cudaDeviceGetAttribute",
)  # fmt: skip


def may_match(data: bytes, language: str) -> bool:
    """Whether a file with these bytes (ASCII-compatible text) could hold anything to report."""
    if b"lint-timing:" in data:
        return True  # suppressions that silence nothing are reported
    if language == "cuda":
        return any(word in data for word in _CUDA_TIMING)
    return any(word in data for word in _PYTHON_TIMING) and bool(_PYTHON_DEVICE.search(data))

"""Decides from a file's bytes whether any rule could report something in it.

Most files hold no timing code at all. They are read, but neither parsed nor handed to ast-grep.
The words below are a superset of what the rules look for; a test holds every rule's examples
against them. Plain words are searched for, which is ten times faster than a regular expression.
"""

# Where a measurement begins or ends. A file without the key holds none of the words behind it.
PYTHON_MEASURING = {
    "tim": (
        *("time.time", "time()", "process_time", "thread_time", "elapsed_time", "timeit"),
        *("time_ns", "default_timer", "_ipython_time", "%time", "enable_timing"),
        *("from time import", "_time_total", "datetime.now", "datetime.utcnow"),
    ),
    "Timer(": ("Timer(",),
    "perf_counter": ("perf_counter",),
    "monotonic(": ("monotonic(",),
    "raph": ("CUDAGraph(", "cuda.graph(", "make_graphed"),
    "capture_begin": ("capture_begin",),
    "bench": (
        *("do_bench", "testing.benchmark", "bench_gpu", "bench_kineto", "benchmark("),
        *(".profile(", ".measure("),
    ),
    "autorange": ("autorange",),
    "cuda.core": (".record(",),
}
# What rules report by itself, whatever surrounds it.
PYTHON_LOCAL = {
    "nvtx": ("nvtx",),
    "cuda_": ("cuda_time", "cuda_memory_usage"),
    "key_averages": ("key_averages",),
    "profil": ("use_cuda",),
    "cute": ("cute.testing",),
    "triton": ("fast_flush", "percentiles"),
    "cupy": ("cupyx", "cupy.prof", "getDeviceProperties"),
    "torch.utils": ("bottleneck",),
    "_device_properties": ("get_device_properties",),
    "lint-timing:": ("lint-timing:",),
}
CUDA_WORDS = (
    *("cudaEvent", "hipEvent", "cuEvent", "CUDAEvent", "chrono", "nvtx", "roctx", "clock("),
    *("lapsed", "gettimeofday", "clock_gettime", "omp_get_wtime", "Wtime", "sdkStartTimer"),
    *("tart_timer", "tartTimer", "QueryPerformance", "GraphLaunch", "BeginCapture", "nvbench"),
    *("benchmark::State",),
    *("cudaDeviceProp", "hipDeviceProp", "DeviceGetAttribute", "GetDeviceProperties", "<<<"),
    *("lint-timing:",),
)
_PYTHON_BYTES = tuple(
    (key.encode("ascii"), tuple(word.encode("ascii") for word in words))
    for key, words in (*PYTHON_MEASURING.items(), *PYTHON_LOCAL.items())
)
_CUDA_BYTES = tuple(word.encode("ascii") for word in CUDA_WORDS)


def may_match(data: bytes, language: str) -> bool:
    """Whether a file with these bytes (ASCII-compatible text) could hold anything to report."""
    if language == "cuda":
        return any(word in data for word in _CUDA_BYTES)
    return _python_may_match(data)


def _python_may_match(data: bytes) -> bool:
    # A loop: any() over a generator would cost half again as much.
    for key, words in _PYTHON_BYTES:
        if key in data:
            for word in words:
                if word in data:
                    return True
    return False

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
        *("time_till", "time_since", "Wtime", "clock_gettime", "time.clock", "_get_time"),
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
    "cute": ("cute.testing",),
    "triton": ("fast_flush", "percentiles"),
    "cupy": ("cupyx", "cupy.prof", "getDeviceProperties"),
    "torch.utils": ("bottleneck",),
    "_device_properties": ("get_device_properties",),
    "lint-timing:": ("lint-timing:",),
}
CUDA_WORDS = {
    "Event": ("cudaEvent", "hipEvent", "cuEvent", "CUDAEvent"),
    "chrono": ("chrono",),
    "nvtx": ("nvtx",),
    "roctx": ("roctx",),
    "clock": ("clock(", "clock_gettime"),
    "lapsed": ("lapsed",),
    "gettimeofday": ("gettimeofday",),
    "wtime": ("omp_get_wtime",),
    "Wtime": ("Wtime",),
    "imer": ("sdkStartTimer", "tart_timer", "tartTimer"),
    "get_time": ("get_time_us(", "get_time_ms(", "get_time()"),
    "QueryPerformance": ("QueryPerformance",),
    "GraphLaunch": ("GraphLaunch",),
    "BeginCapture": ("BeginCapture",),
    "bench": ("nvbench", "benchmark::State"),
    "DeviceProp": ("cudaDeviceProp", "hipDeviceProp", "GetDeviceProperties"),
    "DeviceGetAttribute": ("DeviceGetAttribute",),
    "<<<": ("<<<",),
    "LaunchKernel": ("LaunchKernel",),
    "lint-timing:": ("lint-timing:",),
}


def _as_bytes(*tables: dict[str, tuple[str, ...]]) -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
    return tuple(
        (key.encode("ascii"), tuple(word.encode("ascii") for word in words))
        for table in tables
        for key, words in table.items()
    )


_BYTES = {"python": _as_bytes(PYTHON_MEASURING, PYTHON_LOCAL), "cuda": _as_bytes(CUDA_WORDS)}


def may_match(data: bytes, language: str) -> bool:
    """Whether a file with these bytes (ASCII-compatible text) could hold anything to report."""
    # A loop: any() over a generator would cost half again as much.
    for key, words in _BYTES[language]:
        if key in data:
            for word in words:
                if word in data:
                    return True
    return False

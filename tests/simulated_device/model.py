"""Parameters of the simulated GPU and of its host.

The defaults are figures measured on an H200 (torch 2.11, CUDA 13.0): launch costs, the event floor,
the gaps between kernels, L2 size, clocks. Times are in microseconds unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20


@dataclass
class DeviceModel:
    """What one simulated run behaves like; change a field to build a harder world."""

    # --- identity -------------------------------------------------------------------------------
    name: str = "NVIDIA H200"
    device_count: int = 1
    has_gpu: bool = True
    seed: int = 0
    torch_version: str = "2.11.0+cu130"
    cuda_version: str | None = "13.0"
    triton_version: str = "3.6.0"
    cute_version: str = "4.8.1"
    driver_version: str = "580.95.05"
    compute_capability: tuple[int, int] = (9, 0)
    sm_count: int = 132
    memory_bytes: int = 150_000_000_000
    l2_bytes: int = 60 * MIB
    has_nvml: bool = True
    has_triton: bool = True
    has_cutlass: bool = True

    # --- host costs -----------------------------------------------------------------------------
    clock_read_us: float = 0.05
    launch_us: float = 4.0
    dispatch_us: float = 3.5
    event_create_us: float = 0.5
    event_record_us: float = 2.5
    event_query_us: float = 0.7
    sync_us: float = 8.0
    graph_launch_us: float = 6.0
    graph_instantiate_us_per_node: float = 1.0
    malloc_us: float = 150.0
    cached_malloc_us: float = 0.5
    nvml_call_us: float = 60.0
    first_call_ms: float = 4.0
    context_ms: float = 150.0
    profiler_launch_us: float = 1.0

    # --- device costs ---------------------------------------------------------------------------
    submit_latency_us: float = 2.0
    eager_gap_us: float = 1.0
    graph_gap_us: float = 0.05
    graph_memory_gap_us: float = 0.0  # more, after a short kernel that touches memory
    graph_min_period_us: float = 1.3
    graph_start_us: float = 3.0
    graph_upload_us: float = 100.0  # in the first replay only
    graph_spread: float = 0.0  # by which captures of the same call differ
    event_us: float = 1.25
    event_kernel_us: float = 0.95
    fetched_ahead: int = 27  # so near to the end of what is queued, an event pair adds less
    fetched_ahead_us: float = 0.65
    event_resolution_us: float = 0.032
    queue_limit: int = 1000
    serialize_launches: bool = False
    persisting_l2: bool = False
    writeback_fraction: float = 0.0

    # --- throughput -----------------------------------------------------------------------------
    kernel_fixed_us: float = 0.9
    cold_fixed_us: float = 1.4
    hbm_bytes_per_us: float = 4.3e6
    l2_bytes_per_us: float = 6.5e6
    flops_per_us: float = 750e6
    gemm_fixed_us: float = 2.5
    pcie_bytes_per_us: float = 25e3

    # --- noise ----------------------------------------------------------------------------------
    jitter: float = 0.003
    spike_probability: float = 0.001
    spike_us: float = 15.0
    host_jitter: float = 0.02

    # --- clocks ---------------------------------------------------------------------------------
    boost_mhz: float = 1980.0
    idle_mhz: float = 345.0
    memory_mhz: float = 3201.0
    ramp_ms: float = 15.0
    ramp_start: float = 0.7
    idle_reset_s: float = 2.0
    power_cap_after_s: float | None = None
    power_cap_mhz: float = 1500.0
    power_cap_fall_s: float = 0.3
    thermal_after_s: float | None = None
    thermal_mhz: float = 1200.0

    # --- profiler -------------------------------------------------------------------------------
    first_profile_empty: bool = True
    profile_drops_head: int = 0
    profile_never_records: bool = False

    # --- the run --------------------------------------------------------------------------------
    virtual_limit_s: float = 900.0
    real_limit_s: float = 60.0
    # Kernels written in a DSL have no body here: name -> microseconds or a full Kernel description.
    kernels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Called once with the Machine before the script starts.
    prepare: Callable[[Any], None] | None = None

    @property
    def torch_release(self) -> tuple[int, int]:
        """(major, minor) of the simulated torch."""
        major, minor = self.torch_version.split(".")[:2]
        return int(major), int(minor)

"""Timed loops on the simulated device: events, overlap of host and device, blocking copies."""

from pathlib import Path
from typing import Any

import pytest
from inject.injected import code, instrumented
from simulated_device import DeviceModel, Result, run_script

HEAD = code("""
    import time

    import simulated
    import torch

    quiet = dict(bytes=0)


    class Loader:
        def __init__(self, count, wait_s=0.0, stall_s=0.0, make=None):
            self.count, self.wait_s, self.stall_s = count, wait_s, stall_s
            self.make = make or (lambda: torch.empty(16, 4))

        def __iter__(self):
            for number in range(self.count):
                time.sleep(self.wait_s + (self.stall_s if number % 32 == 31 else 0))
                yield self.make()


    def wall(loop):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        loop()
        torch.cuda.synchronize()
        print("wall", time.perf_counter() - begun)


    torch.empty(1, device="cuda")
    """)


def simulate(
    folder: Path, text: str, *options: str, **device: Any
) -> tuple[dict[str, Any], float, Result]:
    """Instrument the text behind HEAD and run it; (record, its own wall time in s, the run)."""
    source = HEAD + code(text)
    line = 1 + next(n for n, row in enumerate(source.splitlines()) if row.endswith("# loop"))
    path = instrumented(folder, source, "--loop", str(line), "--json", "out.json", *options)
    quiet = {"jitter": 0.0, "host_jitter": 0.0, "spike_probability": 0.0}
    result = run_script(path.read_text(), DeviceModel(**(quiet | device)))
    assert result.exit_code == 0, str(result)
    assert result.record is not None, str(result)
    wall = next(row for row in result.stdout.splitlines() if row.startswith("wall"))
    return result.record, float(wall.split()[1]), result


PLAIN = """
    op = simulated.kernel("step", {us}, **quiet)

    def loop():
        for batch in Loader({count}, {wait_s}):  # loop
            op()

    wall(loop)
    """


@pytest.mark.parametrize("us", [3_000.0, 30_000.0, 250_000.0])
@pytest.mark.parametrize("method", ["event", "sync"])
def test_step_time_is_that_of_the_device(us: float, method: str, tmp_path: Path) -> None:
    record, wall_s, _ = simulate(
        tmp_path,
        PLAIN.format(us=us, count=60, wait_s=0.0),
        *("--method", method, "--warmup-steps", "0"),
    )
    assert record["step_us"]["median_us"] == pytest.approx(us, rel=0.02)
    told_us = sum(record["step_us"]["samples_us"]) + sum(record["data_wait_us"]["samples_us"])
    assert told_us / 1e6 == pytest.approx(wall_s, rel=0.01)
    assert record["wall_s"] == pytest.approx(wall_s, rel=0.01)
    assert record["method"] == method
    assert record["items_per_s"] == pytest.approx(16 * 60 / wall_s, rel=0.01)


def test_events_leave_the_loop_as_fast_as_it_was(tmp_path: Path) -> None:
    # 1 ms of the host's own work is hidden behind 3 ms on the device: a wait would show it.
    text = """
        op = simulated.kernel("step", 3_000.0, **quiet)

        def loop():
            for batch in Loader(100):  # loop
                time.sleep(0.001)
                op()

        wall(loop)
        """
    bare = HEAD + code(text)
    out = run_script(bare, DeviceModel(jitter=0.0, host_jitter=0.0, spike_probability=0.0)).stdout
    bare_s = float(out.split()[1])
    _, event_s, _ = simulate(tmp_path, text)
    _, sync_s, _ = simulate(tmp_path, text, "--method", "sync")
    assert event_s / bare_s < 1.005
    assert sync_s / bare_s > 1.3


def test_a_loop_that_the_host_bounds_records_few_events(tmp_path: Path) -> None:
    # Every event costs the host time, which nothing hides where launches are the bottleneck.
    text = """
        op = simulated.kernel("step", 20.0, **quiet)
        records = []
        record = torch.cuda.Event.record

        def counted(event, *stream):
            records.append(event)
            return record(event, *stream)

        torch.cuda.Event.record = counted

        def loop():
            for batch in [torch.empty(16, 4)] * 1000:  # loop
                batch = batch.to("cuda", non_blocking=True)
                op()

        wall(loop)
        print("records", len(records))
        """
    *_, result = simulate(tmp_path, text)
    count = next(row for row in result.stdout.splitlines() if row.startswith("records"))
    # One a step, and three more (the fetch, the copy's begin and end) in every 13th.
    assert 1000 < int(count.split()[1]) < 1000 * (1 + 3 / 13) + 100


def test_a_stall_counts_in_whichever_step_it_comes(tmp_path: Path) -> None:
    text = """
        op = simulated.kernel("step", 100.0, **quiet)

        class Rare(Loader):
            def __iter__(self):
                for number in range(self.count):
                    time.sleep(0.05 if number in STALLS else 0)
                    yield self.make()

        STALLS = range(101, 181, 11)

        def loop():
            for batch in Rare(200):  # loop
                op()

        wall(loop)
        """
    record, *_ = simulate(tmp_path, text)
    # Time.sleep takes 0.05 ms longer here; a step that is still queued is worked off meanwhile.
    stalled_us = (8 * 50_000 + 200 * 50) / record["steps"]
    assert record["data_wait_us"]["mean_us"] == pytest.approx(stalled_us, rel=0.02)
    assert record["device_idle_for_data_us"] == pytest.approx(stalled_us, rel=0.15)


def test_the_loop_never_waits_for_the_device_before_its_end(tmp_path: Path) -> None:
    record, _, result = simulate(tmp_path, PLAIN.format(us=5_000.0, count=400, wait_s=0.0))
    assert record["steps"] == 395
    # The script waits twice itself, the report once.
    assert result.machine.syncs <= 3


def test_stalls_of_the_loader_and_blocking_copies_are_told_apart(tmp_path: Path) -> None:
    record, wall_s, _ = simulate(
        tmp_path,
        """
        op = simulated.kernel("step", 27_000.0, **quiet)

        def loop():
            make = lambda: torch.empty(256, 3, 224, 224)
            for batch in Loader(128, 0.0001, 0.2, make):  # loop
                batch = batch.to("cuda")
                op()

        wall(loop)
        """,
        *("--warmup-steps", "0"),
        pcie_bytes_per_us=25e3,
    )
    copy_us = 256 * 3 * 224 * 224 * 4 / 25e3
    wait_us = 100 + 200_000 * 4 / 128
    assert record["data_wait_us"]["mean_us"] == pytest.approx(wait_us, rel=0.05)
    assert record["step_us"]["median_us"] == pytest.approx(27_000 + copy_us, rel=0.02)
    assert record["wall_s"] == pytest.approx(wall_s, rel=0.01)
    # The host is blocked until the step before has ended; of that the copy itself is a part.
    assert record["device_copy_us"] == pytest.approx(copy_us, rel=0.05)
    assert record["copy_wait_us"]["median_us"] > 20_000
    mean_us = record["step_us"]["mean_us"] + record["data_wait_us"]["mean_us"]
    assert mean_us == pytest.approx(wall_s / 128 * 1e6, rel=0.01)


def test_a_wait_that_the_device_hides_is_not_called_data_bound(tmp_path: Path) -> None:
    record, wall_s, result = simulate(
        tmp_path, PLAIN.format(us=30_000.0, count=60, wait_s=0.02), "--warmup-steps", "0"
    )
    assert wall_s == pytest.approx(60 * 0.03, rel=0.05)
    assert record["data_wait_us"]["median_us"] == pytest.approx(20_000, rel=0.05)
    assert record["device_idle_for_data_us"] < 2_000
    assert [flag["code"] for flag in record["flags"]] == ["data-hidden"]
    assert "hidden" in result.stderr


def test_a_wait_that_leaves_the_device_idle_is_called_data_bound(tmp_path: Path) -> None:
    record, _, result = simulate(tmp_path, PLAIN.format(us=5_000.0, count=60, wait_s=0.02))
    assert record["device_idle_for_data_us"] == pytest.approx(15_000, rel=0.1)
    assert [flag["code"] for flag in record["flags"]] == ["data-bound"]
    assert "over 0.2" in result.stderr


def test_a_long_wait_behind_many_queued_steps_gives_no_negative_step(tmp_path: Path) -> None:
    record, wall_s, _ = simulate(
        tmp_path,
        """
        op = simulated.kernel("step", 3_000.0, **quiet)

        def loop():
            for batch in Loader(170, 0.0, 0.2):  # loop
                op()

        wall(loop)
        """,
        *("--warmup-steps", "0"),
    )
    assert min(record["step_us"]["samples_us"]) >= 0
    told_us = sum(record["step_us"]["samples_us"]) + sum(record["data_wait_us"]["samples_us"])
    assert told_us / 1e6 == pytest.approx(wall_s, rel=0.01)
    assert record["wall_s"] == pytest.approx(wall_s, rel=0.01)


def test_steps_that_never_touch_the_device_are_timed_by_the_host(tmp_path: Path) -> None:
    record, _, _ = simulate(
        tmp_path,
        """
        def loop():
            for batch in Loader(30, 0.001):  # loop
                time.sleep(0.004)

        wall(loop)
        """,
    )
    assert record["step_us"]["median_us"] == pytest.approx(4_000, rel=0.02)
    assert record["data_wait_us"]["median_us"] == pytest.approx(1_000, abs=60)
    assert record["method"] == "event"


def test_a_device_that_is_never_used_is_not_started(tmp_path: Path) -> None:
    source = HEAD.replace('torch.empty(1, device="cuda")\n', "") + code("""
        for batch in Loader(30, 0.001):  # loop
            time.sleep(0.004)
        print("started", torch.cuda.is_initialized())
        """)
    line = 1 + next(n for n, row in enumerate(source.splitlines()) if row.endswith("# loop"))
    path = instrumented(tmp_path, source, "--loop", str(line), "--json", "out.json")
    result = run_script(path.read_text(), DeviceModel())
    assert "started False" in result.stdout
    assert result.record is not None
    assert result.record["method"] == "host"


def test_a_device_that_comes_into_use_in_the_loop_is_timed_by_events(tmp_path: Path) -> None:
    source = HEAD.replace('torch.empty(1, device="cuda")\n', "") + code("""
        for i, batch in enumerate(Loader(40)):  # loop
            if i == 0:
                op = simulated.kernel("step", 9_000.0, **quiet)
            op()
        """)
    line = 1 + next(n for n, row in enumerate(source.splitlines()) if row.endswith("# loop"))
    path = instrumented(tmp_path, source, "--loop", str(line), "--json", "out.json")
    result = run_script(path.read_text(), DeviceModel(jitter=0.0, spike_probability=0.0))
    assert result.record is not None, str(result)
    assert result.record["method"] == "event"
    assert result.record["step_us"]["median_us"] == pytest.approx(9_000, rel=0.02)


def test_phases_are_those_of_the_device(tmp_path: Path) -> None:
    record, _, _ = simulate(
        tmp_path,
        """
        forward = simulated.kernel("forward", 7_000.0, **quiet)
        back = simulated.kernel("back", 14_000.0, **quiet)
        update = simulated.kernel("update", 2_000.0, **quiet)

        class Loss:
            backward = staticmethod(back)

        class Optimizer:
            step = staticmethod(update)

        loss, optimizer = Loss(), Optimizer()

        def loop():
            for batch in Loader(40):  # loop
                forward()
                loss.backward()
                optimizer.step()

        wall(loop)
        """,
        "--phases",
    )
    medians = {name: phase["median_us"] for name, phase in record["phases"].items()}
    assert medians["forward"] == pytest.approx(7_000, rel=0.02)
    assert medians["backward"] == pytest.approx(14_000, rel=0.02)
    assert medians["optimizer"] == pytest.approx(2_000, rel=0.02)


def test_model_flop_utilisation_needs_a_known_peak(tmp_path: Path) -> None:
    text = PLAIN.format(us=10_000.0, count=40, wait_s=0.0)
    flops = ("--flops-per-item", "1e11")
    known, _, _ = simulate(tmp_path, text, *flops)
    assert known["mfu"] == pytest.approx(16 * 1e11 / 0.01 / 989.4e12, rel=0.02)
    unknown, _, _ = simulate(tmp_path, text, *flops, name="NVIDIA Z9")
    assert unknown["mfu"] is None
    assert "no-peak" in [flag["code"] for flag in unknown["flags"]]
    given, _, _ = simulate(tmp_path, text, *flops, "--peak-tflops", "400", name="NVIDIA Z9")
    assert given["mfu"] == pytest.approx(16 * 1e11 / 0.01 / 400e12, rel=0.02)
    without, _, _ = simulate(tmp_path, text)
    assert without["mfu"] is None


PEAKS = {
    "NVIDIA H200": 989.4,
    "NVIDIA H200 NVL": 835.5,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA GH200 480GB": 989.4,
    "NVIDIA H20": 148.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A10G": 70.0,
    "NVIDIA A10": 125.0,
    "NVIDIA L40S": 362.0,
    "NVIDIA B200": 2250.0,
    "Tesla V100-SXM2-16GB": 125.0,
    "AMD Instinct MI300X": 1307.4,
    "NVIDIA GeForce GTX 1080": 0,
}


@pytest.mark.parametrize("name", PEAKS)
def test_the_dense_peak_of_a_device_is_known_by_its_name(name: str) -> None:
    from inject.test_timing_loop_ranks import block_names

    pytest.importorskip("torch")
    names = block_names(flops_per_item=1)
    assert names["_dense_peak_tflops"](name) == PEAKS[name]


def test_items_on_the_device_are_read_at_the_end_only(tmp_path: Path) -> None:
    record, wall_s, _ = simulate(
        tmp_path,
        """
        op = simulated.kernel("step", 5_000.0, **quiet)
        mask = torch.ones(8, device="cuda")

        def loop():
            for batch in Loader(40):  # loop
                op()

        wall(loop)
        """,
        *("--items", "mask.sum()", "--warmup-steps", "0"),
    )
    assert record["items"] > 0
    assert wall_s < 1.1 * 40 * 0.005


@pytest.mark.parametrize("method", ["event", "sync"])
def test_evaluation_in_the_body_is_left_out_of_the_device_time(method: str, tmp_path: Path) -> None:
    record, wall_s, _ = simulate(
        tmp_path,
        """
        op = simulated.kernel("step", 3_000.0, **quiet)
        test_op = simulated.kernel("test", 40_000.0, **quiet)

        def evaluate():
            for batch in Loader(5, 0.004):
                test_op()
            torch.cuda.synchronize()

        def loop():
            for number, batch in enumerate(Loader(200)):  # loop
                op()
                if number % 40 == 39:
                    evaluate()

        wall(loop)
        """,
        *("--method", method, "--warmup-steps", "0"),
    )
    assert record["steps"] == 200
    assert record["step_us"]["median_us"] == pytest.approx(3_000, rel=0.03)
    late = record["period_us"]["samples_us"][1:]  # the first loads the kernel
    assert max(late) < 4_000
    aside = record["asides"]["evaluation"]
    assert aside["n"] == 5
    # Its first wait for data is hidden by steps that are still queued, where there are some.
    assert aside["total_us"] == pytest.approx(5 * 5 * 40_000, rel=0.04)
    assert record["wall_s"] + aside["total_us"] / 1e6 == pytest.approx(wall_s, rel=0.01)
    assert record["items_per_s"] == pytest.approx(16 * 200 / record["wall_s"])

"""`--plot`: an image is made of every kind of record, whole or not at all."""

import builtins
import struct
from pathlib import Path
from typing import Any

import pytest
from perf_timing.report import main
from report.report_records import compare_record, loop_record, op_record, write


def _size(image: bytes) -> tuple[int, int]:
    """Width and height of a PNG in pixels."""
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", image[16:24])
    return width, height


def _plain() -> list[Any]:
    return [op_record(seed=1), op_record(96.0, seed=2)]


def _timed() -> list[Any]:
    trace = [[0.0, 1980], [0.5, 1965], [1.0, 1950]]
    times = [i / 100 for i in range(100)]
    return [op_record(seed=i, sample_time_s=times, clock_trace=trace) for i in (1, 2)]


@pytest.mark.parametrize(
    "records",
    [
        [op_record()],
        _plain(),
        _timed(),
        [compare_record()],
        [loop_record(), loop_record(30000.0, seed=1)],
        [op_record(samples_us=[0.0, 0.0])],
        [op_record(samples_us=[5.0])],
        [op_record(samples_us=[1.0, 1e15]), op_record()],
        [op_record(name="_cost in $ and \u5b57 $x^$")],
        [op_record(seed=i) for i in range(12)],
    ],
    ids=[
        "one op",
        "two ops",
        "times and clocks",
        "a comparison",
        "two loops",
        "zeros",
        "one sample",
        "a wild sample",
        "a name that matplotlib would read",
        "more than the colours",
    ],
)
def test_a_picture_is_made(
    capsys: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
    tmp_path: Path,
    records: list[Any],
) -> None:
    pytest.importorskip("matplotlib")
    files = [write(tmp_path, f"_r{i}.json", record) for i, record in enumerate(records)]
    image = tmp_path / "out.png"
    assert main([*files, "--plot", str(image)]) == 0
    width, height = _size(image.read_bytes())
    assert width >= 1000
    assert height >= 800
    assert [str(warning.message) for warning in recwarn] == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_other_formats(tmp_path: Path, suffix: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    image = tmp_path / f"out.{suffix}"
    assert main([write(tmp_path, "a.json", op_record()), "--plot", str(image)]) == 0
    assert image.read_bytes().startswith(start)


def test_an_existing_file_is_kept_without_force(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    image = tmp_path / "out.png"
    image.write_bytes(b"mine")
    path = write(tmp_path, "a.json", op_record())
    assert main([path, "--plot", str(image)]) == 2
    assert image.read_bytes() == b"mine"
    assert "add --force" in capsys.readouterr().err
    assert main([path, "--plot", str(image), "--force"]) == 0
    _size(image.read_bytes())


def test_without_matplotlib_the_install_command_is_the_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    image = tmp_path / "out.png"
    assert main([write(tmp_path, "a.json", op_record()), "--plot", str(image)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "-m pip install matplotlib" in captured.err
    assert not image.exists()

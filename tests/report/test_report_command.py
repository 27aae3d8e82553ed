"""`report-timing` as a user runs it: output, exit status, one line for each failure."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from perf_timing.report import main
from report.report_records import compare_record, loop_record, op_record, write

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line that the command printed when it failed."""
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.isascii()
    assert captured.err.startswith("report-timing: ")
    assert captured.err.count("\n") == 1
    return captured.err


def shows(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> str:
    assert main(argv) == status
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_one_op_is_shown_in_full(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flags = [{"code": "power-cap", "message": "the power cap lowered the clock"}]
    shown = shows(capsys, write(tmp_path, "a.json", op_record(93.2, flags=flags)))
    for part in (
        "add 4096x4096 float32\n",
        "NVIDIA H200, driver 580.65.06",
        " us (n=100), median +/- IQR",
        "GB/s (45.",
        "% of 4800)",
        "TFLOP/s (0.3 % of 67.00)",
        "cuda-graph by graph-slope, cache cold (flush of 256 MiB), 20 calls a sample",
        "power-cap: the power cap lowered the clock",
        "4.100 us to enqueue one call",
        "after 1980 MHz 41 C 420 W",
    ):
        assert part in shown
    assert shown.isascii()


def test_two_ops_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = write(tmp_path, "before.json", op_record(100.0, seed=1))
    other = write(tmp_path, "after.json", op_record(103.0, seed=2))
    shown = shows(capsys, one, other)
    assert "after / before  1.0" in shown
    assert ": slower by " in shown
    assert "Separate runs" in shown


def test_what_runs_have_in_common_is_said_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [
        write(tmp_path, f"{ms}.json", op_record(seed=ms, warmup={"ms": ms, "calls": 9}))
        for ms in (201, 202)
    ]
    shown = shows(capsys, *files)
    assert shown.count("cuda-graph by graph-slope, cache cold (flush of 256 MiB)") == 1
    assert shown.count("NVIDIA H200") == 1


def test_the_baseline_may_be_any_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = write(tmp_path, "before.json", op_record(100.0, seed=1))
    other = write(tmp_path, "after.json", op_record(103.0, seed=2))
    for argv in ([other, one, "--baseline", one], [other, "--baseline", one]):
        assert "after / before  1.0" in shows(capsys, *argv)


def test_files_of_one_name_are_told_apart_by_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    one = write(tmp_path, "a.json", op_record(seed=1))
    other = write(tmp_path / "new", "a.json", op_record(seed=2))
    assert f"{other} / {one}" in " ".join(shows(capsys, one, other).split())


def test_no_compare_shows_what_cannot_be_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = write(tmp_path, "a.json", op_record())
    other = write(tmp_path, "b.json", op_record(method="event-pairs"))
    loop = write(tmp_path, "c.json", loop_record())
    assert "method is graph-slope and event-pairs" in fails(capsys, one, other)
    assert "kinds op and loop" in fails(capsys, one, loop)
    shown = shows(capsys, one, other, loop, "--no-compare")
    assert "Comparison" not in shown
    assert "b: cuda-graph by event-pairs" in shown
    assert "resnet50" in shown


def test_allow_different_compares_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = write(tmp_path, "a.json", op_record(seed=1))
    other = write(tmp_path, "b.json", op_record(seed=2, method="event-pairs", cache="warm"))
    shown = shows(capsys, one, other, "--allow-different", "method,cache")
    assert "same within 1 % (see notes)" in shown
    assert "method differs: graph-slope and event-pairs" in shown


@pytest.mark.parametrize("margin", ["0.05", "5%"])
def test_margin_is_a_share_or_a_percentage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, margin: str
) -> None:
    one = write(tmp_path, "a.json", op_record(100.0, seed=1))
    other = write(tmp_path, "b.json", op_record(103.0, seed=2))
    assert "same within 5 %" in shows(capsys, one, other, "--margin", margin)


def test_a_withheld_verdict_says_why_in_every_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = write(tmp_path, "a.json", op_record(100.0, seed=1))
    other = write(tmp_path, "b.json", op_record(110.0, seed=2, host_bound=True))
    for form in ("table", "markdown"):
        shown = shows(capsys, one, other, "--format", form)
        assert "undecided, verdict withheld" in shown
        assert "b is host-bound: the figure is launch cost" in shown
    [pair] = json.loads(shows(capsys, one, other, "--format", "json"))["comparisons"]
    assert pair["verdict"] == "undecided"
    assert pair["interval_verdict"] == "slower"
    assert pair["withheld"] == ["b is host-bound: the figure is launch cost"]


def test_a_compare_record_is_shown_with_its_pairs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = shows(capsys, write(tmp_path, "c.json", compare_record()))
    assert "two / one  1.0310 (95 % CI 1.0290 .. 1.0330): slower by 3.1 %" in shown
    assert "agree (rtol 0.001, atol 1e-05)" in shown
    assert "100, interleaved" in shown


def test_a_loop_is_shown_in_full(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = shows(capsys, write(tmp_path, "l.json", loop_record(share=0.31)))
    for part in (
        "resnet50 batch 256\n",
        " ms (n=60), median +/- IQR",
        "items/s (61,440 items in 60 steps), 4 ranks",
        "0.31 of step time, over 0.2",
        "data-bound: data wait is 0.31 of step time",
        "forward",
        "3 at 35.02 ms (+1.5 %) against the middle rank",
        "41.2 % of the dense peak",
        "28.9 GiB",
    ):
        assert part in shown


def test_two_loops_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = write(tmp_path, "a.json", loop_record(34000.0, seed=1))
    other = write(tmp_path, "b.json", loop_record(30000.0, seed=2))
    shown = shows(capsys, one, other)
    assert "Comparison of step time" in shown
    assert "faster by 11." in shown
    assert "items/s x 1.1333" in shown


@pytest.mark.parametrize(
    ("record", "status"),
    [
        (op_record(103.0, seed=2), 1),
        (op_record(97.0, seed=2), 0),
        (op_record(103.0, seed=2, host_bound=True), 0),
    ],
    ids=["slower", "faster", "slower but launch cost"],
)
def test_fail_on_slower(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, record: Any, status: int
) -> None:
    one = write(tmp_path, "a.json", op_record(100.0, seed=1))
    other = write(tmp_path, "b.json", record)
    shows(capsys, one, other, "--fail-on-slower", status=status)
    shows(capsys, one, other)


@pytest.mark.parametrize(("verdict", "status"), [("slower", 1), ("same", 0)])
def test_fail_on_slower_reads_recorded_verdicts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verdict: str, status: int
) -> None:
    path = write(tmp_path, "c.json", compare_record(verdict=verdict))
    shows(capsys, path, "--fail-on-slower", status=status)


def test_json_holds_every_figure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [
        write(tmp_path, "a.json", op_record(100.0, seed=1)),
        write(tmp_path, "b.json", op_record(103.0, seed=2)),
        write(tmp_path, "c.json", compare_record()),
    ]
    document = json.loads(shows(capsys, *files, "--format", "json"))
    assert document["schema"] == "perf-timing-report/1"
    assert [record["label"] for record in document["records"]] == ["a", "b", "c"]
    assert document["records"][0]["summary"]["median_us"] == pytest.approx(100, rel=1e-3)
    assert document["records"][0]["gb_per_s"] == pytest.approx(2013, rel=1e-2)
    verdicts = [(c["candidate"], c["verdict"], c["paired"]) for c in document["comparisons"]]
    assert verdicts == [("two", "slower", True), ("b", "slower", False)]


def test_json_of_a_loop(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path, "l.json", loop_record())
    [record] = json.loads(shows(capsys, path, "--format", "json"))["records"]
    assert record["step_us"]["median_us"] == pytest.approx(34000, rel=1e-3)
    assert record["data_wait_share"] == 0.19
    assert len(record["ranks"]) == 4


def test_markdown_is_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [write(tmp_path, f"{n}.json", op_record(seed=i)) for i, n in enumerate("abc")]
    lines = shows(capsys, *files, "--format", "markdown").splitlines()
    assert all(line.startswith(("|", "#")) for line in lines if line)
    widths = {line.count(" | ") for line in lines if line.startswith(("| a ", "| record"))}
    assert len(widths) == 1


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_the_width_of_the_terminal_is_kept(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a.json", 1), ("b.json", 2)):
        write(tmp_path, name, op_record(seed=seed))
    write(tmp_path, "c.json", compare_record())
    for argv in (["a.json"], ["a.json", "b.json"], ["c.json"]):
        shown = shows(capsys, *argv)
        assert max(map(len, shown.splitlines())) <= int(columns)


def test_names_cannot_drive_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = [{"code": "x\x1b[2J", "message": "\r\nfake: verdict\u202e"}]
    named = op_record(name="\x1b[31mred\nline", flags=flags)
    for form in ("table", "markdown", "json"):
        shown = shows(capsys, write(tmp_path, "a.json", named), "--format", form)
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_what_stdout_cannot_encode_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.json", op_record(name="caf\u00e9 \u5b57 \ud800"))
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main([path]) == 0
    assert b"caf\\xe9 \\u5b57 \\ud800" in out.buffer.getvalue()  # type: ignore[attr-defined]


# -- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "empty"),
        ('{"schema": "perf-timing/1", "ki', "cut short"),
        ('{"schema": "perf-timing/9", "kind": "op"}', "this version reads perf-timing/1"),
        (b"\xff\xfe\x00", "not UTF-8"),
        ("[" * 100_000, "out of bounds"),
    ],
    ids=["empty", "truncated", "unknown schema", "binary", "nested without end"],
)
def test_a_file_that_is_no_record_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | bytes, said: str
) -> None:
    good = write(tmp_path, "good.json", op_record())
    bad = write(tmp_path, "bad.json", content)
    line = fails(capsys, good, bad)
    assert "bad.json: " in line
    assert said in line


def test_a_file_whose_name_is_not_ascii_is_named_in_ascii(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "\\xe9.json" in fails(capsys, write(tmp_path, "\u00e9.json", ""))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "FILE"),
        (["a.json", "--margin", "1"], "'1' is no share"),
        (["a.json", "--margin", "nan"], "'nan' is no share"),
        (["a.json", "--margin", "one"], "'one' is no share"),
        (["a.json", "--allow-different", "clock"], "device, cache, method"),
        (["a.json", "--allow-different", ""], "device, cache, method"),
        (["a.json", "--format", "xml"], "invalid choice"),
        (["a.json", "--form", "json"], "unrecognized"),
        (["a.json", "--plot", "a.txt"], "must end in .png"),
        (["absent.json"], "No such file"),
        (["."], "Is a directory"),
        (["c.json", "--baseline", "c.json"], "no baseline"),
        (["a\0.json"], "null"),
    ],
)
def test_wrong_use_is_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a.json", op_record())
    write(tmp_path, "c.json", compare_record())
    assert said in fails(capsys, *argv)


def test_help_names_every_option_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    text = shows(capsys, "--help")
    for word in ("--baseline", "--margin", "--allow-different", "--plot", "--fail-on-slower"):
        assert word in text
    for unit in ("us", "GB/s", "TFLOP/s", "95 %", "exit status"):
        assert unit in text
    assert text.isascii()


def _run(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-m", "perf_timing.report", *argv]
    return subprocess.run(
        command, text=True, capture_output=True, env=environment, check=False, **options
    )


def test_the_module_runs(tmp_path: Path) -> None:
    done = _run(write(tmp_path, "a.json", op_record()))
    assert (done.returncode, done.stderr) == (0, "")
    assert "add 4096x4096 float32" in done.stdout


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", op_record())
    command = f'"{sys.executable}" -m perf_timing.report "{path}" | true'
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(
        command, shell=True, text=True, capture_output=True, env=environment, check=False
    )
    assert done.stderr == ""


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    path = write(tmp_path, "a.json", op_record())
    command = f'"{sys.executable}" -m perf_timing.report "{path}" > /dev/full'
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(
        command, shell=True, text=True, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "report-timing: cannot write the output: No space left on device\n"


def test_only_the_standard_library_is_imported(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", op_record())
    code = (
        "import sys; from perf_timing.report import main; main(sys.argv[1:]);"
        "print(sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, path],
        text=True, capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "['__main__', 'perf_timing']"

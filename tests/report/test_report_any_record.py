"""Whatever a valid record holds, the command shows it or says in one line why not."""

import contextlib
import io
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from perf_timing.report import main
from perf_timing.report.record import LEAST, MAX_US, MOST
from report.report_records import compare_record, loop_record, op_record

TINY = 1e-9  # us; a ratio of two times must still be a number that the schema allows
amounts = st.none() | st.just(0.0) | st.floats(LEAST, MOST)
times_us = st.lists(st.floats(TINY, MAX_US) | st.sampled_from([0.0, TINY, 1.0]), min_size=1)
names = st.text(max_size=40)
flags = st.lists(st.fixed_dictionaries({"code": names, "message": st.none() | names}), max_size=3)
points = st.tuples(st.floats(LEAST, 1e6), st.just(0.0) | st.floats(LEAST, 1e6))
traces = st.lists(points, max_size=5)


def _series(values: list[float]) -> dict[str, Any]:
    return {"n": len(values), "samples_us": values}


@st.composite
def records(draw: st.DrawFn) -> Any:
    shared = {"name": draw(names), "dims": draw(st.none() | names), "flags": draw(flags)}
    kind = draw(st.sampled_from(["op", "compare", "loop"]))
    if kind == "op":
        values = draw(times_us)
        rates = ("bytes", "flops", "peak_gb_per_s", "peak_tflop_per_s", "floor_us")
        return op_record(
            samples_us=values,
            clock_trace=draw(traces),
            converged=draw(st.none() | st.booleans()),
            **{key: draw(amounts) for key in rates},
            **shared,
        )
    if kind == "compare":
        record = compare_record(**shared)
        for variant in record["variants"]:
            variant["samples_us"] = draw(times_us)
            variant["summary"] = None
        middles = [statistics.median(v["samples_us"]) for v in record["variants"]]
        known = draw(st.booleans()) and all(middles)
        record["pairs"][0]["ratio_median"] = middles[1] / middles[0] if known else None
        return record
    return {
        **loop_record(),
        "step_us": _series(draw(times_us)),
        "data_wait_us": draw(st.none() | times_us.map(_series)),
        "phases": draw(st.dictionaries(names, times_us.map(_series), max_size=2)),
        **{key: draw(amounts) for key in ("items", "items_per_s", "mfu", "peak_memory_bytes")},
        **shared,
    }


def _run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(argv)
    return status, out.getvalue(), err.getvalue()


@settings(max_examples=150, deadline=None)
@given(st.lists(records(), min_size=1, max_size=3), st.sampled_from(["table", "json", "markdown"]))
def test_any_valid_records_are_shown_or_refused_in_one_line(made: list[Any], form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for index, record in enumerate(made):
            files.append(str(Path(folder) / f"{index}.json"))
            Path(files[-1]).write_text(json.dumps(record), "utf-8")
        status, out, err = _run(*files, "--format", form)
        if status == 2:
            assert err.count("\n") == 1
            assert out == ""
            assert "cannot compare" in err
            status, out, err = _run(*files, "--format", form, "--no-compare")
        assert (status, err) == (0, "")
        if form == "json":
            assert len(json.loads(out)["records"]) == len(made)

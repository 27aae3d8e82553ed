"""What a report shows, before it is laid out: sections of facts, tables and lines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perf_timing.report import figures
from perf_timing.report.comparison import Comparison, recorded_pairs
from perf_timing.report.estimates import Summary, median, summarize
from perf_timing.report.flags import DATA_BOUND_SHARE, all_flags, data_wait_over_step, throughput
from perf_timing.report.record import Flag, Record, read_flags


@dataclass(frozen=True)
class Facts:
    """A title and named lines below it."""

    title: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Rows under headings. Where they do not fit, columns go in the order of `droppable`, and
    where that is not enough, `instead` is shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    droppable: tuple[str, ...] = ()
    instead: tuple[Facts, ...] = ()


Section = Facts | Table

LATENCY = "median +/- IQR"

_SEPARATE = (
    "Separate runs: the interval holds what varied within each run, not what differs between runs."
)
_INTERLEAVE = " `render-timing compare` measures both in one."


def sections(
    records: Sequence[Record], comparisons: Sequence[Comparison], margin: float | None
) -> list[Section]:
    """The whole report. `margin` is the user's, None where each record's own holds."""
    shown: list[Section] = []
    for kind in ("op", "loop", "compare"):
        alike = [record for record in records if record.kind == kind]
        if len(alike) > 1 and kind != "compare":
            shown += _several(alike, kind)
        else:
            for record in alike:
                shown += _one(record, margin)
    if comparisons:
        shown.append(_comparison_facts(comparisons))
    return shown


def _one(record: Record, margin: float | None) -> list[Section]:
    if record.kind == "op":
        return [_op_facts(record)]
    if record.kind == "loop":
        return [_loop_facts(record)]
    return _compare_sections(record, margin)


# -- facts that every kind shares ---------------------------------------------------------------


def _origin(record: Record) -> list[tuple[str, str]]:
    return [("file", figures.printable(record.path)), ("device", _device(record))]


def _device(record: Record) -> str:
    versions = record.data.get("versions") or {}
    known = [("driver", record.device("driver")), *sorted(versions.items())]
    details = [f"{name} {value}" for name, value in known if value is not None]
    return figures.printable(", ".join([str(record.device("name") or "unknown"), *details]))


def _conditions(record: Record) -> list[str]:
    """Scenario, method and cache, in words that are the same for runs made alike."""
    data = record.data
    words = [str(data.get("scenario") or ""), f"by {data['method']}"]
    if data.get("cache"):
        how = str(data.get("cache_method") or "").split(";")[0]
        words.append(f"cache {data['cache']}" + (f" ({how})" if how else ""))
    return words


def _joined(words: Sequence[str]) -> str:
    return figures.printable(", ".join(word for word in words if word)).replace(", by ", " by ")


def _method(record: Record) -> str:
    data = record.data
    words = _conditions(record)
    if ";" in str(data.get("cache_method")):
        words.append(str(data["cache_method"]).split(";", 1)[1].strip())
    if data.get("calls_per_sample"):
        words.append(f"{figures.count(data['calls_per_sample'], 'call')} a sample")
    warmup = data.get("warmup") or {}
    if warmup.get("ms") is not None:
        words.append(f"warm-up {warmup['ms']:.4g} ms")
    return _joined(words)


def _clocks(record: Record) -> list[tuple[str, str]]:
    trace = [point[1] for point in record.data.get("clock_trace") or ()]
    around = record.data.get("clocks") or {}
    words = []
    if trace:
        words.append(f"SM {min(trace):.0f} .. {max(trace):.0f} MHz beside the samples")
    for when in ("before", "after"):
        state = around.get(when) or {}
        units = (("sm_mhz", "MHz"), ("temperature_c", "C"), ("power_w", "W"))
        values = [f"{state[key]:.0f} {unit}" for key, unit in units if state.get(key) is not None]
        if state.get("event_reasons"):
            values.append(f"event reasons {_reasons(state['event_reasons'])}")
        if values:
            words.append(f"{when} " + " ".join(values))
    return [("clocks", figures.printable("; ".join(words)))] if words else []


def _reasons(value: Any) -> str:
    return f"{value:#x}" if isinstance(value, int) else str(value)


def _flag_lines(flags: Sequence[Flag]) -> list[tuple[str, str]]:
    return [("flag", figures.printable(f"{flag.code}: {flag.message}")) for flag in flags]


def _spread(summary: Summary) -> str:
    like = summary.median
    return (
        f"p5 .. p95 {figures.times((summary.p5, summary.p95), like)},"
        f" min .. max {figures.times((summary.minimum, summary.maximum), like)},"
        f" std {figures.times((summary.std,), like)},"
        f" mean {figures.times((summary.mean,), like)},"
        f" {figures.count(summary.outliers, 'outlier')} (kept)"
    )


def _samples(summary: Summary) -> list[tuple[str, str]]:
    return [
        ("95 % CI", f"{figures.interval(summary.ci95, summary.median)} (of the median)"),
        ("spread", _spread(summary)),
    ]


# -- op -----------------------------------------------------------------------------------------


def _op_facts(record: Record) -> Facts:
    summary = summarize(record.samples_us, record.doubt_us)
    lines = _origin(record)
    lines.append(("latency", f"{figures.latency(summary)}, {LATENCY}"))
    lines += _flag_lines(all_flags(record)) + _samples(summary)
    for key, unit in (("gb_per_s", "GB/s"), ("tflop_per_s", "TFLOP/s")):
        rate, peak = throughput(record.data, key), record.data.get(f"peak_{key}")
        if rate:
            of = f" ({figures.percent(rate / peak)} of {figures.fixed(peak)})" if peak else ""
            lines.append(("throughput", f"{figures.fixed(rate)} {unit}{of}"))
    if record.data.get("kernel_time_us") is not None:
        kernels = record.data.get("kernels_per_call")
        count = f" in {figures.count(kernels, 'kernel')}" if kernels is not None else ""
        told = figures.time(record.data["kernel_time_us"])
        lines.append(("kernel time", f"{told}{count} a call, as CUPTI records"))
    host = record.data.get("host_us_per_call")
    if host is not None:
        lines.append(("host time", f"{figures.time(host)} to enqueue one call"))
    if record.data.get("floor_us") is not None:
        floor = figures.time(record.data["floor_us"])
        lines.append(("floor", f"{floor} is what the method reads for no work"))
    lines.append(("measured", _method(record)))
    lines += _clocks(record)
    return Facts(figures.printable(record.title), tuple(lines))


def _op_row(record: Record) -> dict[str, str]:
    summary = summarize(record.samples_us, record.doubt_us)
    row = {
        LATENCY: figures.latency(summary),
        "95 % CI": figures.interval(summary.ci95, summary.median),
        "p5 .. p95": figures.times((summary.p5, summary.p95), summary.median),
    }
    for key, heading in (("gb_per_s", "GB/s"), ("tflop_per_s", "TFLOP/s")):
        rate = throughput(record.data, key)
        peak = record.data.get(f"peak_{key}")
        row[heading] = figures.share_of(rate, peak) if rate else ""
    return row


# -- loop ---------------------------------------------------------------------------------------


def _loop_facts(record: Record) -> Facts:
    data = record.data
    summary = summarize(data["step_us"]["samples_us"])
    lines = _origin(record)
    lines.append(("step time", f"{figures.latency(summary)}, {LATENCY}"))
    if data.get("period_us"):
        period = summarize(data["period_us"]["samples_us"])
        lines.append(("wall time", f"{figures.latency(period)} a step, data wait included"))
    lines += _flag_lines(all_flags(record)) + _samples(summary)
    if data.get("items_per_s") is not None:
        lines.append(("throughput", _items(data)))
    if data.get("data_wait_us") is not None:
        lines.append(("data wait", _wait(data)))
    if data.get("copy_wait_us") is not None:
        lines.append(("copy wait", f"mean {figures.time(_mean(data['copy_wait_us']))} a step"))
    for name, phase in (data.get("phases") or {}).items():
        if phase:
            middle = figures.time(_middle(phase))
            lines.append((figures.printable(name), f"median {middle} a step"))
    for name, aside in (data.get("asides") or {}).items():
        if aside and aside.get("total_us") is not None and aside.get("n") is not None:
            total, steps = figures.time(aside["total_us"]), f"{aside['n']:.0f} steps"
            lines.append((figures.printable(name), f"{total} in {steps}, in no other figure"))
    if data.get("ranks"):
        lines.append(("slowest rank", f"{_slowest_rank(data)} against the middle rank"))
    if data.get("mfu") is not None:
        lines.append(("MFU", f"{figures.percent(data['mfu'])} of the dense peak"))
    if data.get("peak_memory_bytes") is not None:
        lines.append(("peak memory", figures.size(data["peak_memory_bytes"])))
    lines.append(("measured", _method(record)))
    lines += _clocks(record)
    return Facts(figures.printable(record.title), tuple(lines))


def _items(data: Any) -> str:
    text = f"{figures.fixed(data['items_per_s'])} items/s"
    if data.get("items") is not None and data.get("steps") is not None:
        text += f" ({data['items']:,.0f} items in {data['steps']:,.0f} steps)"
    if (data.get("world_size") or 1) > 1:
        text += f", {data['world_size']:.0f} ranks"
    return text


def _middle(series: Any) -> float:
    return median(series["samples_us"])


def _mean(series: Any) -> float:
    # A loader stalls now and then: the median of its waits may be next to nothing.
    return math.fsum(series["samples_us"]) / len(series["samples_us"])


def _wait(data: Any) -> str:
    text = f"mean {figures.time(_mean(data['data_wait_us']))} a step"
    share = data_wait_over_step(data)
    if share is None:
        return text
    side = "over" if share > DATA_BOUND_SHARE else "within"
    return f"{text}, {share:.2f} of step time, {side} {DATA_BOUND_SHARE:g}"


def _slowest_rank(data: Any) -> str:
    """3 at 34.90 ms (+1.3 %), or 3 (+0.4510 ms): how far it is behind the middle rank."""
    if data.get("slowest_rank") is not None and data.get("lag_us") is not None:
        return f"{data['slowest_rank']:.0f} (+{figures.time(data['lag_us'])})"
    timed = [rank for rank in data["ranks"] if rank.get("step_median_us") is not None]
    if not timed:
        return "unknown"
    worst = max(timed, key=lambda rank: rank["step_median_us"])
    middle = median([rank["step_median_us"] for rank in timed])
    lag = f" (+{figures.difference(worst['step_median_us'] / middle)})" if middle > 0 else ""
    return f"{worst['rank']:.0f} at {figures.time(worst['step_median_us'])}{lag}"


def _loop_row(record: Record) -> dict[str, str]:
    data = record.data
    summary = summarize(data["step_us"]["samples_us"])
    share = data_wait_over_step(data)
    rate, wait = data.get("items_per_s"), data.get("data_wait_us")
    return {
        "step, " + LATENCY: figures.latency(summary),
        "95 % CI": figures.interval(summary.ci95, summary.median),
        "p5 .. p95": figures.times((summary.p5, summary.p95), summary.median),
        "items/s": "" if rate is None else figures.fixed(rate),
        "data wait": figures.time(_mean(wait)) if wait else "",
        "wait / step": "" if share is None else f"{share:.2f}",
        "slowest rank": _slowest_rank(data) if data.get("ranks") else "",
    }


# -- compare ------------------------------------------------------------------------------------


def _compare_sections(record: Record, margin: float | None) -> list[Section]:
    rows = []
    for variant in record.data["variants"]:
        summary = summarize(variant["samples_us"])
        rows.append(
            (
                figures.printable(variant["name"]),
                figures.latency(summary),
                figures.interval(summary.ci95, summary.median),
                figures.printable(variant.get("call") or ""),
            )
        )
    lines = _origin(record)
    if record.data.get("rounds"):
        lines.append(("rounds", f"{record.data['rounds']:.0f}, interleaved"))
    if record.data.get("outputs_match") is not None:
        lines.append(("outputs", _outputs(record.data)))
    lines.append(("measured", _method(record)))
    lines += _clocks(record) + _flag_lines(all_flags(record))
    for variant in record.data["variants"]:
        for flag in read_flags(variant):
            lines.append(
                ("flag", figures.printable(f"{variant['name']}: {flag.code}: {flag.message}"))
            )
    columns = ("variant", LATENCY, "95 % CI", "call")
    table = Table("", columns, tuple(rows), ("call", "95 % CI"), _row_facts(columns, rows))
    pairs = _comparison_facts(recorded_pairs(record, margin))
    return [Facts(figures.printable(record.title), tuple(lines)), table, pairs]


def _outputs(data: Any) -> str:
    stated = data.get("tolerance") or {}
    bounds = ", ".join(f"{name} {value}" for name, value in stated.items() if value is not None)
    text = figures.printable(stated.get("text") or bounds)
    return ("agree" if data["outputs_match"] else "DIFFER") + (f" ({text})" if text else "")


# -- several records ----------------------------------------------------------------------------


def _several(records: Sequence[Record], kind: str) -> list[Section]:
    row_of = _op_row if kind == "op" else _loop_row
    cells = [{"record": r.label, "operation": r.title, **row_of(r)} for r in records]
    titles = {record.title for record in records}
    title = figures.printable(titles.pop()) if len(titles) == 1 else ""
    shared = []
    for name, value_of in (("device", _device), ("measured", lambda r: _joined(_conditions(r)))):
        values = {value_of(record) for record in records}
        if len(values) == 1:
            shared.append((name, values.pop()))
        else:
            for cell, record in zip(cells, records, strict=True):
                shared.append((name, f"{cell['record']}: {value_of(record)}"))
    columns = tuple(
        name
        for name in cells[0]
        if any(cell[name] for cell in cells) and not (name == "operation" and title)
    )
    rows = [tuple(figures.printable(cell[name]) for name in columns) for cell in cells]
    leaving = ("p5 .. p95", "slowest rank", "95 % CI")
    table = Table(title, columns, tuple(rows), leaving, _row_facts(columns, rows))
    shared += [
        ("flag", figures.printable(f"{record.label}: {flag.code}: {flag.message}"))
        for record in records
        for flag in all_flags(record)
    ]
    return [table, Facts("", tuple((name, figures.printable(text)) for name, text in shared))]


def _row_facts(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Facts, ...]:
    return tuple(
        Facts(row[0], tuple(pair for pair in zip(columns[1:], row[1:], strict=True) if pair[1]))
        for row in rows
    )


def _comparison_facts(comparisons: Sequence[Comparison]) -> Facts:
    first = comparisons[0]
    lines = []
    for comparison in comparisons:
        name = figures.printable(f"{comparison.candidate} / {comparison.baseline}")
        lines.append((name, _ratio_text(comparison)))
        lines += [("withheld", figures.printable(text)) for text in comparison.withheld]
        lines += [("note", figures.printable(text)) for text in comparison.notes]
    if not first.paired:
        lines.append(("", _SEPARATE + (_INTERLEAVE if first.rate_ratio is None else "")))
    how = "paired" if first.paired else "separate runs"
    title = (
        f"Comparison of {first.quantity} ({how}; candidate / baseline;"
        f" margin {first.margin * 100:g} %)"
    )
    return Facts(title, tuple(lines))


def _ratio_text(comparison: Comparison) -> str:
    said = verdict_text(comparison)
    if comparison.ratio is None:
        return f"no ratio: {said}"
    bounds = comparison.ratio.interval
    ends = f"{figures.ratio(bounds.low)} .. {figures.ratio(bounds.high)}" if bounds else "none"
    text = f"{figures.ratio(comparison.ratio.value)} (95 % CI {ends}): {said}"
    if comparison.rate_ratio is not None:
        text += f"; items/s x {figures.ratio(comparison.rate_ratio)}"
    return text


def verdict_text(comparison: Comparison) -> str:
    """slower by 3.1 %; same within 1 %; undecided (withheld)."""
    said = comparison.verdict
    if comparison.withheld:
        return "undecided, verdict withheld"
    if said == "same":
        said = f"same within {comparison.margin * 100:g} %"
    elif said in ("faster", "slower") and comparison.ratio is not None:
        said = f"{said} by {figures.difference(comparison.ratio.value)}"
    return said + (" (see notes)" if comparison.notes else "")

"""A picture of the records: samples over time, their distribution, the comparison."""

import io
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perf_timing.report import figures
from perf_timing.report.comparison import Comparison
from perf_timing.report.estimates import median_ci95, quantile
from perf_timing.report.record import Record
from perf_timing.report.view import verdict_text

FORMATS = ("png", "svg", "pdf")

# Okabe and Ito's palette: told apart by the colour-blind, and in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_VERDICT_COLOURS = {"faster": "#009E73", "slower": "#D55E00", "same": "#0072B2"}
_GREY = "#777777"
_MOST_POINTS = 20_000  # of one series; more would only blacken the panel


@dataclass(frozen=True)
class _Series:
    """Samples under one name; `time_s` places them, else their number does.

    `main` ones are what is compared; the others stand beside them.
    """

    name: str
    samples_us: list[float]
    time_s: list[float] | None = None
    clock: list[tuple[float, float]] = field(default_factory=list)
    main: bool = True
    colour: str = ""
    doubt_us: float = 0.0


def draw(records: Sequence[Record], comparisons: Sequence[Comparison], form: str) -> bytes:
    """The picture in the format `form`; raises ModuleNotFoundError without matplotlib."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # a cache folder is none of our news
    from matplotlib.figure import Figure

    series = _coloured([one for record in records for one in _series(record)])
    timed = all(one.time_s for one in series)
    heights = {"samples": 3.2, "distribution": 2.8}
    if timed and any(one.clock for one in series):
        heights = {"samples": 3.2, "clock": 1.1, "distribution": 2.8}
    if comparisons:
        heights["comparison"] = 0.9 + 0.42 * len(comparisons)
    figure = Figure(figsize=(9, sum(heights.values()) + 0.6), dpi=150, layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=list(heights.values()))
    panels = dict(zip(heights, axes[:, 0], strict=True))
    figure.suptitle(_title(records), fontsize=11, fontweight="bold", x=0.01, ha="left")
    unit, scale = figures.unit(max(quantile(sorted(one.samples_us), 0.5) for one in series))
    _draw_time(panels["samples"], series, timed, unit, scale)
    if "clock" in panels:
        _draw_clock(panels["clock"], panels["samples"], series)
    _draw_distribution(panels["distribution"], [s for s in series if s.main], unit, scale)
    if comparisons:
        _draw_comparisons(panels["comparison"], comparisons)
    for panel in panels.values():
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; stderr is for failures.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(stream, format=form)
    return stream.getvalue()


def _coloured(series: Sequence[_Series]) -> list[_Series]:
    return [replace(one, colour=_COLOURS[i % len(_COLOURS)]) for i, one in enumerate(series)]


def _title(records: Sequence[Record]) -> str:
    titles = list(dict.fromkeys(_plain(record.title) for record in records))
    devices = list(dict.fromkeys(str(r.device("name") or "unknown device") for r in records))
    name = titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more"
    return _short(f"{name}  |  {_plain(', '.join(devices))}", 90)


def _plain(text: str) -> str:
    """`text` with nothing that matplotlib reads: formulas in "$", labels hidden by a first "_"."""
    line = figures.printable(text).replace("$", r"\$")
    return f" {line}" if line.startswith("_") else line


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _series(record: Record) -> list[_Series]:
    if record.kind == "compare":
        variants = record.data["variants"]
        rounds_s = record.data.get("sample_time_s")
        return [
            _Series(v["name"], v["samples_us"], rounds_s if _fits(rounds_s, v) else None)
            for v in variants
        ]
    if record.kind == "loop":
        name = "wall time per step" if record.data.get("period_us") else "step"
        found = [_Series(f"{record.label} {name}", record.samples_us)]
        wait = record.data.get("data_wait_us")
        name = f"{record.label} data wait"
        return found + ([_Series(name, wait["samples_us"], main=False)] if wait else [])
    clock = [(point[0], point[1]) for point in record.data.get("clock_trace") or ()]
    times = record.data.get("sample_time_s")
    return [_Series(record.label, record.samples_us, times, clock, doubt_us=record.doubt_us)]


def _fits(times_s: list[float] | None, variant: Any) -> bool:
    return times_s is not None and len(times_s) == len(variant["samples_us"])


def _draw_time(panel: Any, series: Sequence[_Series], timed: bool, unit: str, scale: float) -> None:
    low, high = _limits(series, scale)
    for one in series:
        places = one.time_s if timed and one.time_s else list(range(len(one.samples_us)))
        step = max(1, len(places) // _MOST_POINTS)
        points = list(zip(places, [value / scale for value in one.samples_us], strict=True))
        _draw_points(panel, points[::step], (low, high), one.colour, one.name)
    panel.set_ylim(low, high)
    panel.set_xlabel("seconds since the first sample" if timed else "sample", fontsize=8)
    panel.set_ylabel(f"time, {unit}", fontsize=8)
    panel.grid(axis="y", alpha=0.25)
    _entitle(panel, "Samples in order of measurement (triangle: beyond the edge)")
    panel.legend(
        fontsize=8, frameon=False, ncols=min(len(series), 5), markerscale=3,
        loc="lower right", bbox_to_anchor=(1, 1.06), borderaxespad=0.2,
    )  # fmt: skip


def _draw_points(
    panel: Any,
    points: Sequence[tuple[float, float]],
    limits: tuple[float, float],
    colour: str,
    name: str,
) -> None:
    low, high = limits
    inset = 0.02 * (high - low)
    for marker, size, kept in (
        (".", 3.5, [(x, y) for x, y in points if low <= y <= high]),
        ("^", 5, [(x, high - inset) for x, y in points if y > high]),
        ("v", 5, [(x, low + inset) for x, y in points if y < low]),
    ):
        if not kept and marker != ".":
            continue
        panel.plot(
            [x for x, _ in kept], [y for _, y in kept], marker, color=colour, markersize=size,
            alpha=0.6,
            label=_short(_plain(name), 40) if marker == "." else None,
        )  # fmt: skip


def _draw_clock(panel: Any, above: Any, series: Sequence[_Series]) -> None:
    for one in series:
        if one.clock:
            times, clocks = zip(*one.clock, strict=True)
            panel.plot(times, clocks, ".-", color=one.colour, linewidth=1, markersize=3)
    panel.sharex(above)
    panel.margins(y=0.25)
    panel.set_ylabel("SM clock, MHz", fontsize=8)
    panel.grid(axis="y", alpha=0.25)


def _entitle(panel: Any, text: str) -> None:
    panel.set_title(text, loc="left", fontsize=9.5)


def _limits(series: Sequence[_Series], scale: float) -> tuple[float, float]:
    """The middle 90 % with as much room again: one hiccup must not flatten everything else."""
    ordered = [sorted(one.samples_us) for one in series]
    low = min(quantile(values, 0.05) for values in ordered) / scale
    high = max(quantile(values, 0.95) for values in ordered) / scale
    widest = max(quantile(v, 0.95) - quantile(v, 0.05) for v in ordered) / scale
    room = widest + 0.05 * (high - low) or 0.05 * high or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room


def _draw_distribution(panel: Any, series: Sequence[_Series], unit: str, scale: float) -> None:
    for one in series:
        ordered = sorted(one.samples_us)
        shares = [(rank + 1) / len(ordered) * 100 for rank in range(len(ordered))]
        step = max(1, len(ordered) // _MOST_POINTS)
        values = [value / scale for value in ordered]
        panel.step(values[::step], shares[::step], where="post", color=one.colour, linewidth=1.5)
        middle, bounds = quantile(ordered, 0.5), median_ci95(one.samples_us, one.doubt_us)
        panel.plot([middle / scale], [50], "o", color=one.colour, markersize=5)
        if bounds:
            panel.axvspan(
                bounds.low / scale, bounds.high / scale, color=one.colour, alpha=0.18, lw=0
            )
    limits = _limits(series, scale)
    panel.set_xlim(*limits)
    outside = _outside(limits, series, scale)
    panel.set_ylim(0, 100)
    note = f"; samples beyond the edges: {outside}" if outside else ""
    _entitle(panel, f"Distribution (dot: median; band: its 95 % confidence interval{note})")
    panel.set_xlabel(f"time, {unit}", fontsize=8)
    panel.set_ylabel("% of samples at or below", fontsize=8)
    panel.grid(alpha=0.25)


def _outside(limits: tuple[float, float], series: Sequence[_Series], scale: float) -> int:
    low, high = limits
    return sum(not low <= value / scale <= high for one in series for value in one.samples_us)


def _draw_comparisons(panel: Any, comparisons: Sequence[Comparison]) -> None:
    margin = comparisons[0].margin
    panel.axvspan(-margin * 100, margin * 100, color=_GREY, alpha=0.15, lw=0)
    panel.axvline(0, color=_GREY, linewidth=1)
    names = []
    for row, comparison in enumerate(comparisons):
        names.append(_short(_plain(f"{comparison.candidate} / {comparison.baseline}"), 34))
        colour = _VERDICT_COLOURS.get(comparison.verdict, _GREY)
        text = f"  {verdict_text(comparison)}"
        if comparison.ratio is None:
            panel.text(0, row, text, fontsize=8, va="center", color=colour)
            continue
        middle, bounds = _percent(comparison.ratio.value), comparison.ratio.interval
        if bounds:
            ends = [_percent(bounds.low), _percent(bounds.high)]
            panel.plot(ends, [row, row], "|-", color=colour, linewidth=2, markersize=9)
        panel.plot([middle], [row], "o", color=colour, markersize=6)
        panel.annotate(
            text.strip(), (middle, row), xytext=(0, 7), textcoords="offset points", fontsize=8,
            ha="center", color=colour,
        )  # fmt: skip
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.8)
    panel.margins(x=0.25)
    _entitle(
        panel,
        f"Time of candidate against baseline (95 % interval; grey: within {margin * 100:g} %)",
    )
    panel.set_xlabel("% longer (right) or shorter (left)", fontsize=8)
    panel.grid(axis="x", alpha=0.25)


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100

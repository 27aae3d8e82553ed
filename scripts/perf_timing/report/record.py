"""The JSON record that rendered and injected code writes: schema `perf-timing/1`, one a file.

The tables below are the schema. Each key has a type, a presence and a meaning:

* `REQUIRED`: no record without it;
* `WRITTEN`: every writer of this project writes it (null where unknown); a reader goes without;
* `OPTIONAL`: written where it was measured.

Times are microseconds (`_us`) unless the key says otherwise, and times *per call* of the operation
whatever number of calls one sample held. A number is finite and not beyond all measure. A time,
count or rate is not negative, save for a sample that is the difference of two readings. Keys beyond
these are left alone: a later version may add some.
"""

import json
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf_timing._cli import UserError

SCHEMA = "perf-timing/1"
KINDS = ("op", "compare", "loop")
CACHES = ("warm", "cold")
VERDICTS = ("faster", "slower", "same", "undecided")
MAX_BYTES = 256 * 2**20
MAX_US = 1e15  # 31 years
# Beyond what any machine does or measures, and safe to multiply and divide.
LEAST, MOST = 1e-30, 1e30

REQUIRED, WRITTEN, OPTIONAL = "required", "written", "optional"

# Called with a value and its key; raises RecordError. What it returns is for other checks.
Check = Callable[[object, str], object]


class RecordError(UserError):
    """What is wrong with a record; the text begins with the key."""


@dataclass(frozen=True)
class Field:
    """One key of the schema; `nullable` ones are null where the writer could not know."""

    check: Check
    presence: str
    doc: str
    nullable: bool = True


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."


def _text(value: object, key: str) -> None:
    if not isinstance(value, str):
        raise RecordError(f"{key} is {_shown(value)}; it must be a string")


def _boolean(value: object, key: str) -> None:
    if not isinstance(value, bool):
        raise RecordError(f"{key} is {_shown(value)}; it must be true or false")


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(f"{key} is {_shown(value)}; it must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RecordError(f"{key} is {_shown(value)}; it must be finite")
    if number and not LEAST <= abs(number) <= MOST:
        raise RecordError(f"{key} is {_shown(value)}; no measurement gives that")
    return number


def _amount(value: object, key: str) -> float:
    number = _number(value, key)
    if number < 0:
        raise RecordError(f"{key} is {_shown(value)}; it cannot be negative")
    return number


def _time_us(value: object, key: str) -> None:
    # Negative ones are for _check_summary to judge.
    if abs(_number(value, key)) > MAX_US:
        raise RecordError(f"{key} is {_shown(value)}; that is more than {MAX_US:.0e} us")


def _count(value: object, key: str) -> None:
    if not _amount(value, key).is_integer():
        raise RecordError(f"{key} is {_shown(value)}; it must be a whole number")


def _share(value: object, key: str) -> None:
    if _amount(value, key) > 1:
        raise RecordError(f"{key} is {_shown(value)}; a share is at most 1")


def _one_of(*choices: str) -> Check:
    def check(value: object, key: str) -> None:
        if value not in choices:
            raise RecordError(f"{key} is {_shown(value)}; it must be one of: {', '.join(choices)}")

    return check


def _list_of(item: Check, *, least: int = 0, what: str = "items") -> Check:
    def check(value: object, key: str) -> None:
        if not isinstance(value, list):
            raise RecordError(f"{key} is {_shown(value)}; it must be a list")
        if len(value) < least:
            raise RecordError(f"{key} holds {len(value)} {what}; it needs at least {least}")
        for index, element in enumerate(value):
            item(element, f"{key}[{index}]")

    return check


def _clock_point(value: object, key: str) -> None:
    _list_of(_amount)(value, key)
    if isinstance(value, list) and len(value) != 2:
        raise RecordError(f"{key} is {_shown(value)}; it must be [seconds, MHz]")


def _object_of(fields: Mapping[str, Field], *, strict: bool = False) -> Check:
    def check(value: object, key: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(f"{key} is {_shown(value)}; it must be an object")
        _check_fields(value, fields, f"{key}.", strict)

    return check


def _mapping_of(item: Check) -> Check:
    def check(value: object, key: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(f"{key} is {_shown(value)}; it must be an object")
        for name, element in value.items():
            if element is not None:
                item(element, f"{key}.{name}")

    return check


def _scalar(value: object, key: str) -> None:
    if isinstance(value, dict | list):
        raise RecordError(f"{key} is {_shown(value)}; it must be a string, number or boolean")


def _check_fields(
    data: Mapping[str, Any], fields: Mapping[str, Field], prefix: str, strict: bool
) -> None:
    for name, field in fields.items():
        key = prefix + name
        if name not in data:
            if field.presence == REQUIRED or (strict and field.presence == WRITTEN):
                raise RecordError(f"no key {key}: {field.doc}")
        elif data[name] is None:
            if not field.nullable:
                raise RecordError(f"{key} is null: {field.doc}")
        else:
            field.check(data[name], key)


_times = _list_of(_time_us, least=1, what="samples")

SUMMARY = {
    "n": Field(_count, WRITTEN, "number of samples"),
    "median_us": Field(_number, WRITTEN, "median of the samples"),
    "mean_us": Field(_number, WRITTEN, "mean of the samples"),
    "std_us": Field(_amount, WRITTEN, "standard deviation of the samples (n - 1)"),
    "min_us": Field(_number, WRITTEN, "least sample"),
    "max_us": Field(_number, WRITTEN, "greatest sample"),
    "p5_us": Field(_number, WRITTEN, "5 % quantile"),
    "p95_us": Field(_number, WRITTEN, "95 % quantile"),
    "iqr_us": Field(_amount, WRITTEN, "75 % quantile less 25 % quantile"),
    "ci95_low_us": Field(_number, WRITTEN, "lower end of the 95 % interval of the median"),
    "ci95_high_us": Field(_number, WRITTEN, "upper end of the 95 % interval of the median"),
    "outliers": Field(_count, WRITTEN, "samples over 1.5 IQR beyond the quartiles; none left out"),
}

FLAG = {
    "code": Field(_text, REQUIRED, "short name of what was noticed, as host-bound", nullable=False),
    "message": Field(_text, WRITTEN, "one sentence about it"),
}

DEVICE = {
    "name": Field(_text, WRITTEN, "marketing name, as NVIDIA H200"),
    "index": Field(_count, WRITTEN, "index among the visible devices"),
    "uuid": Field(_text, WRITTEN, "identity of the very card"),
    "driver": Field(_text, WRITTEN, "driver version"),
    "compute_capability": Field(_scalar, WRITTEN, "as 9.0"),
    "sm_count": Field(_count, WRITTEN, "streaming multiprocessors"),
    "l2_bytes": Field(_count, WRITTEN, "size of the L2 cache"),
    "memory_bytes": Field(_count, WRITTEN, "size of device memory"),
}

CLOCKS = {
    "sm_mhz": Field(_amount, WRITTEN, "SM clock"),
    "memory_mhz": Field(_amount, WRITTEN, "memory clock"),
    "temperature_c": Field(_number, WRITTEN, "temperature"),
    "power_w": Field(_amount, WRITTEN, "power draw"),
    "event_reasons": Field(
        lambda value, key: None, WRITTEN, "why the clock is not higher, as the driver says"
    ),
}

BEFORE_AFTER = {
    "before": Field(_object_of(CLOCKS), WRITTEN, "state before the first sample"),
    "after": Field(_object_of(CLOCKS), WRITTEN, "state after the last sample"),
}

COMMON = {
    "schema": Field(_one_of(SCHEMA), REQUIRED, f"the string {SCHEMA}", nullable=False),
    "kind": Field(_one_of(*KINDS), REQUIRED, f"one of: {', '.join(KINDS)}", nullable=False),
    "scenario": Field(_text, WRITTEN, "template that wrote the code"),
    "name": Field(_text, REQUIRED, "operation"),
    "dims": Field(_text, WRITTEN, "its dimensions and type"),
    "method": Field(_text, REQUIRED, "how time was taken, as graph-slope or event-window"),
    "flags": Field(_list_of(_object_of(FLAG)), REQUIRED, "what was noticed", nullable=False),
    "device": Field(_object_of(DEVICE), REQUIRED, "what ran the work"),
    "versions": Field(_mapping_of(_scalar), WRITTEN, "software by name, as torch"),
    "created": Field(_text, WRITTEN, "time of writing, ISO 8601 with zone"),
}

CONDITIONS = {
    "cache": Field(_one_of(*CACHES), WRITTEN, "state of the L2 cache at the start of a call"),
    "cache_method": Field(_text, WRITTEN, "how that state was made; after a semicolon, evidence"),
    "clocks": Field(_object_of(BEFORE_AFTER), WRITTEN, "clocks around the measurement"),
}

OP = {
    "samples_us": Field(_times, REQUIRED, "time per call, in order of measurement", nullable=False),
    "sample_time_s": Field(_list_of(_number), OPTIONAL, "seconds since the first sample, each"),
    "clock_trace": Field(_list_of(_clock_point), OPTIONAL, "[seconds, SM MHz] beside the samples"),
    "summary": Field(_object_of(SUMMARY), REQUIRED, "statistics of the samples", nullable=False),
    "calls_per_sample": Field(_amount, WRITTEN, "calls that one sample averages"),
    "warmup": Field(_mapping_of(_amount), WRITTEN, "ms and calls before the first sample"),
    "converged": Field(_boolean, WRITTEN, "the interval is as narrow as was asked for"),
    "host_bound": Field(_boolean, WRITTEN, "the figure is launch cost, not device time"),
    "host_us_per_call": Field(_amount, WRITTEN, "host time to enqueue one call"),
    "kernel_time_us": Field(_amount, OPTIONAL, "time that CUPTI records for the call's kernels"),
    "kernels_per_call": Field(_amount, OPTIONAL, "kernels that one call launches"),
    "floor_us": Field(_amount, WRITTEN, "what the method reads for no work"),
    "bytes": Field(_amount, WRITTEN, "bytes that one call moves"),
    "flops": Field(_amount, WRITTEN, "floating-point operations of one call"),
    "gb_per_s": Field(_amount, WRITTEN, "bytes / median, in 1e9 B/s"),
    "tflop_per_s": Field(_amount, WRITTEN, "flops / median, in 1e12 FLOP/s"),
    "peak_gb_per_s": Field(_amount, WRITTEN, "device's peak memory bandwidth"),
    "peak_tflop_per_s": Field(_amount, WRITTEN, "device's dense peak for this type"),
}

VARIANT = {
    "name": Field(_text, REQUIRED, "name of this version", nullable=False),
    "call": Field(_text, WRITTEN, "expression that was timed"),
    "samples_us": OP["samples_us"],
    "summary": Field(_object_of(SUMMARY), WRITTEN, "statistics of the samples"),
    "host_us_per_call": OP["host_us_per_call"],
    "flags": Field(_list_of(_object_of(FLAG)), WRITTEN, "what was noticed with this version"),
}

PAIR = {
    "baseline": Field(_text, REQUIRED, "name of a variant", nullable=False),
    "candidate": Field(_text, REQUIRED, "name of another", nullable=False),
    "ratio_median": Field(_amount, REQUIRED, "candidate time / baseline time"),
    "ratio_ci95_low": Field(_amount, REQUIRED, "lower end of its 95 % interval"),
    "ratio_ci95_high": Field(_amount, REQUIRED, "upper end of its 95 % interval"),
    "verdict": Field(_one_of(*VERDICTS), REQUIRED, "of candidate on baseline", nullable=False),
}

COMPARE = {
    "variants": Field(
        _list_of(_object_of(VARIANT), least=2, what="variants"),
        REQUIRED,
        "versions that ran interleaved",
        nullable=False,
    ),
    "rounds": Field(_count, WRITTEN, "rounds in which every variant ran"),
    "pairs": Field(
        _list_of(_object_of(PAIR), least=1, what="pairs"), REQUIRED, "comparisons", nullable=False
    ),
    "margin": Field(_amount, WRITTEN, "difference that counts as the same, as 0.01"),
    "outputs_match": Field(_boolean, WRITTEN, "outputs agreed within the tolerance"),
    "tolerance": Field(_mapping_of(_scalar), WRITTEN, "rtol and atol of that check, or its text"),
    "sample_time_s": Field(_list_of(_number), OPTIONAL, "seconds since the first round, each"),
}

SERIES = {**SUMMARY, "samples_us": OP["samples_us"]}

RANK = {
    "rank": Field(_count, REQUIRED, "rank in the process group", nullable=False),
    "step_median_us": Field(_amount, WRITTEN, "its median step time"),
    "data_wait_median_us": Field(_amount, WRITTEN, "its median data wait"),
    "items": Field(_amount, WRITTEN, "items that it processed"),
    "wall_s": Field(_amount, WRITTEN, "seconds that its measured steps took"),
}

ASIDE = {
    "n": Field(_count, WRITTEN, "steps that it came in"),
    "total_us": Field(_amount, WRITTEN, "its time in all of them"),
    "max_us": Field(_amount, WRITTEN, "its longest"),
}

LOOP = {
    "step_us": Field(
        _object_of(SERIES),
        REQUIRED,
        "time of a step, without the fetch of its batch where period_us is written",
        nullable=False,
    ),
    "period_us": Field(_object_of(SERIES), OPTIONAL, "wall time from one step to the next"),
    "data_wait_us": Field(_object_of(SERIES), WRITTEN, "host time blocked in the fetch"),
    "copy_wait_us": Field(_object_of(SERIES), WRITTEN, "host time blocked in copies to the device"),
    "phases": Field(_mapping_of(_object_of(SERIES)), WRITTEN, "time by phase, as forward"),
    "asides": Field(
        _mapping_of(_object_of(ASIDE)), OPTIONAL, "evaluation and checkpoint, in no other figure"
    ),
    "items_per_s": Field(_amount, WRITTEN, "items of all ranks / seconds of the slowest"),
    "items": Field(_amount, WRITTEN, "items processed in the measured steps"),
    "steps": Field(_count, WRITTEN, "measured steps"),
    "data_wait_share": Field(_share, WRITTEN, "data wait / wall time of the steps"),
    "data_wait_over_step": Field(_amount, OPTIONAL, "data wait / step time without it"),
    "mfu": Field(_amount, WRITTEN, "model FLOP/s / dense peak"),
    "peak_memory_bytes": Field(_amount, WRITTEN, "most device memory allocated"),
    "ranks": Field(_list_of(_object_of(RANK)), WRITTEN, "one entry a rank that answered"),
    "world_size": Field(_count, WRITTEN, "ranks in the process group"),
    "slowest_rank": Field(_count, OPTIONAL, "rank that the others wait for"),
    "lag_us": Field(_amount, OPTIONAL, "how far it is behind the middle rank, a step"),
    "missing_ranks": Field(_list_of(_count), OPTIONAL, "ranks that did not answer"),
    "clocks": Field(_object_of(BEFORE_AFTER), OPTIONAL, "clocks around the measurement"),
}

FIELDS = {
    "op": {**COMMON, **CONDITIONS, **OP},
    "compare": {**COMMON, **CONDITIONS, **COMPARE},
    "loop": {**COMMON, **LOOP},
}


@dataclass(frozen=True)
class Flag:
    """Something that was noticed about a figure."""

    code: str
    message: str


@dataclass(frozen=True)
class Record:
    """One checked record; `label` is the short name that a report gives it."""

    path: str
    label: str
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.data["kind"])

    @property
    def title(self) -> str:
        """Operation with its dimensions."""
        words = (self.data.get("name") or self.data.get("scenario"), self.data.get("dims"))
        return " ".join(word for word in words if word) or "(unnamed)"

    @property
    def flags(self) -> tuple[Flag, ...]:
        return read_flags(self.data)

    @property
    def doubt_us(self) -> float:
        """How far what was subtracted from every sample may be off, 0 where nothing was."""
        return float(self.data.get("doubt_us") or 0.0)

    @property
    def samples_us(self) -> list[float]:
        """Time per call of an op; wall time per step of a loop, data wait included if known."""
        if self.kind == "loop":
            return list((self.data.get("period_us") or self.data["step_us"])["samples_us"])
        return list(self.data["samples_us"])

    def device(self, key: str) -> Any:
        """A fact about the device, None where unknown."""
        return (self.data.get("device") or {}).get(key)


def read_flags(holder: Mapping[str, Any]) -> tuple[Flag, ...]:
    """Flags of a record or of a variant."""
    return tuple(
        # A loop prints its messages without the code, so that some begin with it.
        Flag(str(flag["code"]), str(flag.get("message") or "").removeprefix(f"{flag['code']}: "))
        for flag in holder.get("flags") or ()
    )


def load(path: str | Path, label: str | None = None) -> Record:
    """Read and check one record; raises UserError that names the file and the key."""
    text = _read(Path(path))
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
        return Record(str(path), label or Path(path).stem, validate(data))
    except RecordError as error:
        raise UserError(f"{path}: {error}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        ends = text.rstrip().endswith("}") and error.pos < len(text.rstrip())
        cut = text.lstrip().startswith("{") and not ends
        hint = "the file is cut short" if cut else "write one JSON object a file"
        raise UserError(f"{path}: not JSON at {place} ({error.msg}); {hint}") from None
    except (RecursionError, ValueError):  # nested without end, or an integer of 5,000 digits
        raise UserError(f"{path}: not a record: its nesting or numbers are out of bounds") from None


def validate(data: object, *, strict: bool = False) -> Mapping[str, Any]:
    """`data` where it is a record of this schema; raises RecordError that names the first bad key.

    `strict` also asks for the keys that this project's writers always write.
    """
    if not isinstance(data, dict):
        raise RecordError(f"the record is {_shown(data)}; it must be one JSON object")
    if data.get("schema") != SCHEMA:
        found = _shown(data["schema"]) if "schema" in data else "absent"
        raise RecordError(f"schema is {found}; this version reads {SCHEMA}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise RecordError(f"kind is {_shown(kind)}; it must be one of: {', '.join(KINDS)}")
    _check_fields(data, FIELDS[kind], "", strict)
    _CROSS_CHECKS[kind](data)
    return data


def _check_op(data: Mapping[str, Any]) -> None:
    _check_summary(data["samples_us"], data["summary"], "samples_us", "summary")
    times = data.get("sample_time_s")
    if times and len(times) != len(data["samples_us"]):
        raise RecordError(
            f"sample_time_s holds {len(times)} times for {len(data['samples_us'])} samples"
        )


def _check_compare(data: Mapping[str, Any]) -> None:
    names = [variant["name"] for variant in data["variants"]]
    for index, variant in enumerate(data["variants"]):
        if names.index(variant["name"]) != index:
            raise RecordError(f"variants[{index}].name is {_shown(variant['name'])} a second time")
        summary = variant.get("summary") or {}
        key = f"variants[{index}]"
        _check_summary(variant["samples_us"], summary, f"{key}.samples_us", f"{key}.summary")
    for index, pair in enumerate(data["pairs"]):
        for side in ("baseline", "candidate"):
            if pair[side] not in names:
                raise RecordError(f"pairs[{index}].{side} is {_shown(pair[side])}; no such variant")
        low, high = pair["ratio_ci95_low"], pair["ratio_ci95_high"]
        if (low is None) != (high is None) or (low is not None and low > high):
            raise RecordError(f"pairs[{index}] has the interval {_shown([low, high])}")
        _check_ratio(pair, data["variants"], f"pairs[{index}].ratio_median")


def _check_ratio(pair: Mapping[str, Any], variants: list[Any], key: str) -> None:
    """The ratio has to be that of the samples, taken within rounds or of the medians."""
    samples = {variant["name"]: variant["samples_us"] for variant in variants}
    below, above = samples[pair["baseline"]], samples[pair["candidate"]]
    if pair["ratio_median"] is None or len(below) != len(above) or min(below) <= 0:
        return
    within = statistics.median(b / a for a, b in zip(below, above, strict=True))
    between = statistics.median(above) / statistics.median(below)
    slack = 5e-3
    if not any(abs(pair["ratio_median"] - r) <= slack * abs(r) for r in (within, between)):
        stated = _shown(pair["ratio_median"])
        raise RecordError(f"{key} is {stated} but that of the samples is {within:.6g}")


def _check_loop(data: Mapping[str, Any]) -> None:
    named = {key: data.get(key) for key in ("step_us", "period_us", "data_wait_us", "copy_wait_us")}
    named |= {f"phases.{name}": phase for name, phase in (data.get("phases") or {}).items()}
    for key, series in named.items():
        if series:
            _check_summary(series["samples_us"], series, f"{key}.samples_us", key)


def _check_summary(
    samples: list[float], summary: Mapping[str, Any], key: str, summary_key: str
) -> None:
    """A summary that its samples do not bear out means that one of them was edited.

    So does a negative sample that the summary does not know of. A reading that is the difference
    of two may be negative where one of them met a hiccup, and none is left out.
    """
    n, stated, least = (summary.get(name) for name in ("n", "median_us", "min_us"))
    if n is not None and n != len(samples):
        raise RecordError(f"{summary_key}.n is {_shown(n)} but {key} holds {len(samples)}")
    ordered, half = sorted(samples), len(samples) // 2
    if ordered[0] < 0 and (least is None or not math.isclose(least, ordered[0], rel_tol=1e-3)):
        place = f"{key}[{samples.index(ordered[0])}] is {_shown(ordered[0])}"
        raise RecordError(f"{place}; no time is negative, and {summary_key}.min_us knows of none")
    # Both middle samples and everything between them are medians of an even number of samples.
    low, high = ordered[(len(samples) - 1) // 2], ordered[half]
    slack = 1e-3 * max(abs(low), abs(high))
    if stated is not None and not low - slack <= stated <= high + slack:
        raise RecordError(
            f"{summary_key}.median_us is {_shown(stated)} but the median of {key} is"
            f" {(low + high) / 2:.6g}"
        )


_CROSS_CHECKS = {"op": _check_op, "compare": _check_compare, "loop": _check_loop}


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read {path}: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise UserError(f"{path}: larger than {MAX_BYTES >> 20} MiB; no record is")
    if not raw.strip():
        raise UserError(f"{path}: empty; the benchmark that should have written it did not end")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text at byte {error.start}; no record") from None


def _refuse_constant(name: str) -> None:
    raise RecordError(f"holds {name}; every number must be finite, and null where unknown")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise RecordError(f"key {_shown(double)} appears twice in one object")
    return result

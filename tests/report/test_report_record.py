"""The schema: every valid record is read, every invalid one is refused with file and key."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_timing._cli import UserError
from perf_timing.report import record as schema
from report.report_records import compare_record, loop_record, op_record, write

MAKERS = {"op": op_record, "compare": compare_record, "loop": loop_record}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_whole_record_is_valid_even_strictly(kind: str) -> None:
    data = MAKERS[kind]()
    assert schema.validate(data, strict=True) is data


@pytest.mark.parametrize("kind", MAKERS)
def test_every_key_of_the_schema_is_in_the_whole_record_or_optional(kind: str) -> None:
    data = MAKERS[kind]()
    absent = {key for key in schema.FIELDS[kind] if key not in data}
    assert all(schema.FIELDS[kind][key].presence == schema.OPTIONAL for key in absent)


@pytest.mark.parametrize("kind", MAKERS)
def test_each_key_may_be_absent_only_as_its_presence_says(kind: str) -> None:
    for key, field in schema.FIELDS[kind].items():
        data = MAKERS[kind]()
        data.pop(key, None)
        if field.presence == schema.REQUIRED:
            with pytest.raises(schema.RecordError, match=key):
                schema.validate(data)
            continue
        schema.validate(data)
        if field.presence == schema.WRITTEN:
            with pytest.raises(schema.RecordError, match=f"no key {key}"):
                schema.validate(data, strict=True)


@pytest.mark.parametrize("kind", MAKERS)
def test_each_key_may_be_null_only_as_the_schema_says(kind: str) -> None:
    for key, field in schema.FIELDS[kind].items():
        data = {**MAKERS[kind](), key: None}
        if field.nullable:
            schema.validate(data)
        else:
            with pytest.raises(schema.RecordError, match=key):
                schema.validate(data)


def test_a_negative_difference_of_readings_is_a_sample_like_others() -> None:
    values = [10.0, 10.1, 25.7, -8.6, 9.9]
    schema.validate(op_record(samples_us=values))
    with pytest.raises(schema.RecordError, match=r"samples_us\[3\] is -8.6; no time is negative"):
        schema.validate(op_record(samples_us=values, summary={"n": 5}))


def test_unknown_keys_are_left_alone() -> None:
    schema.validate(op_record(future_key={"a": [1]}), strict=True)


def _set(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return change


WRONG = [
    pytest.param("op", _set("schema", value="perf-timing/2"), "schema", id="a later schema"),
    pytest.param("op", _set("schema", value=1), "schema", id="a schema that is a number"),
    pytest.param("op", _set("kind", value="ops"), "kind", id="an unknown kind"),
    pytest.param("op", _set("kind", value=["op"]), "kind", id="a kind that is a list"),
    pytest.param("op", _set("samples_us", value=[]), "samples_us", id="no samples"),
    pytest.param("op", _set("samples_us", value=5), "samples_us", id="samples that are a number"),
    pytest.param("op", _set("samples_us", 3, value=-1.0), "samples_us[3]", id="a negative sample"),
    pytest.param("op", _set("samples_us", 3, value=None), "samples_us[3]", id="a null sample"),
    pytest.param("op", _set("samples_us", 3, value="9"), "samples_us[3]", id="a sample as text"),
    pytest.param("op", _set("samples_us", 3, value=True), "samples_us[3]", id="a sample as bool"),
    pytest.param("op", _set("samples_us", 3, value=1e300), "samples_us[3]", id="an endless sample"),
    pytest.param("op", _set("samples_us", 3, value=10**400), "samples_us[3]", id="a huge integer"),
    pytest.param("op", _set("summary", "n", value=7), "summary.n", id="an n of other samples"),
    pytest.param(
        "op", _set("summary", "median_us", value=93200), "summary.median_us", id="a median in ns"
    ),
    pytest.param("op", _set("bytes", value=1e300), "bytes", id="more bytes than there are"),
    pytest.param("op", _set("floor_us", value=5e-324), "floor_us", id="less than any time"),
    pytest.param("op", _set("sample_time_s", value=[0.0]), "sample_time_s", id="one time for all"),
    pytest.param("op", _set("clock_trace", value=[[1]]), "clock_trace[0]", id="half a clock"),
    pytest.param("op", _set("cache", value="hot"), "cache", id="an unknown cache state"),
    pytest.param("op", _set("converged", value=1), "converged", id="a number for a boolean"),
    pytest.param("op", _set("device", value="H200"), "device", id="a device that is text"),
    pytest.param("op", _set("device", "name", value=200), "device.name", id="a name of digits"),
    pytest.param("op", _set("device", "sm_count", value=0.5), "device.sm_count", id="half an SM"),
    pytest.param("op", _set("flags", value=[{}]), "flags[0].code", id="a flag without code"),
    pytest.param("op", _set("flags", value=["x"]), "flags[0]", id="a flag that is text"),
    pytest.param("op", _set("versions", value={"a": []}), "versions.a", id="a version as list"),
    pytest.param("compare", _set("variants", value=[]), "variants", id="no variants"),
    pytest.param(
        "compare", _set("variants", 1, "name", value="one"), "variants[1].name", id="a name twice"
    ),
    pytest.param("compare", _set("pairs", value=[]), "pairs", id="no pairs"),
    pytest.param(
        "compare", _set("pairs", 0, "candidate", value="x"), "pairs[0].candidate", id="no variant"
    ),
    pytest.param(
        "compare",
        _set("pairs", 0, "verdict", value="quick"),
        "pairs[0].verdict",
        id="a new verdict",
    ),
    pytest.param(
        "compare", _set("pairs", 0, "ratio_median", value=1.2), "ratio_median", id="other samples"
    ),
    pytest.param(
        "compare", _set("pairs", 0, "ratio_ci95_low", value=9), "pairs[0]", id="ends exchanged"
    ),
    pytest.param(
        "compare", _set("pairs", 0, "ratio_ci95_low", value=None), "pairs[0]", id="half an interval"
    ),
    pytest.param(
        "loop", _set("step_us", "samples_us", value=[]), "step_us.samples_us", id="no step"
    ),
    pytest.param("loop", _set("data_wait_share", value=1.2), "data_wait_share", id="more than all"),
    pytest.param("loop", _set("steps", value=1.5), "steps", id="half a step"),
    pytest.param(
        "loop", _set("ranks", 0, "rank", value=None), "ranks[0].rank", id="a nameless rank"
    ),
    pytest.param(
        "loop", _set("phases", "forward", "samples_us", 0, value=-1), "phases.forward", id="phase"
    ),
]


@pytest.mark.parametrize(("kind", "change", "key"), WRONG)
def test_a_wrong_record_is_refused_by_file_and_key(
    tmp_path: Path, kind: str, change: Callable[[Any], None], key: str
) -> None:
    data = copy.deepcopy(MAKERS[kind]())
    change(data)
    path = write(tmp_path, "wrong.json", data)
    with pytest.raises(UserError) as caught:
        schema.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert key in text
    assert len(text) < len(path) + 200


BROKEN = [
    pytest.param("", "empty", id="an empty file"),
    pytest.param(" \n", "empty", id="only blanks"),
    pytest.param(json.dumps(op_record())[:-20], "cut short", id="a truncated file"),
    pytest.param('{"schema": "perf-tim', "cut short", id="a file cut within a string"),
    pytest.param("{} {}", "one JSON object a file", id="two objects"),
    pytest.param("schema: perf-timing/1", "not JSON", id="YAML"),
    pytest.param("[]", "one JSON object", id="a list"),
    pytest.param("null", "one JSON object", id="null"),
    pytest.param("{}", "schema is absent", id="an object of another kind"),
    pytest.param(b"\xff\xfe{\x00}\x00", "not UTF-8", id="UTF-16"),
    pytest.param(b"\x80", "not UTF-8", id="binary"),
    pytest.param("[" * 100_000, "out of bounds", id="endless nesting"),
    pytest.param('{"n": ' + "9" * 5000 + "}", "out of bounds", id="an integer of 5,000 digits"),
    pytest.param('{"schema": NaN}', "NaN", id="a NaN"),
    pytest.param('{"a": -Infinity}', "-Infinity", id="an infinity"),
    pytest.param('{"a": 1, "a": 2}', "twice", id="a key twice"),
]


@pytest.mark.parametrize(("content", "said"), BROKEN)
def test_a_broken_file_is_refused(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = write(tmp_path, "broken.json", content)
    with pytest.raises(UserError) as caught:
        schema.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_an_overflowing_number_is_refused(tmp_path: Path) -> None:
    text = json.dumps(op_record(floor_us=0.5)).replace('"floor_us": 0.5', '"floor_us": 1e999')
    with pytest.raises(UserError, match="floor_us is Infinity; it must be finite"):
        schema.load(write(tmp_path, "a.json", text))


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    text = "\ufeff" + json.dumps(op_record())
    assert schema.load(write(tmp_path, "bom.json", text)).kind == "op"


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        schema.load(tmp_path)
    with pytest.raises(UserError, match=r"cannot read .*: No such file"):
        schema.load(tmp_path / "absent.json")


def test_a_huge_file_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "MAX_BYTES", 2**20)
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(2**20 + 1)
    with pytest.raises(UserError, match="larger than 1 MiB"):
        schema.load(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(
    st.sampled_from(sorted(MAKERS)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.sampled_from(sorted(schema.FIELDS[kind])))
    ),
    json_values,
)
def test_any_value_at_any_key_is_read_or_refused(place: tuple[str, str], value: object) -> None:
    kind, key = place
    data = {**MAKERS[kind](), key: value}
    try:
        schema.validate(data)
    except schema.RecordError as error:
        assert "\n" not in str(error)


def test_the_documented_record_of_each_kind_says_what_each_key_is() -> None:
    for fields in schema.FIELDS.values():
        for key, field in fields.items():
            assert field.doc, key

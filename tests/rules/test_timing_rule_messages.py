"""What rules say: the message, the note and the related places, where they depend on the code.

Facts about torch and nvtx are checked against what is installed.
"""

import inspect
import warnings

import nvtx
import pytest
import torch
from perf_timing.lint.catalog import load_rules
from perf_timing.lint.check import check
from perf_timing.lint.model import Finding, Unit


def reported(rule: str, code: str, language: str = "python") -> list[Finding]:
    """The findings of one rule in a snippet."""
    rules = [r for r in load_rules() if r.name == rule]
    result = check([Unit("example", language, code)], rules)
    assert not result.unchecked
    return list(result.findings)


PROFILED = """\
from torch.profiler import profile
with profile() as prof:
    step()
"""
LOOP = PROFILED + "for row in prof.{rows}():\n    print(row.{name})\n"


@pytest.fixture(scope="module")
def profiled() -> torch.profiler.profile:
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as prof:
        torch.ones(8) + 1
    return prof


def outcome(row: object, name: str) -> str:
    """ "gone", "warns" or "works": what reading an attribute comes to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            getattr(row, name)
        except AttributeError:
            return "gone"
    return "warns" if any(issubclass(w.category, FutureWarning) for w in caught) else "works"


@pytest.mark.parametrize("rows", ["key_averages", "events"])
@pytest.mark.parametrize(
    "name",
    [
        "cuda_time",
        "cuda_time_total",
        "self_cuda_time_total",
        "cuda_time_total_str",
        "self_cuda_memory_usage",
        "device_time_total",
        "self_device_time_total",
    ],
)
def test_what_is_said_of_a_profiler_name_is_what_torch_does(
    profiled: torch.profiler.profile, rows: str, name: str
) -> None:
    found = reported("profiler-removed-name", LOOP.format(rows=rows, name=name))
    said = "works"
    if found:
        said = "gone" if "AttributeError" in found[0].message else "warns"
        assert found[0].severity == ("error" if said == "gone" else "warning")
        assert ("FutureWarning" in found[0].message) == (said == "warns")
    assert said == outcome(getattr(profiled, rows)()[0], name)


def test_a_sort_key_that_torch_takes_is_a_remark(profiled: torch.profiler.profile) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiled.key_averages().table(sort_by="cuda_time_total")
    code = PROFILED + 'print(prof.key_averages().table(sort_by="cuda_time_total"))\n'
    (finding,) = reported("profiler-removed-name", code)
    assert finding.severity == "info"
    assert "still takes it, without a warning" in finding.message


def test_the_names_of_nvtx_are_those_that_the_rule_knows() -> None:
    for name in ("push_range", "pop_range", "start_range", "end_range", "annotate"):
        assert hasattr(nvtx, name) and not hasattr(torch.cuda.nvtx, name)
    for name in ("range_push", "range_pop", "range_start", "range_end", "range"):
        assert hasattr(torch.cuda.nvtx, name) and not hasattr(nvtx, name)
    takes = set(inspect.signature(nvtx.annotate).parameters) - {"self"}
    assert takes == {"message", "color", "domain", "category", "payload"}

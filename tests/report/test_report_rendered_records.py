"""Records that rendered code really writes, here on the simulated device, keep to the schema."""

import json
from pathlib import Path

import pytest
from perf_timing import render, report
from perf_timing.render.scenarios import load_all
from perf_timing.report.record import validate
from simulated_device import program
from simulated_device.runner import run_script

WRITERS = sorted(
    name
    for name, scenario in load_all().items()
    if "json" in scenario.options and scenario.run == "python FILE"
)


@pytest.mark.parametrize("scenario", WRITERS)
def test_a_rendered_record_is_whole_and_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scenario: str
) -> None:
    assert render.main([scenario, "--json", "out.json"]) == 0
    result = run_script(capsys.readouterr().out)
    assert result.exit_code == 0, result
    assert result.record is not None, result
    validate(result.record, strict=True)
    path = tmp_path / "out.json"
    path.write_text(json.dumps(result.record), "utf-8")
    assert report.main([str(path)]) == 0
    assert str(result.record["name"]) in capsys.readouterr().out
    assert report.main([str(path), str(path), "--fail-on-slower"]) == 0


def test_there_are_writers() -> None:
    assert "cuda-graph" in WRITERS


@pytest.mark.skipif(not program.has_compilers(), reason="needs nvcc and g++")
@pytest.mark.parametrize("method", ["event", "graph"])
def test_the_record_of_a_cuda_program_is_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, method: str
) -> None:
    assert render.main(["raw-cuda", "--method", method, "--json", "out.json"]) == 0
    done = program.run_program(program.build(capsys.readouterr().out, tmp_path), {})
    assert done.exit_code == 0, done
    validate(json.loads(done.files["out.json"]), strict=True)
    assert report.main([str(tmp_path / "out.json")]) == 0
    assert "raw-cuda by " in capsys.readouterr().out

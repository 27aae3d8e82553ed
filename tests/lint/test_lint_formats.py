"""SARIF and GitHub annotations hold what their readers require."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lint.lint_command import BAD, INFO, Lint, Project

FIRE = "import torch\n\nx = '\U0001f525'; torch.cuda.nvtx.get_domain('a')\n"


def sarif(lint: Lint, *arguments: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(lint(*arguments, "--format", "sarif").out)
    return log


def test_sarif_is_valid(lint: Lint, project: Project) -> None:
    project({"a.py": BAD + INFO, "b c/\u00e9.py": FIRE, "old.py": "print 'x'\n"})
    log = sarif(lint, ".", "old.py", "gone.py")
    schema = os.environ.get("SARIF_SCHEMA")  # a copy of the OASIS schema, where there is one
    if schema:
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.validate(log, json.loads(Path(schema).read_text()))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "lint-timing"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["helpUri"].startswith("https://")
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        assert result["partialFingerprints"]["lintTimingLine/v1"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] >= 1
        assert region["startColumn"] >= 1
        assert (region["endLine"], region["endColumn"]) > (
            region["startLine"],
            region["startColumn"],
        )


def test_sarif_counts_utf_16_and_quotes_paths(lint: Lint, project: Project) -> None:
    project({"b c/\u00e9.py": FIRE})
    (result,) = sarif(lint, ".")["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "b%20c/%C3%A9.py"
    # x = '?'; is 9 code points, but 10 code units.
    assert place["region"]["startColumn"] == 11
    (finding,) = lint(".", "--format", "json").findings
    assert finding["column"] == 10


def test_sarif_tells_what_was_not_checked(lint: Lint, project: Project) -> None:
    project({"a.py": BAD})
    (run,) = sarif(lint, "a.py", "gone.py")["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"] == "not checked: no such file or folder"
    assert sarif(lint, "a.py")["runs"][0]["invocations"] == [{"executionSuccessful": True}]


def test_fingerprints_survive_moved_lines_and_tell_twins_apart(
    lint: Lint, project: Project
) -> None:
    def prints(text: str) -> list[str]:
        project({"a.py": text})
        results = sarif(lint, "a.py")["runs"][0]["results"]
        return [r["partialFingerprints"]["lintTimingLine/v1"] for r in results]

    twice = BAD + "torch.cuda.nvtx.get_domain('a')\n"
    before = prints(twice)
    assert len(set(before)) == 2
    assert prints("# moved\n" + twice) == before


def test_absolute_paths_are_file_addresses(lint: Lint, project: Project) -> None:
    folder = project({"a.py": BAD})
    (result,) = sarif(lint, str(folder / "a.py"))["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == f"file://{folder}/a.py"


def test_github_annotations_escape_what_they_must(lint: Lint, project: Project) -> None:
    project({"a,b:c%.py": BAD})
    run = lint(".", "gone.py", "--format", "github")
    first, second, last = run.out.splitlines()
    assert first.startswith(
        "::error file=a%2Cb%3Ac%25.py,line=3,endLine=3,col=1,endColumn=27,"
        "title=TIM603 nvtx-unknown-api::torch.cuda.nvtx.get_domain does not exist"
    )
    assert "%0A" in first
    assert second == "::error file=gone.py,title=not checked::no such file or folder"
    assert last.startswith("Checked 1 file")


def test_github_levels_are_error_warning_and_notice(lint: Lint, project: Project) -> None:
    project({"a.py": BAD + INFO})
    lines = lint("a.py", "--format", "github").out.splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == ["::error", "::notice"]


def test_a_place_over_several_lines_has_no_columns_in_github(lint: Lint, project: Project) -> None:
    project({"a.py": INFO.replace('f"step {i}"', '\n        f"step {i}"\n    ')})
    line = lint("a.py", "--format", "github").out.splitlines()[0]
    assert ",line=5,endLine=7,title=" in line


def test_carets_stand_below_the_place(lint: Lint, project: Project) -> None:
    project({"a.py": "import torch\nif 1:\n\tx = '\u4e2d'; torch.cuda.nvtx.get_domain('a')\n"})
    lines = lint("a.py").out.splitlines()
    assert lines[3] == "3 | \tx = '\u4e2d'; torch.cuda.nvtx.get_domain('a')"
    assert lines[4] == "  | \t          " + "^" * 26


def test_control_characters_do_not_reach_the_terminal(lint: Lint, project: Project) -> None:
    project({"a.py": "import torch\nx = '\x1b[31m'; torch.cuda.nvtx.get_domain('a')\n"})
    for output in ("full", "concise", "github"):
        assert "\x1b" not in lint("a.py", "--format", output).out

"""Notebooks: findings by cell and line of the cell, magics understood."""

import json
from typing import Any

import pytest
from lint.lint_command import BAD, Lint, Project, run_process

CALL = "torch.cuda.nvtx.get_domain('a')"


def notebook(*cells: str | tuple[str, str], language: str = "python") -> str:
    """A notebook with code cells, or (kind, source) cells."""
    records: list[dict[str, Any]] = []
    for cell in cells:
        kind, source = cell if isinstance(cell, tuple) else ("code", cell)
        record: dict[str, Any] = {"cell_type": kind, "metadata": {}}
        record["source"] = source.splitlines(keepends=True)
        records.append(record)
    metadata = {"language_info": {"name": language}}
    return json.dumps({"cells": records, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def places(lint: Lint, *arguments: str) -> list[tuple[int, int, int]]:
    """(cell, line, column) of each finding in a.ipynb."""
    run = lint("a.ipynb", "--format", "json", "--select", "TIM603", *arguments)
    assert run.err == ""
    return [(f["cell"], f["line"], f["column"]) for f in run.findings]


def test_cells_are_counted_from_0_among_all_and_lines_in_the_cell(
    lint: Lint, project: Project
) -> None:
    project({"a.ipynb": notebook(("markdown", "# Title"), "import torch", "x = 1\n" + CALL)})
    assert places(lint) == [(2, 2, 1)]
    run = lint("a.ipynb", "--format", "concise")
    assert run.out.startswith("a.ipynb:cell 2:2:1: error TIM603")
    assert "cell 2:2" in lint("a.ipynb", "--format", "github").out
    location = json.loads(lint("a.ipynb", "--format", "sarif").out)["runs"][0]["results"][0]
    assert location["locations"][0]["logicalLocations"][0]["name"] == "cell 2, line 2"


@pytest.mark.parametrize(
    ("cell", "line", "column"),
    [
        ("%matplotlib inline\n" + CALL, 2, 1),
        ("!pip install torch  # it's here\n" + CALL, 2, 1),
        ("if x:\n    %matplotlib inline\n    " + CALL, 3, 5),
        ("files = !ls\n" + CALL, 2, 1),
        ("torch.nn?\n" + CALL, 2, 1),
        ("?torch\n" + CALL, 2, 1),
        ("%timeit f(x)\n" + CALL, 2, 1),
        ("%timeit -n 10 -r3 " + CALL, 1, 19),
        ("r = %timeit -o f(x)\n" + CALL, 2, 1),
        ("timeit -n 5 -r 5 " + CALL, 1, 18),
        ("time = 3\n!ls\n" + CALL, 3, 1),
        ("%%timeit\n" + CALL, 2, 1),
        ("%%timeit -n 100\nx = 1\n" + CALL, 3, 1),
        ("%%timeit " + CALL, 1, 10),
        ("\n%%time\n" + CALL, 3, 1),
        ("%%capture out\n" + CALL, 2, 1),
        ("await f()\n" + CALL, 2, 1),
        ("text = '''\n%timeit\n!x\n'''\n" + CALL, 5, 1),
        ("y = (a\n% b)\n%time f()\n" + CALL, 4, 1),
        ("!echo 'one \\\n two'\n" + CALL, 3, 1),
    ],
)
def test_magics_keep_lines_and_columns(
    lint: Lint, project: Project, cell: str, line: int, column: int
) -> None:
    project({"a.ipynb": notebook("import torch", cell)})
    assert places(lint) == [(1, line, column)]


@pytest.mark.parametrize(
    "remarks", ["%%time\n\n# to do\n# more", "%%timeit -n 3\n# to do", "%%time\n\n"]
)
def test_a_timed_cell_of_remarks_moves_no_other_cell(
    lint: Lint, project: Project, remarks: str
) -> None:
    project({"a.ipynb": notebook("import torch", remarks, "x = 1\n" + CALL)})
    assert places(lint) == [(2, 2, 1)]


def test_a_finding_shows_what_the_user_wrote(lint: Lint, project: Project) -> None:
    project({"a.ipynb": notebook("import torch", "%timeit -n 10 " + CALL)})
    assert "1 | %timeit -n 10 " + CALL in lint("a.ipynb", "--select", "TIM603").out


@pytest.mark.parametrize("magic", ["bash", "html", "javascript", "sql", "writefile notes.txt"])
def test_cells_of_another_language_are_left_out(lint: Lint, project: Project, magic: str) -> None:
    project({"a.ipynb": notebook("import torch", f"%%{magic}\nif [ x ]; then\n{CALL}\n", CALL)})
    assert places(lint) == [(2, 1, 1)]


def test_a_file_written_by_a_cell_is_checked_by_itself(lint: Lint, project: Project) -> None:
    project({"a.ipynb": notebook("%%writefile bench.py\n" + BAD, "%%cu\nint main() {}\n")})
    assert places(lint) == [(0, 4, 1)]


def test_a_cell_that_does_not_parse_is_named_and_the_others_are_checked(
    lint: Lint, project: Project
) -> None:
    project({"a.ipynb": notebook("import torch", "print 'old'", CALL)})
    run = lint("a.ipynb", "--format", "json")
    assert run.status == 2
    assert run.err.startswith("lint-timing: a.ipynb: cell 1: Python cannot parse it: ")
    assert [(f["cell"], f["line"]) for f in run.findings] == [(2, 1)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a notebook"),
        ("{", "not a notebook"),
        ("[]", "it has no list of cells"),
        ('{"cells": 3}', "it has no list of cells"),
        (notebook("x <- 1", language="R"), "a notebook in r, not in Python"),
        ("[" * 100_000, "not a notebook"),
    ],
)
def test_what_is_no_python_notebook_is_named(
    lint: Lint, project: Project, text: str, words: str
) -> None:
    project({"a.ipynb": text})
    run = lint("a.ipynb")
    assert run.status == 2
    assert words in run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"cells": []}',
        '{"cells": [1, {}, {"cell_type": "code"}, {"cell_type": "code", "source": [1]}]}',
        '{"cells": [{"cell_type": "code", "source": ""}], "metadata": []}',
        notebook("%%timeit"),
        notebook("%%"),
        notebook("%"),
        notebook("%%writefile"),
    ],
)
def test_odd_cells_are_clean(lint: Lint, project: Project, text: str) -> None:
    project({"a.ipynb": text})
    assert lint("a.ipynb").status == 0


def test_format_3_and_strings_as_source(lint: Lint, project: Project) -> None:
    cells = [{"cell_type": "code", "input": ["import torch\n", CALL], "language": "python"}]
    project({"a.ipynb": json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3})})
    assert places(lint) == [(0, 2, 1)]


def test_a_suppression_in_one_cell_does_not_reach_into_the_next(
    lint: Lint, project: Project
) -> None:
    comment = "# lint-timing: ignore[TIM603] known"
    project({"a.ipynb": notebook("import torch\n" + comment, CALL, f"{comment}\n{CALL}")})
    assert places(lint) == [(1, 1, 1)]


def test_notebook_from_standard_input() -> None:
    data = notebook("import torch", CALL).encode()
    run = run_process("-", "--stdin-filename", "n.ipynb", "--format", "json", data=data)
    assert [f["cell"] for f in run.findings] == [1]

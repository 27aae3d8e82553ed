"""Markdown: fenced blocks of Python and CUDA, with lines of the document."""

import pytest
from lint.lint_command import BAD, Lint, Project

CODE = BAD.rstrip("\n").split("\n")


def places(lint: Lint, project: Project, text: str) -> list[tuple[int, int]]:
    project({"a.md": text})
    run = lint("--markdown", "a.md", "--format", "json")
    assert run.err == ""
    return [(f["line"], f["column"]) for f in run.findings]


@pytest.mark.parametrize(
    "info", ["python", "py", "Python", "python3 title=x", "{.python .numbers}"]
)
def test_a_fence_of_python_is_checked(lint: Lint, project: Project, info: str) -> None:
    assert places(lint, project, f"# T\n\n```{info}\n{BAD}```\n") == [(6, 1)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("~~~python\n" + BAD + "~~~\n", (4, 1)),
        ("````python\n" + BAD + "```\n````\n", None),
        ("- item\n\n  ```python\n" + "\n".join(f"  {t}" for t in CODE) + "\n  ```\n", (6, 3)),
        ("1. ```python\n" + "\n".join(f"   {t}" for t in CODE) + "\n   ```\n", (4, 4)),
        ("> ```python\n" + "\n".join(f"> {t}" for t in CODE) + "\n> ```\n", (4, 3)),
        ("```python\n" + "\n".join(f">>> {t}" for t in CODE if t) + "\nout\n```\n", (3, 5)),
        ("```python\n" + BAD, (4, 1)),
        ("```text\n```\n\n```python\n" + BAD + "```\n", (7, 1)),
    ],
)
def test_lines_and_columns_are_those_of_the_document(
    lint: Lint, project: Project, text: str, place: tuple[int, int] | None
) -> None:
    if place is None:
        project({"a.md": text})
        assert lint("--markdown", "a.md").status == 2
    else:
        assert places(lint, project, text) == [place]


def test_other_fences_and_plain_text_are_left_alone(lint: Lint, project: Project) -> None:
    assert places(lint, project, f"{BAD}\n```\n{BAD}```\n\n```bash\n{BAD}```\n    {BAD}") == []


def test_a_block_that_does_not_parse_is_named(lint: Lint, project: Project) -> None:
    project({"a.md": f"```python\n{BAD}x = (\n```\n\n```python\n{BAD}```\n"})
    run = lint("--markdown", "a.md", "--format", "json")
    assert run.status == 2
    assert run.err.startswith("lint-timing: a.md: block on line 2: Python cannot parse it")
    assert [f["line"] for f in run.findings] == [11]


def test_markdown_in_a_folder_needs_the_option(lint: Lint, project: Project) -> None:
    project({"d/a.md": f"```python\n{BAD}```\n", "d/b.py": "x = 1\n"})
    assert lint("d").status == 0
    assert lint("--markdown", "d").status == 1


@pytest.mark.parametrize(
    "prefix", ["> " * 5000, "- " * 5000, " " * 50_000, "1. " * 5000, ">" * 9000]
)
def test_long_prefixes_take_no_time(lint: Lint, project: Project, prefix: str) -> None:
    assert places(lint, project, f"{prefix}x\n{prefix}```python\n{BAD}") in ([], [(4, 1)], [(5, 1)])

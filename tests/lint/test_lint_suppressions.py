"""Suppression comments: where they count, and what is wrong with those that do not."""

import pytest
from lint.lint_command import Lint, Project

HEAD = "import torch\n\n"
CALL = "torch.cuda.nvtx.get_domain('a')"
MARK = "# lint-timing: ignore[nvtx-unknown-api]"


def rules(lint: Lint, project: Project, text: str, *arguments: str) -> list[str]:
    project({"a.py": HEAD + text})
    run = lint("a.py", "--format", "json", *arguments)
    assert run.err == ""
    return [f["rule"] for f in run.findings]


@pytest.mark.parametrize(
    "text",
    [
        f"{CALL}  {MARK} an old API on purpose\n",
        f"{CALL}  # lint-timing: ignore[TIM603]\n",
        f"{CALL}  # lint-timing:ignore[coarse-clock-typo, TIM603]\n".replace(
            "coarse-clock-typo, ", ""
        ),
        f"{MARK}\n{CALL}\n",
        f"{MARK} a reason\n# that goes on\n{CALL}\n",
        f"{MARK}\n# another remark\n{CALL}\n",
        "x = [\n    " + CALL + ",\n    1,\n]  " + MARK + "\n",
        "x = [  " + MARK + "\n    " + CALL + ",\n]\n",
        MARK + "\nx = [\n    1,\n    " + CALL + ",\n]\n",
        f"{CALL}  # noqa: X100  {MARK}\n",
        f"if x:\n    {MARK}\n    {CALL}\n",
        f"with {CALL}:  {MARK}\n    pass\n",
        f"# lint-timing: ignore-file[nvtx-unknown-api] generated\n\n\n{CALL}\n{CALL}\n",
        f"{CALL}\n# lint-timing: ignore-file[TIM603]\n",
    ],
)
def test_silences(lint: Lint, project: Project, text: str) -> None:
    assert rules(lint, project, text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{MARK}\n\n{CALL}\n", ["unused-suppression", "nvtx-unknown-api"]),
        (f"{CALL}\n{MARK}\n", ["nvtx-unknown-api", "unused-suppression"]),
        (f"x = 1  {MARK}\n{CALL}\n", ["unused-suppression", "nvtx-unknown-api"]),
        (f"with open(x):  {MARK}\n    {CALL}\n", ["unused-suppression", "nvtx-unknown-api"]),
        (f"{CALL}  # lint-timing: ignore\n", ["nvtx-unknown-api", "blanket-suppression"]),
        (f"{CALL}  # lint-timing: ignore[]\n", ["nvtx-unknown-api", "blanket-suppression"]),
        (f"{CALL}  # lint-timing: ignore[nope]\n", ["nvtx-unknown-api", "unknown-suppression"]),
        (f"{CALL}  # lint-timing: disable\n", ["nvtx-unknown-api", "unknown-suppression"]),
        (f"{CALL}  # lint-timing: ignore[TIM604]\n", ["nvtx-unknown-api", "unused-suppression"]),
        (f"{CALL}  # see lint-timing: ignore[TIM603]\n", ["nvtx-unknown-api"]),
        (f"x = '{MARK}'; {CALL}\n", ["nvtx-unknown-api"]),
        (f"'''\n{MARK}\n'''\n{CALL}\n", ["nvtx-unknown-api"]),
        ("# lint-timing: ignore-file[TIM604]\n", ["unused-suppression"]),
    ],
)
def test_does_not_silence(lint: Lint, project: Project, text: str, expected: list[str]) -> None:
    assert rules(lint, project, text) == expected


def test_a_rule_that_does_not_count_in_this_run_is_not_called_unused(
    lint: Lint, project: Project
) -> None:
    text = "x = 1  # lint-timing: ignore[TIM603]\n"
    assert rules(lint, project, text, "--ignore", "TIM603") == []
    assert rules(lint, project, text, "--select", "TIM604,unused-suppression") == []
    assert rules(lint, project, text, "--select", "TIM603") == []
    assert rules(lint, project, text, "--select", "TIM603,TIM901") == ["unused-suppression"]
    project({"pyproject.toml": '[tool.lint-timing.per-file-ignores]\n"a.py" = ["TIM603"]\n'})
    assert rules(lint, project, text) == []


def test_a_file_without_timing_tells_its_unused_suppressions(lint: Lint, project: Project) -> None:
    project({"d/a.py": "x = 1  # lint-timing: ignore[TIM603]\n"})
    assert [f["code"] for f in lint("d", "--format", "json").findings] == ["TIM901"]


def test_complaints_about_suppressions_can_be_silenced_for_a_file(
    lint: Lint, project: Project
) -> None:
    text = "# lint-timing: ignore-file[unused-suppression]\nx = 1  # lint-timing: ignore[TIM603]\n"
    assert rules(lint, project, text) == []


def test_suppressed_findings_are_counted(lint: Lint, project: Project) -> None:
    project({"a.py": f"{HEAD}{CALL}  {MARK}\n"})
    assert lint("a.py").out == "Checked 1 file: no findings; 1 suppressed.\n"


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("int x;  // lint-timing: ignore[TIM603]\n", 1),
        ("/* lint-timing: ignore[TIM603] */\nint x;\n", 1),
        ('const char *s = "// lint-timing: ignore[TIM603]";\n', 0),
        ('auto s = R"x(\n// lint-timing: ignore[TIM603]\n)x";\n', 0),
        ("int n = 1'000'000;  // lint-timing: ignore[TIM603]\n", 1),
        ("char c = '\"';  // lint-timing: ignore[TIM603]\n", 1),
        ("/* a\n * lint-timing: ignore[TIM603]\n */\nint x;\n", 1),
    ],
)
def test_comments_of_cpp_are_told_from_strings(
    lint: Lint, project: Project, text: str, unused: int
) -> None:
    project({"a.cu": text})
    found = [f["code"] for f in lint("a.cu", "--format", "json").findings]
    assert found == ["TIM901"] * unused

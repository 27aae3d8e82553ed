"""SKILL.md fits every host, is valid, and names nothing that does not exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from docs.documents import ROOT, SKILL_DIR, WRITTEN, all_blocks, blocks, commands, read

NAME = "perf-workload-profiling"
MOST_BYTES = 8_000  # one host reads no more
MOST_LINES = 500
MOST_CHARACTERS_OF_DESCRIPTION = 1_024
PROCEDURES = (
    "Time a kernel or op",
    "Compare two versions",
    "Time a training loop",
    "Label a timeline",
    "Check timing code",
)


def frontmatter() -> dict[str, str]:
    _, head, _ = read("SKILL.md").split("---\n", 2)
    return yaml.safe_load(head)


def section(title: str) -> str:
    return re.split(r"^## ", read("SKILL.md").split(f"\n## {title}\n", 1)[1], flags=re.M)[0]


def test_the_validator_of_the_specification_is_content(tmp_path: Path) -> None:
    skills_ref = pytest.importorskip("skills_ref")
    copy = tmp_path / NAME
    copy.mkdir()
    shutil.copy(ROOT / "SKILL.md", copy)
    assert skills_ref.validate(copy) == []


def test_the_skill_fits_every_host() -> None:
    data = (ROOT / "SKILL.md").read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf")
    assert len(data) < MOST_BYTES
    assert data.count(b"\n") < MOST_LINES
    # A token of English prose and code is three bytes or more.
    assert len(data) / 3 < 5_000
    assert data.isascii()


def test_the_description_stands_in_a_catalogue() -> None:
    head = frontmatter()
    assert head["name"] == NAME
    assert set(head) <= {"name", "description", "license", "compatibility", "metadata"}
    description = head["description"]
    assert len(description) <= MOST_CHARACTERS_OF_DESCRIPTION
    assert not set("<>") & set(description)
    assert len(head["compatibility"]) <= 500
    first = description.split(". ")[0]
    assert {"GPU", "kernel", "training", "NVTX", "lint"} <= set(
        re.findall(r"GPU|kernel|training|NVTX|lint", first)
    )
    for excluded in ("nsys", "ncu", "Triton", "CuTe", "fusion", "roofline"):
        assert excluded in description.split("NOT for")[1]


def test_rules_come_first_and_the_result_format_comes_last_but_the_references() -> None:
    titles = re.findall(r"^## (.+)$", read("SKILL.md"), re.M)
    assert titles[0] == "Rules for the whole session"
    assert tuple(titles[1:6]) == PROCEDURES
    assert titles[-2:] == ["Result format", "References"]


@pytest.mark.parametrize("title", PROCEDURES)
def test_a_procedure_is_numbered_and_has_one_command(title: str) -> None:
    text = section(title)
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 2
    shell = re.findall(r"```sh\n(.*?)```", text, re.S)
    assert len(shell) == 1
    [line] = shell[0].strip().split("\n")
    assert line.strip().startswith(f'SKILL_DIR={SKILL_DIR}; uv run "$SKILL_DIR/scripts/')


def test_no_command_depends_on_one_host_or_on_the_working_directory() -> None:
    for block in blocks("SKILL.md"):
        assert "CLAUDE_" not in block.text
        assert not re.search(r"(^|[;&] *)cd ", block.text)
        assert "uv run python" not in block.text


def flag_codes() -> set[str]:
    """Codes of all flags that rendered and injected code can print."""
    found: set[str] = set()
    for path in (ROOT / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'_flag\(\s*"([a-z-]+)"', text))
        found |= set(re.findall(r'add_flag\(&flags, "([a-z-]+)"', text))
        found |= set(re.findall(r'yield\s*\(?\s*"([a-z-]+)",', text))
    return found


def test_the_skill_says_what_to_do_with_every_flag() -> None:
    codes = flag_codes()
    assert len(codes) > 20
    text = section("Flags") + section("Compare two versions")
    assert {code for code in codes if f"`{code}`" not in text} == set()
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section("Flags")))
    assert told - codes - {"cuda-graph", "kernel-time", "raw-cuda"} == set()


def test_every_scenario_has_its_case() -> None:
    from perf_timing.render import scenarios

    missing = {
        name for name in scenarios.load_all() if not re.search(rf"\b{name}\b", read("SKILL.md"))
    }
    assert missing <= {"loop"}  # inject-timing does this one for scripts that exist


SAMPLES = [b for b in all_blocks("text") if re.search(r"^ +latency ", b.text, re.M)]


@pytest.mark.parametrize("block", SAMPLES, ids=str)
def test_a_sample_report_has_the_lines_that_rendered_code_prints(block: object) -> None:
    from simulated_device.rendering import measure

    def shape(line: str) -> str:
        return re.sub(r"[\d.]+(x[\da-f]+)?", "N", line).strip()

    printed = {shape(line) for line in measure("cuda-graph").stdout.split("\n")}
    lines = [shape(line) for line in block.text.strip().split("\n")]
    for line in lines:
        if line.startswith(("latency", "samples", "clocks")):
            assert line in printed
        elif not line.startswith(("throughput", "method", "device", "FLAG")):
            assert re.sub(r"^\S+ \[.+?\]", "", line) in {
                re.sub(r"^\S+ \[.+?\]", "", known) for known in printed
            }


def test_the_sample_of_a_comparison_has_the_lines_that_rendered_code_prints() -> None:
    from simulated_device.rendering import measure

    printed = measure("compare").stdout
    [block] = [b for b in all_blocks("text", ("README.md",)) if "verdict" in b.text]
    for label in re.findall(r"^  (\w+)  ", block.text, re.M):
        assert re.search(rf"^  {label}  ", printed, re.M), printed


def test_the_skill_needs_no_sibling() -> None:
    assert not re.search(r"perf-(?!workload-profiling)[a-z]+-", read("SKILL.md"))


def tracked_files() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and done.stdout.strip():
        return [ROOT / name for name in done.stdout.split("\n") if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".git" not in path.parts]


# Written in parts, so that this file does not hold them.
FORBIDDEN = [
    "/wor" + "k/",
    "/opt" + "/v/",
    "/tmp/bri" + "ef",
    "shared/" + "seeds",
    "shared/" + "research",
    "shared/" + "cases",
    "issues " + "show",
    "give" + "_back",
    "BRIEF" + ".md",
]


@pytest.mark.parametrize("words", FORBIDDEN, ids=range(len(FORBIDDEN)))
def test_no_file_names_a_place_or_a_tool_of_one_machine(words: str) -> None:
    found = []
    for path in tracked_files():
        if words in path.read_text(encoding="utf-8", errors="replace"):
            found.append(path.relative_to(ROOT).as_posix())
    assert found == []


def test_the_version_stands_in_one_place() -> None:
    from perf_timing import __version__

    assert "version" not in frontmatter().get("metadata", {})
    stated = {
        (document, found)
        for document in WRITTEN
        for found in re.findall(r"\bv(\d+\.\d+\.\d+)\b", read(document))
    }
    assert {document for document, _ in stated} >= {"README.md"}
    assert {found for _, found in stated} == {__version__}


def test_readme_is_short() -> None:
    assert read("README.md").count("\n") < 150


def test_readme_and_continuous_integration_run_the_same_tests() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    [line] = [b.text for b in all_blocks("sh", ("README.md",)) if "pytest" in b.text]
    test = line.split("&& ")[-1].removeprefix(".venv/bin/").strip()
    assert test.startswith("python -m pytest")
    assert f"step {test}\n" in ci
    assert "--group test" in line and "--group test" in ci


def test_hooks_in_the_documents_exist() -> None:
    hooks = {hook["id"] for hook in yaml.safe_load(read(".pre-commit-hooks.yaml"))}
    configs = [yaml.safe_load(block.text) for block in all_blocks("yaml")]
    named = {hook["id"] for c in configs for repo in c["repos"] for hook in repo["hooks"]}
    assert named and named <= hooks
    assert "lint-timing-markdown" in hooks


def test_every_command_has_a_place_in_the_documents() -> None:
    named = {call[0] for b in all_blocks("sh") for call in commands(b.text)}
    assert named >= {"render-timing", "lint-timing", "inject-timing"}

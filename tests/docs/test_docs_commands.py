"""Every command, option, path and link in the documents exists."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs.documents import (
    GENERATED,
    ROOT,
    SKILL_DIR,
    WRITTEN,
    all_blocks,
    blocks,
    commands,
    inline_commands,
    read,
)
from perf_timing import reference
from perf_timing._cli import UserError
from perf_timing.inject.command import build_parser as inject_parser
from perf_timing.lint.cli import build_parser as lint_parser
from perf_timing.render import scenarios
from perf_timing.render.cli import general_parser, scenario_parser
from perf_timing.report.command import build_parser as report_parser

SCENARIOS = scenarios.load_all()
PARSERS = {
    "lint-timing": lint_parser(),
    "inject-timing": inject_parser(),
    "report-timing": report_parser(),
}
PLACEHOLDERS = ("SCENARIO", "ANSWERS", "FOLDER", "PATH...", "FILE...")


def parse(call: list[str]) -> None:
    """Parse a call with the parser of its command; raises where it would be refused."""
    command, *arguments = call
    if command != "render-timing":
        PARSERS[command].parse_args(arguments)
    elif arguments[0].startswith("-"):
        general_parser().parse_args(arguments)
    else:
        parser = scenario_parser(SCENARIOS[arguments[0]])
        _, unknown = parser.parse_known_args(arguments[1:])
        assert unknown == [], f"{call}: no option {unknown}"


SHELL = [(block, call) for block in all_blocks("sh") for call in commands(block.text)]
INLINE = [
    (document, call)
    for document in WRITTEN
    for call in inline_commands(document)
    # A command that is only mentioned, or stands for any of its kind, is no call.
    if call[1:] and not {"--help", "SCENARIO"} & set(call) and "..." not in "".join(call)
]


def test_there_are_commands_to_check() -> None:
    assert len(SHELL) >= 8
    assert len(INLINE) >= 8


@pytest.mark.parametrize(("block", "call"), SHELL, ids=lambda value: str(value)[:60])
def test_a_command_in_a_block_is_accepted(block: object, call: list[str]) -> None:
    parse(call)


@pytest.mark.parametrize(("document", "call"), INLINE, ids=lambda value: str(value)[:60])
def test_a_command_in_the_text_is_accepted(document: str, call: list[str]) -> None:
    parse(call)


@pytest.mark.parametrize(
    "call",
    [
        ["render-timing", "cuda-graph", "--no-such-option"],
        ["render-timing", "no-such-scenario"],
        ["render-timing", "nvtx", "--json", "x.json"],
        ["lint-timing", "--no-such-option", "x.py"],
        ["inject-timing"],
        ["report-timing", "--format", "xml", "x.json"],
    ],
    ids=" ".join,
)
def test_a_command_that_would_be_refused_is_noticed(call: list[str]) -> None:
    with pytest.raises((AssertionError, KeyError, SystemExit, UserError)):
        parse(call)


def test_paths_and_options_are_noticed_in_text() -> None:
    assert PATH.findall("see `references/none.md`, scripts/none.py and .ci/run") == [
        "references/none.md",
        "scripts/none.py",
        ".ci/run",
    ]
    assert commands('X="a b"; uv run "$X/scripts/lint_timing.py" f.py --fix && ls') == [
        ["lint-timing", "f.py", "--fix"]
    ]


def known_options() -> set[str]:
    parsers: list[argparse.ArgumentParser] = [general_parser(), *PARSERS.values()]
    parsers += [scenario_parser(scenario) for scenario in SCENARIOS.values()]
    known = {name for parser in parsers for a in parser._actions for name in a.option_strings}
    others = {
        "--trace": "nsys",
        "--group": "pip",
        "--quiet": "pip",
        "--upgrade": "pip",
        "--out": "tests/gpu/accuracy.py",
        "--ops": "tests/gpu/accuracy.py",
        "--cuda-bench": "tests/gpu/accuracy.py",
        "--inputs": "tests/lint/fuzz_lint_timing.py",
        "--seed": "tests/lint/fuzz_lint_timing.py",
        "--tree": "tests/lint/benchmark_lint_timing.py",
        "--torchfix": "tests/lint/benchmark_lint_timing.py",
        "--no-cache": "ruff",
        "--root": "score.py of the labelled corpus",
        "--all": "score.py of the labelled corpus",
    }
    return known | set(others)


@pytest.mark.parametrize("document", WRITTEN)
def test_every_option_that_is_named_exists(document: str) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", read(document)))
    assert named - known_options() == set()


PATH = re.compile(
    r"(?<![\w/.$-])((?:references|templates|scripts|tests|\.ci)/[\w./-]+|\.pre-commit-hooks\.yaml)"
)


@pytest.mark.parametrize("document", [*WRITTEN, "CHANGELOG.md"])
def test_every_path_exists(document: str) -> None:
    text = read(document).replace("$SKILL_DIR/", "")
    missing = {p for p in PATH.findall(text) if not (ROOT / p.rstrip("./")).exists()}
    assert missing == set()


@pytest.mark.parametrize("document", [*WRITTEN, *GENERATED])
def test_every_link_leads_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?ms)^```.*?^```", "", read(document))):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / document).parent / name if name else ROOT / document
        assert path.exists(), f"{document}: {target}"
        if anchor:
            assert anchor in anchors(path.relative_to(ROOT).as_posix()), f"{document}: {target}"


def anchors(document: str) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^```.*?^```", "", read(document))
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_references_lie_one_level_deep_and_each_is_named_by_the_skill() -> None:
    pages = {path.name for path in (ROOT / "references").iterdir()}
    assert all(name.endswith(".md") for name in pages)
    assert {name for name in pages if f"references/{name}" not in read("SKILL.md")} == set()


@pytest.mark.parametrize("document", ["references/benchmarking-patterns.md"])
def test_a_long_page_begins_with_its_contents(document: str) -> None:
    heads = re.findall(r"^## (.+)$", re.sub(r"(?ms)^```.*?^```", "", read(document)), re.M)
    assert re.findall(r"^- \[(.+?)\]\(#", read(document), re.M) == heads


def test_the_page_of_options_is_fresh() -> None:
    assert read("references/cli.md") == reference.cli_page(), (
        f"run: PYTHONPATH=scripts {reference.COMMAND}"
    )


def test_one_command_writes_all_generated_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reference, "folder", lambda: tmp_path)
    assert reference.main() == 0
    assert {f"references/{path.name}" for path in tmp_path.iterdir()} == set(GENERATED)
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == reference.cli_page()


def test_the_page_of_options_has_every_option_of_every_command() -> None:
    page = reference.cli_page()
    for parser in [*PARSERS.values(), *map(scenario_parser, SCENARIOS.values())]:
        for action in parser._actions:
            for name in action.option_strings:
                if name not in ("-h", "--help", "--version"):
                    assert f"{name}" in page
                    assert action.help
    for scenario in SCENARIOS:
        assert f"| `{scenario}` |" in page


def test_measured_figures_name_what_measured_them() -> None:
    """A page with figures of a GPU names the command that made them, or the page that does."""
    for document in WRITTEN:
        text = read(document)
        if re.search(r"\d us\b", text) and "H200" in text:
            assert re.search(r"tests/gpu/\w+\.py|`render-timing |accuracy\.md", text), document
    patterns = read("references/benchmarking-patterns.md")
    assert "python tests/gpu/accuracy.py --out FOLDER" in patterns
    assert patterns.count("(H)") > 5


# --- the procedures, done as they stand --------------------------------------------------------

INPUTS = """\
import torch

x = torch.rand(8192, 4096, device="cuda")


def layer(x):
    return torch.relu(x)


def old(x):
    return torch.relu(x)


def new(x):
    return torch.relu(x)
"""
TRAIN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=8)
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
"""
BENCH = """\
import time
import torch

x = torch.randn(4096, 4096, device="cuda")
start = time.perf_counter()
y = x @ x
print((time.perf_counter() - start) * 1e3, "ms")
"""
EXPECTED = {
    "render_timing.py": (0, "nothing to edit"),
    "inject_timing.py": (0, "--write applies it"),
    "lint_timing.py": (1, "host-clock-without-sync"),
}


@pytest.fixture(scope="module")
def skill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What of the tree a skill needs, read-only, below a path with a space."""
    target = tmp_path_factory.mktemp("user") / "my project" / "skills" / "perf-workload-profiling"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("references", "scripts", "templates"):
        shutil.copytree(ROOT / name, target / name, ignore=ignore)
    shutil.copy(ROOT / "SKILL.md", target)
    for path in [*target.rglob("*"), target]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return target


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "users code"
    folder.mkdir()
    for name, text in (("inputs.py", INPUTS), ("train.py", TRAIN), ("bench.py", BENCH)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


LINES = [block.text.strip() for block in blocks("SKILL.md") if block.language == "sh"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("scripts/")[1][:40])
def test_a_line_of_the_skill_works_as_it_stands(line: str, skill: Path, project: Path) -> None:
    python = shlex.quote(sys.executable)
    line = line.replace(SKILL_DIR, f'"{skill}"').replace("uv run ", f"{python} ")
    done = subprocess.run(
        ["bash", "-c", line], cwd=project, capture_output=True, text=True, check=False, timeout=120
    )
    status, part = next(v for name, v in EXPECTED.items() if name in line)
    assert done.returncode == status, done.stderr
    assert part in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (project / "train.py").read_text() == TRAIN
    written = re.findall(r"-o (\S+)", line)
    assert {path.name for path in project.iterdir()} == {
        "inputs.py",
        "train.py",
        "bench.py",
        *written,
    }


@pytest.mark.parametrize(
    "line", [line for line in LINES if " -o " in line], ids=lambda line: line[-20:]
)
def test_what_a_line_of_the_skill_renders_runs_and_is_clean(
    line: str, skill: Path, project: Path
) -> None:
    from perf_timing.lint import main as lint
    from simulated_device import run_script

    [call] = commands(line)
    from perf_timing.render import main as render

    [output] = re.findall(r"-o (\S+)", line)
    call[call.index(output)] = str(project / output)
    call[call.index("inputs.py")] = str(project / "inputs.py")
    assert render(call[1:]) == 0
    result = run_script((project / output).read_text())
    assert result.exit_code == 0, str(result)
    assert result.record is not None
    assert lint(["--isolated", str(project / output)]) == 0

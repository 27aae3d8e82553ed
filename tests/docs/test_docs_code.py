"""Every block of code in the documents runs or compiles, and our own linter has nothing to say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from docs.documents import GENERATED, ROOT, WRITTEN, Block, all_blocks, blocks, read
from perf_timing.lint import main as lint
from simulated_device import run_script
from simulated_device.program import build, has_compilers, run_program
from simulated_device.rendering import measure

SHOWN = {"text", "yaml", "json", "sh", "bash", "toml", "python", "cuda"}
# Blocks of these run on the torch and nvtx that are installed, the others on the simulated device.
ON_REAL_LIBRARIES = ("references/nvtx-api.md", "references/pytorch-profiler-api.md")
# README shows one example of code that is wrong, for its first command to find.
BAD_EXAMPLE = "import time"


def _is_bad_example(block: Block) -> bool:
    return block.document == "README.md" and block.text.startswith(BAD_EXAMPLE)


PYTHON = [block for block in all_blocks("python") if not _is_bad_example(block)]
SIMULATED = [block for block in PYTHON if block.document not in ON_REAL_LIBRARIES]
REAL = [block for block in PYTHON if block.document in ON_REAL_LIBRARIES]


def test_every_block_says_what_it_is() -> None:
    found = [block for document in WRITTEN for block in blocks(document)]
    assert len(found) > 20
    assert [str(block) for block in found if block.language not in SHOWN] == []


def test_there_is_code_to_run() -> None:
    assert len(SIMULATED) >= 5
    assert len(REAL) >= 4
    assert all_blocks("cuda")


@pytest.mark.parametrize("block", SIMULATED, ids=str)
def test_a_block_runs_on_the_simulated_device(block: Block) -> None:
    result = run_script(block.text)
    assert result.exit_code == 0, str(result)
    assert result.stderr == ""


ADD = "import torch\na, b = (torch.rand(2**20, device='cuda') for _ in range(2))\nc = a + b"
LARGE = "import torch\nx = torch.rand(2**24, device='cuda')\nout = torch.empty_like(x)"
# What a block times, and how near it comes: the second and third hold the events' own 3 us.
TIMED = {
    "few, many = captured": (ADD, "torch.add(a, b, out=c)", "warm", 0.03),
    "times_us = sorted(": (LARGE, "torch.mul(x, 2.0, out=out)", "warm", 0.12),
    "do_bench(": (LARGE, "torch.add(x, x, out=out)", "cold", 0.12),
}


@pytest.mark.parametrize("mark", TIMED)
def test_a_block_reads_the_time_that_it_is_to_read(mark: str) -> None:
    setup, call, cache, within = TIMED[mark]
    [block] = [b for b in SIMULATED if mark in b.text]
    record = measure("kernel-time", f"--setup={setup}", f"--call={call}", f"--cache={cache}").record
    assert record is not None
    [figure, *_] = re.findall(r"(\d+\.\d+)[^\n]* us", run_script(block.text).stdout)
    assert float(figure) == pytest.approx(record["summary"]["median_us"], rel=within)


# One process a page: to import torch takes seconds.
EACH = """
import json, sys
for name, text in json.load(sys.stdin):
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
"""


@pytest.mark.parametrize("document", ON_REAL_LIBRARIES)
def test_the_blocks_of_a_page_run_on_the_installed_libraries(document: str) -> None:
    pytest.importorskip("nvtx" if "nvtx" in document else "torch")
    page = [(str(block), block.text) for block in REAL if block.document == document]
    assert page
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", EACH],
        input=json.dumps(page), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not has_compilers(), reason="needs nvcc and g++")
@pytest.mark.parametrize("block", all_blocks("cuda"), ids=str)
def test_a_cuda_program_compiles_and_runs(block: Block, tmp_path: Path) -> None:
    kernel = re.findall(r"__global__ void (\w+)", block.text)[0]
    done = run_program(build(block.text, tmp_path), {kernel: (100.0, 100.0)})
    assert done.exit_code == 0, done.stderr
    read_us = float(re.findall(r"([\d.]+) us a launch", done.stdout)[0])
    assert read_us == pytest.approx(100.0, rel=0.05)


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_a_yaml_block_parses(block: Block) -> None:
    assert yaml.safe_load(block.text)


@pytest.mark.parametrize("block", all_blocks("toml"), ids=str)
def test_settings_in_a_block_are_accepted(block: Block, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block.text, encoding="utf-8")
    file = tmp_path / "bench.py"
    file.write_text("import time\nstart = time.perf_counter()\n", encoding="utf-8")
    assert lint([str(file)]) == 0


@pytest.mark.parametrize(
    "document", [document for document in WRITTEN if document != "README.md"], ids=str
)
def test_the_linter_finds_nothing_in_the_documents(
    document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = lint(["--isolated", "--markdown", "--fail-on", "info", str(ROOT / document)])
    assert status == 0, capsys.readouterr().out


def test_the_bad_example_has_the_findings_that_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert lint(["--markdown", "--format", "concise", "README.md"]) == 1
    told = capsys.readouterr().out
    shown = [block.text for block in all_blocks("text", ("README.md",)) if "TIM" in block.text]
    assert len(shown) == 1
    for line in shown[0].strip().split("\n"):
        assert line in told
    assert len([block for block in all_blocks("python") if _is_bad_example(block)]) == 1


@pytest.mark.parametrize("document", GENERATED)
def test_blocks_of_generated_pages_parse(document: str) -> None:
    for block in all_blocks("python", (document,)):
        compile(block.text, str(block), "exec")
    assert read(document).startswith("<!-- Generated by `python -m perf_timing.")

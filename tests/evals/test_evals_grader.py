"""The grader passes right answers, fails wrong ones, and does not pass having graded nothing."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from perf_timing.inject import main as inject
from perf_timing.render import main as render

HERE = Path(__file__).resolve().parent


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evals_grade", HERE / "grade.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["evals_grade"] = module
    spec.loader.exec_module(module)
    return module


grade = _load()
TASKS: dict[str, dict[str, Any]] = {task["id"]: task for task in grade.tasks()}
TRIGGERS = json.loads((HERE / "triggers.json").read_text(encoding="utf-8"))


# --- what the files hold -------------------------------------------------------------------------


def test_there_are_enough_tasks_and_each_is_whole() -> None:
    assert len(TASKS) >= 12
    assert len(TASKS) == len(grade.tasks())
    fixtures = grade.fixtures()
    for task in TASKS.values():
        assert set(task) == {"id", "prompt", "expected_output", "files", "assertions"}
        assert len(task["assertions"]) >= 2
        assert set(task["files"]) <= set(fixtures)
        for wanted in task["assertions"]:
            assert wanted["type"] in grade.ASSERTIONS
            assert wanted.get("fixture", task["files"][0]) in task["files"]


def test_every_fixture_and_every_kind_of_assertion_is_used() -> None:
    assert {name for task in TASKS.values() for name in task["files"]} == set(grade.fixtures())
    used = {wanted["type"] for task in TASKS.values() for wanted in task["assertions"]}
    assert used == set(grade.ASSERTIONS)


def test_half_of_the_trigger_queries_are_near_misses() -> None:
    queries = TRIGGERS["queries"]
    assert len(queries) == len({query["query"] for query in queries}) == 20
    assert sum(query["should_trigger"] for query in queries) == 10


def test_both_files_name_the_skill() -> None:
    evals = json.loads((HERE / "evals.json").read_text(encoding="utf-8"))
    skill = (HERE.parents[1] / "SKILL.md").read_text(encoding="utf-8")
    assert f"name: {evals['skill_name']}\n" in skill
    assert TRIGGERS["skill_name"] == evals["skill_name"]


# --- right answers, made with the commands of the skill ------------------------------------------

SETUPS = {
    "ops": "from ops import add, example, scale\n\nx, residual, out = example()\n",
    "gemm": "from gemm import SIZE, example, matmul\n\na, b, out = example()\n",
    "versions": "from versions import example, new, old\n\nx = example()\n",
    "twins": "from twins import example, first, second\n\nx, out = example()\n",
    "overlap": "from overlap import example, overlapped\n\nx, out, other = example()\n",
    "add": "import torch\n\nx, y = (torch.rand(2**20, device='cuda') for _ in range(2))\n"
    "out = torch.empty_like(x)\n",
    "square": "import torch\n\nx = torch.rand(4096, 4096, device='cuda').sub_(0.5).bfloat16()\n",
}
# id -> scenario, setup, options, file
RENDERED = {
    "short-op": ("cuda-graph", "ops", ["--call=add(x, residual, out)"], "time_add.py"),
    "large-matmul": (
        "simple-event",
        "gemm",
        ["--call=matmul(a, b, out)", "--flops=2 * SIZE**3"],
        "time_gemm.py",
    ),
    "cold-cache": (
        "cuda-graph",
        "ops",
        ["--call=scale(x, out)", "--cache=cold"],
        "time_cold.py",
    ),
    "host-bound": ("cuda-graph", "add", ["--call=torch.add(x, y, out=out)"], "time_add.py"),
    "faster-version": (
        "compare",
        "versions",
        ["--call=old=old(x)", "--call=new=new(x)"],
        "compare_versions.py",
    ),
    "equal-versions": (
        "compare",
        "twins",
        ["--call=first=first(x, out)", "--call=second=second(x, out)"],
        "compare_twins.py",
    ),
    "side-stream": (
        "kernel-time",
        "overlap",
        ["--call=overlapped(x, out, other)"],
        "time_overlap.py",
    ),
    "no-gpu": ("cuda-graph", "ops", ["--call=scale(x, out)"], "time_scale.py"),
    "mend": ("simple-event", "square", ["--call=x @ x"], "slow_bench.py"),
}
SAID = {
    "host-bound": "bench.py reads launch cost: the call is host-bound. See time_add.py.",
    "label-timeline": "Run: nsys profile --trace=cuda,nvtx python train_labelled.py",
    "review": "Line 8: host-clock-without-sync, the clock stops before the GPU does. Line 8:"
    " unit-mismatch, seconds are called ms. Line 5: missing-warmup.",
    "host-only": "The linter has no finding: no GPU work is timed, and parse.py is right.",
    "no-gpu": "I have no figure: run `python time_scale.py` on the H200.",
}


def quiet(main: Any, *arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(list(arguments)) == 0, arguments


def instrument(folder: Path, source: str, target: str, *options: str) -> None:
    copy = folder / target
    copy.write_text((folder / source).read_text(encoding="utf-8"), encoding="utf-8")
    quiet(inject, str(copy), "--write", *options)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    answers = tmp_path_factory.mktemp("right answers")
    grade.write_fixtures(answers)
    for name, (scenario, setup, options, file) in RENDERED.items():
        target = answers / name / file
        arguments = [scenario, f"--setup={SETUPS[setup]}", *options, "--json=record.json"]
        quiet(render, *arguments, "-o", str(target), "--force")
    instrument(answers / "training-loop", "train.py", "train_timed.py")
    instrument(
        answers / "tokens-per-second", "train_tokens.py", "train_timed.py",
        "--items=batch['input_ids'].numel()",
    )  # fmt: skip
    instrument(answers / "label-timeline", "train.py", "train_labelled.py", "--nvtx")
    cuda = answers / "cuda-kernel"
    quiet(
        render, "raw-cuda", "--method=graph", f"--kernel=@{cuda / 'scale.cu'}",
        "--setup=const int n = 1 << 20; float* x = device_array<float>(n);",
        "--launch=scale<<<1024, 256>>>(x, n)", "-o", str(cuda / "bench_scale.cu"),
    )  # fmt: skip
    for name, text in SAID.items():
        (answers / name / "answer.md").write_text(text, encoding="utf-8")
    return answers


@pytest.mark.parametrize("name", TASKS)
def test_a_right_answer_passes(name: str, right: Path) -> None:
    graded = grade.grade(TASKS[name], grade.Answer(right / name, "simulated"))
    assert len(graded) == len(TASKS[name]["assertions"])
    assert [(label, reason) for label, reason in graded if reason] == []


# --- right answers by hand -----------------------------------------------------------------------

LOOP_BY_HAND = {
    "import torch\n": "import time\n\nimport torch\n",
    "for inputs, targets in loader:\n": "times_s, before = [], time.perf_counter()\n"
    "for inputs, targets in loader:\n",
    "    optimizer.step()\n": "    optimizer.step()\n    if device == 'cuda':\n"
    "        torch.cuda.synchronize()\n    now = time.perf_counter()\n"
    "    times_s.append(now - before)\n    before = now\n",
}


def test_code_that_is_right_but_not_rendered_in_full_passes(tmp_path: Path) -> None:
    grade.write_fixtures(tmp_path)
    setup, target = SETUPS["ops"], tmp_path / "short-op" / "time_add.py"
    options = [f"--setup={setup}", "--call=add(x, residual, out)", "--minimal"]
    quiet(render, "cuda-graph", *options, "-o", str(target))
    graded = grade.grade(TASKS["short-op"], grade.Answer(target.parent, "simulated"))
    assert [(label, reason) for label, reason in graded if reason] == []


def test_a_loop_that_was_timed_by_hand_passes_where_it_keeps_the_script(tmp_path: Path) -> None:
    grade.write_fixtures(tmp_path)
    folder = tmp_path / "training-loop"
    text = (folder / "train.py").read_text(encoding="utf-8")
    for old, new in LOOP_BY_HAND.items():
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "train_timed.py").write_text(text, encoding="utf-8")
    wanted = {"file": "train_timed.py", "fixture": "train.py"}
    answer = grade.Answer(folder, "simulated")
    assert grade.instrumented(answer, wanted) is None
    assert grade.restores(answer, wanted) is None
    (folder / "train_timed.py").write_text(text.replace("lr=0.01", "lr=0.1"), encoding="utf-8")
    assert "has lost" in grade.restores(answer, wanted)


# --- wrong answers -------------------------------------------------------------------------------

NAIVE = """\
import time
import torch
{setup}
start = time.time()
for _ in range(100):
    {call}
elapsed = time.time() - start
print(f"{{elapsed / 100 * 1e6:.2f}} us, TFLOP/s")
"""
ONE_AFTER_THE_OTHER = """\
import time
import torch
{setup}
for call in (lambda: {call}, lambda: {call}):
    start = time.time()
    call()
    print(time.time() - start)
print("the second is slower")
"""
CALLS = {
    "short-op": "add(x, residual, out)",
    "large-matmul": "matmul(a, b, out)",
    "cold-cache": "scale(x, out)",
    "host-bound": "torch.add(x, y, out=out)",
    "faster-version": "old(x)",
    "equal-versions": "first(x, out)",
    "side-stream": "overlapped(x, out, other)",
    "no-gpu": "scale(x, out)",
    "mend": "x @ x",
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    answers = tmp_path_factory.mktemp("wrong answers")
    grade.write_fixtures(answers)
    for name, call in CALLS.items():
        _, setup, _, file = RENDERED[name]
        form = ONE_AFTER_THE_OTHER if "versions" in name or "version" in name else NAIVE
        text = form.format(setup=SETUPS[setup], call=call)
        (answers / name / file).write_text(text, encoding="utf-8")
        (answers / name / "answer.md").write_text("It takes 7.9 us.", encoding="utf-8")
    for name, source, file in (
        ("training-loop", "train.py", "train_timed.py"),
        ("tokens-per-second", "train_tokens.py", "train_timed.py"),
        ("label-timeline", "train.py", "train_labelled.py"),
    ):
        text = (answers / name / source).read_text(encoding="utf-8").replace("lr=0.01", "lr=0.1")
        (answers / name / file).write_text(text, encoding="utf-8")
        (answers / name / "answer.md").write_text("Forward takes 3.1 ms.", encoding="utf-8")
    (answers / "review" / "answer.md").write_text("Looks good to me.", encoding="utf-8")
    (answers / "host-only" / "parse.py").write_text("import torch\n", encoding="utf-8")
    (answers / "host-only" / "answer.md").write_text("I used CUDA events.", encoding="utf-8")
    (answers / "cuda-kernel" / "bench_scale.cu").write_text("int main() {}\n", encoding="utf-8")
    return answers


@pytest.mark.parametrize("name", TASKS)
def test_a_wrong_answer_fails(name: str, wrong: Path) -> None:
    graded = grade.grade(TASKS[name], grade.Answer(wrong / name, "simulated"))
    assert [reason for _, reason in graded if reason], graded


@pytest.mark.parametrize(
    "name",
    [n for n, t in TASKS.items() if any(a["type"] == "reads_true_time" for a in t["assertions"])],
)
def test_a_naive_clock_reads_another_time(name: str, wrong: Path) -> None:
    answer = grade.Answer(wrong / name, "simulated")
    [wanted] = [a for a in TASKS[name]["assertions"] if a["type"] == "reads_true_time"]
    reason = grade.reads_true_time(answer, wanted)
    assert reason is not None and "reads" in reason


# --- running scripts ----------------------------------------------------------------------------


def test_a_script_runs_on_a_real_device_too() -> None:
    script = (
        "import json, pathlib, helper\nprint(helper.NAME, '3.5 us')\n"
        "record = {'schema': 1, 'summary': {'median_us': 3.4}}\n"
        "pathlib.Path('r.json').write_text(json.dumps(record))\n"
    )
    run = grade.run_source(script, (("helper.py", "NAME = 'add'\n"),), "gpu")
    assert (run.exit_code, run.stdout) == (0, "add 3.5 us\n")
    assert grade._figure_us(run) == 3.4


@pytest.mark.parametrize(
    ("text", "us"),
    [("5.5 us", 5.5), ("0.25 ms a call", 250.0), ("n = 30, 12 us", 12.0), ("fast", None)],
)  # fmt: skip
def test_a_figure_is_read_with_its_unit(text: str, us: float | None) -> None:
    assert grade._figure_us(grade.Run(0, text, "", None)) == us


# --- the command ---------------------------------------------------------------------------------


def test_right_answers_exit_0(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--only", "review", "--only", "training-loop"]
    assert grade.main([str(right), *chosen]) == 0
    assert "2 of 2 tasks passed" in capsys.readouterr().out


def test_a_task_without_an_answer_fails(right: Path, tmp_path: Path) -> None:
    (tmp_path / "review").symlink_to(right / "review", target_is_directory=True)
    assert grade.main([str(tmp_path), "--only", "review", "--only", "host-only"]) == 1


def test_wrong_answers_exit_1_and_say_why(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade.main([str(wrong), "--only", "review", "--only", "host-only"]) == 1
    told = capsys.readouterr().out
    assert "FAIL review" in told
    assert "unchanged parse.py: was changed" in told
    assert "0 of 2 tasks passed" in told


@pytest.mark.parametrize(
    "arguments", [["{empty}"], ["{missing}"], ["{empty}", "--only", "no-such-task"]],
    ids=["an empty folder", "no folder", "an unknown task"],
)  # fmt: skip
def test_grading_nothing_exits_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"empty": str(tmp_path), "missing": str(tmp_path / "missing")}
    assert grade.main([argument.format(**places) for argument in arguments]) == 2
    assert capsys.readouterr().err.startswith("grade: ")


def test_untouched_fixtures_pass_no_task(tmp_path: Path) -> None:
    assert grade.main(["--write-fixtures", str(tmp_path)]) == 0
    for name, task in TASKS.items():
        graded = grade.grade(task, grade.Answer(tmp_path / name, "simulated"))
        assert [reason for _, reason in graded if reason], name

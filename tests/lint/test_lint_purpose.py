"""Rules that judge how well something is measured stay silent where nothing is there to measure."""

import re
from pathlib import Path

import pytest
from lint.lint_command import Lint, Project
from perf_timing.lint.catalog import load_rules

TIMED = """\
    t0 = time.perf_counter()
    for _ in range(100):
        model(x)
    torch.cuda.synchronize()
    print((time.perf_counter() - t0) / 100)
"""
HEAD = """\
import time
import torch

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")


"""
FILLER = "def unrelated_{n}(value):\n    if value:\n        return value + {n}\n    return 0\n\n\n"
MUCH_ELSE = "".join(FILLER.format(n=n) for n in range(60))


def rules_in(lint: Lint, project: Project, name: str, text: str) -> set[str]:
    project({name: text})
    return {rule for rule, _ in lint("--format", "json", name).places}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("bench_linear.py", "run"),
        ("serve.py", "measure_latency"),
        ("serve.py", "measure_linear"),
        ("benchmarks/linear.py", "run"),
    ],
)
def test_a_name_that_speaks_of_measuring_is_enough(
    lint: Lint, project: Project, name: str, function: str
) -> None:
    text = HEAD + MUCH_ELSE + f"def {function}():\n" + TIMED
    assert "missing-warmup" in rules_in(lint, project, name, text)


def test_a_short_file_about_time_is_enough(lint: Lint, project: Project) -> None:
    text = HEAD + "def run():\n" + TIMED
    assert "missing-warmup" in rules_in(lint, project, "linear.py", text)


def test_a_span_in_a_long_file_about_something_else_is_left_alone(
    lint: Lint, project: Project
) -> None:
    text = HEAD + MUCH_ELSE + "def run():\n" + TIMED
    assert rules_in(lint, project, "serve.py", text) == set()


ONCE = """\
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    {work}
    torch.cuda.synchronize()
    took = time.perf_counter() - t0
"""
OF_ONE = {"missing-warmup", "single-sample"}


def test_a_time_printed_in_milliseconds_is_a_measurement_in_any_file(
    lint: Lint, project: Project
) -> None:
    shown = ONCE.format(work="model(x)") + '    print(f"Time: {took * 1000:.2f} ms")\n'
    text = HEAD + MUCH_ELSE + "def main():\n" + shown
    assert rules_in(lint, project, "verify_linear.py", text) == OF_ONE


ADDED_UP = """\
    total = 0
    for item in range(100):
        t0 = time.perf_counter()
        model(x)
        torch.cuda.synchronize()
        total += time.perf_counter() - t0
    mean = total / 100
    print({shown})
"""


def test_a_rate_that_is_made_of_a_sum_is_a_measurement_in_any_file(
    lint: Lint, project: Project
) -> None:
    text = HEAD + MUCH_ELSE + "def main():\n" + ADDED_UP.format(shown='f"FPS: {1 / mean:.2f}"')
    assert rules_in(lint, project, "gaze.py", text) == {"missing-warmup", "mean-only-report"}
    text = HEAD + MUCH_ELSE + "def main():\n" + ADDED_UP.format(shown='f"took {mean:.2f} s"')
    assert rules_in(lint, project, "gaze.py", text) == set()


@pytest.mark.parametrize(
    "compared", ["assert other < took", 'print(f"{other / took:.1f}x")', "if took > 2 * other:"]
)
def test_times_of_two_calls_that_are_compared_are_measurements_in_any_file(
    lint: Lint, project: Project, compared: str
) -> None:
    other = ONCE.replace("took", "other").format(work="torch.matmul(x, x.T)")
    both = ONCE.format(work="model(x)") + other
    end = "        raise ValueError\n" if compared.endswith(":") else ""
    text = HEAD + MUCH_ELSE + f"def main():\n{both}    {compared}\n{end}"
    assert rules_in(lint, project, "verify_linear.py", text) == OF_ONE


@pytest.mark.parametrize(
    "shown",
    [
        'print(f"Time: {took:.2f} s")',  # how long the program took
        "assert took < limit",
        "assert other < took",  # with a time that is none of the device
        'print(f"{len(items)} items, done")',
    ],
)
def test_other_times_of_a_long_file_are_left_alone(
    lint: Lint, project: Project, shown: str
) -> None:
    timed = ONCE.format(work="model(x)") + "    t1 = time.perf_counter()\n"
    timed += "    items = sorted(limits)\n    other = time.perf_counter() - t1\n"
    text = HEAD + MUCH_ELSE + f"def main(limits, limit):\n{timed}    {shown}\n"
    assert rules_in(lint, project, "verify_linear.py", text) == set()


def test_milliseconds_of_a_method_and_of_a_decorator_are_left_alone(
    lint: Lint, project: Project
) -> None:
    shown = ONCE.format(work="self.model(x)") + '    print(f"Time: {took * 1000:.2f} ms")\n'
    method = "class Pipeline:\n    def run(self):\n" + re.sub("(?m)^", "    ", shown) + "\n"
    given = shown.replace("self.model(x)", "found = function()") + "    return found\n"
    decorator = "def told(function):\n    def call():\n" + re.sub("(?m)^", "    ", given)
    decorator += "\n    return call\n\n\n@told\ndef work():\n    return model(x)\n"
    text = HEAD + MUCH_ELSE + method + "\n\n" + decorator
    assert rules_in(lint, project, "verify_linear.py", text) == set()


def test_a_clock_without_a_wait_is_reported_everywhere(lint: Lint, project: Project) -> None:
    timed = TIMED.replace("    torch.cuda.synchronize()\n", "")
    text = HEAD + MUCH_ELSE + "def run():\n" + timed
    assert rules_in(lint, project, "serve.py", text) == {"host-clock-without-sync"}


def test_the_documentation_names_the_rules_that_ask_first() -> None:
    page = Path(__file__).resolve().parents[2] / "references" / "lint-timing.md"
    told = page.read_text(encoding="utf-8").split("**What the code is for**")[1].split("- **")[0]
    asked = [rule.code for rule in load_rules() if rule.benchmark_only]
    assert re.findall(r"TIM\d+", told) == asked


TRAINED = """\
    for x, y in loader:
        t0 = time.time()
        loss = criterion(model(x.cuda()), y.cuda())
        print(loss.item())
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        print(time.time() - t0)
"""


def test_waits_of_timed_training_steps_are_reported_in_a_long_training_script(
    lint: Lint, project: Project
) -> None:
    text = HEAD + MUCH_ELSE + "def fit(loader, criterion, optimizer):\n" + TRAINED
    found = rules_in(lint, project, "train.py", text)
    assert found == {"blocking-read-in-measured-loop", "sync-in-measured-loop"}


COLLECTED = """\
    spent = []
    for batch in loader:
        t0 = time.time()
        model(batch.cuda())
        torch.cuda.synchronize()
        spent.append(time.time() - t0)
    print("mean", sum(spent) / len(spent))
"""
SUMMED = """\
    total = 0
    for batch in loader:
        t0 = time.time()
        model(batch.cuda())
        torch.cuda.synchronize()
        total += time.time() - t0
    print(f"{what}: {total / len(loader)}")
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (COLLECTED, {"mean-only-report"}),
        (SUMMED.replace("{what}", "Inference time"), {"mean-only-report"}),
        (SUMMED.replace("{what}", "Time"), set()),
    ],
    ids=["a list of samples", "a sum that is called inference time", "a sum that is called time"],
)
def test_a_mean_in_a_long_file_counts_if_samples_are_collected_or_it_is_called_a_figure_of_speed(
    lint: Lint, project: Project, body: str, expected: set[str]
) -> None:
    text = HEAD + MUCH_ELSE + "def run(loader):\n" + body
    assert rules_in(lint, project, "serve.py", text) == expected


def test_a_trace_that_is_written_before_the_closing_reading_counts_in_a_long_file(
    lint: Lint, project: Project
) -> None:
    body = (
        "    t0 = time.time()\n    model(x)\n    torch.cuda.synchronize()\n"
        '    profiler.export_chrome_trace("t.json")\n    print(time.time() - t0)\n'
    )
    text = HEAD + MUCH_ELSE + "def run(profiler):\n" + body
    assert rules_in(lint, project, "serve.py", text) == {"io-in-measured-region"}


DECODES = """
def decode(x, n):
    x = model(x)
    t0 = time.time()
    for _ in range(n):
        x = model(x)
    torch.cuda.synchronize()
    t1 = time.time()
    return {what}
"""


@pytest.mark.parametrize(
    ("what", "expected"),
    [("n / (t1 - t0)", {"unsynced-clock-start"}), ("x, t1 - t0", set())],
    ids=["a rate", "a result and a time"],
)
def test_a_start_that_work_runs_into_counts_in_a_long_file_if_the_function_returns_a_rate(
    lint: Lint, project: Project, what: str, expected: set[str]
) -> None:
    text = HEAD + MUCH_ELSE + DECODES.replace("{what}", what)
    assert rules_in(lint, project, "serve.py", text) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [("# warm-up", {"single-sample"}), ("# what came before", set())],
    ids=["a loop that warms up", "a loop that does something else"],
)
def test_a_single_sample_counts_in_a_long_file_if_a_loop_warms_up_before(
    lint: Lint, project: Project, before: str, expected: set[str]
) -> None:
    body = (
        f"def main():\n    {before}\n    for _ in range(10):\n        model(x)\n"
        "    torch.cuda.synchronize()\n    t0 = time.perf_counter()\n    model(x)\n"
        "    torch.cuda.synchronize()\n    print(time.perf_counter() - t0)\n"
    )
    assert rules_in(lint, project, "serve.py", HEAD + MUCH_ELSE + body) == expected

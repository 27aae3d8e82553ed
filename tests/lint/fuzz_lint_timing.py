"""Mutated snippets for the linter: `python tests/lint/fuzz_lint_timing.py --inputs 20000`.

Takes every example of every rule, spoils it at random (bytes cut, doubled, swapped or inserted,
lines moved, other encodings, wrapped into a notebook or Markdown), and checks it. Whatever comes,
each file is checked or named with a reason, never with an internal error, and every finding lies
inside its file.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from perf_timing.lint import formats
from perf_timing.lint.files.discover import Target
from perf_timing.lint.files.source import load
from perf_timing.lint.formats import concise, full, github, sarif
from perf_timing.lint.formats import json as json_format
from perf_timing.lint.judge import all_rules
from perf_timing.lint.runner import FileResult, check_documents

BATCH = 50
TOKENS = (
    *("(", ")", "[", "]", "{", "}", '"""', "'", '"', "\\", "\n", "\r", "\r\n", "\t", "\f", "\0"),
    *("#", "//", "/*", "*/", "<<<", ">>>", "%timeit ", "%%time\n", "!ls\n", "```python\n", "```\n"),
    *("# lint-timing: ignore[", "# lint-timing: ignore[TIM101]\n", "// lint-timing: ignore-file["),
    *("\ufeff", "\U0001f525", "\u2028", "\u00e9", "e\u0301", "\ud7ff", "\x1b[31m", "0x", "1e999"),
    *("def f(", "class A:", "lambda: ", "async ", "await ", "with a as b: ", "for _ in x: ", "if "),
    *("time.time()", "torch.cuda.synchronize()", "e.record()", "start.elapsed_time(end)", "yield "),
    *("match x:\n case 1: pass\n", "type X = int\n", "x: int = ", "*", "**", ":=", "->", ";", "@"),
    *("# coding: latin-1\n", "# coding: utf-16\n", "print 'x'\n", "import torch, time\n", "..."),
)
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-32", "utf-16-be")


def snippets() -> list[tuple[str, str]]:
    """(language, code) of every example of every rule."""
    found = [block for rule in all_rules() for block in (*rule.examples, *rule.replacements)]
    assert len(found) > 10
    return found


def mutate(text: str, rng: random.Random, others: list[tuple[str, str]]) -> str:
    """`text` with up to eight random changes."""
    for _ in range(rng.randint(0, 8)):
        lines = text.split("\n")
        i, j = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        n, m = rng.randrange(len(lines)), rng.randrange(len(lines))
        change = rng.randrange(9)
        if change == 0:
            text = text[:i] + text[min(j, i + 20) :]
        elif change == 1:
            text = text[:j] + text[i:]
        elif change == 2:
            text = text[:i] + rng.choice(TOKENS) * rng.choice((1, 1, 1, 2, 60)) + text[i:]
        elif change == 3:
            lines[n], lines[m] = lines[m], lines[n]
            text = "\n".join(lines)
        elif change == 4:
            lines[n] = " " * rng.randint(0, 12) + lines[n]
            text = "\n".join(lines)
        elif change == 5:
            text = text[:i] + rng.choice(others)[1] + text[i:]
        elif change == 6:
            text = text[:i]
        elif change == 7:
            text = "\n".join([*lines[:n], *(f"    {line}" for line in lines[n:])])
        else:
            text = (
                text[:i] + chr(rng.choice((rng.randrange(128), rng.randrange(0xD7FF)))) + text[i:]
            )
    return text


def wrapped(text: str, language: str, rng: random.Random) -> tuple[str, bytes]:
    """(kind, bytes) of a file that holds `text`."""
    way = rng.randrange(10)
    if way == 0:
        cells = text.split("\n\n")
        records = [{"cell_type": "code", "source": c.splitlines(keepends=True)} for c in cells]
        data = json.dumps({"cells": records, "metadata": {}}).encode()
        return "notebook", data if rng.random() < 0.9 else data[: rng.randint(0, len(data))]
    if way == 1:
        fence = "python" if language == "python" else "cuda"
        return "markdown", f"# T\n\n```{fence}\n{text}\n```\n".encode("utf-8", "replace")
    data = text.encode(rng.choice(ENCODINGS), "replace")
    if rng.random() < 0.1:
        data = data.replace(b"\n", rng.choice((b"\r\n", b"\r")))
    return language, data


def inputs(count: int, seed: int) -> list[tuple[str, bytes]]:
    """`count` files as (kind, bytes), the same for the same seed."""
    rng = random.Random(seed)
    others = snippets()
    made = []
    for _ in range(count):
        language, code = rng.choice(others)
        made.append(wrapped(mutate(code, rng, others), language, rng))
    return made


def check(files: list[tuple[str, bytes]]) -> list[FileResult]:
    """Check the files together; asserts what must hold for each."""
    names = frozenset(rule.name for rule in all_rules())
    ending = {"python": "py", "cuda": "cu", "notebook": "ipynb", "markdown": "md"}
    documents = [
        load(Target(f"{i}.{ending[kind]}", f"{i}.{ending[kind]}", kind, i % 2 == 0), data)
        for i, (kind, data) in enumerate(files)
    ]
    results = check_documents(documents, lambda _: names)
    for (_, data), result in zip(files, results, strict=True):
        for reason in result.problems:
            assert "internal error" not in reason, (reason, data)
        for report in result.reports:
            f = report.finding
            assert 1 <= f.line <= f.end_line, (f, data)
            assert 1 <= f.column <= len(report.source) + 1, (f, data)
            assert 1 <= f.end_column <= len(report.end_source) + 1, (f, data)
            assert f.message and f.message.isascii(), f
    reports = [report for result in results for report in result.reports]
    outcome = formats.Outcome(reports, counts=Counter(r.finding.severity for r in reports))
    for output in (full, concise, github):
        output.render(outcome).encode("utf-8", "backslashreplace")
    json.loads(json_format.render(outcome))
    json.loads(sarif.render(outcome))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start, findings, refused, slowest = time.monotonic(), 0, 0, 0.0
    for number in range(0, arguments.inputs, BATCH):
        begun = time.monotonic()
        try:
            results = check(inputs(BATCH, arguments.seed * 1_000_003 + number))
        except AssertionError as error:
            print(f"batch {number}: {str(error)[:2000]}")
            return 1
        slowest = max(slowest, time.monotonic() - begun)
        findings += sum(len(result.reports) for result in results)
        refused += sum(bool(result.problems) for result in results)
    print(
        f"{arguments.inputs} inputs: no internal error; {findings} findings; {refused} files named"
        f" as not checked; {time.monotonic() - start:.0f} s, slowest batch of {BATCH}"
        f" {slowest:.1f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

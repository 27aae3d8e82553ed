"""Files that break tools: each has a stated result, and none a traceback."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lint.lint_command import BAD, SCRIPTS, Lint, Project, run_process

FOUND = [("nvtx-unknown-api", 3)]
LATIN = BAD + "# caf\xe9\n"

CHECKED = {
    "CRLF": BAD.replace("\n", "\r\n").encode(),
    "single carriage returns": BAD.replace("\n", "\r").encode(),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + BAD.encode(),
    "UTF-16 with a mark": BAD.encode("utf-16"),
    "UTF-16, big end first": b"\xfe\xff" + BAD.encode("utf-16-be"),
    "UTF-32 with a mark": BAD.encode("utf-32"),
    "Latin-1 that says so": b"# -*- coding: latin-1 -*-\nimport torch  # caf\xe9\n"
    b"torch.cuda.nvtx.get_domain('caf\xe9')\n",
    "Latin-1 declared on line 2": b"#!/usr/bin/env python\n# vim: set fileencoding=latin-1 :\n"
    + b"import torch; torch.cuda.nvtx.get_domain('caf\xe9')\n",
    "tabs": BAD.replace("torch.cuda", "if 1:\n\ttorch.cuda").replace("\n\nif", "\nif").encode(),
    "no newline at the end": BAD.rstrip("\n").encode(),
    "emoji before the place": BAD.replace("torch.cuda", "'\U0001f525'; torch.cuda").encode(),
    "an argument of Python before 3.7": f"{BAD}def f(x):\n    x.cuda(async=True)\n".encode(),
    "form feed": BAD.replace("\n\n", "\n\f\n").encode(),
    "a line of 50,000 characters": f"{BAD}x = '{'a' * 50_000}'\n".encode(),
    "a place behind 50,000 characters": f"import torch\n\nx = '{'a' * 50_000}'; "
    "torch.cuda.nvtx.get_domain('a')\n".encode(),
}


@pytest.mark.parametrize("name", CHECKED)
def test_checked_all_the_same(lint: Lint, project: Project, name: str) -> None:
    project({"a.py": CHECKED[name]})
    for output in ("full", "concise", "sarif", "github"):
        assert lint("a.py", "--format", output).status == 1
    run = lint("a.py", "--format", "json")
    assert (run.status, run.err, run.places) == (1, "", FOUND)


REFUSED = {
    "NUL byte": (BAD.encode() + b"\0", "holds NUL bytes, so it is not text"),
    "binary named .py": (bytes(range(256)) * 8, "holds NUL bytes, so it is not text"),
    "Latin-1 that does not say so": (LATIN.encode("latin-1"), "not valid utf-8: byte 0xe9"),
    "UTF-16 cut short": (BAD.encode("utf-16") + b"x", "not valid utf-16-le"),
    "unknown coding": (b"# coding: klingon\n" + BAD.encode(), "'klingon', which Python does not"),
    "coding that is none": (b"# coding: rot13\n" + BAD.encode(), "which is no encoding of text"),
    "Python 2": (BAD.encode() + b"print 'done'\n", "Python cannot parse it"),
    "a name of Python before 3.7": (BAD.encode() + b"async = 1\nasync(", "cannot parse it"),
    "unbalanced brackets": (BAD.encode() + b"f((1\n", "Python cannot parse it"),
    "500-deep brackets": (BAD.encode() + b"x = " + b"(" * 500 + b")" * 500, "cannot parse it"),
    "500-deep blocks": (
        BAD.encode() + b"".join(b" " * i + b"if x:\n" for i in range(500)) + b" " * 500 + b"y\n",
        "cannot parse it",
    ),
    "stray indent": (BAD.encode() + b"   x = 1\n", "Python cannot parse it: unexpected indent"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("by_name", [True, False], ids=["named", "in a folder"])
def test_named_as_not_checked(lint: Lint, project: Project, name: str, by_name: bool) -> None:
    data, words = REFUSED[name]
    project({"d/a.py": data, "d/ok.py": BAD})
    run = lint(*(["d/a.py", "d/ok.py"] if by_name else ["d"]), "--format", "json")
    assert run.status == 2
    assert run.err.startswith("lint-timing: d/a.py: ")
    assert words in run.err
    assert run.err.count("\n") == 1
    assert [f["path"] for f in run.findings] == ["d/ok.py"]


def test_a_file_with_nothing_to_find_is_parsed_only_when_named(
    lint: Lint, project: Project
) -> None:
    project({"d/a.py": "print 'Python 2, no clock'\n"})
    assert lint("d/a.py").status == 2
    assert lint("d").status == 0


def test_syntax_of_a_later_python_is_checked(lint: Lint, project: Project) -> None:
    newer = "type Alias = int\n\n\ndef first[T](x: list[T]) -> T:\n    return x[0]\n"
    nested = 'y = f"{x["a"]}"\n'
    project({"a.py": BAD + newer, "b.py": BAD + nested, "c.py": BAD + newer + "x = \n"})
    run = lint("a.py", "b.py", "--format", "json")
    assert (run.status, run.places) == (1, FOUND * 2)
    assert lint("c.py").status == 2


def test_an_empty_file_is_clean(lint: Lint, project: Project) -> None:
    project({"a.py": "", "b.cu": "", "c.py": "\n", "d.py": b"\xef\xbb\xbf"})
    assert lint("a.py", "b.cu", "c.py", "d.py").status == 0


def test_cuda_in_latin_1_is_checked(lint: Lint, project: Project) -> None:
    project(
        {
            "a.cu": "// caf\xe9\nint main() { cudaEvent_t e; cudaEventCreate(&e); }\n".encode(
                "latin-1"
            )
        }
    )
    run = lint("a.cu")
    assert run.status in (0, 1)
    assert run.err == ""


def test_cuda_that_nests_500_deep_is_checked(lint: Lint, project: Project) -> None:
    project({"a.cu": "#include <chrono>\nvoid f() { auto t = std::chrono::steady_clock::now();\n"
             + "{" * 500 + "kernel<<<1, 1>>>();" + "}" * 500
             + "\nauto u = std::chrono::steady_clock::now();\n"
             'printf("%f", (u - t).count()); }\n'})  # fmt: skip
    run = lint("a.cu", "--format", "json")
    assert (run.status, run.err) == (1, "")
    assert ("host-clock-without-sync", 4) in run.places


def test_too_many_measurements_in_one_function_are_named(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perf_timing.lint.measured import regions

    monkeypatch.setattr(regions, "_MOST_VISITS", 1000)
    step = "start = time.time()\ny = model(x)\nprint(time.time() - start)\n"
    project({"a.py": "import time\nimport torch\nx = x.cuda()\n" + step * 20})
    run = lint("a.py")
    assert run.status == 2
    assert run.err == "lint-timing: a.py: one of its functions takes too many measurements\n"


def test_deep_and_unbalanced_cuda_ends_well(lint: Lint, project: Project) -> None:
    head = "#include <chrono>\nvoid f() { auto t = std::chrono::steady_clock::now(); "
    project(
        {
            "a.cu": head + "{" * 500 + "}" * 500 + "}",
            "b.cu": head + "(" * 500,
            "c.cu": head + "}" * 50,
            "d.cu": head + "if (x) " * 500 + ";}",
        }
    )
    run = lint("a.cu", "b.cu", "c.cu", "d.cu")
    assert run.status in (0, 1, 2)


FLAT = "x = f(1, 2)\n" * 100_000
FUNCTIONS = "".join(f"def f{i}(x):\n    y = x @ x\n    return y\n\n\n" for i in range(20_000))
CLOCK = (
    "import time, torch\nstart = time.perf_counter()\nwork()\nprint(time.perf_counter() - start)\n"
)


@pytest.mark.parametrize(
    ("text", "places"),
    [(FLAT, []), (BAD + FUNCTIONS, FOUND), (CLOCK + FUNCTIONS, None)],
    ids=["one block", "functions", "functions, and a clock"],
)
def test_100_000_lines_are_checked_in_seconds(
    project: Project, text: str, places: list[tuple[str, int]] | None
) -> None:
    folder = project({"a.py": text})
    start = time.monotonic()
    run = run_process("a.py", "--format", "json", cwd=folder)
    assert time.monotonic() - start < 60  # on a machine that is busy with other tests
    assert run.err == ""
    assert places is None or run.places == places


def test_100_000_lines_that_all_have_a_part_in_timing_are_named(project: Project) -> None:
    folder = project({"a.py": CLOCK + FLAT})
    start = time.monotonic()
    run = run_process("a.py", "--format", "json", cwd=folder)
    assert time.monotonic() - start < 60
    assert run.status == 2
    assert run.err == "lint-timing: a.py: more than 0.6 MB of its code has a part in timing\n"


def test_many_findings_in_one_file_take_seconds(project: Project) -> None:
    line = "torch.cuda.nvtx.get_domain('a')  # lint-timing: ignore[nvtx-unknown-api] known\n"
    folder = project({"a.py": BAD + line * 2000 + "torch.cuda.nvtx.get_domain('b')\n" * 2000})
    start = time.monotonic()
    run = run_process("a.py", "--format", "json", cwd=folder)
    assert time.monotonic() - start < 60
    assert len(run.findings) == 2001


def test_a_path_that_is_not_utf_8_is_shown_and_checked(project: Project, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.py"
    Path(os.fsdecode(name)).write_text(BAD)
    folder = project({})
    for output in ("full", "concise", "github"):
        run = run_process(".", "--format", output, cwd=folder)
        assert run.status == 1
        assert "caf\\udce9.py" in run.out
    named = run_process(b"caf\xe9.py", "--format", "json", cwd=folder)
    assert os.fsencode(named.findings[0]["path"]) == b"caf\xe9.py"
    sarif = run_process(".", "--format", "sarif", cwd=folder)
    assert '"caf%E9.py"' in sarif.out


def test_a_path_with_a_newline_stays_on_one_line(lint: Lint, project: Project) -> None:
    project({"a\nb.py": BAD})
    assert lint(".", "--format", "concise").out.startswith("a\\nb.py:3:1: error")


def test_a_file_that_vanishes_after_the_walk_is_named(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perf_timing.lint import cli
    from perf_timing.lint.files import discover

    folder = project({"d/a.py": BAD, "d/b.py": BAD})
    real = discover.discover

    def vanishing(*args: object, **options: object) -> object:
        found = real(*args, **options)  # type: ignore[arg-type]
        (folder / "d" / "a.py").unlink()
        return found

    monkeypatch.setattr(cli, "discover", vanishing)
    run = lint("d", "--format", "json")
    assert run.status == 2
    assert run.err == "lint-timing: d/a.py: no such file\n"
    assert [f["path"] for f in run.findings] == ["d/b.py"]


def test_a_file_that_may_not_be_read_is_named(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({"a.py": BAD, "b.py": BAD})
    (folder / "a.py").chmod(0)
    refuse(monkeypatch, "open", "a.py")  # the user who runs the tests may be allowed everything
    run = lint(".", "--format", "json")
    assert run.status == 2
    assert run.err == "lint-timing: a.py: cannot be read: Permission denied\n"
    assert [f["path"] for f in run.findings] == ["b.py"]


def test_a_folder_without_permission_is_named(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({"open/a.py": BAD, "shut/b.py": BAD})
    refuse(monkeypatch, "scandir", "shut")
    run = lint(".", "--format", "json")
    assert run.status == 2
    assert run.err == "lint-timing: shut: folder not readable: Permission denied\n"
    assert [f["path"] for f in run.findings] == ["open/a.py"]


def refuse(monkeypatch: pytest.MonkeyPatch, function: str, name: str) -> None:
    """Make `os.function` fail for paths that end in `name`, as for a user without permission."""
    real = getattr(os, function)

    def refusing(path: object, *rest: object, **options: object) -> object:
        if isinstance(path, str) and Path(path).name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *rest, **options)

    monkeypatch.setattr(os, function, refusing)


def test_a_named_pipe_does_not_block(lint: Lint, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    run = lint("a.py")
    assert run.status == 2
    assert "not a regular file" in run.err


def test_a_reader_that_leaves_ends_the_run_quietly(project: Project) -> None:
    folder = project({"a.py": BAD + "torch.cuda.nvtx.get_domain('b')\n" * 3000})
    command = f"{sys.executable} {SCRIPTS / 'lint_timing.py'} a.py | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, timeout=60)
    assert done.stdout == b"a.py:3:1: error TIM603 nvtx-unknown-api\n"
    assert done.stderr == b""


def test_a_full_disk_is_one_line(project: Project) -> None:
    folder = project({"a.py": BAD})
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, str(SCRIPTS / "lint_timing.py"), "a.py"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr == b"lint-timing: cannot write the output: No space left on device\n"


def test_a_full_pipe_that_does_not_block_loses_nothing(project: Project) -> None:
    folder = project({"a.py": BAD + "torch.cuda.nvtx.get_domain('b')\n" * 3000})
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "lint_timing.py"), "a.py"], cwd=folder, stdout=writer
    )
    os.close(writer)
    time.sleep(1)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    assert process.wait(60) == 1
    assert data.endswith(b"Checked 1 file: 3001 findings (3001 errors).\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_with_130_and_one_line(project: Project, jobs: str) -> None:
    body = BAD + "".join(f"def f{i}(x):\n    return x.sum() + {i}\n" for i in range(3000))
    folder = project({f"f{i}.py": body for i in range(300)})
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "lint_timing.py"), ".", "--jobs", jobs],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # Tests that a shell runs in the background have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"lint-timing: interrupted\n")

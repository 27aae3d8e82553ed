"""Which files a folder holds for the command, and what pyproject.toml says about them."""

import subprocess
from pathlib import Path

import pytest
from lint.lint_command import BAD, CLEAN, Lint, Project
from perf_timing.lint.files.gitignore import IgnoreFile


def found(lint: Lint, *arguments: str) -> list[str]:
    return [f["path"] for f in lint(*arguments, "--format", "json").findings]


def test_a_folder_is_searched_for_every_kind_of_file(lint: Lint, project: Project) -> None:
    project({f"d/{n}": BAD for n in ("a.py", "b.pyi", "c.txt", "e.py.j2", "sub/deep/f.py")})
    kinds = ("g.cu", "h.cuh", "i.cpp", "j.cc", "k.cxx", "l.h", "m.hpp", "n.hip")
    project({f"d/{n}": "int x;\n" for n in kinds})
    run = lint("d", "--format", "concise")
    assert run.out.endswith("Checked 11 files: 3 findings (3 errors).\n")
    assert found(lint, "d") == ["d/a.py", "d/b.pyi", "d/sub/deep/f.py"]
    assert found(lint, ".") == ["d/a.py", "d/b.pyi", "d/sub/deep/f.py"]


@pytest.mark.parametrize("in_repository", [False, True], ids=["plain folder", "git repository"])
def test_ignore_files_count_from_the_folder_that_holds_them(
    lint: Lint, project: Project, in_repository: bool
) -> None:
    folder = project(
        {
            ".gitignore": "build/\n*_generated.py\n/top.py\n!keep_generated.py\n",
            "sub/.gitignore": "!build/\nlocal.py\n",
            "top.py": BAD,
            "sub/top.py": BAD,
            "sub/local.py": BAD,
            "build/a.py": BAD,
            "sub/build/b.py": BAD,
            "x_generated.py": BAD,
            "keep_generated.py": BAD,
            "node_modules/c.py": BAD,
            ".venv/lib/d.py": BAD,
            ".hidden/e.py": BAD,
        }
    )
    if in_repository:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    expected = [".hidden/e.py", "keep_generated.py", "sub/build/b.py", "sub/top.py"]
    assert found(lint, ".") == expected
    # A file that is named is checked, whatever an ignore file says.
    assert found(lint, "top.py", "build/a.py") == ["build/a.py", "top.py"]


def test_ignore_files_above_the_folder_count_inside_a_repository(
    lint: Lint, project: Project
) -> None:
    folder = project(
        {
            ".gitignore": "skip.py\n/sub/anchored.py\n",
            "sub/skip.py": BAD,
            "sub/anchored.py": BAD,
            "sub/deep/anchored.py": BAD,
        }
    )
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("private/\n")
    project({"sub/private/x.py": BAD})
    assert found(lint, "sub") == ["sub/deep/anchored.py"]


def test_the_users_own_ignore_file_counts(
    lint: Lint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({"mine.py": BAD, "a.py": BAD, "home/ignored": "mine.py\n"})
    project({"home/config": f"[core]\n\texcludesFile = {folder}/home/ignored\n"})
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "home" / "config"))
    assert found(lint, ".") == ["a.py"]


GIT_PATTERNS = {
    "name anywhere": ("foo.py", ["foo.py", "a/foo.py", "foo.pyi"]),
    "ending": ("*.py", ["x.py", "a/x.py", "x.pyc", ".py"]),
    "anchored by a slash in front": ("/foo.py", ["foo.py", "a/foo.py"]),
    "anchored by a slash inside": ("a/foo.py", ["a/foo.py", "b/a/foo.py"]),
    "star stays in its folder": ("a/*.py", ["a/x.py", "a/b/x.py"]),
    "two stars in front": ("**/foo.py", ["foo.py", "a/foo.py", "a/b/foo.py"]),
    "two stars inside": ("a/**/b.py", ["a/b.py", "a/x/b.py", "a/x/y/b.py", "b.py"]),
    "two stars at the end": ("a/**", ["a/x.py", "a/b/x.py", "b/x.py"]),
    "question mark": ("?.py", ["a.py", "ab.py", "x/a.py"]),
    "class": ("[a-c].py", ["a.py", "d.py"]),
    "negated class": ("[!a-c].py", ["a.py", "d.py"]),
    "class with a bracket": ("[]a].py", ["].py", "a.py", "b.py"]),
    "escaped star": (r"\*.py", ["*.py", "a.py"]),
    "escaped hash": (r"\#a.py", ["#a.py", "a.py"]),
    "comment": ("# a.py", ["# a.py", "a.py"]),
    "trailing spaces": ("a.py  ", ["a.py"]),
    "taken back": ("*.py\n!a.py", ["a.py", "b.py"]),
    "taken back and ignored again": ("!a.py\n*.py", ["a.py", "b.py"]),
    "unclosed class": ("[a.py", ["[a.py", "a.py"]),
    "dots in an ending": ("*.tar.py", ["a.tar.py", "a.py"]),
}


@pytest.mark.parametrize("name", GIT_PATTERNS)
def test_patterns_mean_what_they_mean_to_git(name: str, tmp_path: Path) -> None:
    patterns, paths = GIT_PATTERNS[name]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(patterns + "\n")
    data = "\0".join(paths)
    command = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    done = subprocess.run(command, cwd=tmp_path, input=data, capture_output=True, text=True)
    ours = IgnoreFile(patterns.split("\n"))
    ignored = [path for path in paths if ours.decide(path, False)]
    assert ignored == [path for path in done.stdout.split("\0") if path]


def test_exclude_counts_in_folders_and_with_force_exclude(lint: Lint, project: Project) -> None:
    project(
        {
            "pyproject.toml": '[tool.lint-timing]\nexclude = ["vendor/", "*_pb2.py"]\n',
            "vendor/a.py": BAD,
            "x_pb2.py": BAD,
            "b.py": BAD,
        }
    )
    assert found(lint, ".") == ["b.py"]
    assert found(lint, "vendor/a.py", "b.py") == ["b.py", "vendor/a.py"]
    assert found(lint, "--force-exclude", "vendor/a.py", "x_pb2.py", "b.py") == ["b.py"]
    run = lint("--force-exclude", "vendor/a.py", "x_pb2.py")
    assert (run.status, run.out) == (0, "Nothing to check: 2 files excluded.\n")
    assert found(lint, "--isolated", ".") == ["b.py", "vendor/a.py", "x_pb2.py"]


def test_a_folder_in_which_all_is_excluded_is_not_a_pass(lint: Lint, project: Project) -> None:
    project({"d/.gitignore": "*.py\n", "d/a.py": CLEAN})
    run = lint("d")
    assert run.status == 2
    assert "d: the folder holds no file to check" in run.err


def test_the_nearest_table_counts_for_each_file(lint: Lint, project: Project) -> None:
    project(
        {
            "pyproject.toml": '[tool.lint-timing]\nignore = ["TIM603"]\n',
            "a.py": BAD,
            "sub/pyproject.toml": "[tool.lint-timing]\n",
            "sub/b.py": BAD,
            "sub/other/pyproject.toml": "[tool.ruff]\n",
            "sub/other/c.py": BAD,
        }
    )
    assert found(lint, ".") == ["sub/b.py", "sub/other/c.py"]
    assert found(lint, "sub/other/c.py", "a.py") == ["sub/other/c.py"]


def test_settings_select_and_the_command_line_replaces(lint: Lint, project: Project) -> None:
    project({"pyproject.toml": '[tool.lint-timing]\nselect = ["TIM604"]\n', "a.py": BAD})
    assert found(lint, "a.py") == []
    assert found(lint, "a.py", "--select", "TIM603") == ["a.py"]
    assert found(lint, "a.py", "--select", "TIM603", "--ignore", "nvtx-unknown-api") == []


def test_per_file_ignores_match_from_the_settings_folder(lint: Lint, project: Project) -> None:
    table = '[tool.lint-timing.per-file-ignores]\n"tests/" = ["TIM603"]\n"x*.py" = ["ALL"]\n'
    project({"pyproject.toml": table, "tests/a.py": BAD, "b.py": BAD, "x1.py": BAD})
    assert found(lint, ".") == ["b.py"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('selct = ["ALL"]', "no key 'selct'; did you mean select?"),
        ("colour = 1", "no key 'colour'; keys are select"),
        ('select = "ALL"', "select must be a list of strings"),
        ("select = [1]", "select must be a list of strings"),
        ('select = ["TIM999"]', "no rule is called 'TIM999'"),
        ('ignore = ["nvtx-unknwn-api"]', "did you mean nvtx-unknown-api"),
        ("per-file-ignores = []", "per-file-ignores must be a table"),
        ('per-file-ignores = {"a" = ["TIM999"]}', "no rule is called 'TIM999'"),
        ("select = [", "is not valid TOML"),
    ],
)
def test_settings_that_mean_nothing_end_with_2(
    lint: Lint, project: Project, table: str, words: str
) -> None:
    project({"pyproject.toml": f"[tool.lint-timing]\n{table}\n", "a.py": CLEAN})
    run = lint("a.py")
    assert run.status == 2
    assert words in run.err
    assert "pyproject.toml" in run.err
    assert run.err.count("\n") == 1


def test_a_broken_pyproject_of_somebody_else_is_none_of_our_business(
    lint: Lint, project: Project
) -> None:
    project({"pyproject.toml": "[tool.ruff\n", "a.py": CLEAN})
    assert lint("a.py").status == 0


def test_links_are_not_followed_in_folders_but_when_named(lint: Lint, project: Project) -> None:
    folder = project({"real/a.py": BAD})
    (folder / "real" / "link.py").symlink_to("a.py")
    (folder / "real" / "loop").symlink_to(".")
    (folder / "real" / "circle.py").symlink_to("circle.py")
    (folder / "door").symlink_to("real")
    assert found(lint, "real") == ["real/a.py"]
    assert found(lint, "real/link.py") == ["real/link.py"]
    assert found(lint, "door") == ["door/a.py"]
    run = lint("real/circle.py")
    assert run.status == 2
    assert "ymbolic links" in run.err


def test_a_script_without_an_ending_is_known_by_its_first_line(
    lint: Lint, project: Project
) -> None:
    project({"tool": "#!/usr/bin/env python3\n" + BAD, "notes": "hello\n"})
    assert found(lint, "tool") == ["tool"]
    assert lint("notes").status == 2


def test_helpers_of_the_project_count_as_waits_and_as_work(lint: Lint, project: Project) -> None:
    head = "import time\nimport torch\nfrom ours import our_fence, our_op\n\ntorch.cuda.init()\n"
    end = "print(time.perf_counter() - start)\n"
    waits = (
        "x = torch.ones(9, device='cuda')\ntorch.mm(x, x)\ntorch.cuda.synchronize()\n"
        f"start = time.perf_counter()\ntorch.mm(x, x)\nour_fence()\n{end}"
    )
    works = f"our_op()\nstart = time.perf_counter()\nour_op()\n{end}"
    project({"waits.py": head + waits, "works.py": head + works})
    select = ("--select", "host-clock-without-sync")
    assert found(lint, "works.py", *select) == []
    table = '[tool.lint-timing]\nsync-helpers = ["our_fence"]\ngpu-helpers = ["our_op"]\n'
    project({"pyproject.toml": table})
    assert found(lint, ".", *select) == ["works.py"]

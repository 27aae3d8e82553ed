"""The pre-commit hook, through pre-commit itself on a scratch repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lint.lint_command import BAD, CLEAN, FIXABLE, SCRIPTS

ROOT = SCRIPTS.parent
HOOKS = ROOT / ".pre-commit-hooks.yaml"


def hooks() -> dict[str, dict[str, object]]:
    return {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text(encoding="utf-8"))}


def test_hooks_take_the_files_that_the_command_checks() -> None:
    from perf_timing.lint.files.discover import KINDS, MARKDOWN_KINDS

    for name, kinds in (("lint-timing", KINDS), ("lint-timing-markdown", MARKDOWN_KINDS)):
        pattern = str(hooks()[name]["files"])
        for ending in kinds:
            assert re.search(pattern, f"pkg/a b{ending}"), ending
        for other in ("a.txt", "a.pyc", "py", "a.py.j2", "a.cut"):
            assert not re.search(pattern, other), other


def test_hooks_start_the_console_command_without_arguments_a_user_may_replace() -> None:
    for hook in hooks().values():
        entry = str(hook["entry"]).split()
        assert entry[0] == "lint-timing"
        assert "--force-exclude" in entry
        assert hook["language"] == "python"
        assert "args" not in hook


class Repository:
    """A scratch repository whose hook runs the command of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PRE_COMMIT_HOME": str(folder.parent / "cache"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "t"),
            **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "t@example.com"),
        }
        self.git("init", "-q")
        # The hook's own files and entry, but in the Python that runs the tests: installing the
        # package into a new environment needs a network.
        hook = hooks()["lint-timing"]
        entry = str(hook["entry"]).split()
        command = [sys.executable, str(SCRIPTS / "lint_timing.py"), *entry[1:]]
        local = {**hook, "language": "system", "entry": " ".join(f"'{c}'" for c in command)}
        config = {"repos": [{"repo": "local", "hooks": [local]}]}
        (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
        self.git("add", ".")

    def git(self, *arguments: str) -> None:
        subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self.environment, check=True, timeout=60
        )

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hook(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [PRE_COMMIT or "", "run", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr


PRE_COMMIT = shutil.which("pre-commit", path=str(Path(sys.executable).parent)) or shutil.which(
    "pre-commit"
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    if PRE_COMMIT is None:
        pytest.skip("needs pre-commit")
    folder = tmp_path / "a project"
    folder.mkdir()
    return Repository(folder)


def test_nothing_staged_passes(repository: Repository) -> None:
    status, out = repository.hook()
    assert status == 0
    assert "no files to check" in out


def test_a_staged_file_with_an_error_fails(repository: Repository) -> None:
    repository.write("with space.py", BAD)
    repository.write("sub/clean.py", CLEAN)
    repository.git("add", ".")
    status, out = repository.hook()
    assert status == 1
    assert "with space.py:3:1: error TIM603" in out


def test_what_is_staged_counts_and_not_what_lies_in_the_folder(repository: Repository) -> None:
    repository.write("a.py", CLEAN)
    repository.git("add", ".")
    repository.write("a.py", BAD)
    assert repository.hook()[0] == 0
    repository.git("add", ".")
    repository.write("a.py", CLEAN)
    status, out = repository.hook()
    assert status == 1
    assert "a.py:3:1" in out
    assert (repository.folder / "a.py").read_text() == CLEAN


def test_a_deleted_file_and_a_renamed_one_are_no_problem(repository: Repository) -> None:
    repository.write("gone.py", BAD)
    repository.write("old.py", CLEAN)
    repository.git("add", ".")
    repository.git("commit", "-q", "-n", "-m", "x")
    repository.git("rm", "-q", "gone.py")
    repository.git("mv", "old.py", "new.py")
    assert repository.hook()[0] == 0


def test_excluded_paths_are_left_out_also_when_they_are_all(repository: Repository) -> None:
    repository.write("pyproject.toml", '[tool.lint-timing]\nexclude = ["vendor/"]\n')
    repository.write("vendor/a.py", BAD)
    repository.git("add", ".")
    status, out = repository.hook("--verbose")
    assert status == 0
    assert "Nothing to check: 1 file excluded." in out
    repository.write("b.py", BAD)
    repository.git("add", ".")
    status, out = repository.hook()
    assert status == 1
    assert "vendor" not in out


def test_batches_come_to_the_same_verdict(repository: Repository) -> None:
    # Paths this long fill a command line after a few hundred files.
    for number in range(400):
        text = BAD if number == 377 else CLEAN
        repository.write(f"{'d' * 200}/{'e' * 120}_{number}.py", text)
    repository.git("add", ".")
    status, out = repository.hook("--all-files")
    assert status == 1
    assert out.count("error TIM603") == 1


def test_a_fixing_hook_fails_once_and_then_passes(repository: Repository) -> None:
    config = repository.folder / ".pre-commit-config.yaml"
    data = yaml.safe_load(config.read_text())
    data["repos"][0]["hooks"][0]["args"] = ["--fix"]
    config.write_text(yaml.safe_dump(data))
    repository.write("a.py", FIXABLE)
    repository.git("add", ".")
    status, out = repository.hook()
    assert status == 1
    assert "files were modified by this hook" in out
    repository.git("add", ".")
    assert repository.hook()[0] == 0

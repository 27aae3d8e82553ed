"""What ast-grep does silently must not reach a user: skips, crashes, order, encodings."""

import stat
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from perf_timing._cli import UserError
from perf_timing.lint.parsing import astgrep
from perf_timing.lint.parsing.astgrep import Source, scan, to_ascii

Read = Callable[[Iterable[bytes]], object]
CALLS = "id: call\nlanguage: python\nrule: {kind: call}\n"


@pytest.fixture(autouse=True)
def forget_executable() -> object:
    astgrep.executable.cache_clear()
    yield None
    astgrep.executable.cache_clear()


def fake(folder: Path, body: str) -> Path:
    path = folder / "ast-grep"
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_matches_are_in_order_and_offsets_count_characters() -> None:
    text = 'a = "\u00e9\u4e2d"; f(1)\ng(2)\n'
    (result,) = scan([Source("python", text)], CALLS)
    assert [text[m.start : m.end] for m in result.matches] == ["f(1)", "g(2)"]


def test_two_runs_give_the_same() -> None:
    sources = [Source("python", f"f{i}(g(x), h(y))\n" * 50) for i in range(20)]
    assert scan(sources, CALLS) == scan(sources, CALLS)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeffx = 1\n", "x = 1\r\ny()\r\n", "\0", "def ("])
def test_odd_texts_are_scanned(text: str) -> None:
    (result,) = scan([Source("python", text)], CALLS)
    assert not result.failure


def test_every_character_becomes_one_ascii_character() -> None:
    text = "\ufeff\u00e4 = '\U0001f600\u2028'\0\n"
    plain = to_ascii(text)
    assert len(plain) == len(text) and plain.isascii() and "\0" not in plain


def test_a_rule_that_ast_grep_rejects_is_named() -> None:
    with pytest.raises(UserError, match="rejects the rules"):
        scan([Source("python", "x\n")], "id: a\nlanguage: python\nrule: {kind: no_such_kind}\n")


def test_a_missing_ast_grep_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(astgrep.shutil, "which", lambda *a, **k: None)
    with pytest.raises(UserError, match=r"not installed; run .*pip install"):
        scan([Source("python", "x\n")], CALLS)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('ast-grep 0.44.0')", "too old"),
        ("sys.exit(3)", "--version failed"),
        ("print('what')", "--version failed"),
    ],
)
def test_an_unusable_ast_grep_is_refused(
    body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake(tmp_path, body)
    monkeypatch.setattr(astgrep.shutil, "which", lambda *a, **k: str(path))
    with pytest.raises(UserError, match=words):
        scan([Source("python", "x\n")], CALLS)


def test_a_file_that_ends_ast_grep_is_named_and_the_others_are_scanned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = astgrep._output

    def crashing(command: list[str], folder: Path, read: Read) -> tuple[int, object, str]:
        if any("KILL" in path.read_text() for path in folder.iterdir()):
            return -11, read([]), ""
        return real(command, folder, read)

    monkeypatch.setattr(astgrep, "_output", crashing)
    sources = [Source("python", t) for t in ("f()\n", "KILL()\n", "g()\n", "h()\n")]
    results = scan(sources, CALLS)
    assert [bool(result.failure) for result in results] == [False, True, False, False]
    assert [len(result.matches) for result in results] == [1, 0, 1, 1]


def test_a_run_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(astgrep, "TIMEOUT_S", 0.2)
    start = time.monotonic()
    status, _, _ = astgrep._output(
        [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, list
    )
    assert status not in (0, 1)
    assert time.monotonic() - start < 30


def test_a_file_that_ast_grep_does_not_mention_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = astgrep._output

    def forgetful(command: list[str], folder: Path, read: Read) -> tuple[int, object, str]:
        _, matches, stderr = real(
            command, folder, lambda lines: read(x for x in lines if b"000001" not in x)
        )
        return 0, matches, "\n".join(x for x in stderr.splitlines() if "000001" not in x)

    monkeypatch.setattr(astgrep, "_output", forgetful)
    one, two = scan([Source("python", "f()\n"), Source("python", "g()\n")], CALLS)
    assert not one.failure and two.failure

"""Runs ast-grep: the only module that starts it.

What ast-grep does that must not reach a user, and what this module does about it:

* It ends with status 0 when a path is missing, skips files that are not UTF-8 or too large without
  a word, and follows ignore files of the folders around. Here it only ever sees fresh files in a
  folder of our own, and each of them must appear in its report of scanned files.
* It prints matches in an order that changes between runs. They are sorted here.
* Its offsets are bytes and its columns code points. Every character outside ASCII is replaced by
  one ASCII character first, so that all three are the same number.
* One ill file can end the whole run. A run that failed is repeated in halves, until the file that
  fails stands alone and can be named.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from perf_timing._cli import UserError
from perf_timing.lint.parsing import catch_tests, macro_bodies
from perf_timing.lint.parsing.launches import readable_launches

SUFFIX = {"python": ".py", "cuda": ".cpp"}
OLDEST = (0, 51)
TIMEOUT_S = 300
_PIPE_BYTES = 1 << 20
_Read = TypeVar("_Read")
INSTALL = f"{sys.executable} -m pip install 'ast-grep-cli>=0.51,<1'"


@dataclass(frozen=True)
class Source:
    """A text to scan; `language` is "python" or "cuda"."""

    language: str
    text: str


class Match(NamedTuple):
    """A place where a rule document matched; offsets count code points of the text."""

    start: int
    end: int
    rule_id: str
    message: str = ""
    replacement: str | None = None
    replacement_start: int = 0
    replacement_end: int = 0


@dataclass(frozen=True)
class Scan:
    """What came of one source: its matches in order, or the reason why it was not scanned."""

    matches: tuple[Match, ...] = ()
    failure: str = ""


def to_ascii(text: str) -> str:
    """`text` with one ASCII character for each character, so that offsets stay what they were."""
    if text.isascii() and "\0" not in text:
        return text
    return re.sub(r"[^\x01-\x7f]", lambda m: "X" if m[0].isalnum() else _plain(m[0]), text)


def readable(language: str, text: str) -> str:
    """`text` as the grammar of its language can read it; every offset stays what it was."""
    if language != "cuda":
        return text
    return readable_launches(catch_tests.as_functions(macro_bodies.as_functions(text)))


def _plain(character: str) -> str:
    return " " if character.isspace() or character in "\0\ufeff\u200b" else "_"


@cache
def executable() -> str:
    """Path of an ast-grep that is new enough; raises UserError."""
    beside = Path(sys.executable).parent
    found = shutil.which("ast-grep", path=str(beside)) or shutil.which("ast-grep")
    if found is None:
        raise UserError(f"ast-grep is not installed; run {INSTALL}")
    said = re.search(r"(\d+)\.(\d+)", version(found))
    if said is None:
        raise UserError(f"{found} --version failed; run {INSTALL}")
    if (int(said[1]), int(said[2])) < OLDEST:
        raise UserError(f"{found} is version {said[0]}, too old; run {INSTALL}")
    return found


@cache
def version(found: str) -> str:
    """What the ast-grep at the path `found` says that it is; raises UserError."""
    try:
        run = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise UserError(f"{found} does not start ({error}); run {INSTALL}") from None
    return "" if run.returncode else run.stdout.strip()


def scan(sources: Sequence[Source], documents: str) -> list[Scan]:
    """Matches of all rule `documents` (YAML, several separated by `---`) in every source.

    Raises UserError when ast-grep is absent, too old, or rejects the rules.
    """
    if not sources:
        return []
    executable()
    results = _run(sources, documents)
    if results is not None:
        return results
    if len(sources) == 1:
        probe = _run([Source(sources[0].language, "pass\n")], documents)
        if probe is None:
            raise UserError("ast-grep fails on any file; reinstall it or this tool")
        return [Scan(failure="ast-grep ended before it had read the whole file")]
    middle = len(sources) // 2
    return scan(sources[:middle], documents) + scan(sources[middle:], documents)


def _run(sources: Sequence[Source], documents: str) -> list[Scan] | None:
    """Results of one run, or None where the run did not end as it should."""
    with tempfile.TemporaryDirectory(prefix="lint-timing-") as folder:
        root = Path(folder) / "src"
        root.mkdir()
        rules = Path(folder) / "rules.yml"
        rules.write_text(documents, encoding="utf-8")
        for number, source in enumerate(sources):
            name = f"{number:06d}{SUFFIX[source.language]}"
            (root / name).write_bytes(
                to_ascii(readable(source.language, source.text)).encode("ascii")
            )
        command = [executable(), "scan", "--rule", str(rules), "--json=stream"]
        command += ["--inspect", "entity"]
        for kind in ("hidden", "dot", "exclude", "global", "parent", "vcs"):
            command += ["--no-ignore", kind]
        try:
            status, matches, stderr = _output(
                [*command, "."], root, lambda lines: _matches(lines, len(sources))
            )
        except OSError as error:
            raise UserError(f"ast-grep does not start: {error}; run {INSTALL}") from None
    if status == 8 or "Cannot parse rule" in stderr:
        raise UserError(f"ast-grep rejects the rules: {' '.join(stderr.split())[-300:]}")
    if status not in (0, 1) or matches is None:
        return None
    return _collect(matches, stderr)


def _output(
    command: Sequence[str], folder: Path, read: Callable[[Iterable[bytes]], _Read]
) -> tuple[int, _Read, str]:
    """(status, what `read` makes of the lines of stdout, stderr) of a command. Raises OSError.

    The command is killed after TIMEOUT_S. What it prints may be a hundred megabytes, which are
    never held at once.
    """
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            command, cwd=folder, bufsize=_PIPE_BYTES,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages,
        )  # fmt: skip
        timer = threading.Timer(TIMEOUT_S, process.kill)
        try:
            timer.start()
            with process:
                assert process.stdout is not None
                found = read(process.stdout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            timer.cancel()
        messages.seek(0)
        return process.returncode, found, messages.read().decode("utf-8", "replace")


def _matches(lines: Iterable[bytes], count: int) -> list[list[Match]] | None:
    """The matches in each of `count` sources; None where a line is not as it should be."""
    matches: list[list[Match]] = [[] for _ in range(count)]
    try:
        for line in lines:
            number, match = _plain_match(line) or _full_match(line)
            matches[number].append(match)
    except (ValueError, KeyError, IndexError):
        return None
    return matches


def _collect(matches: Sequence[Sequence[Match]], stderr: str) -> list[Scan] | None:
    read = {int(n) for n in re.findall(r"entity\|file\|\S*?(\d{6})\.\w+: language=", stderr)}
    empty = {int(n) for n in re.findall(r"(\d{6})\.\w+: skipped=emptyFile", stderr)}
    if len(matches) == 1 and not read and not empty:
        return None
    return [
        Scan(matches=tuple(_in_order(found)))
        if number in read or number in empty
        else Scan(failure=_reason(stderr, number))
        for number, found in enumerate(matches)
    ]


def _reason(stderr: str, number: int) -> str:
    why = re.search(rf"{number:06d}\.\w+: skipped=(\w+)", stderr)
    return f"ast-grep skipped it ({why[1]})" if why else "ast-grep did not read it"


def _in_order(found: Sequence[Match]) -> list[Match]:
    """Each match once, in the order of starts, ends, rules and messages."""
    return sorted(set(found), key=_PLACE)


_PLACE = itemgetter(0, 1, 2, 3)
_OFFSETS, _FILE, _RULE = b'"byteOffset":{"start":', b'"file":"', b'"ruleId":"'
_LONGEST_SUFFIX = max(map(len, SUFFIX.values()))
_PLAIN_END = b'","severity":"hint","note":null,"message":"","labels":'


def _plain_match(line: bytes) -> tuple[int, Match] | None:
    """(number of the source, match) of a line that only says which rule matched where.

    Nine in ten lines are such, and most of each is source text, three times over, that nobody
    reads. A quote inside of a JSON string has a backslash before it, so that the keys cannot be
    part of that text. None: the line holds more, and has to be read as JSON.
    """
    offsets = line.find(_OFFSETS)
    close = line.find(b"}", offsets)
    file = line.find(_FILE, close)
    rule = line.find(_RULE, file)
    rule_end = line.find(b'"', rule + len(_RULE))
    if min(offsets, close, file, rule) < 0 or not line.startswith(_PLAIN_END, rule_end):
        return None
    start, _, end = line[offsets + len(_OFFSETS) : close].partition(b',"end":')
    name_end = line.find(b".", line.find(b'"', file + len(_FILE)) - _LONGEST_SUFFIX)
    rule_id = _text_of(line[rule + len(_RULE) : rule_end])
    return int(line[name_end - 6 : name_end]), Match(int(start), int(end), rule_id)


@cache
def _text_of(rule_id: bytes) -> str:
    return rule_id.decode("ascii")


def _full_match(line: bytes) -> tuple[int, Match]:
    record = json.loads(line)
    place = record["range"]["byteOffset"]
    changed = record.get("replacementOffsets") or {"start": 0, "end": 0}
    match = Match(
        start=place["start"],
        end=place["end"],
        rule_id=record["ruleId"],
        message=record.get("message") or "",
        replacement=record.get("replacement"),
        replacement_start=changed["start"],
        replacement_end=changed["end"],
    )
    return int(record["file"].rpartition("/")[2][:6]), match

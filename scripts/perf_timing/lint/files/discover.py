"""Turns the paths that a user names into the files to check, and says what cannot be.

Folders are walked without what git ignores (in a repository or not) and without folders that never
hold a project's own code. Links met on the way are not followed: what they point to is checked
where it lies. A file that is named is always checked, unless `--force-exclude` is given.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perf_timing.lint.config import DEFAULTS, Settings, SettingsFinder, matches_path
from perf_timing.lint.files.gitignore import IgnoreFile

KINDS = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    **dict.fromkeys((".cu", ".cuh", ".hip", ".cpp", ".cc", ".cxx", ".h", ".hpp", ".hh"), "cuda"),
    ".ipynb": "notebook",
}
MARKDOWN_KINDS = {".md": "markdown", ".markdown": "markdown"}
SKIPPED_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".bzr", ".jj"),
        *(".venv", "venv", ".direnv", ".pyenv", ".tox", ".nox", ".eggs", "site-packages"),
        *("__pycache__", "__pypackages__", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
        *(".hypothesis", ".ipynb_checkpoints", "node_modules", "buck-out"),
    )
)


@dataclass(frozen=True)
class Target:
    """One file to check. `path` opens it, `shown` is what the user sees, `named` whether he
    named it himself. `kind` is "python", "cuda", "notebook" or "markdown"."""

    path: str
    shown: str
    kind: str
    named: bool
    settings: Settings = field(default=DEFAULTS, repr=False)


@dataclass
class Found:
    """What the arguments came to. `problems` are (path, reason) that lead to status 2."""

    targets: list[Target] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    excluded: int = 0


def discover(
    paths: Sequence[str], finder: SettingsFinder, *, markdown: bool, force_exclude: bool
) -> Found:
    """The files below `paths`, each once, in order of the shown path. Raises UserError."""
    kinds = {**KINDS, **MARKDOWN_KINDS} if markdown else KINDS
    found = Found()
    for path in sorted(set(paths), key=os.fsencode):
        _argument(path, finder, kinds, force_exclude, found)
    best: dict[str, Target] = {}
    for target in found.targets:
        known = best.get(os.path.abspath(target.path))
        # One file reached in two ways: a file that is named counts as named, shown the short way.
        if known is None or _preference(target) < _preference(known):
            best[os.path.abspath(target.path)] = target
    found.targets = sorted(best.values(), key=lambda target: os.fsencode(target.shown))
    found.problems = sorted(set(found.problems), key=lambda item: (os.fsencode(item[0]), item[1]))
    return found


def _preference(target: Target) -> tuple[bool, int, bytes]:
    return not target.named, len(target.shown), os.fsencode(target.shown)


def _argument(
    path: str, finder: SettingsFinder, kinds: dict[str, str], force_exclude: bool, found: Found
) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        found.problems.append((path, _reason(error)))
        return
    settings = finder.for_folder(folder_of(path))
    if force_exclude and _is_excluded(path, settings):
        found.excluded += 1
    elif stat.S_ISDIR(mode):
        before = len(found.targets) + len(found.problems)
        found.targets += _walk(path, finder, kinds, found)
        if len(found.targets) + len(found.problems) == before:
            found.problems.append((path, "the folder holds no file to check"))
    elif not stat.S_ISREG(mode):
        found.problems.append((path, "not a regular file; pipe it to - with --stdin-filename"))
    else:
        kind = kinds.get(suffix_of(path)) or _kind_by_first_line(path)
        if kind is None:
            found.problems.append((path, _unknown_kind(path)))
        else:
            found.targets.append(Target(path, shown_path(path), kind, True, settings))


def suffix_of(path: str) -> str:
    """The ending of `path` in lower case, with its dot."""
    return os.path.splitext(path)[1].lower()


def folder_of(path: str) -> str:
    """The absolute folder that holds `path`."""
    return os.path.dirname(os.path.abspath(path))


def shown_path(path: str) -> str:
    """`path` without what says nothing: "./a//b" becomes "a/b". Dots between stay."""
    return path if ".." in path.split(os.sep) else os.path.normpath(path)


def _unknown_kind(path: str) -> str:
    if suffix_of(path) in MARKDOWN_KINDS:
        return "Markdown is checked with --markdown only"
    return f"not a kind of file that is checked ({' '.join(KINDS)})"


def _kind_by_first_line(path: str) -> str | None:
    try:
        with open(path, "rb") as stream:
            first = stream.readline(200)
    except OSError:
        return "python"  # reading it again for the check says why it cannot be read
    if not os.path.splitext(path)[1] and re.match(rb"#!.*\bpython", first):
        return "python"
    return None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    strerror = getattr(error, "strerror", None)
    return str(strerror or error)


def _is_excluded(path: str, settings: Settings) -> bool:
    absolute = os.path.abspath(path)
    if settings.root and matches_path(settings.excluded, settings.root, absolute):
        return True
    base = settings.root or os.getcwd()
    inside = absolute.startswith(base.rstrip(os.sep) + os.sep)
    parts = absolute[len(base) :].split(os.sep) if inside else []
    return not SKIPPED_FOLDERS.isdisjoint(parts[:-1])


# Ignore files that count for a folder, the nearest first: (length of its folder's path, patterns).
_Chain = tuple[tuple[int, IgnoreFile], ...]


def _walk(
    top: str, finder: SettingsFinder, kinds: dict[str, str], found: Found
) -> Iterator[Target]:
    base = os.path.abspath(top)
    pending: list[tuple[str, str, _Chain]] = [(base, shown_path(top), _outer_chain(base))]
    while pending:
        folder, shown, chain = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            found.problems.append((shown, f"folder not readable: {_reason(error)}"))
            continue
        names = {entry.name for entry in entries}
        if ".git" in names and folder != base:
            chain = _repository_chain(folder)  # a repository of its own, e.g. a submodule
        if ".gitignore" in names:
            chain = _with_ignore_file(chain, folder)
        settings = finder.for_folder(folder)
        if settings.exclude:
            chain = ((len(settings.root.rstrip(os.sep)) + 1, settings.excluded), *chain)
        prefix = "" if shown == "." else shown.rstrip(os.sep) + os.sep
        for entry in entries:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if name not in SKIPPED_FOLDERS and not _ignored(chain, entry.path, True):
                    pending.append((entry.path, prefix + name, chain))
            else:
                kind = kinds.get(os.path.splitext(name)[1].lower())
                if (
                    kind is not None
                    and entry.is_file(follow_symlinks=False)
                    and not _ignored(chain, entry.path, False)
                ):
                    yield Target(entry.path, prefix + name, kind, False, settings)


def _ignored(chain: _Chain, path: str, is_folder: bool) -> bool:
    for start, patterns in chain:
        verdict = patterns.decide(path[start:].replace(os.sep, "/"), is_folder)
        if verdict is not None:
            return verdict
    return False


def _with_ignore_file(chain: _Chain, folder: str, name: str = ".gitignore") -> _Chain:
    patterns = _read_patterns(os.path.join(folder, name))
    return ((len(folder.rstrip(os.sep)) + 1, patterns), *chain) if patterns else chain


def _read_patterns(path: str) -> IgnoreFile:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as stream:
            return IgnoreFile(stream)
    except (OSError, ValueError):
        return IgnoreFile(())


def _outer_chain(base: str) -> _Chain:
    """The ignore files above `base` that count inside it: those of its repository."""
    folder, between = base, []
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ()
        between.append(folder)
        folder = parent
    chain = _repository_chain(folder)
    for outer in [folder, *reversed(between)]:
        if outer != base:
            chain = _with_ignore_file(chain, outer)
    return chain


def _repository_chain(root: str) -> _Chain:
    """What counts in the whole repository at `root`: the user's own file, then info/exclude."""
    start = len(root.rstrip(os.sep)) + 1
    git = os.path.join(root, ".git")
    sources = [_user_ignore_file(git), os.path.join(_common_folder(git), "info", "exclude")]
    chain: _Chain = ()
    for source in sources:
        patterns = _read_patterns(source)
        chain = ((start, patterns), *chain) if patterns else chain
    return chain


def _common_folder(git: str) -> str:
    """The folder that `.git` stands for; in a work tree or submodule it is a file that says so."""
    folder = git
    for name in (git, "commondir"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                line = stream.read().strip().removeprefix("gitdir:").strip()
        except (OSError, ValueError):
            continue
        folder = os.path.normpath(
            os.path.join(os.path.dirname(git) if name == git else folder, line)
        )
    return folder


def _user_ignore_file(git: str) -> str:
    home = os.path.expanduser("~")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found = os.path.join(settings, "git", "ignore")
    user = os.environ.get("GIT_CONFIG_GLOBAL")
    files = [user] if user else [os.path.join(settings, "git", "config"), f"{home}/.gitconfig"]
    for path in [*files, os.path.join(git, "config")]:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                values = re.findall(r"^\s*excludesfile\s*=\s*(.*?)\s*$", stream.read(), re.M | re.I)
        except OSError:
            continue
        if values:
            found = os.path.expanduser(values[-1].strip('"'))
    return found

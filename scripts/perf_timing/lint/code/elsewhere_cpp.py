"""What a C++ function, stopwatch or macro of another file does, read when a finding hangs on it.

A rule that is about to report asks how a call, whose function the linted file does not show, leaves
the device: with work that may still run, or waited for. Of a region in which the file shows no work
it is asked whether one of the functions that it calls launches. The function is looked for in the
headers that the file includes in quotes (and in those that they include), found beside the file, or
in the folders above it and their `include`, `inc`, `src` and `common`; in the sources that belong
to these headers by name; and, if none of them has it, in the other sources of the file's folder.
What is found depends on the files on disk only.
"""

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.files import consulted
from perf_timing.lint.files.nearby import folders_above

_File = tuple[Path, str]  # where it lies, and the state of its content
Files = tuple[tuple[_File, ...], tuple[_File, ...]]  # what a file includes; what lies beside it

WAITS = "waits"  # all that was queued is done when it returns
WORKS = "works"  # what it queued may still run
HOST = "host"  # it does nothing on a device
UNKNOWN = "unknown"  # it was not found, or two of its name differ

_MOST_FILES = 40
_MOST_BESIDE = 160
_DEEPEST = 4
_ABOVE = 5
_BELOW = ("", "include", "inc", "src", "common", "Common", "utils")
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".hip")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*\"([^\"\n]+)\"", re.MULTILINE)
_STRIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL)
_EVENTS = re.compile(
    r"(?P<wait>\b\w*(?:Device|Stream|Event|Thread|Ctx)_?Synchronize\b|\bclFinish\b"
    r"|\b(?:cuda|hip)Memcpy(?:ToSymbol|FromSymbol|2D|3D)?\s*\((?![^;]*DeviceToDevice)"
    r"|\b(?:cuda|hip)Free\s*\(|\b(?:cu|hip)blasDestroy\w*\s*\("
    r"|(?:\.|->)(?:wait|wait_and_throw|synchronize)\s*\(\s*\)|\bfence\s*\(|\.item\s*[<(])"
    r"|(?P<work><<<|\b(?:hip|cuda|cu)?LaunchKernel(?:GGL)?\b"
    r"|\b(?:cuda|hip)\w*(?:Memset|Async|GraphLaunch)\w*\s*\("
    r"|\b(?:cublas|cudnn|cufft|cusparse|cusolver|rocblas|hipblas|cub::Device|hipcub::)\w*)"
    r"|(?P<call>\b[A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>\s*)?\("
)
_DEVICE = re.compile(r"cuda|hip[A-Z]|<<<|cu(blas|dnn|fft|sparse|solver)|thrust::|cub::|stream|sycl")
_THRUST = re.compile(r"\bthrust::\w+(?=\s*(?:<[^<>;(){}]*>\s*)?\()")
_KEYWORDS = frozenset({"if", "for", "while", "switch", "return", "sizeof", "catch", "defined"})


def leaves(path: str, text: str, name: str) -> str:
    """How the function or macro `name`, called by the C++ file `path`, leaves the device."""
    near, far = files_of(path, text)
    return _of_files(near, name, 0) or _of_files(far, name, 0) or UNKNOWN


def launches(files: Files, name: str) -> str:
    """How a function leaves the device that launches: WORKS or WAITS; "" for one that does not."""
    for group in files:
        if _launches(group, name, 0):
            return WORKS if _of_files(group, name, 0) == WORKS else WAITS
        if _bodies(group, name):
            return ""
    return ""


def stopwatch_waits(path: str, text: str, kind: str, name: str) -> bool:
    """Whether the method `name` of the class `kind` waits for the device or records an event."""
    for files in files_of(path, text):
        bodies = [body for file in files for body in _methods(_stripped(*file), kind, name)]
        if bodies:
            return all("EventRecord" in b or _outcome(b, files, 0) == WAITS for b in bodies)
    return False


def waiting_macros(path: str, text: str, names: Iterable[str]) -> set[str]:
    """Those of some names that are macros of this file, or of a header, with a wait in them."""
    texts = [text, *(consulted.text(*file) for file in files_of(path, text)[0])]
    return {name for name in names if any("ynchronize" in _macro(t, name) for t in texts)}


def _of_files(files: tuple[_File, ...], name: str, depth: int) -> str:
    """How the functions of this name in some files leave the device; "" where there is none."""
    found = {_outcome(body, files, depth) for body in _bodies(files, name)}
    if not found:
        return ""
    return found.pop() if len(found) == 1 else UNKNOWN


def _bodies(files: tuple[_File, ...], name: str) -> list[str]:
    """The bodies of the functions and macros of this name in some files."""
    found: list[str] = []
    for file in files:
        code = _stripped(*file)
        if name in code:
            found += [*_functions(code, name), *filter(None, [_macro(code, name)])]
    return found


@lru_cache(maxsize=4096)
def _launches(files: tuple[_File, ...], name: str, depth: int) -> bool:
    """Whether all functions of this name launch, or call others that do."""
    bodies = _bodies(files, name)
    return bool(bodies) and all(_computes(body, files, depth) for body in bodies)


def _computes(body: str, files: tuple[_File, ...], depth: int) -> bool:
    if any(not words.CPP_THRUST_TOOLS.search(call[0]) for call in _THRUST.finditer(body)):
        return True
    for event in _EVENTS.finditer(body):
        if event["work"] and (
            "aunch" in event["work"] or event["work"] == "<<<" or _is_library_work(event["work"])
        ):
            return True
        called = event["call"] and event["call"] not in _KEYWORDS and depth < _DEEPEST
        if called and _launches(files, event["call"], depth + 1):
            return True
    return False


def _is_library_work(name: str) -> bool:
    return bool(words.CPP_LIBRARY_WORK.match(name) or name.startswith(("cub::", "hipcub::")))


def _outcome(body: str, files: tuple[_File, ...], depth: int) -> str:
    """How a body leaves the device: by the last of its launches, waits and calls that tells it."""
    last = HOST
    for event in _EVENTS.finditer(body):
        if event["wait"]:
            last = WAITS
        elif event["work"]:
            last = WORKS
        elif depth < _DEEPEST and event["call"] not in _KEYWORDS:
            inner = _remembered(files, event["call"], depth + 1)
            last = inner if inner in (WAITS, WORKS) else last
    return UNKNOWN if last == HOST and _DEVICE.search(body) else last


@lru_cache(maxsize=4096)
def _remembered(files: tuple[_File, ...], name: str, depth: int) -> str:
    return _of_files(files, name, depth)


def _functions(code: str, name: str) -> Iterator[str]:
    """The bodies of the functions and methods of this name that a text defines."""
    head = rf"[\w>&*:\]]\s+[*&]*(?:\w+::)*{re.escape(name)}\s*\("
    for found in re.finditer(head, code):
        before = code[max(0, found.start() - 200) : found.end()]
        before = before[max(before.rfind(c) for c in ";{}") + 1 :]
        if re.search(r"\b(return|else|new|throw|__global__|__device__)\b", before):
            continue
        body = _body(code, found.end())
        if body:
            yield body


def _methods(code: str, kind: str, name: str) -> Iterator[str]:
    """The bodies of a method of a class, in the class or outside of it."""
    for found in re.finditer(rf"\b{re.escape(kind)}(?:<[^<>]*>)?::{re.escape(name)}\s*\(", code):
        yield from filter(None, [_body(code, found.end())])
    for found in re.finditer(rf"\b(?:class|struct)\s+{re.escape(kind)}\b[^;{{}}()]*\{{", code):
        yield from _functions(_block(code, found.end()), name)


def _body(code: str, start: int) -> str:
    """The block of the function whose parameters begin at `start`; "" for a mere declaration."""
    end = _closing(code, start, "(", ")")
    after = re.compile(r"[^;{}()=]*(?:\([^;{}()]*\)[^;{}()=]*)*\{").match(code, end)
    return _block(code, after.end()) if end > 0 and after else ""


def _block(code: str, start: int) -> str:
    end = _closing(code, start, "{", "}")
    return code[start:end] if end > 0 else ""


def _closing(code: str, start: int, opens: str, closes: str) -> int:
    """Where the bracket closes that was opened just before `start`; -1 if it does not."""
    depth = 1
    for found in re.compile(rf"[{opens}{closes}]").finditer(code, start):
        depth += 1 if found[0] == opens else -1
        if depth == 0:
            return found.end()
    return -1


def _macro(code: str, name: str) -> str:
    """What a macro stands for, with its continued lines."""
    found = re.search(
        rf"^[ \t]*#[ \t]*define[ \t]+{re.escape(name)}\b((?:[^\n]*\\\n)*[^\n]*)", code, re.MULTILINE
    )
    return found[1] if found else ""


def files_of(path: str, text: str) -> Files:
    """The files that a file includes, with their sources; and the other sources beside it."""
    own = Path(path).absolute()
    found: dict[Path, str] = {}
    todo = [(own, text)]
    above = folders_above(path, _ABOVE)
    while todo and len(found) < _MOST_FILES:
        place, content = todo.pop(0)
        for name in _INCLUDE.findall(content):
            header = _header(place.parent, above, name)
            if header is not None and header != own and header not in found:
                found[header] = consulted.content(header)
                todo.append((header, consulted.text(header, found[header])))
    for header in list(found):
        for source in (header.with_suffix(ending) for ending in _SOURCES):
            state = consulted.content(source)
            if source != own and state:
                found[source] = state
    others = [(f, consulted.content(f)) for f in _beside(own) if f not in found]
    return tuple(found.items()), tuple(others)


def _header(folder: Path, above: list[Path], name: str) -> Path | None:
    for base in (folder, *(place / below for place in above for below in _BELOW)):
        if consulted.content(base / name) not in ("", "folder"):
            return Path(os.path.normpath(base / name))
    return None


def _beside(own: Path) -> list[Path]:
    """The other sources of a file's folder."""
    found: list[Path] = []
    for ending in _SOURCES:
        consulted.names(own.parent, f"*{ending}")
        try:
            found += sorted(own.parent.glob(f"*{ending}"))
        except OSError:
            continue
    return [file for file in found if file != own][:_MOST_BESIDE]


@lru_cache(maxsize=256)
def _stripped(path: Path, state: str) -> str:
    """The text of a file without remarks and without what its strings hold."""
    text = consulted.text(path, state)
    return _STRIPPED.sub(lambda found: '""' if found[0][0] in "\"'" else " ", text)

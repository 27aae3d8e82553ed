"""What every command shares: exit statuses, one-line errors, whole-file writes."""

import argparse
import contextlib
import difflib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

CLEAN = 0
FINDINGS = 1
FAILED = 2


class UserError(Exception):
    """A failure that the user can act on; its text is the one line that is printed."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UserErrors, of one line that names what is near."""

    def error(self, message: str) -> NoReturn:
        _, _, argument = message.partition("unrecognized arguments: ")
        options = [name for action in self._actions for name in action.option_strings]
        hint = near(argument.split(" ")[0].split("=")[0], options) if argument else ""
        raise UserError(f"{message}{hint}; '{self.prog} --help' shows all")


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` with up to three of `known`, or nothing where none is near."""
    found = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def ascii_line(text: str) -> str:
    """`text` as one printable ASCII line, whatever it held."""
    one_line = " ".join(text.split())
    return one_line.encode("ascii", "backslashreplace").decode("ascii")


def complain(program: str, text: str) -> None:
    """Print one ASCII line `program: text` on stderr."""
    with contextlib.suppress(OSError, ValueError):
        print(f"{program}: {ascii_line(text)}", file=sys.stderr, flush=True)


def run_command(program: str, body: Callable[[], int]) -> int:
    """Run `body` and turn what a user can cause into an exit status and one line.

    argparse ends by raising SystemExit; its status is returned, so that `main` never raises.
    """
    try:
        status = body()
        sys.stdout.flush()
        return status
    except UserError as error:
        complain(program, str(error))
    except KeyboardInterrupt:
        complain(program, "interrupted")
        return 130
    except BrokenPipeError:
        _drop_stdout()
        return 141
    except OSError as error:
        _drop_stdout()
        what = f"use {error.filename}" if error.filename else "write the output"
        complain(program, f"cannot {what}: {error.strerror or error}")
    except ModuleNotFoundError as error:
        complain(
            program,
            f"the Python package {error.name!r} is missing; install it with"
            f" '{sys.executable} -m pip install {PIP_NAMES.get(error.name or '', error.name)}'",
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return FAILED


def _drop_stdout() -> None:
    """Spare python, which flushes stdout once more at exit, a second failure."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


PIP_NAMES = {"yaml": "pyyaml", "jinja2": "jinja2"}


def write_whole(path: Path, text: str, *, overwrite: bool) -> None:
    """Write `text` to `path` completely or not at all; raises UserError."""
    write_whole_bytes(path, text.encode("utf-8"), overwrite=overwrite)


def write_whole_bytes(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write `data` to `path` completely or not at all, keeping the mode of a file it replaces.

    Raises UserError. A symbolic link stays a link: the file that it names is written.
    """
    try:
        target = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a null character
        raise UserError(f"cannot write {path}: {error}") from None
    if target.is_dir():
        raise UserError(f"cannot write {path}: it is a folder")
    if target.exists() and not overwrite:
        raise UserError(f"{path} exists; add --force to replace it")
    if target.exists() and not target.is_file():
        _write_through(path, data)  # a device or a pipe must not be replaced by a file
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        part.chmod(target.stat().st_mode & 0o7777 if target.exists() else _new_file_mode())
        if overwrite:
            part.replace(target)
        else:
            # link() fails where a file has appeared since the check above; replace() would not.
            try:
                target.hardlink_to(part)
                part.unlink()
            except FileExistsError:
                raise UserError(f"{path} exists; add --force to replace it") from None
            except OSError:
                part.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise UserError(f"cannot write {path}: {error.strerror}") from None
        raise


def _write_through(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _new_file_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

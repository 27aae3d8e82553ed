"""Spreads batches of work over forked processes, and survives the death of any of them.

`concurrent.futures` would cost a third of the time budget of a mid-sized repository to import and
start, and loses every result when one process dies; these few lines do neither.
"""

import contextlib
import os
import pickle
import selectors
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_HEADER = struct.Struct("=iq")  # number of the batch, length of the payload or _STARTED
_STARTED = -1
_MAX_QUEUE = 1000  # numbers of four bytes that fit into any pipe, of which POSIX promises 4096


class _Stop(BaseException):
    """Ends a child, after its temporary files are gone."""


def supported() -> bool:
    """Whether this platform can fork safely."""
    import sys

    return sys.platform not in ("win32", "darwin", "emscripten", "wasi") and hasattr(os, "fork")


def map_forked(work: Callable[[int], Any], count: int, processes: int) -> dict[int, Any]:
    """`work(number)` for each number below `count`, in child processes.

    A number whose process died is absent from the result. Exceptions of `work` are its own
    business: it must return something that pickle can carry.
    """
    results: dict[int, Any] = {}
    waiting = list(range(count))
    while waiting:
        now, later = waiting[:_MAX_QUEUE], waiting[_MAX_QUEUE:]
        started = _round(work, now, min(processes, len(now)), results)
        # Numbers that nobody took, because every process had died, are offered once more.
        waiting = [number for number in now if number not in started] + later
    return results


def _round(
    work: Callable[[int], Any], numbers: Sequence[int], processes: int, results: dict[int, Any]
) -> set[int]:
    """Fill `results` for the numbers; returns those that a process began."""
    queue_read, queue_write = os.pipe()
    os.write(queue_write, b"".join(struct.pack("=i", number) for number in numbers))
    os.close(queue_write)
    children: dict[int, int] = {}
    try:
        for _ in range(processes):
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                _child(work, queue_read, writer)
            os.close(writer)
            children[reader] = pid
        return _gather(list(children), results)
    except BaseException:
        for pid in children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        raise
    finally:
        os.close(queue_read)
        for reader, pid in children.items():
            os.close(reader)
            os.waitpid(pid, 0)


def _child(work: Callable[[int], Any], queue: int, writer: int) -> None:
    def stop(*_: object) -> None:
        raise _Stop

    status = 0
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and tells the children
        signal.signal(signal.SIGTERM, stop)
        while taken := os.read(queue, 4):
            number = struct.unpack("=i", taken)[0]
            _write(writer, _HEADER.pack(number, _STARTED))
            payload = pickle.dumps(work(number), pickle.HIGHEST_PROTOCOL)
            _write(writer, _HEADER.pack(number, len(payload)) + payload)
    except BaseException:
        status = 1
    finally:
        os._exit(status)  # nothing of the parent's, such as its output buffers, ends twice


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _gather(readers: Sequence[int], results: dict[int, Any]) -> set[int]:
    started: set[int] = set()
    buffers = {reader: bytearray() for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 20)
                if not data:
                    selector.unregister(key.fd)
                buffers[key.fd] += data
                for number, payload in _messages(buffers[key.fd]):
                    started.add(number)
                    if payload is not None:
                        results[number] = pickle.loads(payload)
    return started


def _messages(buffer: bytearray) -> Iterator[tuple[int, bytes | None]]:
    """Take the complete messages off the front of `buffer`."""
    while len(buffer) >= _HEADER.size:
        number, length = _HEADER.unpack_from(buffer)
        end = _HEADER.size + max(length, 0)
        if len(buffer) < end:
            return
        payload = None if length == _STARTED else bytes(buffer[_HEADER.size : end])
        del buffer[:end]
        yield number, payload

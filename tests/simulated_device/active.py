"""Which machine the fake modules talk to: one run at a time."""

from __future__ import annotations

from .machine import Machine

_machines: list[Machine] = []


def push(machine: Machine) -> None:
    _machines.append(machine)


def pop() -> None:
    _machines.pop()


def machine() -> Machine:
    """The machine of the run under way."""
    if not _machines:
        raise RuntimeError("a simulated module was used outside run_script")
    return _machines[-1]

"""Buffers that Python makes, on the device or on the host."""

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import callee_text, last_segment, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import ALLOC, WORK
from perf_timing.lint.work.devices import DEVICE, HOST


class Allocations:
    """Factories of tensors and arrays, and clones of them."""

    def __init__(self, file: FileContext) -> None:
        self._scopes = file.scopes
        self._devices = file.devices
        self._libraries = file.libraries

    def clones(self, call: Call) -> set[str] | None:
        """A buffer like another: x.clone(), torch.empty_like(x), x.new_zeros(n)."""
        method = "." in call.callee or call.short in self._scopes.imports
        if call.short not in words.CLONES or not method:
            return None
        where = self._devices.of(call.node, call.scope)
        if where == HOST and "torch" in self._libraries and call.short != "pin_memory":
            return {ALLOC, HOST}
        if call.short == "clone" and where == DEVICE:
            return {ALLOC, WORK}
        return set() if call.full.startswith(("numpy.", "copy.")) else {ALLOC}

    def makes(self, call: Call) -> set[str] | None:
        """A buffer of a size that is given: torch.zeros(n)."""
        if not words.FACTORY.match(call.short) or not call.full.startswith(
            ("torch.", "cupy.", "jax.", "mlx.", "paddle.")
        ):
            return None
        host = self._devices.of(call.node, call.scope) == HOST
        return {ALLOC, HOST} if host else {ALLOC}


def makes_nothing(call: Call) -> set[str] | None:
    """A tensor without elements."""
    return set() if _is_empty(call.node) else None


def _is_empty(node: Node) -> bool:
    """Whether a factory is asked for a tensor without elements: new_zeros((1, 0, hidden))."""
    given = positional(node)
    shape = given[0].children if given and given[0].kind in ("tuple", "list") else given
    name = last_segment(callee_text(node))
    sized = name in ("empty", "zeros", "ones") or name.startswith("new_")
    return sized and name != "new_tensor" and any(part.text == "0" for part in shape)

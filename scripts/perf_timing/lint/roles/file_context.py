"""What a whole file says about each of its calls: its libraries, and if it is about a device."""

import re
from functools import cached_property

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope, Scopes, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.work.devices import UNKNOWN, Devices, mentions_device, stays_on_host

_LIBRARIES = re.compile(r"\b(torch|cupy|jax|mlx|numba|triton|tensorflow|cutlass|flax|paddle)\b")
# What moves a model and the tensors that it is given.
_MOVES = re.compile(
    r"Accelerator\(|accelerate\.\w+\(|dispatch|device_map|DataParallel|deepspeed|default_device"
    r"|pipeline|\bpl\.|Fabric\("
)


class FileContext:
    """One file: its names, its devices and its libraries."""

    def __init__(self, scopes: Scopes, devices: Devices, whole: str) -> None:
        self.scopes = scopes
        self.devices = devices
        self.whole = whole or scopes.tree.text  # with functions that have no part in timing
        self.text = scopes.tree.text
        self.python = scopes.language == "python"
        self.libraries = frozenset(_LIBRARIES.findall(scopes.tree.code))
        self.foreign = self.python and self._is_foreign()
        self.evidence = mentions_device(scopes.tree.code, scopes.language)
        if self.evidence and self.python and self.libraries == {"torch"}:
            self.evidence = not stays_on_host(self.whole)

    def _is_foreign(self) -> bool:
        """Whether it is not known here when the calls of the file's libraries return."""
        code = self.scopes.tree.code
        if not self.libraries - {"tensorflow"} and words.is_foreign(code):
            return True
        # PyTorch/XLA only notes what is to be done; nothing is queued where a call returns.
        xla = re.search(r"^\s*(import|from)\s+torch_xla\b", code, re.MULTILINE)
        return xla is not None and not re.search(r"\bcuda\b", code)

    @cached_property
    def moves(self) -> bool:
        """Whether something in the file moves models and tensors that are not named for it."""
        return _MOVES.search(self.whole) is not None

    def receiver(self, call: Node, scope: Scope) -> str:
        """Where the object lives whose method a call of Python is, or that is called."""
        function = call.children[0]
        if function.kind == "attribute":
            return self.devices.of(function.children[0], scope)
        if function.kind == "name" and "." in function.text:
            head = squeeze(function.text).partition(".")[0]
            if head in self.scopes.imports:
                return UNKNOWN
            return self.devices._receiver(function, scope, 1)
        if function.kind == "name":
            return self.devices.of(function, scope)
        return UNKNOWN

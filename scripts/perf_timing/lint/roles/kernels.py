"""Kernels that Python launches by hand: of Triton, Numba, CuPy, PyCUDA and Warp."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    Scope,
    callee_text,
    keyword,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import BLOCKING, COPY, REPLAY, WORK
from perf_timing.lint.work.devices import HOST

# What makes an array of NumPy, and no number.
_NUMPY_ARRAY = re.compile(
    r"numpy\.(random\.\w+|zeros|ones|empty|full|arange|linspace|array|asarray|ascontiguousarray"
    r"|eye|identity|tile|repeat|random_sample|\w+_like)\b"
)
_MAKES_FUNCTION = re.compile(
    r"(^|[._])(jit|compile|pmap|vmap|get_\w*kernel|load_inline|make_graphed_callables)$"
    r"|\.(kernel|function|get_function)$|RawKernel$"
)


class Kernels:
    """Launches of kernels, and functions of the file that are compiled for the device."""

    def __init__(self, file: FileContext) -> None:
        self._scopes = file.scopes
        self._devices = file.devices
        self._libraries = file.libraries

    def launches(self, call: Call) -> set[str] | None:
        """kernel[grid](...), and a function of arrays that Numba makes for the device."""
        callee = call.callee
        subscript = "[" in callee and callee.endswith("]") and self._has_grid(call.node)
        if not (subscript or self._is_ufunc(callee)):
            return None
        return {BLOCKING, COPY} if self._copies_arrays(call.node, call.scope) else {WORK}

    def launches_block(self, call: Call) -> set[str] | None:
        """PyCUDA: kernel(x, block=(256, 1, 1), grid=(n, 1))."""
        blocks = keyword(call.node, "block") is not None and "pycuda" in self._scopes.tree.text
        return {WORK} if blocks else None

    def is_jitted(self, callee: str) -> bool:
        """Whether a name is that of a function which the file compiles for the device."""
        for function in self._scopes.functions.get(last_segment(callee), []):
            if any(re.search(r"\bjit\b|compile", d.text) for d in function.decorators):
                return True
        return any(
            value.kind == "call" and _MAKES_FUNCTION.search(callee_text(value))
            for _, value in self._scopes.assignments(callee)
        )

    def _has_grid(self, node: Node) -> bool:
        """`kernel[grid](...)`: the subscript holds a launch grid, not the key of a container."""
        function = node.children[0]
        if function.kind != "subscript" or not function.children:
            return False
        if not self._libraries & {"triton", "numba", "tilelang", "cutlass", "cupy"}:
            return False
        name = squeeze(function.children[0].text)
        local = self._scopes.functions.get(last_segment(name))
        if local and any(re.search(r"jit|kernel", d.text) for f in local for d in f.decorators):
            return True
        return bool(re.search(r"kernel|_fwd|_bwd|jit", name)) or any(
            c.kind in ("tuple", "lambda") or re.search(r"grid|block|thread", c.text)
            for c in function.children[1:]
        )

    def _is_ufunc(self, callee: str) -> bool:
        """Whether a function of the file is one of arrays that Numba makes for the device."""
        return "numba" in self._libraries and any(
            words.CUDA_UFUNC.search(d.text)
            for function in self._scopes.functions.get(callee, [])
            for d in function.decorators
        )

    def _copies_arrays(self, node: Node, scope: Scope) -> bool:
        """Whether Numba is given NumPy arrays: it copies them there, and back before it returns."""
        if "numba" not in self._libraries or self._libraries & {"triton", "cupy", "tilelang"}:
            return False
        return any(self._is_numpy(argument, scope) for argument in positional(node))

    def _is_numpy(self, argument: Node, scope: Scope) -> bool:
        if argument.kind != "name" or self._devices.of(argument, scope) != HOST:
            return False
        value = self._scopes.definition(argument, squeeze(argument.text), scope)
        made = callee_text(value) if value is not None and value.kind == "call" else ""
        return bool(_NUMPY_ARRAY.match(self._scopes.resolve(squeeze(made))))


def launches_tiles(call: Call) -> set[str] | None:
    """Warp, and the bindings of CUDA itself."""
    if call.short not in ("launch", "capture_launch", "launch_tiled"):
        return None
    return {WORK} if re.match(r"warp|wp\.|cuda\.core", call.full) else None


def replays(call: Call) -> set[str] | None:
    """A captured graph: graph.replay()."""
    return {WORK, REPLAY} if call.short == "replay" else None

"""Functions of libraries for Python whose name tells what they do: collectives, JAX, MLX, CuPy."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import callee_text, keyword, last_segment, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.cpp_runtime import CppRuntime
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import ALLOC, COMPILE, ELAPSED, LIKELY, RECORD, WORK
from perf_timing.lint.work.devices import HOST

_ARRAY_MODULES = (
    "cupy.", "jax.numpy.", "jax.lax.", "jax.nn.", "jax.random.", "mlx.core.", "mlx.nn."
)  # fmt: skip
_ARRAY_TOOLS = (
    "cupy.cuda",
    "cupy.fft.config",
    "jax.config",
    "jax.distributed",
    "jax.lib",
    "jax.profiler",
    "mlx.core.eval",
)
_ARRAY_OBJECTS = re.compile(
    r"(^|\.)(Event|Stream|Device|Generator|RandomState|PRNGKey|key|split|seed"
    r"|default_rng|RawKernel|ElementwiseKernel|RawModule|ReductionKernel"
    r"|device|devices|get_default_memory_pool|get_current_stream|jit|vmap"
    r"|grad|pmap|value_and_grad|config|set_\w+|get_\w+|is_\w+)$"
)
# A function of a library that gives the device work, as it is handed to a benchmark.
_OPERATOR = re.compile(
    r"torch\.((nn\.functional|linalg|fft|special|sparse|ops(\.\w+)+)\.)?"
    r"(?!(is|set|get|use|manual|no|enable|compile|load|save|device|jit|typename|from)_?)[a-z]\w*"
    r"|cupy\.((linalg|fft|random)\.)?[a-z]\w*"
    r"|jax\.(numpy|lax|nn)(\.\w+)?\.[a-z]\w*"
)


_HOST_GROUP = re.compile(r"gloo|cpu|(^|_)mpi(_|$)", re.IGNORECASE)


def computes_arrays(call: Call) -> set[str] | None:
    """A function of a library of arrays that are always on the device."""
    full = call.full
    if not full.startswith(_ARRAY_MODULES) or full.startswith(_ARRAY_TOOLS):
        return None
    if "(" in full:
        return None  # a method of what it returned
    return None if _ARRAY_OBJECTS.search(full) else {WORK}


class LibraryCalls:
    """Calls whose library is told by what the file imports or makes."""

    def __init__(self, file: FileContext, runtime: CppRuntime) -> None:
        self._file = file
        self._scopes = file.scopes
        self._libraries = file.libraries
        self._runtime = runtime

    def communicates(self, call: Call) -> set[str] | None:
        """A collective: dist.all_reduce(x). That of tensors of the host asks no device."""
        if not words.COLLECTIVE.search(call.full) or not re.search(
            r"dist|comm|nccl|torch\.distributed|pg|group|hvd", call.full
        ):
            return None
        group = keyword(call.node, "group")
        if group is not None and _HOST_GROUP.search(group.text):
            return set()
        return (
            set() if any(self._is_host_tensor(a, call) for a in positional(call.node)) else {WORK}
        )

    def _is_host_tensor(self, value: Node, call: Call) -> bool:
        """Whether a variable holds a tensor that torch made on the host, and that stayed there."""
        if value.kind != "name" or self._file.devices.of(value, call.scope) != HOST:
            return False
        made = self._scopes.definition(value, squeeze(value.text), call.scope)
        return made is not None and made.kind == "call" and self._resolved(made)[:6] == "torch."

    def calls_runtime(self, call: Call) -> set[str] | None:
        """The runtime of CUDA by its bindings: cudart.cudaMemcpyAsync() and its like."""
        vendor = words.CPP_VENDOR.sub("", call.short)
        if vendor == call.short or "." not in call.callee:
            return None
        return self._runtime.roles(vendor, call.node) - {RECORD, ELAPSED}

    def converts_for_mlx(self, call: Call) -> set[str] | None:
        """`mx.array(of_the_host).astype` converts what it uploads: MLX runs it later."""
        if call.short != "astype":
            return None
        function = call.node.children[0]
        made = function.children[0] if function.children else function
        if made.kind != "call":
            return None
        return {ALLOC} if self._resolved(made) == "mlx.core.array" else None

    def stages(self, call: Call) -> set[str] | None:
        """JAX is told to lower a function or to compile it: jax.jit(f).lower(x).compile()."""
        if call.short not in ("lower", "compile") or not self._is_staged(call):
            return None
        return {COMPILE} if call.short == "compile" else set()

    def applies(self, call: Call) -> set[str] | None:
        """A model of Flax runs: model.apply(params, x)."""
        applied = call.short == "apply" and self._libraries & {"jax", "flax"}
        return {WORK, LIKELY} if applied else None

    def is_operator(self, value: Node) -> bool:
        """Whether a value is a function of a library that works on the device's arrays."""
        if not (self._file.python and self._file.evidence and value.kind == "name"):
            return False
        return _OPERATOR.fullmatch(self._scopes.resolve(value.text)) is not None

    def _resolved(self, call: Node) -> str:
        return self._scopes.resolve(callee_text(call))

    def _is_staged(self, call: Call) -> bool:
        """Whether a method lower() or compile() is one of JAX, which runs on the host."""
        if "jax" not in self._libraries:
            return False
        function = call.node.children[0]
        lowers = last_segment(function.text) == "lower" and positional(call.node)
        if "(" in function.text or lowers:
            return True
        made = self._scopes.assignments(function.text.rpartition(".")[0], call.scope)
        return any(".lower(" in value.text for _, value in made)

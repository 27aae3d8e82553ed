"""Calls of Python that give the device nothing, by what they call, whatever their arguments."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import callee_text, last_segment, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext

# What these modules do is not device work, whatever their arguments.
_RUNTIME = (
    "torch.cuda.", "torch.xpu.", "torch.mps.", "torch.accelerator.", "torch.backends",
    "torch.profiler",
    "torch.optim", "nvtx.", "cupy.cuda.", "torch.npu.", "torch.hpu.",
)  # fmt: skip
_ON_HOST = ("torchvision.io", "torchvision.datasets", "torchvision.transforms")
_TOOLS = (
    "torch.utils",
    "torch.distributed",
    "torch.jit",
    "torch.load",
    "torch.manual_seed",
    "torch.set_",
    "torch.get_",
    "torch.is_",
    "torch._dynamo",
    "torch.device",
    "torch.no_grad",
    "torch.inference_mode",
    "torch.autocast",
    "torch.amp",
    "torch.compile",
    "torch.from_numpy",
    "torch.frombuffer",
    "torch.from_file",
    "torch.hub",
    "torch.random",
    "torch.Size",
    "torch.finfo",
)
# An operator that a library has registered, whatever its name: torch.ops.library.Operator.
_REGISTERED = re.compile(r"torch\.ops\.\w+\.\w")
# What makes a function of a function, or says something about devices.
_TRANSFORMS = re.compile(
    r"jax\.(jit|pmap|vmap|grad|value_and_grad|make_jaxpr|eval_shape|checkpoint|remat|sharding\b"
    r"|(local_)?devices$|(local_)?device_count$|process_\w+$)"
)
# Functions of torch that look at a tensor in another way, and move nothing.
_VIEWS = re.compile(
    r"torch\.((un)?squeeze|transpose|permute|movedim|moveaxis|swapaxes|swapdims|narrow|select|t"
    r"|(tensor_|[hvd])?split|chunk|unbind|diagonal|unflatten|broadcast_(to|tensors)"
    r"|view_as_(real|complex)|adjoint)"
)
# An object that works on the host by its name: CPUInfer.sync(), cpu_engine.submit(...).
_CPU_OBJECT = re.compile(r"^(self\.|\w+\.)?(CPU[A-Z]\w*|cpu_(?!count)\w+|\w+_cpu_\w+)\.\w+$")


def is_runtime(full: str) -> bool:
    """Whether a module talks with the device, of which only its waits and events matter."""
    return full.startswith(_RUNTIME)


def works_on_host(call: Call) -> set[str] | None:
    """An object that works on the host, and libraries that do."""
    on_host = _for_cpu(call.node, call.callee) or call.full.startswith(_ON_HOST)
    return set() if on_host else None


def _for_cpu(node: Node, callee: str) -> bool:
    """Whether a call is one of an object that works on the host, or an argument of such a call."""
    if not node.tree.names_cpu:
        return False
    if _CPU_OBJECT.match(callee):
        return callee.rpartition(".")[2] in ("sync", "synchronize", "submit", "run", "infer")
    outer = next((p for p in node.ancestors() if p.kind in ("call", "block")), None)
    if outer is None or outer.kind != "call":
        return False
    around = callee_text(outer)
    return around.endswith(".submit") and bool(_CPU_OBJECT.match(around))


def calls_module(call: Call) -> set[str] | None:
    """Builtins, NumPy and other modules of the host."""
    head = call.full.partition(".")[0]
    host = call.callee in words.HOST_CALLS or head in words.HOST_MODULES or head == "numpy"
    return set() if host else None


def checks_status(call: Call) -> set[str] | None:
    """A call that only looks at the status that a call of the runtime returned.

    Beside other arguments only that of a wait: check(cudart.cudaStreamSynchronize(s), "d2h").
    """
    given = positional(call.node)
    inner = last_segment(callee_text(given[0])) if given and given[0].kind == "call" else ""
    alone = len(given) == 1 and words.CPP_VENDOR.match(inner) is not None
    return set() if alone or words.CPP_ANY_WAIT.search(inner) is not None else None


def makes_tokens(call: Call) -> set[str] | None:
    """A tokenizer."""
    return set() if words.TOKENIZER.search(call.callee) else None


def calls_method(call: Call) -> set[str] | None:
    """Methods that only say or set something, on the host: x.size()."""
    if _VIEWS.fullmatch(call.full):
        return set()
    named = call.short in words.HOST_METHODS and "." in call.callee
    return set() if named and not call.callee.startswith(("torch.", "F.", "jnp.")) else None


class HostCalls:
    """Calls that need the imports of the file to be told from device work."""

    def __init__(self, file: FileContext) -> None:
        self._imports = file.scopes.imports

    def handles_data(self, call: Call) -> set[str] | None:
        """Methods of data frames and texts, and a factory of pipelines."""
        callee = call.callee
        if callee.endswith(".head") and not any(a.kind == "name" for a in positional(call.node)):
            return set()  # the first rows of a data frame
        if callee == "pipeline" and callee in self._imports:
            return set()  # transformers.pipeline("task") makes one
        if callee[:1] in "\"'" or (call.short in words.READ_NAMES and "(" in callee):
            return set()  # a method of a literal text; a read of what is on the host
        return None

    def makes_object(self, call: Call) -> set[str] | None:
        """A class, and what sets up an object or a module."""
        full, short = call.full, call.short
        if (
            re.match(r"[A-Z]", short)
            and not _REGISTERED.match(full)
            and (not short.isupper() or short in self._imports)
        ):
            return set()  # a class
        if re.match(r"(enable|disable)_", short):
            return set()  # pipe.enable_model_cpu_offload()
        return set() if full.startswith(_TOOLS) else None

    def keeps_house(self, call: Call) -> set[str] | None:
        """What loads, prepares, encodes or tells something, by its verb."""
        full, short, callee = call.full, call.short, call.callee
        head = callee.rpartition(".")[0]
        if words.HOST_VERB.search(callee) and not full.startswith("torch."):
            return set()
        if short in ("decode", "encode") and head and not words.CODEC_ON_DEVICE.search(head):
            return set()
        if _TRANSFORMS.match(full) or words.MAKES_DATA.match(short):
            return set()
        if "." in callee and words.HOUSEKEEPING.match(short) and head not in self._imports:
            return set()
        return None

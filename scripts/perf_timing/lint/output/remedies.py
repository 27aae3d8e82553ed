"""What to do, said for the framework at hand: a rule's note without what does not exist there.

Rules write their notes for torch on CUDA: what to do, then the scenarios that render it. For C++
and for other frameworks the scenarios are chosen again, or left out, and the framework's own wait
is named.
"""

import re

from perf_timing.lint.facts import Tree

_RENDERS = re.compile(r";\s+render-timing ([\w, -]+?)(?: \([^)]*\))? (?:do|does) so\b")
_MENTION = re.compile(r";\s+(?:render|inject)-timing\b[^.]*")
_WAITS = re.compile(r"\b[Ww]ait (?:for the device|once)|\bwait for it\b|on the stream")
_EVENTS = re.compile(r",? or let events on the stream [^;.]*")
_CPP_ONLY = ("raw-cuda",)
# What raw-cuda does as well, for C++.
_LIKE_RAW_CUDA = frozenset({"simple-event", "detailed-event", "loop", "raw-cuda"})

# (what the file imports, what waits there); the first that fits.
_PYTHON = (
    (r"^\s*(?:import|from)\s+taichi\b", "ti.sync() waits in Taichi"),
    (r"^\s*(?:import|from)\s+mlx\b", "mx.eval(result) runs and waits in MLX"),
    (r"^\s*(?:import|from)\s+(?:jax|flax)\b", "jax.block_until_ready(result) waits in JAX"),
)
_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|triton|cutlass)\b", re.MULTILINE)
_CUPY = (
    (r"^\s*(?:import|from)\s+cupy\b", "cupy.cuda.Device().synchronize() waits in CuPy"),
    (r"^\s*(?:import|from)\s+numba\b", "numba.cuda.synchronize() waits in Numba"),
)
_DEVICES = (
    (r"torch\.mps\b|[\"']mps\b", "torch.mps.synchronize() waits on MPS"),
    (r"torch\.xpu\b|[\"']xpu\b", "torch.xpu.synchronize() waits on XPU"),
    (r"torch\.hpu\b|[\"']hpu\b", "torch.hpu.synchronize() waits on HPU"),
    (r"torch\.npu\b|[\"']npu\b", "torch.npu.synchronize() waits on NPU"),
)
_CPP = (
    (r"\bhip[A-Z]\w+\s*\(|hip/hip_runtime", "hipDeviceSynchronize() waits in HIP"),
    (r"\bsycl::|CL/sycl", "queue.wait() waits in SYCL"),
    (r"\bmtl\w*|\bMTL\w+|[Mm]etal", "waitUntilCompleted waits in Metal"),
    (r"\bclEnqueue\w+|CL/cl", "clFinish() waits in OpenCL"),
)
_CUDA = re.compile(r"\bcuda[A-Z]\w+\s*\(|cuda_runtime|<<<|\bcublas|\bcudnn|\bcuda::|\bc10::cuda")


def fit(note: str, tree: Tree) -> str:
    """`note` for the file: scenarios that exist for it, or the wait of its own framework."""
    if tree.language == "cuda":
        wait = _first(_CPP, tree.code)
        cuda = bool(_CUDA.search(tree.code)) or not wait
        return _with_scenarios(note, cpp=True) if cuda else _plain(note, wait)
    foreign = _foreign(tree.code)
    return _with_scenarios(note, cpp=False) if foreign is None else _plain(note, foreign)


def _foreign(text: str) -> str | None:
    """What waits in a Python file that torch on CUDA does not serve; None: torch on CUDA does."""
    own = _first(_PYTHON, text)
    if own and not (_TORCH.search(text) and "torch.cuda" in text):
        return own
    if not _TORCH.search(text):
        return _first(_CUPY, text) or None
    other = _first(_DEVICES, text)
    return other if other and "cuda" not in text else None


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next((said for sign, said in table if re.search(sign, text, re.MULTILINE)), "")


def _plain(note: str, wait: str) -> str:
    """The note without scenarios, and with the framework's own wait where it speaks of waiting."""
    waits = bool(_WAITS.search(note))
    said = _MENTION.sub("", _EVENTS.sub("", note))
    return f"{said.rstrip('.')}; {wait}." if waits and wait else said


def _with_scenarios(note: str, *, cpp: bool) -> str:
    found = _RENDERS.search(note)
    if found is None:
        return _MENTION.sub("", note) if cpp else note
    names = [name for name in re.split(r", | and ", found[1]) if name]
    if cpp:
        names = [*_CPP_ONLY] if _LIKE_RAW_CUDA & set(names) else []
    else:
        names = [name for name in names if name not in _CPP_ONLY]
    said = ""
    if names:
        listed = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
        said = f"; render-timing {listed} {'do' if len(names) > 1 else 'does'} so"
    return note[: found.start()] + said + note[found.end() :]

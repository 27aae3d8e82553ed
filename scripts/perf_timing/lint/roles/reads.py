"""Reads of the device by a host that runs Python, each of which waits for what it reads.

`.item()`, `float(loss)`, `if torch.any(x)`, a summary, a metric, a picture that is saved.
"""

import re
from collections.abc import Callable
from functools import cached_property

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope, Scopes, callee_text, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call, keywords
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.loaders import Loaders
from perf_timing.lint.roles.names import COPY, JOIN, READ
from perf_timing.lint.work.devices import DEVICE, HOST, UNKNOWN

# What turns a tensor into a number of the host, and so reads it.
_CASTS = frozenset({"float", "int", "bool", "math.isnan", "math.isinf", "math.isfinite"})
# What gives a tensor of one member, which `if` or `assert` turns into a truth.
_DECIDES = re.compile(
    r"torch\.(any|all|isnan|isinf|isfinite|(is|count)_nonzero|max|min|sum|mean|norm)$"
)
_DECIDES_ALL = re.compile(
    r"torch\.(isnan|isinf|isfinite)\(.*\)\.(any|all)$"
    r"|[\w.]*(loss|norm)\w*\.(isnan|isinf|isfinite)(\(\)\.(any|all))?$"
)
# Methods of a frame of cuDF whose result has as many rows as the data say.
_AS_MANY_ROWS = frozenset(
    ("merge", "agg", "aggregate", "drop_duplicates", "dropna", "value_counts", "nunique", "unique")
)
# Writers of TensorBoard, which copy a tensor to the host when they are given it.
_SUMMARIES = frozenset({"add_scalar", "add_scalars", "add_histogram", "add_image", "add_images"})
# What is written to a file as a picture, a film or a sound has come to the host.
_WRITES_MEDIA = re.compile(
    r"^(save|write|export|dump)_(\w+_)?(video|image|img|audio|wav|gif|png|mp4|mesh|grid|frame)s?"
    r"(_(grid|to_\w+))?$"
)
_COMPARES = re.compile(r"(check|assert)_(is_)?(equal|close|allclose|all_close|almost_equal)s?")
_TAKES_ARRAYS = frozenset(
    {
        "numpy.asarray",
        "numpy.array",
        "cupy.asnumpy",
        "torch.save",
        "numpy.save",
        "numpy.testing.assert_allclose",
    }
)
# Reads of a value that is on the host cost nothing; a value of the device was read before.
_FREE_ON_HOST = frozenset({"cpu", "numpy", "tolist", "unique", "nonzero", "equal", "item"})
_ON_HOST_NAME = re.compile(r"(^|_)(cpu|host)(_\w+)?\.")
_NUMBER_NAME = re.compile(r"loss|logit|acc\b|grad|norm")


def compares(call: Call) -> set[str] | None:
    """That two tensors are equal is decided on the host."""
    return {READ} if _COMPARES.fullmatch(call.short) and len(positional(call.node)) >= 2 else None


def takes_arrays(call: Call) -> set[str] | None:
    """Functions of NumPy, and those that write to a file, need their arguments on the host."""
    return {READ} if call.full in _TAKES_ARRAYS else None


def brings_to_host(call: Call) -> set[str] | None:
    """Whatever it is called, it is told where to: fetch(x, "cpu")."""
    given = positional(call.node)
    if any(a.kind == "string" and a.text.strip("'\"") == "cpu" for a in given):
        return {READ, COPY}
    return None


def decides(call: Call) -> set[str] | None:
    """A branch that hangs on a tensor: if torch.isnan(loss)."""
    if _is_condition(call.node) and (_DECIDES.match(call.full) or _DECIDES_ALL.match(call.callee)):
        return {READ}
    return None


def counts_rows(call: Call, scopes: Scopes) -> set[str] | None:
    """What cuDF does of which the data say how many rows it has: frame.merge(other, on="key").

    The host waits for their number before it makes the result.
    """
    if call.short not in _AS_MANY_ROWS or "." not in call.callee or not _has_frames(scopes):
        return None
    head = call.callee.partition(".")[0]
    return {READ, JOIN} if scopes.imports.get(head, "cudf").startswith("cudf") else None


def _has_frames(scopes: Scopes) -> bool:
    return any(full.partition(".")[0] == "cudf" for full in scopes.imports.values())


def sizes(call: Call) -> set[str] | None:
    """What is as long as the device finds it to be: torch.where(mask) is nonzero().

    multinomial() is none of it: set_sync_debug_mode("error") lets it pass (torch 2.11, an H200).
    """
    alone = len(positional(call.node)) == 1 and not keywords(call.node)
    if call.full == "torch.argwhere" or (call.full == "torch.where" and alone):
        return {READ}
    return None


def writes_media(call: Call) -> set[str] | None:
    """What is written to a file as a picture, a film or a sound."""
    return {READ, JOIN} if positional(call.node) and _WRITES_MEDIA.search(call.short) else None


def _is_condition(node: Node) -> bool:
    """Whether a branch hangs on the value of `node`, so that a tensor has to be read for it."""
    child = node
    for parent in node.ancestors():
        if parent.kind in ("if", "elif", "while", "assert"):
            return parent.children[0] is child
        if parent.kind not in ("not", "bool", "compare", "binary", "unary"):
            return False
        child = parent
    return False


def _last_given(values: list[Node], use: Node) -> list[Node]:
    """Of the values that a name is given, in order, the last one before a use.

    If that is in a branch of an `if`, those of its other branches too: any of them may have run.
    """
    if not values:
        return []
    choice = values[-1]
    for parent in values[-1].ancestors():
        if parent.start <= use.start and use.end <= parent.end:
            break
        if parent.kind == "if" and len(parent.children) > 2:
            choice = parent
    return [value for value in values if value.start >= choice.start]


class Fetches:
    """Methods and functions that return a value of the device to the host: x.item(), decode(y)."""

    def __init__(self, file: FileContext, loaders: Loaders) -> None:
        self._scopes = file.scopes
        self._devices = file.devices
        self._loaders = loaders

    @cached_property
    def _is_taichi(self) -> bool:
        return "taichi" in self._scopes.imports.values()

    def fetches(self, call: Call) -> set[str] | None:
        """Methods such as item() and numpy(), and functions that have the same effect."""
        short = call.short
        if self._is_taichi and short == "to_numpy":
            return {READ, COPY}
        if short in words.READ_NAMES and (
            "." in call.callee or short in ("to_python_float", "device_get") or "nms" in short
            or short == "non_max_suppression"
        ):  # fmt: skip
            return self._read(call)
        return None

    def decodes(self, call: Call) -> set[str] | None:
        """A tokenizer makes text of tokens, which it fetches if they are on the device."""
        if call.short not in ("decode", "convert_ids_to_tokens") or "token" not in call.callee:
            return None
        given = [self._devices.of(arg, call.scope) for arg in positional(call.node)[:1]]
        return set() if given == [HOST] else {READ}

    def _read(self, call: Call) -> set[str]:
        function = call.node.children[0]
        if call.full.startswith(("numpy.", "math.", "time.")):
            return set()
        if self._origin(call, function) == HOST and call.short in _FREE_ON_HOST:
            return set()
        if self._loaders.gave(function, call.scope) or _ON_HOST_NAME.search(call.callee):
            return set()  # splits_cpu.tolist()
        copies = call.short in ("cpu", "numpy", "asnumpy", "copy_to_host", "get")
        return {READ, COPY} if copies else {READ}

    def _origin(self, call: Call, function: Node) -> str:
        """Where the value lives that is read."""
        if function.kind == "attribute":
            return self._devices.of(function, call.scope)
        if function.kind != "name":
            return UNKNOWN
        node = call.node
        key = squeeze(function.text).rpartition(".")[0]
        # Not loss = loss.item() itself, nor total = 0, which has no item(): it was added to.
        values = [
            value
            for _, value in self._scopes.assignments(key, call.scope)
            if value.kind != "number"
            and value.text != "None"
            and not value.start <= node.start < value.end
        ]
        values = [value for value in values if value.end <= node.start] or values
        values = values or self._scopes.argument_values(call.scope, key)
        places = {self._devices.of(v, self._scopes.scope_of(v)) for v in _last_given(values, node)}
        return places.pop() if len(places) == 1 else UNKNOWN


class Conversions:
    """What makes numbers, text or arrays of the host out of the tensors that it is given."""

    def __init__(self, file: FileContext, is_work: Callable[[Node, Scope], bool]) -> None:
        self._scopes = file.scopes
        self._devices = file.devices
        self._evidence = file.evidence
        self._is_work = is_work

    def casts(self, call: Call) -> set[str] | None:
        """float(loss): a loss is a tensor by its name, if nothing is known of it."""
        if call.full not in _CASTS or not positional(call.node):
            return None
        value = positional(call.node)[0]
        where = self._devices.of(value, call.scope)
        number = where == UNKNOWN and _NUMBER_NAME.search(value.text) and self._evidence
        return {READ} if where == DEVICE or number else set()

    def collects(self, call: Call) -> set[str] | None:
        """A tensor that is made of numbers which lie on the device: each is read for it."""
        if call.full not in ("torch.tensor", "torch.as_tensor"):
            return None
        listed = next(iter(positional(call.node)), None)
        if listed is None or listed.kind not in ("list", "tuple", "comp"):
            return None
        given = listed.children[:1] if listed.kind == "comp" else listed.children
        there = any(
            self._devices.of(value, call.scope) == DEVICE
            or (value.kind == "call" and self._is_work(value, call.scope))
            for value in given
        )
        return {READ} if there else None

    def summarizes(self, call: Call) -> set[str] | None:
        """A summary writer that is given a tensor of the device."""
        if call.short not in _SUMMARIES or "." not in call.callee:
            return None
        there = any(
            self._devices.of(value, call.scope) == DEVICE
            or (self._evidence and value.text.endswith((".data", ".detach()")))
            for value in positional(call.node)[1:2]
        )
        return {READ} if there else None

    def measures(self, call: Call) -> set[str] | None:
        """A metric of the evaluate library, which computes on the host.

        It takes tensors of the device and fetches what is in them.
        """
        if call.short not in ("add", "add_batch", "compute"):
            return None
        pairs = self._scopes.assignments(call.callee.rpartition(".")[0], call.scope)
        made = (self._scopes.resolve(callee_text(v)) for _, v in pairs if v.kind == "call")
        metric = any(full in ("evaluate.load", "datasets.load_metric") for full in made)
        return {READ, JOIN} if metric else None

"""Work that Python gives the device, told by where the operands are, or else by the name.

The evidence in its order: an operand, or the object whose method is called, known to be on the
device; a name that usually is a model or a kernel, in a file that mentions a device at all, with no
operand known to be on the host.
"""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope, callee_text, keyword, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.roles import models
from perf_timing.lint.roles.calls import Call, keywords
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.kernels import Kernels
from perf_timing.lint.roles.loaders import Loaders
from perf_timing.lint.roles.names import ARITHMETIC, BLOCKING, LIKELY, PHASE, READ, WORK
from perf_timing.lint.work.devices import DEVICE, HOST, UNKNOWN

# All members are on one device, so one that is on the host speaks for all.
_JOINS = frozenset({"torch.cat", "torch.concat", "torch.stack", "torch.hstack", "torch.vstack"})
# A whole pass or program of another file: it ends with numbers on the host.
_PHASE = re.compile(
    r"(main|train|fit|run|eval\w*|valid\w*|test)(_\w+)?_(loop|epochs?|model|main|training|logic"
    r"|experiments?|benchmarks?|suite)(_\w+)?$|main$|main_\w+$|train$|fit$|do_train\w*$"
    r"|prepare_for_\w+$"
)
# What searches for, or calibrates, another form of a model: minutes of work, read again and again.
_TUNES = re.compile(r"(^|_)(quanti[sz]e|calibrate|ptq|gptq|awq|prune|sparsify|distill)(_|$)")
_EVALUATES = re.compile(r"(eval|evaluate|validate|validation_loop)(_(?!mode)\w+)?$")
# Libraries of RAPIDS whose functions wait before they return, unless they are given a handle.
_WAITS_ITSELF = re.compile(r"(cuvs|pylibraft|cuml)\.")
# What a call is asked for to be given an array of the host.
_AS_ARRAY = re.compile(
    r"^(return|output|result)\w*=([\w.]*\.)?[\"']?(np|NP|numpy|NUMPY|Numpy)[\"']?$"
    r"|^(to|as|return|convert_to)_(np|numpy)=True$"
)
# What a call is told to do before it returns.
_UNTIL_DONE = re.compile(r"^(wait|blocking|sync|synchronize|block_until_ready)=True$")


# What loads a shared library, whose functions return when they are done.
_LOADS_LIBRARY = re.compile(r"(^|\.)(CDLL|PyDLL|cdll\.LoadLibrary|load_library)$")
# The kernel of a solver, which returns numbers: energy = mean_field.kernel()
_A_SOLVER = re.compile(r"(?!self\b|cls\b)\w+\.kernel")
# An operator that makes or opens an object of the host's.
_MAKES_OBJECT = re.compile(r"(create|build|init|open|load|register|(de)?serialize)(_|$)")
# What names a file.
_A_FILE = re.compile(r"(^|[._])((file|dir|folder)?_?path|file_?name|url|uri)$", re.IGNORECASE)


def _reads_file(node: Node) -> bool:
    """Whether all that a function is given is where a file lies: decode(job.path)."""
    given = positional(node)
    return bool(given) and not keywords(node) and all(_A_FILE.search(a.text) for a in given)


def until_done(call: Call, found: set[str], evidence: bool) -> set[str]:
    """What a call does beside what was `found`, if it waits before it returns: f(x, wait=True)."""
    told = [squeeze(k.text) for k in keywords(call.node)]
    if any(_UNTIL_DONE.match(text) for text in told):
        return {BLOCKING} if evidence else set()
    if WORK not in found:
        return found
    if any(_AS_ARRAY.search(text) for text in told):
        return {BLOCKING}
    if _WAITS_ITSELF.match(call.full):
        handed = keyword(call.node, "resources") or keyword(call.node, "handle")
        return {WORK} if handed is not None else {BLOCKING}
    return found


class Operands:
    """Operators and calls, by the places of what they are given."""

    def __init__(self, file: FileContext, loaders: Loaders, kernels: Kernels) -> None:
        self._file = file
        self._scopes = file.scopes
        self._devices = file.devices
        self._evidence = file.evidence
        self._loaders = loaders
        self._kernels = kernels

    def operator(self, node: Node, scope: Scope) -> set[str]:
        """What an operator such as a + b or a @ b does."""
        if len(node.children) != 2:
            return set()
        gap = self._file.text[node.children[0].end : node.children[-1].start]
        where = self._devices.of(node, scope)
        if where == DEVICE:
            return {WORK} if "@" in gap else {WORK, ARITHMETIC}
        if "@" in gap and where == UNKNOWN and self._evidence:
            return {WORK, LIKELY}
        return set()

    def runs_phase(self, call: Call) -> set[str] | None:
        """A whole pass of another file: the losses of an epoch come back as numbers."""
        passes = self._evidence and _PHASE.match(call.short) and positional(call.node)
        return {BLOCKING, PHASE} if passes else None

    def computes(self, call: Call) -> set[str]:
        """What any other call does."""
        node, scope = call.node, call.scope
        operands = [self._devices.of(arg, scope) for arg in positional(node)]
        operands += [self._devices.of(k.children[-1], scope) for k in keywords(node) if k.children]
        if call.full in _JOINS and self._joins_host(node, scope):
            return set()
        receiver = self._file.receiver(node, scope)
        head = call.callee.rpartition(".")[0]
        if self._evidence and _TUNES.search(call.short) and models.is_about_model(node, head):
            return {BLOCKING, PHASE}  # a search or a calibration reads its results
        if receiver == DEVICE:
            return {WORK}
        if DEVICE in operands:
            return self._given_device(call, receiver)
        if self._works_on_host(call):
            return set()
        if words.EAGER.fullmatch(call.full):
            return {WORK, LIKELY} if self._evidence else set()
        if call.full.startswith("torch.") and "(" not in call.full:
            # Not torch.tensor([4]).to(dtype).
            if call.full.startswith("torch.ops.") and _MAKES_OBJECT.match(call.short):
                return set()
            where = self._devices.join(operands) if operands else UNKNOWN
            if any(self._devices.was_fetched(arg, scope) for arg in positional(node)):
                return set()  # its other operands cannot be on a device
            return {WORK, LIKELY} if where == UNKNOWN and self._evidence else set()
        if not self._evidence or receiver == HOST:
            return set()
        return self._by_name(call, operands)

    def _given_device(self, call: Call, receiver: str) -> set[str]:
        """What a function does that is given something of the device."""
        if _EVALUATES.match(call.short) and models.has_model(call.node):
            return {READ}  # metrics or texts come back
        if receiver == UNKNOWN and models.is_pass(call.node):
            return {READ}  # of test(model, loader), too
        if models.only_asks_model(call.node, call.scope, call.short, self._devices):
            return set()
        return {WORK}

    def _works_on_host(self, call: Call) -> bool:
        """Whether a call is given what the host works on, and nothing of the device.

        The address of a tensor that is on the host, as an engine for it takes them; or it calls a
        function of a shared library by ctypes, and gives it no address of a tensor.
        """
        given = [value for value in positional(call.node) if value.text.endswith(".data_ptr()")]
        places = {self._devices.of(value.children[0], call.scope) for value in given}
        if HOST in places:
            return DEVICE not in places
        library = call.callee.rpartition(".")[0]
        made = self._scopes.assignments(library, call.scope) if library else []
        return "data_ptr" not in call.node.text and any(
            value.kind == "call" and _LOADS_LIBRARY.search(self._scopes.resolve(callee_text(value)))
            for _, value in made
        )

    def _by_name(self, call: Call, operands: list[str]) -> set[str]:
        """What the name says, where nothing is known of the operands."""
        node, callee, short = call.node, call.callee, call.short
        if _EVALUATES.match(short) and positional(node):
            return {READ}  # metrics come back as numbers
        if words.NOT_MODEL.search(callee):
            return set()
        if self._kernels.is_jitted(callee):
            return {WORK, LIKELY}
        if self._is_imported(callee):
            return set()  # what a function of another file does its name does not tell
        if set(operands) == {HOST} and self._loaders.gives_host_tensors(node):
            return set()  # a model on a device would not take them
        if self._loaders.gives_batch(node, call.scope):
            return set()
        if _reads_file(node) or (_A_SOLVER.fullmatch(callee) and not positional(node)):
            return set()
        if words.MODEL.search(callee):
            return {WORK, LIKELY}
        if "." not in callee or "torch" not in self._file.libraries:
            return set()
        in_place = short.endswith("_") and not short.startswith("_")
        return {WORK, LIKELY} if short in words.TENSOR_VERBS or in_place else set()

    def _is_imported(self, callee: str) -> bool:
        """Whether a plain function is called that is imported by its name from another file."""
        return callee in self._scopes.imports and callee not in self._scopes.functions

    def _joins_host(self, node: Node, scope: Scope) -> bool:
        """Whether a member of torch.cat((a, b)) is known to be on the host."""
        given = positional(node)[:1]
        members = given[0].children if given and given[0].kind in ("tuple", "list") else []
        return any(self._devices.of(m, scope) == HOST for m in members if m.kind != "number")

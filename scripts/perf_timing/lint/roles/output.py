"""Output of Python, to the terminal, a log or a file, and what of the device it makes text of."""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import IO, READ
from perf_timing.lint.work.devices import DEVICE, HOST

# A slice of an array of several dimensions.
_SLICED = re.compile(r"\[[^\[\]]*:[^\[\]]*,|\[[^\[\]]*,[^\[\]]*:")


class Output:
    """Calls that write, and texts in which values are formatted."""

    def __init__(self, file: FileContext) -> None:
        self._scopes = file.scopes
        self._devices = file.devices
        self._evidence = file.evidence

    def writes(self, call: Call) -> set[str] | None:
        """A call that writes; it reads what of the device it is given to print."""
        if not self._is_output(call):
            return None
        printed = _printed(call.node)
        if any(self._devices.of(arg, call.scope) == DEVICE for arg in printed):
            return {IO, READ}
        if self._evidence and any(
            _SLICED.search(arg.text) and self._devices.of(arg, call.scope) != HOST
            for arg in printed
        ):
            return {IO, READ}  # print(output[0][:, 0, :]): only an array is sliced so
        return {IO}

    def formats(self, interpolation: Node, scope: Scope) -> bool:
        """Whether a tensor of the device becomes text, before a clock later in the text is read.

        f"{loss:.4f} in {time.time() - start}": values are formatted in their order.
        """
        text = interpolation.parent
        value = interpolation.children[0] if interpolation.children else None
        if text is None or value is None or self._devices.of(value, scope) != DEVICE:
            return False
        return any(  # in this text, or in one that goes on where it ends
            n.kind == "call" and self._scopes.resolve(callee_text(n)) in words.PYTHON_CLOCKS
            for n in (text.parent or text).walk()
            if n.start > interpolation.end
        )

    def _is_output(self, call: Call) -> bool:
        callee, short = call.callee, call.short
        if callee in words.IO_CALLS or call.full in words.IO_FUNCTIONS:
            return True
        head = callee.rpartition(".")[0]
        if short in words.IO_METHODS and head and words.IO_OBJECTS.search(head):
            return True
        return short in ("next", "progress_bar") and self._draws_bar(call)

    def _draws_bar(self, call: Call) -> bool:
        """Whether a call draws a progress bar, and not only where some time has gone by.

        bar.next() of the package progress, and progress_bar(batch, len(loader), text).
        """
        callee = call.callee
        if callee.endswith("progress_bar"):
            return len(positional(call.node)) > 1 and "." not in callee
        made = self._scopes.definition(call.node, callee.rpartition(".")[0], call.scope)
        name = last_segment(callee_text(made)) if made and made.kind == "call" else ""
        return bool(re.match(r"[A-Z]\w*Bar$|Bar$", name))


def _printed(node: Node) -> list[Node]:
    """The values that an output turns into text, by themselves or in a format."""
    found = [value for arg in positional(node) for value in _shown(arg)]
    return [
        a
        for a in found
        if (a.kind in ("name", "subscript") or callee_text(a).startswith("torch."))
        and not a.text.endswith((".shape", ".device", ".dtype", ".size"))
    ]


def _shown(arg: Node) -> list[Node]:
    """The values in one argument of an output: x, f"{x}", "{}".format(x) and "%f" % x."""
    if arg.kind == "string":
        parts = (p for p in arg.walk() if p.kind == "interpolation" and p.children)
        return [part.children[0] for part in parts]
    if arg.kind == "call":
        text = callee_text(arg)
        return positional(arg) if text.endswith(".format") and text[:1] in "\"'" else []
    if arg.kind == "binary" and arg.children[0].kind == "string":
        values = arg.children[-1]
        return values.children if values.kind == "tuple" else [values]
    return [arg] if arg.kind in ("name", "subscript") else []

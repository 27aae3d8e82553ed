"""What data loaders give, which is on the host until something moves it."""

import re

from perf_timing.lint.code.scopes import Scope, base_name, callee_text, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.file_context import FileContext

_MAKES_TENSOR = re.compile(
    r"torch\.(ones|zeros|empty|full|rand|randn|randint|arange|tensor|from_numpy)(_like)?\("
)


class Loaders:
    """Batches of data loaders, and other tensors of the host that are handed on as they are."""

    def __init__(self, file: FileContext) -> None:
        self._file = file
        self._scopes = file.scopes
        self._devices = file.devices
        self._is_used = "DataLoader(" in file.whole

    def gave(self, function: Node, scope: Scope) -> bool:
        """Whether a method is one of a batch as its loader gave it: of batch in batch.numpy()."""
        first = function
        while first.kind == "attribute" and first.children:  # labels.detach().cpu()
            first = first.children[0]
            first = first.children[0] if first.kind == "call" else first
        base = squeeze(first.text).partition(".")[0] if first.kind == "name" else ""
        values = [value for _, value in self._scopes.assignments(base, scope)] if base else []
        # Not labels = labels.cpu() itself, nor what it is given later in the loop.
        if not base or any(value.end <= function.start for value in values):
            return False
        listed = self._devices.iterated(base, scope, function)
        return listed is not None and self._is_loader(listed, scope)

    def _is_loader(self, listed: Node, scope: Scope) -> bool:
        """Whether a loop is over a loader, by its name or by that of what makes it."""
        names = [n for n in listed.walk() if n.kind == "name"]
        made = [v for n in names for _, v in self._scopes.assignments(squeeze(n.text), scope)]
        text = " ".join([listed.text, *(callee_text(v) for v in made if v.kind == "call")])
        return "loader" in text.lower() and not re.search(r"dali|prefetch", text, re.I)

    def holds(self, value: Node, scope: Scope) -> bool:
        """Whether a value is part of a batch that an iterator over a DataLoader gave: next(it)."""
        if value.kind != "subscript" or not self._is_used:
            return False
        given = [v for _, v in self._scopes.assignments(base_name(value.text), scope)]
        return bool(given) and all(v.kind == "call" and callee_text(v) == "next" for v in given)

    def gives_batch(self, node: Node, scope: Scope) -> bool:
        """Whether an argument is what a DataLoader of torch gave, and nothing moved it since."""
        if not self._is_used or self._file.moves:
            return False
        return any(self._is_batch(a, scope) for a in positional(node) if a.kind == "name")

    def gives_host_tensors(self, node: Node) -> bool:
        """Whether arguments, all of them values of the host, are tensors that nothing moves."""
        if self._file.moves:
            return False
        values = [
            value.text
            for argument in positional(node)
            for _, value in self._scopes.assignments(squeeze(argument.text))
        ]
        return any(_MAKES_TENSOR.match(squeeze(value)) for value in values)

    def _is_batch(self, name: Node, scope: Scope) -> bool:
        key = squeeze(name.text)
        listed = self._devices.iterated(key, scope, name)
        if listed is None or self._scopes.assignments(key, scope):
            return False
        if listed.kind == "call" and positional(listed):  # enumerate(loader), tqdm(loader)
            listed = positional(listed)[0]
        made = self._scopes.definition(listed, squeeze(listed.text), scope)
        return made is not None and callee_text(made).endswith("DataLoader")

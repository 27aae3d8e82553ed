"""Steps of a training loop in Python: loss.backward(), optimizer.step(), trainer.fit()."""

import re
from functools import cached_property

from perf_timing.lint.code.scopes import Scope, callee_text, positional
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import BLOCKING, PHASE, WORK
from perf_timing.lint.work.devices import HOST

# A trainer of a framework: its runs end with losses and metrics on the host.
_TRAINER = re.compile(
    r"(^|[._])trainer(_\w+|\d+)?\.(fit|train|evaluate|validate|test|predict)$", re.I
)


class TrainingCalls:
    """Backward passes, steps of optimizers and runs of trainers."""

    def __init__(self, file: FileContext) -> None:
        self._file = file
        self._scopes = file.scopes
        self._devices = file.devices
        self._evidence = file.evidence

    def goes_back(self, call: Call) -> set[str] | None:
        """loss.backward(), unless the loss is known to be on the host."""
        if call.full == "torch.autograd.grad" and not positional(call.node):
            return {WORK} if self._evidence else set()  # grad(outputs=tuple(...), inputs=...)
        if call.short != "backward":
            return None
        host = self._file.receiver(call.node, call.scope) == HOST
        if host and self._is_summed(call.node, call.callee, call.scope):
            host = False
        if host or not self._evidence:
            return set()
        return {BLOCKING} if self._reduces_on_host else {WORK}

    @cached_property
    def _reduces_on_host(self) -> bool:
        """Whether gradients are averaged over ranks by gloo, for whose end backward() waits.

        On an H200 it returned after 718 of 722 ms, with NCCL after 2 of 716 (torch 2.11, one rank).
        """
        named = re.findall(r"init_process_group\(\s*(?:backend\s*=\s*)?(\S+)", self._file.whole)
        if "DataParallel(" not in self._file.whole or not named:
            return False
        return all(re.match(r"[\"']gloo[\"']", given) for given in named)

    def steps(self, call: Call) -> set[str] | None:
        """optimizer.step(), unless the optimizer runs on the host."""
        callee = call.callee
        if call.short != "step":
            return None
        if self._is_on_host(call.node, callee, call.scope):
            return set()
        if self._is_deepspeed(callee.rpartition(".")[0], call.scope):
            return {BLOCKING} if self._evidence else set()
        named = re.search(r"opt|scaler|engine|adam|sgd", callee, re.IGNORECASE)
        if not named or re.search(r"sched", callee):
            return None
        # GradScaler.step() reads whether a gradient is infinite, and then lets the step go.
        reads = {BLOCKING} if re.search(r"scaler\d*\.step$", callee) else set()
        return {WORK} | reads if self._evidence else set()

    def trains(self, call: Call) -> set[str] | None:
        """trainer.fit()."""
        if not _TRAINER.search(call.callee):
            return None
        return {BLOCKING, PHASE} if self._evidence else set()

    def _is_summed(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether a loss is a sum: 0 to begin with, or sum(losses). No number goes back.

        Be it worked out here, or by a function that returns it.
        """
        value = self._scopes.definition(node, callee.rpartition(".")[0], scope)
        if value is None:
            return False
        made = self._scopes.called_function(value, scope) if value.kind == "call" else None
        if made is None:
            return value.kind == "number" or value.text.startswith("sum(")
        back = [n.children[0] for n in made.nodes if n.kind == "return" and n.children]
        parts = [p for v in back for p in (v.children if v.kind == "tuple" else [v])]
        values = [v for p in parts for _, v in self._scopes.assignments(p.text, made)]
        return any(value.text.startswith("sum(") for value in (*parts, *values))

    def _is_deepspeed(self, engine: str, scope: Scope) -> bool:
        """Whether deepspeed.initialize() made an engine: its throughput timer waits in each step.

        So it does by default from the third step on (deepspeed/utils/timer.py, ThroughputTimer).
        """
        return any(
            value.kind == "call"
            and self._scopes.resolve(callee_text(value)) == "deepspeed.initialize"
            for _, value in self._scopes.assignments(engine, scope)
        )

    def _is_on_host(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether the optimizer's name, class or parameters say that it runs on the host."""
        key = callee.rpartition(".")[0]
        value = self._scopes.definition(node, key, scope)
        if value is None or value.kind != "call":
            passed = self._scopes.argument_values(scope, key)
            value = passed[0] if passed else None
        if value is None:
            return "cpu" in key.lower()
        if re.search(r"cpu", value.text.partition("(")[0], re.IGNORECASE):
            return True
        where = self._scopes.scope_of(value)
        given = positional(value)
        return bool(given) and self._devices.of(given[0], where) == HOST

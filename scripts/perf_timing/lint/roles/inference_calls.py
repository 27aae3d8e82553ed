"""Engines and pipelines that run a whole model for Python, and hand back results on the host."""

import re
from functools import cached_property

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import Scope, keyword
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import Call
from perf_timing.lint.roles.file_context import FileContext
from perf_timing.lint.roles.names import BLOCKING, WORK

_QUEUES_ENGINE = ("execute_async_v2", "execute_async_v3", "execute_async", "enqueue_v3")


class InferenceCalls:
    """Keras, ONNX Runtime, ExecuTorch, TensorRT, and pipelines of diffusers and transformers."""

    def __init__(self, file: FileContext) -> None:
        self._file = file
        self._scopes = file.scopes

    def predicts(self, call: Call) -> set[str] | None:
        """A method that returns when its results are on the host."""
        if not self._is_blocking(call):
            return None
        return {BLOCKING} if self._file.evidence else set()

    def runs_session(self, call: Call) -> set[str] | None:
        """session.run(None, inputs)."""
        if call.short != "run":
            return None
        session = re.search(r"sess", call.callee) or self._is_session(call.callee, call.scope)
        return {BLOCKING} if session else None

    def _is_blocking(self, call: Call) -> bool:
        method = "." in call.callee
        if method and call.short in words.KERAS_BLOCKING and "tensorflow" in self._file.libraries:
            return True
        if (method and call.short in words.BLOCKING_NAMES) or call.full.endswith("session.run"):
            return True
        if method and call.short == "forward" and self._is_executorch:
            return True  # its outputs are on the host
        return self._is_pipeline(call.node, call.callee, call.scope)  # images or text come back

    def _is_pipeline(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether a pipeline of diffusers or transformers is called, whose results are on the host.

        It is known by its name, by the class that it was made of, or by the images taken from it.
        """
        if _output_type(node) in ("latent", "pt"):
            return False
        if re.fullmatch(r"(self\.)?(\w+_)?(pipe|pipeline)(_\w+|\d+)?", callee):
            return True
        parent = node.parent
        if (
            parent is not None
            and parent.kind == "attribute"
            and parent.text.endswith(words.PIPELINE_OUTPUTS)
        ):
            return True
        if not self._has_pipelines:
            return False
        made = self._scopes.definition(node, callee, scope)
        return made is not None and bool(words.PIPELINE.search(made.text[:200]))

    def _is_session(self, callee: str, scope: Scope) -> bool:
        """Whether a method is one of an InferenceSession of ONNX Runtime."""
        if "InferenceSession" not in self._file.text:
            return False
        pairs = self._scopes.assignments(callee.rpartition(".")[0], scope)
        return any("InferenceSession(" in value.text[:80] for _, value in pairs)

    @cached_property
    def _has_pipelines(self) -> bool:
        return "Pipeline" in self._file.text or "pipeline(" in self._file.text

    @cached_property
    def _is_executorch(self) -> bool:
        names = self._scopes.imports.values()
        return any(full.partition(".")[0] == "executorch" for full in names)


def queues_engine(call: Call) -> set[str] | None:
    """TensorRT's engines: context.execute_async_v3(stream)."""
    return {WORK} if call.short in _QUEUES_ENGINE else None


def _output_type(node: Node) -> str:
    """What a diffusers pipeline is asked for; images and arrays are on the host."""
    kind = keyword(node, "output_type")
    return "" if kind is None else kind.text.strip("\"'")

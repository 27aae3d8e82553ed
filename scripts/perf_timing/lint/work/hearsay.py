"""Work that is told by hearsay: an unknown function of another file is given tensors.

It may well wait for them before it returns, as what generates, decodes or stores them does. What it
is given is enough to ask for a warm-up, and too little to say that nothing waits for it.
"""

import re

from perf_timing.lint import roles as r
from perf_timing.lint.code import elsewhere_cpp
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text, last_segment
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.measured.regions import Region
from perf_timing.lint.work.devices import DEVICE

# Methods that give the device work, whatever object has them.
_QUEUES = re.compile(
    r"(forward|backward|step|apply|run|launch|replay|execute|__call__|fwd|bwd|copy_?|compute|call)$"
    r"|execute_async(_v\d)?$|enqueue(_?v\d)?$|launch_tiled$|capture_launch$"
    r"|\w*(_forward|_backward|_fwd|_bwd|kernel|attention|attn|gemm|matmul|_func|_fn|_op)$"
)
# Whole pipelines, which read what they make: what they return is text, images or numbers.
_PIPELINES = re.compile(
    r"(^|_)(sampl\w*|generat\w*|inference\w*|infer|decod\w+|search|stream\w*|retriev\w*|stor(e|ing)"
    r"|predict_proba|evaluate|put|fetch|send|recv|push|pull|save|load)(_|$)"
)


def is_hearsay(source: SourceFile, step: Step) -> bool:
    """Whether no file that is looked into shows what the call of a step does, nor does its name."""
    if step.node.kind != "call" or r.WORK not in step.roles:
        return False
    callee = callee_text(step.node)
    if source.language == "cuda":
        return (
            r.LIKELY in step.roles
            and not source.roles.launches_by_name(callee)
            and source.leaves_device(step.node) == elsewhere_cpp.UNKNOWN
        )
    return _is_strange(source, step, callee)


def _is_strange(source: SourceFile, step: Step, callee: str) -> bool:
    scopes = source.scopes
    full = scopes.resolve(callee)
    short = last_segment(callee)
    names = {callee, short, full}
    if names & source.helpers.gpu or short in scopes.functions or short in scopes.call_aliases:
        return False
    if full.startswith(words.ARRAY_MODULES) or "[" in callee:
        return False
    receiver = callee.rpartition(".")[0]
    method = bool(receiver) and receiver.partition(".")[0] not in scopes.imports
    if method and (short in words.TENSOR_VERBS or re.search(r"(^|_)stream(_|$)", short)):
        return False
    if words.MODEL.search(callee):
        return False
    if method and not _QUEUES.match(short) and receiver not in ("self", "cls"):
        return source.roles.receiver(step.node, scopes.scope_of(step.node)) != DEVICE
    return bool(_PIPELINES.search(short))


def is_small_exchange(region: Region, step: Step) -> bool:
    """Whether ranks exchange what was read before: a flag or a count after the work was done."""
    if step.node.kind != "call" or not words.COLLECTIVE.search(callee_text(step.node)):
        return False
    return any(s.waits and s.position < step.position for s in region.steps)

"""Models by their names, and what a function does with a model that it is given."""

import re

from perf_timing.lint.code.scopes import Scope, positional, squeeze
from perf_timing.lint.facts import Node
from perf_timing.lint.roles.calls import keywords
from perf_timing.lint.work.devices import DEVICE, Devices

# A variable that holds a model, and functions that run one which they are given.
_A_MODEL = re.compile(
    r"^(\w+\.)*(\w*model(_(?!in|out|arg|kw|data|loss|pred|batch|feat|tensor|state)\w+)?|net|network|module|unet|vae|\w*transformer|\w*(en|de)coder"
    r"|backbone|pipe(line)?)$"
)
_A_LOADER = re.compile(r"loader(_\w+)?$", re.IGNORECASE)
_RUNS_MODEL = re.compile(
    r"run|forward|fwd|bwd|infer|generat|predict|train|step|bench|warm|test|eval|sampl|call|exec"
    r"|decode|encode|time|timing|profile|measure|fit|process|work|loop|iter|serve|do_|loss|apply"
    r"|simulat|rollout|denoise|render|kernel|attn|gemm|latency|speed|throughput|perf|epoch|gpu|cuda"
)


def is_about_model(node: Node, head: str) -> bool:
    """Whether a method of a model is called, or a function whose first argument is one."""
    return any(_A_MODEL.search(squeeze(n)) for n in (head, *(a.text for a in positional(node)[:1])))


def has_model(node: Node) -> bool:
    """Whether an argument is a model, by its name."""
    return any(_A_MODEL.search(squeeze(a.text)) for a in _given(node))


def is_pass(node: Node) -> bool:
    """Whether a function of another file is given a model and a loader of data for it."""
    loaders = (a for a in positional(node) if _A_LOADER.search(squeeze(a.text)))
    return next(loaders, None) is not None and has_model(node)


def only_asks_model(node: Node, scope: Scope, short: str, devices: Devices) -> bool:
    """Whether all that a function gets of the device is a model that it does not run.

    optimize_model(model) and get_batch_size(model) change or ask the model; nothing is queued.
    """
    there = [a for a in _given(node) if devices.of(a, scope) == DEVICE]
    models = bool(there) and all(_A_MODEL.search(squeeze(a.text)) for a in there)
    return models and not _RUNS_MODEL.search(short)


def _given(node: Node) -> list[Node]:
    """The arguments of a call, those with a keyword too."""
    return [*positional(node), *(k.children[-1] for k in keywords(node) if k.children)]

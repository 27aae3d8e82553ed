"""Library calls of C++ of one name that launch different kernels, by what they are given.

`cufftExecC2C(forward, ...)` runs the kernels of its plan, and `thrust::transform(..., Square())`
the one that was compiled for its function object: the first run of another plan or object loads
other kernels. Told are plans by their names and function objects by their types, or a lambda by its
text.
"""

import re
from collections.abc import Iterator

from perf_timing.lint.code.scopes import callee_text, last_segment, positional, squeeze
from perf_timing.lint.facts import Node

_RUNS_PLAN = re.compile(r"^(cu|hip|roc)fft(Xt)?(Mp)?(Exec\w*|_execute)$")
_COMPILED_FOR = re.compile(r"(^|::)thrust::(\w+::)*\w+$")
# Calls among the arguments of an algorithm that give it data and no function object.
_GIVES_DATA = re.compile(
    r"^(c?r?(begin|end)|data|get|size|make_\w+|raw_pointer_cast|device_pointer_cast|on|min|max"
    r"|device_ptr|\w+_iterator|\w+_cast|pair|tuple|par|par_nosync|sizeof|(u?int|float|double|char"
    r"|long|short|bool|half|complex|size_t|unsigned)\w*|T)$"
)


def chosen_by(call: Node) -> str:
    """What tells one kernel of a library call from another; "" where nothing does."""
    if call.kind != "call" or call.tree.language != "cuda":
        return ""
    name = squeeze(re.sub(r"<.*", "", callee_text(call)))
    given = positional(call)
    if _RUNS_PLAN.match(last_segment(name)) and given:
        return " of " + re.sub(r"\[.*", "", squeeze(given[0].text)).lstrip("*&")
    if _COMPILED_FOR.search(name):
        return "".join(f" with {made}" for made in _function_objects(given))
    return ""


def _function_objects(given: list[Node]) -> Iterator[str]:
    """The types of the objects that an algorithm is given, as the call itself makes them."""
    for argument in given:
        if argument.kind == "lambda":
            yield squeeze(argument.text)
        made = re.match(r"((?:::)?\w+(?:::\w+)*)\s*(<[^;]*>)?\s*[({]", argument.text)
        if made and not _GIVES_DATA.match(last_segment(made[1].replace("::", "."))):
            yield squeeze(made[1] + (made[2] or ""))

"""Times of a whole program or of a phase of it, which are no figure of a kernel.

They tell how long a run took, or how it gets on: shown in minutes or as "done (3.2s)", with the
parsing of arguments, a pass over a data set or the loading of a model inside; in C++ with the
copies in and out, or a stage that is nothing but a copy, beside a figure of the kernels.
"""

import re

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text, loop_body
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import fates
from perf_timing.lint.intent import purpose
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.parsing.preprocessor import switched_on
from perf_timing.lint.work import workload

# What is called once at the start of a program.
_STARTS = re.compile(
    r"(^|[._])(parse_(known_)?args|ArgumentParser|basicConfig|set_start_method|init_process_group)$"
    r"|^(ti|taichi)\.init$"
)
# A function that measures with events the run time of something, which is no program then.
_MEASURES = re.compile(r"_?(measure|profile|bench(mark)?|time|timeit)(_|$)")
# How a program says how long it ran.
_RUN_TIME = re.compile(
    r"(?<![a-z])(finished|completed|experiment|script|program|overall)(?![a-z])"
    r"|execution took|wall[ _-]?(clock[ _-]?)?time|end[ _-]?(to|2)[ _-]?end"
    r"|total[ _]*(run|elapsed|train\w*|eval\w*|processing|wall)?[ _-]*(time|duration|seconds)"
    r"|(training|quanti[sz]ation|calibration|evaluation|run)[ _]*(time|duration|completed|took)"
    r"|(quanti[sz]|calibrat|sparsif|prun)\w*(\W+\w+){0,6}\W+took"
    r"|seconds to (quanti[sz]e|calibrate)"
    r"|run_?time(?![a-z])|time_to_train|(?<![a-z])(whole|entire)(?![a-z])|time elapsed",
    re.IGNORECASE,
)
_LONG_UNITS = re.compile(
    r"timedelta\(|strftime\(|gmtime\(|//?\s*(60|3600)(\.0*)?(?![\d.])|hh:mm|(?<![a-z])(minutes|hours|mins)\b"
)
# How a phase says that it is over, in tenths of seconds.
_DONE = re.compile(r"(?<![a-z])(done|finished|completed?|ready)(?![a-z])", re.IGNORECASE)
# A figure in whole seconds: what a kernel adds to it nobody sees.
_WHOLE = re.compile(r":\.0f\}\s*s(ec(ond)?s?)?(?![a-z])|%\.0f\s*s(ec(ond)?s?)?(?![a-z])")
_ROUGH = re.compile(r":\.[012]f\}\s*s|%\.[012]fs|%\.[012]f s")


@remembered
def is_program(source: SourceFile, region: Region) -> bool:
    """Whether a region is the run time of a program or of a phase of it, and no figure of a kernel.

    Its arguments are parsed inside; the figure is shown in minutes or as a clock shows it; a phase
    of another file runs inside; or its name says so and no work is seen but in helpers.
    """
    if source.language != "python":
        return False
    if any(r.PHASE in s.roles for s in region.steps):
        return True
    helpers = [s.helpers[0].short_name if s.helpers else "" for s in workload.works(region)]
    if helpers and all(
        re.match(r"(main(_.*)?|run_main|train|validate|evaluate|test|_bench_\w+)$", name)
        for name in helpers
    ):
        return True
    calls = (n for n in region.scope.nodes if n.kind == "call" and region.holds(n))
    if any(_STARTS.search(callee_text(call)) for call in calls):
        return True
    if shown_in_hours(source, region) or _WHOLE.search(_shown(source, region)):
        return True
    if region.kind == "event" and _MEASURES.match(region.scope.short_name):
        return False
    direct = any(s.works and not s.helpers and r.LIKELY not in s.roles for s in region.steps)
    direct |= _repeats_given(source, region) or _is_one_answer(region)
    return not direct and not region.sample_loops and bool(_RUN_TIME.search(source.intent(region)))


def _repeats_given(source: SourceFile, region: Region) -> bool:
    """Whether a function that measures runs, again and again, what it is given to measure."""
    return purpose.is_named_so(source, region.end) and any(
        (r.OPAQUE in s.roles or callee_text(s.node) in region.scope.parameters)
        and not s.helpers
        and region.inner_loops(s.site)
        for s in region.steps
        if s.node.kind == "call"
    )


def _is_one_answer(region: Region) -> bool:
    """Whether nothing but one call of a model that answers runs between two readings."""
    calls = [s for s in region.steps if s.works or s.roles & {r.BLOCKING, r.OPAQUE, r.COPY}]
    return len(calls) == 1 and bool(_ANSWERS.search(callee_text(calls[0].node)))


def shown_in_hours(source: SourceFile, region: Region) -> bool:
    """Whether a time is shown in minutes or hours, or as a clock shows it."""
    return bool(_LONG_UNITS.search(_shown(source, region)))


@remembered
def is_progress(source: SourceFile, region: Region) -> bool:
    """Whether a program tells how it gets on: "done (3.2s)". Its waits matter, its samples not."""
    shown = _shown(source, region) if source.language == "python" else ""
    return bool(_DONE.search(shown) and _ROUGH.search(shown)) or is_program(source, region)


def _shown(source: SourceFile, region: Region) -> str:
    """The statements that show the time of a region, and those that scale it."""
    value = fates.fate(source, region)
    uses = [u for name in value.names for u in source.uses(name, region.scope)]
    places = [region.delta, *value.printed, *uses]
    statements = {id(s): s for s in map(source.statement, places) if s.kind not in _BLOCKS}
    return "\n".join(s.text[:300] for s in statements.values())


_BLOCKS = ("if", "for", "with", "while", "try", "function", "class")
_COUNTED = re.compile(
    r"^(\w+\.)*(t?range|trange|xrange|repeat|arange|progress_bar|count)\(|^(enumerate|tqdm[\w.]*|zip|list)\(\s*"
    r"(\w+\.)*(t?range|count)\("
)


@remembered
def passes_over_data(region: Region) -> bool:
    """Whether a loop inside the region goes through a data set: it uploads batch after batch."""
    for step in region.steps:
        for loop in region.inner_loops(step.site) if step.roles & {r.UPLOAD, r.READ} else ():
            listed = loop.children[1].text if len(loop.children) > 1 else ""
            if loop.kind == "for" and listed and not _COUNTED.match(listed):
                return True
    return False


_LOADER = re.compile(r"loader|data_?set|(^|[._(])(coco|dali|data_iter\w*|dl)\b", re.IGNORECASE)


def samples_data(region: Region) -> bool:
    """Whether the samples are the batches of a data set: the first is one of very many."""
    return any(
        loop.kind == "for" and len(loop.children) > 1 and _LOADER.search(loop.children[1].text)
        for loop in region.sample_loops
    )


def is_phase(region: Region) -> bool:
    """Whether all work is in helpers that loop: a phase of a program, not a repeatable call.

    A loop that does the same again and again, and does not look at its counter, is no phase; nor is
    what such a loop takes samples of, or a loop over pairs of events.
    """
    loops = region.sample_loops
    if loops and all(_goes_over_events(region, n) or not _goes_on(n) for n in loops):
        return False
    return all(
        any(_goes_on(n) for helper in s.helpers[:1] for n in helper.nodes)
        for s in workload.works(region)
    )


def _goes_over_events(region: Region, loop: Node) -> bool:
    """Whether a loop brings the events that it records: for start, end in pairs:"""
    recorded = callee_text(region.start).partition(".")[0]
    return (
        region.kind == "event"
        and loop.kind == "for"
        and any(n.kind == "name" and n.text == recorded for n in loop.children[0].walk())
    )


def _goes_on(loop: Node) -> bool:
    """Whether a loop does something else each time around."""
    if loop.kind not in ("for", "while"):
        return False
    body = loop_body(loop)
    if loop.kind == "while" or body is None or not _COUNTED.match(loop.children[1].text):
        return True
    counter = loop.children[0].text
    return any(n.kind == "name" and n.text == counter for n in body.walk())


_LOADS = re.compile(
    r"(^|[._])(get|load|build|create|make|init|initiali[sz]e|setup|restore)_(\w+_)?"
    r"(model|pipe|pipeline|network|net|engine|checkpoint|ckpt|weights|adapter|processor)s?$"
)


@remembered
def loads_model(source: SourceFile, region: Region) -> bool:
    """Whether all that runs is a function of the file that makes a model, as its name says."""
    sites = {callee_text(s.site) if s.site.kind == "call" else "" for s in workload.works(region)}
    return source.language == "python" and bool(sites) and all(map(_LOADS.search, sites))


@remembered
def is_long(source: SourceFile, region: Region) -> bool:
    """Whether a Python region is one answer of a whole model, which is many kernels long.

    That is a call that generates, or one function of the file in which much is computed.
    """
    steps = _beside_copies(region)
    return runs_much_once(source, region) or (
        source.language == "python"
        and bool(steps)
        and all(r.BLOCKING in s.roles and _ANSWERS.search(callee_text(s.node)) for s in steps)
    )


@remembered
def runs_much_once(source: SourceFile, region: Region) -> bool:
    """Whether a Python region is one call of a function of the file in which much is computed."""
    steps = _beside_copies(region)
    inside = all(s.helpers for s in steps) and len({id(s.site) for s in steps}) == 1
    computed = sum(r.ARITHMETIC not in s.roles for s in steps)
    return source.language == "python" and inside and computed >= _MANY


def _beside_copies(region: Region) -> list[Step]:
    return [s for s in workload.works(region) if r.COPY not in s.roles]


_MANY = 10
_ANSWERS = re.compile(r"(^|[._])(generate|chat|pipe|pipeline|transcribe|synthesi[sz]e)$")


@remembered
def is_total(source: SourceFile, region: Region) -> bool:
    """Whether C++ code is measured as a whole, from its copy in to its copy out, and says so."""
    if source.language != "cuda" or not workload.copies_both_ways(region):
        return False
    said = re.findall(r'"[^"]*"', source.intent(region))
    total = any(_TOTAL.search(text) for text in said) and not _is_kernel_time(source, region)
    return total or is_offload(source, region)


def _is_kernel_time(source: SourceFile, region: Region) -> bool:
    """Whether a value is called the time of kernels; one text may tell it and the total."""
    names = re.sub(r'"[^"]*"', "", source.intent(region)).removeprefix(region.scope.name)
    return bool(_KERNEL.search(names)) and not _TOTAL.search(names)


_KERNEL = re.compile(r"kernel|(?<![a-z])gpu[ _]?(only|compute)", re.IGNORECASE)
_TOTAL = re.compile(
    r"(?<![a-z])(total|overall|whole|entire|end[ _-]?(to|2)[ _-]?end|e2e|application|program)"
    r"(?!\w*[ _]*(gpu|kernel|device|bytes|flops))",
    re.IGNORECASE,
)
_OFFLOAD = re.compile(r"(?<![a-z])offload(ing)?(?![a-z])", re.IGNORECASE)


@remembered
def is_offload(source: SourceFile, region: Region) -> bool:
    """Whether C++ code is measured with its copies in and out, beside a figure of the kernels.

    That one is taken inside, in every build, or the text says that all that is offloaded is meant.
    """
    if source.language != "cuda" or not workload.copies_both_ways(region):
        return False
    return bool(_OFFLOAD.search(source.intent(region))) or any(
        other is not region
        and other.scope is region.scope
        and other.kind in ("clock", "event")
        and region.holds(other.start)
        and region.holds(other.end)
        and (other.start, other.end) != (region.start, region.end)
        and any(s.works and r.COPY not in s.roles for s in other.steps)
        and not workload.copies_both_ways(other)
        and switched_on(source, other.start) in (None, switched_on(source, region.start))
        for other in source.regions.all
    )

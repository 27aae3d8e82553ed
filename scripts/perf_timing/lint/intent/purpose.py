"""Whether measuring is what code is for, or a product takes times beside its work.

Rules that judge how well something is measured (its warm-up, its spread, what stands in the
measured loop) ask `is_measuring` of a piece of Python first, with BENCHMARK_ONLY. A server, a demo
or a training script also takes times, end to end and once; nobody reads a kernel's speed from
those. Two things tell:

- a name that speaks of measuring: of the file, its folder, a function or a class around the place;
- how much of the file is about time: a reading, an event or a wait in every 33 lines; or of the
  block under `if __name__ == "__main__"`, where that times repetitions.

On public code that neither tells, none of 31 such findings was right; see lint-accuracy.md. Rules
that judge one region also ask `is_told_finely` how its time is shown.
CUDA C++ and notebooks are always asked: they are programs of one purpose.

`is_benchmark` tells the same of one measured region, in C++ too: the classes and callers around it
and where its figure goes count. The rest are regions that are none for a reason of their own: a
service, a dialogue, an example that saves what it makes, an application with its times switched on.
"""

import re
from functools import lru_cache
from pathlib import Path

from perf_timing.lint import roles as r
from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, loops_around, target_key
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.figures import comparisons, fates
from perf_timing.lint.intent import searches
from perf_timing.lint.measured.regions import Region, remembered
from perf_timing.lint.parsing.preprocessor import switched_on
from perf_timing.lint.work import workload

_NAMES = re.compile(
    r"bench|perf(?!etto)|profil|timing|timer|latenc|throughput|speed|flops|gemm|elapsed"
    r"|stopwatch|roofline|bandwidth|measure(?!ment|s)",
    re.IGNORECASE,
)
_TIMING = re.compile(
    r"perf_counter|\btime\.time\(|\btime\(\)|Event\(|elapsed_time\(|synchronize\(|monotonic\(|timeit"
    r"|do_bench|\.record\(|process_time|Timer\(|\btimer\(\)|block_until_ready"
)
_SHARE = 0.03


def is_measuring(source: SourceFile, node: Node) -> bool:
    """Whether the code around `node` is there to measure something."""
    unit = source.unit
    if unit.language != "python" or unit.places or _is_about_time(unit.text):
        return True
    return is_named_so(source, node) or _is_trial(node)


def _is_trial(node: Node) -> bool:
    """Whether `node` stands in the block of a module's `__main__` that times repetitions.

    That is how people try the model of a file; what a program does there takes no times of a loop.
    """
    for parent in node.ancestors():
        if parent.kind == "if" and _MAIN.search(parent.children[0].text):
            text = parent.text
            return _REPEATS.search(text) is not None and _is_about_time(text)
    return False


_MAIN = re.compile(r"__name__\s*==\s*[\"']__main__[\"']")
_REPEATS = re.compile(r"^\s*for\s+\w+\s+in\s+(tqdm\()?range\(", re.MULTILINE)


def is_named_so(source: SourceFile, node: Node) -> bool:
    """Whether the file, its folder, a function or a class around `node` speaks of measuring."""
    names = list(_places(source.unit.path))
    for scope in source.scopes.scope_of(node).enclosing():
        names += [scope.name, scope.class_name]
    return any(_NAMES.search(name) for name in names)


@remembered
def is_told_finely(source: SourceFile, region: Region) -> bool:
    """Whether a plain Python function prints a time in milliseconds, or holds it against another.

    Who looks so closely at what the device does is there to measure, whatever the code is called.
    That a decorator prints so tells nothing of what it will be put on.
    """
    if source.language != "python" or region.kind not in ("clock", "event"):
        return False
    if any(scope.class_name for scope in region.scope.enclosing()) or region.wraps_measurement:
        return False
    if _runs_given(region):
        return False
    shown = (node.text for node in fates.fate(source, region).printed)
    return any(map(_MILLISECONDS.search, shown)) or comparisons.with_another(source, region)


def _runs_given(region: Region) -> bool:
    """Whether all work is a call of what the function, or the one around it, is given."""
    given = {name for scope in region.scope.enclosing() for name in scope.parameters}
    sites = [step.site for step in workload.works(region)]
    return all(site.kind == "call" and callee_text(site) in given for site in sites)


_MILLISECONDS = re.compile(
    r"(?<![a-z])(ms|us|msecs?|usecs?|(milli|micro)sec\w*)(?![a-z])", re.IGNORECASE
)


@lru_cache(maxsize=2)  # every report of a file asks
def _is_about_time(text: str) -> bool:
    return len(_TIMING.findall(text)) >= _SHARE * (text.count("\n") + 1)


def _places(path: str) -> tuple[str, ...]:
    """Names of the file and its folder, the same from wherever the linter is called."""
    return Path(path).absolute().parts[-2:] if path else ()


BENCHMARK = re.compile(
    r"bench|time|timing|timed|measure|perf|profil|speed|latency|throughput|test|eval|fps"
    r"|main|compare|demo"
    r"|experiment|trial|run_|^run|tflops|bandwidth|infer",
    re.IGNORECASE,
)
# A file that is a benchmark by its name, whatever its classes are called.
_NAMED_SO = re.compile(
    r"(^|_)(bench|benchmark(s|ing)?|perf|timing|speed|latency|throughput|profil\w+)(_|$)",
    re.IGNORECASE,
)
# A figure that goes to the log of a training or a service, step by step.
_LOGGED = re.compile(
    r"add_scalar|wandb|mlflow|log_metrics|log_dict|\bmetrics\[|meter", re.IGNORECASE
)


def _one_call(source: SourceFile, region: Region) -> bool:
    """Whether a region of C++ is one call of a straight function that times parts of itself."""
    helpers = {s.helpers[0].node.start: s.helpers[0] for s in workload.works(region) if s.helpers}
    sites = {id(s.site) for s in workload.works(region)}
    if source.language != "cuda" or len(helpers) != 1 or len(sites) != 1:
        return False
    (helper,) = helpers.values()
    inside = [g for g in source.regions.all if g.scope is helper and g.timer is None]
    return bool(inside) and not any(n.kind in ("for", "while") for n in helper.nodes)


def _wraps_watch(source: SourceFile, region: Region) -> bool:
    """Whether a stopwatch of C++ runs around cycles that use others, as that of a program."""
    if source.language != "cuda":
        return False
    timed = {id(other.scope) for other in source.regions.all if other.watch}
    return any(
        region.inner_loops(step.site)
        for step in region.steps
        if any(id(helper) in timed for helper in step.helpers)
    )


def _is_one_launch(source: SourceFile, region: Region) -> bool:
    """Whether a method of C++ records events around what it starts, and prints what they say."""
    launched = any(s.works and not s.helpers for s in region.steps)
    shown = fates.fate(source, region).printed
    calls = {last_segment(callee_text(n)) if n.kind == "call" else "cout" for n in shown}
    return region.kind == "event" and launched and calls <= {"printf", "cout"}


def _benchmark_calls(source: SourceFile, function: Scope, depth: int) -> bool:
    """Whether a function that is a benchmark by its name, RunBenchmark(), calls another one."""
    callers = [source.scopes.scope_of(site) for site in source.scopes.call_sites(function)]
    return depth < _MOST_CALLS and any(
        re.search("bench", caller.short_name, re.IGNORECASE)
        or _benchmark_calls(source, caller, depth + 1)
        for caller in callers
        if caller is not function
    )


_MOST_CALLS = 3


def _returns_measurement(source: SourceFile, region: Region, function: Scope) -> bool:
    """Whether a plain function of C++ returns a record of the time of what it launches itself.

    return Measurement("csr", seconds, 0); the time alone is for unknown callers to repeat.
    """
    launches = any(s.node.kind == "launch" and not s.helpers for s in region.steps)
    if source.language != "cuda" or function.class_name or not launches:
        return False
    returned = (part for n in fates.fate(source, region).returned for part in n.children)
    return any(
        made.kind in ("call", "list") and any(n.kind == "string" for n in made.walk())
        for made in returned
    )


@remembered
def is_benchmark(source: SourceFile, region: Region) -> bool:
    """Whether a region measures for the sake of the figure: not a timer inside a product's code."""
    if region.kind == "harness":
        return True
    if region.wraps_measurement and not _one_call(source, region):
        return False
    if region.watch and _wraps_watch(source, region):
        return False
    if region.hooked or region.carried or any(s.is_async for s in region.scope.enclosing()):
        return False
    if _LOGGED.search(source.statement(region.delta).text[:400]):
        return False
    scopes = [s for s in region.scope.enclosing() if s.node.kind == "function"]
    if not scopes:
        return True
    if fates.enters_result(source, region) or searches.decides(source, region):
        return True
    if (
        source.language == "cuda"
        and fates.fate(source, region).printed
        and (not scopes[-1].class_name or _is_one_launch(source, region))
    ):
        # Products do not print times to the terminal from a plain function, nor do their methods
        # record events around a launch for that.
        return True
    if _returns_measurement(source, region, scopes[-1]):
        return True
    if any(s.class_name for s in scopes):
        names = " ".join([*(s.class_name for s in scopes), *(s.short_name for s in scopes)])
        stem = re.split(r"[\\/]", source.unit.path)[-1].partition(".")[0]
        if source.language == "python" and _NAMED_SO.search(stem):
            return True
        return bool(
            re.search(
                r"bench|timing|measure|latency|throughput|profil|(?<!deep)speed|timeit|perf(?!orm)",
                names,
                re.IGNORECASE,
            )
        )
    if source.language == "cuda" and "main" in source.scopes.functions:
        return True  # a program of one file, which prints what it measures
    if source.language == "cuda" and _benchmark_calls(source, scopes[-1], 0):
        return True
    if BENCHMARK.search(scopes[0].short_name) or BENCHMARK.search(scopes[-1].short_name):
        return True
    return bool(BENCHMARK.search(re.split(r"[\\/]", source.unit.path)[-1]))


_SERVERS = re.compile(r"^(gradio|streamlit|fastapi|flask|starlette|uvicorn|ray\.serve|chainlit)\b")


def serves(source: SourceFile) -> bool:
    """Whether a Python file is a web page or a service, which shows what one request took."""
    return source.language == "python" and any(
        _SERVERS.match(full) for full in source.scopes.imports.values()
    )


def answers_user(source: SourceFile, region: Region) -> bool:
    """Whether each turn of a dialogue is timed, in a loop that asks for input, and told."""
    places = [region.start, *source.scopes.call_sites(region.scope)]
    loops = (loop for place in places for loop in loops_around(place) if loop.kind == "while")
    return source.language == "python" and any(
        n.kind == "call" and callee_text(n) == "input" for loop in loops for n in loop.walk()
    )


_SAVES = re.compile(r"(^|[._])(save|save_image|save_video|imwrite|export_to_\w+|write_video)$")


def makes_product(source: SourceFile, region: Region) -> bool:
    """Whether an example runs a pipeline once to save what comes out, and says how long it took."""
    if source.language != "python" or region.sample_loops:
        return False
    if not any(r.BLOCKING in s.roles for s in region.steps):
        return False
    made = {
        target_key(node.children[0])
        for node in region.scope.nodes
        if node.kind == "assign" and region.holds(node)
    }
    later = (n for n in region.scope.nodes if n.kind == "call" and n.start > region.end.end)
    return any(
        _SAVES.search(callee_text(call))
        and any(n.kind == "name" and n.text.partition(".")[0] in made for n in call.walk())
        for call in later
    )


@remembered
def profiles(source: SourceFile, region: Region) -> bool:
    """Whether both readings are compiled only where a macro asks for times: #ifdef DEBUG_TIME.

    An application that runs as a whole tells then how its time is made up. Two separate directives
    are asked for: a program that is itself the measurement has all of it in one.
    """
    if source.language != "cuda" or region.kind != "clock":
        return False
    if "main" in source.scopes.functions:
        return False  # a program of one file is a measurement rather than an application
    first, last = (switched_on(source, node) for node in (region.start, region.end))
    return first is not None and last is not None and first != last


_ENGINE = re.compile(r"(^|[._])(llm|engine|llm_engine|server)\.(generate|chat|encode|embed|score)$")


def runs_engine(source: SourceFile, region: Region) -> bool:
    """Whether all work is that of an engine for language models, which warms up by itself."""
    steps = workload.works(region)
    return (
        source.language == "python"
        and bool(steps)
        and all(s.node.kind == "call" and _ENGINE.search(callee_text(s.node)) for s in steps)
    )


def is_shown_once(region: Region) -> bool:
    """Whether `%time` of a notebook shows how long a cell takes, its first execution and all."""
    return "_ipython_time(" in region.report.text[:40]


def unused(source: SourceFile, scope: Scope) -> bool:
    """Whether a function is private to the file, by its name, and nothing in the file uses it."""
    name = scope.short_name
    if not re.match(r"_[^_]", name) or scope.class_name:
        return False
    return not any(
        last_segment(node.text) == name
        for node in source.tree.of_kind("name")
        if node.parent is not scope.node
    )

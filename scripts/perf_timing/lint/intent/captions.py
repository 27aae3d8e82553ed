"""What the names and remarks at a measurement say that it measures.

A first, cold execution with its compilation or warm-up; what a launch costs the host; host time.
"""

import re

from perf_timing.lint import roles as r
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region, remembered


@remembered
def means_first(source: SourceFile, region: Region) -> bool:
    """Whether the names say that the first, cold execution is what is measured."""
    if _headed_warm(source, region.start):
        return True
    said = re.sub(r"torch\.compile", "", source.intent(region))
    said = _DOES_BOTH.sub("", said)
    said = _AFTER_WARM.sub("", said)
    return bool(
        re.search(
            r"first|cold|ttft|compil(?!ed)|compiled in\b|(?<![a-z])code[ _-]?gen|startup|start_up"
            r"|warm_?-?up"
            r"|(?<![a-z])load(?!er)"
            r"|(?<![a-z])init|(?<![a-z])build|setup|download|captur|(?<![a-z])tun(e|ing)"
            r"|auto[ _-]?tun(e|ing)[ _]*(time|took|takes|cost|duration)"
            r"|(?<![a-z])allocat(e|ed|ing|ion)(?![a-z])"
            r"|conver(t|ting|sion)\W+(\w+\W+){0,2}(model|checkpoint|weights|ckpt)",
            said,
            re.IGNORECASE,
        )
    )


# A function that prepares and runs: init_and_run(), setupAndLaunch().
_DOES_BOTH = re.compile(
    r"\b\w*(_and_|And(?=[A-Z]))_?(?i:run|bench|launch|time|measure|exec|test|eval|infer)\w*"
)
# That of a figure which was taken behind it: "post-warmup", "after warm-up".
_AFTER_WARM = re.compile(
    r"(?<![a-z])(post|after|past|following|excluding|excl\.?)[ _-]?(the[ _])?warm_?-?up",
    re.IGNORECASE,
)


def remarks_above(source: SourceFile, region: Region) -> str:
    """The remarks right above a measurement or above the loop that repeats it."""
    lines = {c.line: c.text for c in source.tree.comments}
    found = []
    for head in (source.statement(region.start), *region.sample_loops):
        line = head.line - 1
        while line in lines:
            found.append(lines[line])
            line -= 1
    return "\n".join(found)


@remembered
def headed_launch(source: SourceFile, region: Region) -> bool:
    """Whether a remark above C++ code says that what is timed is how long a launch takes."""
    return source.language == "cuda" and bool(_LAUNCH_HEAD.search(remarks_above(source, region)))


_LAUNCH_HEAD = re.compile(
    r"\b(enqueue|launch|dispatch|submission)(ing)? (rate|overhead|latency|cost)"
    r"|\btime (taken |needed |it takes |spent )?(to|for|in) (enqueu|launch|submit|dispatch)",
    re.IGNORECASE,
)


_WARM_HEAD = re.compile(r"(#|//|/\*)\s*(\W*\w+\W+){0,2}?(pre)?warm", re.IGNORECASE)


def _headed_warm(source: SourceFile, start: Node) -> bool:
    """Whether the comment right above a measurement, or the block around it, heads a warm-up.

    One behind a statement is that statement's: run(x);  // warm up
    """
    text = source.tree.text
    alone = (
        c for c in source.tree.comments
        if not text[text.rfind("\n", 0, c.start) + 1 : c.start].strip()
    )  # fmt: skip
    lines = {c.line: c.text for c in alone}
    heads = [source.statement(start)]
    heads += [p for p in start.ancestors() if p.kind in ("with", "for")]
    return any(_WARM_HEAD.match(lines.get(head.line - 1, "")) for head in heads)


@remembered
def means_launch(source: SourceFile, region: Region) -> bool:
    """Whether the names say that what a launch costs is what is measured, wait and all."""
    said = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", source.intent(region))
    return bool(_LAUNCH.search(said))


_LAUNCH = re.compile(
    r"(?<!grouped[ _])(?<!cooperative[ _])(?<!persistent[ _])(kernel[ _-]?)?launch"
    r"([ _-]*(time|cost|latency|overhead)|[ _](event|wall)[ _-]time)"
    r"|(empty|null|noop)[ _-]?(kernel|launch)",
    re.IGNORECASE,
)


@remembered
def host_time_meant(source: SourceFile, region: Region) -> bool:
    """Whether the names say host time and no wait in the region contradicts them."""
    return source.means_host_time(region) and not any(r.WAIT in s.roles for s in region.steps)


def says_speed(statement: Node) -> bool:
    """Whether the texts of a statement call what they show a figure of speed: latency, fps."""
    texts = re.findall(r"\"[^\"]*\"|'[^']*'", statement.text[:400])
    return any(_FIGURES.search(text) for text in texts)


_FIGURES = re.compile(
    r"latenc|throughput|infer(ence)?[ _-]?time|(?<![a-z])fps(?![a-z])|speed"
    r"|(?<![a-z])(gpu|cuda|kernel)[ _-]?(\w+[ _-])?time|time per (image|frame|token|query)",
    re.IGNORECASE,
)

"""Events, a wait or a launch use another stream than the work that is measured.

## What it does
Reports a wait for a stream that the measured work was not launched on, events that are recorded on
the current stream around work that runs on a side stream, one of two events that is recorded on a
stream which never meets the other one's, and a CuTe DSL call without a stream inside a graph
capture.

## Why it misleads
Streams do not wait for each other by themselves. A wait for an idle stream returns at once, and
events on an idle stream measure nothing: both give times that are too short.

## Known problems
Streams that are passed around between files are not followed. The legacy default stream of CUDA
C++ waits for blocking streams; only streams that were created as non-blocking are considered there.
A list or a dictionary that a captured call is given whole (`run(**options)`) may hold its stream.

## Example
```python
import time
import torch

side = torch.cuda.Stream()
model(x)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    model(x)
side.synchronize()
print((time.perf_counter() - t0) / 100)
```
```cuda
int main() {
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaEventRecord(start);
  scale<<<256, 256, 0, s>>>(x);
  cudaEventRecord(stop);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
}
```

## Use instead
```python
import time
import torch

model(x)
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(100):
    model(x)
torch.cuda.synchronize()
print((time.perf_counter() - t0) / 100)
```
"""

import re
from collections.abc import Iterator

from perf_timing.lint import roles as r
from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import (
    Scope,
    base_name,
    callee_text,
    keyword,
    last_segment,
    positional,
    split_top,
    squeeze,
    target_key,
)
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.files import evidence
from perf_timing.lint.measured.regions import Region

CODE = "TIM405"
LABEL = "WRONG-STREAM"
DEFAULT = True
SEVERITY = "error"
TRIGGER = evidence.measures_or_captures
LANGUAGES = ("python", "cuda")
MESSAGE = (
    "the wait for stream {stream} does not cover the work on line {work}, which runs on the"
    " current stream"
)
EVENTS = (
    "the event is recorded on the current stream, but the work on line {work} runs on stream"
    " {stream}; the events do not enclose it"
)
APART = (
    "the event is recorded on stream {stream}, but the work on line {work} and the other event"
    " are on {other}; the time between the events says nothing about the work"
)
CAPTURE = (
    "{name}() gets no stream inside the graph capture; CuTe launches on the default stream"
    " and the graph does not hold the work"
)
NOTE = (
    "Record, wait and launch on the same stream; render-timing simple-event, cuda-graph and"
    " cute do so."
)


def check(source: SourceFile) -> Iterator[Report]:
    """Yield a report for each stream that does not fit the measured work."""
    seen: set[int] = set()
    for region in source.regions.all:
        finder = _python if source.language == "python" else _cpp
        for node, message in finder(source, region):
            if id(node) not in seen:
                seen.add(id(node))
                yield Report(node, message)
    if source.language == "python" and "cute" in source.tree.text:
        yield from _captured_cute(source)


def _work(region: Region) -> list[Step]:
    return [s for s in region.steps if s.works and not s.helpers]


def _python(source: SourceFile, region: Region) -> Iterator[tuple[Node, str]]:
    work = _work(region)
    if region.timer is not None or region.hooked:
        return
    if region.kind == "event":
        yield from _apart(source, region)
    if work and region.kind == "clock":
        yield from _stream_waits(source, region, work)
    elif work and region.kind == "event":
        yield from _event_streams(source, region, work)


def _apart(source: SourceFile, region: Region) -> Iterator[tuple[Node, str]]:
    """One of the two events is recorded on a stream of its own that never meets the work's."""
    work = [s for s in region.steps if s.works or r.OPAQUE in s.roles]
    streams = [_given_stream(source, record) for record in (region.start, region.end)]
    if not work or streams.count("") != 1 or any(s.waits for s in region.steps):
        return
    record = region.start if streams[0] else region.end
    stream = streams[0] or streams[1]
    if any(stream_around(node) is not None for node in (region.start, region.end)):
        return
    if any(stream_around(node) is not None for s in work for node in (s.site, s.node)):
        return
    made = _NEW_STREAM.match(stream) is not None
    if not made and not is_stream(source, stream, region.scope):
        return
    name = base_name(stream)
    between = source.tree.text[region.start.end : region.end.start]
    if not made and re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)|wait_(stream|event)", between):
        return
    if not made and (_made_current(source, stream) or _joined(source, region, stream)):
        return
    yield record, APART.format(stream=stream, work=work[0].site.line, other="the current stream")


_NEW_STREAM = re.compile(r"([\w.]+\.)?(Stream|ExternalStream)\(")


def _given_stream(source: SourceFile, record: Node) -> str:
    """The stream that a record names; "" for the current one."""
    if last_segment(callee_text(record)) != "record":
        return ""
    given = keyword(record, "stream") or next(iter(positional(record)), None)
    text = squeeze(given.text) if given is not None else ""
    return "" if re.search(r"current_stream\(\)$|^None$", text) else text


def _stream_waits(
    source: SourceFile, region: Region, work: list[Step]
) -> Iterator[tuple[Node, str]]:
    waits = [s for s in region.steps if s.waits and s.position > work[-1].position]
    if len(waits) != 1 or waits[0].helpers or waits[0].node.kind != "call":
        return
    stream = callee_text(waits[0].node).rpartition(".")[0]
    if not stream or not is_stream(source, stream, region.scope):
        return
    last = work[-1]
    if any(
        stream_around(s.site) is not None or squeeze(stream) in squeeze(s.site.text) for s in work
    ):
        return
    if _made_current(source, stream) or _joined(source, region, stream):
        return
    yield waits[0].node, MESSAGE.format(stream=stream, work=last.site.line)


def _joined(source: SourceFile, region: Region, stream: str) -> bool:
    """stream.wait_stream(current) or wait_event inside the region makes the wait cover the work."""
    text = "".join(source.tree.text[low:high] for low, high in region.spans)
    return bool(re.search(rf"{re.escape(stream)}\.wait_(stream|event)\(", text))


def _made_current(source: SourceFile, stream: str) -> bool:
    return bool(
        re.search(
            rf"set_stream\(\s*{re.escape(stream)}|{re.escape(stream)}\.use\(\)|current_stream\(\)\s*$",
            source.tree.text,
        )
    )


def is_stream(source: SourceFile, name: str, scope: Scope) -> bool:
    """Whether a name stands for a stream that the file creates, also through a result."""
    for target, value in source.scopes.assignments(name, scope):
        if value.kind != "call":
            continue
        if re.search(r"(^|\.)(Stream|ExternalStream)$", callee_text(value)):
            return True
        function = source.scopes.called_function(value, scope)
        if function is not None and target.parent is not None and target.parent.kind == "tuple":
            position = [squeeze(c.text) for c in target.parent.children].index(squeeze(target.text))
            for node in function.nodes:
                if node.kind == "return" and node.children and node.children[0].kind == "tuple":
                    parts = node.children[0].children
                    if position < len(parts) and is_stream(
                        source, squeeze(parts[position].text), function
                    ):
                        return True
    return False


def stream_around(node: Node) -> str | None:
    """The stream of the innermost `with torch.cuda.stream(s):` or `with s:` around a node."""
    for parent in node.ancestors():
        if parent.kind == "with":
            for item in parent.children:
                if item.kind == "item" and item.children:
                    head = item.children[0]
                    if head.kind == "call" and last_segment(callee_text(head)) == "stream":
                        given = positional(head)
                        return squeeze(given[0].text) if given else ""
                    if head.kind == "name" and re.search(r"stream", head.text, re.IGNORECASE):
                        return squeeze(head.text)
        if parent.kind in ("function", "lambda"):
            return None
    return None


def _event_streams(
    source: SourceFile, region: Region, work: list[Step]
) -> Iterator[tuple[Node, str]]:
    """Records without a stream, outside of the `with` that the work runs in."""
    for record in (region.start, region.end):
        if positional(record) or keyword(record, "stream") or stream_around(record) is not None:
            return
        if last_segment(callee_text(record)) != "record" or "stream" in callee_text(record).lower():
            return
    streams = {stream_around(s.site) for s in work}
    if len(streams) != 1 or None in streams:
        return
    (stream,) = streams
    if not stream or re.search(r"current_stream|default_stream", stream):
        return
    if _made_current(source, stream) or not is_stream(source, stream, region.scope):
        return
    text = source.tree.text[
        region.start.start - 200 if region.start.start > 200 else 0 : region.end.end
    ]
    if (
        re.search(
            r"current_stream\([^)]*\)\.wait_stream",
            source.tree.text[region.start.end : region.end.start],
        )
        and "wait_stream" in text
    ):
        return
    if any(s.waits for s in region.steps):
        return
    yield region.start, EVENTS.format(work=work[0].site.line, stream=stream)


def _captured_cute(source: SourceFile) -> Iterator[Report]:
    compiled = {}
    for call in source.scopes.calls:
        if (
            (
                source.scopes.resolve(callee_text(call)).endswith("cute.compile")
                and call.parent is not None
            )
            and call.parent.kind == "assign"
            and not _may_get_stream(call)
        ):
            compiled[target_key(call.parent.children[0])] = call
    for call in source.scopes.calls:
        name = callee_text(call)
        if name in compiled and not _may_get_stream(call) and _in_graph(call):
            yield Report(call, CAPTURE.format(name=name))


def _may_get_stream(call: Node) -> bool:
    """Whether a call gets a stream, or is given a list or a dict that may hold one: **options."""
    return re.search(r"stream|[(,]\s*\*", call.text, re.IGNORECASE) is not None


def _in_graph(node: Node) -> bool:
    return any(
        p.kind == "with"
        and re.search(r"(^|\.)graph\(", " ".join(c.text for c in p.children if c.kind == "item"))
        for p in node.ancestors()
    )


def _cpp(source: SourceFile, region: Region) -> Iterator[tuple[Node, str]]:
    work = [s for s in region.steps if s.node.kind == "launch" and not s.helpers]
    if not work:
        if region.kind == "event":
            yield from _cpp_records(source, region)
        return
    streams = {_launch_stream(s.node) for s in work}
    if len(streams) != 1:
        return
    (stream,) = streams
    if region.kind == "event":
        yield from _cpp_events(source, region, work, stream)
    elif region.kind == "clock":
        yield from _cpp_waits(source, region, work, stream)


def _cpp_events(
    source: SourceFile, region: Region, work: list[Step], stream: str
) -> Iterator[tuple[Node, str]]:
    recorded = {_record_stream(region.start), _record_stream(region.end)}
    if any(s.waits for s in region.steps):
        return
    if len(recorded) == 2:
        yield from _cpp_apart(source, region, work, stream)
    if len(recorded) != 1:
        return
    (other,) = recorded
    if other == stream or other is None:
        return
    if (
        not _non_blocking(source, stream)
        and not _non_blocking(source, other)
        and "" in (stream, other)
    ):
        return  # the legacy default stream waits for blocking streams
    if re.search(r"StreamWaitEvent", source.tree.text[region.start.end : region.end.start]):
        return
    name = stream or "0"
    if "" not in (stream, other) and not (_created(source, stream) and _created(source, other)):
        return
    yield (
        region.start,
        EVENTS.format(work=work[0].site.line, stream=name).replace(
            "the current stream", f"stream {other or 0}"
        ),
    )


def _cpp_records(source: SourceFile, region: Region) -> Iterator[tuple[Node, str]]:
    """Two records around work of which the file shows no launch, on streams that never meet."""
    work = [s for s in region.steps if s.works or r.OPAQUE in s.roles]
    streams = [_record_stream(region.start), _record_stream(region.end)]
    if not work or None in streams or len(set(streams)) != 2:
        return
    if streams.count("") != 1 or not any(_non_blocking(source, s) for s in streams if s):
        return
    between = source.tree.text[region.start.end : region.end.start]
    if not re.search(r"StreamWaitEvent|Synchronize", between):
        record, other = (region.end, region.start) if streams[0] else (region.start, region.end)
        named = f"stream {_record_stream(other)}"
        yield record, APART.format(stream=0, work=work[0].site.line, other=named)


def _cpp_apart(
    source: SourceFile, region: Region, work: list[Step], stream: str
) -> Iterator[tuple[Node, str]]:
    """One event is on the stream of the work, the other on another one that was created."""
    for record in (region.start, region.end):
        other = _record_stream(record)
        between = source.tree.text[region.start.end : region.end.start]
        if (
            other
            and other != stream
            and stream
            and _created(source, other)
            and _created(source, stream)
            and not re.search(
                rf"(?<!StreamCreate\(&)\b{re.escape(base_name(other))}\b(?!;)|StreamWaitEvent",
                between,
            )
        ):
            work_line = work[0].site.line
            yield record, APART.format(stream=other, work=work_line, other=f"stream {stream}")


def _cpp_waits(
    source: SourceFile, region: Region, work: list[Step], stream: str
) -> Iterator[tuple[Node, str]]:
    waits = [s for s in region.steps if s.waits and s.position > work[-1].position]
    if len(waits) != 1 or not re.search(r"StreamSynchronize$", callee_text(waits[0].node)):
        return
    given = positional(waits[0].node)
    other = squeeze(given[0].text) if given else ""
    if (
        other in (stream, "0")
        or not _created(source, other)
        or not (stream == "" or _created(source, stream))
    ):
        return
    message = MESSAGE.format(stream=other, work=work[-1].site.line)
    yield waits[0].node, message.replace("the current stream", f"stream {stream or 0}")


def _launch_stream(launch: Node) -> str:
    config = [
        c
        for c in launch.children
        if c.kind == "targs" and launch.tree.text[c.start - 2 : c.start] == "<<"
    ]
    # Of stream[i] the grammar makes two arguments: the text has to be split.
    parts = split_top(config[-1].text[1:-1]) if config else []
    text = squeeze(parts[3]) if len(parts) > 3 else ""
    return "" if text in ("0", "NULL", "nullptr") else text


def _record_stream(call: Node) -> str | None:
    given = positional(call)
    if not re.search(r"EventRecord", callee_text(call)):
        return None
    text = squeeze(given[1].text) if len(given) > 1 else ""
    return "" if text in ("0", "NULL", "nullptr") else text


def _created(source: SourceFile, stream: str) -> bool:
    return bool(
        re.search(rf"StreamCreate\w*\(\s*&\s*{re.escape(base_name(stream))}\b", source.tree.text)
    )


def _non_blocking(source: SourceFile, stream: str) -> bool:
    return bool(stream) and bool(
        re.search(
            rf"StreamCreateWith\w+\(\s*&\s*{re.escape(base_name(stream))}\b[^;]*NonBlocking",
            source.tree.text,
        )
    )

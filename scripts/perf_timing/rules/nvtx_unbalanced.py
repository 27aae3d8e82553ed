"""A pushed NVTX range stays open on some path.

## What it does
Follows the paths through each function that both pushes and pops NVTX (or ROCTX) ranges, and
reports a push that an early `return`, `continue` or `break`, or in Python a `raise` where what
ran in the range has failed, leaves without its pop. In C++ it also reports a pop that depends on
what the push returned.

## Why it misleads
Push and pop are a stack per thread. One pop that is left out nests every later range one level too
deep, and each later pop closes the wrong range: from there on the timeline names every phase
wrongly. What nvtxRangePush returns is negative where no profiler is attached, and no reason not to
pop.

## Known problems
Exceptions of what is called are not followed. A function that only pushes, or only pops, is left
alone; its partner may be elsewhere. A condition around nothing but pushes or pops is taken to be
the same everywhere.

## Example
```python
import torch

for x, y in loader:
    torch.cuda.nvtx.range_push("step")
    if x is None:
        continue
    model(x).backward()
    torch.cuda.nvtx.range_pop()
```

```cuda
int run(Batch &batch) {
  nvtxRangePushA("run");
  if (batch.empty()) return 0;
  execute(batch);
  nvtxRangePop();
  return 1;
}
```

## Use instead
```python
import torch

for x, y in loader:
    with torch.cuda.nvtx.range("step"):
        if x is None:
            continue
        model(x).backward()
```

```cuda
int run(Batch &batch) {
  nvtx3::scoped_range range{"run"};
  if (batch.empty()) return 0;
  execute(batch);
  return 1;
}
```
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perf_timing.lint.code.scopes import Scope, callee_text, last_segment, squeeze
from perf_timing.lint.engine import Report, SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.files import evidence

CODE = "TIM602"
LABEL = "NVTX-UNBALANCED"
DEFAULT = True
SEVERITY = "warning"
LANGUAGES = ("python", "cuda")
TRIGGER = evidence.pushes_ranges
MESSAGE = "the range pushed here is not popped where line {line} leaves by `{exit}`"
NOTE = (
    "Use a context manager (nvtx.annotate, torch.cuda.nvtx.range) or a scoped range, or pop before"
    " every way out; render-timing nvtx does so."
)

_PUSH = re.compile(
    r"(^|_)(range_?push|push_?range)\w*$|^(nvtx|roctx)RangePush\w*$|^RangePushC?$", re.I
)
_POP = re.compile(r"(^|_)(range_?pop|pop_?range)\w*$|^(nvtx|roctx)RangePop$|^RangePop$", re.I)
_IS_BUG = re.compile(
    r"raise\s*$|raise\s+(NotImplementedError|AssertionError|TypeError|SystemExit)\b"
)
# A name whose truth is asked for, or which is held against a constant.
_TOLD = re.compile(
    r"(?:not\s+)?\(?(\w+)\)?(?:\s*(?:is|is\s+not|[!=]=|[<>]=?)\s*(?:None|True|False|-?\d+|[A-Z][\w.]*))?"
)
# Calls that only look at what was given.
_LOOKS = re.compile(
    r"(^|\.)_?((is|has|check|valid|verify|support|can|all|any)(?![a-z])\w*|is[a-z]+|hasattr"
    r"|len|type|size|dim|numel|format|get|getattr|str|int|set|bool|callable)$"
)
_ENDS = re.compile(r"^(sys\.)?exit$|^os\._exit$|^(std::)?(exit|abort|terminate)$")
_SKIP = frozenset({"function", "lambda", "class"})


def check(source: SourceFile) -> Iterator[Report]:
    """Pushes that some way out leaves open, and pops that depend on their push."""
    for scope in source.scopes.all:
        paths = _Paths()
        body = scope.body.children if scope.body else scope.node.children
        if scope.node.kind == "lambda" or not _both(scope):
            continue
        paths.run(body, [], 0)
        for push, way_out in paths.exits.items():
            if push in paths.popped:
                node, out = paths.nodes[push], paths.nodes[way_out]
                text = out.text.partition("\n")[0].strip().rstrip(";")[:30]
                message = MESSAGE.format(line=out.line, exit=text)
                yield Report(node, message, related=((out, "left open here"),))
    yield from _dependent_pops(source)


def _both(scope: Scope) -> bool:
    names = [last_segment(callee_text(n)) for n in scope.nodes if n.kind == "call"]
    return any(map(_PUSH.search, names)) and any(map(_POP.search, names))


@dataclass
class _Paths:
    """The ways through one function; nodes are known by their id."""

    exits: dict[int, int] = field(default_factory=dict)  # push -> the way out that leaves it open
    popped: set[int] = field(default_factory=set)  # pushes that some path pops
    nodes: dict[int, Node] = field(default_factory=dict)
    finally_pops: int = 0
    _handled: int = 0  # statements `try` around, and handlers: what is raised there is not judged

    def run(self, nodes: Sequence[Node], stack: list[int], base: int) -> list[int] | None:
        """The open pushes after `nodes`; None where every path has left. `base`: of the loop."""
        for node in nodes:
            after = self._statement(node, stack, base)
            if after is None:
                return None
            stack = after
        return stack

    def _statement(self, node: Node, stack: list[int], base: int) -> list[int] | None:
        if node.kind in _SKIP:
            return stack
        if node.kind in ("block", "with", "else", "finally", "decl"):
            return self.run(node.children, stack, base)
        if node.kind == "if":
            return self._if(node, stack, base)
        if node.kind in ("for", "while"):
            self.run(node.children, list(stack), len(stack))
            return stack
        if node.kind in ("try", "switch", "match"):
            return self._try(node, stack, base)
        if node.kind == "return":
            self._calls(node, stack)
            if not _ends_program(node):
                self._leave(node, stack)
            return None
        if node.kind == "jump" and node.text != "pass":
            self._leave(node, stack[base:])
            return None
        if node.kind == "raise":
            if not (self._handled or _IS_BUG.match(node.text)):
                self._leave(node, [push for push in stack if _failed(self.nodes[push], node)])
            return None
        return self._calls(node, stack)

    def _leave(self, node: Node, left_open: Sequence[int]) -> None:
        self.nodes[id(node)] = node
        kept = left_open[: len(left_open) - self.finally_pops] if self.finally_pops else left_open
        for push in kept:
            self.exits.setdefault(push, id(node))

    def _calls(self, node: Node, stack: list[int]) -> list[int] | None:
        stack = list(stack)
        for call in node.walk():
            if call.kind != "call":
                continue
            name = last_segment(callee_text(call))
            if _PUSH.search(name):
                self.nodes[id(call)] = call
                stack.append(id(call))
            elif _POP.search(name) and stack:
                self.popped.add(stack.pop())
            elif _ENDS.match(callee_text(call)):
                return None
        return stack

    def _if(self, node: Node, stack: list[int], base: int) -> list[int] | None:
        condition, *rest = node.children or [node]
        body = [c for c in rest if c.kind not in ("else", "elif")]
        others = [c for c in rest if c.kind in ("else", "elif")]
        checked = self._calls(condition, stack)
        if checked is None:
            return None
        if _only_ranges(body) and not others:
            return self.run(body, checked, base)
        results = [self.run(body, list(checked), base)]
        for other in others:
            if other.kind == "elif":
                results.append(self._if(other, list(checked), base))
            else:
                results.append(self.run(other.children, list(checked), base))
        if not others or others[-1].kind != "else":
            results.append(checked)
        alive = [result for result in results if result is not None]
        # Where the paths differ, what is open on all of them goes on.
        return min(alive, key=len) if alive else None

    def _try(self, node: Node, stack: list[int], base: int) -> list[int] | None:
        last = node.child("finally")
        pops = sum(
            bool(_POP.search(last_segment(callee_text(n))))
            for n in (last.walk() if last else ())
            if n.kind == "call"
        )
        handlers = [c for c in node.children if c.kind in ("except", "case")]
        self.finally_pops += pops
        body = [c for c in node.children if c.kind not in ("except", "case", "finally")]
        self._handled += node.kind == "try" and bool(handlers)
        after = self.run(body, list(stack), base)
        for handler in handlers:
            self.run(handler.children, list(after if after is not None else stack), base)
        self._handled -= node.kind == "try" and bool(handlers)
        self.finally_pops -= pops
        if last is None:
            return after
        return self.run(last.children, after, base) if after is not None else None


def _failed(push: Node, failure: Node) -> bool:
    """Whether an error says that what ran in the range has failed: its caller may go on.

    The condition is what a call behind the push has returned. An error about what was given is one
    of the program's text.
    """
    branch = next((p for p in failure.ancestors() if p.kind in ("if", "function")), failure)
    if branch.kind != "if" or branch.start < push.end:
        return False
    condition = branch.children[0]
    told = _TOLD.fullmatch(condition.text.strip("() "))
    if told and told[1]:
        return any(
            n.kind == "assign" and squeeze(n.children[0].text) == told[1] and _runs(n.children[-1])
            for n in push.tree.of_kind("assign")
            if push.end <= n.start and n.end <= branch.start
        )
    asked = condition.children[0] if condition.kind == "not" and condition.children else condition
    return _runs(asked)


def _runs(value: Node) -> bool:
    """Whether a value is what a call returned that did more than look at what it was given."""
    return value.kind == "call" and not _LOOKS.search(callee_text(value))


def _only_ranges(body: Sequence[Node]) -> bool:
    """Whether a guarded body does nothing but push and pop."""
    statements = [s for part in body for s in (part.children if part.kind == "block" else [part])]
    return bool(statements) and all(
        s.kind == "call"
        and (
            _PUSH.search(last_segment(callee_text(s))) or _POP.search(last_segment(callee_text(s)))
        )
        for s in statements
    )


def _dependent_pops(source: SourceFile) -> Iterator[Report]:
    results = {
        _result_of(n) for n in source.scopes.calls if _PUSH.search(last_segment(callee_text(n)))
    }
    for call in source.scopes.calls:
        if not _POP.search(last_segment(callee_text(call))):
            continue
        for around in call.ancestors():
            if around.kind in ("function", "lambda"):
                break
            if around.kind == "if" and around.children:
                names = {squeeze(n.text) for n in around.children[0].walk() if n.kind == "name"}
                if names & (results - {""}):
                    text = "this pop depends on what the push returned, which is negative where no"
                    yield Report(call, f"{text} profiler is attached, and is no reason not to pop")
                    break


def _result_of(push: Node) -> str:
    """The variable or member that takes what a push returns."""
    parent = push.parent
    while parent is not None and parent.kind in ("args", "list", "cast"):
        parent = parent.parent
    if parent is not None and parent.kind in ("assign", "init") and parent.children:
        return squeeze(parent.children[0].text).removeprefix("this->")
    return ""


def _ends_program(node: Node) -> bool:
    """Whether a return gives an error back from main() in C++: the process ends with it."""
    if node.tree.language != "cuda" or not re.match(r"return\s*(-|[1-9]|EXIT_FAIL)", node.text):
        return False
    function = next((p for p in node.ancestors() if p.kind == "function"), None)
    return function is not None and re.search(r"\bmain\s*\(", function.text[:80]) is not None

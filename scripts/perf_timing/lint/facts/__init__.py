"""Turns the matches of the fact rules into one tree of the same shape for Python and C++.

ast-grep reports nodes by kind (python.yml, cuda.yml). Their nesting follows from their offsets, and
what lies in the gaps between a node's children (names, numbers) is cut from the text, so that the
output of ast-grep stays small. The tree is all that the engine sees of a file.

Kinds of nodes, beside those that the YAML files name:
  module     the root
  name       a name or a dotted name: `x`, `torch.cuda.synchronize`, `std::chrono::now`
  attribute  an object and `.attr`, `->attr` or `::attr` behind it; children: [object]
  number     a literal
  jump       `break`, `continue` or `pass`
  launch     a CUDA launch `kernel<<<grid, block>>>(args)`; children: [kernel, targs, *arguments]
"""

# Long lists of names read better as text.
# ruff: noqa: SIM905

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path

from perf_timing.lint.model import Span, without_blank_lines
from perf_timing.lint.parsing.astgrep import Match, to_ascii

FOLDER = Path(__file__).resolve().parent
_TOKEN = {
    "python": re.compile(
        r"(?P<attr>\.\s*[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*)"
        r"|(?P<name>[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*)"
        r"|(?P<number>\d[\w.]*(?:(?<=[eE])[+-]\d+)?|\.\d[\w]*(?:(?<=[eE])[+-]\d+)?)"
    ),
    "cuda": re.compile(
        r"(?P<attr>(?:\.|->|::)\s*~?[A-Za-z_]\w*(?:\s*(?:\.|->|::)\s*~?[A-Za-z_]\w*)*)"
        r"|(?P<name>[A-Za-z_]\w*(?:\s*(?:\.|->|::)\s*~?[A-Za-z_]\w*)*)"
        r"|(?P<number>\d[\w.']*(?:(?<=[eE])[+-]\d+\w*)?|\.\d[\w]*(?:(?<=[eE])[+-]\d+\w*)?)"
    ),
}
_KEYWORDS = {
    "python": frozenset(
        "and as assert async await class def del elif else except finally for from global if import"
        " in is lambda nonlocal not or raise return try while with yield case match None True False"
        " print exec".split()
    )
    - {"match", "case", "print", "exec", "None", "True", "False"},
    "cuda": frozenset(
        "auto class const constexpr do else enum explicit extern for if inline namespace new"
        " noexcept operator private protected public return sizeof static struct switch template"
        " typedef typename using virtual volatile while case default throw try catch delete"
        " unsigned signed int float double long short char bool void".split()
    ),
}
# Of which no token consists; most gaps hold nothing else.
_PUNCTUATION = " \t\n\r\f,:;()[]{}="
_JUMPS = frozenset({"break", "continue", "pass"})
# Of two nodes with the same extent, the one with the smaller rank is the parent.
_RANK = {"block": 0, "decl": 1, "item": 1, "args": 1, "condition": 1, "type": 1}


class Node:
    """A node of the uniform tree; `start` and `end` are offsets in code points."""

    __slots__ = ("callee", "children", "end", "kind", "parent", "start", "tree")

    def __init__(self, kind: str, start: int, end: int, tree: "Tree") -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.tree = tree
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.callee: str | None = None  # what scopes.callee_text found, for calls

    def __repr__(self) -> str:
        return f"<{self.kind} {self.line}: {self.text[:50]!r}>"

    @property
    def text(self) -> str:
        return self.tree.text[self.start : self.end]

    @property
    def line(self) -> int:
        """1-based line of the first character."""
        return self.tree.lines.line(self.start)

    @property
    def end_line(self) -> int:
        return self.tree.lines.line(max(self.start, self.end - 1))

    def walk(self) -> Iterator["Node"]:
        """This node and all below, in the order of the source."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def ancestors(self) -> Iterator["Node"]:
        """The parent, its parent, and so on."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def child(self, *kinds: str) -> "Node | None":
        """The first child of one of `kinds`."""
        return next((c for c in self.children if c.kind in kinds), None)


class LineIndex:
    """Lines and columns of offsets in a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _starts(self) -> list[int]:
        lengths = (len(line) + 1 for line in self._text.split("\n"))
        return list(accumulate(lengths, initial=0))[:-1]

    def line(self, offset: int) -> int:
        """1-based line of the offset."""
        return bisect.bisect_right(self._starts, offset)

    def span(self, start: int, end: int, message: str = "") -> Span:
        """The place of the characters [start, end)."""
        first, last = self.line(start), self.line(end)
        column = start - self._starts[first - 1] + 1
        return Span(first, column, last, end - self._starts[last - 1] + 1, message)


class Tree:
    """The uniform tree of one text: `root`, the `comments` apart from it, and the line index."""

    def __init__(self, text: str, language: str) -> None:
        self.text = text
        self.language = language
        self.lines = LineIndex(text)
        self.root = Node("module", 0, len(text), self)
        self.comments: list[Node] = []
        self._nodes: list[Node] | None = None
        self._kinds: dict[str, list[Node]] = {}
        self.comment_starts: list[int] = []

    @cached_property
    def code(self) -> str:
        """The text without blank lines, of which a blanked text is full: to search in."""
        return without_blank_lines(self.text)

    @cached_property
    def names_cpu(self) -> bool:
        """Whether the text holds the word CPU in one of its spellings."""
        return "cpu" in self.text or "CPU" in self.text

    def nodes(self) -> list[Node]:
        """All nodes in the order of the source."""
        if self._nodes is None:
            # As walk() does, without a generator: this list is made for every file.
            self._nodes, stack = [], [self.root]
            while stack:
                node = stack.pop()
                self._nodes.append(node)
                if node.children:
                    stack += node.children[::-1]
        return self._nodes

    def of_kind(self, *kinds: str) -> list[Node]:
        """All nodes of some kinds in the order of the source."""
        if not self._kinds:
            by_kind: dict[str, list[Node]] = defaultdict(list)
            for node in self.nodes():
                by_kind[node.kind].append(node)
            self._kinds = dict(by_kind)
        if len(kinds) == 1:
            return self._kinds.get(kinds[0], [])
        found = [node for kind in kinds for node in self._kinds.get(kind, [])]
        return sorted(found, key=lambda n: (n.start, -n.end))


@cache
def documents(language: str) -> str:
    """The fact rules of a language, as documents for a run of ast-grep."""
    return (FOLDER / f"{language}.yml").read_text(encoding="utf-8")


def build_tree(text: str, language: str, matches: Sequence[Match]) -> Tree:
    """The tree of `text` from the matches of the fact rules (others are left out)."""
    tree = Tree(text, language)
    nodes = list(_nodes(tree, language, matches))
    _nest(tree, nodes)
    tree.comments.sort(key=lambda c: c.start)
    tree.comment_starts = [c.start for c in tree.comments]
    plain = to_ascii(text)
    for node in (tree.root, *nodes):
        if node.kind not in ("string", "comment", "error", "macro", "include", "type"):
            _fill_gaps(node, plain, language)
    if language == "cuda":
        _find_launches(tree)
    return tree


def _nodes(tree: Tree, language: str, matches: Sequence[Match]) -> Iterator[Node]:
    prefix = f"{language}-"
    # A rule of ours may be called python-...; only the kinds of the fact files are facts.
    kinds = {match.rule_id for match in matches if match.rule_id.startswith(prefix)}
    kind_of = {rule_id: rule_id[len(prefix) :] for rule_id in kinds}
    found = []
    for number, (start, end, rule_id, *_) in enumerate(matches):
        kind = kind_of.get(rule_id)
        if kind == "comment":
            tree.comments.append(Node(kind, start, end, tree))
        elif kind is not None and kind != "error":
            found.append((start, -end, _RANK.get(kind, 2), number, kind))
    found.sort()
    return (Node(kind, start, -end, tree) for start, end, _, _, kind in found)


def _nest(tree: Tree, nodes: Sequence[Node]) -> None:
    open_nodes = [tree.root]
    for node in nodes:
        while open_nodes[-1].end < node.end or open_nodes[-1].end <= node.start < node.end:
            if len(open_nodes) == 1:
                break
            open_nodes.pop()
        node.parent = open_nodes[-1]
        node.parent.children.append(node)
        open_nodes.append(node)


def _fill_gaps(node: Node, plain: str, language: str) -> None:
    """Add a node for each name, number and jump between the children, and join attributes."""
    given = node.children
    filled: list[Node] = []
    position = node.start
    for child in (*given, None):
        end = child.start if child else node.end
        if position < end and plain[position:end].strip(_PUNCTUATION):
            _tokens(node, plain, position, end, language, filled)
        if child:
            filled.append(child)
            position = max(position, child.end)
    node.children = filled


def _tokens(
    node: Node,
    plain: str,
    start: int,
    end: int,
    language: str,
    filled: list[Node],
) -> None:
    gap = plain[start:end]
    if ("#" in gap or "/" in gap) and node.tree.comments:
        gap = _blank_comments(gap, start, node.tree)
    keywords = _KEYWORDS[language]
    for token in _TOKEN[language].finditer(gap):
        kind = str(token.lastgroup)
        if kind == "name":
            text = token[0]
            if text in _JUMPS:
                kind = "jump"
            elif text in keywords:
                continue
        low, high = token.span()
        leaf = Node(kind, start + low, start + high, node.tree)
        leaf.parent = node
        if kind == "attr":
            _join_attribute(node, leaf, filled)
        else:
            filled.append(leaf)


def _blank_comments(gap: str, start: int, tree: Tree) -> str:
    comments = tree.comments
    index = bisect.bisect_left(tree.comment_starts, start)
    while index < len(comments) and comments[index].start < start + len(gap):
        low = comments[index].start - start
        high = min(comments[index].end - start, len(gap))
        gap = gap[:low] + " " * (high - low) + gap[high:]
        index += 1
    return gap


def _join_attribute(node: Node, leaf: Node, filled: list[Node]) -> None:
    if not filled:
        return
    # A name and its template arguments stand side by side; both belong to the object.
    last = filled.pop()
    first = last
    parts = [last]
    while first.kind == "targs" and filled:
        first = filled.pop()
        parts.insert(0, first)
    joined = Node("attribute", first.start, leaf.end, node.tree)
    joined.parent = node
    joined.children = parts
    for part in parts:
        part.parent = joined
    filled.append(joined)


def _find_launches(tree: Tree) -> None:
    text = tree.text
    for node in list(tree.root.walk()):
        if node.kind != "targs" or text[node.start - 2 : node.start] != "<<":
            continue
        inner = node.parent
        if inner is None or inner.kind != "binary" or text[node.end : node.end + 2] != ">>":
            continue
        outer = inner.parent
        if outer is not None and outer.kind == "binary" and outer.children[0] is inner:
            outer.kind = "launch"
            outer.children = [*inner.children, *outer.children[1:]]
            for child in outer.children:
                child.parent = outer

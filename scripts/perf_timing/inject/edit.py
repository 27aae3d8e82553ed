"""Puts marks and block into a file, and takes them out again."""

import ast
import itertools
import re

from perf_timing._cli import UserError
from perf_timing.inject import block
from perf_timing.inject.plan import BLOCK, MARK, NAME, Insertion, Plan
from perf_timing.inject.source import Source, parse
from perf_timing.lint.parsing.astgrep import to_ascii

_WRAPS = (
    f"{NAME}.steps(",
    f"{NAME}.iterations(",
    f"{NAME}.fetched({NAME}.fetch(), ",
    f"{NAME}.fetched({NAME}.fetch_in_step(), ",
    f"{NAME}.copied({NAME}.copy(), ",
)
_ORIGINAL = re.compile(r"[\r\n]# original: ([0-9a-f]{64})[ \t]*[\r\n]")


def is_instrumented(source: Source) -> bool:
    return any(line.rstrip() == block.END for line in source.text.splitlines())


def inject(source: Source, plan: Plan, block_text: str) -> Source:
    """The file with the marks of `plan` and the block; raises UserError.

    The result is checked: it parses, and what `remove` makes of it are the file's bytes.
    """
    at = block.place(source)
    text = block_text.replace("\n", source.newline)
    if at == len(source.text) and source.text and not source.text.endswith(("\n", "\r")):
        raise UserError(f"{source.path}: nothing follows its imports; nothing was changed")
    pieces, position = [], 0
    for insertion in sorted([*plan.insertions, Insertion(at, BLOCK, 0, 0, text)]):
        pieces += [source.text[position : insertion.offset], insertion.text]
        position = insertion.offset
    result = source.with_text("".join([*pieces, source.text[position:]]))
    parse(to_ascii(result.text), source.path)
    if remove(result)[0].encode() != source.encode():
        raise UserError(
            f"{source.path}: these edits could not be undone byte for byte;"
            " nothing was changed; please report the file"
        )
    return result


def remove(source: Source) -> tuple[Source, bool]:
    """The file without block and marks, and whether that is the original to the byte.

    It is not where the file was edited since; those edits stay. Raises UserError.
    """
    if not is_instrumented(source):
        raise UserError(f"{source.path} is not instrumented: it has no '{block.END}' line")
    digest = _ORIGINAL.search(source.text)
    cuts = [*_block_cut(source), *_line_cuts(source), *_wrap_cuts(source)]
    pieces, position = [], 0
    for start, end in sorted(cuts):
        if start >= position:
            pieces.append(source.text[position:start])
        position = max(position, end)
    result = source.with_text("".join([*pieces, source.text[position:]]))
    if NAME in result.text:
        line = result.line_of(result.text.index(NAME))
        raise UserError(
            f"{source.path}: a mark was edited and cannot be taken out (it would be line"
            f" {line} of the result); nothing was changed"
        )
    return result, digest is not None and digest[1] == result.digest()


def _block_cut(source: Source) -> list[tuple[int, int]]:
    starts = source.line_starts
    lines = [source.text[a:b].rstrip() for a, b in itertools.pairwise(starts)]
    begin = next((n for n, line in enumerate(lines) if line.startswith(block.BEGIN)), None)
    end = next((n for n, line in enumerate(lines) if line == block.END), None)
    if begin is None or end is None or end < begin:
        raise UserError(f"{source.path}: the '{block.BEGIN}' line is missing; nothing was changed")
    return [(starts[begin], starts[end + 1])]


def _line_cuts(source: Source) -> list[tuple[int, int]]:
    """Lines that hold a mark and nothing else."""
    mark = re.compile(rf"[ \t\f]*{NAME}\.\w+\(.*\){MARK}[ \t]*(\r\n|\r|\n|\Z)")
    cuts: list[tuple[int, int]] = []
    for start, end in itertools.pairwise(source.line_starts):
        if mark.fullmatch(source.text[start:end]):
            if cuts and cuts[-1][1] == start:
                start = cuts.pop()[0]
            cuts.append((start, end))
    if cuts and cuts[-1][1] == len(source.text) and not source.text.endswith(("\n", "\r")):
        # The file had no final newline: the one before the last marks came with them.
        start = cuts.pop()[0]
        start -= 2 if source.text.endswith("\r\n", 0, start) else 1
        cuts.append((start, len(source.text)))
    return cuts


def _wrap_cuts(source: Source) -> list[tuple[int, int]]:
    """The text around wrapped expressions."""
    cuts = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == NAME:
            start, end = source.start(node), source.end(node)
            for prefix in _WRAPS:
                if source.text.startswith(prefix, start):
                    cuts += [(start, start + len(prefix)), (end - 1, end)]
    return cuts

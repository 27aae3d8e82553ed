"""The documents of the skill, taken apart: blocks of code, shell commands, paths, options."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("references/rules.md", "references/cli.md")
WRITTEN = (
    "SKILL.md",
    "README.md",
    *(
        f"references/{path.name}"
        for path in sorted((ROOT / "references").glob("*.md"))
        if f"references/{path.name}" not in GENERATED
    ),
)
SKILL_DIR = '"<folder of this SKILL.md>"'
COMMANDS = ("render-timing", "lint-timing", "inject-timing", "report-timing")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, what its fence says, its text without indentation."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line} {self.language}"


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str) -> list[Block]:
    """The fenced blocks of a document; one that is not closed is an error."""
    found, fence = [], None
    for number, line in enumerate(read(document).split("\n"), 1):
        if fence is None:
            match = re.fullmatch(r"( *)(`{3,}|~{3,}) *(\w*)", line)
            if match:
                fence = (number, *match.groups(), [])
            assert match or not re.match(r" *(```|~~~)", line), f"{document}:{number}: {line}"
        elif line.strip() == fence[2]:
            text = "\n".join(part[len(fence[1]) :] for part in fence[4])
            found.append(Block(document, fence[0], fence[3], text + "\n"))
            fence = None
        else:
            fence[4].append(line)
    assert fence is None, f"{document}:{fence and fence[0]}: a block is not closed"
    return found


def all_blocks(language: str, documents: tuple[str, ...] = WRITTEN) -> list[Block]:
    return [b for document in documents for b in blocks(document) if b.language == language]


def commands(text: str) -> list[list[str]]:
    """Every call of one of our commands in shell text, as [command, argument, ...].

    A launcher counts as its command, wherever it lies; what stands around a call is left out.
    """
    text = text.replace("\\\n", " ")
    found = []
    for line in text.split("\n"):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        for index, word in enumerate(words):
            name = Path(word).name.removesuffix(".py").replace("_", "-")
            if name not in COMMANDS or (index and words[index - 1] == "-m"):
                continue
            rest = words[index + 1 :]
            ends = [
                i for i, part in enumerate(rest) if part in ("&&", "||", "|", ";", "}", "{", ">")
            ]
            found.append([name, *rest[: ends[0] if ends else None]])
    return found


def inline_commands(document: str) -> list[list[str]]:
    """Calls of our commands in the inline code of a document."""
    prose = re.sub(r"(?ms)^ *(```|~~~).*?^ *\1", "", read(document))
    return [call for code in re.findall(r"`([^`\n]+)`", prose) for call in commands(code)]

"""Checks of option values, and how a value is written into code so that it stays a value."""

import ast
import io
import math
import operator
import re
import tokenize
from pathlib import Path
from typing import Any

from perf_timing._cli import UserError


def text(flag: str, value: str) -> str:
    """Any text; templates quote it."""
    return value


def expression(flag: str, value: str) -> str:
    """One Python expression, on one line where it spans several or holds a comment."""
    stripped = value.strip()
    tree = _parse(flag, stripped, "eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            raise UserError(f"{flag}: yield and await cannot be timed: {value!r}")
    plain = "\n" not in stripped and "\r" not in stripped and "#" not in stripped
    return stripped if plain and stripped.isascii() else ast.unparse(tree)


def named_expression(flag: str, value: str) -> tuple[str | None, str]:
    """`EXPR`, or `NAME=EXPR` with a name of letters, digits, `-`, `_` and `.`."""
    match = re.match(r"\s*([A-Za-z][\w.-]*)\s*=(?!=)(.*)", value, re.S | re.A)
    if match and not _is_expression(value):
        return match[1], expression(flag, match[2])
    return None, expression(flag, value)


def python_code(flag: str, value: str) -> str:
    """Python statements, checked for syntax, with unix line ends."""
    code = value.replace("\r\n", "\n").replace("\r", "\n")
    _parse(flag, code, "exec")
    return code


def code_file(flag: str, value: str) -> str:
    """Content of a Python file, in the encoding that it declares."""
    try:
        data = Path(value).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{flag}: cannot read {value}: {reason}") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        code = data.decode(encoding).removeprefix("\ufeff")
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UserError(f"{flag}: cannot decode {value}: {error}") from None
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    _parse(f"{flag} {value}", code, "exec")
    return code


def names(flag: str, value: str) -> list[str]:
    """Comma-separated Python identifiers."""
    found = [part.strip() for part in value.split(",") if part.strip()]
    for name in found:
        if not name.isidentifier() or not name.isascii():
            raise UserError(f"{flag} takes identifiers, separated by commas; {name!r} is none")
    if not found:
        raise UserError(f"{flag} takes at least one identifier")
    return found


def count(flag: str, value: str) -> int:
    """A whole number of 0 or more."""
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise UserError(f"{flag} takes a whole number of 0 or more, not {value!r}")
    return int(value)


def positive_count(flag: str, value: str) -> int:
    """A whole number of 1 or more."""
    number = count(flag, value)
    if number < 1:
        raise UserError(f"{flag} takes a whole number of 1 or more, not {value!r}")
    return number


def non_negative(flag: str, value: str) -> int | float:
    """A finite number of 0 or more."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?|\.[0-9]{1,9}", value):
        raise UserError(f"{flag} takes a number of 0 or more, not {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise UserError(f"{flag} takes a finite number, not {value!r}")
    return int(number) if number.is_integer() and number < 1e15 else number


def positive(flag: str, value: str) -> int | float:
    """A finite number over 0."""
    number = non_negative(flag, value)
    if number <= 0:
        raise UserError(f"{flag} takes a number over 0, not {value!r}")
    return number


def architecture(flag: str, value: str) -> str:
    """A value of nvcc's -arch."""
    if not re.fullmatch(r"(sm|compute)_[0-9]{2,3}[af]?|native|all|all-major", value):
        raise UserError(f"{flag} takes what nvcc -arch takes, such as sm_90, not {value!r}")
    return value


_LAUNCH = re.compile(
    r"\s*(?P<kernel>(?:::)?[A-Za-z_][\w:]*(?:\s*<[\w\s,:*&]*>)?)\s*"
    r"<<<(?P<config>[^;{}#\\\"'?]*?)>>>\s*\((?P<arguments>[^;{}#\\\"'?]*)\)\s*;?\s*",
    re.A,
)


def cuda_launch(flag: str, value: str) -> dict[str, str]:
    """One launch `kernel<<<grid, block[, shared bytes]>>>(arguments)`, without a stream.

    The stream is the measuring code's. Statements, strings, comments and preprocessor lines are
    refused.
    """
    match = _LAUNCH.fullmatch(value)
    # Brackets match within the arguments, so that nothing stands behind the launch.
    if (
        not match
        or re.search(r"//|/\*|[^=!<>]=[^=]", value)
        or "<<<" in match["arguments"]
        or not (_balanced(match["config"]) and _balanced(match["arguments"]))
    ):
        raise UserError(
            f"{flag} takes one launch such as 'kernel<<<grid, block>>>(x, n)', not {value!r}"
        )
    config = _split_commas(match["config"])
    if not 2 <= len(config) <= 3 or not all(config):
        raise UserError(
            f"{flag} takes <<<grid, block>>> or <<<grid, block, shared bytes>>>;"
            f" the stream is added, so {match['config']!r} does not fit"
        )
    return {
        "kernel": " ".join(match["kernel"].split()),
        "config": ", ".join(" ".join(part.split()) for part in config),
        "has_shared": "1" if len(config) == 3 else "",
        "arguments": " ".join(match["arguments"].split()),
    }


def cuda_code(flag: str, value: str) -> str:
    """CUDA C++ source, or `@FILE`; needs a __global__ function and balanced brackets."""
    code = _cuda_text(flag, _read_text(flag, value[1:]) if value.startswith("@") else value)
    if "__global__" not in _strip_cuda_text(code):
        raise UserError(
            f"{flag} holds no __global__ function; give the kernel's definition or @FILE"
        )
    if re.search(r"\bmain\s*\(", _strip_cuda_text(code)):
        raise UserError(f"{flag} holds a main(), and so does the program; give the kernel alone")
    return code


def cuda_statements(flag: str, value: str) -> str:
    """C++ statements with balanced brackets."""
    code = _cuda_text(flag, value).strip()
    return code if code.endswith((";", "}")) else code + ";"


def cuda_statements_file(flag: str, value: str) -> str:
    """Content of a file of C++ statements."""
    return cuda_statements(f"{flag} {value}", _read_text(flag, value))


def cpp_expression(flag: str, value: str) -> str:
    """One arithmetic C++ expression: no statement, string, comment or preprocessor line."""
    stripped = " ".join(value.split())
    if not re.fullmatch(r"[\w\s.+\-*/%()<>:,]+", stripped, re.A) or re.search(r"//|/\*", stripped):
        raise UserError(f"{flag} takes one C++ expression such as '3.0 * n * 4', not {value!r}")
    if not _balanced(stripped):
        raise UserError(f"{flag}: the brackets in {value!r} do not match")
    number = _number(stripped)
    if number is not None:
        return repr(number)
    if "**" in stripped:
        raise UserError(f"{flag}: C++ has no **, so {value!r} is no C++ expression")
    return stripped


_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
}


def _number(code: str) -> float | None:
    """Value of arithmetic on numbers alone, else None: C++'s int would overflow at 2 * 4096**3."""
    try:
        value = float(_evaluate(ast.parse(code, mode="eval").body))
    except (
        SyntaxError,
        ValueError,
        TypeError,
        ArithmeticError,
        LookupError,
        RecursionError,
        MemoryError,
    ):
        return None
    return value if math.isfinite(value) else None


def _evaluate(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if not isinstance(node, ast.BinOp):
        raise ValueError(node)
    left, right = _evaluate(node.left), _evaluate(node.right)
    if isinstance(node.op, ast.Pow) and 0 <= right <= 64 and 0 <= left <= 2**20:
        return left**right
    if isinstance(node.op, ast.LShift) and not 0 <= right <= 64:
        raise ValueError(node)
    return _ARITHMETIC[type(node.op)](left, right)


def cpp_names(*codes: str) -> list[str]:
    """Identifiers in C++ code outside of strings, comments, members and qualified names."""
    found: dict[str, None] = {}
    for code in codes:
        bare = re.sub(r"(?<!\w)\d[\w.]*", " ", _strip_cuda_text(code))
        for match in re.finditer(r"(?<![\w.:>])[A-Za-z_]\w*(?!\w*\s*::)", bare):
            found.setdefault(match[0])
    return list(found)


def cpp_file_scope(code: str) -> str:
    """`code` without what stands in parentheses and braces: the names of its file scope."""
    kept, depth = [], 0
    for character in _strip_cuda_text(code):
        depth += character in "({"
        if not depth:
            kept.append(character)
        depth -= character in ")}"
    return "".join(kept)


def _cuda_text(flag: str, value: str) -> str:
    code = value.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if "\0" in code or not _balanced(_strip_cuda_text(code)):
        raise UserError(f"{flag}: brackets or quotes in the CUDA code do not match")
    return code


def _read_text(flag: str, path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{flag}: cannot read {path}: {reason}") from None


def _parse(flag: str, code: str, mode: str) -> Any:
    try:
        return ast.parse(code, mode=mode)
    except SyntaxError as error:
        what = "one Python expression" if mode == "eval" else "Python code"
        where = f" (line {error.lineno}: {error.msg})" if error.lineno else f" ({error.msg})"
        shown = code if len(code) <= 80 else code[:77] + "..."
        raise UserError(f"{flag} is not {what}{where}: {shown!r}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{flag} cannot be parsed as Python: {error}") from None


def _is_expression(code: str) -> bool:
    try:
        ast.parse(code.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _balanced(code: str) -> bool:
    closing = {")": "(", "]": "[", "}": "{"}
    stack: list[str] = []
    for character in code:
        if character in "([{":
            stack.append(character)
        elif character in closing and (not stack or stack.pop() != closing[character]):
            return False
    return not stack


def _strip_cuda_text(code: str) -> str:
    """`code` without comments, strings and character literals."""
    return re.sub(
        r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", " ", code, flags=re.S
    )


def _split_commas(code: str) -> list[str]:
    parts, depth = [""], 0
    for character in code:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def python_literal(value: Any) -> str:
    """`value` as an ASCII Python literal, quoted as ruff quotes; text can never become code."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(python_literal(part) for part in value) + "]"
    if not isinstance(value, str):
        return repr(value)
    quote = "'" if value.count('"') > value.count("'") else '"'
    escaped = "".join(_escape(character, quote) for character in value)
    return quote + escaped + quote


def _escape(character: str, quote: str) -> str:
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", quote: "\\" + quote}
    if character in named:
        return named[character]
    code = ord(character)
    if 32 <= code < 127:
        return character
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def cpp_literal(value: str) -> str:
    """`value` as a C++ string literal of ASCII characters, its UTF-8 bytes in octal."""
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "?": "\\?"}
    parts = []
    for byte in value.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        parts.append(named.get(character) or (character if 32 <= byte < 127 else f"\\{byte:03o}"))
    return '"' + "".join(parts) + '"'


def comment(value: str) -> str:
    """`value` on one ASCII line that can stand in a comment of Python or C++."""
    one_line = value.encode("ascii", "backslashreplace").decode("ascii")
    shown = "".join(c if 32 <= ord(c) < 127 else f"\\x{ord(c):02x}" for c in one_line)
    return shown.rstrip("\\ ").replace("??/", "?/")

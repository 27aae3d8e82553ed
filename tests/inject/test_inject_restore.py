"""Files come back byte for byte, whatever they are made of; otherwise they are not touched."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inject.injected import code, command

LOOP = code('''
    """Train."""
    import torch

    def train():
        for x, y in loader:
            x = x.to(device)
            criterion(model(x), y).backward()
            optimizer.step()
            if done:
                break

    train()
    ''')
WHILE = "import torch\nwhile True:\n\tx = next(it)\n\tmodel(x).backward()\n\toptimizer.step()"

FILES = {
    "plain": LOOP.encode(),
    "without a final newline": LOOP.rstrip("\n").encode(),
    "ending in the loop without a newline": WHILE.encode(),
    "ending in the loop without a newline, CRLF": WHILE.replace("\n", "\r\n").encode(),
    "CRLF": LOOP.replace("\n", "\r\n").encode(),
    "CR alone": LOOP.replace("\n", "\r").encode(),
    "mixed line ends": LOOP.replace("\n", "\r\n", 4).encode(),
    "a byte order mark": b"\xef\xbb\xbf" + LOOP.encode(),
    "a byte order mark and CRLF": b"\xef\xbb\xbf" + LOOP.replace("\n", "\r\n").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + LOOP.encode(),
    "cp1251": "# coding: cp1251\n# \u0446\u0438\u043a\u043b\n".encode("cp1251") + LOOP.encode(),
    "shift_jis": "# coding: shift_jis\n# \u8a13\u7df4\n".encode("shift_jis") + LOOP.encode(),
    "wide characters before the loop on its lines": LOOP.replace(
        "x = x.to(device)", "s = '\u00e9\U0001f600'; x = x.to(device)"
    ).encode(),
    "identifiers outside ASCII": LOOP.replace("loader", "donn\u00e9es_loader").encode(),
    "form feeds and trailing blanks": LOOP.replace(
        "import torch\n", "import torch  \n\f\n"
    ).encode(),
    "tabs": LOOP.replace("    ", "\t").encode(),
    "line continuation": LOOP.replace(
        "for x, y in loader", "for x, y \\\n  in \\\n  loader"
    ).encode(),
    "an iterable of several lines": LOOP.replace(
        "loader:", "tqdm(\n    loader,  # all\n):"
    ).encode(),
    "a comment at the loop": LOOP.replace("loader:", "loader:  # epochs").encode(),
    "comments and blank lines at the end": (LOOP + "\n\n# end\n   \n").encode(),
    "a string that spans lines": LOOP.replace(
        "x = x.to(device)", 's = """a\nb"""\n        x = x.to(device)'
    ).encode(),
    "the marker in a string": LOOP.replace(
        "train()\n", "train()\nprint('# perf-timing')\n"
    ).encode(),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("options", [(), ("--phases", "--nvtx")], ids=["timing", "both"])
def test_a_file_comes_back_byte_for_byte(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(FILES[name])
    path.chmod(0o750)
    outcome = command(str(path), "--write", "--loop", str(_loop_line(FILES[name])), *options)
    assert outcome.status == 0, outcome.err
    changed = path.read_bytes()
    assert changed != FILES[name]
    compile(changed, "train.py", "exec")
    assert path.stat().st_mode & 0o777 == 0o750
    outcome = command(str(path), "--remove")
    assert outcome.status == 0, outcome.err
    assert "to the byte" in outcome.err
    assert path.read_bytes() == FILES[name]


def _loop_line(data: bytes) -> int:
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = text.split(b"\n")
    return 1 + next(
        n for n, line in enumerate(lines) if line.strip().startswith((b"for ", b"while "))
    )


PARTS = st.sampled_from(
    [
        "x = x.to(device)",
        "x, y = x.cuda(), y.cuda()",
        "loss = model(x.to(device)).mean()",
        "batch = {k: v.to(device) for k, v in batch.items()}",
        "batch = next(it)",
        "if x is None:\n    continue",
        "if step > 3:\n    break",
        "if step > 3: break",
        "loss.backward()",
        "with amp():\n    loss = model(x)\n    loss.backward()",
        "for m in range(4):\n    model(x).backward()",
        "optimizer.step()",
        "# a comment",
        "try:\n    x = next(it)\nexcept StopIteration:\n    it = iter(loader)\n    x = next(it)",
        "def closure():\n    loss.backward()\n    return loss",
        "optimizer.step(closure)",
        "s = '''a\nb\n'''",
        "dist.all_reduce(loss)",
        "a = 1; x = x.to(device)",
        "\n",
    ]
)
HEADS = ["for i, batch in enumerate(loader):", "while True:", "for step in range(9):"]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(HEADS),
    st.lists(PARTS, min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["    ", "\t", "  "]),
    st.sampled_from(["", "pass\n", "# end"]),
    st.booleans(),
)
def test_any_body_comes_back_byte_for_byte(
    tmp_path: Path, head: str, parts: list[str], newline: str, unit: str, tail: str, phases: bool
) -> None:
    body = "\n".join(parts).replace("    ", unit)
    body = "\n".join(
        unit + line if line.strip() and line not in ("b", "'''") else line
        for line in body.split("\n")
    )
    text = f"import torch\n{head}\n{body}\n{unit}loss.backward()\n{unit}optimizer.step()\n{tail}"
    data = text.replace("\n", newline).encode()
    compile(data, "train.py", "exec")
    path = tmp_path / "train.py"
    path.write_bytes(data)
    options = ["--phases"] if phases else []
    outcome = command(str(path), "--write", "--loop", "2", *options)
    assert outcome.status == 0, outcome.err
    compile(path.read_bytes(), "train.py", "exec")
    assert command(str(path), "--remove").status == 0
    assert path.read_bytes() == data


def test_edits_made_since_stay(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    command(str(path), "--write", "--phases")
    path.write_text(path.read_text().replace("if done:", "if finished:") + "print('more')\n")
    outcome = command(str(path), "--remove")
    assert outcome.status == 0
    assert "other edits since then stay" in outcome.err
    assert path.read_text() == LOOP.replace("if done:", "if finished:") + "print('more')\n"


def test_a_mark_that_was_edited_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    command(str(path), "--write")
    edited = path.read_text().replace("_perf_timing.copy()  # perf-timing", "t = _perf_timing.copy")
    path.write_text(edited)
    outcome = command(str(path), "--remove")
    assert outcome.status == 2
    assert "a mark was edited" in outcome.err
    assert path.read_text() == edited


def test_instrumenting_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    command(str(path), "--write")
    once = path.read_bytes()
    outcome = command(str(path), "--write")
    assert outcome.status == 2
    assert "instrumented already" in outcome.err
    assert path.read_bytes() == once


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "train.py", tmp_path / "link.py"
    path.write_text(LOOP)
    link.symlink_to(path)
    assert command(str(link), "--write").status == 0
    assert link.is_symlink()
    assert "_perf_timing" in path.read_text()
    assert command(str(link), "--remove").status == 0
    assert path.read_text() == LOOP

"""Functions of other files: read from disk before a report, whichever files are linted."""

from pathlib import Path

import pytest
from perf_timing.lint import catalog, check
from perf_timing.lint.code import elsewhere
from perf_timing.lint.model import Unit

CALLER = """\
import time
import torch
from {module} import {name}
def run(model, x):
    start = time.perf_counter()
    logits = model(x.to("cuda", non_blocking=True))
    found = {name}(logits)
    return found, time.perf_counter() - start
"""
READS = "import torch\ndef predict(logits):\n    return logits.argmax(-1).tolist()\n"
CALLS = (
    "import torch\ndef _read(logits):\n    return logits.item()\n"
    "def predict(logits):\n    return _read(logits)\n"
)
KEEPS = "import torch\ndef predict(logits):\n    return logits.argmax(-1)\n"
MASKS = (
    "import torch\ndef predict(logits):\n    keep_mask = logits > 0\n"
    "    found = logits[keep_mask]\n    return found\n"
)
OTHER = (
    "import torch\ndef predict(logits):\n    return logits\ndef other(x):\n    return x.item()\n"
)


def reported(path: Path, text: str) -> bool:
    """Whether the caller's closing reading is reported."""
    found = check.check([Unit(str(path), "python", text)], catalog.load_rules()).findings
    return any(f.rule == "host-clock-without-sync" for f in found)


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        pytest.param(READS, True, id="it reads the result"),
        pytest.param(CALLS, True, id="a function that it calls reads the result"),
        pytest.param(MASKS, True, id="it selects with a mask, and so counts the members"),
        pytest.param(KEEPS, False, id="it leaves the result on the device"),
        pytest.param(OTHER, False, id="another function of the module reads"),
    ],
)
def test_a_report_hangs_on_what_the_function_does(tmp_path: Path, text: str, silent: bool) -> None:
    (tmp_path / "tools.py").write_text(text, encoding="utf-8")
    caller = CALLER.format(module="tools", name="predict")
    assert reported(tmp_path / "bench.py", caller) is not silent


def test_packages_and_relative_imports_are_found(tmp_path: Path) -> None:
    package = tmp_path / "server" / "utils"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .tokens import predict\n", encoding="utf-8")
    (package / "tokens.py").write_text(READS, encoding="utf-8")
    (tmp_path / "server" / "models").mkdir()
    path = tmp_path / "server" / "models" / "causal.py"
    for module in ("server.utils", "server.utils.tokens", "..utils.tokens", "..utils"):
        assert not reported(path, CALLER.format(module=module, name="predict")), module


def test_an_import_of_several_lines_is_followed(tmp_path: Path) -> None:
    package = tmp_path / "feature"
    package.mkdir()
    names = "from .matching import (\n    other,\n    predict,\n)\n"
    (package / "__init__.py").write_text(names, encoding="utf-8")
    (package / "matching.py").write_text(READS, encoding="utf-8")
    caller = CALLER.format(module="feature", name="predict")
    assert not reported(tmp_path / "bench.py", caller)


EXTENSION = """\
#include <torch/extension.h>
void predict(torch::Tensor logits) {{
  kernel<<<1, 32>>>(logits.data_ptr<float>());
  {last}
}}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("predict", &predict, "doc"); }}
"""


@pytest.mark.parametrize(
    ("last", "silent"),
    [
        pytest.param("cudaDeviceSynchronize();", True, id="it waits"),
        pytest.param("cudaGetLastError();", False, id="it only launches"),
    ],
)
def test_an_extension_beside_the_file_is_read(tmp_path: Path, last: str, silent: bool) -> None:
    (tmp_path / "wrapper.cu").write_text(EXTENSION.format(last=last), encoding="utf-8")
    text = (
        "import time\nimport torch\nimport built as rk\nx = torch.ones(8, device='cuda')\n"
        "t0 = time.time()\nrk.predict(x)\nprint(time.time() - t0)\n"
    )
    assert reported(tmp_path / "bench.py", text) is not silent


def test_text_without_a_file_is_judged_by_itself(tmp_path: Path) -> None:
    caller = CALLER.format(module="tools", name="predict")
    assert reported(tmp_path / "nowhere" / "bench.py", caller)


def test_a_module_beside_the_path_of_a_repository_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(READS, encoding="utf-8")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    path = repository / "bench.py"
    assert not elsewhere.waits(str(path), "tools.predict")


def test_a_large_module_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(READS + "#" * 500_000, encoding="utf-8")
    assert not elsewhere.waits(str(tmp_path / "bench.py"), "tools.predict")


@pytest.mark.parametrize(("text", "silent"), [(READS, True), (KEEPS, False)])
def test_what_a_package_imports_with_a_star_is_found(
    tmp_path: Path, text: str, silent: bool
) -> None:
    package = tmp_path / "utils"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from .other import *\nfrom .tokens import *\n", encoding="utf-8"
    )
    (package / "other.py").write_text("import torch\ndef load():\n    return 1\n", encoding="utf-8")
    (package / "tokens.py").write_text(text, encoding="utf-8")
    caller = CALLER.format(module="utils", name="predict")
    assert reported(tmp_path / "bench.py", caller) is not silent

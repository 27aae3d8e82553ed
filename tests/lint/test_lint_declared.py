"""Fixes that need a version: safe only where the project supports nothing older."""

import pytest
from lint.lint_command import FIXABLE, Lint, Project
from perf_timing.lint.files import declared


@pytest.mark.parametrize(
    ("name", "text", "older"),
    [
        ("pyproject.toml", 'dependencies = ["torch>=2.4", "numpy"]', False),
        ("pyproject.toml", 'dependencies = ["torch>=1.13,<3"]', True),
        ("setup.py", 'setup(install_requires=["torch >= 1.7.0", "torchvision>=0.8"])', True),
        ("setup.cfg", "install_requires =\n    torch~=2.5\n", False),
        ("requirements.txt", "numpy\ntorch==2.1.2+cu121\n", True),
        ("requirements-dev.txt", "torch<2.4\n", True),
        ("requirements.txt", "torch\ntorchvision>=0.8\npytorch-lightning>=1.0\n", False),
        ("requirements.txt", "torch!=2.0.1\n", False),
        ("pyproject.toml", 'dependencies = ["torch (>=2.0)"]', True),
        ("notes.txt", "torch>=1.0\n", False),
    ],
)
def test_the_bounds_of_the_project_decide(
    project: Project, name: str, text: str, older: bool
) -> None:
    folder = project({f"pkg/{name}": text, "pkg/src/a.py": FIXABLE})
    assert declared.supports_older(str(folder / "pkg/src/a.py"), "torch 2.4") is older


def test_a_new_name_is_not_written_where_an_older_torch_is_supported(
    lint: Lint, project: Project
) -> None:
    folder = project({"pyproject.toml": 'dependencies = ["torch>=2.0"]\n', "a.py": FIXABLE})
    assert lint("a.py", "--fix").status == 1
    assert (folder / "a.py").read_text() == FIXABLE
    assert lint("a.py", "--fix", "--unsafe-fixes").status == 0
    assert "device_time_total" in (folder / "a.py").read_text()

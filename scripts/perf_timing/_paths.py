"""Where the package's files are: the only module that knows the two layouts."""

from pathlib import Path

# resolve() because skill installers link the folder into place.
_PACKAGE = Path(__file__).resolve().parent


def templates_dir() -> Path:
    """Folder of the Jinja templates; raises FileNotFoundError if the installation lacks it."""
    # A wheel carries templates/ inside the package; in a checkout it sits at the skill root.
    for candidate in (_PACKAGE / "templates", _PACKAGE.parents[1] / "templates"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"templates/ is missing beside {_PACKAGE}; reinstall the package")


def rules_dir() -> Path:
    """Folder of the lint rules, one file a rule."""
    return _PACKAGE / "rules"

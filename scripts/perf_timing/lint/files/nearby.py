"""Where a linted file lies."""

from pathlib import Path

from perf_timing.lint.files import consulted


def folders_above(path: str, most: int) -> list[Path]:
    """The folder of the file `path` and those above it, `most` at most, up to a repository's."""
    folder = Path(path).absolute().parent
    found = []
    for place in [folder, *folder.parents][:most]:
        found.append(place)
        if consulted.content(place / ".git"):
            break
    return found

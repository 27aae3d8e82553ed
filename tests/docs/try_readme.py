"""Run README's first command as a newcomer would: in a fresh clone, with empty caches.

    python tests/docs/try_readme.py

Needs git and a package index; the tests leave it to .ci/run.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISED = ("host-clock-without-sync", "Next: ", "run: python bench_add.py")


def main() -> int:
    """Exit status 0 where the command did all that README says."""
    command = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)[0]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        begin = time.perf_counter()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=clone,
            env=environment | {"HOME": folder, "PIP_CACHE_DIR": str(Path(folder, "cache"))},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        took_s = time.perf_counter() - begin
        told = done.stdout + done.stderr
        print(told)
        missing = [part for part in PROMISED if part not in told]
        rendered = clone / "bench_add.py"
        if done.returncode != 0 or missing or not rendered.is_file():
            text = f"exit {done.returncode}, missing in the output: {missing}"
            print(f"try_readme: README's first command failed: {text}", file=sys.stderr)
            return 1
        compile(rendered.read_text(encoding="utf-8"), str(rendered), "exec")
        changed = subprocess.run(
            ["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True
        ).stdout
        if changed:
            print(f"try_readme: files that git does not ignore: {changed}", file=sys.stderr)
            return 1
    print(f"try_readme: README's first command did what it says, in {took_s:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

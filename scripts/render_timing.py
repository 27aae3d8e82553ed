#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "ast-grep-cli>=0.51,<1", "jinja2>=3.1", "pyyaml>=6", "tomli>=2; python_version < '3.11'",
# ]
# ///
"""Run `render-timing` from a checkout, with nothing installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True  # the skill folder may be read-only or shared

from perf_timing.render import main  # noqa: E402

raise SystemExit(main())

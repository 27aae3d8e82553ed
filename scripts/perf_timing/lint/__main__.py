"""`python -m perf_timing.lint`: the command, and `--write-reference` for maintainers."""

import sys

from perf_timing.lint import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["--write-reference"]:
        from perf_timing.lint.output.reference import write_reference

        raise SystemExit(write_reference(sys.argv[2:]))
    raise SystemExit(main())

"""`python -m perf_timing.report`."""

from perf_timing.report import main

raise SystemExit(main())

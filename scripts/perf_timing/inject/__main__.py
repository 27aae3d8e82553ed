"""`python -m perf_timing.inject`."""

from perf_timing.inject import main

raise SystemExit(main())

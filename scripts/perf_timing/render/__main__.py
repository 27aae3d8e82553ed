"""`python -m perf_timing.render`."""

from perf_timing.render import main

raise SystemExit(main())

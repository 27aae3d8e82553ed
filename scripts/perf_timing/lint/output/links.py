"""Where a reader finds what a finding refers to."""

HOME = "https://github.com/perf-workload-profiling/perf-workload-profiling"
# A rule's own `url` is relative to the root of the repository; every output prepends this.
PAGES = f"{HOME}/blob/main/"


def rule_page(url: str) -> str:
    """The full address of a rule's `url` such as "references/rules.md#coarse-clock"."""
    return url if "://" in url else PAGES + url

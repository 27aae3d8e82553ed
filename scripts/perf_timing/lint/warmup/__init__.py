"""Whether the work of a region has run before its first sample."""

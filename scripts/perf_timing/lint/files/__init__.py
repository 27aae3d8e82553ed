"""Which files are checked, how each is read, and what is remembered of it."""

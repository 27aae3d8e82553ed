"""GPU timing that can be trusted: render it, lint it, inject it, report it."""

__version__ = "0.1.0"

"""Instruments training scripts: finds the loop, inserts timing, takes it out again."""

from perf_timing.inject.command import main

__all__ = ["main"]

"""A simulated GPU: rendered scripts run on it and must report the known time."""

from .machine import Kernel, Machine
from .model import MIB, DeviceModel
from .runner import EXIT_LIMIT, Result, run_script

__all__ = ["EXIT_LIMIT", "MIB", "DeviceModel", "Kernel", "Machine", "Result", "run_script"]

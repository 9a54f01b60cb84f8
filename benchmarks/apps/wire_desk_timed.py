"""The same pipeline in code that names a clock, and so is watched call by call."""

from __future__ import annotations

import time

from wire_desk import Desk

__all__ = ["Desk", "time"]

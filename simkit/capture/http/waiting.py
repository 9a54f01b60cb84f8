"""Delays of answers: real, or none if a guard makes sleep free.

A client that would not wait that long gets its own timeout either way.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from simkit.capture.http.connections import watcher


def seconds(value: Any) -> float | None:
    """Return a client's read timeout; None if it waits for ever."""
    return float(value) if isinstance(value, int | float) else None


def wait(wait_ms: int, timeout_s: float | None) -> bool:
    """Wait; return False if the client's timeout ran out."""
    delay_s, is_patient = shortened(wait_ms, timeout_s)
    if delay_s:
        time.sleep(delay_s)
    return is_patient


async def wait_async(wait_ms: int, timeout_s: float | None) -> bool:
    """Wait; return False if the client's timeout ran out."""
    delay_s, is_patient = shortened(wait_ms, timeout_s)
    if delay_s:
        await asyncio.sleep(delay_s)
    return is_patient


def shortened(wait_ms: int, timeout_s: float | None) -> tuple[float, bool]:
    """Return how long to wait really, and whether the client waits that long."""
    is_patient = timeout_s is None or wait_ms <= timeout_s * 1_000
    wait_s = wait_ms / 1_000 if is_patient else timeout_s or 0.0
    return (0.0 if watcher.get() is not None else wait_s), is_patient

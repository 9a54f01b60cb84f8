"""What applications of every framework do alike: a run is cancelled while its tool waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def cancelled_while(waits: asyncio.Event, running: Coroutine[Any, Any, Any]) -> str:
    """Cancel a run once its tool waits; return what came of it."""
    work = asyncio.create_task(running)
    at_work = asyncio.create_task(waits.wait())
    await asyncio.wait((work, at_work), return_when=asyncio.FIRST_COMPLETED)
    at_work.cancel()
    work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        return "Cancelled."
    return "It was not cancelled."

"""The tools of the booking desk as coroutines."""

from __future__ import annotations

import asyncio

import booking_tools
from booking_tools import gates, read, write


async def choose_seat(seat: str) -> str:
    """Chooses a seat."""
    return booking_tools.choose_seat(seat)


async def charge(card: str) -> str:
    """Charges for the seat that was chosen."""
    return booking_tools.charge(card)


async def wait() -> str:
    """Waits until the other tool has signalled."""
    gate = gates["task"]
    assert isinstance(gate, asyncio.Event)
    await gate.wait()
    return "waited"


async def signal() -> str:
    """Ends the other one's wait."""
    gates["task"].set()
    return "signalled"


async def look(place: str) -> str:
    """Looks something up, and counts: a look that begins meanwhile is lost."""
    number = await asyncio.to_thread(read)
    await asyncio.to_thread(write, number + 1)
    return place


TASKS = (choose_seat, charge, wait, signal, look)

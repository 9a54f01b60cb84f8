"""Tools of a booking desk that share what they know: one needs the effect of the other."""

from __future__ import annotations

import asyncio
import threading

booking: dict[str, str] = {}
gates: dict[str, asyncio.Event | threading.Event] = {}


def begin() -> None:
    """Forgets the last booking."""
    booking.clear()
    gates.clear()
    gates["task"], gates["thread"] = asyncio.Event(), threading.Event()


def charged() -> str:
    """The seat that was charged for, and how often a seat was looked up."""
    return f"{booking.get('charged', '')} {booking.get('looked', '0')}".strip()


def choose_seat(seat: str) -> str:
    """Chooses a seat."""
    booking["seat"] = seat
    return "chosen"


def charge(card: str) -> str:
    """Charges for the seat that was chosen."""
    booking["charged"] = booking.get("seat", "nothing")
    return "charged"


def wait() -> str:
    """Waits until the other tool has signalled."""
    gate = gates["thread"]
    assert isinstance(gate, threading.Event)
    gate.wait()
    return "waited"


def signal() -> str:
    """Ends the other one's wait."""
    gates["thread"].set()
    return "signalled"


def read() -> int:
    """How often was anything looked up?"""
    return int(booking.get("looked", "0"))


def write(number: int) -> None:
    """Notes how often anything was looked up."""
    booking["looked"] = str(number)


THREADS = (choose_seat, charge, wait, signal)
PROMPT = "You are the desk."

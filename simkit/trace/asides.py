"""Events beside a run: what went over the wire, and from which line of code.

Two equal runs need not share them: a line moves with each edit of a file, and contexts say what a
request holds. So they are in stored traces and on the page, and in no digest and no comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from simkit.core.messages import JsonValue
from simkit.trace.event_parts import Event

EventT = TypeVar("EventT")


class RequestSent(Event, frozen=True, gc=False, kw_only=True, tag="RequestSent"):
    """The request that code sent to a model or a server; no digest or diff holds it."""

    call: str = ""
    """The model call; for a server, a name that joins request and response."""
    server: str = ""
    """The scenario's server; empty for a model."""
    method: str = ""
    url: str = ""
    """Host and path only, since a query may hold a key."""
    where: str = ""
    """The application's nearest code: ``package/file.py:line in function``; empty if only
    libraries were on the stack."""
    body: JsonValue = None
    """The body, or its changes from the agent's previous request if that is shorter."""


class ResponseReceived(Event, frozen=True, gc=False, kw_only=True, tag="ResponseReceived"):
    """The response, as the code's client read it."""

    call: str = ""
    server: str = ""
    status: int = 0
    """0 if there was no response."""
    body: JsonValue = None
    """Its text; JSON where that holds files, or where it is a server's."""


ASIDES: Final[frozenset[type]] = frozenset((RequestSent, ResponseReceived))


def without_asides(events: Iterable[EventT]) -> list[EventT]:
    """Return the events that equal runs share."""
    return [event for event in events if type(event) not in ASIDES]

"""The provider protocols that are spoken, and which one a request is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.providers.anthropic import messages
from simkit.providers.gemini import generate
from simkit.providers.http import HttpRequest
from simkit.providers.openai import chat, responses
from simkit.providers.values import Protocol

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    protocol.name: protocol
    for protocol in (
        chat.PROTOCOL,
        responses.PROTOCOL,
        messages.PROTOCOL,
        generate.PROTOCOL,
    )
}
"""All that are spoken, by name; another one is one more module."""


def protocol_of(request: HttpRequest) -> Protocol | None:
    """Return the protocol of which a request is a model call; None for any other request."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.speaks(request)), None)

"""The provider protocols that simkit reads, and the protocol of a request."""

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
"""All protocols by name; a new one is one more module."""


def protocol_of(request: HttpRequest) -> Protocol | None:
    """Return the protocol of a model call; None for any other request."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.speaks(request)), None)

"""The provider protocols that are spoken, and which one a request is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.wire import anthropic_messages, gemini, openai_chat, openai_responses
from simkit.wire.http import HttpRequest
from simkit.wire.values import Protocol

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    protocol.name: protocol
    for protocol in (
        openai_chat.PROTOCOL,
        openai_responses.PROTOCOL,
        anthropic_messages.PROTOCOL,
        gemini.PROTOCOL,
    )
}
"""All that are spoken, by name; another one is one more module."""


def protocol_of(request: HttpRequest) -> Protocol | None:
    """Returns the protocol of which a request is a model call; None for any other request."""
    return next((spoken for spoken in PROTOCOLS.values() if spoken.speaks(request)), None)

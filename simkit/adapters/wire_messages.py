"""Messages that a framework holds in a provider's format, parsed as those of its requests are."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from simkit.core.messages import Message
from simkit.providers.attachments import inline, linked, placeholder
from simkit.providers.http import HttpRequest
from simkit.providers.openai.items import messages_of
from simkit.providers.protocols import PROTOCOLS

MessageFormat: TypeAlias = Literal["anthropic", "gemini", "openai-chat", "openai-responses"]

_KEYS: Final = {"anthropic": "messages", "gemini": "contents", "openai-chat": "messages"}
"""Where the body of a request has its messages."""
_URL: Final = "https://localhost/models/m:generateContent"
"""Gemini's requests have their model in the address."""
_encode: Final = msgspec.json.Encoder().encode


def parse_messages(messages: Sequence[Any], format: MessageFormat) -> list[Message]:
    """Return messages of a provider's ``format`` as the interceptor parses them in a request.

    ``messages`` are what stands under `messages`, `contents` or `input` there, as JSON data. Raises
    WireInvalid for what no request could hold. Example::

        parse_messages([{"role": "user", "content": "Hello"}], "openai-chat")
    """
    if format == "openai-responses":
        return messages_of([(item, f"input[{place}]") for place, item in enumerate(messages)])
    body = _encode({"model": "m", _KEYS[format]: messages})
    return list(PROTOCOLS[format].parse_request(HttpRequest("POST", _URL, (), body)).messages)


def attachment_text(
    kind: str, source: str = "", *, data: bytes | None = None, media_type: str = ""
) -> str:
    """Return what stands in a message's text for an attachment, as the interceptor writes it.

    ``source`` is its address or id; ``data`` are the bytes of one that has none. Example::

        attachment_text("image", "https://example.com/a.png")  # "[image https://example.com/a.png]"
    """
    if data is None:
        return placeholder(linked(kind, source))
    return placeholder(inline(kind, b64encode(data).decode(), media_type))

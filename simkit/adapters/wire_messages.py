"""Messages in a provider's format that a framework holds, parsed as in a request."""

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
"""Protocol to the key of the messages in the body of a request."""
_URL: Final = "https://localhost/models/m:generateContent"
"""A request to Gemini has the model in its address."""
_encode: Final = msgspec.json.Encoder().encode


def parse_messages(messages: Sequence[Any], format: MessageFormat) -> list[Message]:
    """Return messages in a provider's ``format`` as the interceptor parses those of a request.

    ``messages`` is the JSON data under `messages`, `contents` or `input`. Raise WireInvalid if no
    request could contain it. Example::

        parse_messages([{"role": "user", "content": "Hello"}], "openai-chat")
    """
    if format == "openai-responses":
        return messages_of([(item, f"input[{place}]") for place, item in enumerate(messages)])
    body = _encode({"model": "m", _KEYS[format]: messages})
    return list(PROTOCOLS[format].parse_request(HttpRequest("POST", _URL, (), body)).messages)


def attachment_text(
    kind: str, source: str = "", *, data: bytes | None = None, media_type: str = ""
) -> str:
    """Return the text that the interceptor shows in a message in place of an attachment.

    ``source`` is its address or id; without one, ``data`` are its bytes. Example::

        attachment_text("image", "https://example.com/a.png")  # "[image https://example.com/a.png]"
    """
    if data is None:
        return placeholder(linked(kind, source))
    return placeholder(inline(kind, b64encode(data).decode(), media_type))

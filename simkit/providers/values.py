"""What passes between agents and providers, the same for every protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from simkit.core.messages import NO_EXTRAS, Fails, JsonValue, Message, ResponseExtras, Usage
from simkit.providers.http import Headers, HttpAnswer, HttpRequest, HttpResponse

JSON: Final[Headers] = (("content-type", "application/json"),)
OUTPUT_NAME: Final = "output"
"""What a request calls the schema of its answer, where the protocol wants a name for it."""


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One tool that a model is offered."""

    name: str
    schema: JsonValue = None
    """JSON Schema of its arguments; None for a tool that the provider runs itself."""
    description: str = ""


class ParsedRequest(msgspec.Struct, frozen=True, gc=False):
    """What one request asks: the context as the provider would see it."""

    protocol: str
    model: str
    messages: tuple[Message, ...]
    """In order; system instructions first, wherever the protocol carries them. Roles, calls and
    call ids are as `simkit.core.messages` has them; ``data`` holds what is more than text (JSON
    results as values, parts such as images by reference, reasoning), without which ``content`` is
    whole."""
    offers: tuple[Offer, ...] = ()
    choice: str = "auto"
    """``auto``, ``none``, ``required``, or the one tool that must be called."""
    output: JsonValue = None
    """The JSON Schema that the answer must satisfy, or None."""
    settings: Mapping[str, JsonValue] = {}
    """What else the body says (temperature, …), by its own names."""
    is_streamed: bool = False
    previous: str = ""
    """The response that this one goes on from; ``messages`` hold only what is new."""
    hidden: str = ""
    """What the provider adds to the context and nobody here can see: ``cachedContents/abc``."""


class OutgoingReply(msgspec.Struct, frozen=True, gc=False):
    """What a model answers, before it is put into a protocol's words."""

    serial: str
    """Makes ids: ``c12``; the same for the same run."""
    message: Message
    """Role assistant: text, and calls whose ids stand in the response as they are."""
    usage: Usage
    """Both numbers are there."""
    chunks: tuple[int, ...] | int | None = None
    """How a stream is cut: sizes in characters, or their number; None is a default."""
    finish: str = ""
    """Why the model stopped: empty for the natural reason, or ``length``."""
    extras: ResponseExtras = NO_EXTRAS
    """What the provider sends beside text and calls."""


class ParsedResponse(msgspec.Struct, frozen=True, gc=False):
    """What a provider's response says: the opposite of rendering."""

    message: Message
    """Role assistant: text, calls with the provider's ids, ``data`` as in `ParsedRequest`."""
    usage: Usage | None = None
    finish: str = ""
    """Empty for the natural reason; else ``length``, ``refusal``, ``content_filter``, …"""
    id: str = ""
    """The response's id."""
    error: Fails | None = None
    """The error or broken stream; the message is then what had come before it."""


class Protocol(msgspec.Struct, frozen=True):
    """How one provider's interface is spoken."""

    name: str
    """As findings and cassettes name it: ``openai-chat``."""
    variables: Mapping[str, str]
    """Environment variables that point a client at a loopback server; ``{url}`` is its address."""
    keys: tuple[str, ...]
    """Environment variables without which clients refuse to be built."""
    speaks: Callable[[HttpRequest], bool]
    """Whether a request is a model call of this protocol; looks at method and path only."""
    parse_request: Callable[[HttpRequest], ParsedRequest]
    """Reads a request; raises WireInvalid, naming the field."""
    build_request: Callable[[ParsedRequest], HttpRequest]
    """Writes a request to the provider's own address, of which ``parse_request`` reads the same
    again."""
    served: Callable[[OutgoingReply, ParsedRequest], HttpResponse]
    """Renders an answer, as a body or as the full event stream; raises WireInvalid, naming the
    word, for what this provider does not send."""
    failed: Callable[[str, Fails, ParsedRequest], HttpAnswer]
    """Renders a failure (a serial first) as this provider fails: status, headers, body, broken
    stream. Every kind of `simkit.providers.failures` is known."""
    parse_response: Callable[[HttpResponse, ParsedRequest], ParsedResponse]
    """Reads a response, streamed or not, whole or cut; raises WireInvalid if it is none."""
    call_prefix: str = ""
    """What the ids of this provider's tool calls begin with, by which programs tell them from those
    of others; empty where ids are anybody's."""
    keeps_conversations: bool = False
    """A request may go on from an earlier response by its id."""

"""Values between agents and providers, the same for every protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from simkit.core.messages import NO_EXTRAS, Fails, JsonValue, Message, ResponseExtras, Usage
from simkit.providers.body_reader import MessageCache
from simkit.providers.http import Headers, HttpAnswer, HttpRequest, HttpResponse

JSON: Final[Headers] = (("content-type", "application/json"),)
OUTPUT_NAME: Final = "output"
"""The name of an answer's schema in requests, if the protocol requires one."""


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One tool that is offered to a model."""

    name: str
    schema: JsonValue = None
    """The JSON Schema of its arguments; None for a tool that the provider runs itself."""
    description: str = ""
    strict: bool = False
    """Whether the provider holds the model to the schema."""

    @property
    def described(self) -> dict[str, JsonValue]:
        """Return its name, and its description if it has one, as all protocols write them."""
        about: dict[str, JsonValue] = {"description": self.description} if self.description else {}
        return {"name": self.name, **about}


_THINKS: Final = re.compile(r"(openai/)?(gpt-5(?!-chat)|o\d)")
"""Models of OpenAI whose responses have reasoning items."""


class ParsedRequest(msgspec.Struct, frozen=True, gc=False):
    """One request, parsed: the context as the provider would see it."""

    protocol: str
    model: str
    messages: tuple[Message, ...]
    """The messages in order; system instructions first, wherever the protocol puts them. Roles,
    calls and call ids are as in `simkit.core.messages`; ``data`` holds the parts beside text
    (JSON results as values, parts such as images by reference, reasoning); ``content`` is
    complete without it."""
    offers: tuple[Offer, ...] = ()
    choice: str = "auto"
    """``auto``, ``none``, ``required``, or the one tool that must be called."""
    output: JsonValue = None
    """The JSON Schema for the answer, or None."""
    settings: Mapping[str, JsonValue] = {}
    """All other keys of the body (temperature, …), under their own names."""
    is_streamed: bool = False
    previous: str = ""
    """The id of the response that this one continues; ``messages`` are then only the new ones.
    Empty if none."""
    hidden: str = ""
    """A part of the context that only the provider knows: ``cachedContents/abc``. Empty if none."""
    marks: tuple[tuple[int, int], ...] = ()
    """Where it asks the provider to keep its front: each the number of whole messages, and of
    characters of the next one, before a mark."""

    @property
    def can_think(self) -> bool:
        """Return whether the model shows its thinking, beside which it answers."""
        settings = self.settings
        if self.protocol == "bedrock":
            settings = _inside(settings, "additionalModelRequestFields")
        if self.protocol.startswith(("anthropic", "bedrock", "cohere")):
            kind = _inside(settings.get("thinking"), "").get("type")
            return kind is not None and kind != "disabled"
        if self.protocol == "ollama":
            return bool(settings.get("think"))
        return self.protocol == "openai-responses" and bool(_THINKS.match(self.model))

    @property
    def is_one_call(self) -> bool:
        """Return whether an answer may hold at most one call."""
        settings = self.settings
        return (
            settings.get("parallel_tool_calls") is False
            or settings.get("disable_parallel_tool_use") is True
        )

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """Return the only tools that may be called, of those offered; None if it names no list."""
        # OpenAI's `allowed_tools`, which the chat completions put one level deeper.
        choice = _inside(self.settings.get("tool_choice"), "allowed_tools")
        names = choice.get("tools")
        if names is None:
            calling = _inside(self.settings.get("toolConfig"), "functionCallingConfig")
            names = calling.get("allowedFunctionNames")
        if not isinstance(names, (list, tuple)) or not names:
            return None
        return tuple(filter(None, map(_name_of, names)))


def _inside(value: JsonValue, key: str) -> Mapping[str, JsonValue]:
    """Return the mapping at a key of a mapping, or else itself; empty if there is none."""
    if not isinstance(value, Mapping):
        return {}
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else value


def _name_of(tool: JsonValue) -> str:
    """Return the name of an allowed tool; empty if it has none."""
    if isinstance(tool, str):
        return tool
    record = _inside(tool, "function")
    # The names by which offers of the provider's own tools are known.
    names = (record.get(key) for key in ("name", "server_label", "type"))
    return next((name for name in names if isinstance(name, str)), "")


class OutgoingReply(msgspec.Struct, frozen=True, gc=False):
    """A reply of a model, before it is rendered in a protocol."""

    serial: str
    """The base of generated ids: ``c12``; the same in equal runs."""
    message: Message
    """Role assistant: text, and calls with the ids that the response gives them."""
    usage: Usage
    """Token counts; both numbers are given."""
    chunks: tuple[int, ...] | int | None = None
    """How a stream is cut: sizes in characters, or their number; None for the default."""
    finish: str = ""
    """The finish reason: empty for the natural end, or ``length``."""
    extras: ResponseExtras = NO_EXTRAS
    """Parts of the response beside text and calls."""
    explanation: str = ""
    """Why the model refused, or the provider ended the reply; empty if it does not say."""


def empty_reply(serial: str) -> OutgoingReply:
    """Return a reply without content."""
    return OutgoingReply(serial, Message("assistant"), Usage(0, 0))


class ParsedResponse(msgspec.Struct, frozen=True, gc=False):
    """A provider's response, parsed."""

    message: Message
    """Role assistant: text, calls with the provider's ids, ``data`` as in `ParsedRequest`."""
    usage: Usage | None = None
    finish: str = ""
    """The finish reason: empty for the natural end; else ``length``, ``refusal``,
    ``content_filter``, …"""
    id: str = ""
    """The response's id."""
    error: Fails | None = None
    """The error or the break of the stream; the message is then the part before it. None if all
    went well."""


def not_asked(request: ParsedRequest) -> HttpRequest:
    """Raise NotImplementedError: simkit itself asks no model in this protocol."""
    raise NotImplementedError(request.protocol)


class Protocol(msgspec.Struct, frozen=True):
    """One provider's interface: parsing and rendering."""

    name: str
    """Its name in findings and cassettes: ``openai-chat``."""
    variables: Mapping[str, str]
    """Environment variables that point a client at a loopback server; ``{url}`` is its address."""
    keys: tuple[str, ...]
    """Environment variables with its keys."""
    speaks: Callable[[HttpRequest], bool]
    """Returns whether a request is a model call of this protocol, by method and path; where other
    services have such paths, too, also by the keys of the body."""
    parse_request: Callable[[HttpRequest], ParsedRequest]
    """Parses a request; raises WireInvalid, naming the field."""
    served: Callable[[OutgoingReply, ParsedRequest], HttpResponse]
    """Renders a reply, as a body or as the full event stream; raises WireInvalid, naming the
    word, for parts that this provider does not send."""
    failed: Callable[[str, Fails, ParsedRequest], HttpAnswer]
    """Renders a failure (the serial first) as this provider does: status, headers, body, broken
    stream. It knows every kind of `simkit.providers.failures`."""
    parse_response: Callable[[HttpResponse, ParsedRequest], ParsedResponse]
    """Parses a response, streamed or not, complete or cut; raises WireInvalid for an invalid
    one."""
    build_request: Callable[[ParsedRequest], HttpRequest] = not_asked
    """Builds a request to the provider's own address, which ``parse_request`` parses to the same
    values; only protocols of providers that pipeline files may name have it."""
    call_prefix: str = ""
    """The prefix of this provider's tool call ids, by which programs recognize them; empty if
    there is none."""
    parse_again: Callable[[HttpRequest, MessageCache], ParsedRequest] | None = None
    """Parses a request as ``parse_request`` does, but each message once; None if this protocol
    cannot."""
    asks_key: bool = True
    """Whether clients require a key on creation; Ollama's own server asks for none."""
    keeps_conversations: bool = False
    """Whether a request may continue an earlier response by its id."""

"""Messages, tool calls and replies: the parts of a conversation and of a context.

All values are frozen. A message's ``content`` is always text, as a provider would send it; ``data``
keeps the structured value that the text was made from (a JSON reply, a tool's result).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec.structs import astuple

JsonValue: TypeAlias = Any
"""``None``, a bool, a number, a text, or a list or text-keyed mapping of such values."""

ROLE_ALIASES: Final[Mapping[str, str]] = {
    "human": "user",
    "ai": "assistant",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
}
"""Other libraries' words for the four roles; simkit reads them and never prints them."""

HANDOFF_PREFIX: Final = "transfer_to_"
"""In a context, a handoff of a declared pipeline is a call with this prefix and the target's
name."""


@final
class Absent:
    """The value of a missing thing; distinct from ``None``, which is a value."""

    _instance: Absent | None = None

    def __new__(cls) -> Absent:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "absent"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> tuple[type[Absent], tuple[()]]:
        return (Absent, ())


ABSENT: Final = Absent()


class Nothing:
    """A value that exists and is empty: the claim ``absent`` also holds for it."""

    __slots__ = ()


@final
class Unmade(Nothing, tuple[()]):
    """An empty list, such as the messages of a section that made none."""

    __slots__ = ()


@final
class UnmadeMapping(Nothing, dict[str, Any]):
    """An empty mapping."""


@final
class NoShare(Nothing, float):
    """The share 0 of an agent, or of a section, with nothing in a context."""

    __slots__ = ()


@final
class Null(Nothing):
    """The null of a missing error or reply."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Null)

    def __hash__(self) -> int:
        return hash(None)

    def __repr__(self) -> str:
        return "null"

    def __bool__(self) -> bool:
        return False


UNMADE: Final = Unmade()


def or_nothing(value: Any) -> Any:
    """Return the value that a claim is compared with; null and empty values become `Nothing`."""
    if value is None:
        return Null()
    if value.__class__ in (list, dict) and value:
        return value
    is_sized = value.__class__ in (list, dict) or isinstance(value, Sized)
    if is_sized and not len(value) and not isinstance(value, (str, Nothing)):
        return UnmadeMapping() if isinstance(value, Mapping) else UNMADE
    return value


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One tool call that an assistant message contains."""

    id: str
    name: str
    """The tool's name as it was offered to the model."""
    args: JsonValue
    to: str = ""
    """The agent that gets control, if the name does not say it; else empty."""
    is_ordinary: bool = False
    """Whether this is a plain tool call although the tool's name begins like a handoff's."""

    @property
    def target(self) -> str:
        """Return the agent that gets control; empty for a plain tool call."""
        if self.to or self.is_ordinary or not self.name.startswith(HANDOFF_PREFIX):
            return self.to
        return self.name.removeprefix(HANDOFF_PREFIX)

    @property
    def is_handoff(self) -> bool:
        """Return whether the call passes control to another agent."""
        return bool(self.target)


def call_of(identity: str, tool: str, args: JsonValue, target: str = "") -> ToolCall:
    """Return a call that passes control to ``target``, or a plain call if there is no target."""
    named = f"{HANDOFF_PREFIX}{target}"
    return ToolCall(
        identity,
        tool,
        args,
        "" if tool == named else target,
        is_ordinary=not target and tool.startswith(HANDOFF_PREFIX),
    )


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a conversation, a context or a log.

    >>> simkit.Message("assistant", "It was shipped.", agent="billing").content
    'It was shipped.'
    """

    role: str
    """One of system, user, assistant, tool."""
    content: str = ""
    """The text that a provider would send."""
    id: str = ""
    """A counter with a prefix (``m12``); empty for a message made for one context only."""
    agent: str | None = None
    """The agent that wrote it; for tool messages, the agent that called. None for the user."""
    turn: int = 0
    """The turn in which it was written, counted from 1; 0 before the first."""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """For tool messages: the id of the call that this message answers."""
    tool: str = ""
    """For tool messages: the tool's name."""
    data: JsonValue = None
    """The structured value that ``content`` was made from; None if there is none."""
    section: str = ""
    """Inside a context: the section that made it."""
    name: str = ""
    """Inside a context: the ``name`` with which it was sent; of tool messages, see ``tool``."""

    @property
    def number(self) -> int:
        """Return its number in the log, by which events refer to it; 0 if it is in no log."""
        return int(self.id[1:]) if self.id else 0


class KeptMessage(Message, frozen=True, gc=False, omit_defaults=True):
    """A message as a value of a channel, an output, a payload: no matcher takes it for its text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and astuple(self) == astuple(other)


class Dropped(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message, or part of one, that a history section read and did not show."""

    message: Message
    what: str
    """``message``, ``tool_calls`` (the calls were cut out of it) or ``content`` (edited)."""
    by: str
    """The filter's name, or ``window``."""


def message_field(value: Message | Dropped | ToolCall, key: str) -> Any:
    """Return the value under ``key`` for a matcher or a path, or ABSENT."""
    if isinstance(value, Dropped):
        if key == "what" or key == "by":
            return getattr(value, key)
        value = value.message
    if isinstance(value, ToolCall):
        if key == "tool":
            key = "name"
        if key == "to":
            return value.target or ABSENT
        return getattr(value, key) if key in ("id", "name", "args") else ABSENT
    if key == "text":
        key = "content"
    if key == "thinking":
        thinking = thinking_of(value)
        return ABSENT if thinking is None else thinking
    if key not in Message.__struct_fields__:
        return ABSENT
    field = getattr(value, key)
    if key in ("section", "tool", "call_id", "id", "name") and field == "":
        return ABSENT
    return field


REASONING: Final = "reasoning"
"""The key in an assistant message's ``data`` that holds its thinking."""


_EXTRA_KEYS: Final = frozenset((REASONING, "parts", "items", "refusal", "is_error"))
"""Keys of ``data`` that hold more than the text (`simkit.providers.attachments`)."""


def thinking_of(message: Message) -> str | None:
    """Return the thinking in a message as text; None if there is none.

    It is empty if the provider hides it. Each provider has its own parts for it.
    """
    data = message.data
    if (
        data is None
        or message.role != "assistant"
        or not isinstance(data, Mapping)
        or REASONING not in data
    ):
        return None
    if as_json(message.content) == data:
        # This is a structured reply with a field of that name; its text shows it.
        return None
    parts = data[REASONING]
    if not isinstance(parts, (list, tuple)):
        return None
    return "".join(_thought(part) for part in parts if isinstance(part, Mapping))


def without_thinking(message: Message) -> Message:
    """Return a message without its thinking, as other agents see it."""
    if thinking_of(message) is None:
        return message
    rest = {key: value for key, value in message.data.items() if key != REASONING}
    value = rest.get("value") if rest.keys() == {"value"} else rest or None
    return msgspec.structs.replace(message, data=value)


def value_said(message: Message) -> JsonValue:
    """Return the value that an assistant's text was made from; None if there is only text."""
    data = message.data
    if data is None:
        return None
    if (
        message.role != "assistant"
        or not isinstance(data, Mapping)
        or not _EXTRA_KEYS & data.keys()
    ):
        return data
    return as_json(message.content)


def _thought(part: Mapping[str, JsonValue]) -> str:
    for key in ("thinking", "text"):
        if isinstance(text := part.get(key), str):
            return text
    inner = part.get("summary") or part.get("content")
    if not isinstance(inner, (list, tuple)):
        return ""
    return "\n".join(
        _thought(inner_part) for inner_part in inner if isinstance(inner_part, Mapping)
    )


def as_json(text: str) -> JsonValue:
    """Return the JSON object or list in a text, or None."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The token counts of a reply; None if the scenario does not give them."""

    input_tokens: int | None = None
    """Tokens of the whole context, cached ones included."""
    output_tokens: int | None = None
    """Tokens of the whole reply, thinking included."""
    cached_tokens: int | None = None
    """Tokens of the context that were read from the provider's cache."""
    cache_write_tokens: int | None = None
    """Tokens of the context that were written to the provider's cache."""
    reasoning_tokens: int | None = None
    """Tokens of the reply that are thinking."""


class Text(msgspec.Struct, frozen=True, gc=False):
    """A reply with text."""

    text: str


class Structured(msgspec.Struct, frozen=True, gc=False):
    """A reply with a JSON value."""

    value: JsonValue


class CallLine(msgspec.Struct, frozen=True, gc=False):
    """One tool and its arguments, before the call has an id."""

    tool: str
    args: JsonValue


class Calls(msgspec.Struct, frozen=True, gc=False):
    """A reply with one or more tool calls in one message."""

    calls: tuple[CallLine, ...]
    text: str = ""


class Handoff(msgspec.Struct, frozen=True, gc=False):
    """A reply that passes control to another agent; a function of replies may return it.

    >>> simkit.Handoff("billing", payload={"order": 7}).to
    'billing'
    """

    to: str
    type: str | None = None
    query: str | None = None
    payload: JsonValue = None
    text: str = ""


class Interrupts(msgspec.Struct, frozen=True, gc=False):
    """A reply in which the agent asks the user and waits."""

    question: JsonValue


class Fails(msgspec.Struct, frozen=True, gc=False):
    """A failure of the provider instead of a reply."""

    kind: str
    """A name from ``simkit.providers.failures``, or a type that the scenario defines."""
    status: int
    message: str
    retry_after: float | None = None


class Computes(msgspec.Struct, frozen=True, gc=False):
    """A reply that a user's function computes from the context."""

    function: str
    """``module:callable``; it gets the messages and returns the value of a reply line."""


Reply: TypeAlias = Text | Structured | Calls | Handoff | Interrupts | Fails | Computes


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """The thinking of a model before its answer, as its provider shows it."""

    text: str | None = None
    """None if the provider hides it."""
    signature: str = ""
    """The provider's opaque signature of it; empty for thinking that simkit made up."""


class Token(msgspec.Struct, frozen=True, gc=False):
    """One token of a reply with its log probability."""

    text: str
    logprob: float
    others: tuple[tuple[str, float], ...] = ()
    """Other tokens that were possible in its place, with their log probabilities."""


class Citation(msgspec.Struct, frozen=True, gc=False):
    """A page that a provider's own tool found, and the place where the reply cites it."""

    url: str
    title: str = ""
    quote: str = ""
    """The quoted words of the page."""
    at: str = ""
    """The words of the reply that cite it; empty for the whole reply."""
    query: str = ""
    """The search query."""


def spans_of(
    text: str, citations: tuple[Citation, ...]
) -> list[tuple[int, int, tuple[Citation, ...]]]:
    """Return the places in a text that are cited, in order, with their citations."""
    spans: dict[tuple[int, int], tuple[Citation, ...]] = {}
    for citation in citations:
        start = text.find(citation.at) if citation.at else 0
        end = start + len(citation.at) if citation.at else len(text)
        spans[start, end] = (*spans.get((start, end), ()), citation)
    return [(start, end, cited) for (start, end), cited in sorted(spans.items())]


class ResponseExtras(msgspec.Struct, frozen=True, gc=False):
    """Parts of a provider's response beside text and calls.

    Apart from thinking, only HTTP traffic shows them.
    """

    thinking: Thinking | None = None
    logprobs: tuple[Token, ...] = ()
    citations: tuple[Citation, ...] = ()
    raw: Mapping[str, JsonValue] | None = None
    """Keys that are merged into the provider's response."""

    @property
    def is_nothing(self) -> bool:
        """Return whether all parts are empty."""
        return not (self.thinking or self.logprobs or self.citations or self.raw)


NO_EXTRAS: Final = ResponseExtras()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One reply with its extras, stream cuts and planned fault."""

    reply: Reply
    usage: Usage | None = None
    latency_ms: int = 0
    chunks: tuple[int, ...] | int | Literal["bytes"] | None = None
    """How a stream is cut: the sizes of its chunks in characters, or their number; or the whole
    body byte by byte, so that characters of several bytes are split. Only HTTP traffic shows it."""
    fault: str = ""
    """The planned fault of this reply; empty if none."""
    line: int | None = None
    """The index of its reply line among its agent's lines in the turn, for errors about handoffs
    and extras; None if no line gave it."""
    extras: ResponseExtras = NO_EXTRAS


def thinking_said(answer: Answer) -> str:
    """Return the thinking of an answer as text."""
    thinking = answer.extras.thinking
    return "" if thinking is None else thinking.text or ""


class Context(msgspec.Struct, frozen=True, gc=False):
    """All that one model call receives."""

    agent: str
    messages: Sequence[Message]
    tools: tuple[str, ...]
    """The names of the offered tools, in order, without handoffs."""
    settings: Mapping[str, JsonValue]

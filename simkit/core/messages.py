"""What is said, and what one model call receives: messages, tool calls, replies.

All values are frozen. A message's ``content`` is always text, as a provider would carry it;
``data`` keeps the structured value that the text was made from (a JSON reply, a tool's result).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

JsonValue: TypeAlias = Any
"""``None``, a bool, a number, a text, a list or a mapping with text keys, of the same."""

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
"""Other libraries' words for the four roles; read everywhere, printed nowhere."""

HANDOFF_PREFIX: Final = "transfer_to_"
"""A declared pipeline's handoff stands in a context as a call of this name and the target's."""


@final
class Absent:
    """The value of something that is not there; distinct from ``None``, which is a value."""

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
    """What is there and holds nothing: a claim that it is absent holds of it, too."""

    __slots__ = ()


@final
class Unmade(Nothing, tuple[()]):
    """A list that holds nothing, as the messages of a section that made none."""

    __slots__ = ()


@final
class UnmadeMapping(Nothing, dict[str, Any]):
    """A mapping that holds nothing."""


@final
class NoShare(Nothing, float):
    """The share of a context of who has nothing in it: 0."""

    __slots__ = ()


@final
class Null(Nothing):
    """The error or reply that there is not: null."""

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
    """Return what a whole claim is held against: null and what is empty are absent, too."""
    if value is None:
        return Null()
    if isinstance(value, Sized) and not len(value) and not isinstance(value, (str, Nothing)):
        return UnmadeMapping() if isinstance(value, Mapping) else UNMADE
    return value


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call that an assistant message asks for."""

    id: str
    name: str
    """The tool, as the model was offered it."""
    args: JsonValue
    to: str = ""
    """The agent to which it passes control, where the name does not say that."""
    is_ordinary: bool = False
    """Whether the tool passes control to nobody, although its name begins as if it did."""

    @property
    def target(self) -> str:
        """The agent to which it passes control; empty for an ordinary call."""
        if self.to or self.is_ordinary or not self.name.startswith(HANDOFF_PREFIX):
            return self.to
        return self.name.removeprefix(HANDOFF_PREFIX)

    @property
    def is_handoff(self) -> bool:
        """Whether it passes control to another agent."""
        return bool(self.target)


def call_of(identity: str, tool: str, args: JsonValue, target: str = "") -> ToolCall:
    """Return a call that passes control to ``target``, or, without one, an ordinary call."""
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
    """The text that a provider would carry."""
    id: str = ""
    """A counter with a prefix (``m12``); empty for a message made for one context only."""
    agent: str | None = None
    """Who said it: the agent, for tool messages the agent that called; None for the user."""
    turn: int = 0
    """The turn in which it was said, counted from 1; 0 before the first."""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """For tool messages: the call that this one answers."""
    tool: str = ""
    """For tool messages: the tool's name."""
    data: JsonValue = None
    """The structured value that ``content`` was made from, where there was one."""
    section: str = ""
    """Inside a context: the section that put it there."""

    @property
    def number(self) -> int:
        """Its number in the log, by which events refer to it; 0 for one that is in no log."""
        return int(self.id[1:]) if self.id else 0


class Dropped(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that a history section read and left out."""

    message: Message
    what: str
    """``message``, ``tool_calls`` (the calls were cut out of it) or ``content`` (edited)."""
    by: str
    """The filter's name, or ``window``."""


_MESSAGE_KEYS: Final = ("role", "content", "agent", "section", "calls", "id", "turn", "tool",
                        "call_id", "data")  # fmt: skip


def message_field(value: Message | Dropped | ToolCall, key: str) -> Any:
    """Return what a matcher or a path finds under ``key``, or ABSENT."""
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
    if key not in _MESSAGE_KEYS:
        return ABSENT
    field = getattr(value, key)
    if key in ("section", "tool", "call_id", "id") and field == "":
        return ABSENT
    return field


REASONING: Final = "reasoning"
"""The key under which the ``data`` of an assistant's message has its thinking."""


_EXTRA_KEYS: Final = frozenset((REASONING, "parts", "items", "refusal", "is_error"))
"""Keys under which ``data`` has what is beside the text (`simkit.providers.attachments`)."""


def thinking_of(message: Message) -> str | None:
    """Return the thinking that stands in a message, as a text; None if there is none.

    It is empty where a provider shows none of it. Each provider has its own parts for it.
    """
    data = message.data
    if message.role != "assistant" or not isinstance(data, Mapping) or REASONING not in data:
        return None
    if as_json(message.content) == data:
        # A structured reply with a field of that name: its text tells.
        return None
    parts = data[REASONING]
    if not isinstance(parts, (list, tuple)):
        return None
    return "".join(_thought(part) for part in parts if isinstance(part, Mapping))


def without_thinking(message: Message) -> Message:
    """Return a message as others are shown it, who are shown none of its thinking."""
    if thinking_of(message) is None:
        return message
    rest = {key: value for key, value in message.data.items() if key != REASONING}
    value = rest.get("value") if rest.keys() == {"value"} else rest or None
    return msgspec.structs.replace(message, data=value)


def value_said(message: Message) -> JsonValue:
    """Return the value that an assistant's text was made from, or None: nothing beside it."""
    data = message.data
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
    """Return the object or list that a text is in JSON, or None."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens that a reply reports; None where the scenario does not say."""

    input_tokens: int | None = None
    """Of the whole context, what was cached too."""
    output_tokens: int | None = None
    """Of the whole reply, thinking too."""
    cached_tokens: int | None = None
    """How many of the context's were read from the provider's cache."""
    cache_write_tokens: int | None = None
    """How many of the context's were written to it."""
    reasoning_tokens: int | None = None
    """How many of the reply's are thinking."""


class Text(msgspec.Struct, frozen=True, gc=False):
    """The model answers with text."""

    text: str


class Structured(msgspec.Struct, frozen=True, gc=False):
    """The model answers with a JSON value."""

    value: JsonValue


class CallLine(msgspec.Struct, frozen=True, gc=False):
    """One tool and its arguments, before the call has an id."""

    tool: str
    args: JsonValue


class Calls(msgspec.Struct, frozen=True, gc=False):
    """The model asks for one or more tools, all in one message."""

    calls: tuple[CallLine, ...]
    text: str = ""


class Handoff(msgspec.Struct, frozen=True, gc=False):
    """The model passes control to another agent: an answer that a function of replies may return.

    >>> simkit.Handoff("billing", payload={"order": 7}).to
    'billing'
    """

    to: str
    type: str | None = None
    query: str | None = None
    payload: JsonValue = None
    text: str = ""


class Interrupts(msgspec.Struct, frozen=True, gc=False):
    """The agent asks the user and waits."""

    question: JsonValue


class Fails(msgspec.Struct, frozen=True, gc=False):
    """The provider fails instead of answering."""

    kind: str
    """A name of ``simkit.providers.failures``, or a type of the scenario's own."""
    status: int
    message: str
    retry_after: float | None = None


class Computes(msgspec.Struct, frozen=True, gc=False):
    """The user's function of the context answers."""

    function: str
    """``module:callable``; it gets the messages and returns a reply line's value."""


Reply: TypeAlias = Text | Structured | Calls | Handoff | Interrupts | Fails | Computes


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """What a model thinks before it answers, as its provider shows it."""

    text: str | None = None
    """None where the provider shows none of it."""
    signature: str = ""
    """By which the provider knows it again, opaque to clients; empty for one made up."""


class Token(msgspec.Struct, frozen=True, gc=False):
    """One token of a reply, with how probable it was."""

    text: str
    logprob: float
    others: tuple[tuple[str, float], ...] = ()
    """What else could have stood there."""


class Citation(msgspec.Struct, frozen=True, gc=False):
    """A page that a tool of the provider's own found, and where the reply cites it."""

    url: str
    title: str = ""
    quote: str = ""
    """Words of the page."""
    at: str = ""
    """The words of the reply that cite it; empty for all of them."""
    query: str = ""
    """What was searched for."""


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
    """What a provider sends beside text and calls; only a wire shows it, but for thinking."""

    thinking: Thinking | None = None
    logprobs: tuple[Token, ...] = ()
    citations: tuple[Citation, ...] = ()
    raw: Mapping[str, JsonValue] | None = None
    """Merged into the provider's response."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing beside."""
        return not (self.thinking or self.logprobs or self.citations or self.raw)


NO_EXTRAS: Final = ResponseExtras()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One reply with what the provider says around it."""

    reply: Reply
    usage: Usage | None = None
    latency_ms: int = 0
    chunks: tuple[int, ...] | int | Literal["bytes"] | None = None
    """How a stream is cut: sizes in characters, or their number; or the whole body byte by byte,
    so that characters of several bytes come in pieces. Only a wire shows it."""
    fault: str = ""
    """The planned misbehaviour that it is, if it is one."""
    line: int | None = None
    """The place of its reply line among its agent's in the turn, where something may not fit: of
    a handoff, and of what stands beside."""
    extras: ResponseExtras = NO_EXTRAS


def thinking_said(answer: Answer) -> str:
    """Return what the model thinks before it answers, as a text."""
    thinking = answer.extras.thinking
    return "" if thinking is None else thinking.text or ""


class Context(msgspec.Struct, frozen=True, gc=False):
    """Exactly what one model call receives."""

    agent: str
    messages: Sequence[Message]
    tools: tuple[str, ...]
    """The names of the tools offered, in order; handoffs are not among them."""
    settings: Mapping[str, JsonValue]

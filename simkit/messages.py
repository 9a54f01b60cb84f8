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

    _one: Absent | None = None

    def __new__(cls) -> Absent:
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one

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
    """Returns what a whole claim is held against: null and what is empty are absent, too."""
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
    """It passes control to nobody, although its name begins as if it did."""

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
    """Returns a call that passes control to ``target``, or, without one, an ordinary call."""
    named = f"{HANDOFF_PREFIX}{target}"
    return ToolCall(
        identity, tool, args, "" if tool == named else target,
        is_ordinary=not target and tool.startswith(HANDOFF_PREFIX),
    )  # fmt: skip


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a conversation, a context or a log."""

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
    """Returns what a matcher or a path finds under ``key``, or ABSENT."""
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
    if key not in _MESSAGE_KEYS:
        return ABSENT
    found = getattr(value, key)
    if key in ("section", "tool", "call_id", "id") and found == "":
        return ABSENT
    return found


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens that a reply reports; None where the scenario does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


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
    """The model passes control to another agent."""

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
    """A name of ``simkit.failures``, or a type of the scenario's own."""
    status: int
    message: str
    retry_after: float | None = None


class Computes(msgspec.Struct, frozen=True, gc=False):
    """The user's function of the context answers."""

    function: str
    """``module:callable``; it gets the messages and returns a reply line's value."""


Reply: TypeAlias = Text | Structured | Calls | Handoff | Interrupts | Fails | Computes


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
    """Of a handoff: the place of its reply line among its agent's in the turn."""


class Context(msgspec.Struct, frozen=True, gc=False):
    """Exactly what one model call receives."""

    agent: str
    messages: Sequence[Message]
    tools: tuple[str, ...]
    """The names of the tools offered, in order; handoffs are not among them."""
    settings: Mapping[str, JsonValue]

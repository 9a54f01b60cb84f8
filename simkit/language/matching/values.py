"""Values as matchers see them, their text, structure and number; and a matcher's own texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from simkit.core.messages import ABSENT, Dropped, Message, Null, ToolCall, thinking_of
from simkit.language.json_schema import is_array, is_number, is_object
from simkit.language.paths import as_text


class Content(NamedTuple):
    """A message's content: its text, and the value that the text was made from."""

    text: str
    data: Any = None

    @property
    def structure(self) -> Any:
        """Return the value behind the text; a text that is a JSON object or array is parsed."""
        if self.data is not None:
            return self.data
        if self.text[:1] in ("{", "["):
            try:
                return json.loads(self.text)
            except (ValueError, RecursionError):
                return self.text
        return self.text


class ToolName(str):
    """The name of an offered tool: a text to matchers, and a mapping of its definition.

    >>> turn.context.coach.tools[0].description
    'Logs a meal.'
    """

    __slots__ = ("description", "parameters", "server", "strict")
    description: str
    parameters: Any
    server: str | None
    strict: bool

    def __new__(
        cls, name: str, description: str, parameters: Any, strict: bool, server: str | None = None
    ) -> ToolName:
        """``parameters`` is the JSON Schema of its arguments, ``server`` the one that has it."""
        tool = super().__new__(cls, name)
        tool.description, tool.parameters, tool.strict = description, parameters, strict
        tool.server = server
        return tool

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return name and definition, for copies."""
        return str(self), self.description, self.parameters, self.strict, self.server

    @property
    def definition(self) -> dict[str, Any]:
        """Return what a model is sent of the tool beside its name."""
        return {key: getattr(self, key) for key in ("description", "parameters", "strict")}

    @property
    def structure(self) -> dict[str, Any]:
        """Return the definition, with the name, and the server if it has one."""
        server = {"server": self.server} if self.server is not None else {}
        return {"name": str(self), **self.definition, **server}


TEXT_KINDS: Final = (Message, Dropped, Content, ToolCall)
"""Types that are not texts but have a text for scalars and text operators."""


def source_text(scalar: Any) -> str:
    """Return a YAML scalar as it was written, for places that hold text."""
    if scalar is None:
        return ""
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return str(getattr(scalar, "source", scalar))


def text_of(value: Any) -> str | None:
    """Return the text that text operators apply to, or None."""
    kind = value.__class__
    if kind is Message:
        return str(value.content)
    if kind is Content:
        return str(value.text)
    if kind is Dropped:
        return str(value.message.content)
    if kind is ToolCall:
        return str(value.name)
    return value if isinstance(value, str) else None


def searched_text(value: Any) -> str | None:
    """Return the text that ``$contains`` searches, or None."""
    texts = texts_of(value)
    return "\n".join(texts) if texts else None


def texts_of(value: Any) -> list[str]:
    """Return the texts of a value that ``$regex`` searches one by one.

    A text is itself. A message gives its content, then each call's name and arguments, then its
    thinking, because a model reads all of that. A call gives its name, then both name and
    arguments. An absent value or null gives none. Any other value is its JSON on one line.
    """
    if isinstance(value, Dropped):
        value = value.message
    if isinstance(value, ToolCall):
        return [value.name, f"{value.name} {as_text(value.args)}"]
    if isinstance(value, Message) and (value.calls or value.data is not None):
        calls = (f"{call.name} {as_text(call.args)}" for call in value.calls)
        return [value.content, *calls, *filter(None, (thinking_of(value),))]
    text = text_of(value)
    if text is not None:
        return [text]
    return [] if value is ABSENT or structure_of(value) is None else [as_text(value)]


def structure_of(value: Any) -> Any:
    """Return a list or mapping as it is, and a message's content as its data."""
    if value.__class__ is Null:
        return None
    return value.structure if value.__class__ is Content else value


def value_in(value: Any) -> Any:
    """Return the value that a text has as JSON; ABSENT if it is no text, or no JSON."""
    text = text_of(value)
    try:
        return ABSENT if text is None else json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return ABSENT


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def size_of(value: Any) -> int | None:
    """Return the length of a text, list or mapping without reading its elements."""
    text = text_of(value)
    if text is not None:
        return len(text)
    return len(value) if is_list(value) or is_object(value) else None


def is_list(value: Any) -> bool:
    """Return whether a value is a list; a message's content never is."""
    return is_array(value) and value.__class__ is not Content


def number_of(value: Any) -> int | float | None:
    """Return a number, or None; ``true`` is not a number."""
    return value if is_number(value) else None


_TEXTLESS: Final = frozenset({"$type", "$len", "$schema", "$keys", "$any", "$absent", "$unique"})
_OF_PARTS: Final = ("$contains", "$starts", "$ends", "$regex", "$json")
"""Operators that hold for a text in which theirs is a part."""


def patterns_of(matcher: Any) -> tuple[str, ...]:
    """Return the texts and numbers that a matcher searches for, each once, in order.

    A regular expression counts only if it is plain text. Booleans, null and keys do not count.
    """
    texts = texts_wanted(matcher)
    literal_texts = (text for text, way in texts if way != "$regex" or re.escape(text) == text)
    return tuple(dict.fromkeys(literal_texts))


def texts_in(matcher: Any) -> tuple[str, ...]:
    """Return the same, with every regular expression as it is written: most of it is text."""
    return tuple(dict.fromkeys(text for text, _ in texts_wanted(matcher)))


def texts_wanted(matcher: Any, way: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text with the operator that makes it a part; without one it is a whole text.

    A number may be a part, because it may stand in a text.
    """
    if isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key not in _TEXTLESS:
                yield from texts_wanted(operand, key if key in _OF_PARTS else way)
    elif isinstance(matcher, (list, tuple)):
        for inner in matcher:
            yield from texts_wanted(inner, way)
    elif matcher is not None and not isinstance(matcher, bool):
        yield source_text(matcher), way or "$contains" * (not isinstance(matcher, str))

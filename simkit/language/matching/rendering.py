"""Values and matchers on one short line, and two texts cut around their first difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from simkit.core.messages import ABSENT, Dropped, Message, Null, ToolCall
from simkit.core.text import parted_at
from simkit.language.matching.values import Content, is_list

LINE_MAX: Final = 120
"""The length of one rendering in characters."""
_BEFORE: Final = 30
"""Characters shown before the first difference of two long texts."""
_ITEMS_MAX: Final = 12
_SEARCHED_MAX: Final = 100_000
"""Characters of a text that are searched for the place nearest to another text."""
_BLOCK_LEAST: Final = 3
"""The least length of a common part that makes a place near."""


class Phrase(str):
    """Words of simkit in the place of a value; they are printed without quotes."""

    __slots__ = ()


NOTHING: Final = Phrase("nothing")


def line(value: Any) -> str:
    """Return a value as one line of YAML's flow style, at most LINE_MAX characters."""
    return _cut(_flow(value))


def differing(left: str, right: str) -> tuple[str, str]:
    """Return two texts, quoted; long ones are cut around the first character that differs."""
    if len(left) <= LINE_MAX and len(right) <= LINE_MAX:
        return _quoted(left), _quoted(right)
    start = max(0, parted_at(left, right) - _BEFORE)
    return _window(left, start), _window(right, start)


def near(text: str, texts: Sequence[str], *, is_json: bool = False) -> str:
    """Return a long text cut around the place nearest to one of ``texts``; else empty.

    The JSON of a value is shown as it is searched, without quotes around it.
    """
    blocks = [common_block(text, text_) for text_ in texts]
    start, size = max(blocks, key=lambda block: block[1], default=(0, 0))
    if size < _BLOCK_LEAST:
        return ""
    end = min(len(text), max(0, start - _BEFORE) + LINE_MAX - _BEFORE)
    return _window(text, max(0, end - LINE_MAX + _BEFORE), _as_is if is_json else _quoted)


def end_of(text: str) -> str:
    """Return the end of a text, quoted."""
    return _window(text, max(0, len(text) - LINE_MAX + _BEFORE))


def common_block(text: str, expected: str) -> tuple[int, int]:
    """Return the place of the longest common part with another text, and its length."""
    # Only what failed is compared with what was expected.
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, text[:_SEARCHED_MAX], expected, autojunk=False)
    block = matcher.find_longest_match()
    return block.a, block.size


def _window(text: str, start: int, show: Callable[[str], str] | None = None) -> str:
    end = start + LINE_MAX - _BEFORE
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return f"{before}{(show or _quoted)(text[start:end])}{after}"


def _cut(text: str) -> str:
    return text if len(text) <= LINE_MAX else text[: LINE_MAX - 1] + "…"


def _as_is(text: str) -> str:
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _flow(value: Any) -> str:
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, Content):
        value = value.text
    if isinstance(value, str):
        return _quoted(value if len(value) <= LINE_MAX else value[: LINE_MAX + 1])
    if value is ABSENT or isinstance(value, Null):
        return repr(value)
    if isinstance(value, (Message, Dropped)):
        return _flow(_fields_spoken(value))
    if isinstance(value, ToolCall):
        return _flow({value.name: value.args})
    if isinstance(value, Mapping):
        return "{" + _joined((f"{_key(k)}: {_flow(v)}" for k, v in value.items()), len(value)) + "}"
    if is_list(value):
        return "[" + _joined((_flow(item) for item in value), len(value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Return a number, true, false or null as JSON, and another object by its fields or type."""
    if value is None or isinstance(value, (bool, int, float)):
        return str(getattr(value, "source", None) or json.dumps(value))
    try:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    except TypeError:
        return f"<{type(value).__name__}>"


def _joined(items: Any, count: int) -> str:
    listed = list(islice(items, _ITEMS_MAX))
    if count > len(listed):
        listed.append(f"… {count} in all")
    return ", ".join(listed)


def _key(key: Any) -> str:
    text = str(key)
    return text if text and not set(text) & set(":{}[],\"'#\n") else _quoted(text)


def _fields_spoken(value: Message | Dropped) -> dict[str, Any]:
    """Return a message as a matcher that a scenario would write for it."""
    message = value.message if isinstance(value, Dropped) else value
    fields: dict[str, Any] = {message.role: message.content}
    if message.agent is not None:
        fields["agent"] = message.agent
    if message.calls:
        fields["calls"] = message.calls
    if isinstance(value, Dropped):
        fields |= {"what": value.what, "by": value.by}
    return fields

"""Edits of calls that a model has asked for, by a person or by code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from simkit.core.messages import JsonValue, ToolCall
from simkit.language.json_schema.coercion import lost_in

USER: Final = "user"
"""The editor of a call, if the user's answer says what it becomes."""
CODE: Final = "code"
"""The editor of a call, if no agent is known."""


def is_edit(before: ToolCall, after: ToolCall) -> bool:
    """Return whether a call is another one now; arguments that are no mapping are unknown."""
    if before.name != after.name:
        return True
    both = isinstance(before.args, Mapping) and isinstance(after.args, Mapping)
    return both and before.args != after.args


def is_said_by(answer: JsonValue, before: ToolCall, after: ToolCall) -> bool:
    """Return whether a user's answer says each value by which a call differs from before.

    Defaults that a schema adds need not be said. A value is said alone, or as words of a text.
    """
    values = [*_values_in(answer)]
    is_renamed = before.name != after.name
    if is_renamed and after.name not in values:
        return False
    if not isinstance(before.args, Mapping) or not isinstance(after.args, Mapping):
        return is_renamed
    if after.args in values:
        return True
    changed = [*lost_in(before.args, after.args)]
    added = [key for key in after.args if key not in before.args]
    is_any = is_renamed or bool(changed)
    return all(_is_said(after.args.get(key), values) for key in changed) and (
        is_any or any(_is_said(after.args[key], values) for key in added)
    )


def _values_in(value: JsonValue) -> Iterator[JsonValue]:
    """Yield a value and all values inside it."""
    yield value
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _values_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _values_in(inner)


def _is_said(value: JsonValue, values: list[JsonValue]) -> bool:
    if value in (None, "", [], {}) or isinstance(value, bool):
        return False
    if any(type(value) is type(other) and value == other for other in values):
        return True
    words = re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)")
    is_plain = isinstance(value, (str, int, float))
    return is_plain and any(isinstance(text, str) and words.search(text) for text in values)

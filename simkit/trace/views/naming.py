"""Sections of contexts that code built, assigned by the matchers of the pipeline's file.

A declared pipeline knows which section made each message. For code, the first section whose matcher
fits takes the message. The run's own messages are ``run``. Of the rest, leading system messages are
``instructions``, the last user message that this turn brought is ``current_message``, and all
others are ``history``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from simkit.core.messages import JsonValue, Message
from simkit.language.matching import Matcher, compile_matcher

RUN: Final = "run"
INSTRUCTIONS: Final = "instructions"
HISTORY: Final = "history"
CURRENT: Final = "current_message"
"""A section of one message: the last that fits."""


class Naming:
    """The assignment of sections for one agent's contexts."""

    __slots__ = ("_matchers", "_names")

    def __init__(self, sections: Mapping[str, JsonValue]) -> None:
        self._names = frozenset(sections)
        self._matchers: list[tuple[str, Matcher]] = [
            (name, compile_matcher(matcher)) for name, matcher in sections.items()
        ]

    def named(self, messages: Sequence[Message], own: Collection[int], first: int) -> list[Message]:
        """Return a context's messages with their sections.

        ``own`` are the numbers of the run's messages, ``first`` is the number of the turn's first
        message.
        """
        named_messages: list[Message] = []
        is_front, is_current_found = True, False
        for message in reversed(messages):
            is_said = message.role in ("assistant", "tool") and bool(message.id)
            is_own = is_said and message.number in own
            name = RUN if is_own else self._section_of(message, is_current_found)
            is_current_found = is_current_found or name == CURRENT
            named_messages.append(replace(message, section=name))
        if not is_current_found and CURRENT not in self._names:
            _name_current(named_messages, first)
        named_messages.reverse()
        for place, message in enumerate(named_messages):
            is_front = is_front and message.role == "system"
            if not message.section:
                section = INSTRUCTIONS if is_front else HISTORY
                named_messages[place] = replace(message, section=section)
        return named_messages

    def _section_of(self, message: Message, is_current_found: bool) -> str:
        """Return the first section whose matcher fits a message; empty if none does."""
        for section, matcher in self._matchers:
            if not (section == CURRENT and is_current_found) and matcher.holds(message):
                return section
        return ""


def _name_current(latest_first: list[Message], first: int) -> None:
    """Name the last user message, if this turn brought it and it has no other section."""
    for place, message in enumerate(latest_first):
        if message.role == "user":
            if not message.section and message.id and message.number >= first:
                latest_first[place] = replace(message, section=CURRENT)
            return

"""Messages of a context, made only when a matcher or a function needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from simkit.core.messages import Message
from simkit.trace.events import Made, Part, Shown


class ContextMessages(msgspec.Struct, frozen=True):
    """The messages of one context."""

    parts: Sequence[Part]
    own: tuple[Message, ...]
    """The run's own messages."""
    history: Callable[[Shown], list[Message]]
    """Returns the messages that a part shows."""

    def sections(self) -> dict[str, list[Message]]:
        """Return the messages of each section."""
        by_name: dict[str, list[Message]] = {}
        for part in self.parts:
            if isinstance(part, Made):
                for piece in part.pieces:
                    piece_message = replace(
                        part.message, content=piece.content, section=piece.section
                    )
                    by_name.setdefault(piece.section, []).append(piece_message)
                if part.pieces:
                    continue
            by_name.setdefault(part.section, []).extend(self._of(part))
        if self.own:
            by_name["run"] = [replace(message, section="run") for message in self.own]
        return by_name

    def messages(self) -> list[Message]:
        """Return all messages in order."""
        all_messages: list[Message] = []
        for part in self.parts:
            all_messages.extend(self._of(part))
        return [*all_messages, *(replace(message, section="run") for message in self.own)]

    def _of(self, part: Part) -> list[Message]:
        if isinstance(part, Made):
            return [part.message]
        if part.rendered is not None:
            return [part.rendered]
        shown_messages = [replace(message, section=part.section) for message in self.history(part)]
        return [part.summary, *shown_messages] if part.summary is not None else shown_messages

"""A context's messages, made only when a matcher or a function asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from simkit.core.messages import Message
from simkit.trace.events import Made, Part, Shown


class ContextMessages:
    """The messages of one context."""

    __slots__ = ("_history", "_parts", "_said")

    def __init__(
        self,
        parts: Sequence[Part],
        said: Sequence[Message],
        history: Callable[[Shown], list[Message]],
    ) -> None:
        """``said`` is what the run itself said and heard; ``history`` has a part's messages."""
        self._parts, self._said, self._history = parts, tuple(said), history

    def sections(self) -> dict[str, list[Message]]:
        """Section to its messages."""
        found: dict[str, list[Message]] = {}
        for part in self._parts:
            if isinstance(part, Made):
                for piece in part.pieces:
                    one = replace(part.message, content=piece.content, section=piece.section)
                    found.setdefault(piece.section, []).append(one)
                if part.pieces:
                    continue
            found.setdefault(part.section, []).extend(self._of(part))
        if self._said:
            found["run"] = [replace(message, section="run") for message in self._said]
        return found

    def messages(self) -> list[Message]:
        """All messages in order."""
        found: list[Message] = []
        for part in self._parts:
            found.extend(self._of(part))
        return [*found, *(replace(message, section="run") for message in self._said)]

    def _of(self, part: Part) -> list[Message]:
        if isinstance(part, Made):
            return [part.message]
        if part.rendered is not None:
            return [part.rendered]
        shown = [replace(message, section=part.section) for message in self._history(part)]
        return [part.summary, *shown] if part.summary is not None else shown

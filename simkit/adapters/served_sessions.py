"""Sessions of served requests, recognized by the history in the request."""

from __future__ import annotations

from collections.abc import Collection

from simkit.core.messages import Message


class SessionMarks:
    """The known texts and calls of each session of a served scenario.

    A mark is a text of the model or of the user, or the id of a call. A request with marks of one
    session only belongs to it; one without marks, or with those of several, may belong to any.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], set[str]] = {}

    def note(self, session: str, messages: Collection[Message]) -> None:
        """Add the marks of a session's messages."""
        for message in messages:
            for mark in _marks_of(message):
                self._sessions.setdefault(mark, set()).add(session)

    def sessions_of(self, messages: Collection[Message]) -> frozenset[str]:
        """Return the sessions that a request's history fits; empty if it does not show.

        The latest user message does not count: any session may contain the same.
        """
        users = [place for place, candidate in enumerate(messages) if candidate.role == "user"]
        latest = users[-1] if users else -1
        names: set[str] | None = None
        for place, message in enumerate(messages):
            if place == latest:
                continue
            for mark in _marks_of(message):
                known = self._sessions.get(mark)
                if known:
                    names = known if names is None else names & known
        return frozenset(names or ())


def _marks_of(message: Message) -> list[tuple[str, str]]:
    marks = [("call", call.id) for call in message.calls if call.id]
    text = message.content.strip()
    if text and message.role in ("user", "assistant"):
        marks.append((message.role, text))
    return marks

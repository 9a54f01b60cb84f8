"""Conversations that a provider keeps: what a request goes on from by the id of a response."""

from __future__ import annotations

from simkit.core.messages import Message
from simkit.providers.chains import chained, is_conversation
from simkit.providers.http import HttpResponse
from simkit.providers.values import Asked, Protocol


class Chains:
    """The contexts behind the responses and conversations of one scenario, by their ids."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, ...]] = {}

    def followed(self, asked: Asked) -> Asked:
        """Returns a request with the whole context that it goes on from; raises WireInvalid."""
        return chained(asked, self._known)

    def remember(
        self, protocol: Protocol, served: HttpResponse, asked: Asked, said: Message
    ) -> None:
        """Keeps what a later request may go on from."""
        if not protocol.keeps_conversations:
            return
        whole = (*asked.messages, said)
        identity = protocol.heard(served, asked).id
        if identity:
            self._known[identity] = whole
        if is_conversation(asked.previous):
            self._known[asked.previous] = whole

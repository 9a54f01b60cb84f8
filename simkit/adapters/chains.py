"""Conversations that a provider keeps: what a request goes on from by the id of a response."""

from __future__ import annotations

from simkit.core.messages import Message
from simkit.providers.chains import chained, is_conversation
from simkit.providers.http import HttpResponse
from simkit.providers.values import ParsedRequest, Protocol


class Chains:
    """The contexts behind the responses and conversations of one scenario, by their ids."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, ...]] = {}

    def followed(self, model_request: ParsedRequest) -> ParsedRequest:
        """Returns a request with the whole context that it goes on from; raises WireInvalid."""
        return chained(model_request, self._known)

    def remember(
        self,
        protocol: Protocol,
        served: HttpResponse,
        model_request: ParsedRequest,
        message: Message,
    ) -> None:
        """Keeps what a later request may go on from."""
        if not protocol.keeps_conversations:
            return
        whole = (*model_request.messages, message)
        identity = protocol.parse_response(served, model_request).id
        if identity:
            self._known[identity] = whole
        if is_conversation(model_request.previous):
            self._known[model_request.previous] = whole

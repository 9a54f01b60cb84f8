"""Answers to the model calls of a declared pipeline, from its cassette or for real."""

from __future__ import annotations

from simkit.capture.cassettes.traffic import Traffic
from simkit.capture.http.providers import ProviderClients
from simkit.core.errors import ProviderUnreached, ScriptBroken
from simkit.providers.http import HttpAnswer
from simkit.runtime.models.recorded import Outgoing


class Answering:
    """Answers a scenario's model calls from its cassette, and sends real ones."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic, self._clients = traffic, ProviderClients()

    def answer(self, call: Outgoing) -> HttpAnswer:
        """Return the answer; raise CassetteMissed, and ScriptBroken if nothing can be sent."""
        traffic = self._traffic
        exchange = traffic.ask(call.agent, call.turn, call.session, call.request)
        if exchange.answer is not None:
            return exchange.answer
        self._clients.prepare(call.request)
        traffic.wait_for(exchange)
        try:
            response = self._clients.send(call.request)
        except ProviderUnreached as problem:
            raise ScriptBroken(str(problem), ("cassette",)) from problem
        traffic.answered(exchange, response.answer, response.request)
        return response.answer

    def close(self) -> None:
        """Close connections to providers."""
        self._clients.close()

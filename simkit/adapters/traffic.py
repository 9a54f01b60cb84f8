"""A scenario's cassette at the gate of a pipeline that is code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from simkit.adapters.hearing import Call
from simkit.adapters.scribe import Scribe
from simkit.cassettes.encodings import NotDecodable
from simkit.cassettes.tool_calls import real_result, result_of, tool_request
from simkit.cassettes.traffic import Exchange, Traffic, decoded_response
from simkit.errors import WireInvalid
from simkit.messages import JsonValue
from simkit.transports.gate import Decision, Forward
from simkit.transports.taps import Listener
from simkit.wire.http import HttpAnswer, HttpRequest, HttpResponse

Told: TypeAlias = Callable[[HttpAnswer], None]
"""Takes the whole answer to a model call."""


class GatedTraffic:
    """Answers what the gate takes from recorded traffic, or lets it through and hears it go by."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.is_live = traffic.is_live
        """Whether real traffic may flow."""
        self.unplayed, self.drifted = traffic.unplayed, traffic.drifted
        self.records = traffic.records

    def decide(self, call: Call, scribe: Scribe, told: Told) -> Decision:
        """Answers a model call, or lets it through; raises CassetteMissed."""
        exchange = self._asked(call.run.agent, call.request, scribe)
        if exchange.answer is not None:
            told(exchange.answer)
            return exchange.answer

        def ended(answer: HttpAnswer) -> None:
            self._traffic.came(exchange, answer)
            told(answer)

        self._traffic.wait_for(exchange)
        return Forward(Listener(ended, lambda response: _is_whole(response, call)))

    def decide_other(self, request: HttpRequest, agent: str, scribe: Scribe) -> Decision | None:
        """Answers a request that is no model call; None where the cassette knows of no such."""
        if not self._traffic.knows_others:
            return None
        exchange = self._asked(agent or _at_work(scribe), request, scribe)
        if exchange.answer is not None:
            return exchange.answer
        self._traffic.wait_for(exchange)
        return Forward(
            Listener(lambda answer: self._traffic.came(exchange, answer), lambda response: True)
        )

    def carried_out(
        self, tool: str, args: JsonValue, agent: str, scribe: Scribe, real: Callable[[], Any]
    ) -> Any:
        """Returns a tool's result, or an awaitable of it: the recorded one, or the real one.

        Raises CassetteMissed, ToolFailed where the recorded call failed, and CassetteInvalid for a
        result that is no plain data.
        """
        exchange = self._asked(agent, tool_request(tool, args), scribe)
        if exchange.answer is not None:
            return result_of(exchange.answer)
        return real_result(tool, real, lambda answer: self._traffic.came(exchange, answer))

    def _asked(self, agent: str, request: HttpRequest, scribe: Scribe) -> Exchange:
        return self._traffic.ask(agent, scribe.turn, scribe.session, request)


def _at_work(scribe: Scribe) -> str:
    """Returns the agent that is at work; empty where that is none, or not one alone."""
    open_runs = {run.agent for run in scribe.runs if not run.is_over}
    return next(iter(open_runs)) if len(open_runs) == 1 else ""


def _is_whole(response: HttpResponse, call: Call) -> bool:
    """Whether a model call's response says all that it had to say."""
    try:
        return call.protocol.heard(decoded_response(response), call.asked).error is None
    except (WireInvalid, NotDecodable):
        return False

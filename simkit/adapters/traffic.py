"""A scenario's cassette behind the interceptor of a pipeline that is code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from simkit.adapters.model_calls import ModelCall
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.capture.cassettes.encodings import NotDecodable
from simkit.capture.cassettes.tool_calls import real_result, result_of, tool_request
from simkit.capture.cassettes.traffic import Exchange, Traffic, decoded_response
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward
from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse

AnswerCallback: TypeAlias = Callable[[HttpAnswer], None]
"""Receives the complete answer to a model call."""


class GatedTraffic:
    """Answers requests from recorded traffic, or forwards and records them."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.is_live = traffic.is_live
        """Whether real traffic is allowed."""
        self.unplayed, self.drifted = traffic.unplayed, traffic.drifted
        self.records = traffic.records

    def decide(
        self, call: ModelCall, recorder: TraceRecorder, answered: AnswerCallback
    ) -> Decision:
        """Answer or forward a model call; raise CassetteMissed."""
        exchange = self._exchange(call.run.agent, call.request, recorder)
        if exchange.answer is not None:
            answered(exchange.answer)
            return exchange.answer

        def ended(answer: HttpAnswer) -> None:
            self._traffic.answered(exchange, answer)
            answered(answer)

        self._traffic.wait_for(exchange)
        return Forward(ChunkRecorder(ended, lambda response: _is_whole(response, call)))

    def decide_other(
        self, request: HttpRequest, agent: str, recorder: TraceRecorder
    ) -> Decision | None:
        """Answer a request that is no model call; None if the cassette has none of this kind."""
        if not self._traffic.knows_others:
            return None
        exchange = self._exchange(agent or _at_work(recorder), request, recorder)
        if exchange.answer is not None:
            return exchange.answer
        self._traffic.wait_for(exchange)
        return Forward(
            ChunkRecorder(
                lambda answer: self._traffic.answered(exchange, answer), lambda response: True
            )
        )

    def carried_out(
        self,
        tool: str,
        args: JsonValue,
        agent: str,
        recorder: TraceRecorder,
        real: Callable[[], Any],
    ) -> Any:
        """Return a tool's result, or an awaitable: the recorded one, or the real one.

        Raise CassetteMissed, ToolFailed if the recorded call failed, and CassetteInvalid for a
        result that is no plain data.
        """
        exchange = self._exchange(agent, tool_request(tool, args), recorder)
        if exchange.answer is not None:
            return result_of(exchange.answer)
        return real_result(tool, real, lambda answer: self._traffic.answered(exchange, answer))

    def _exchange(self, agent: str, request: HttpRequest, recorder: TraceRecorder) -> Exchange:
        return self._traffic.ask(agent, recorder.turn, recorder.session, request)


def _at_work(recorder: TraceRecorder) -> str:
    """Return the only running agent; empty if there is none, or several."""
    open_runs = {run.agent for run in recorder.runs if not run.is_over}
    return next(iter(open_runs)) if len(open_runs) == 1 else ""


def _is_whole(response: HttpResponse, call: ModelCall) -> bool:
    """Return whether a model call's response is complete."""
    try:
        return (
            call.protocol.parse_response(decoded_response(response), call.model_request).error
            is None
        )
    except (WireInvalid, NotDecodable):
        return False

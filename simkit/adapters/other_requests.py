"""Requests that are no model calls: allowed, recorded, counted, or refused."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from simkit.adapters.annotations import current_mark
from simkit.adapters.model_calls import Answerer
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.refusals import refusal_of
from simkit.capture.http.request_router import Decision, Forward
from simkit.core.errors import (
    CassetteMissed,
    NetworkRefused,
    WireInvalid,
)
from simkit.providers.chains import Chains
from simkit.providers.http import HttpRequest, HttpResponse, path_of
from simkit.providers.protocols import answer_token_count, unsupported_interface
from simkit.runtime.context.tokens import tokens_of


class OtherRequests:
    """Decides about the requests of a pipeline that ask no model."""

    def __init__(
        self,
        recorder: TraceRecorder,
        others: Answerer | None,
        host_is_allowed: Callable[[str], bool],
        chains: Chains,
    ) -> None:
        self._recorder, self._others = recorder, others
        self._host_is_allowed, self._chains = host_is_allowed, chains

    def decide(self, request: HttpRequest) -> Decision:
        """Decide about a request that is no model call: forward or refuse it."""
        if self._host_is_allowed(request.url):
            self._record_unread(request)
            return Forward(None)
        try:
            decision = self._of_others(request)
        except CassetteMissed:
            decision = self.counted(request)
            if decision is None:
                raise
            return decision
        if decision is not None:
            self._record_unread(request)
            return decision
        decision = self.counted(request)
        if decision is None:
            raise refusal_of(request)
        return decision

    def _record_unread(self, request: HttpRequest) -> None:
        """Record a request to a model's provider in an interface that simkit cannot parse."""
        interface = unsupported_interface(request)
        if interface:
            host = urlsplit(request.url).netloc.rpartition("@")[2]
            self._recorder.events.record_unread_request(
                self._recorder.at(),
                method=request.method,
                url=f"{host}{path_of(request.url)}",
                interface=interface,
            )

    def _of_others(self, request: HttpRequest) -> Decision | None:
        """Return the decision of recorded traffic, or the provider, about other requests."""
        if self._others is None:
            return None
        mark = current_mark()
        agent = mark.agent if mark is not None else ""
        return self._others.decide_other(request, agent, self._recorder)

    def counted(self, request: HttpRequest) -> HttpResponse | None:
        """Return the answer to a request that counts tokens; None for others."""
        count = self._recorder.count
        try:
            return answer_token_count(
                request,
                lambda messages: sum(tokens_of(m, count) for m in messages),
                self._chains.followed,
            )
        except WireInvalid as problem:
            raise NetworkRefused(
                f"{request.method} {request.url} counts no context that simkit knows: {problem}",
                "",
                None,
            ) from problem

"""Gates and taps for tests: they decide the same about every request, and remember."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from simkit.capture.http.interception import intercepting
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward, passing_through
from simkit.core.errors import ReplyMissing, RunHalted
from simkit.providers.http import Headers, HttpRequest, HttpResponse

JSON: Headers = (("content-type", "application/json"),)
EVENTS: Headers = (("content-type", "text/event-stream"),)
HALT = RunHalted(ReplyMissing("nobody answers"))


class Always:
    """Decides the same about every request; raises what can be raised."""

    def __init__(self, decision: Decision | BaseException) -> None:
        self.decision = decision
        self.requests: list[HttpRequest] = []

    def take(self, request: HttpRequest) -> Decision:
        self.requests.append(request)
        if isinstance(self.decision, BaseException):
            raise self.decision
        return self.decision


class ObservedResponse(ChunkRecorder):
    """A tap that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(lambda answer: self.events.append(f"ended: {self.problem}"))
        self.events: list[object] = []
        self.headers: Headers = ()
        self.problem = ""

    def response_started(self, status: int, headers: Headers) -> None:
        self.events.append(status)
        self.headers = headers

    def chunk(self, data: bytes) -> None:
        self.events.append(data)

    def ended(self, problem: str = "") -> None:
        self.problem = problem
        super().ended(problem)


def json_answer(body: str) -> HttpResponse:
    return HttpResponse(200, JSON, (body.encode(),))


@contextmanager
def answering(decision: Decision | BaseException) -> Iterator[Always]:
    """Everything is answered alike here."""
    gate = Always(decision)
    with intercepting(), passing_through(gate):
        yield gate


@contextmanager
def listening() -> Iterator[ObservedResponse]:
    """Everything goes to the network here, and is heard."""
    observed = ObservedResponse()
    with intercepting(), passing_through(Always(Forward(observed))):
        yield observed

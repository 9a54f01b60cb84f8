"""Observer of a real response that records its pieces, and passes it on at its end."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from simkit.capture.http.request_router import CLOSED_EARLY
from simkit.providers import sse
from simkit.providers.http import Headers, HttpAnswer, HttpResponse, NoResponse

"""The problem that a transport reports if the client has read as far as it wanted."""


class ChunkRecorder:
    """An observer that keeps the pieces of a stream, and when each of them came.

    A response that the client left is passed on as far as it was read: as complete if ``is_whole``
    says so, else as cut.
    """

    def __init__(
        self, ended: Callable[[HttpAnswer], None], is_whole: Callable[[HttpResponse], bool]
    ) -> None:
        self._ended, self._is_whole = ended, is_whole
        self._start = perf_counter()
        self._status, self._headers = 0, Headers()
        self._chunks: list[bytes] = []
        self._offsets_ms: list[int] = []
        self._is_over = False

    def response_started(self, status: int, headers: Headers) -> None:
        """Observe the response's head."""
        self._status, self._headers = status, headers

    def chunk(self, data: bytes) -> None:
        """Observe the next piece."""
        self._chunks.append(data)
        self._offsets_ms.append(round((perf_counter() - self._start) * 1_000))

    def ended(self, problem: str = "") -> None:
        """Observe the end."""
        if self._is_over:
            return
        self._is_over = True
        self._ended(self._response(problem) if self._status else _nothing(problem))

    def _response(self, problem: str) -> HttpResponse:
        response = HttpResponse(self._status, self._headers, tuple(self._chunks))
        if not sse.is_stream(response):
            # The pieces of a response that is no stream have no meaning.
            response = HttpResponse(self._status, self._headers, (response.body,))
        else:
            befores = [0, *self._offsets_ms]
            pairs = zip(befores, self._offsets_ms, strict=False)
            waits_ms = tuple(after - before for before, after in pairs)
            response = HttpResponse(self._status, self._headers, response.chunks, waits_ms=waits_ms)
        if not problem or (problem == CLOSED_EARLY and self._is_whole(response)):
            return response
        return HttpResponse(
            response.status, response.headers, response.chunks, "cut", response.waits_ms
        )


def _nothing(problem: str) -> NoResponse:
    is_timeout = "timeout" in problem.partition(":")[0].lower()
    return NoResponse("timeout" if is_timeout else "connection", problem)

"""Recording of requests, in the order in which they were sent."""

from __future__ import annotations

import threading
from collections import Counter

import msgspec

from simkit.capture.cassettes.encodings import NotDecodable, decoded
from simkit.capture.cassettes.redacting import redacted
from simkit.capture.cassettes.values import Interaction, Lane
from simkit.core.errors import CassetteInvalid
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse, header
from simkit.providers.protocols import protocol_of


class Recorder:
    """Collects interactions; any number of threads may record.

    A call gets its number when it begins, so that parallel calls are recorded in the order in which
    they were sent, whichever is answered first. The stored data contains no secret.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._started: list[Interaction] = []
        self._ended: dict[int, Interaction] = {}
        self._calls: Counter[Lane] = Counter()
        self._lock = threading.RLock()  # Finalizers may call this again.

    def begin(self, agent: str, turn: int, request: HttpRequest, session: str = "") -> int:
        """Add a request that is about to be sent, and return its number."""
        protocol = protocol_of(request)
        name = protocol.name if protocol else ""
        with self._lock:
            lane = session, turn, agent
            self._calls[lane] += 1
            self._started.append(
                Interaction(
                    request=request,
                    response=_NOTHING,
                    agent=agent,
                    turn=turn,
                    call=self._calls[lane],
                    session=session,
                    protocol=name,
                )
            )
            return len(self._started) - 1

    def restate(self, number: int, request: HttpRequest) -> None:
        """Replace a request by the one that was really sent."""
        self._started[number] = msgspec.structs.replace(self._started[number], request=request)

    def end(self, number: int, response: HttpResponse, recorded_at: str = "") -> None:
        """Add a request's response, with the headers and chunks as they came.

        Raise CassetteInvalid for a body that does not fit its headers.
        """
        whole = msgspec.structs.replace(
            self._started[number], response=_plain(response), recorded_at=recorded_at
        )
        self._ended[number] = redacted(whole, self._redactor)

    def add(
        self,
        agent: str,
        turn: int,
        request: HttpRequest,
        response: HttpResponse,
        session: str = "",
        recorded_at: str = "",
    ) -> None:
        """Add a request with its response."""
        self.end(self.begin(agent, turn, request, session), response, recorded_at)

    def interactions(self) -> tuple[Interaction, ...]:
        """Return the recorded interactions, without unanswered requests."""
        with self._lock:
            return tuple(self._ended[number] for number in sorted(self._ended))


_NOTHING = HttpResponse(200, (), ())


def _plain(response: HttpResponse) -> HttpResponse:
    """Return the response with its decoded body, without empty pieces."""
    encodings = header(response.headers, "content-encoding")
    try:
        chunks = decoded(response.chunks, encodings)
    except NotDecodable as error:
        raise CassetteInvalid(f"a response cannot be recorded: {error}") from None
    waits = response.waits_ms or (0,) * len(chunks)
    pieces: list[bytes] = []
    waited: list[int] = []
    pending = 0
    for chunk, wait in zip(chunks, waits, strict=False):
        pending += wait
        if chunk:
            pieces.append(chunk)
            waited.append(pending)
            pending = 0
    return msgspec.structs.replace(
        response,
        chunks=tuple(pieces) or (b"",),
        waits_ms=tuple(waited) if response.waits_ms and pieces else (),
    )

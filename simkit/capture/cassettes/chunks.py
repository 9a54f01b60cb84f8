"""Bodies in the pieces in which they came, when something in them is replaced."""

from __future__ import annotations

import msgspec

from simkit.providers.http import HttpResponse


def with_body(response: HttpResponse, body: bytes) -> HttpResponse:
    """Returns the response with another body, cut where its lines were cut before.

    A body with another number of lines comes in one piece, after all the waiting.
    """
    before, chunks, waits = response.body, response.chunks, response.waits_ms
    if body == before:
        return response
    if len(chunks) < 2 or body.count(b"\n") != before.count(b"\n"):
        return msgspec.structs.replace(
            response, chunks=(body,), waits_ms=(sum(waits),) if waits else ()
        )
    return msgspec.structs.replace(response, chunks=_cut_alike(body, chunks))


def _cut_alike(body: bytes, chunks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Cuts a body at the same columns of the same lines, as far as a line goes."""
    starts = [0]
    for line in body.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    parts: list[bytes] = []
    number = column = start = 0
    for chunk in chunks[:-1]:
        lines = chunk.split(b"\n")
        number += len(lines) - 1
        column = len(lines[-1]) + (column if len(lines) == 1 else 0)
        end = max(start, min(starts[number] + column, starts[number + 1] - 1))
        parts.append(body[start:end])
        start = end
    return (*parts, body[start:])

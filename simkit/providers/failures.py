"""Names of provider failures in scenarios: one vocabulary for all drivers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.messages import Fails
from simkit.providers import eventstream
from simkit.providers.http import Headers, HttpRequest, HttpResponse, NoResponse, header


class Failure(msgspec.Struct, frozen=True, gc=False):
    """One way in which a provider fails to answer."""

    status: int
    """The HTTP status; 0 if the connection fails first, 200 if the reply itself is broken."""
    message: str
    is_wire_only: bool = False
    """Whether only code that reads a provider's bytes can meet it."""


BROKEN_OFF: Final = ("cut_stream", "stall", "truncated")
"""Failures in which a client gets the beginning of a reply and never its end."""


# Failures of providers: the parts that all of them share


_DATA: Final = re.compile(rb"^data: ", re.MULTILINE)
MALFORMED: Final = '{"value": }'
"""A text that is no JSON and no beginning of JSON: clients that repair cut JSON must reject it
too."""


_ENDS: Final[Mapping[str, str]] = {"cut_stream": "cut", "stall": "timeout", "truncated": ""}
"""How a response that breaks off ends: a lost connection, a timeout, or normally."""
ON_THE_WAY: Final = (*_ENDS, "malformed_frame")
"""Failures of a good reply that does not arrive completely."""


class Words(msgspec.Struct, frozen=True, gc=False):
    """The words of one provider for one failure."""

    status: int
    type: str
    message: str
    """Empty for the vocabulary's own message; ``{model}`` is the requested model."""
    code: str | None = None


class _Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables in failures.yaml."""

    failures: dict[str, Failure]
    words: dict[str, dict[str, Words]]
    kinds_by_status: dict[int, str]
    kinds_by_words: dict[str, str]
    kinds_by_type: dict[str, dict[str, str]]
    kinds_by_code: dict[str, str]


_TABLES: Final = msgspec.yaml.decode(
    Path(__file__).with_name("failures.yaml").read_bytes(), type=_Tables
)
FAILURES: Final[Mapping[str, Failure]] = _TABLES.failures
WORDS: Final[Mapping[str, Mapping[str, Words]]] = _TABLES.words
"""Provider to its words for the failures that have an error body."""
KINDS_BY_CODE: Final[Mapping[str, str]] = _TABLES.kinds_by_code
"""OpenAI's codes, and those of servers that are compatible with it, to kinds of failures."""


def worded(fails: Fails, own: Mapping[str, Words], model: str) -> Words:
    """Return a failure in a provider's words.

    A status or message that differs from the vocabulary's was given by the scenario, and stays; so
    does a type that the vocabulary does not have.
    """
    words = own.get(fails.kind)
    if words is None:
        status = fails.status if fails.status >= 400 else 500
        return Words(status, fails.kind, fails.message, fails.kind)
    usual = FAILURES[fails.kind]
    is_own = fails.status not in (usual.status, 200, 0)
    message = fails.message
    if message == usual.message and words.message:
        message = words.message.replace("{model}", model)
    return Words(fails.status if is_own else words.status, words.type, message, words.code)


def unanswered(fails: Fails) -> NoResponse | None:
    """Return the missing response that a client gets, or None for other failures."""
    if fails.kind == "timeout" or fails.kind == "connection":
        return NoResponse(fails.kind, fails.message)
    return NoResponse("connection", fails.message) if fails.status == 0 else None


def comes_in_stream(fails: Fails, own: Mapping[str, Words]) -> bool:
    """Return whether a failure comes after a stream began well, so that its status is 200."""
    return fails.status == 200 and (fails.kind in own or fails.kind not in FAILURES)


def damaged(whole: HttpResponse, kind: str) -> HttpResponse:
    """Return a response as its client gets it; complete, unless the kind is in `ON_THE_WAY`."""
    if kind == "malformed_frame":
        return _misframed(whole)
    ends = _ENDS.get(kind)
    return whole if ends is None else _half(whole, ends)


def _half(whole: HttpResponse, ends: str) -> HttpResponse:
    """Cut a response half-way: between chunks, or inside its only one."""
    if len(whole.chunks) > 1:
        first_half = whole.chunks[: len(whole.chunks) // 2]
    else:
        first_half = tuple(chunk[: len(chunk) // 2] for chunk in whole.chunks)
    return HttpResponse(whole.status, whole.headers, first_half, ends)


def _misframed(whole: HttpResponse) -> HttpResponse:
    """Put invalid JSON into a response's middle chunk; an event keeps its name."""
    chunks = list(whole.chunks)
    middle = len(chunks) // 2
    chunk = chunks[middle]
    if eventstream.CONTENT_TYPE in header(whole.headers, "content-type"):
        chunks[middle] = chunk[:-1] + bytes((chunk[-1] ^ 1,))  # Its checksum is wrong.
    elif named := _DATA.search(chunk):
        chunks[middle] = chunk[: named.end()] + MALFORMED.encode() + b"\n\n"
    else:
        chunks[middle] = MALFORMED.encode() + b"\n" * chunk.endswith(b"\n")
    return HttpResponse(whole.status, whole.headers, tuple(chunks))


def broken(ends: str, is_whole: bool) -> Fails | None:
    """Return the failure of a response that did not end well, or ended too early."""
    kind = "timeout" if ends == "timeout" else "cut_stream"
    return None if is_whole and not ends else Fails(kind, 200, FAILURES[kind].message)


def malformed(problem: str) -> Fails:
    """Return the failure of a reply with invalid JSON."""
    return Fails("malformed_json", 200, problem)


def seconds_text(seconds: float) -> str:
    """Return ``2``, or ``0.5`` if the number is not whole."""
    return str(int(seconds)) if seconds == int(seconds) else str(seconds)


def retry_after(fails: Fails) -> Headers:
    """Return the header that says when to ask again; none if the failure does not say it."""
    after = fails.retry_after
    return () if after is None else (("retry-after", seconds_text(after)),)


def seconds_of(text: str) -> float | None:
    """Return the seconds in a ``retry-after`` header; None for a date or no number."""
    try:
        seconds = float(text.strip().removesuffix("s"))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def patience_ms(request: HttpRequest) -> int | None:
    """Return the timeout that a client announces, as OpenAI's and Anthropic's do; else None."""
    seconds = seconds_of(header(request.headers, "x-stainless-read-timeout"))
    return None if seconds is None else round(seconds * 1_000)


def is_clients_own_attempt(request: HttpRequest, is_again: bool) -> bool:
    """Return whether a client retries by itself, as those of OpenAI, Anthropic and AWS announce.

    Cohere's does not announce it; there it is a request that asks the same again (``is_again``).
    """
    attempt = header(request.headers, "amz-sdk-request").partition("attempt=")[2].partition(";")[0]
    if (seconds_of(attempt) or 0) > 1 or (is_again and header(request.headers, "x-fern-sdk-name")):
        return True
    return (seconds_of(header(request.headers, "x-stainless-retry-count")) or 0) > 0


def kind_of(provider: str, type: str, message: str) -> str:
    """Return the kind of an error of a provider's type; empty for a type that says none."""
    kinds = _TABLES.kinds_by_type[provider]
    return _kind_by_words(message) or kinds.get(type, type)


def kind_of_status(status: int, message: str = "") -> str:
    """Return the kind of a failure of which only the status and the message are known."""
    usual = "invalid_request" if 400 <= status < 500 else "server_error"
    return _kind_by_words(message) or _TABLES.kinds_by_status.get(status, usual)


def _kind_by_words(message: str) -> str:
    return next((kind for words, kind in _TABLES.kinds_by_words.items() if words in message), "")

"""The steps that all protocols share: each protocol fills in what is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from typing import Protocol as Interface

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, ToolCall
from simkit.core.text import short
from simkit.providers import sse
from simkit.providers.body_reader import Record, json_bytes, record_of
from simkit.providers.failures import (
    MALFORMED,
    ON_THE_WAY,
    Words,
    broken,
    comes_in_stream,
    damaged,
    kind_of_status,
    seconds_of,
    seconds_text,
    unanswered,
    worded,
)
from simkit.providers.http import Headers, HttpAnswer, HttpResponse, header
from simkit.providers.values import (
    JSON,
    OutgoingReply,
    ParsedRequest,
    ParsedResponse,
    empty_reply,
)

# Parsing of responses


class ReplyReader(Interface):
    """A reply that is read from a body, or from the events of a stream."""

    def read_body(self, body: Record, status: int) -> None:
        """Read the body of a response without a stream; raise WireInvalid for an invalid one."""

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event, which stands at a path; return whether it ends the reply."""

    def parse(self, ends: str, *, is_done: bool) -> ParsedResponse:
        """Return the reply as far as it has arrived.

        ``ends`` is how the response ended, ``is_done`` whether it said itself that it is complete.
        """


def read_response(
    response: HttpResponse, reader: ReplyReader, error_in: Callable[[Record, int], Fails]
) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    try:
        if response.status >= 400:
            error = read_refusal(response, error_in)
            return ParsedResponse(Message("assistant"), error=error)
        if sse.is_stream(response):
            return _read_stream(response, reader)
        return _read_body(response, reader)
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _read_stream(response: HttpResponse, reader: ReplyReader) -> ParsedResponse:
    for number, (event, data) in enumerate(sse.events(response.body)):
        at = f"events[{number}]"
        if data.startswith(sse.DONE):
            return reader.parse("", is_done=True)
        if reader.read_event(record_of(data, at), event, at, response.status):
            return reader.parse("", is_done=True)
    return reader.parse(response.ends, is_done=False)


def _read_body(response: HttpResponse, reader: ReplyReader) -> ParsedResponse:
    try:
        body = record_of(response.body)
    except WireInvalid:
        error = broken(response.ends, is_whole=True)
        if error is None:
            raise
        return ParsedResponse(Message("assistant"), error=error)
    reader.read_body(body, response.status)
    return reader.parse(response.ends, is_done=True)


def read_refusal(response: HttpResponse, error_in: Callable[[Record, int], Fails]) -> Fails:
    """Parse a response with an error status; a proxy's body may be anything."""
    try:
        fails = error_in(record_of(response.body), response.status)
    except WireInvalid:
        text = short(response.body.decode("utf-8", "replace"), 200)
        text = text or f"HTTP status {response.status}"
        fails = Fails(kind_of_status(response.status), response.status, text)
    if fails.retry_after is not None:
        return fails
    milliseconds = seconds_of(header(response.headers, "retry-after-ms"))
    after = seconds_of(header(response.headers, "retry-after"))
    after = after if milliseconds is None else milliseconds / 1000
    return msgspec.structs.replace(fails, retry_after=after)


# Rendering of replies and failures


def render(
    body: Mapping[str, Any],
    frames: Callable[[], Iterable[bytes]],
    request: ParsedRequest,
    *headers: tuple[str, str],
) -> HttpResponse:
    """Return a reply as a body, or as the frames of a stream if the request asks for one."""
    if request.is_streamed:
        kind = ("content-type", sse.CONTENT_TYPE)
        return HttpResponse(200, (kind, *headers), tuple(frames()))
    return HttpResponse(200, (*JSON, *headers), (json_bytes(body),))


def retry_headers(fails: Fails) -> Headers:
    """Return whether a client should retry: those of OpenAI and Anthropic do if nothing says so."""
    if fails.retry_after is not None:
        return (("retry-after", seconds_text(fails.retry_after)),)
    return (("x-should-retry", "false"),)


class FailureWriter(msgspec.Struct, frozen=True, kw_only=True):
    """How one provider fails; each function gets the serial and the failure first."""

    words: Mapping[str, Words]
    """Its words for each kind of failure that has an error body."""
    served: Callable[[OutgoingReply, ParsedRequest], HttpResponse]
    """Renders the reply of a failure that has one, before it is damaged."""
    malformed: Callable[[str, ParsedRequest], OutgoingReply]
    """Returns the reply with invalid JSON."""
    in_stream: Callable[[str, Fails, Words, ParsedRequest], HttpResponse]
    """Renders a stream that begins well and ends with the error."""
    error: Callable[[str, Fails, Words], Mapping[str, Any]]
    """Returns the body of a response with an error status."""
    headers: Callable[[str, Fails], Headers]
    """Returns the headers of such a response."""
    refusal: str = "refusal"
    """The finish reason of a reply in which the model refused."""
    special: Callable[[str, Fails, ParsedRequest], HttpResponse | None] = lambda *_: None
    """Renders a failure as this provider alone does; else None."""

    def write(self, serial: str, fails: Fails, request: ParsedRequest) -> HttpAnswer:
        """Render a failure: no response, a broken reply, or an error."""
        if (nothing := unanswered(fails)) is not None:
            return nothing
        if (special := self.special(serial, fails, request)) is not None:
            return special
        if (reply := self._broken_reply(serial, fails, request)) is not None:
            return damaged(self.served(reply, request), fails.kind)
        words = worded(fails, self.words, request.model)
        if request.is_streamed and comes_in_stream(fails, self.words):
            return self.in_stream(serial, fails, words, request)
        body = json_bytes({**self.error(serial, fails, words)})
        return HttpResponse(words.status, self.headers(serial, fails), (body,))

    def _broken_reply(
        self, serial: str, fails: Fails, request: ParsedRequest
    ) -> OutgoingReply | None:
        """Return the broken reply of a failure; None for a failure without a reply.

        Its text is the failure's message. A reply that is damaged on the way is still complete
        here.
        """
        nothing = empty_reply(serial)
        if fails.kind == "refusal":
            why = fails.message
            return msgspec.structs.replace(nothing, finish=self.refusal, explanation=why)
        if fails.kind == "malformed_json":
            return self.malformed(serial, request)
        if fails.kind in ("empty_reply", "empty_choices"):
            return nothing
        if fails.kind != "length" and fails.kind not in ON_THE_WAY:
            return None
        message, finish = Message("assistant", fails.message), ""
        if fails.kind == "length":
            finish = "length"
        return msgspec.structs.replace(nothing, message=message, finish=finish)


def broken_call(serial: str, request: ParsedRequest, prefix: str) -> Message:
    """Return a message with invalid JSON: as a call's arguments if a function may be called.

    Otherwise, and if the request asks for an output, it is the text.
    """
    name = called_function(request)
    if not name or request.choice == "none":
        return Message("assistant", MALFORMED)
    return Message("assistant", calls=(ToolCall(f"{prefix}{serial}", name, MALFORMED),))


def called_function(request: ParsedRequest) -> str:
    """Return the function that a broken reply calls; empty if an output is asked for, or none."""
    own = [offer.name for offer in request.offers if offer.schema is not None]
    if request.output is not None or not own:
        return ""
    return request.choice if request.choice in own else own[0]

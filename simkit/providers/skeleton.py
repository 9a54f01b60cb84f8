"""The steps that all protocols share: each protocol fills in what is its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from typing import Protocol as Interface

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, ToolCall
from simkit.core.text import short
from simkit.providers import failures, sse, streams, values
from simkit.providers.body_reader import (
    MessageCache,
    NotSplit,
    Parse,
    Record,
    json_bytes,
    need,
    record_of,
    records,
    split,
)
from simkit.providers.http import Headers, HttpAnswer, HttpRequest, HttpResponse, header, path_of

# Parsing of requests


def posts_to(ending: str | re.Pattern[str], *keys: str) -> Callable[[HttpRequest], bool]:
    """Return what tells whether a request is a POST to a path with this ending.

    Where other services have such a path, too, the body must have these keys.
    """
    pattern = re.compile(f"{re.escape(ending)}$") if isinstance(ending, str) else ending
    words = [f'"{key}"'.encode() for key in keys]
    return lambda request: (
        request.method == "POST"
        and pattern.search(path_of(request.url)) is not None
        and all(word in request.body for word in words)
    )


def match_of(pattern: re.Pattern[str], request: HttpRequest) -> re.Match[str]:
    """Return what a path says beside the body; raise WireInvalid for another path."""
    if (match := pattern.search(path_of(request.url))) is None:
        raise WireInvalid(f"does not match `{pattern.pattern}`", "url")
    return match


class Numbered:
    """The calls of one conversation, with ids for calls without one."""

    def __init__(self, count: int = 0) -> None:
        """``count`` is the number of earlier calls."""
        self.count = count
        self._waiting: dict[str, str] = {}

    def called(self, call_id: str, name: str) -> str:
        """Return the id of a new call, which now waits for its result."""
        self.count += 1
        call = call_id or f"call_{self.count}"
        self._waiting[call] = name
        return call

    def answered(self, call_id: str, name: str) -> tuple[str, str]:
        """Return the call that a result answers, and its tool.

        It is the call with the id, else the first one of the name, else the first of all.
        """
        if not call_id:
            waiting = self._waiting.items()
            call_id = next((call for call, tool in waiting if name in ("", tool)), "")
        return call_id, self._waiting.pop(call_id, "") or name


class ItemReader(msgspec.Struct, frozen=True, kw_only=True):
    """How a protocol parses requests whose messages are the items of one list."""

    key: str
    """The list."""
    item: Parse
    """Parses the messages in one item."""
    whole: Callable[[HttpRequest, Record, Sequence[Message]], values.ParsedRequest]
    """Makes the request of its body, which may lack the list, and the messages in it."""
    depends: Callable[[Record], bool] = lambda record: False
    """Returns whether the meaning of an item depends on those before it."""

    def parse(self, request: HttpRequest) -> values.ParsedRequest:
        """Parse a request; raise WireInvalid, naming the field."""
        try:
            body = record_of(request.body)
            need(body, self.key, list)
            messages, tools = list[Message](), dict[str, str]()
            for index, (record, at) in enumerate(records(body, self.key)):
                messages += self.item(record, at, index, tools)
            return self.whole(request, body, messages)
        except RecursionError:
            raise WireInvalid("is nested too deep", "body") from None

    def parse_again(self, request: HttpRequest, known: MessageCache) -> values.ParsedRequest:
        """Parse a request, but each message once."""
        try:
            body, items = split(request.body, self.key)
            messages = known.parsed(items, self.key, self.item, self.depends)
            return self.whole(request, body, messages)
        except (NotSplit, WireInvalid, RecursionError):
            return self.parse(request)  # It says what is wrong.


# Parsing of responses


class ReplyReader(Interface):
    """A reply that is read from a body, or from the events of a stream."""

    def read_body(self, body: Record, status: int) -> None:
        """Read the body of a response without a stream; raise WireInvalid for an invalid one."""

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event, which stands at a path; return whether it ends the reply."""

    def parse(self, ends: str, *, is_done: bool) -> values.ParsedResponse:
        """Return the reply as far as it has arrived.

        ``ends`` is how the response ended, ``is_done`` whether it said itself that it is complete.
        """


def read_response(
    response: HttpResponse, reader: ReplyReader, error_in: Callable[[Record, int], Fails]
) -> values.ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    try:
        if response.status >= 400:
            error = read_refusal(response, error_in)
            return values.ParsedResponse(Message("assistant"), error=error)
        if streams.is_stream(response):
            return _read_stream(response, reader)
        return _read_body(response, reader)
    except RecursionError:
        raise WireInvalid("is nested too deep", "body") from None


def _read_stream(response: HttpResponse, reader: ReplyReader) -> values.ParsedResponse:
    for number, (event, data) in enumerate(streams.events(response)):
        at = f"events[{number}]"
        if data.startswith(sse.DONE):
            return reader.parse("", is_done=True)
        if reader.read_event(record_of(data, at), event, at, response.status):
            return reader.parse("", is_done=True)
    return reader.parse(response.ends, is_done=False)


def _read_body(response: HttpResponse, reader: ReplyReader) -> values.ParsedResponse:
    try:
        body = record_of(response.body)
    except WireInvalid:
        error = failures.broken(response.ends, is_whole=True)
        if error is None:
            raise
        return values.ParsedResponse(Message("assistant"), error=error)
    reader.read_body(body, response.status)
    return reader.parse(response.ends, is_done=True)


def read_refusal(response: HttpResponse, error_in: Callable[[Record, int], Fails]) -> Fails:
    """Parse a response with an error status; a proxy's body may be anything."""
    try:
        fails = error_in(record_of(response.body), response.status)
    except WireInvalid:
        text = short(response.body.decode("utf-8", "replace"), 200)
        text = text or f"HTTP status {response.status}"
        fails = Fails(failures.kind_of_status(response.status), response.status, text)
    if fails.retry_after is not None:
        return fails
    milliseconds = failures.seconds_of(header(response.headers, "retry-after-ms"))
    after = failures.seconds_of(header(response.headers, "retry-after"))
    after = after if milliseconds is None else milliseconds / 1000
    return msgspec.structs.replace(fails, retry_after=after)


# Rendering of replies and failures


def render(
    body: Mapping[str, Any],
    frames: Callable[[], Iterable[bytes]],
    request: values.ParsedRequest,
    *headers: tuple[str, str],
    kind: str = sse.CONTENT_TYPE,
) -> HttpResponse:
    """Return a reply as a body, or as the frames of a stream if the request asks for one."""
    if request.is_streamed:
        return HttpResponse(200, (("content-type", kind), *headers), tuple(frames()))
    return HttpResponse(200, (*values.JSON, *headers), (json_bytes(body),))


def retry_headers(fails: Fails) -> Headers:
    """Return whether a client should retry: those of OpenAI and Anthropic do if nothing says so."""
    return failures.retry_after(fails) or (("x-should-retry", "false"),)


class FailureWriter(msgspec.Struct, frozen=True, kw_only=True):
    """How one provider fails; each function gets the serial and the failure first."""

    words: Mapping[str, failures.Words]
    """Its words for each kind of failure that has an error body."""
    served: Callable[[values.OutgoingReply, values.ParsedRequest], HttpResponse]
    """Renders the reply of a failure that has one, before it is damaged."""
    malformed: Callable[[str, values.ParsedRequest], values.OutgoingReply]
    """Returns the reply with invalid JSON."""
    error: Callable[[str, Fails, failures.Words], Mapping[str, Any]]
    """Returns the body of a response with an error status."""
    headers: Callable[[str, Fails, failures.Words], Headers]
    """Returns the headers of such a response."""
    in_stream: Callable[[str, Fails, failures.Words, values.ParsedRequest], HttpResponse] | None = (
        None
    )
    """Renders a stream that begins well and ends with the error; without it, the error's body is
    the second event."""
    error_event: str = ""
    """The name of that event."""
    refusal: str = "refusal"
    """The finish reason of a reply in which the model refused."""
    special: Callable[[str, Fails, values.ParsedRequest], HttpResponse | None] = lambda *_: None
    """Renders a failure as this provider alone does; else None."""

    def write(self, serial: str, fails: Fails, request: values.ParsedRequest) -> HttpAnswer:
        """Render a failure: no response, a broken reply, or an error."""
        if (nothing := failures.unanswered(fails)) is not None:
            return nothing
        if (special := self.special(serial, fails, request)) is not None:
            return special
        if (reply := self._broken_reply(serial, fails, request)) is not None:
            return failures.damaged(self.served(reply, request), fails.kind)
        words = failures.worded(fails, self.words, request.model)
        if request.is_streamed and failures.comes_in_stream(fails, self.words):
            return (self.in_stream or self._in_stream)(serial, fails, words, request)
        body = json_bytes({**self.error(serial, fails, words)})
        return HttpResponse(words.status, self.headers(serial, fails, words), (body,))

    def _in_stream(
        self, serial: str, fails: Fails, words: failures.Words, request: values.ParsedRequest
    ) -> HttpResponse:
        started = self.served(values.empty_reply(serial), request)
        last = sse.frame({**self.error(serial, fails, words)}, self.error_event)
        return HttpResponse(200, started.headers, (started.chunks[0], last))

    def _broken_reply(
        self, serial: str, fails: Fails, request: values.ParsedRequest
    ) -> values.OutgoingReply | None:
        """Return the broken reply of a failure; None for a failure without a reply.

        Its text is the failure's message. A reply that is damaged on the way is still complete
        here.
        """
        nothing = values.empty_reply(serial)
        if fails.kind == "refusal":
            why = fails.message
            return msgspec.structs.replace(nothing, finish=self.refusal, explanation=why)
        if fails.kind == "malformed_json":
            return self.malformed(serial, request)
        if fails.kind in ("empty_reply", "empty_choices"):
            return nothing
        if fails.kind != "length" and fails.kind not in failures.ON_THE_WAY:
            return None
        message, finish = Message("assistant", fails.message), ""
        if fails.kind == "length":
            finish = "length"
        return msgspec.structs.replace(nothing, message=message, finish=finish)


def broken_call(serial: str, request: values.ParsedRequest, prefix: str) -> Message:
    """Return a message with invalid JSON: as a call's arguments if a function may be called.

    Otherwise, and if the request asks for an output, it is the text.
    """
    name = called_function(request)
    if not name or request.choice == "none":
        return Message("assistant", failures.MALFORMED)
    return Message("assistant", calls=(ToolCall(f"{prefix}{serial}", name, failures.MALFORMED),))


def called_function(request: values.ParsedRequest) -> str:
    """Return the function that a broken reply calls; empty if an output is asked for, or none."""
    offered = [offer.name for offer in request.offers if offer.schema is not None]
    if request.output is not None or not offered:
        return ""
    return request.choice if request.choice in offered else offered[0]

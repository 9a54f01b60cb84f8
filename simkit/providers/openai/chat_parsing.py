"""OpenAI's chat completions: parsing of responses."""

from __future__ import annotations

from typing import Final

from simkit.core.messages import Fails, JsonValue, Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.attachments import REASONING, REFUSAL, Extras, data_of
from simkit.providers.body_reader import Record, maybe, need, record_of, records, under
from simkit.providers.failing import broken
from simkit.providers.http import HttpResponse
from simkit.providers.openai.errors import fails_in, fails_of
from simkit.providers.openai.parts import arguments_of, checked, content_of, kind_of_call, usage_of
from simkit.providers.values import ParsedRequest, ParsedResponse

_NATURAL: Final = frozenset({"stop", "tool_calls", "function_call"})


def parse_response(response: HttpResponse, request: ParsedRequest) -> ParsedResponse:
    """Parse a response, streamed or not, complete or cut; raise WireInvalid for an invalid one."""
    if response.status >= 400:
        return ParsedResponse(Message("assistant"), error=fails_of(response))
    reply = _Reply(f"function_call_{len(request.messages)}")
    if sse.is_stream(response):
        parsed = _heard_stream(response, reply)
        return parsed if parsed.error else checked(parsed, request)
    if response.ends:
        return ParsedResponse(Message("assistant"), error=broken(response.ends, is_whole=False))
    body = record_of(response.body)
    if body.get("error"):
        return ParsedResponse(Message("assistant"), error=fails_in(body["error"], response.status))
    need(body, "choices", list)
    reply.add(body, "message")
    return checked(reply.parse(), request)


def _heard_stream(response: HttpResponse, reply: _Reply) -> ParsedResponse:
    is_done = False
    for number, (_, data) in enumerate(sse.events(response.body)):
        if data.startswith(sse.DONE):
            is_done = True
            break
        at = f"events[{number}]"
        body = record_of(data, at)
        if body.get("error"):
            return reply.parse(fails_in(body["error"], response.status))
        reply.add(body, "delta", at)
    # Some compatible servers send no finish reason; token counts and `[DONE]` prove the end.
    if is_done and (reply.finish or reply.has_usage):
        return reply.parse()
    # Compatible servers leave out the last event, so only a lost connection counts as cut.
    return reply.parse(broken(response.ends, is_whole=bool(reply.finish)))


def reasoning_in(record: Record, at: str) -> str:
    """Return the reasoning, which compatible servers send under one of two names."""
    return maybe(record, "reasoning_content", "", at) or maybe(record, "reasoning", "", at)


class _StreamedCall:
    """One call of a stream: the id and the name come once, the arguments in pieces."""

    __slots__ = ("arguments", "id", "is_custom", "name")

    def __init__(self, call_id: str) -> None:
        self.id, self.name, self.is_custom = call_id, "", False
        self.arguments = list[str]()

    def whole(self) -> ToolCall:
        text = "".join(self.arguments)
        return ToolCall(self.id, self.name, text if self.is_custom else arguments_of(text))


class _Reply:
    """One reply of a stream; a complete message counts as one large delta."""

    def __init__(self, legacy_id: str) -> None:
        """``legacy_id`` is the id for a legacy function call, which has none."""
        self._legacy_id = legacy_id
        self._id, self.finish = "", ""
        self._usage: Usage | None = None
        self._texts, self._refusals = list[str](), list[str]()
        self._reasoning, self._calls = list[str](), dict[int, _StreamedCall]()

    @property
    def has_usage(self) -> bool:
        """Return whether the server has sent token counts."""
        return self._usage is not None

    def add(self, body: Record, key: str, at: str = "") -> None:
        """Add a body; ``key`` is its name for the message."""
        self._id = self._id or maybe(body, "id", "", at)
        if usage := maybe(body, "usage", dict[str, JsonValue](), at):
            self._usage = _usage(usage, under(at, "usage"))
        for choice, where in records(body, "choices", at):
            if maybe(choice, "index", 0, where) == 0:
                self.finish = maybe(choice, "finish_reason", "", where) or self.finish
                message = maybe(choice, key, dict[str, JsonValue](), where)
                self._add_message(message, under(where, key))

    def _add_message(self, message: Record, at: str) -> None:
        self._texts.append(content_of(message, at, glue="")[0])
        self._refusals.append(maybe(message, "refusal", "", at))
        self._reasoning.append(reasoning_in(message, at))
        for number, (call, where) in enumerate(records(message, "tool_calls", at)):
            index = maybe(call, "index", number, where)
            self._add_call(index, call, where)
        legacy = maybe(message, "function_call", dict[str, JsonValue](), at)
        if legacy.get("name") or legacy.get("arguments"):
            self._add_call(0, {"id": self._legacy_id, "function": legacy}, at)

    def _add_call(self, index: int, call: Record, at: str) -> None:
        open_call = self._calls.setdefault(index, _StreamedCall(""))
        open_call.id = open_call.id or maybe(call, "id", "", at)
        kind = kind_of_call(call)
        inner = maybe(call, kind, dict[str, JsonValue](), at)
        inside = under(at, kind)
        open_call.is_custom = open_call.is_custom or kind == "custom"
        open_call.name = open_call.name or maybe(inner, "name", "", inside)
        key = "input" if kind == "custom" else "arguments"
        open_call.arguments.append(maybe(inner, key, "", inside))

    def parse(self, error: Fails | None = None) -> ParsedResponse:
        """Return the reply as far as it has arrived."""
        extras = Extras()
        if reasoning := "".join(self._reasoning):
            extras[REASONING] = [{"type": "reasoning_text", "text": reasoning}]
        refusal = "".join(self._refusals)
        if refusal:
            extras[REFUSAL] = refusal
        text = "".join(self._texts) or refusal
        calls = tuple(self._calls[index].whole() for index in sorted(self._calls))
        message = Message("assistant", text, calls=calls, data=data_of(text, extras))
        finish = "" if self.finish in _NATURAL else self.finish
        return ParsedResponse(
            message, self._usage, "refusal" if refusal else finish, self._id, error
        )


def _usage(usage: Record, at: str) -> Usage:
    return usage_of(usage, at, "prompt", "completion")

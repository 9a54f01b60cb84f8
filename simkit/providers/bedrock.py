"""Amazon Bedrock's Converse, whole and as a stream of binary frames.

Its blocks are Anthropic's under other names: simkit translates them, and parses Anthropic's.
Source of the shapes: the service's model that AWS ships with its clients (bedrock-runtime,
2023-09-30), https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import Fails, JsonValue, Message, as_json
from simkit.providers import attachments, eventstream, failures, skeleton, sse, values
from simkit.providers.anthropic import messages, replies
from simkit.providers.body_reader import (
    Record,
    json_bytes,
    json_text,
    maybe,
    need,
    record_of,
    records,
    under,
)
from simkit.providers.http import Headers, HttpRequest, HttpResponse

_PATH: Final = re.compile(r"/model/(?P<model>.+)/converse(?P<stream>-stream)?$")
_READ: Final = ("messages", "system", "toolConfig", "outputConfig")
_MARK: Final = "cachePoint"

# Requests, in Anthropic's words


def _whole(request: HttpRequest, body: Record, parsed: Sequence[Message]) -> values.ParsedRequest:
    path = skeleton.match_of(_PATH, request)
    own: dict[str, Any] = {key: value for key, value in body.items() if key not in _READ}
    own |= {"model": path["model"], "stream": path["stream"] is not None}
    own["system"] = _blocks(body, "system", "")
    config, at = maybe(body, "toolConfig", dict[str, Any]()), "toolConfig"
    own["tools"] = _blocks(config, "tools", at)
    for kind, choice in maybe(config, "toolChoice", dict[str, Any](), at).items():
        own["tool_choice"] = {"type": kind, **(choice or {})} if choice is not None else None
    form: Any = body
    for key in ("outputConfig", "textFormat", "structure", "jsonSchema"):
        form = maybe(form, key, dict[str, Any]())
    if (schema := as_json(maybe(form, "schema", ""))) is not None:
        own["output_format"] = {"type": "json_schema", "schema": schema}
    if _MARK.encode() in request.body:
        items = [_message(item, address) for item, address in records(body, "messages")]
        request = msgspec.structs.replace(request, body=json_bytes({**own, "messages": items}))
    return msgspec.structs.replace(messages.whole(request, own, parsed), protocol="bedrock")


def _message(item: Record, at: str) -> dict[str, Any]:
    need(item, "content", list, at)
    return {"role": item.get("role"), "content": _blocks(item, "content", at)}


def _blocks(record: Record, key: str, at: str) -> list[dict[str, Any]]:
    """Return the blocks of a list; a mark belongs to the block before it."""
    blocks = list[dict[str, Any]]()
    for block, path in records(record, key, at):
        if _MARK not in block:
            blocks.append(_block(block, path))
        elif blocks:
            blocks[-1]["cache_control"] = block[_MARK]
    return blocks


def _block(block: Record, at: str) -> dict[str, Any]:
    kind = next((key for key, value in block.items() if value is not None), "text")
    if kind in ("text", "json"):
        value = block.get(kind)
        is_value = kind == "json" and not isinstance(value, str)
        return {"type": "text", "text": json_text(value) if is_value else value}
    inner, path = need(block, kind, dict, at), under(at, kind)
    if kind in _BLOCKS:
        return _BLOCKS[kind](inner, path)
    if texts := [*_texts(inner)]:  # Of documents, results of searches, citations, guarded texts.
        return {"type": "text", "text": "".join(texts)}
    return {"type": kind, "title": inner.get("name"), "source": _source(kind, inner, path)}


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield the texts of a block in its own words, without those of its sources."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["text"]
        for key in ("text", "content", "source"):
            yield from _texts(value.get(key))


def _result(result: Record, at: str) -> dict[str, Any]:
    content = {"content": _blocks(result, "content", at)}
    is_error = {"is_error": result.get("status") == "error"}
    return {"type": "tool_result", "tool_use_id": result.get("toolUseId"), **content, **is_error}


def _thought(thought: Record, at: str) -> dict[str, Any]:
    if "redactedContent" in thought:
        return {"type": "redacted_thinking", "data": thought["redactedContent"]}
    text = maybe(thought, "reasoningText", {**thought}, at)  # Deltas are without it.
    return {"type": "thinking", "thinking": text.get("text", ""), **text}


_BLOCKS: Final[Mapping[str, Callable[[Record, str], dict[str, Any]]]] = {
    "toolUse": lambda call, at: {"type": "tool_use", **call, "id": call.get("toolUseId")},
    "toolResult": _result,
    "reasoningContent": _thought,
    "toolSpec": lambda spec, at: {
        **spec, "input_schema": need(spec, "inputSchema", dict, at).get("json")
    },
    "systemTool": lambda tool, at: {"type": tool.get("name"), "name": tool.get("name")},
}  # fmt: skip
"""Blocks, and tools, in Anthropic's words."""


def _source(kind: str, part: Record, at: str) -> dict[str, Any]:
    source, path = maybe(part, "source", dict[str, Any](), at), under(at, "source")
    if "s3Location" in source:
        return {"type": "url", "url": need(source, "s3Location", dict, path).get("uri")}
    media = f"{kind}/{maybe(part, 'format', '', at)}"
    return {"type": "base64", "data": source.get("bytes", ""), "media_type": media}


_REQUESTS: Final = skeleton.ItemReader(
    key="messages",
    item=lambda item, at, index, tools: messages.parse_item(_message(item, at), at, index, tools),
    whole=_whole,
)

# Rendering


def served(reply: values.OutgoingReply, request: values.ParsedRequest) -> HttpResponse:
    """Render a reply, as a body or as the frames of a stream."""
    attachments.expect_none(reply, "Bedrock's replies", "citations", "logprobs")
    usage = reply.usage
    read, cache_writes = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    reason = reply.finish or ("tool_use" if reply.message.calls else "end_turn")
    blocks: list[dict[str, Any]] = [
        _converse_block(block) for block in replies.blocks_said(reply.message, reply)
    ]
    if reply.explanation:
        blocks.append({"text": reply.explanation})
    body: dict[str, Any] = {
        "metrics": {"latencyMs": 0},
        "output": {"message": {"content": blocks, "role": "assistant"}},
        "stopReason": "max_tokens" if reason == "length" else reason,
        "usage": {
            "inputTokens": input_tokens - read - cache_writes,
            "outputTokens": output_tokens,
            "totalTokens": input_tokens + output_tokens,
            "cacheReadInputTokens": read,
            "cacheWriteInputTokens": cache_writes,
        },
    }
    body = attachments.with_raw(body, reply)

    def frames() -> Iterator[bytes]:
        for name, event in _events(body, reply.chunks):
            yield eventstream.frame(json_bytes(event), name)

    identity = ("x-amzn-requestid", f"req_{reply.serial}")
    return skeleton.render(body, frames, request, identity, kind=eventstream.CONTENT_TYPE)


def _converse_block(block: Mapping[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "tool_use":
            call = {"name": block["name"], "toolUseId": block["id"]}
            return {"toolUse": {**call, "input": block["input"]}}
        case "thinking":
            thought = {"text": block["thinking"], "signature": block.get("signature", "")}
            return {"reasoningContent": {"reasoningText": thought}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block["data"]}}
    return {"text": block["text"]}


def _events(
    body: Mapping[str, Any], chunks: tuple[int, ...] | int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    message = body["output"]["message"]
    deltas: list[dict[str, Any]]
    yield "messageStart", {"role": message["role"]}
    for index, block in enumerate(message["content"]):
        block_index = {"contentBlockIndex": index}
        if (call := block.get("toolUse")) is not None:
            start = {key: value for key, value in call.items() if key != "input"}
            yield "contentBlockStart", {**block_index, "start": {"toolUse": start}}
            deltas = [{"toolUse": {"input": text}} for text in ["", *_cut(call["input"], chunks)]]
        elif (thought := block.get("reasoningContent")) is None:
            deltas = [{"text": text} for text in _cut(block.get("text", ""), chunks)]
        elif text_block := thought.get("reasoningText"):
            deltas = [
                {"reasoningContent": {"text": text}} for text in _cut(text_block["text"], chunks)
            ]
            deltas.append({"reasoningContent": {"signature": text_block["signature"]}})
        else:
            deltas = [{"reasoningContent": thought}]
        for delta in deltas:
            yield "contentBlockDelta", {**block_index, "delta": delta}
        yield "contentBlockStop", block_index
    own = {key: body[key] for key in ("additionalModelResponseFields",) if key in body}
    yield "messageStop", {"stopReason": body["stopReason"], **own}
    yield "metadata", {"metrics": body["metrics"], "usage": body["usage"]}


def _cut(value: JsonValue, chunks: tuple[int, ...] | int | None) -> list[str]:
    return sse.pieces(value if isinstance(value, str) else json_text(value), chunks)


_IN_STREAM: Final = ("InternalServer", "ServiceUnavailable", "Throttling", "Validation")
"""Exceptions that a stream may end with; all others are the model's."""


def _failure_writer(
    render_reply: Callable[..., HttpResponse], **more: Any
) -> skeleton.FailureWriter:
    """Return how replies of one interface fail."""

    def in_stream(
        serial: str, fails: Fails, words: failures.Words, request: values.ParsedRequest
    ) -> HttpResponse:
        started = render_reply(values.empty_reply(serial), request)
        kind = words.type.removesuffix("Exception")
        kind = kind[:1].lower() + kind[1:] if kind in _IN_STREAM else "modelStreamError"
        content = json_bytes({"message": words.message})
        last = eventstream.frame(content, f"{kind}Exception", "exception")
        return HttpResponse(200, started.headers, (started.chunks[0], last))

    return skeleton.FailureWriter(
        words=failures.WORDS["bedrock"],
        served=render_reply,
        malformed=replies.malformed,
        error=lambda serial, fails, words: {"message": words.message},
        headers=_error_headers,
        in_stream=in_stream,
        **more,
    )


def _error_headers(serial: str, fails: Fails, words: failures.Words) -> Headers:
    kind = ("x-amzn-errortype", words.type)
    return (*values.JSON, ("x-amzn-requestid", f"req_{serial}"), kind)


def _stopped(serial: str, fails: Fails, request: values.ParsedRequest) -> HttpResponse | None:
    """Render the reply of a guardrail, which says in its own words that it stopped the prompt."""
    if fails.kind != "content_filter" or fails.status not in (200, 400):
        return None
    stop = {"finish": "guardrail_intervened", "explanation": fails.message}
    return served(msgspec.structs.replace(values.empty_reply(serial), **stop), request)


# Parsing of responses, in Anthropic's words


def error_in(body: Record, status: int) -> Fails:
    """Parse the body of an error."""
    message = maybe(body, "message", "") or maybe(body, "Message", "")
    return Fails(failures.kind_of_status(status, message), status, message)


def _exception_in(body: Record, event: str) -> Fails | None:
    """Parse an exception that ends a stream; None for any other event."""
    if not event.endswith("Exception"):
        return None
    status = {"throttling": 429, "serviceUnavailable": 503, "validation": 400}
    fails = error_in(body, status.get(event.removesuffix("Exception"), 500))
    return msgspec.structs.replace(fails, status=200)


class _Reply(messages.Reply):
    """A reply, whole or built from the events of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[int, dict[str, Any]] = {}
        self._end: Record = {}

    def read_body(self, body: Record, status: int) -> None:
        """Read a complete reply."""
        message = need(need(body, "output", dict), "message", dict, "output")
        parts = records(message, "content", "output.message")
        self._parts = {index: dict(part) for index, (part, _) in enumerate(parts)}
        self._end = body

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event; an exception is the last one."""
        self.error = _exception_in(body, event)
        if event in ("contentBlockStart", "contentBlockDelta"):
            key = "start" if event == "contentBlockStart" else "delta"
            part = self._parts.setdefault(need(body, "contentBlockIndex", int, at), {})
            _extend(part, maybe(body, key, dict[str, Any](), at), under(at, key))
        elif event in ("messageStop", "metadata"):
            self._end = {**self._end, **body}
        return self.error is not None

    def parse(self, ends: str, *, is_done: bool) -> values.ParsedResponse:
        """Return the reply as far as it has arrived."""
        own: dict[str, Any] = {"content": list[Any]()}
        for index in sorted(self._parts):
            block = _block(self._parts[index], "output.message.content")
            if isinstance(text := block.get("input", ""), str) and block["type"] == "tool_use":
                block["input"] = messages.input_of(text) if text else {}
            own["content"].append(block)
        if reason := maybe(self._end, "stopReason", ""):
            own["stop_reason"], self.is_over = reason, True
        if usage := maybe(self._end, "usage", dict[str, Any]()):
            names = {"input": "input", "output": "output", "cacheReadInput": "cache_read_input"}
            names["cacheWriteInput"] = "cache_creation_input"
            own["usage"] = {f"{b}_tokens": usage.get(f"{a}Tokens") for a, b in names.items()}
        self.message = own
        return super().parse(ends, is_done=is_done)


def _extend(part: dict[str, Any], delta: Record, at: str) -> None:
    """Add a delta to a block: texts grow."""
    for key, value in delta.items():
        if isinstance(value, Mapping):
            _extend(part.setdefault(key, {}), value, under(at, key))
        else:
            part[key] = maybe(part, key, "", at) + value if isinstance(value, str) else value


class _InvokedReply(messages.Reply):
    """A message of Anthropic's whose stream may end with an exception of Bedrock's."""

    def read_event(self, body: Record, event: str, at: str, status: int) -> bool:
        """Read one event."""
        self.error = _exception_in(body, event)
        return self.error is not None or super().read_event(body, event, at, status)


PROTOCOL: Final = values.Protocol(
    name="bedrock",
    variables={"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}"},
    keys=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    speaks=skeleton.posts_to(_PATH),
    parse_request=_REQUESTS.parse,
    parse_again=_REQUESTS.parse_again,
    served=served,
    failed=_failure_writer(served, refusal="content_filtered", special=_stopped).write,
    parse_response=lambda response, _: skeleton.read_response(response, _Reply(), error_in),
    call_prefix="tooluse_",
)

# Anthropic's own messages inside ``InvokeModel``


_INVOKED: Final = re.compile(
    r"/model/(?P<model>.*anthropic.*)/invoke(?P<stream>-with-response-stream)?$"
)


def _parse_invoked(request: HttpRequest) -> values.ParsedRequest:
    path = skeleton.match_of(_INVOKED, request)
    given = {"model": path["model"], "stream": path["stream"] is not None}
    body = json_bytes({**record_of(request.body), **given})
    parsed = messages.PROTOCOL.parse_request(msgspec.structs.replace(request, body=body))
    return msgspec.structs.replace(parsed, protocol=INVOKED.name)


def _serve_invoked(reply: values.OutgoingReply, request: values.ParsedRequest) -> HttpResponse:
    whole = replies.served(reply, request)
    if not request.is_streamed:
        return whole
    chunks = tuple(
        eventstream.frame(eventstream.chunk_of(data.encode()), "chunk")
        for chunk in whole.chunks
        for _, data in sse.events(chunk)
    )
    return HttpResponse(200, (("content-type", eventstream.CONTENT_TYPE),), chunks)


INVOKED: Final = msgspec.structs.replace(
    PROTOCOL,
    name="anthropic-bedrock",
    speaks=skeleton.posts_to(_INVOKED),
    parse_request=_parse_invoked,
    parse_again=None,
    served=_serve_invoked,
    failed=_failure_writer(_serve_invoked).write,
    parse_response=lambda response, _: skeleton.read_response(response, _InvokedReply(), error_in),
    call_prefix="toolu_",
)

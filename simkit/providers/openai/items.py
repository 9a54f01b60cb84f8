"""Parts of contents, arguments of calls and failures, as both of OpenAI's interfaces have them.

After these, items of its Responses interface: the elements of ``input`` and ``output``. Source of
the failures: https://platform.openai.com/docs/guides/error-codes, and errors in logs of clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from simkit.core.messages import (
    ROLE_ALIASES,
    Citation,
    Fails,
    JsonValue,
    Message,
    ToolCall,
    Usage,
    as_json,
    spans_of,
)
from simkit.core.text import short
from simkit.providers import attachments as extra
from simkit.providers.attachments import REFERENCE, tokens_of
from simkit.providers.body_reader import Record, json_text, maybe, need, typed, under, unknown
from simkit.providers.failures import KINDS_BY_CODE, WORDS, Words, kind_of_status, malformed
from simkit.providers.http import Headers
from simkit.providers.skeleton import broken_call, retry_headers
from simkit.providers.values import JSON, Offer, OutgoingReply, ParsedRequest, ParsedResponse

FREE_TEXT: Final[JsonValue] = {"type": "string"}
"""The argument schema of a custom tool, which takes a text instead of an object."""


def content_of(record: Record, at: str, glue: str = "\n") -> tuple[str, extra.Extras]:
    """Parse ``content``: a text, null or a list of parts, joined by ``glue``."""
    content = record.get("content")
    if type(content) is str:
        return content, {}
    if content is None:
        return "", {}
    return parts_of(content, under(at, "content"), glue)


def parts_of(value: JsonValue, at: str, glue: str = "\n") -> tuple[str, extra.Extras]:
    """Parse a list of content parts; parts without text become placeholders."""
    texts, extras = list[str](), extra.Extras()
    for number, item in enumerate(typed(value, list, at)):
        part_at = f"{at}[{number}]"
        part = typed(item, dict, part_at)
        kind = need(part, "type", str, part_at)
        read = _PARTS.get(kind)
        if read is None:
            raise unknown("part", kind, list(_PARTS), under(part_at, "type"))
        texts.append(read(part, part_at, extras))
    return glue.join(texts), extras


def _text(part: Record, at: str, _: extra.Extras) -> str:
    return need(part, "text", str, at)


def _refusal(part: Record, at: str, extras: extra.Extras) -> str:
    text = need(part, "refusal", str, at)
    extras[extra.REFUSAL] = extras.get(extra.REFUSAL, "") + text
    return text


def _image(part: Record, at: str, extras: extra.Extras) -> str:
    image = part.get("image_url")
    if type(image) is dict:
        path = under(at, "image_url")
        reference = _reference("image", need(image, "url", str, path))
        detail = maybe(image, "detail", "", path)
    else:
        reference = _reference("image", maybe(part, "image_url", "", at) or _file_id(part, at))
        detail = maybe(part, "detail", "", at)
    return _text_of_part({**reference, "detail": detail} if detail else reference, extras)


def _audio(part: Record, at: str, extras: extra.Extras) -> str:
    audio, path = need(part, "input_audio", dict, at), under(at, "input_audio")
    media_type = f"audio/{maybe(audio, 'format', 'wav', path)}"
    return _text_of_part(extra.inline("audio", need(audio, "data", str, path), media_type), extras)


def _file(part: Record, at: str, extras: extra.Extras) -> str:
    if part.get("file") is not None:
        part, at = need(part, "file", dict, at), under(at, "file")
    source = maybe(part, "file_data", "", at) or maybe(part, "file_url", "", at)
    name = maybe(part, "filename", "", at)
    return _text_of_part(_reference("file", source or _file_id(part, at), name), extras)


def _file_id(part: Record, at: str) -> str:
    return need(part, "file_id", str, at)


def _reference(kind: str, source: str, name: str = "") -> extra.Extras:
    if not source.startswith("data:"):
        return extra.linked(kind, source, name=name)
    media_type, _, encoded = source.removeprefix("data:").partition(",")
    return extra.inline(kind, encoded, media_type.partition(";")[0], name)


def _text_of_part(part: extra.Extras, extras: extra.Extras) -> str:
    extra.added(extras, extra.PARTS, part)
    return extra.placeholder(part)


_PARTS: Final[Mapping[str, Callable[[Record, str, extra.Extras], str]]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "input_image": _image,
    "computer_screenshot": _image,
    "input_audio": _audio,
    "file": _file,
    "input_file": _file,
}


PART_KINDS: Final = frozenset(_PARTS)


def kind_of_call(call: Record) -> str:
    """Return ``custom`` or ``function``; some servers send both, one of them empty."""
    declared = call.get("type")
    if declared in ("custom", "function") and call.get(declared):
        return str(declared)
    return "custom" if call.get("custom") and not call.get("function") else "function"


def arguments_of(text: str) -> JsonValue:
    """Return a call's arguments as an object, or as the text if it is no object."""
    stripped = text.strip()
    if not stripped:
        return {}
    value = as_json(stripped)
    return value if type(value) is dict else text


def arguments_text(call: ToolCall) -> str:
    """Return a call's arguments as text."""
    return call.args if isinstance(call.args, str) else json_text(call.args)


def refusal_in(message: Message) -> str | None:
    """Return the text in which an assistant's message refuses, or None.

    A structured reply may itself have a field ``refusal``; its text shows that.
    """
    data = message.data
    if not isinstance(data, Mapping) or as_json(message.content) == data:
        return None
    refusal = data.get(extra.REFUSAL)
    return refusal if isinstance(refusal, str) else None


def is_custom(name: str, request: ParsedRequest) -> bool:
    """Return whether a tool takes a text instead of an object."""
    return any(offer.name == name and offer.schema == FREE_TEXT for offer in request.offers)


def function_offer(record: Record, at: str, is_strict: bool = False) -> Offer:
    """Parse a function; without ``parameters`` it takes none.

    ``is_strict`` is the interface's default.
    """
    schema = maybe(record, "parameters", dict[str, JsonValue](), at) or {"type": "object"}
    name = need(record, "name", str, at)
    description = maybe(record, "description", "", at)
    return Offer(name, schema, description, maybe(record, "strict", is_strict, at))


def checked(parsed: ParsedResponse, request: ParsedRequest) -> ParsedResponse:
    """Return the response, with an error if its arguments or output are invalid JSON."""
    if parsed.error:
        return parsed
    message = parsed.message
    for call in message.calls:
        if isinstance(call.args, str) and not is_custom(call.name, request):
            error = malformed(f"arguments of {call.name!r}: {short(call.args, 60)}")
            return msgspec.structs.replace(parsed, error=error)
    if request.output is not None and message.content and not message.calls and not parsed.finish:
        try:
            msgspec.json.decode(message.content)
        except (msgspec.DecodeError, RecursionError):
            error = malformed(f"output: {short(message.content, 60)}")
            return msgspec.structs.replace(parsed, error=error)
    return parsed


def cited(text: str, citations: tuple[Citation, ...]) -> list[dict[str, JsonValue]]:
    """Return citations in the format of both interfaces, with their places in the text."""
    return [
        {"start_index": start, "end_index": end, "url": citation.url, "title": citation.title}
        for start, end, citations_found in spans_of(text, citations)
        for citation in citations_found
    ]


def probabilities(reply: OutgoingReply, top: JsonValue) -> list[dict[str, JsonValue]]:
    """Return the tokens of a text in the format of both interfaces, with ``top`` alternatives."""
    rows: list[dict[str, JsonValue]] = []
    for token in tokens_of(reply):
        listed = [_probability(*row) for row in extra.likeliest(token, top)]
        rows.append({**_probability(token.text, token.logprob), "top_logprobs": listed})
    return rows


def _probability(text: str, logprob: float) -> dict[str, JsonValue]:
    return {"token": text, "logprob": logprob, "bytes": [*text.encode()]}


def usage_of(body: Record, at: str, input_word: str, output_word: str) -> Usage | None:
    """Parse the token counts, if a body has some.

    ``input_word`` and ``output_word`` are an interface's words for both sides.
    """
    usage, at = maybe(body, "usage", dict[str, JsonValue](), at), under(at, "usage")
    if not usage:
        return None
    read = maybe(usage, f"{input_word}_tokens_details", dict[str, JsonValue](), at)
    details = maybe(usage, f"{output_word}_tokens_details", dict[str, JsonValue](), at)
    keys = f"{input_word}_tokens", f"{output_word}_tokens"
    sent_tokens, made_tokens = (maybe(usage, k, 0, at) if k in usage else None for k in keys)
    return Usage(
        sent_tokens,
        made_tokens,
        maybe(read, "cached_tokens", 0, under(at, f"{input_word}_tokens_details")) or None,
        maybe(read, "cache_write_tokens", 0, under(at, f"{input_word}_tokens_details")) or None,
        maybe(details, "reasoning_tokens", 0, under(at, f"{output_word}_tokens_details")) or None,
    )


# Failures: status, headers and body of each, and their parsing


OWN: Final = WORDS["openai"]


def error_body(fails: Fails, words: Words, context_field: str) -> dict[str, JsonValue]:
    """Return a failure's body; ``context_field`` is the field that holds the context."""
    return {
        "message": words.message,
        "type": words.type,
        "param": context_field if fails.kind == "context_overflow" else None,
        "code": words.code,
    }


def error_headers(serial: str, fails: Fails, _: Words) -> Headers:
    """Return the headers of a response with an error status."""
    return (*JSON, ("x-request-id", f"req_{serial}"), *retry_headers(fails))


def malformed_reply(serial: str, request: ParsedRequest) -> OutgoingReply:
    """Break the output if the request asks for one, else a call's arguments, else the text."""
    return OutgoingReply(serial, broken_call(serial, request, "call_"), Usage(0, 0))


def error_in(body: Record, status: int) -> Fails:
    """Parse the body of a response with an error status.

    Compatible servers also send {"error": "…"}, {"message": "…"} and {"detail": "…"}.
    """
    return fails_in(body.get("error") or body, status)


def fails_in(error: JsonValue, status: int) -> Fails:
    """Parse an error body, or an error inside a stream."""
    record: Record = error if isinstance(error, dict) else {"message": error}
    message = record.get("message") or record.get("detail")
    text = message if isinstance(message, str) else json_text(message or record)
    for word in (record.get("code"), record.get("type")):
        if isinstance(word, str) and word in KINDS_BY_CODE:
            return Fails(KINDS_BY_CODE[word], status, text)
    return Fails(kind_of_status(status, text), status, text)


Placed: TypeAlias = tuple[Record, str]
"""An item and its path."""

_ROLES: Final = ("system", "developer", "user", "assistant")
_KNOWN: Final = (
    *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
    *("custom_tool_call_output", REFERENCE, "compaction", "program", "mcp_list_tools"),
    *("mcp_approval_request", "mcp_approval_response"),
)
"""Known kinds; kinds that end in ``_call`` or ``_output`` are accepted too, because OpenAI adds
more."""

_UNSAID: Final = frozenset({"additional_tools", "compaction_trigger", "configuration_update"})
"""Items that change how the provider works, and have no content."""


def messages_of(items: Sequence[Placed]) -> list[Message]:
    """Parse an input. Items of one reply are one message: reasoning, then text, then calls."""
    messages, tools = list[Message](), dict[str, str]()
    group = _Group(tools)

    def flush() -> None:
        nonlocal group
        if not group.is_empty:
            messages.append(group.message())
            group = _Group(tools)

    for item, at in items:
        kind = maybe(item, "type", "message", at)
        role = need(item, "role", str, at) if kind == "message" else "assistant"
        if kind in _UNSAID:
            continue
        if role != "assistant":
            flush()
            messages.append(_parse_message(item, role, at))
        elif kind.endswith("_output"):
            flush()
            messages.append(_result(item, at, tools))
        else:
            if kind in ("message", "reasoning", REFERENCE) and group.has_said:
                flush()
            group.add(item, kind, at)
    flush()
    return messages


def reply_of(items: Sequence[Placed]) -> Message:
    """Parse an output, which is one message."""
    group = _Group({})
    for item, at in items:
        group.add(item, need(item, "type", str, at), at)
    return group.message()


def _parse_message(item: Record, role: str, at: str) -> Message:
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, under(at, "role"))
    content, extras = content_of(item, at)
    return Message(ROLE_ALIASES[role], content, data=extras or None)


def _result(item: Record, at: str, tools: dict[str, str]) -> Message:
    call_id = maybe(item, "call_id", "", at) or maybe(item, "id", "", at)
    text, extras = _output(item.get("output"), under(at, "output"))
    tool = tools.get(call_id) or maybe(item, "name", "", at)
    data = extra.data_of(text, extras)
    return Message("tool", text, call_id=call_id, tool=tool, data=data)


def _output(output: JsonValue, at: str) -> tuple[str, extra.Extras]:
    """Parse a tool's output: a text, content parts, or the output of one of OpenAI's tools."""
    if type(output) is str:
        return output, {}
    if type(output) is dict and output.get("type") in PART_KINDS:
        output = [output]
    if type(output) is list and all(type(part) is dict and "type" in part for part in output):
        return parts_of(output, at)
    return ("" if output is None else json_text(output)), {}


class _Group:
    """The items of one reply as they come, and the message that they make."""

    def __init__(self, tools: dict[str, str]) -> None:
        """``tools`` receives the names of called tools by call id."""
        self._texts, self._calls = list[str](), list[ToolCall]()
        self._extras, self._tools = extra.Extras(), tools

    @property
    def has_said(self) -> bool:
        """Return whether there is more than reasoning and hosted tools."""
        return bool(self._texts or self._calls)

    @property
    def is_empty(self) -> bool:
        """Return whether there are no items."""
        return not self.has_said and not self._extras

    def add(self, item: Record, kind: str, at: str) -> None:
        """Add one item; raise WireInvalid if a reply cannot contain it."""
        if kind == "message":
            text, extras = content_of(item, at, glue="")
            self._texts.append(text)
            self._extras |= extras
        elif kind == "reasoning":
            extra.added(self._extras, extra.REASONING, item)
        elif kind.endswith("_call") and item.get("call_id") is not None:
            self._add_call(item, kind, at)
        elif kind.endswith(("_call", "_output")) or kind in _KNOWN:
            if kind == REFERENCE:
                need(item, "id", str, at)
            # The action of a hosted tool is no text of the model.
            extra.added(self._extras, extra.ITEMS, item)
        else:
            raise unknown("item", kind, _KNOWN, under(at, "type"))

    def _add_call(self, item: Record, kind: str, at: str) -> None:
        call_id = need(item, "call_id", str, at)
        args: JsonValue
        if kind == "function_call":
            name, args = need(item, "name", str, at), arguments_of(need(item, "arguments", str, at))
        elif kind == "custom_tool_call":
            name, args = need(item, "name", str, at), need(item, "input", str, at)
        else:
            # The computer, a shell, a patch: OpenAI's tools that the client runs.
            name = kind.removesuffix("_call")
            args = item.get("action") or item.get("operation") or item.get("arguments") or {}
        self._tools[call_id] = name
        self._calls.append(ToolCall(call_id, name, args))

    def message(self) -> Message:
        """Return the message that the items make."""
        text = "".join(self._texts)
        data = extra.data_of(text, self._extras)
        return Message("assistant", text, calls=tuple(self._calls), data=data)

"""Parts of Gemini's contents, in requests and in responses.

A thought is reasoning. So is the signature by which the provider recognizes one, wherever it is:
``{"thoughtSignature": …, "call": 0}`` for the first call, without ``call`` for the text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue, Message, Thinking, ToolCall
from simkit.providers import attachments as extra
from simkit.providers.body_reader import Record, json_text, maybe, need, typed, under
from simkit.providers.skeleton import Numbered

_COUNTS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_LISTS: Final = ("anyOf", "prefixItems")
_NO_SCHEMA: Final = ("nullable", "propertyOrdering", "example")
"""Keys that are not part of JSON Schema."""

_HUMP: Final = re.compile(r"_([a-z0-9])")


def camel(key: str) -> str:
    """Return ``maxItems`` for ``max_items``."""
    return _HUMP.sub(lambda match: match[1].upper(), key)


def spelled(record: Record, key: str) -> str:
    """Return the spelling of a camel-case key in a record."""
    if key in record:
        return key
    snake = re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", key)
    return snake if snake in record else key


def json_schema(schema: Record, at: str) -> JsonValue:
    """Return a schema as JSON Schema; raise WireInvalid for an invalid one."""
    schema_out: dict[str, Any] = {}
    for key_, value in schema.items():
        key, path = camel(key_), under(at, key_)
        if key not in _NO_SCHEMA and value is not None:
            schema_out[key] = _keyword(key, value, path)
    if schema_out.get("type") == "type_unspecified":
        del schema_out["type"]
    if maybe(schema, "nullable", False, at):
        _allow_null(schema_out)
    return schema_out


def _keyword(key: str, value: JsonValue, at: str) -> JsonValue:
    if key == "type":
        return typed(value, str, at).lower()
    if key in _COUNTS:
        return _count(value, at)
    if key == "items":
        return json_schema(typed(value, dict, at), at)
    if key == "properties":
        properties = typed(value, dict, at)
        return {
            name: json_schema(typed(inner, dict, under(at, name)), under(at, name))
            for name, inner in properties.items()
        }
    if key in _LISTS:
        return [
            json_schema(typed(inner, dict, f"{at}[{number}]"), f"{at}[{number}]")
            for number, inner in enumerate(typed(value, list, at))
        ]
    return value


def _count(value: JsonValue, at: str) -> int:
    """Parse a count; 64-bit integers are texts in Google's JSON."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        return int(value)
    if type(value) is int:
        return value
    raise WireInvalid("should be a whole number", at)


def _allow_null(schema: dict[str, Any]) -> None:
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if isinstance(schema.get("enum"), list):
        schema["enum"] = [*schema["enum"], None]


# Parts of Gemini's contents, in requests and in responses


Placed: TypeAlias = tuple[Record, str]
"""A part and its path; its own keys are in camel case."""

_ITEMS: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Actions of tools that the provider runs itself."""

_WRAPPERS: Final = ("output", "result")
"""Keys that wrap a function's only result: the API's word, and the one of Google's library."""


def camel_keys(record: Record) -> dict[str, Any]:
    """Return a record with its keys in camel case; raise WireInvalid if two spellings differ."""
    fields: dict[str, Any] = {}
    for key, value in record.items():
        name = camel(key)
        if fields.get(name) is None:
            fields[name] = value
        elif value is not None and value != fields[name]:
            raise WireInvalid(f"stands there twice, as `{key}` too, with another value", name)
    return fields


def parts_of(content: Record, at: str) -> list[Placed]:
    """Return the parts of a content; none if it has none."""
    parts = maybe(content, "parts", list[JsonValue](), at)
    places = [f"{under(at, 'parts')}[{number}]" for number in range(len(parts))]
    return [
        (camel_keys(typed(part, dict, part_at)), part_at)
        for part, part_at in zip(parts, places, strict=True)
    ]


def text_of(parts: Iterable[Placed], extras: extra.Extras) -> str:
    """Return the texts, and a placeholder for each other part, one a line."""
    return "\n".join(_text_of_part(part, at, extras) for part, at in parts)


def model_of(parts: Iterable[Placed], calls: Numbered) -> Message:
    """Parse a model's message. Its text parts are one text, in the pieces of its stream."""
    texts, calls_, extras = list[str](), list[ToolCall](), extra.Extras()
    for part, at in parts:
        if maybe(part, "thought", False, at):
            _think(part, extras)
            continue
        signature = maybe(part, "thoughtSignature", "", at)
        signed: dict[str, Any] = {"thoughtSignature": signature} if signature else {}
        if "functionCall" in part:
            signed |= {"call": len(calls_)} if signed else {}
            calls_.append(_call(part, at, calls))
        elif any(key in part for key in _ITEMS):
            extra.added(extras, extra.ITEMS, part)
            continue
        else:
            texts.append(_text_of_part(part, at, extras))
        if signed:
            extra.added(extras, extra.REASONING, signed)
    text = "".join(texts)
    return Message("assistant", text, calls=tuple(calls_), data=extra.data_of(text, extras))


def _think(part: Record, extras: extra.Extras) -> None:
    """Add a thought; a stream sends it in pieces, the last one signed."""
    thoughts = extras.setdefault(extra.REASONING, [])
    if thoughts and thoughts[-1].get("thought") and "thoughtSignature" not in thoughts[-1]:
        before = thoughts.pop()
        part = {**before, **part, "text": _thought(before) + _thought(part)}
    thoughts.append(part)


def _thought(part: Record) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _call(part: Record, at: str, calls: Numbered) -> ToolCall:
    call, path = need(part, "functionCall", dict, at), under(at, "functionCall")
    name = need(call, "name", str, path)
    args = maybe(call, "args", dict[str, JsonValue](), path)
    return ToolCall(calls.called(maybe(call, "id", "", path), name), name, args)


def result_of(part: Record, at: str, calls: Numbered) -> Message:
    """Parse a function's result."""
    function_response = need(part, "functionResponse", dict, at)
    path = under(at, "functionResponse")
    name = need(function_response, "name", str, path)
    response = maybe(function_response, "response", dict[str, JsonValue](), path)
    extras = extra.Extras()
    value: JsonValue = response
    if len(response) == 1:
        (key,) = response
        if key == "error":
            extras[extra.IS_ERROR] = True
        if key == "error" or key in _WRAPPERS:
            value = response[key]
    text = value if isinstance(value, str) else json_text(value)
    texts = [text] if response else []
    texts += [
        _text_of_part(inner, inner_at, extras)
        for inner, inner_at in parts_of(function_response, path)
    ]
    call, _ = calls.answered(maybe(function_response, "id", "", path), name)
    data = extra.data_of(text, extras)
    return Message("tool", "\n".join(texts), call_id=call, tool=name, data=data)


def _text_of_part(part: Record, at: str, extras: extra.Extras) -> str:
    """Return a part as text; a part of an unknown kind is kept as JSON."""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    for key in ("inlineData", "fileData"):
        if part.get(key) is not None:
            reference = _reference(need(part, key, dict, at), under(at, key))
            extra.added(extras, extra.PARTS, reference)
            return extra.placeholder(reference)
    kinds = [key for key in part if key != "thoughtSignature"]
    if not kinds:
        return ""
    extra.added(extras, extra.PARTS, dict(part))
    return f"[{kinds[0]}]"


def _reference(data: Record, at: str) -> extra.Extras:
    media_type = maybe(data, spelled(data, "mimeType"), "", at)
    name = maybe(data, spelled(data, "displayName"), "", at)
    kind = media_type.partition("/")[0]
    kind = kind if kind in ("image", "audio", "video") else "file"
    address = spelled(data, "fileUri")
    if address in data:
        return extra.linked(kind, need(data, address, str, at), media_type, name)
    return extra.inline(kind, need(data, "data", str, at), media_type, name)


def parts_said(message: Message, thinking: Thinking | None = None) -> list[dict[str, Any]]:
    """Return a message as parts, in the order in which the provider sends them."""
    reasoning = [*extra.parts_in(message, extra.REASONING), *_thoughts(message, thinking)]
    signatures = {
        item.get("call"): item["thoughtSignature"]
        for item in reasoning
        if "thoughtSignature" in item and not item.get("thought")
    }
    thoughts = [dict(item) for item in reasoning if item.get("thought")]
    thoughts += [dict(item) for item in extra.parts_in(message, extra.ITEMS)]
    if message.content or None in signatures:
        thoughts.append({"text": message.content, **_signed(signatures.get(None))})
    for number, call in enumerate(message.calls):
        call_fields = {"id": call.id, "name": call.name, "args": call.args}
        thoughts.append({"functionCall": call_fields, **_signed(signatures.get(number))})
    return thoughts


def _thoughts(message: Message, thinking: Thinking | None) -> Iterator[dict[str, Any]]:
    """Yield a thought; its signature is at the first call, or at the text."""
    if thinking is None:
        return
    if thinking.text is not None:
        yield {"text": thinking.text, "thought": True}
    if thinking.signature:
        try:
            b64decode(thinking.signature, validate=True)
        except ValueError:
            problem = "Gemini's signatures are base64, and this is none"
            raise WireInvalid(problem, "thinking.signature") from None
        yield {"thoughtSignature": thinking.signature, **({"call": 0} if message.calls else {})}
    elif thinking.text is None:
        raise WireInvalid("is nothing without text or signature", "thinking")


def _signed(signature: JsonValue) -> dict[str, JsonValue]:
    return {} if signature is None else {"thoughtSignature": signature}

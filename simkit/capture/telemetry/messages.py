"""Messages as exporters write them: of GenAI conventions, OpenAI, LangChain and OpenInference."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.capture.telemetry.exports import json_value, mapping_or_empty, text_of
from simkit.core.messages import ROLE_ALIASES, JsonValue, Message, ToolCall
from simkit.language.paths import parts_of
from simkit.providers.values import Offer

_OPENS: Final = ("{", "[")
_REPR: Final = re.compile(r"Response\w+\([a-z_]+=.*\)", re.DOTALL)
"""An object of OpenAI's client that an exporter wrote as Python shows it."""
_ITEM: Final = "item"
"""Marks a call that is an item beside the text of its reply."""
_TEXTS: Final = ("text", "input_text", "output_text", "refusal")
_LANGCHAIN: Final = re.compile(r"(\w+?)Message(Chunk)?$")


class ContentMissing(Exception):
    """A part of a message has content that the export does not have: the argument says which."""


def loaded(value: Any) -> JsonValue:
    """Return the value that a text of JSON holds; any other value as it is."""
    if isinstance(value, str) and value.strip().startswith(_OPENS):
        try:
            return json_value(value)
        except (ValueError, RecursionError):
            return value
    return value


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a value, those in texts of JSON too."""
    value = loaded(value)
    if isinstance(value, str):
        yield value
    for part in parts_of(value):
        yield from texts_in(part)


def messages_in(value: Any) -> list[Message]:
    """Return the messages of a value in any of the forms; raise ContentMissing."""
    value = loaded(value)
    if isinstance(value, Mapping):
        for key in ("messages", "input", "output", "choices", "generations"):
            if key in value:
                return messages_in(value[key])
        value = [value]
    if isinstance(value, str):
        return [Message("user", value)]
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # LangChain asks for a list of conversations.
    if not isinstance(value, list):
        raise ContentMissing("messages")
    return [*_named(_joined(map(_message_of, _one_by_one(value))))]


def _one_by_one(items: Iterable[Any]) -> Iterator[Any]:
    """Yield messages; those of GenAI conventions may hold several results, and texts after them."""
    for item in map(loaded, items):
        parts = mapping_or_empty(item).get("parts") or ()
        results = [part for part in parts if part.get("type") == "tool_call_response"]
        yield from ({"role": "tool", "parts": [result]} for result in results)
        if rest := [part for part in parts if part not in results]:
            yield {**item, "parts": rest}
        elif not results:
            yield item


def answer_in(value: Any) -> Message:
    """Return the one message that a model said; raise ContentMissing."""
    value = loaded(value)
    if isinstance(value, str):
        return Message("assistant", value)
    messages = [message for message in messages_in(value) if message.role == "assistant"]
    if not messages:
        raise ContentMissing("the reply")
    return next(_joined(messages))


def _message_of(item: Any) -> Message:
    item = loaded(item)
    if isinstance(item, Sequence) and len(item) == 2 and item[0] in ROLE_ALIASES:
        return Message(ROLE_ALIASES[item[0]], str(item[1]))
    if not isinstance(item, Mapping):
        raise ContentMissing("a message")
    if item.get("lc") == 1:
        name = _LANGCHAIN.match(str([*item.get("id", ()), ""][-2]))
        kwargs = dict(item["kwargs"])
        return _message_of({"type": name[1].lower() if name else "", **kwargs})
    if isinstance(item.get("message"), Mapping):
        return _message_of(item["message"])  # A choice, or one of LangChain's generations.
    return _of_item(item) or _of_role(item)


def _of_item(item: Mapping[str, Any]) -> Message | None:
    """Return the message of an item of OpenAI's Responses that has no role; None for others."""
    match item.get("type"):
        case "function_call":
            call = _call(item.get("call_id"), item.get("name"), loaded(item.get("arguments")))
            return Message("assistant", calls=(call,), data=_ITEM)
        case "function_call_output":
            return _result(str(item.get("call_id", "")), item.get("output"))
        case "reasoning":
            return Message("assistant")
    return None


def _of_role(item: Mapping[str, Any]) -> Message:
    kind = str(item.get("role") or item.get("type") or "none")
    role = ROLE_ALIASES.get(kind, "")
    if not role:
        raise ContentMissing(f"the role of a message ({kind})")
    if role == "tool":
        return _tool_message(item)
    if "parts" in item:
        return _of_parts(role, item["parts"])
    content = item.get("content")
    form = content.get("type") if isinstance(content, Mapping) else "text"
    if form not in _TEXTS or not isinstance(content, str | list | Mapping | None):
        raise ContentMissing("the text of a message")
    text = content if isinstance(content, str) else _text_of(content)
    calls = tuple(_calls(item.get("tool_calls") or item.get("toolCalls") or ()))
    return Message(role, text, calls=calls)


def _tool_message(item: Mapping[str, Any]) -> Message:
    for part in item.get("parts") or ():
        return _result(str(part.get("id", "")), part.get("response", part.get("result")))
    call_id = item.get("tool_call_id") or item.get("id") or ""
    return _result(str(call_id), item.get("content"), str(item.get("name") or ""))


def _result(call_id: str, result: Any, tool: str = "") -> Message:
    text = result if isinstance(result, str) else _text_of(result)
    return Message("tool", text, call_id=call_id, tool=tool)


def _of_parts(role: str, parts: Any) -> Message:
    """Return a message of GenAI conventions."""
    texts, calls = list[str](), list[ToolCall]()
    for part in parts:
        kind = part.get("type")
        if kind in _TEXTS:
            if part.get("content") is None and part.get("text") is None:
                raise ContentMissing("the text of a message")
            text = str(part.get("content", part.get("text")))
            shown_calls = _of_repr(text) if role == "assistant" else None
            calls += shown_calls or ()
            texts += [text] if shown_calls is None else []
        elif kind == "tool_call":
            if part.get("arguments") is None:
                raise ContentMissing(f"the arguments of a call of {part.get('name')!r}")
            calls.append(_call(part.get("id"), part.get("name"), loaded(part["arguments"])))
        elif kind not in ("reasoning", "thinking"):
            raise ContentMissing(f"a part of a message ({kind})")
    return Message(role, "".join(texts), calls=tuple(calls))


def _of_repr(text: str) -> tuple[ToolCall, ...] | None:
    """Return the calls in objects that were written as Python shows them; None for a text."""
    if not _REPR.fullmatch(text):
        return None
    try:
        tree = ast.parse(text, mode="eval").body
        assert isinstance(tree, ast.Call)
        fields = {k.arg: ast.literal_eval(k.value) for k in tree.keywords if k.arg}
        assert fields["type"] == "function_call"
    except (SyntaxError, ValueError, AssertionError, KeyError):
        raise ContentMissing("it was written as Python shows its objects") from None
    return _message_of(fields).calls


_ATTACHED: Final = frozenset(
    ("image_url", "input_image", "image", "input_audio", "file", "input_file")
)
"""Kinds of parts that are no text."""


def _text_of(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, Mapping) and content.get("type") in _TEXTS:
        content = [content]
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    kinds = {str(part.get("type")) for part in content if isinstance(part, Mapping)}
    if kinds & _ATTACHED:
        raise ContentMissing(f"a part of a message that is no text ({', '.join(sorted(kinds))})")
    texts = [_part_text(part) for part in content]
    if None in texts:
        return json.dumps(content, ensure_ascii=False)
    return "\n".join(text for text in texts if text)


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type", "text" if "text" in part else None)
    if kind in _TEXTS:
        return str(part.get("text", part.get("refusal", "")))
    return "" if kind in ("reasoning", "tool_use", "function_call") else None


def _calls(calls: Any) -> Iterator[ToolCall]:
    for call in calls:
        inner = call.get("function") if isinstance(call.get("function"), Mapping) else call
        args = inner.get("arguments", inner.get("args", call.get("arguments")))
        if args is None:
            raise ContentMissing(f"the arguments of a call of {inner.get('name')!r}")
        yield _call(call.get("id"), inner.get("name"), loaded(args))


def _call(identity: Any, name: Any, args: JsonValue) -> ToolCall:
    if not name or not isinstance(name, str):
        raise ContentMissing("the name of a called tool")
    return ToolCall(str(identity or ""), name, args)


def _joined(messages: Iterable[Message]) -> Iterator[Message]:
    """Join what one reply said: OpenAI's Responses have its text and its calls as items."""
    last: Message | None = None
    for message in messages:
        # No protocol has calls before the results of earlier ones: those are items of one reply.
        is_more = last is not None and last.calls and message.calls and not message.content
        if last is not None and last.role == "assistant" and (message.data == _ITEM or is_more):
            last = Message("assistant", last.content, calls=(*last.calls, *message.calls))
            continue
        if message.data is not None:
            message = Message("assistant", calls=message.calls)
        if last is not None and (last.content or last.calls or last.role != "assistant"):
            yield last
        last = message
    if last is not None:
        yield last


def _named(messages: Iterable[Message]) -> Iterator[Message]:
    """Give results the names of their tools, by the calls before them."""
    tools: dict[str, str] = {}
    for message in messages:
        tools |= {call.id: call.name for call in message.calls}
        if message.role == "tool":
            tool = message.tool or tools.get(message.call_id, "")
            message = Message("tool", message.content, call_id=message.call_id, tool=tool)
        yield message


def offers_in(definitions: Any) -> tuple[Offer, ...]:
    """Return the tools that a request offered; raise ContentMissing for what is no tool."""
    return tuple(map(_offer_of, definitions or ()))


def _offer_of(item: Any) -> Offer:
    item = loaded(item)
    whole = loaded(item.get("json_schema") or item.get("tool.json_schema") or item)
    inner = whole.get("function", whole)
    if "name" not in inner:  # The schema of its parameters alone.
        inner = {**item, "parameters": whole}
    schema = inner.get("parameters", inner.get("input_schema"))
    if not isinstance(schema, Mapping | None):
        raise ContentMissing("the parameters of a tool")
    return Offer(text_of(inner["name"]), schema, text_of(inner.get("description") or ""))


def unflattened(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Return the list that OpenInference writes as attributes ``PREFIX.0.message.role``."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{prefix}."):
            parent = root
            *above, last = key.removeprefix(f"{prefix}.").split(".")
            for part in above:
                inner = parent.setdefault(part, {})
                if not isinstance(inner, dict):
                    break
                parent = inner
            parent[last] = value
    listed = _listed(root)
    return listed if isinstance(listed, list) else []


_AROUND: Final = ("message", "message_content", "tool_call")
"""Keys that OpenInference writes around the parts of a list."""


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        if {*map(int, value)} != {*range(len(value))}:
            raise ContentMissing("an entry of a list")
        return [_listed(value[key]) for key in sorted(value, key=int)]
    if len(value) == 1 and (around := next(iter(value))) in _AROUND:
        inner = _listed(value[around])
        return inner if around != "tool_call" else {"arguments": "{}", **inner}
    parts = {key: _listed(inner) for key, inner in value.items()}
    if "contents" in parts:
        parts.setdefault("content", parts["contents"])
    return parts

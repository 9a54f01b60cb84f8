"""Content blocks of Anthropic's messages, in requests and in responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from simkit.core.errors import WireInvalid
from simkit.core.messages import Citation, JsonValue, Message, Thinking, ToolCall, spans_of
from simkit.providers import attachments as extra
from simkit.providers.attachments import encoded, queries, signature_of
from simkit.providers.body_reader import Record, json_text, maybe, need, records, under
from simkit.providers.values import OutgoingReply

THINKING: Final = ("thinking", "redacted_thinking")
_ITEMS: Final = ("_tool_use", "_tool_result", "compaction")
"""Endings of the kinds that the provider itself makes: calls and results of its tools,
summaries."""
_ATTACHED: Final = ("image", "document", "search_result")

Placed: TypeAlias = tuple[Record, str]
"""A block and its path."""


def blocks_of(record: Record, at: str, key: str = "content") -> list[Placed]:
    """Return the blocks of a content; a text is one text block, a missing content has none."""
    content = record.get(key)
    if isinstance(content, str):
        return [({"type": "text", "text": content}, under(at, key))]
    return records(record, key, at)


def text_of(blocks: list[Placed], extras: extra.Extras) -> str:
    """Return the texts, and a placeholder for each other block, one a line."""
    return "\n".join(_text_of_block(block, at, extras) for block, at in blocks)


def result_of(block: Record, at: str, tools: dict[str, str]) -> Message:
    """Read a tool's result; ``tools`` are the names by call id."""
    call = need(block, "tool_use_id", str, at)
    extras = extra.Extras()
    text = text_of(blocks_of(block, at), extras)
    if maybe(block, "is_error", False, at):
        extras[extra.IS_ERROR] = True
    data = extra.data_of(text, extras)
    return Message("tool", text, call_id=call, tool=tools.get(call, ""), data=data)


def assistant_of(blocks: list[Placed]) -> Message:
    """Parse an assistant's message.

    Its text blocks are joined, since citations may have split one text.
    """
    texts, calls, extras = list[str](), list[ToolCall](), extra.Extras()
    for block, at in blocks:
        kind = need(block, "type", str, at)
        if kind == "tool_use":
            calls.append(_call(block, at))
        elif kind in THINKING:
            extra.added(extras, extra.REASONING, block)
        elif kind.endswith(_ITEMS):
            extra.added(extras, extra.ITEMS, block)
        else:
            texts.append(_text_of_block(block, at, extras))
    text = "".join(texts)
    return Message("assistant", text, calls=tuple(calls), data=extra.data_of(text, extras))


def _call(block: Record, at: str) -> ToolCall:
    """Parse a call; arguments that are no JSON stay a text."""
    args = block.get("input")
    if not isinstance(args, str):
        args = need(block, "input", dict, at)
    return ToolCall(need(block, "id", str, at), need(block, "name", str, at), args)


def _text_of_block(block: Record, at: str, extras: extra.Extras) -> str:
    """Return a block as text; a block of an unknown kind is kept as JSON."""
    kind = need(block, "type", str, at)
    if kind == "text":
        return need(block, "text", str, at)
    part = _reference(kind, block, at) if kind in _ATTACHED else dict(block)
    extra.added(extras, extra.PARTS, part)
    return extra.placeholder(part)


def _reference(kind: str, block: Record, at: str) -> extra.Extras:
    """Return an attachment without its bytes; a text in it stays, because the model reads it."""
    name = maybe(block, "title", "", at)
    source = block.get("source")
    if isinstance(source, str):
        return {**extra.linked(kind, source, name=name), "text": text_of(blocks_of(block, at), {})}
    record, place = need(block, "source", dict, at), under(at, "source")
    media_type = maybe(record, "media_type", "", place)
    match need(record, "type", str, place):
        case "base64":
            return extra.inline(kind, need(record, "data", str, place), media_type, name)
        case "url":
            return extra.linked(kind, need(record, "url", str, place), media_type, name)
        case "file":
            return extra.linked(kind, need(record, "file_id", str, place), media_type, name)
        case "text":
            text = need(record, "data", str, place)
        case _:
            text = text_of(blocks_of(record, place), {})
    return {"type": kind, "text": text, **({"name": name} if name else {})}


def blocks_said(message: Message, reply: OutgoingReply | None = None) -> list[dict[str, JsonValue]]:
    """Return a message as blocks, in the order in which the provider sends them.

    ``reply`` gives the extras of a scripted reply.
    """
    reasoning = extra.parts_in(message, extra.REASONING)
    thinking_blocks = [dict(block) for block in reasoning if block.get("type") in THINKING]
    if reply is not None and reply.extras.thinking is not None:
        thinking_blocks.append(_thought(reply.extras.thinking, reply.serial))
    thinking_blocks += [dict(block) for block in extra.parts_in(message, extra.ITEMS)]
    citations = () if reply is None else reply.extras.citations
    if reply is not None and reply.extras.logprobs:
        raise WireInvalid("Anthropic's messages have no probabilities", "logprobs")
    if citations and reply is not None:
        thinking_blocks += [
            *_searches(citations, reply.serial),
            *_cited(message.content, citations),
        ]
    elif message.content:
        thinking_blocks.append({"type": "text", "text": message.content})
    for call in message.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}
        thinking_blocks.append(block)
    return thinking_blocks


def _thought(thinking: Thinking, serial: str) -> dict[str, JsonValue]:
    signature = signature_of(thinking, serial)
    if thinking.text is None:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": thinking.text, "signature": signature}


def _searches(citations: tuple[Citation, ...], serial: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the provider's own search, and its results."""
    for number, (query, pages) in enumerate(queries(citations).items()):
        call = f"srvtoolu_{serial}_{number}"
        sought = {"id": call, "name": "web_search", "input": {"query": query}}
        yield {"type": "server_tool_use", **sought}
        blocks = [
            {
                "type": "web_search_result",
                "url": page.url,
                "title": page.title,
                "encrypted_content": encoded(page.url),
                "page_age": None,
            }
            for page in pages
        ]
        yield {"type": "web_search_tool_result", "tool_use_id": call, "content": blocks}


def _cited(text: str, citations: tuple[Citation, ...]) -> Iterator[dict[str, JsonValue]]:
    """Yield the text in blocks, split where citations begin and end."""
    done = 0
    for start, end, found_citations in spans_of(text, citations):
        if start > done:
            yield {"type": "text", "text": text[done:start]}
        cited = [
            {
                "type": "web_search_result_location",
                "url": citation.url,
                "title": citation.title,
                "encrypted_index": encoded(citation.url),
                "cited_text": citation.quote,
            }
            for citation in found_citations
        ]
        yield {"type": "text", "text": text[start:end], "citations": cited}
        done = end
    if done < len(text):
        yield {"type": "text", "text": text[done:]}


def input_text(block: Record) -> str:
    """Return a call's arguments as a stream sends them: JSON, or a text in place of JSON."""
    args = block.get("input")
    return args if isinstance(args, str) else json_text(args)

"""Extras of a reply line, rendered in the provider's protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from simkit.adapters.history_reader import MessageSizes
from simkit.adapters.response_parsing import ModelCall
from simkit.core.errors import ScriptBroken, ScriptMisfit, WireInvalid, WordUnasked
from simkit.core.messages import Answer, JsonValue, Message, Usage
from simkit.language.yaml import SourcePath, path_text
from simkit.providers.http import HttpResponse
from simkit.providers.values import OutgoingReply
from simkit.runtime.context.tokens import Counter, tokens_of

_NOTHING: Final = Usage()
_WORD: Final = re.compile(r"\w+")
_WORDS: Final = ("thinking", "logprobs", "citations", "usage")


def counted_usage(
    answer: Answer,
    message: Message,
    history: Sequence[Message],
    sizes: MessageSizes,
    count: Counter,
) -> Usage:
    """Return a provider's token counts: the line's, or else simkit's.

    Cached tokens are part of the input and thinking is part of the output, so that neither side is
    less than its part.
    """
    usage, thinking = answer.usage or _NOTHING, answer.extras.thinking
    thought = usage.reasoning_tokens
    if thought is None and thinking is not None:
        thought = count(thinking.text or "")
    input_tokens, output_tokens = usage.input_tokens, usage.output_tokens
    if input_tokens is None:
        cached = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
        input_tokens = max(sizes.total(history), cached)
    if output_tokens is None:
        output_tokens = tokens_of(message, count) + (thought or 0)
    thought = thought and min(thought, output_tokens)
    return Usage(
        input_tokens, output_tokens, usage.cached_tokens, usage.cache_write_tokens, thought
    )


def reported(answer: Answer, usage: Usage) -> Usage | None:
    """Return the token counts for a trace: those of a line that gives any, or that thinks."""
    return answer.usage and msgspec.structs.replace(
        answer.usage, reasoning_tokens=usage.reasoning_tokens
    )


def served_beside(
    reply: OutgoingReply, call: ModelCall, at: SourcePath
) -> tuple[HttpResponse, JsonValue]:
    """Return a reply in its provider's protocol, and its extras.

    Raise ScriptBroken at the key that the provider does not send, ScriptMisfit if this request does
    not ask for it.
    """
    try:
        served = call.protocol.served(reply, call.model_request)
        if reply.extras.is_nothing:
            return served, reply.message.data
        message = call.protocol.parse_response(served, call.model_request).message
    except WordUnasked as problem:
        raise ScriptMisfit(*_problem_text(problem, call, at)) from problem
    except WireInvalid as problem:
        raise ScriptBroken(*_problem_text(problem, call, at)) from problem
    except (AttributeError, KeyError, TypeError) as problem:
        if reply.extras.raw is None:
            raise
        odd = WireInvalid(f"the response would not be one: {problem!r}", "raw")
        raise ScriptBroken(*_problem_text(odd, call, at)) from problem
    if reply.extras.raw is not None:
        _check_raw(reply, call, at, message)
    return served, message.data if message.data is not None else reply.message.data


def _problem_text(problem: WireInvalid, call: ModelCall, at: SourcePath) -> tuple[str, SourcePath]:
    """Return why a key cannot be served, and its place."""
    word = _WORD.match(problem.field)
    where = (*at, word[0] if word and word[0] in _WORDS else "raw")
    label = f"{path_text(where)} cannot be served to {call.run.agent!r} over {call.protocol.name}"
    return f"{label}: {problem}.", where


def _check_raw(reply: OutgoingReply, call: ModelCall, at: SourcePath, message: Message) -> None:
    """Reject a ``raw`` that changes parts that the line's other keys set."""
    plain = msgspec.structs.replace(reply, extras=msgspec.structs.replace(reply.extras, raw=None))
    before = call.protocol.parse_response(
        call.protocol.served(plain, call.model_request), call.model_request
    ).message
    for field, is_same in (
        ("text", message.content == before.content),
        ("calls", message.calls == before.calls),
    ):
        if not is_same:
            raise ScriptBroken(
                f"{path_text((*at, 'raw'))} changes the reply's {field} in the words of "
                f"{call.protocol.name}. Write `{field}:`; `raw` is for what has no word.",
                (*at, "raw"),
            )

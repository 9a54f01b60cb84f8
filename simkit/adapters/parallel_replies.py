"""What a reply line says beside text and calls, put into the words of the provider asked."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from simkit.adapters.response_parsing import Call
from simkit.core.errors import ScriptBroken, ScriptMisfit, WireInvalid, WordUnasked
from simkit.core.messages import Answer, JsonValue, Message, Usage
from simkit.language.yaml import SourcePath, path_text
from simkit.providers.http import HttpResponse
from simkit.providers.values import Asked, Said
from simkit.runtime.context.tokens import Counter, tokens_of

_NOTHING: Final = Usage()
_WORD: Final = re.compile(r"\w+")
_WORDS: Final = ("thinking", "logprobs", "citations", "usage")


def counted_usage(answer: Answer, message: Message, asked: Asked, count: Counter) -> Usage:
    """Returns what a provider counts: as the line says, else as simkit does.

    What was cached is part of what was sent, and what was thought of what was made, so neither
    side is less than its part.
    """
    said, thinking = answer.usage or _NOTHING, answer.beside.thinking
    thought = said.reasoning_tokens
    if thought is None and thinking is not None:
        thought = count(thinking.text or "")
    sent, made = said.input_tokens, said.output_tokens
    if sent is None:
        cached = (said.cached_tokens or 0) + (said.cache_write_tokens or 0)
        sent = max(sum(tokens_of(one, count) for one in asked.messages), cached)
    if made is None:
        made = tokens_of(message, count) + (thought or 0)
    thought = thought and min(thought, made)
    return Usage(sent, made, said.cached_tokens, said.cache_write_tokens, thought)


def reported(answer: Answer, usage: Usage) -> Usage | None:
    """Returns the tokens that a trace tells: those of a line that says any, or that thinks."""
    return answer.usage and msgspec.structs.replace(
        answer.usage, reasoning_tokens=usage.reasoning_tokens
    )


def served_beside(said: Said, call: Call, at: SourcePath) -> tuple[HttpResponse, JsonValue]:
    """Returns a reply in its provider's words, and what of it is more than text and calls.

    Raises ScriptBroken at the word that the provider does not send, ScriptMisfit where this
    request does not ask for it.
    """
    try:
        served = call.protocol.served(said, call.asked)
        if said.beside.is_nothing:
            return served, said.message.data
        heard = call.protocol.heard(served, call.asked).message
    except WordUnasked as problem:
        raise ScriptMisfit(*_told(problem, call, at)) from problem
    except WireInvalid as problem:
        raise ScriptBroken(*_told(problem, call, at)) from problem
    except (AttributeError, KeyError, TypeError) as problem:
        if said.beside.raw is None:
            raise
        odd = WireInvalid(f"the response would not be one: {problem!r}", "raw")
        raise ScriptBroken(*_told(odd, call, at)) from problem
    if said.beside.raw is not None:
        _check_raw(said, call, at, heard)
    return served, heard.data if heard.data is not None else said.message.data


def _told(problem: WireInvalid, call: Call, at: SourcePath) -> tuple[str, SourcePath]:
    """Returns why a word cannot be served, and its place."""
    word = _WORD.match(problem.field)
    where = (*at, word[0] if word and word[0] in _WORDS else "raw")
    what = f"{path_text(where)} cannot be served to {call.run.agent!r} over {call.protocol.name}"
    return f"{what}: {problem}.", where


def _check_raw(said: Said, call: Call, at: SourcePath, heard: Message) -> None:
    """Refuses a ``raw`` that changes what the line says in words of its own."""
    plain = msgspec.structs.replace(said, beside=msgspec.structs.replace(said.beside, raw=None))
    before = call.protocol.heard(call.protocol.served(plain, call.asked), call.asked).message
    for what, is_same in (
        ("text", heard.content == before.content),
        ("calls", heard.calls == before.calls),
    ):
        if not is_same:
            raise ScriptBroken(
                f"{path_text((*at, 'raw'))} changes the reply's {what} in the words of "
                f"{call.protocol.name}. Write `{what}:`; `raw` is for what has no word.",
                (*at, "raw"),
            )

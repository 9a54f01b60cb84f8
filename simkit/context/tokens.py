"""Token counters: a pure function of a text, named in the pipeline and in the trace."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from simkit.errors import Unsupported
from simkit.messages import Message

Counter = Callable[[str], int]

_BPE: Final = ("o200k_base", "cl100k_base")
"""OpenAI's vocabularies, counted exactly by the package bpe-openai."""


def chars_over_four(text: str) -> int:
    """Counts a token for every four characters begun."""
    return (len(text) + 3) >> 2


def counter_named(name: str) -> Counter:
    """Returns the counter; raises Unsupported if it is unknown or its extra is not installed."""
    if name == "chars/4":
        return chars_over_four
    if name not in _BPE:
        known = ", ".join(("chars/4", *_BPE))
        raise Unsupported(f"unknown token counter `{name}`. Known: {known}.")
    try:
        vocabulary = getattr(importlib.import_module("bpe_openai"), name)()
    except ImportError:
        raise Unsupported(
            f"token counter `{name}` needs the extra `tokens`: pip install 'agent-simkit[tokens]'"
        ) from None
    count: Counter = vocabulary.count
    return count


_encode = msgspec.json.Encoder().encode


def texts_of(message: Message) -> Iterator[str]:
    """Yields every text of a message that costs tokens: content, call names and arguments."""
    yield message.content
    for call in message.calls:
        yield call.name
        yield _encode(call.args).decode()


def tokens_of(message: Message, count: Counter) -> int:
    """Returns a message's size in tokens."""
    if not message.calls:
        return count(message.content)
    return sum(count(text) for text in texts_of(message))

"""Token counters: a pure function of a text, named in the pipeline and in the trace."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from simkit.core.errors import Unsupported
from simkit.core.messages import Message
from simkit.core.requirements import install_command
from simkit.spec.pipeline.model import BUILT_IN_COUNTER

Counter = Callable[[str], int]

_BPE: Final = ("o200k_base", "cl100k_base")
"""OpenAI's vocabularies, counted exactly by the package bpe-openai."""
_LENGTH_MAX: Final = 1_000_000
"""The length in characters that bpe-openai refuses."""


def chars_over_four(text: str) -> int:
    """Return one token for every four characters or part of it."""
    return (len(text) + 3) >> 2


def counter_named(name: str) -> Counter:
    """Return the counter; raise Unsupported for an unknown one, or a missing extra."""
    if name == BUILT_IN_COUNTER:
        return chars_over_four
    if name not in _BPE:
        known = ", ".join((BUILT_IN_COUNTER, *_BPE))
        raise Unsupported(f"unknown token counter `{name}`. Known: {known}.")
    return _exact(name)


@lru_cache(maxsize=len(_BPE))
def _exact(name: str) -> Counter:
    """Load a vocabulary, once: it takes a tenth of a second."""
    try:
        package = importlib.import_module("bpe_openai")
    except ImportError:
        raise Unsupported(
            f"token counter `{name}` needs its vocabulary: {install_command('tokens')}"
        ) from None
    with warnings.catch_warnings():
        # It reads its data with a function that Python 3.11 and 3.12 call deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        tokens_in: Callable[[str], list[int]] = package.get_encoding(name).encode_ordinary

    def count(text: str) -> int:
        if len(text) >= _LENGTH_MAX:
            raise Unsupported(
                f"token counter `{name}` counts texts of less than {_LENGTH_MAX:,} characters, "
                f"this one has {len(text):,}. Count with `{BUILT_IN_COUNTER}`."
            )
        # Words such as `<|endoftext|>` in a message are text, as a provider reads them.
        return len(tokens_in(text))

    return count


_encode = msgspec.json.Encoder().encode


def tokens_of(message: Message, count: Counter) -> int:
    """Return a message's size in tokens: its content, and the names and arguments of its calls."""
    tokens = count(message.content) if message.content else 0
    for call in message.calls:
        tokens += count(_encode(call.args).decode())
        tokens += _tokens_of_name(call.name, count)
    return tokens


@lru_cache(maxsize=1024)
def _tokens_of_name(name: str, count: Counter) -> int:
    """Return the tokens of a tool's name; a pipeline has few of them."""
    return count(name)

"""A desk that asks a model, written well and badly: what it does where the provider fails.

Each function is one desk; those whose names begin with `careless` take one kind of failure wrongly.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anthropic
import openai

SYSTEM = "You help."
MODEL = "gpt-5-mini"


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def openai_sync(text: str) -> str:
    """Leaves everything to OpenAI's client."""
    completion = openai.OpenAI().chat.completions.create(model=MODEL, messages=_messages(text))
    return completion.choices[0].message.content or ""


async def openai_async(text: str) -> str:
    """The same, asynchronous."""
    completion = await openai.AsyncOpenAI().chat.completions.create(
        model=MODEL, messages=_messages(text)
    )
    return completion.choices[0].message.content or ""


def anthropic_sync(text: str) -> str:
    """Leaves everything to Anthropic's client."""
    message = anthropic.Anthropic().messages.create(
        model="claude-sonnet-5", max_tokens=100, system=SYSTEM,
        messages=[{"role": "user", "content": text}],
    )  # fmt: skip
    return "".join(block.text for block in message.content if block.type == "text")


async def anthropic_async(text: str) -> str:
    """The same, asynchronous."""
    message = await anthropic.AsyncAnthropic().messages.create(
        model="claude-sonnet-5", max_tokens=100, system=SYSTEM,
        messages=[{"role": "user", "content": text}],
    )  # fmt: skip
    return "".join(block.text for block in message.content if block.type == "text")


def _ask(text: str, model: str = MODEL) -> str:
    client = openai.OpenAI(max_retries=0)
    completion = client.chat.completions.create(model=model, messages=_messages(text))
    return completion.choices[0].message.content or ""


def _persistently(text: str, attempts: int, wait_s: float) -> str:
    for attempt in range(attempts):
        try:
            return _ask(text)
        except openai.OpenAIError:
            if attempt == attempts - 1:
                return "The desk is closed."
            time.sleep(wait_s)
    return ""


def careless_retries(text: str) -> str:
    """Tries everything three times, a second apart, whatever the provider says."""
    return _persistently(text, 3, 1.0)


def careless_storm(text: str) -> str:
    """Tries seven times."""
    return _persistently(text, 7, 0.1)


async def careless_haste(text: str) -> str:
    """Tries again at once, asynchronously."""
    client = openai.AsyncOpenAI(max_retries=0)
    for _ in range(2):
        try:
            completion = await client.chat.completions.create(model=MODEL, messages=_messages(text))
        except openai.OpenAIError:
            await asyncio.sleep(0.5)
        else:
            return completion.choices[0].message.content or ""
    return "The desk is closed."


def falls_back(text: str) -> str:
    """Asks another model where the first is refused."""
    try:
        return _ask(text)
    except openai.APIStatusError:
        return _ask(text, "gpt-5")


def gives_up(text: str) -> str:
    """Says so where the provider fails."""
    try:
        return _ask(text)
    except openai.OpenAIError:
        return "The desk is closed."


def _streamed(text: str, history: list[Any] | None = None) -> tuple[str, str | None]:
    """Returns what came of a stream, and its reason to finish."""
    reply, finish = "", None
    messages: Any = history or _messages(text)
    try:
        for chunk in openai.OpenAI(max_retries=0).chat.completions.create(
            model=MODEL, messages=messages, stream=True
        ):
            for choice in chunk.choices:
                reply += choice.delta.content or ""
                finish = choice.finish_reason or finish
    except Exception:
        return reply, None
    return reply, finish


def careless_stream(text: str) -> str:
    """Takes for the reply whatever has come."""
    return _streamed(text)[0]


def careful_stream(text: str) -> str:
    """Says where the reply is not whole."""
    reply, finish = _streamed(text)
    return reply if finish is not None else f"{reply} … (the connection was lost)"


def careless_memory() -> Any:
    """A desk that answers well, and remembers what had come all the same."""
    history: list[Any] = [{"role": "system", "content": SYSTEM}]

    def ask(text: str) -> str:
        history.append({"role": "user", "content": text})
        reply, finish = _streamed(text, history)
        history.append({"role": "assistant", "content": reply})
        return reply if finish is not None else "Please ask again."

    return ask


def goes_on(text: str) -> str:
    """Lets the model go on from where it broke off."""
    reply, finish = _streamed(text)
    if finish is None:
        items = [*_messages(text), {"role": "assistant", "content": reply}]
        rest, _ = _streamed(text, items)
        reply = f"{reply}{rest}"
    return reply

"""A desk that keeps its traveller's words, asked from a thread pool, a loop, or by clients of any
kind: many of them at once must not hear each other."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import httpx2
from openai import AsyncOpenAI, OpenAI

import simkit

built_before = OpenAI()
own_transport = OpenAI(http_client=httpx2.Client(verify=False))
async_client = AsyncOpenAI()
pool = concurrent.futures.ThreadPoolExecutor(4)


def note(text: str) -> str:
    """Notes something down."""
    raise ConnectionError("there is no paper here")


def _ask(client: OpenAI, system: str, text: str) -> str:
    messages: Any = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    completion = client.chat.completions.create(model="gpt-5-mini", messages=messages)
    return completion.choices[0].message.content or ""


class Desk:
    """One traveller's conversation: two agents, one after the other."""

    client = built_before

    def __init__(self) -> None:
        self.history: list[str] = []

    def ask(self, text: str) -> str:
        """Answers the traveller."""
        with simkit.agent("listener"):
            response = _ask(self.client, "Listen.", " / ".join([*self.history, text]))
        simkit.state(noted=note(response))
        with simkit.agent("answerer"):
            reply = _ask(self.client, "Answer.", response)
        self.history += [text, reply]
        return reply


class OwnTransport(Desk):
    """The same with a client whose transport is the user's own."""

    client = own_transport


class Asynchronous(Desk):
    """The same on the event loop, with waiting between."""

    async def ask(self, text: str) -> str:  # type: ignore[override]
        """Answers the traveller."""
        async with simkit.agent("listener"):
            response = await self._ask("Listen.", " / ".join([*self.history, text]))
        await asyncio.sleep(0.01)
        simkit.state(noted=note(response))
        async with simkit.agent("answerer"):
            reply = await self._ask("Answer.", response)
        self.history += [text, reply]
        return reply

    async def _ask(self, system: str, text: str) -> str:
        messages: Any = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        completion = await async_client.chat.completions.create(
            model="gpt-5-mini", messages=messages
        )
        return completion.choices[0].message.content or ""


class Pooled(Desk):
    """The same on a thread pool that all share, and that is older than any of them."""

    def ask(self, text: str) -> str:
        """Answers the traveller."""
        with simkit.agent("listener"):
            words = " / ".join([*self.history, text])
            value = pool.submit(_ask, self.client, "Listen.", words).result()
        simkit.state(noted=pool.submit(note, value).result())
        with simkit.agent("answerer"):
            reply = pool.submit(_ask, self.client, "Answer.", value).result()
        self.history += [text, reply]
        return reply


def swallows(text: str) -> str:
    """Takes every exception for an outage."""
    try:
        return _ask(built_before, "Answer.", text)
    except Exception:
        return "Sorry, try again later."


def swallows_all(text: str) -> str:
    """Takes everything for an outage."""
    try:
        return _ask(built_before, "Answer.", text)
    except BaseException:
        return "Sorry, try again later."


def forgets(text: str) -> str:
    """Never looks at what became of it."""
    concurrent.futures.wait([pool.submit(_ask, built_before, "Answer.", text)])
    return "It is on its way."


async def gathers(text: str) -> str:
    """Takes errors as results."""
    messages: Any = [{"role": "system", "content": "Answer."}, {"role": "user", "content": text}]
    request = async_client.chat.completions.create(model="gpt-5-mini", messages=messages)
    results = await asyncio.gather(request, return_exceptions=True)
    return f"{len(results)} results"


def raises_in_a_thread(text: str) -> str:
    """Fails in another thread, and says so."""

    def work() -> str:
        raise LookupError(text)

    return pool.submit(work).result()

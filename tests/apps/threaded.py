"""Desks that ask several models at once, in every way that Python has for that."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.pool import ThreadPool
from typing import Any

from openai import OpenAI

import simkit

NAMES = ("ann", "ben", "cy", "dot")
client = OpenAI(api_key="simkit", max_retries=0)
pool_of_all = ThreadPoolExecutor(2)


def ask(text: str) -> str:
    """Asks the model a question."""
    completion = client.chat.completions.create(
        model="gpt-5-mini",
        messages=[{"role": "system", "content": "You answer."}, {"role": "user", "content": text}],
    )
    return completion.choices[0].message.content or ""


def summed(answers: list[str]) -> str:
    """Asks for a summary of answers in the order in which they came."""
    return ask("Sum up: " + ", ".join(answers))


def looked_up(name: str) -> str:
    """Is a tool that a scenario stands in for."""
    raise ConnectionError


# One way each


def executor(text: str) -> str:
    with ThreadPoolExecutor(len(NAMES)) as pool:
        done = [pool.submit(ask, f"{text} {name}") for name in NAMES]
        return summed([item.result() for item in as_completed(done)])


def few_workers(text: str) -> str:
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(ask, f"{text} {name}") for name in NAMES]
        return summed([item.result() for item in as_completed(done)])


def mapped(text: str) -> str:
    with ThreadPoolExecutor(3) as pool:
        return summed(list(pool.map(ask, [f"{text} {name}" for name in NAMES])))


def shared_pool(text: str) -> str:
    done = [pool_of_all.submit(ask, f"{text} {name}") for name in NAMES]
    return summed([item.result() for item in as_completed(done)])


def _in_threads(work: Callable[[str], Any], **options: Any) -> None:
    threads = [threading.Thread(target=work, args=(name,), **options) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def threads(text: str) -> str:
    texts: list[str] = []
    _in_threads(lambda name: texts.append(ask(f"{text} {name}")))
    return summed(texts)


def twice(text: str) -> str:
    texts: list[str] = []

    def work(name: str) -> None:
        texts.append(ask(f"{text} {name}"))
        texts.append(ask(f"{text} again {name}"))

    _in_threads(work)
    return summed(texts)


def marked(text: str) -> str:
    texts: list[str] = []

    def work(name: str) -> None:
        with simkit.agent(name):
            simkit.state(**{name: text})
            texts.append(ask(f"{text} {name}"))

    _in_threads(work)
    return summed(texts)


def tools(text: str) -> str:
    texts: list[str] = []
    _in_threads(lambda name: texts.append(looked_up(name)))
    return summed(texts)


def locked(text: str) -> str:
    texts: list[str] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        with lock:
            texts.append(ask(f"{text} {name}"))

    _in_threads(work)
    return summed(texts)


def gathered(text: str) -> str:
    async def all_at_once() -> list[str]:
        texts: list[str] = []

        async def ask_in_thread(name: str) -> None:
            texts.append(await asyncio.to_thread(ask, f"{text} {name}"))

        await asyncio.gather(*map(ask_in_thread, NAMES))
        return texts

    return summed(asyncio.run(all_at_once()))


async def in_executor(text: str) -> str:
    loop, result = asyncio.get_running_loop(), list[str]()
    with ThreadPoolExecutor(3) as pool:
        waiting = [loop.run_in_executor(pool, ask, f"{text} {name}") for name in NAMES]
        for item in asyncio.as_completed(waiting):
            result.append(await item)
    return await asyncio.to_thread(summed, result)


def thread_pool(text: str) -> str:
    with ThreadPool(3) as pool:
        return summed(list(pool.imap_unordered(ask, [f"{text} {name}" for name in NAMES])))


def nested(text: str) -> str:
    def work(name: str) -> list[str]:
        with ThreadPoolExecutor(2) as inner:
            done = [inner.submit(ask, f"{text} {name} {part}") for part in "xy"]
            return [item.result() for item in as_completed(done)]

    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(work, name) for name in NAMES[:2]]
        return summed([part for item in as_completed(done) for part in item.result()])


def queued(text: str) -> str:
    work: queue.Queue[str | None] = queue.Queue()
    channel: queue.SimpleQueue[str] = queue.SimpleQueue()

    def consume() -> None:
        while (name := work.get()) is not None:
            channel.put(ask(f"{text} {name}"))

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    for name in (*NAMES, None, None):
        work.put(name)
    answers = [channel.get() for _ in NAMES]
    for consumer in consumers:
        consumer.join()
    return summed(answers)


def sleeping(text: str) -> str:
    texts: list[str] = []

    def work(name: str) -> None:
        time.sleep(60 * (len(NAMES) - NAMES.index(name)))
        texts.append(ask(f"{text} {name}"))

    _in_threads(work)
    return summed(texts)


def napping(text: str) -> str:
    """Workers of a pool sleep, the first one longest, before they ask."""

    def nap(name: str) -> str:
        time.sleep(60 * (4 - NAMES.index(name)))
        return ask(f"Hello {name}")

    with ThreadPoolExecutor(4) as pool:
        return summed([*pool.map(nap, NAMES)])


def left_behind(text: str) -> str:
    texts: list[str] = []
    never = threading.Event()

    def for_ever() -> None:
        while True:
            time.sleep(1)

    threading.Thread(target=never.wait, daemon=True).start()
    threading.Thread(target=for_ever, daemon=True).start()
    threading.Thread(target=lambda: texts.append(ask(f"{text} aside")), daemon=True).start()
    return ask(f"{text} main")


def busy(text: str) -> str:
    texts: list[str] = []

    def work(name: str) -> None:
        sum(range(len(name) * 20_000))
        texts.append(ask(f"{text} {name}"))

    _in_threads(work)
    return summed(texts)


def long(text: str) -> str:
    over = []

    def for_long() -> None:
        while not over:
            sum(range(1_000))

    thread = threading.Thread(target=for_long)
    thread.start()
    other = threading.Thread(target=ask, args=(text,))
    other.start()
    other.join()
    over.append(True)
    thread.join()
    return text


def started_in_threads(text: str) -> str:
    def in_thread() -> None:
        os.system("true")

    def in_pool() -> None:
        os.system("true")

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(in_pool).result()
    return text


WAYS = (
    *(executor, few_workers, mapped, shared_pool, threads, twice, marked, tools, locked),
    *(gathered, in_executor, thread_pool, nested, queued, sleeping, napping, left_behind, busy),
)

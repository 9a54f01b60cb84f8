"""Desks whose threads do not come to rest by themselves, each in a way of its own."""

from __future__ import annotations

import _thread
import asyncio
import queue
import threading
import time

from tests.apps.threaded import ask


def _aside(text: str) -> None:
    """Asks in a thread, and waits for that."""
    other = threading.Thread(target=ask, args=(text,))
    other.start()
    other.join()


async def left_in_loop(text: str) -> str:
    """A thread of the event loop still sleeps when the loop is closed, which waits for it."""
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3_600)
    return await asyncio.to_thread(ask, text)


def tries_a_lock(text: str) -> str:
    """A thread tries to get a lock, again and again."""
    lock = threading.Lock()
    lock.acquire()

    def try_again() -> None:
        while not lock.acquire(timeout=0.01):
            pass

    thread = threading.Thread(target=try_again, daemon=True)
    thread.start()
    _aside(text)
    reply = ask(text)
    lock.release()
    thread.join()
    return reply


def asks_for_ever(text: str) -> str:
    """A thread asks again, whatever it is answered, after the reply too."""

    def ask_again() -> None:
        is_over = False
        while not is_over:
            try:
                ask("again")
            except BaseException as problem:
                is_over = "thread of a scenario that" in str(problem)

    threading.Thread(target=ask_again, daemon=True).start()
    return ask(text)


def never_begins(text: str) -> str:
    """A thread that was started ends before anything of it is called."""

    class Stillborn(threading.Thread):
        def _bootstrap_inner(self) -> None:
            self._started.set()  # type: ignore[attr-defined]

    Stillborn(target=print).start()
    _aside(text)
    return ask(text)


def changes_its_place(text: str) -> str:
    """A thread waits a little here and a little there, and is never twice at one place."""
    lock, other = threading.Lock(), threading.Lock()
    over = []
    lock.acquire()
    other.acquire()

    def wait_about() -> None:
        while not over:
            lock.acquire(timeout=0.004)
            other.acquire(timeout=0.004)

    thread = threading.Thread(target=wait_about, daemon=True)
    thread.start()
    _aside(text)
    reply = ask(text)
    over.append(True)
    thread.join()
    return reply


def raw(text: str) -> str:
    """Threads that `threading` knows nothing of."""
    texts: list[str] = []

    def work(name: str, *, greeting: str) -> None:
        threading.current_thread()  # From now on it knows a stand-in, which never ends.
        texts.append(ask(f"{greeting} {name}"))

    for name in ("ann", "ben", "cy", "dot"):
        _thread.start_new_thread(work, (name,), {"greeting": text})
    time.sleep(1)
    return ask(f"{text}: {len(texts)}")


threads: dict[str, threading.Thread] = {}
"""Threads that outlive the scenario that has started them."""
gone_on: list[str] = []
"""What became of what they asked."""
_lock = threading.Lock()
_inbox: queue.Queue[tuple[str, queue.Queue[str]]] = queue.Queue()


def leaves_a_thread(text: str) -> str:
    """A thread waits for a lock, and asks for the first time when the next scenario lets it."""

    def ask_late() -> None:
        with _lock:
            try:
                gone_on.append(ask("late"))
            except BaseException as problem:
                gone_on.append(str(problem))

    if "late" in threads:
        _lock.release()
        threads.pop("late").join()
    else:
        _lock.acquire()
        threads["late"] = threading.Thread(target=ask_late, daemon=True)
        threads["late"].start()
    return ask(text)


def shares_a_worker(text: str) -> str:
    """A worker that the first scenario starts asks for whoever gives it something."""

    def serve() -> None:
        while True:
            reply, outbox = _inbox.get()
            outbox.put(ask(reply))

    if "worker" not in threads:
        threads["worker"] = threading.Thread(target=serve, daemon=True)
        threads["worker"].start()
    outbox: queue.Queue[str] = queue.Queue()
    _inbox.put((text, outbox))
    return outbox.get(timeout=60)

"""A desk that logs what it does, and asks no framework."""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from typing import Any

log = logging.getLogger("desk.orders")
quiet = logging.getLogger("desk.quiet")
quiet.disabled = True

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2


def ask(text: str) -> str:
    body = json.dumps({
        "model": "gpt-5-mini",
        "messages": [{"role": "system", "content": "Desk."}, {"role": "user", "content": text}],
    }).encode()  # fmt: skip
    request = urllib.request.Request(
        "https://llm.example.test/v1/chat/completions", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=5) as response:
        answer: dict[str, Any] = json.load(response)
    return str(answer["choices"][0]["message"]["content"])


def answer(text: str) -> str:
    """Answers the user."""
    log.debug("asked %s", text)
    reply = ask(text)
    log.info("answered with %d characters", len(reply))
    if "wrong" in text:
        try:
            raise ValueError("no such order")
        except ValueError:
            log.exception("order %s", 7)
    if "key" in text:
        logging.getLogger("desk.keys").warning("key %s", KEY)
    if "thread" in text:
        worker = threading.Thread(target=lambda: log.warning("from a thread"))
        worker.start()
        worker.join()
    if "misfit" in text:
        log.info("two %s %s", "one")
    if "library" in text:
        json_library_logs()
    if "root" in text:
        logging.info("by the root")
        logging.LoggerAdapter(log, {}).info("through an adapter")
    quiet.info("never")
    return f"{reply} ({'told' if log.isEnabledFor(logging.DEBUG) else 'spared'})"


def json_library_logs() -> None:
    """Lets a library log something that it would not print."""
    import asyncio

    async def nothing() -> None:
        return None

    asyncio.run(nothing(), debug=True)

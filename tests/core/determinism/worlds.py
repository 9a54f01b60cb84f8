"""Worlds for tests, and one reading of everything that they answer."""

from __future__ import annotations

import datetime
import email.utils
import gzip
import http.cookiejar
import http.cookies
import io
import logging
import os
import random
import secrets
import tempfile
import time
import uuid
import zipfile
from os import urandom
from time import monotonic_ns, perf_counter
from time import time as time_by_name
from typing import Any

from simkit.core.determinism import World
from simkit.core.rng import Chance
from simkit.runtime.scheduler import VirtualClock

START = "2027-03-01T10:00:00+02:00"
SECONDS = 1_803_888_000
"""The same since 1970."""


def world(seed: int = 0, start: str = START, **options: Any) -> World:
    return World(VirtualClock(start), Chance(seed), **options)


CLOCKS: dict[str, Any] = {
    "time": lambda: time.time(),
    "time, by name": lambda: time_by_name(),
    "time_ns": lambda: time.time_ns(),
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "gmtime": lambda: tuple(time.gmtime()),
    "localtime": lambda: tuple(time.localtime()),
    "strftime": lambda: time.strftime("%Y-%m-%d %H:%M"),
    "ctime": lambda: time.ctime(),
    "asctime": lambda: time.asctime(),
    "now": lambda: datetime.datetime.now(),  # noqa: DTZ005 - what users write
    "now in UTC": lambda: datetime.datetime.now(datetime.UTC),
    "today": lambda: datetime.datetime.today(),  # noqa: DTZ002
    "date.today": lambda: datetime.date.today(),  # noqa: DTZ011
}


def _record() -> logging.LogRecord:
    return logging.LogRecord("app", logging.INFO, "app.py", 1, "said", (), None)


def _cookie() -> str:
    cookie = http.cookies.SimpleCookie({"a": "b"})
    cookie["a"]["expires"] = 60
    return cookie.output()


def _zipped() -> Any:
    with zipfile.ZipFile(io.BytesIO(), "w") as file:
        file.writestr("a.txt", "a")
        return file.infolist()[0].date_time


DERIVED: dict[str, Any] = {
    "LogRecord.created": lambda: _record().created,
    "LogRecord.msecs": lambda: _record().msecs,
    "LogRecord.relativeCreated": lambda: _record().relativeCreated,
    "Formatter.formatTime": lambda: logging.Formatter().formatTime(_record()),
    "email.utils.formatdate": lambda: email.utils.formatdate(),
    "email.utils.localtime": lambda: email.utils.localtime(),
    "http.cookies": _cookie,
    "http.cookiejar": lambda: http.cookiejar.time2netscape(),  # type: ignore[attr-defined]
    "gzip": lambda: gzip.compress(b"a"),
    "zipfile": _zipped,
    "uuid.getnode": lambda: uuid.getnode(),
    "tempfile": lambda: tempfile.mktemp(),
}
"""What the standard library makes of clocks and chance: at import, in C, or further up."""
NOT_HELD: tuple[str, ...] = (
    "loop.time()", "os.getpid()", "id()", "os.times()", "resource.getrusage()", "CURRENT_TIMESTAMP",
    "threading.get_ident()", "email.utils.make_msgid()", "os.stat()",
)  # fmt: skip
"""What is derived from the machine, and which the documentation says so of."""
STOPWATCHES: dict[str, Any] = {
    "monotonic": lambda: time.monotonic(),
    "monotonic_ns, by name": lambda: monotonic_ns(),
    "perf_counter": lambda: time.perf_counter(),
    "perf_counter, by name": lambda: perf_counter(),
    "process_time": lambda: time.process_time(),
    "thread_time_ns": lambda: time.thread_time_ns(),
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
}
DRAWS: dict[str, Any] = {
    "random": lambda: random.random(),
    "getrandbits": lambda: random.getrandbits(64),
    "choice": lambda: random.choice(range(10**9)),
    "Random": lambda: random.Random().random(),
    "SystemRandom": lambda: random.SystemRandom().random(),
    "random.seed": lambda: (random.seed(), random.random())[1],
    "token_hex": lambda: secrets.token_hex(),
    "token_urlsafe": lambda: secrets.token_urlsafe(),
    "randbelow": lambda: secrets.randbelow(10**9),
    "os.urandom": lambda: os.urandom(8),
    "urandom, by name": lambda: urandom(8),
    "getrandom": lambda: os.getrandom(8),
    "uuid1": lambda: uuid.uuid1(),
    "uuid4": lambda: uuid.uuid4(),
    "mktemp": lambda: tempfile.mktemp(),
    **{
        name: lambda name=name: getattr(uuid, name)()
        for name in ("uuid6", "uuid7")
        if hasattr(uuid, name)
    },
}

"""Code has one time and one chance: whatever ran before, in whatever process, whoever imports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from simkit import load, simulate, view_of
from tests.processes import run_python

ROOT = Path(__file__).parents[2]

LIBRARY = '''
import random, time, uuid
from functools import lru_cache

LOADED = time.time()
TOKEN = uuid.uuid4().hex

@lru_cache
def shared():
    """What is made once a process, by whoever is first."""
    return uuid.uuid4(), random.Random().random()

def tag():
    shared()
    return uuid.uuid4().hex
'''
APP = '''
import asyncio, random, secrets, tempfile, threading, time, uuid
from dataclasses import dataclass, field
from datetime import datetime
from os import urandom
from time import perf_counter

import drawing_library

BOOTED, KEY = datetime.now(), uuid.uuid4().hex

@dataclass
class Run:
    """A reply with times and ids in it."""

    text: str
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    created_at: datetime = field(default_factory=datetime.now)
    notes: list = field(default_factory=list)

class Desk:
    def __init__(self):
        self.id, self.born = uuid.uuid1(), time.time_ns()

    def run(self, text):
        began = perf_counter()
        time.sleep(2.5)
        async def beside():
            await asyncio.sleep(0.25)
            return [uuid.uuid4().hex, await asyncio.to_thread(time.time)]
        import drawing_late
        notes = [
            self.id, self.born, BOOTED, KEY, drawing_library.LOADED, drawing_library.TOKEN,
            drawing_library.tag(), drawing_late.NUMBER, random.random(), random.choice(range(99)),
            secrets.token_hex(4), urandom(4).hex(), tempfile.mktemp(), perf_counter() - began,
            asyncio.run(beside()), random.sample(range(50), 5),
        ]
        return Run(text, notes=[str(note) for note in notes])

def short(text):
    """Draws what others draw, and other things before it."""
    random.random()
    return f"{uuid.uuid4()} {drawing_library.tag()} {datetime.now()}"
'''
SCENARIOS = """
version: 1
scenario: a long one
pipeline: drawing_app:Desk
app: {path: [.]}
start: 2027-03-01T10:00:00+02:00
turns: [{user: one}, {user: two}, {user: three, session: s2}]
---
version: 1
scenario: a short one
pipeline: drawing_app:short
app: {path: [.]}
seed: 4
turns: [{user: one}, {user: two}]
---
version: 1
scenario: a fresh one
pipeline: drawing_app:Desk
app: {path: [.], fresh: true}
start: 2031-01-01T00:00:00Z
turns: [{user: one}]
"""
FILES = {
    "drawing_app.py": APP,
    "drawing_library.py": LIBRARY,
    "drawing_late.py": "import random\nNUMBER = random.random()\n",
    "drawing.scenario.yaml": SCENARIOS,
}
NAMES = ("a long one", "a short one", "a fresh one")
DIGESTS = """
import json, sys
from simkit import load, simulate
found = {one.item.name: one for one in load("drawing.scenario.yaml")}
print(json.dumps([simulate(found[name]).trace.digest() for name in sys.argv[1:]]))
"""


@pytest.fixture
def folder(cwd: Path) -> Iterator[Path]:
    for name, text in FILES.items():
        (cwd / name).write_text(text, encoding="utf-8")
    forget()
    yield cwd
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("drawing_")]:
        del sys.modules[name]


def digests(names: Sequence[str]) -> dict[str, str]:
    """Runs scenarios one after the other, in a process that has imported nothing of theirs."""
    forget()
    by_name = {item.item.name: item for item in load("drawing.scenario.yaml")}
    return {name: simulate(by_name[name]).trace.digest() for name in names}


def in_process(names: Sequence[str], hash_seed: str) -> dict[str, str]:
    done = run_python("-c", DIGESTS, *names, PYTHONHASHSEED=hash_seed)
    assert done.returncode == 0, done.stderr
    texts: list[str] = json.loads(done.stdout)
    return dict(zip(names, texts, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("names", [NAMES, NAMES[::-1], (NAMES[1], NAMES[0], NAMES[2])])
def test_a_scenario_is_the_same_alone_and_after_every_other(
    folder: Path, names: Sequence[str]
) -> None:
    alone = {name: digests([name])[name] for name in NAMES}

    assert digests(names) == alone
    assert len(set(alone.values())) == len(alone)


@pytest.mark.slow
def test_a_scenario_is_the_same_in_every_process(folder: Path) -> None:
    texts_by_name = digests(NAMES)

    assert in_process(NAMES[::-1], "1") == texts_by_name
    assert in_process(NAMES[:1], "2") == {NAMES[0]: texts_by_name[NAMES[0]]}


def notes_of(folder: Path, name: str) -> list[list[str]]:
    by_name = {item.item.name: item for item in load("drawing.scenario.yaml")}
    turns: Any = view_of(simulate(by_name[name]).trace.events).turns
    return [turn.reply["value"]["notes"] for turn in turns]


def test_what_a_turn_draws_is_new_and_its_times_go_on(folder: Path) -> None:
    item, two, three = notes_of(folder, NAMES[0])

    assert item[:2] == two[:2]
    assert three[0] != item[0]
    assert item[2] == "2026-01-05 09:00:00"
    assert {item[6], two[6], three[6]} != {item[6]}
    assert [len({a, b, c}) for a, b, c in zip(item[8:12], two[8:12], three[8:12], strict=True)] != [
        1
    ]
    assert item[13] == "2.5"


def test_a_module_that_is_imported_anew_is_imported_at_the_same_time(folder: Path) -> None:
    (item,) = notes_of(folder, NAMES[2])

    assert item[2] == "2026-01-05 09:00:00"


STORE = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from openai import AsyncOpenAI, OpenAI

def look():
    return "seen"

class Store:
    def __init__(self):
        self.rows = []

    def add(self, text):
        self.rows.append((datetime.now(), text))

    def chat(self, text):
        self.add(text)
        for _ in range(2):
            messages = [{"role": "user", "content": text}]
            said = OpenAI().chat.completions.create(model="m", messages=messages)
            self.add(said.choices[0].message.content)
            self.add(look())
        times = [moment.isoformat(timespec="microseconds")[17:] for moment, _ in self.rows]
        assert sorted(times) == times and len({*times}) == len(times), times
        return " ".join(times)

def aside(text):
    def ask(number):
        messages = [{"role": "user", "content": f"{text} {number}"}]
        OpenAI().chat.completions.create(model="m", messages=messages)
        return datetime.now().microsecond
    with ThreadPoolExecutor(4) as pool:
        return str(sorted(pool.map(ask, range(4))))

async def together(text):
    async def ask(number):
        messages = [{"role": "user", "content": f"{text} {number}"}]
        await AsyncOpenAI().chat.completions.create(model="m", messages=messages)
        return datetime.now().microsecond
    return str(sorted(await asyncio.gather(*map(ask, range(4)))))
"""


@pytest.mark.parametrize(
    ("app", "replies", "reply"),
    [
        ("Store", "[A, B]", "00.000000 00.000001 00.000002 00.000003 00.000004"),
        ("aside", "[A, B, C, D]", None),
        ("together", "[A, B, C, D]", None),
    ],
)
def test_time_moves_with_each_answer_of_a_model_or_a_tool(
    tmp_path: Path, app: str, replies: str, reply: str | None
) -> None:
    (tmp_path / "stored_rows.py").write_text(STORE)
    (tmp_path / "app.scenario.yaml").write_text(f"""
version: 1
scenario: rows
pipeline: stored_rows:{app}
app: {{fresh: true, tools: {{look: "stored_rows:look"}}}}
agents: {{desk: {{messages: {{$any: true}}}}}}
turns:
  - {{user: one, replies: {{desk: {replies}}}}}
  - {{user: two, replies: {{desk: {replies}}}}}
""")
    (prepared,) = load(tmp_path / "app.scenario.yaml")

    turns, again = (view_of(simulate(prepared).trace.events).turns for _ in range(2))

    assert [turn.error for turn in turns] == [None, None]
    assert [turn.reply for turn in again] == [turn.reply for turn in turns]
    if reply is not None:
        assert turns[0].reply == reply
        assert turns[1].reply.startswith(f"{reply} 00.001000 00.001001")

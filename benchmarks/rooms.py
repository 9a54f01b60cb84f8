"""Count how often a value changes rooms on one run: the way that a reader has to follow.

A room is a package or a module directly under `simkit/`. `simkit replay` runs one scenario while
every call of a simkit function is watched. A value *arrives* where a function receives it as an
argument: itself, or inside a container, struct or dataclass at most three levels down. The object
of a method (`self`) does not count, because it stays where it is. Two arrivals that follow each
other in different rooms are one change of rooms. Counts, not times: two runs give the same table.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

NUMBER: Final = 918273645
TEXT: Final = "a text that stands in no other place"
DEPTH: Final = 3
"""Levels of containers that are searched."""

_PIPELINE: Final = """
version: 1
pipeline: desk
defaults: {context: [instructions, handoff, history, current_message]}
agents:
  triage: {instructions: Route., handoffs: [billing]}
  billing: {instructions: Answer.}
flow: {handoffs: {start: triage}}
"""
_SCENARIO: Final = """
version: 1
scenario: one handoff
pipeline: ./desk.pipeline.yaml
turns:
  - user: USER
    replies:
      triage: {handoff: {to: billing, payload: {order: PAYLOAD}}}
      billing: Done.
    expect:
      handoffs: [{from: triage, to: billing, payload: {order: CLAIM}}]
"""
_GRAPH: Final = f'''
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import MessagesState
from openai import OpenAI

client = OpenAI()


def answer(state):
    reply = client.chat.completions.create(
        model="gpt-5-mini",
        messages=[{{"role": "system", "content": "{TEXT}"}}, {{"role": "user", "content": "Hi"}}],
    )
    return {{"messages": [("ai", reply.choices[0].message.content)]}}


def build():
    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()
'''
_GRAPH_SCENARIO: Final = """
version: 1
scenario: one question
pipeline: rooms_graph:build
app: {path: [.]}
turns:
  - user: Hello
    replies: {answer: Good day.}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A value to follow, and the files (name to text) of the run that it goes through."""

    name: str
    value: int | str
    files: Mapping[str, str]
    last_room: str = ""
    """Where the route ends, if that is before the end of the run."""


def routes() -> Iterator[Route]:
    """Yield the routes: a claim's scalar that fails, a payload, a message, a LangGraph request."""
    claim = _declared("a claim's scalar, to its finding", NUMBER, "CLAIM")
    yield dataclasses.replace(claim, last_room="checks")
    yield _declared("a handoff payload", NUMBER, "PAYLOAD")
    yield _declared("a user's message", TEXT, "USER")
    if find_spec("langgraph") and find_spec("openai"):
        files = {"rooms_graph.py": _GRAPH, "run.scenario.yaml": _GRAPH_SCENARIO}
        yield Route(name="a LangGraph request", value=TEXT, files=files)


def _declared(name: str, value: int | str, key: str) -> Route:
    values = {"USER": "Hello", "PAYLOAD": 7, "CLAIM": 7 if key == "CLAIM" else "{$type: integer}"}
    scenario = _SCENARIO
    for word, text in (values | {key: value}).items():
        scenario = scenario.replace(word, str(text))
    files = {"desk.pipeline.yaml": _PIPELINE, "run.scenario.yaml": scenario}
    return Route(name=name, value=value, files=files)


def holds(place: Any, value: int | str, depth: int = DEPTH) -> bool:
    """Return whether ``place`` is the value, or holds it at most ``depth`` levels down."""
    if type(place) is str:
        return str(value) in place
    if type(place) is bytes:
        return str(value).encode() in place
    if type(place) is int:
        return place == value
    return depth > 0 and any(holds(part, value, depth - 1) for part in _parts(place))


def _parts(place: Any) -> list[Any]:
    if isinstance(place, Mapping):
        return list(place.values())
    if type(place) in (list, tuple, set, frozenset):
        return list(place)
    if isinstance(place, msgspec.Struct):
        return [getattr(place, name, None) for name in place.__struct_fields__]
    if dataclasses.is_dataclass(place) and not isinstance(place, type):
        return [getattr(place, field.name, None) for field in dataclasses.fields(place)]
    return []


def arrivals(route: Route) -> list[str]:
    """Run the route's scenario; return the file of simkit for every arrival, in order."""
    import simkit
    from simkit.cli import main

    package = f"{Path(simkit.__file__).parent}/"
    files: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(package):
            return
        sys.setprofile(None)
        variadic = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]
        arguments = [frame.f_locals.get(name) for name in names if name not in ("self", "cls")]
        if any(holds(argument, route.value) for argument in arguments):
            files.append(code.co_filename.removeprefix(package))
        sys.setprofile(watch)

    output = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in route.files.items():
            Path(name).write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            sys.setprofile(watch)
            try:
                main(["replay", "run.scenario.yaml", "-j", "1"])
            except SystemExit as ended:
                if ended.code not in (0, 1):
                    raise RuntimeError(output.getvalue()) from ended
            finally:
                sys.setprofile(None)
    return files


def changes(files: list[str]) -> int:
    """Return how often two arrivals that follow each other are in different rooms."""
    return sum(_room(before) != _room(after) for before, after in pairwise(files))


def _room(file: str) -> str:
    return file.partition("/")[0].removesuffix(".py")


def rows(_: int = 1) -> list[list[str]]:
    """Return the table's rows: a route, its arrivals, files, rooms and changes of rooms."""
    table = [["", "arrivals", "files", "rooms", "changes of rooms"]]
    for route in routes():
        files = arrivals(route)
        while route.last_room and _room(files[-1]) != route.last_room:
            files.pop()
        rooms = {_room(file) for file in files}
        numbers = (len(files), len(set(files)), len(rooms), changes(files))
        table.append([route.name, *map(str, numbers)])
    return table

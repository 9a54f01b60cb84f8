"""Each session's memory is its own, and lasts as long as its driver."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from simkit.adapters.asgi import AsgiDriver
from simkit.adapters.framework_driver import (
    DRIVER_OPTIONS,
    EVERYBODYS_OPTIONS,
    HeldState,
    SessionMemory,
)
from simkit.core.errors import SourceError
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import AppOptions
from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.adapters.scribes import Desk


def test_a_session_continues_its_own_memory_and_sees_no_other() -> None:
    memory = SessionMemory[list[str]](lambda turn: [turn.project])
    turns = [
        UserTurn("I am Ada", session="s1"),
        UserTurn("I am Bo", session="s2", project="p2"),
        UserTurn("And now?", session="s1"),
    ]

    for turn in turns:
        memory.of(turn).append(turn.text)

    assert memory.of(turns[0]) == ["p1", "I am Ada", "And now?"]
    assert memory.of(turns[1]) == ["p2", "I am Bo"]


def test_a_memory_that_holds_nothing_is_not_made_again() -> None:
    memory = SessionMemory[list[str]](lambda turn: [])
    first = UserTurn("hi")

    assert memory.of(first) is memory.of(first)


VALUES = {
    "call": "run",
    "config": "{recursion_limit: 3}",
    "input": '{text: "${user}"}',
    "output": "text",
    "headers": "{x-user: ada}",
    "post": "/chat",
    "run_options": "{context: 1}",
    "store": "{notes: [notes]}",
}
READ = {
    "healthy:chain": ("openai", {"call", "input"}),
    "agents_desk:triage": ("agents", {"call", "run_options"}),
    "pydantic_ai_desk:router": ("pydantic_ai", {"call", "run_options"}),
    "langgraph_ships_crew:app": ("langgraph_swarm", {"call", "config", "input", "output", "store"}),
}


def test_every_option_is_a_drivers_or_everybodys() -> None:
    """A new option is a driver's until it stands among those that simkit itself reads."""
    assert {*AppOptions.model_fields} >= EVERYBODYS_OPTIONS
    assert {*VALUES} == {*AppOptions.model_fields} - EVERYBODYS_OPTIONS
    read = {option for _, options in READ.values() for option in options}
    assert {*read, *AsgiDriver.app_options} == {*DRIVER_OPTIONS}


@pytest.mark.parametrize("option", DRIVER_OPTIONS)
@pytest.mark.parametrize("pipeline", READ)
def test_an_option_that_nothing_reads_is_refused(pipeline: str, option: str) -> None:
    framework, read = READ[pipeline]
    pytest.importorskip(framework)
    scenario = f"""
        app: {{path: [.], {option}: {VALUES[option]}}}
        turns: [{{user: Hi, replies: {{desk: Hello.}}}}]
    """

    refusal = ""
    try:
        run_app(pipeline, scenario, fits=False)
    except SourceError as problem:
        refusal = str(problem)

    assert (f": `{option}` does nothing here" in refusal) == (option not in read)


CODE = """
class Held:
    "A tool as some framework's decorator makes it: it shows no function."


search = Held()


def run(text: str) -> str:
    return text
"""


def test_a_tool_that_cannot_be_stood_in_for_is_told_at_its_entry(tmp_path: Path) -> None:
    (tmp_path / "held_app.py").write_text(CODE, encoding="utf-8")

    with pytest.raises(SourceError) as caught:
        run_app(
            "held_app:run",
            """
            app: {path: [.], tools: {search: "held_app:search"}}
            turns: [{user: Hi, tool_results: {search: x}}]
            """,
            tmp_path,
        )

    assert ":4:" in str(caught.value)
    assert "tool `search` is a Held, which simkit cannot replace." in str(caught.value)


def test_what_an_object_holds_is_told_as_given_and_then_as_written() -> None:
    desk, thing = Desk(), SimpleNamespace(name="Ann")
    desk.turn("Hello")
    run, state = desk.run("clerk"), HeldState(desk.recorder)

    state.look(thing, "context", run)
    thing.seat = "2A"
    state.look(thing, "context", run)
    state.look(thing, "context", run)
    state.look(None, "context", run)

    pairs = [
        (event.update, event.agent, event.run, event.cause)
        for event in desk.trace.events
        if isinstance(event, e.StateUpdated)
    ]
    assert pairs == [({"name": "Ann"}, "", "", "given"), ({"seat": "2A"}, "clerk", "r1", "writes")]

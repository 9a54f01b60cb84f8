"""Objects whose fields are state: what changes in them is told once, with who changed it."""

from __future__ import annotations

from types import SimpleNamespace

from simkit.adapters.app_options import HeldState
from simkit.trace import events as e
from tests.adapters.scribes import Desk


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

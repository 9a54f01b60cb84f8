"""FLW-10: what several agents look up."""

from __future__ import annotations

import pytest

from simkit.core.messages import JsonValue, Message, ToolCall
from tests.adapters.scribes import Desk, user
from tests.checks.traces import hits_of


def problems_of(identity: str, desk: Desk) -> list[str]:
    return [hit.what for hit in hits_of(identity, desk.trace)]


def looks_up(
    desk: Desk, agent: str, result: JsonValue, *context_parts: Message, number: int, **args: str
) -> None:
    """An agent asks a tool and gets the result."""
    run = desk.run(agent)
    call = ToolCall(f"call{number}", "list_orders", dict(args))
    desk.answers(desk.asks([user("Look."), *context_parts], agent), "", call, agent=agent)
    request = desk.recorder.call_request(call.id)
    assert request is not None
    desk.recorder.tool_answered(request, result)
    desk.recorder.end_run(run)


@pytest.mark.parametrize(
    ("later", "context_parts", "count"),
    [
        ({"agent": "b", "result": "1, 2", "of": "ada"}, (), 1),
        ({"agent": "a", "result": "1, 2", "of": "ada"}, (), 0),
        ({"agent": "b", "result": "1, 2", "of": "bo"}, (), 0),
        ({"agent": "b", "result": "1, 2, 3", "of": "ada"}, (), 0),
        ({"agent": "b", "result": "1, 2"}, (), 0),
        ({"agent": "b", "result": "1, 2", "of": "ada"}, (user("Found: 1, 2"),), 0),
    ],
    ids=["the same", "one agent", "other arguments", "other result", "no arguments", "told"],
)
def test_two_agents_that_look_up_the_same_are_found(
    later: dict[str, str], context_parts: tuple[Message, ...], count: int
) -> None:
    desk = Desk()
    desk.turn("What is open?")
    args = {"of": "ada"} if "of" in later else {}
    looks_up(desk, "a", "1, 2", number=1, **args)
    looks_up(desk, later.pop("agent"), later.pop("result"), *context_parts, number=2, **later)
    desk.ends("Two.")

    assert problems_of("FLW-10", desk) == count * [
        "agent 'b' asks 'list_orders' in turn 1 what 'a' asked it before, {\"of\":\"ada\"}, and "
        "is not sent the answer"
    ]


def test_what_another_agent_asked_in_an_earlier_turn_may_have_changed() -> None:
    desk = Desk()
    for number, agent in enumerate(("a", "b")):
        desk.turn("What is open?")
        looks_up(desk, agent, "1, 2", number=number, of="ada")
        desk.ends("Two.")

    assert problems_of("FLW-10", desk) == []

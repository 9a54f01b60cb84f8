"""CTX-19, CTX-21, FLW-10, FLW-11: a turn's request, its past, look-ups, and its answer."""

from __future__ import annotations

import pytest

from simkit.core.messages import JsonValue, Message, ToolCall
from tests.adapters.scribes import Desk, assistant, system, user
from tests.checks.traces import hits_of

REQUEST = "A poem on rain"


def ask_agent(desk: Desk, agent: str, *messages: Message, reply: str = "Well.") -> None:
    """An agent is sent messages, answers with a text, and is done."""
    desk.answers(desk.asks(messages, agent), reply, agent=agent)
    desk.recorder.end_run(desk.run(agent))


def problems_of(identity: str, desk: Desk) -> list[str]:
    return [hit.what for hit in hits_of(identity, desk.trace)]


def test_an_agent_that_begins_without_the_message_that_another_gets_is_found() -> None:
    desk = Desk()
    desk.turn(REQUEST)
    ask_agent(desk, "planner", system("Plan."), user("Begin."))
    ask_agent(desk, "writer", user("Task: A poem on rain"))
    desk.ends("A poem.")

    assert problems_of("CTX-19", desk) == [
        "agent 'planner', the first that turn 1 asks, is sent nothing of the user's message "
        "'A poem on rain', and 'writer' after it is"
    ]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (user(REQUEST), user(REQUEST)),
        (user("Write: RAIN"), user(REQUEST)),
        (system("The user wants a poem."), user(REQUEST)),
        (user("Begin."), user("Go on.")),
    ],
    ids=["sent", "a word of it", "in the instructions", "nobody is sent it"],
)
def test_a_request_that_is_sent_in_other_words_or_to_nobody_is_none(
    first: Message, later: Message
) -> None:
    desk = Desk()
    desk.turn(REQUEST)
    ask_agent(desk, "planner", first)
    ask_agent(desk, "writer", later)
    desk.ends("A poem.")

    assert problems_of("CTX-19", desk) == []


@pytest.mark.parametrize(
    ("messages", "count"),
    [((system("Plan."),), 1), ((system("Sum up."), user(REQUEST), assistant("A poem.")), 0)],
    ids=["instructions alone", "the past"],
)
def test_a_later_turn_may_begin_with_work_on_the_past(
    messages: tuple[Message, ...], count: int
) -> None:
    desk = Desk()
    desk.turn(REQUEST)
    ask_agent(desk, "writer", user(REQUEST))
    desk.ends("A poem.")
    desk.turn("Another about snow")
    ask_agent(desk, "planner", *messages)
    ask_agent(desk, "writer", user("Another about snow"))
    desk.ends("A poem.")

    assert len(problems_of("CTX-19", desk)) == count


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


@pytest.mark.parametrize(
    ("reply", "is_empty"), [("", True), (" \n", True), ("Twelve.", False), (None, False)]
)
def test_an_empty_answer_is_found_and_what_was_said_before(
    reply: str | None, is_empty: bool
) -> None:
    desk = Desk()
    desk.turn("How many chairs?")
    ask_agent(desk, "a", user("How many chairs?"), reply="Twelve.")
    desk.ends(reply)

    assert problems_of("FLW-11", desk) == is_empty * [
        "the user gets an empty answer in turn 1; what 'a' said, 'Twelve.', does not reach them"
    ]


def test_a_turn_that_asks_no_model_may_answer_nothing() -> None:
    desk = Desk()
    desk.turn("quit")
    desk.ends("")

    assert problems_of("FLW-11", desk) == []


def test_a_task_in_words_that_were_said_before_is_no_past() -> None:
    desk = Desk()
    for number, agent in enumerate(["general", "neurology", "neurology"]):
        desk.turn(f"Question {number}")
        ask_agent(desk, agent, system("You treat."), user("Headache"), reply=f"Report {number}.")
        desk.ends("Done.")

    assert problems_of("CTX-21", desk) == []

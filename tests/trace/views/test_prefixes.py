"""How far a request begins as its agent's request before, and what ends that."""

from __future__ import annotations

import pytest

from simkit.core.messages import Message
from simkit.providers.values import Offer
from simkit.trace.views import Prefix, prefix_of
from simkit.trace.views.prefixes import Repeated, prefix_between, repeated_behind
from tests.adapters.scribes import Desk, assistant, system, user
from tests.building import run_yaml

BASE = [system("Be kind to all who ask."), user("Hello"), assistant("Hi."), user("And now?")]
LOOK = Offer("look", {"type": "object"}, "Looks up.")
COUNT = Offer("count", {"type": "object"}, "Counts.")


def prefixes(*requests: tuple[list[Message], list[Offer], dict[str, str]]) -> list[Prefix | None]:
    desk = Desk()
    desk.turn("Hello")
    for messages, offers, settings in requests:
        desk.answers(desk.asks(messages, "a", *offers, **settings), "Hi.")
    return [prefix_of(call.context) for call in desk.view.calls.values()]


def after(messages: list[Message], **settings: str) -> Prefix:
    """The prefix of a request after one with the base."""
    first, second = prefixes((BASE, [], {}), (messages, [], settings))
    assert first is None
    assert second is not None
    return second


@pytest.mark.parametrize(
    ("messages", "tokens", "where"),
    [
        ([*BASE, assistant("Hi."), user("Bye")], 6 + 2 + 1 + 2, ""),
        (BASE[:2], 6 + 2, ""),
        ([system("Be kind to none."), *BASE[1:]], 2,
         "the instructions, `messages[0]` at character 12"),
        ([*BASE[:2], assistant("Hello."), BASE[3]], 6 + 2,
         "the messages, `messages[2]` at character 2"),
        ([BASE[0], user("You know: tea."), *BASE[1:]], 6,
         "the messages, `messages[1]` at character 1"),
        ([BASE[0], *BASE[2:]], 6, "the messages, `messages[1]` at character 1"),
        ([system("It is 9."), *BASE], 0, "the instructions, `messages[0]` at character 1"),
    ],
    ids=["it goes on", "it is shorter", "instructions", "an answer", "a memory", "a window",
         "a message in front"],
)  # fmt: skip
def test_a_prefix_ends_at_the_first_difference(
    messages: list[Message], tokens: int, where: str
) -> None:
    prefix = after(messages)

    assert prefix.tokens == tokens
    assert (prefix.where if prefix.place else "") == where


def test_what_stands_around_the_difference_is_shown() -> None:
    prefix = after([system("Be kind to none."), *BASE[1:]])

    assert (prefix.before, prefix.after) == ("Be kind to all who ask.", "Be kind to none.")


@pytest.mark.parametrize(
    ("offers", "where", "texts"),
    [
        ([COUNT, LOOK], "the tools, `tools[0]`", ("look, count", "count, look")),
        ([LOOK], "the tools, `tools[1]`", ("count", "")),
        ([LOOK, Offer("count", {"type": "object"}, "Adds.")], "the tools, `tools[1]`",
         ('count Counts. {"type": "object"}', 'count Adds. {"type": "object"}')),
    ],
    ids=["another order", "one less", "another definition"],
)  # fmt: skip
def test_tools_are_read_first(offers: list[Offer], where: str, texts: tuple[str, str]) -> None:
    _, prefix = prefixes((BASE, [LOOK, COUNT], {}), (BASE, offers, {}))

    assert prefix is not None
    assert prefix.where == where
    assert (prefix.before, prefix.after) == texts
    assert prefix.messages == 0
    assert prefix.total > 11


def test_another_model_shares_nothing_and_a_schema_is_read_after_the_tools() -> None:
    _, model, output = prefixes(
        (BASE, [LOOK], {"model": "big"}),
        (BASE, [LOOK], {"model": "small"}),
        (BASE, [LOOK], {"model": "small", "output": "a schema"}),
    )

    assert model is not None
    assert (model.where, model.tokens, model.before, model.after) == (
        "the model",
        0,
        "big",
        "small",
    )
    assert output is not None
    assert (output.where, output.tokens) == ("the schema of the answer", 9)


def test_requests_of_other_agents_and_sessions_are_not_compared() -> None:
    desk = Desk()
    for agent, session in (("a", "s1"), ("b", "s1"), ("a", "s2"), ("a", "s1")):
        desk.turn("Hello", session)
        desk.answers(desk.asks(BASE, agent), "Hi.", agent=agent)
        desk.ends("Hi.")

    assert [prefix_of(call.context) is None for call in desk.view.calls.values()] == [
        True, True, True, False,
    ]  # fmt: skip


def test_a_difference_in_a_shared_message_is_in_its_section() -> None:
    pipeline = """
channels: {messages: {reducer: append, scope: session}, topic: {scope: session, default: bikes}}
agents:
  desk:
    instructions: You are the desk.
    context: [[instructions, {shared: {from: topic, name: known}}], history, current_message]
    writes: {topic: trains}
flow: {handoffs: {start: desk}}
"""
    ran = run_yaml(
        pipeline, "turns: [{user: a, replies: {desk: b}}, {user: c, replies: {desk: d}}]"
    )

    prefix = prefix_of(ran.context("desk"))

    assert prefix is not None
    assert (prefix.place, prefix.section) == ("messages", "known")
    assert prefix.where.startswith("the messages, `messages[0]` of section known at character ")


@pytest.mark.parametrize(
    ("messages", "repeated"),
    [
        ([system("Be kind to any who ask."), *BASE[1:]], Repeated(2 + 5, 2, is_intact=True)),
        ([BASE[0], user("You know: tea."), *BASE[1:]], Repeated(5, 0, is_intact=True)),
        ([system("It is 9."), *BASE], Repeated(11, 6, is_intact=True)),
        ([BASE[0], *BASE[2:]], Repeated(3, 0, is_intact=False)),
        ([system("Else."), user("Something else")], Repeated(0, 0, is_intact=False)),
    ],
    ids=["a word", "a memory", "in front", "a window", "another conversation"],
)
def test_what_stands_behind_the_difference_in_both_is_counted(
    messages: list[Message], repeated: Repeated
) -> None:
    desk = Desk()
    desk.turn("Hello")
    for request in (BASE, messages):
        desk.answers(desk.asks(request), "Hi.")
    first, second = (call.context for call in desk.view.calls.values())

    assert repeated_behind(first, second, prefix_between(first, second)) == repeated

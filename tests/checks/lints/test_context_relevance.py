"""CTX-11: how much of a context is none of the agent's business."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.core.messages import Message
from simkit.trace import events as e
from simkit.trace import views
from tests.checks.traces import Story, context_message, history, hits_of, ran, run_lints, texts_of

AGENTS = {
    "router": e.AgentFacts("Choose."),
    "food": e.AgentFacts("Food.", sees=("food",)),
    "sport": e.AgentFacts("Sport.", sees=("stretch",)),
    "stretch": e.AgentFacts("Stretch."),
}
TEN, FORTY = "x" * 40, "x" * 160
"""Texts of 10 and 40 tokens."""


def answered_by(*agents: str, text: str = TEN, **facts: Any) -> Story:
    """Turn 1 with a user message and an answer by each agent, then the start of turn 2."""
    story = Story(AGENTS, decider="router", **facts)
    story.turn(TEN)
    for agent in agents:
        story.answers(agent, text)
    story.end()
    story.turn(TEN, agent="sport")
    return story


def test_the_messages_of_others_and_the_users_messages_to_them_are_counted() -> None:
    story = answered_by("router", "food")
    story.call(history("s1/sport/history", numbers=[1, 2, 3]), tokens=100)

    assert hits_of("CTX-11", story.trace) == [
        Hit(
            "CTX-11",
            "30 % of what agent 'sport' is sent in turn 2 comes from agents outside its `sees`: "
            "food, router (the limit is 20 %)",
            2, "sport", 0, data={"share": 0.3, "agents": ["food", "router"]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("agents", "expected", "share"),
    [
        (("food",), [1], 1.0),
        (("food", "sport"), [1], 0.0),
        (("stretch",), [1, 2], 0.0),
        (("sport",), [1, 2], 0.0),
        (("router", "food"), [1], 1.0),
        (("router",), [1], 0.0),
    ],
    ids=["others answered", "one of them is itself", "seen", "own", "routed", "only decided"],
)
def test_a_user_message_belongs_to_those_who_answered_it(
    agents: tuple[str, ...], expected: list[int], share: float
) -> None:
    story = answered_by(*agents)
    story.call(history("s1/sport/history", numbers=expected), tokens=10)

    assert [hit.data["share"] for hit in hits_of("CTX-11", story.trace)] == (
        [share] if share else []
    )


def test_at_the_limit_it_passes_and_above_it_does_not() -> None:
    for tokens, count in ((100, 0), (99, 1)):
        story = answered_by("food")
        story.call(history("s1/sport/history", numbers=[1, 2]), tokens=tokens)

        assert len(hits_of("CTX-11", story.trace)) == count


def test_the_pipelines_limit_holds() -> None:
    story = answered_by("food", limits={"irrelevant_share": 0.5})
    story.call(history("s1/sport/history", numbers=[1, 2]), tokens=40)
    story.call(history("s1/sport/history"), tokens=39)

    assert [hit.call for hit in hits_of("CTX-11", story.trace)] == [1]


def test_recalled_items_count_neither_way() -> None:
    story = answered_by("food")
    notes, shared = (
        context_message("notes", FORTY),
        context_message("x", FORTY, pieces=[("x", ""), ("memories", FORTY)]),
    )
    story.call(history("s1/sport/history", numbers=[1, 2]), notes, shared, tokens=20 + 40 + 40 + 10)

    assert [hit.data["share"] for hit in hits_of("CTX-11", story.trace)] == [0.67]


def test_what_the_window_leaves_out_is_not_counted() -> None:
    story = answered_by("food", "sport")
    story.call(history("s1/sport/history", numbers=[1, 2, 3], lo=2), tokens=10)

    assert hits_of("CTX-11", story.trace) == []


def test_the_current_turns_other_agents_count_and_its_user_message_does_not() -> None:
    story = Story(AGENTS, decider="router")
    story.turn(TEN)
    story.answers("food", TEN)
    story.start("sport")
    story.call(history("s1/sport/history", tail=[1, 2]), tokens=20)

    assert [hit.data for hit in hits_of("CTX-11", story.trace)] == [
        {"share": 0.5, "agents": ["food"]}
    ]


def test_an_agent_that_sees_everyone_is_never_reported() -> None:
    story = answered_by("food")
    story.resume("stretch", "r9")
    story.call(history("s1/stretch/history", numbers=[1, 2]), tokens=20)

    assert hits_of("CTX-11", story.trace) == []


COACH = """\
version: 1
pipeline: coach
agents:
  router: {instructions: Choose., output: {type: object}}
  food: {instructions: Food., sees: [food]}
  sport: {instructions: Sport., sees: [sport]}
flow: {router: {decide: router, to: "${run.output.to}"}}
limits: {irrelevant_share: 0.9}
---
version: 1
scenario: from food to sport
pipeline: coach
limits: {irrelevant_share: 0.3}
turns:
  - {user: I ate pizza, replies: {router: {json: {to: food}}, food: Logged your pizza.}}
  - {user: I ran, replies: {router: {json: {to: sport}}, sport: Great run!}}
"""


def test_it_is_found_natively_under_the_scenarios_limit(tmp_path: Path) -> None:
    trace = ran(tmp_path, COACH)

    assert texts_of("CTX-11", trace) == [
        "67 % of what agent 'sport' is sent in turn 2 comes from agents outside its `sees`: food "
        "(the limit is 30 %)"
    ]


class _Counting(list[Message]):
    """Counts the messages that are taken out of it."""

    removals = 0

    def __getitem__(self, place: Any) -> Any:
        _Counting.removals += 1
        return super().__getitem__(place)


@pytest.mark.slow
def test_work_grows_with_the_conversation_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = views.StreamView.__init__

    def counted(self: views.StreamView, identity: str) -> None:
        begin(self, identity)
        self.entries = _Counting()

    monkeypatch.setattr(views.StreamView, "__init__", counted)
    counts = []
    for turns in (1000, 2000):
        story = Story(AGENTS)
        remaining: list[int] = []
        for turn in range(turns):
            number = story.turn(TEN)
            agent = "food" if turn % 2 else "sport"
            stream = history(f"s1/{agent}/history", [n for n in remaining if n > number - 5])
            remaining += [number, story.answers(agent, TEN, stream, tokens=20)]
            story.end()
        _Counting.removals = 0
        _, hits = run_lints(story.trace, ["CTX-11"])
        counts.append((_Counting.removals, len(hits)))

    (used, hits_of_half), (taken_of_all, hits_of_all) = counts
    assert used > 1000
    assert taken_of_all <= 2.1 * used
    assert hits_of_all > 1.9 * hits_of_half > 1000

"""CTX-03, CTX-10, CTX-16: instructions, budget, the current message."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from simkit.checks.findings import Hit
from simkit.trace import events as e
from tests.checks.traces import Story, context_message, history, hits_of, ran, texts_of

AGENTS = {
    "a": e.AgentFacts("I am a."),
    "b": e.AgentFacts("I am b."),
    "mute": e.AgentFacts(),
    "greets": e.AgentFacts("Greet ${user}."),
}


def send_parts(agent: str, *parts: e.Part) -> Story:
    story = Story(AGENTS)
    story.turn(agent=agent)
    story.call(*parts)
    story.says("Hi.")
    story.finish_turn()
    return story


def block(text: str, agent: str | None = None, section: str = "instructions") -> e.InlinePart:
    return context_message(section, text, agent=agent)


CURRENT = context_message("current_message", "hello", role="user", of=1, turn=1)


@pytest.mark.parametrize(
    ("agent", "parts", "problem"),
    [
        ("a", [CURRENT], "agent 'a' is sent no instructions in turn 1"),
        ("a", [block("I am a.", "a"), block("I am a.", "a")],
         "agent 'a' is sent 2 instructions blocks in turn 1"),
        ("a", [block("I am a.", "a"), block("I am b.", "b", "more")],
         "agent 'a' is sent 2 instructions blocks in turn 1"),
        ("a", [block("I am b.", "b")], "agent 'a' is sent the instructions of 'b' in turn 1"),
        ("a", [block("I am c.")],
         "agent 'a' is sent other instructions than its own: 'I am c.' in turn 1"),
        ("mute", [block("I am a.")],
         "agent 'mute' has no instructions, but is sent 'I am a.' in turn 1"),
        ("a", [context_message("intro", "x I am b.",
                               pieces=[("intro", "x"), ("instructions", "I am b.")])],
         "agent 'a' is sent other instructions than its own: 'I am b.' in turn 1"),
    ],
    ids=["none", "twice", "one renamed", "of another", "unknown", "unasked", "in a shared message"],
)  # fmt: skip
def test_instructions_that_are_not_once_the_agents_own_are_found(
    agent: str, parts: list[e.Part], problem: str
) -> None:
    story = send_parts(agent, *parts)

    assert hits_of("CTX-03", story.trace) == [Hit("CTX-03", problem, 1, agent, 0)]


@pytest.mark.parametrize(
    ("agent", "parts"),
    [
        ("a", [block("I am a.", "a"), CURRENT]),
        ("a", [block("# Role\nI am a.\nBegin.", "a")]),
        ("a", [block("I am a.", "a", "role")]),
        (
            "a",
            [
                context_message(
                    "intro", "x I am a.", pieces=[("intro", "x"), ("instructions", "I am a.")]
                )
            ],
        ),
        ("greets", [block("Greet Ada.", "greets")]),
        ("mute", [CURRENT]),
        ("mute", [block("")]),
        ("stranger", [CURRENT]),
    ],
    ids=["own", "titled", "renamed", "shared", "with references", "none", "empty", "unknown agent"],
)
def test_an_agents_own_instructions_pass(agent: str, parts: list[e.Part]) -> None:
    story = send_parts(agent, *parts)

    assert hits_of("CTX-03", story.trace) == []


def test_instructions_are_not_judged_where_sections_are_not_observed() -> None:
    story = Story(AGENTS, observes=("state",))
    story.turn(agent="a")
    story.call(CURRENT)
    story.end()

    assert hits_of("CTX-03", story.trace) == []


def test_a_runs_later_calls_repeat_no_finding() -> None:
    story = Story(AGENTS)
    story.turn(agent="a")
    base = story.call(CURRENT)
    reply = story.says("Hm.")
    story.call(base=base, numbers=[reply])
    story.end()

    assert len(hits_of("CTX-03", story.trace)) == 1


PIPELINE = """\
version: 1
pipeline: small
agents:
  a: {{instructions: I am a., context: {recipe}}}
flow: {{handoffs: {{start: a}}}}
limits: {{context_tokens: 20}}
---
version: 1
scenario: one
pipeline: small
turns:
  - {{user: {user}, replies: {{a: Hi.}}}}
"""


def test_a_recipe_without_instructions_is_found_natively(tmp_path: Path) -> None:
    trace = ran(tmp_path, PIPELINE.format(recipe="[history, current_message]", user="hello"))

    assert texts_of("CTX-03", trace) == ["agent 'a' is sent no instructions in turn 1"]


def test_the_default_recipe_has_its_instructions_natively(tmp_path: Path) -> None:
    recipe = "[instructions, history, current_message]"
    trace = ran(tmp_path, PIPELINE.format(recipe=recipe, user="hello"))

    assert hits_of("CTX-03", trace) == []
    assert hits_of("CTX-16", trace) == []


@pytest.mark.parametrize(
    ("tokens", "severity", "problem"),
    [
        (101, None, "agent 'a' is sent 101 tokens in turn 1, more than its budget of 100"),
        (100, "W", "agent 'a' is sent 100 tokens in turn 1, 100 % of its budget of 100"),
        (80, "W", "agent 'a' is sent 80 tokens in turn 1, 80 % of its budget of 100"),
    ],
)
def test_a_context_near_or_over_its_budget_is_found(
    tokens: int, severity: Literal["W"] | None, problem: str
) -> None:
    story = Story(AGENTS)
    story.turn(agent="a")
    story.call(tokens=tokens, budget=100)
    story.end()

    data = {"tokens": tokens, "budget": 100}
    assert hits_of("CTX-10", story.trace) == [Hit("CTX-10", problem, 1, "a", 0, severity, data)]


@pytest.mark.parametrize(("tokens", "budget"), [(79, 100), (5000, 0)])
def test_a_context_below_its_budget_or_without_one_passes(tokens: int, budget: int) -> None:
    story = Story(AGENTS)
    story.turn(agent="a")
    story.call(tokens=tokens, budget=budget)
    story.end()

    assert hits_of("CTX-10", story.trace) == []


def test_the_budget_counts_natively(tmp_path: Path) -> None:
    recipe = "[instructions, current_message]"
    short = ran(tmp_path, PIPELINE.format(recipe=recipe, user="hello"))
    long = ran(tmp_path, PIPELINE.format(recipe=recipe, user="x" * 80))

    assert hits_of("CTX-10", short) == []
    assert texts_of("CTX-10", long) == [
        "agent 'a' is sent 22 tokens in turn 1, more than its budget of 20"
    ]


@pytest.mark.parametrize(
    ("parts", "sections"),
    [
        ([CURRENT, history("s1/a/history", tail=[1])], ["current_message", "history"]),
        (
            [CURRENT, context_message("again", "hello", role="user", of=1)],
            ["current_message", "again"],
        ),
        ([CURRENT, history("s1/a/history", numbers=[1])], ["current_message", "history"]),
        ([history("s1/a/history", tail=[1, 1])], ["history", "history"]),
    ],
    ids=["in history", "made twice", "settled too early", "twice in a history"],
)
def test_the_current_message_through_two_sections_is_found(
    parts: list[e.Part], sections: list[str]
) -> None:
    story = send_parts("a", *parts)

    assert hits_of("CTX-16", story.trace) == [
        Hit(
            "CTX-16",
            f"agent 'a' is sent the user's message m1 2 times in turn 1: "
            f"through {', '.join(sections)}",
            1, "a", 0, data={"sections": sections},
        )
    ]  # fmt: skip


def test_the_same_words_in_an_earlier_turn_are_another_message() -> None:
    story = Story(AGENTS)
    story.turn("yes")
    story.answers("a")
    story.end()
    number = story.turn("yes")
    story.answers(
        "a", "Done.", history("s1/a/history", numbers=[1, 2]),
        context_message("current_message", "yes", role="user", of=number, turn=2),
    )  # fmt: skip
    story.end()

    assert hits_of("CTX-16", story.trace) == []


@pytest.mark.parametrize(("copies", "is_found"), [(1, False), (2, False), (3, True)])
def test_code_may_send_the_users_words_as_often_as_they_were_said(
    copies: int, is_found: bool
) -> None:
    """Equal texts of a request are all taken for the current message where no history was sent."""
    story = Story(AGENTS, observes=("runs",))
    story.turn("yes")
    story.answers("a")
    story.end()
    number = story.turn("yes")
    story.answers("a", "Done.", history("s1/a/history", tail=[number] * copies))
    story.end()

    assert bool(hits_of("CTX-16", story.trace)) is is_found


def test_an_example_in_the_prompt_may_equal_the_users_words() -> None:
    story = Story(AGENTS, observes=("runs",))
    number = story.turn("yes")
    example = story.message("assistant", "No model of this run said this.")
    story.answers("a", "Done.", history("s1/a/history", tail=[number, example, number]))
    story.end()

    assert hits_of("CTX-16", story.trace) == []


def test_a_window_may_leave_the_second_appearance_out() -> None:
    story = send_parts("a", CURRENT, history("s1/a/history", tail=[1], lo=1))

    assert hits_of("CTX-16", story.trace) == []


def test_two_current_message_sections_are_found_natively(tmp_path: Path) -> None:
    recipe = "[instructions, current_message, {current_message: {name: again}}]"
    trace = ran(tmp_path, PIPELINE.format(recipe=recipe, user="hello"))

    assert texts_of("CTX-16", trace) == [
        "agent 'a' is sent the user's message m1 2 times in turn 1: through current_message, again"
    ]


def sent_by_code(*systems: str, own: str = "I am b.") -> list[str]:
    """What is said of agent ``b`` of code, which is sent these system messages."""
    agents = {"a": e.AgentFacts("I am a."), "b": e.AgentFacts(own)}
    story = Story(agents, observes=("runs", "handoffs", "state"))
    story.turn(agent="b")
    for _ in range(2):
        story.call(*[context_message("", text, agent="b") for text in systems])
    return texts_of("CTX-03", story.trace)


@pytest.mark.parametrize(
    ("systems", "extras"),
    [
        (["I am a."], ", and not its own"),
        (["I am b.", "I am a."], ""),
        (["I am b.\n\nI am a."], ""),
    ],
    ids=["alone", "beside its own", "in one message"],
)
def test_instructions_of_another_agent_are_found_in_code(systems: list[str], extras: str) -> None:
    assert sent_by_code(*systems) == [
        f"agent 'b' is sent the instructions of 'a'{extras} in turn 1: 'I am a.'"
    ]


@pytest.mark.parametrize(
    ("systems", "own"),
    [
        (["I am b."], "I am b."),
        (["I am b. You may ask another, who says: I am a."], "I am b."),
        (["I am a."], ""),
        (["I am a."], "${instructions}"),
        (["I am a.\n\nI am b."], "I am a.\n\nI am b."),
    ],
    ids=["its own", "quoted", "unknown", "made by a function", "a prompt that both share"],
)
def test_code_whose_instructions_are_not_known_to_be_anothers_passes(
    systems: list[str], own: str
) -> None:
    assert sent_by_code(*systems, own=own) == []

"""Scenarios that run at once keep apart; no code of a pipeline's hides why one cannot go on."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from simkit.checks.judge import Outcome
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Prepared
from simkit.trace import events as e
from tests.adapters.running import prepared, run_app

MANY = 100
DESKS = ["Desk", "OwnTransport", "Asynchronous", "Pooled"]
CONVERSATION = """
app: {path: [.], call: ask, tools: {note: crowd:note}}
turns:
  - user: I am NAME
    replies: {listener: NAME heard, answerer: hello NAME}
    tool_results: {note: NAME noted}
    expect:
      reply: hello NAME
      agents: [listener, answerer]
      state: {noted: NAME noted}
      tool_calls: [{agent: listener, tool: note, args: {text: NAME heard}, result: NAME noted}]
  - user: Who am I
    replies: {listener: NAME again, answerer: you are NAME}
    tool_results: {note: NAME twice}
    expect:
      reply: you are NAME
      context:
        listener: {messages: [{system: Listen.}, {user: I am NAME / hello NAME / Who am I}]}
        answerer: {messages: [{system: Answer.}, {user: NAME again}]}
"""


def conversation(number: int, desks: list[str] = DESKS) -> Prepared:
    desk = desks[number % len(desks)]
    return prepared(f"crowd:{desk}", CONVERSATION.replace("NAME", f"n{number}"))


def wrong(outcomes: list[Outcome]) -> list[Any]:
    return [finding for outcome in outcomes for finding in outcome.judgement.findings]


def digests(outcomes: list[Outcome]) -> list[str]:
    return [outcome.trace.digest() for outcome in outcomes]


@pytest.fixture(scope="module")
def alone() -> list[Outcome]:
    """What comes of each scenario where no other runs."""
    return [simulate(conversation(number)) for number in range(MANY)]


@pytest.mark.slow
def test_a_client_of_any_kind_is_answered(alone: list[Outcome]) -> None:
    assert wrong(alone) == []


@pytest.mark.slow
def test_many_threads_do_not_hear_each_other(alone: list[Outcome]) -> None:
    with ThreadPoolExecutor(16) as threads:
        together = list(threads.map(lambda n: simulate(conversation(n)), range(MANY)))

    assert wrong(together) == []
    assert digests(together) == digests(alone)


@pytest.mark.slow
def test_many_tasks_of_one_event_loop_do_not_hear_each_other(alone: list[Outcome]) -> None:
    async def together() -> list[Outcome]:
        return await asyncio.gather(
            *(asyncio.to_thread(simulate, conversation(n)) for n in range(MANY))
        )

    completed = asyncio.run(together())

    assert wrong(completed) == []
    assert digests(completed) == digests(alone)


@pytest.mark.slow
def test_a_scenario_may_be_run_inside_an_event_loop(alone: list[Outcome]) -> None:
    async def inside(number: int) -> Outcome:
        await asyncio.sleep(0)
        return simulate(conversation(number))

    async def together() -> list[Outcome]:
        return await asyncio.gather(*(inside(number) for number in range(8)))

    assert digests(asyncio.run(together())) == digests(alone[:8])


# Why a scenario cannot go on is said, whatever the pipeline's code does with it.

RULE = "agents: {answerer: {system: Answer.}}"
UNANSWERED = f"""
{RULE}
turns:
  - user: hello
    replies: {{other: Nobody asks.}}
"""


@pytest.mark.parametrize("how", ["swallows", "swallows_all", "forgets", "gathers"])
def test_a_call_that_nobody_answers_ends_the_turn_even_where_it_is_swallowed(how: str) -> None:
    ran = run_app(f"crowd:{how}", UNANSWERED)

    assert ran.error() == (
        "ReplyMissing",
        "agent 'answerer' made a model call in turn 1, but the scenario has no reply for it "
        "(the turn has replies for other).\n"
        "Add one under turns[0].replies.answerer, or expect another agent to run.",
    )


@pytest.mark.parametrize(
    ("how", "reply"), [("swallows", "Sorry, try again later."), ("gathers", "1 results")]
)
def test_a_providers_failure_is_the_pipelines_to_handle(how: str, reply: str) -> None:
    ran = run_app(
        f"crowd:{how}",
        f"""
        {RULE}
        turns:
          - user: hello
            replies: {{answerer: {{error: server_error}}}}
        """,
    )

    assert (ran.error(), ran.turn().reply) == (None, reply)
    assert [event.status for event in ran.events(e.ModelFailed)] == [500]


def test_what_is_raised_in_another_thread_is_the_pipelines_error() -> None:
    ran = run_app("crowd:raises_in_a_thread", "turns: [{user: lost}]")

    kind, message = ran.error() or ("", "")
    assert kind == "FunctionFailed"
    assert message.startswith("`crowd:raises_in_a_thread` raised LookupError: lost")

"""CTX-20 on public reports of prompts that no cache could reuse, and on what changes on purpose."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest

from simkit.checks.lints import prefixes
from simkit.core.messages import Message
from simkit.providers.values import Offer
from simkit.trace.views.prefixes import prefix_between
from tests.adapters.running import run_app
from tests.adapters.scribes import Desk, assistant, system, user
from tests.building import run_yaml
from tests.checks.traces import hits_of


class Report(NamedTuple):
    """A public report, rebuilt."""

    fault: str
    """The assistant of `tests/apps/cached_prompts.py` that has the fault."""
    mended: str
    place: str
    """What the finding says of the place."""
    becomes: str
    """How the text there begins before, and then."""


REPORTS = {
    "nearai/ironclaw#6987": Report(
        "nudge", "nudge_behind", "the instructions, `messages[0]` at character 5",
        "'You look after",
    ),
    "holon-run/holon#1534": Report(
        "scoped", "scoped_behind", "the instructions, `messages[0]` at character 12",
        "'Home. Turn 1.",
    ),
    "MervinPraison/PraisonAI#3352": Report(
        "shuffled", "ordered", "the tools, `tools[0]`", "'heating, blinds, lights'"
    ),
    "goruck/home-generative-agent#617": Report(
        "clock_first", "clock_behind", "the instructions, `messages[0]` at character 24",
        "'Current time is 09:00:0",
    ),
    "goruck/home-generative-agent#619": Report(
        "relevant", "relevant_behind", "the tools, `tools[0]`", "'lights, heating, blinds'"
    ),
    "janhq/jan#8967": Report(
        "todo_first", "todo_behind", "the messages, `messages[1]` at character 8",
        "'To do: 1 of 3.'",
    ),
    "NousResearch/hermes-agent#100336": Report(
        "rebuilt_prompt", "rebuilt_never", "the instructions, `messages[0]` at character 9",
        "'Memory: none.",
    ),
}  # fmt: skip
"""Those of `docs/how-to/prompt-caches.md`."""
TALK = """
turns:
  - {{user: Good morning, replies: {{home: {first}}}}}
  - {{user: Warmer, pause: 4s, replies: {{home: Done.}}}}
  - {{user: Thanks, pause: 4s, replies: {{home: Bye.}}}}
"""


def warnings_of(app: str) -> list[str]:
    """What CTX-20 says of an assistant."""
    has_tools = app in ("shuffled", "ordered", "relevant", "relevant_behind")
    first = "[{calls: [{lights: {room: hall}}]}, Done.]" if has_tools else "Hello."
    ran = run_app(f"cached_prompts:{app}", TALK.format(first=first))
    return [hit.what for hit in hits_of("CTX-20", ran.trace)]


@pytest.mark.parametrize("name", REPORTS)
def test_a_reported_fault_is_found_with_its_place_and_not_in_the_mended_twin(name: str) -> None:
    report = REPORTS[name]

    problem, *_ = warnings_of(report.fault)

    assert f"tokens after {report.place}: {report.becomes}" in problem
    assert warnings_of(report.mended) == []
    page = Path("docs/explanation/found-unasked.md").read_text(encoding="utf-8")
    assert re.search(rf"^\|[^|]*\b{name.partition('/')[2]}\b[^|]*\|.*\| CTX-20 \|", page, re.M)


LONG = "Say what each repair of a bicycle costs, and be kind to all who ask. " * 60
"""About 1,000 tokens."""
TALKS = [user(LONG), assistant("Well.")]
LOOK, COUNT = Offer("look", {}, "Looks up."), Offer("count", {}, "Counts.")


def problems_of(*requests: list[Message], offers: tuple[list[Offer], ...] = ()) -> list[str]:
    """What is found in the requests of one conversation."""
    desk = Desk()
    for place, messages in enumerate(requests):
        desk.turn("Hello")
        desk.answers(desk.asks(messages, "a", *(offers[place] if offers else ())), "Hi.")
        desk.ends("Hi.")
    desk.recorder.events.record_run_end(desk.recorder.at(None), error=None)
    return [hit.what for hit in hits_of("CTX-20", desk.trace)]


@pytest.mark.parametrize(
    ("requests", "offers"),
    [
        (([system(LONG), *TALKS], [system(LONG), *TALKS, user("Go on.")]), ()),
        (([system(f"9. {LONG[:900]}"), user("Hi")], [system(f"8. {LONG[:900]}"), user("Hi")]), ()),
        (([system("9."), user(LONG)], [system("8."), user(f"{LONG}?")]), ()),
        (([system("A."), *TALKS, user("b")], [system("A."), *TALKS[1:], user("b")]), ()),
        (([system("Sum 1."), *TALKS], [system("Sum 2."), *TALKS[1:]]), ()),
        (([system("A."), user("Task 1"), *TALKS], [system("A."), user("Other")]), ()),
        (([system("A."), *TALKS, user(LONG)], [system("A."), TALKS[0], user("Cut."), user(LONG)]),
         ()),
        (([system(LONG)], [system(LONG)]), ([LOOK, COUNT], [LOOK, COUNT])),
    ],
    ids=["it goes on", "short instructions", "another task", "a window", "a summary for a turn",
         "another conversation", "an old answer that is cut", "the same tools"],
)  # fmt: skip
def test_what_a_cache_could_not_reuse_and_what_changes_on_purpose_is_none(
    requests: tuple[list[Message], ...], offers: tuple[list[Offer], ...]
) -> None:
    assert problems_of(*requests, offers=offers) == []


def test_each_part_of_an_agents_requests_is_reported_once_with_the_sum() -> None:
    requests = [[system(f"It is {hour}. {LONG}"), user("Hi")] for hour in range(1, 25)]

    (problem,) = problems_of(*requests)

    assert problem.startswith("agent 'a' is sent other instructions in turn 2 than in its ")
    assert "no prompt cache can reuse 1038 tokens" in problem
    assert "; in 23 calls that are 23,8" in problem


RECIPE = """
channels: {messages: {reducer: append, scope: session}, topic: {scope: session, default: bikes}}
agents:
  desk:
    instructions: "TEXT"
    context: [instructions, {shared: {from: topic, name: known}}, history, current_message]
    writes: {messages: ["${run.final_message}"], topic: trains}
flow: {handoffs: {start: desk}}
"""
TWICE = (
    "turns: [{user: a, pause: 1s, replies: {desk: b}}, {user: c, pause: 1s, replies: {desk: d}}]"
)


def test_a_declared_section_changes_a_front_on_purpose_and_a_reference_does_not() -> None:
    on_purpose = run_yaml(RECIPE.replace("TEXT", LONG), TWICE)
    by_clock = run_yaml(RECIPE.replace("TEXT", f"It is ${{now}}. {LONG}"), TWICE)

    assert hits_of("CTX-20", on_purpose.trace) == []
    (hit,) = hits_of("CTX-20", by_clock.trace)
    assert hit.data["place"] == "instructions"


@pytest.mark.parametrize(("model", "count"), [("gpt-5-mini", 1), ("claude-haiku-4-5", 0)])
def test_a_providers_minimum_decides_whether_anything_is_lost(model: str, count: int) -> None:
    desk = Desk()
    for number in range(2):
        desk.turn("Hello")
        desk.answers(desk.asks([system(f"{number} {LONG}"), user("Hi")], model=model), "Hi.")
        desk.ends("Hi.")
    desk.recorder.events.record_run_end(desk.recorder.at(None), error=None)

    assert len(hits_of("CTX-20", desk.trace)) == count


PASSED_ON = """
pipeline: p
agents: {desk: {instructions: Help., handoffs: [billing]}, billing: {instructions: Answer.}}
contracts: [{from: desk, to: billing, payload: {type: object}}]
flow: {handoffs: {start: desk}}
"""
TURN_PASSED_ON = """
  - user: {number} WORDS
    replies:
      desk: {{handoff: {{to: billing, payload: {{order: {number}}}}}}}
      billing: {number} WORDS
""".replace("WORDS", "and a few more words on that. " * 9)


@pytest.mark.slow
def test_a_growing_request_is_read_again_only_when_it_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each turn has another handoff in front of the history, which no cache could help."""
    between = Mock(wraps=prefix_between)
    monkeypatch.setattr(prefixes, "prefix_between", between)
    turns = "".join(TURN_PASSED_ON.format(number=number) for number in range(150))
    outcome = run_yaml(PASSED_ON, f"turns:\n{turns}")

    assert hits_of("CTX-20", outcome.trace) == []
    assert 0 < between.call_count <= 60

"""Pipelines that are code, led from Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from simkit import Simulation, SourceError
from simkit.capture.http.interception import patched
from simkit.matchers import contains, message, partial

pytest.importorskip("openai")

AGENTS: dict[str, Any] = {
    "triage": {"system": {"$starts": "You are the triage agent"}},
    "flights": {"system": {"$starts": "You are the flight agent"}, "handoff": "to_flights"},
}
APP: dict[str, Any] = {
    "path": ["."], "call": "ask", "tools": {"find_flights": "travel:find_flights"}
}  # fmt: skip
FLIGHT: dict[str, Any] = {
    "triage": {"handoff": {"to": "flights", "payload": {"destination": "Lisbon"}}},
    "flights": [{"calls": {"find_flights": {"to": "Lisbon", "day": "Friday"}}}, "One at 9:40."],
}


def travelling(**options: Any) -> Simulation:
    return Simulation("travel:Desk", **{"agents": AGENTS, "app": APP, **options})


def test_a_pipeline_that_is_code_can_be_looked_at_from_all_sides() -> None:
    with travelling() as desk:
        run = desk.say(
            "To Lisbon on Friday", replies=FLIGHT, tool_results={"find_flights": [["9:40"]]}
        )

        assert run.reply == "One at 9:40."
        assert run.agents == ["triage", "flights"]
        assert run.context("flights", 0) == [
            message(system=contains("Lisbon")),
            message(user="To Lisbon on Friday"),
        ]
        assert run.handoffs == [partial({"to": "flights", "payload": {"destination": "Lisbon"}})]
        assert run.tool_calls == [partial({"tool": "find_flights", "result": ["9:40"]})]


def test_a_name_that_is_nearly_one_of_the_codes_own_is_misspelt_and_another_may_be() -> None:
    with travelling() as desk:
        run = desk.say(
            "To Lisbon on Friday", replies=FLIGHT, tool_results={"find_flights": [["9:40"]]}
        )

        assert partial({"tool": "cancel_everything"}) not in run.tool_calls
        assert message(agent="concierge") not in run.context("flights", 0)
        for asking, report in (
            (lambda: partial({"tool": "find_flihts"}) not in run.tool_calls, "`find_flights`?"),
            (lambda: "find_flihts" not in run.context("flights", 0).tools, "`find_flights`?"),
            (lambda: message(agent="flihts") not in run.context("flights", 0), "`flights`?"),
            (lambda: "flihts" not in run.agents, "`flights`?"),
            (lambda: partial({"to": "flihts"}) not in run.handoffs, "`flights`?"),
        ):
            with pytest.raises(
                ValueError, match=f"^unknown (agent|tool) .*did you mean .*{report}"
            ):
                asking()


def test_a_misspelt_agent_of_code_is_told_with_the_one_that_ran() -> None:
    with travelling() as desk:
        run = desk.say("To Lisbon", replies={"triage": "Where from?", "triag": "Hi."})

        problems = [finding.what for finding in run.findings]

    assert any(
        "'triag' never ran" in problem and "did you mean `triage`?" in problem
        for problem in problems
    )


def test_who_has_no_reply_is_told_for_whom_one_may_be_meant() -> None:
    with travelling() as desk:
        run = desk.say("To Lisbon", replies={"triag": "Where from?"})

        assert "no reply for it (the turn has replies for triag): is `triag` meant" in (
            run.error.message if run.error else ""
        )
        assert run.findings != []


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (lambda run: run.context("triage").section("history") == [], "say it: `agents="),
        (lambda run: message(section="history") not in run.context("triage"), "say it: `agents="),
        (lambda run: run.context("triage").sections, "sections of contexts cannot be seen"),
        (lambda run: run.context("triage").dropped, "what filters drop cannot be seen"),
        (lambda run: run.context("triage").left_out, "sections of contexts cannot be seen"),
        (lambda run: run.state, "the state cannot be seen"),
        (lambda run: run.logs, "log records are not seen"),
    ],
)
def test_what_the_code_does_not_show_is_not_empty(asking: Any, expected: str) -> None:
    with travelling() as desk:
        run = desk.say("Hello", replies={"triage": "Hi."})

        with pytest.raises((SourceError, ValueError)) as caught:
            asking(run)

    assert expected in str(caught.value)


def test_it_remembers_the_turns_before_and_each_is_run_once() -> None:
    with travelling() as desk:
        desk.say("Hello", replies={"triage": "Hi."})
        assert desk.view.turns[0].reply == "Hi."

        run = desk.say("Who are you?", replies={"triage": "A travel desk."})

        assert run.context("triage")[1:] == [
            message(user="Hello"), message(assistant="Hi."), message(user="Who are you?"),
        ]  # fmt: skip


def test_its_environment_and_modules_are_there_until_its_end() -> None:
    before, folder = os.environ.get("OPENAI_API_KEY"), str(Path(__file__).parent)
    holds = folder in sys.path
    with travelling(app={**APP, "env": {"SHOP": "test"}}) as desk:
        assert desk.say("Hello", replies={"triage": "Hi."}).reply == "Hi."
        assert (os.environ["OPENAI_API_KEY"], os.environ["SHOP"]) == ("simkit", "test")

    assert (os.environ.get("OPENAI_API_KEY"), os.environ.get("SHOP")) == (before, None)
    assert (folder in sys.path) == holds


def test_a_mapping_may_name_the_code_and_what_belongs_to_it() -> None:
    pipeline = {
        "version": 1, "pipeline": "desk", "code": "travel:Desk", "app": APP, "agents": AGENTS,
    }  # fmt: skip

    with Simulation(pipeline) as desk:
        assert desk.say("Hello", replies={"triage": "Hi."}).reply == "Hi."


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"agents": {}}, "a model call belongs to no agent: POST https://api.openai.com"),
        ({"app": {**APP, "pth": []}}, "unknown option of an app `pth`"),
        ({"app": {"path": ["."], "call": "chat"}}, "which has no method 'chat' (`app.call`)"),
    ],
)
def test_what_is_wrong_with_it_is_told_at_its_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SourceError) as caught:
        print(travelling(**options).say("Hello", replies={"triage": "Hi."}).reply)

    assert text in str(caught.value)
    assert caught.value.where.split(":")[0].endswith("test_from_python.py")
    assert [item.library for item in patched() if item.way] == []  # Nothing is left replaced.


PAIR = """\
import asyncio

from openai import AsyncOpenAI

client = AsyncOpenAI()


async def ask(agent, text):
    messages = [{"role": "system", "content": agent}, {"role": "user", "content": text}]
    answer = await client.chat.completions.create(model="m", messages=messages)
    return answer.choices[0].message.content


async def run(text):
    return " ".join(await asyncio.gather(ask("first", text), ask("second", text)))
"""


@pytest.mark.parametrize("attempt", range(5))
def test_agents_that_are_gathered_ask_in_the_order_in_which_they_were_named(
    tmp_path: Path, attempt: int
) -> None:
    # A new client asks a thread for its platform, and so would each of two that begin together.
    name = f"pair_{attempt}"
    (tmp_path / f"{name}.py").write_text(PAIR, encoding="utf-8")
    rules = {"first": "first", "second": "second"}

    with Simulation(f"{name}:run", agents=rules, app={"path": [str(tmp_path)]}) as pair:
        run = pair.say("Go", replies={"first": "1", "second": "2"})

        assert (run.reply, run.agents) == ("1 2", ["first", "second"])

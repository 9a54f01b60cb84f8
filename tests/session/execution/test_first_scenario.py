"""The first scenario of an app: what is written of a first run."""

from __future__ import annotations

import msgspec
import pytest

from simkit.core.messages import Message, ToolCall
from simkit.providers.values import ParsedRequest, ParsedResponse
from simkit.session.execution.first_run import UNMARKED, FirstRun, ObservedCall
from simkit.session.execution.first_scenario import agents_of, rules_of, scenario_of


def observed_call(agent: str, answer: Message) -> ObservedCall:
    request = ParsedRequest("openai-chat", "m", (Message("user", "Hi"),))
    return ObservedCall(0, agent, request, ParsedResponse(answer))


def test_a_rule_names_a_handoff_tool_only_if_nobody_else_does() -> None:
    passes = Message("assistant", calls=(ToolCall("c1", "pass_on", {"name": "refunds"}),))
    calls = (
        observed_call("triage", passes),
        observed_call("refunds", Message("assistant", "Refunded.")),
    )
    runs = [FirstRun(calls, (), {}, targets) for targets in (frozenset(), frozenset({"refunds"}))]

    unknown, known = (scenario_of(run, "s", "desk:answer", {}, [{"user": "Hi"}]) for run in runs)

    assert unknown.pop("agents") == {"refunds": {"handoff": "pass_on"}}
    assert known == unknown
    assert known["turns"][0]["replies"]["triage"] == {
        "handoff": {"to": "refunds", "payload": {"name": "refunds"}}
    }


def test_tools_that_the_options_name_stay() -> None:
    call = observed_call("triage", Message("assistant", "Hello."))
    app = {"tools": {"find": "desk:find"}}

    assert (
        scenario_of(FirstRun((call,), (), {}), "s", "desk:answer", app, [{"user": "Hi"}])["app"]
        == app
    )


@pytest.mark.parametrize("choice", ["note", "required"])
def test_a_tool_that_must_be_called_passes_no_control(choice: str) -> None:
    """So code gets an answer in a form; that another agent speaks next is the code's own way."""
    notes = Message("assistant", calls=(ToolCall("c1", "note", {"facts": []}),))
    first = observed_call("reader", notes)
    first.model_request = msgspec.structs.replace(first.model_request, choice=choice)
    calls = (first, observed_call("writer", Message("assistant", "Written.")))

    scenario = scenario_of(FirstRun(calls, (), {}), "s", "desk:answer", {}, [{"user": "Hi"}])

    assert "agents" not in scenario
    assert scenario["turns"][0]["replies"]["reader"] == {"calls": [{"note": {"facts": []}}]}


def test_of_tools_called_at_once_the_one_whose_name_says_so_has_passed_control() -> None:
    both = Message("assistant", calls=(ToolCall("c1", "find", {}), ToolCall("c2", "to_boss", {})))
    calls = (observed_call("scout", both), observed_call(UNMARKED, Message("assistant", "Well.")))

    first = FirstRun(calls, (), {})

    assert agents_of(first) == ["scout", "boss"]
    assert "handoff" not in rules_of(first)["boss"]

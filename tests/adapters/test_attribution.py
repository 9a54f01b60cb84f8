"""Whose a model call is: by header or rule, else an error that proposes the rule."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from simkit.adapters.attribution import Attribution, rule_lines
from simkit.core.errors import CallUnattributed
from simkit.core.messages import Message
from simkit.language.yaml import load_text
from simkit.providers.http import HttpRequest
from simkit.providers.values import Offer, ParsedRequest
from simkit.spec.scenario.apps import AgentRule

REQUEST = HttpRequest("POST", "https://api.openai.com/v1/chat/completions")


def make_request(
    system: str = "You are the triage agent.", user: str = "Hello", **more: Any
) -> ParsedRequest:
    messages = (Message("system", system),) if system else ()
    return ParsedRequest("openai-chat", "gpt-5-mini", (*messages, Message("user", user)), **more)


def rules(**agents: dict[str, Any]) -> Attribution:
    return Attribution({name: AgentRule.model_validate(rule) for name, rule in agents.items()})


def agent_of(attribution: Attribution, parsed_request: ParsedRequest, **headers: str) -> str:
    request = HttpRequest("POST", REQUEST.url, tuple(headers.items()))
    return attribution.agent_of(parsed_request, request)


def refused(attribution: Attribution, parsed_request: ParsedRequest) -> str:
    with pytest.raises(CallUnattributed) as caught:
        attribution.agent_of(parsed_request, REQUEST)
    return str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        {"system": "You are the triage agent."},
        {"system": {"$starts": "You are the triage"}},
        {"system": {"$regex": "triage|desk"}},
        {"messages": {"$has": [{"user": "Hello"}]}},
        {"tools": {"$has": ["look"]}},
        {"tools": ["look"]},
        {"model": "gpt-5-mini"},
        {"settings": {"temperature": 0}},
        {"header": {"x-team": "triage"}},
        {"system": {"$contains": "triage"}, "model": {"$starts": "gpt"}},
    ],
    ids=lambda rule: ", ".join(rule),
)
def test_a_rule_speaks_of_any_part_of_the_request(rule: dict[str, Any]) -> None:
    attribution = rules(triage=rule, other={"system": "Something else."})
    call = make_request(offers=(Offer("look"),), settings={"temperature": 0})

    assert agent_of(attribution, call, **{"X-Team": "triage"}) == "triage"


def test_all_that_a_rule_says_must_hold() -> None:
    attribution = rules(
        small={"system": {"$contains": "triage"}, "model": "gpt-5-mini"},
        large={"system": {"$contains": "triage"}, "model": "gpt-5"},
    )

    assert agent_of(attribution, make_request()) == "small"


def test_several_system_messages_are_one_text() -> None:
    messages = (Message("system", "One."), Message("user", "Hi"), Message("system", "Two."))
    call = ParsedRequest("openai-chat", "m", messages)

    assert agent_of(rules(a={"system": "One.\n\nTwo."}), call) == "a"


def test_a_header_says_it_before_any_rule() -> None:
    attribution = rules(triage={"system": {"$contains": "triage"}})

    assert agent_of(attribution, make_request(), **{"X-Simkit-Agent": "billing"}) == "billing"


def test_a_rule_that_only_names_handoffs_is_nobodys() -> None:
    attribution = rules(triage={"handoff": "to_triage"}, other={"system": {"$contains": "triage"}})

    assert agent_of(attribution, make_request()) == "other"


def test_a_call_of_nobody_shows_itself_and_proposes_the_rule() -> None:
    attribution = rules(triage={"system": "Never."}, billing={"system": "Neither."})

    assert refused(attribution, make_request()) == (
        "a model call belongs to no agent: POST https://api.openai.com/v1/chat/completions, "
        "model gpt-5-mini\n"
        "  system: You are the triage agent.\n"
        "  user: Hello\n"
        "The rules know: triage, billing.\n"
        'Name its agent with `with simkit.agent("name"):` around the call, or by a rule in the '
        "scenario:\n"
        "  agents:\n"
        '    name: {system: {$eq: "You are the triage agent."}}'
    )


def test_a_call_without_instructions_is_told_by_its_messages() -> None:
    assert refused(rules(), make_request(system="", user="Hello\n  you" * 40)).splitlines() == [
        "a model call belongs to no agent: POST https://api.openai.com/v1/chat/completions, "
        "model gpt-5-mini",
        "  user: " + " ".join(("Hello\n  you" * 40).split())[:199] + "…",
        'Name its agent with `with simkit.agent("name"):` around the call, or by a rule in the '
        "scenario:",
        "  agents:",
        "    name: {messages: {$has: [{user: {$starts: Hello}}]}}",
    ]


def test_a_call_that_several_rules_fit_is_an_error() -> None:
    attribution = rules(triage={"system": {"$contains": "triage"}}, desk={"model": "gpt-5-mini"})

    assert refused(attribution, make_request()) == (
        "a model call fits the attribution rules of `triage`, `desk`: make them narrower\n"
        "  system: You are the triage agent.\n"
        "  user: Hello"
    )


@pytest.mark.parametrize(
    ("system", "rule"),
    [
        ("Short.", '{$eq: "Short."}'),
        ("First line.\nSecond line.", '{$starts: "First line."}'),
        ('Say "hi": {x}', '{$eq: "Say \\"hi\\": {x}"}'),
        ("  Indented.", '{$contains: "Indented."}'),
        ("In ${city}.", '{$eq: "In $${city}."}'),
        ("x" * 80, '{$starts: "' + "x" * 60 + '"}'),
    ],
    ids=["whole", "first line", "quoted", "indented", "no reference", "beginning"],
)
def test_the_proposed_rule_is_short_yaml(system: str, rule: str) -> None:
    assert rule_lines("triage", system) == ["  agents:", f"    triage: {{system: {rule}}}"]


@pytest.mark.parametrize(
    ("system", "others", "rule"),
    [
        (
            "Today is 2026-01-05. You are the billing agent.", [],
            'system: {$contains: "You are the billing agent"}',
        ),
        ("You help customer C-20417 with refunds.", [], 'system: {$starts: "You help customer"}'),
        (
            "You are helpful.\nYou sell.", ["You are helpful.\nYou repair."],
            'system: {$contains: "You sell."}',
        ),
        ("2026-01-05\nSell.", [], 'system: {$contains: "Sell."}'),
        ("Be kind.", ["Be kind."], 'system: {$eq: "Be kind."}, tools: {$has: [look]}'),
        ("Be kind.", ["Be kind. Be brief."], 'system: {$eq: "Be kind."}'),
    ],
)  # fmt: skip
def test_the_proposed_rule_holds_tomorrow_and_of_no_other_agent(
    system: str, others: list[str], rule: str
) -> None:
    lines = rule_lines("triage", system, others, ["look"])

    assert lines == ["  agents:", f"    triage: {{{rule}}}"]


def test_what_other_agents_said_is_no_part_of_the_proposed_rule() -> None:
    attribution = rules(sales={"system": {"$contains": "You sell."}})
    agent_of(attribution, make_request(system="You are helpful.\nYou sell."))

    text = refused(attribution, make_request(system="You are helpful.\nYou repair things."))

    assert text.endswith('name: {system: {$contains: "You repair things."}}')


@pytest.mark.parametrize(
    ("near", "message", "expected"),
    [
        (
            {"system": {"$starts": "You are the triaje agent"}},
            "system: {$starts: You are the triaje agent}", 'system is "You are the triage agent."',
        ),
        (
            {"system": {"$contains": "triage"}, "model": "gpt-5"}, "model: gpt-5",
            'model is "gpt-5-mini"',
        ),
        (
            {"system": "You are a triage agent"}, "system: You are a triage agent",
            'system is "You are the triage agent."',
        ),
    ],
)  # fmt: skip
def test_the_rule_that_nearly_fits_is_shown(
    near: dict[str, Any], message: str, expected: str
) -> None:
    attribution = rules(sales={"system": "Never."}, triage=near, other={"model": "claude"})

    assert f"\nNearly fits: the rule of `triage`, but for `{message}`.\n  {expected}\n" in refused(
        attribution, make_request()
    )


def test_a_second_system_message_that_keeps_a_rule_from_fitting_is_shown() -> None:
    attribution = rules(triage={"system": {"$eq": "You are the triage agent."}})
    call = make_request(system="You are the triage agent.")
    call = replace(call, messages=(Message("system", "Notes: none."), *call.messages))
    second = replace(call, messages=(call.messages[1], call.messages[0], *call.messages[2:]))

    assert '  system is "You are the triage agent.\\n\\nNotes: none."' in refused(
        attribution, second
    )


def test_a_rule_that_is_only_the_beginning_is_shown_with_the_operator() -> None:
    attribution = rules(
        triage={"system": "You are the triage agent."}, refunds={"system": "You are refunds."}
    )

    message = refused(attribution, make_request(system="You are the triage agent. Be brief."))

    assert message.splitlines()[-6:] == [
        "The rules know: triage, refunds.",
        "Nearly fits: the rule of `triage`, but for `system: You are the triage agent.`.",
        '  system is "You are the triage agent. Be brief."',
        "That rule wants these instructions alone, and there are more. Write:",
        "  agents:",
        "    triage: {system: {$starts: You are the triage agent.}}",
    ]


@pytest.mark.parametrize("system", ["Short.", "  Indented.\nMore.", "First.\n\nThen.", "x" * 80])
def test_the_proposed_rule_holds_of_the_call(system: str) -> None:
    text = "\n".join(rule_lines("triage", system))
    (document,) = load_text(text, "rule.yaml")

    assert agent_of(rules(**document.data["agents"]), make_request(system=system)) == "triage"

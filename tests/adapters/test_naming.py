"""Names for agents that say nothing of themselves, and rules that tell their calls apart."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.adapters.attribution import proposed_name, rule_of, signatures_of
from simkit.core.messages import Message
from simkit.providers.values import Offer, ParsedRequest


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("You are the triage agent of a travel desk. Pass on.", "triage_agent"),
        ("You are a helpful assistant.", "helpful_assistant"),
        ("You're an expert in tax law", "expert"),
        ("Act as our night nurse, and be kind.", "night_nurse"),
        ("Summarise the text.\nYou are the editor.", "summarise_the_text"),
        ("  \n", "assistant"),
        ("# IDENTITY and PURPOSE\n- You are a research planner.", "research_planner"),
        ("\n< Role >\nYou are the mailman.\n</ Role >", "mailman"),
        ("**You are the cook.**\nCook.", "cook"),
        ("# HEADINGS ALONE", "headings_alone"),
        ("あなたは係です。", "あなたは係です"),
    ],
)
def test_a_name_is_proposed_from_the_first_sentence(system: str, name: str) -> None:
    assert proposed_name(system) == name


def make_request(system: str, *tools: str) -> ParsedRequest:
    messages = (Message("system", system),) if system else ()
    return ParsedRequest("openai-chat", "m", messages, tuple(Offer(tool) for tool in tools))


def rules(*calls: ParsedRequest) -> dict[str, Any]:
    signatures, _ = signatures_of(calls)
    return {signature.name: rule_of(signature, signatures) for signature in signatures}


def test_agents_are_told_apart_by_what_they_are() -> None:
    assert rules(
        make_request("You are the clerk. Known: a"),
        make_request("You are the boss."),
        make_request("You are the clerk. Known: b"),
    ) == {
        "clerk": {"system": {"$starts": "You are the clerk"}},
        "boss": {"system": {"$starts": "You are the boss"}},
    }


def test_one_role_that_begins_like_another_is_told_by_more_words() -> None:
    assert rules(
        make_request("You are the clerk."), make_request("You are the clerk of the night.")
    ) == {
        "clerk": {"system": {"$starts": "You are the clerk."}},
        "clerk_2": {"system": {"$starts": "You are the clerk of the night."}},
    }


def test_instructions_that_go_on_where_others_end_are_told_by_being_whole() -> None:
    assert rules(make_request("Go on"), make_request("Go on and on")) == {
        "go_on": {"system": {"$eq": "Go on"}},
        "go_on_and_on": {"system": {"$starts": "Go on and on"}},
    }


def test_agents_under_one_heading_are_told_apart() -> None:
    heading = "# IDENTITY and PURPOSE\n"
    calls = (make_request(f"{heading}- You plan."), make_request(f"{heading}- You write."))

    assert rules(*calls) == {
        "you_plan": {"system": {"$starts": f"{heading}- You plan."}},
        "you_write": {"system": {"$starts": f"{heading}- You write."}},
    }


def test_an_agent_under_a_heading_that_differs_is_told_by_the_rest() -> None:
    calls = (
        make_request("# Monday\nYou are the clerk."),
        make_request("# Friday\nYou are the clerk."),
        make_request("# Monday\nYou are the boss."),
    )

    assert rules(*calls) == {
        "clerk": {"system": {"$contains": "You are the clerk."}},
        "boss": {"system": {"$starts": "# Monday\nYou are the boss."}},
    }


def test_an_empty_line_before_instructions_is_part_of_their_beginning() -> None:
    calls = (make_request("\n  You are the clerk.\n"), make_request("\n  Go on."))

    assert rules(*calls) == {
        "clerk": {"system": {"$starts": "\n  You are the clerk"}},
        "go_on": {"system": {"$starts": "\n  Go on."}},
    }


def test_agents_with_the_same_instructions_are_told_by_their_tools() -> None:
    assert rules(make_request("Help.", "search", "log"), make_request("Help.", "book")) == {
        "help": {"system": {"$starts": "Help."}, "tools": {"$has": ["log"]}},
        "help_2": {"system": {"$starts": "Help."}, "tools": {"$has": ["book"]}},
    }


def test_a_call_without_tools_is_the_same_agents() -> None:
    _, owner = signatures_of([make_request("Help.", "search"), make_request("Help.")])

    assert [signature.name for signature in owner] == ["help", "help"]


def test_an_agent_without_instructions_has_a_rule_too() -> None:
    assert rules(make_request(""), make_request("You are the boss.")) == {
        "assistant": {"system": ""},
        "boss": {"system": {"$starts": "You are the boss"}},
    }

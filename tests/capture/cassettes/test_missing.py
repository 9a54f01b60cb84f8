from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from simkit.capture.cassettes import Cassette, Interaction, Player, absent, missing
from simkit.capture.cassettes.missing import COMPARED_MAX
from simkit.core.errors import CassetteMissed
from simkit.providers.http import HttpRequest
from tests.capture.cassettes.requests import KEYING, chat, post, recorded

AGAIN = "simkit record 'a.scenario.yaml::late refund'"
TEXT = "POST /v1/chat/completions"


def missed(
    *items: Interaction,
    call: HttpRequest,
    policy: Any = "content",
    agent: str = "billing",
    turn: int = 1,
    played: tuple[HttpRequest, ...] = (),
) -> str:
    """What a player says that cannot answer."""
    play = Player(Cassette(Path("a.yaml"), items), KEYING, policy, AGAIN)
    for request in played:
        play.take(agent, turn, request)
    with pytest.raises(CassetteMissed) as caught:
        play.take(agent, turn, call)
    return str(caught.value)


def tool(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": more}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def test_miss_names_the_message_that_changed_and_what_came_and_went() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "price", "arguments": '{"n": 1}'}}
    used: list[Any] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
    ]
    other = recorded(chat("Something else entirely"), "0")
    near = recorded(chat("Where is order 17?\nPlease.", *used, "And now?"), "1", call=2)

    text = missed(
        other, near, call=chat("Where is order 18?\nPlease.", *used, used[0], temperature=0.5)
    )

    assert text == (
        f"a.yaml: no recording answers agent 'billing' in turn 1: {TEXT}\n"
        "  nothing was recorded that asks the same\n"
        "  nearest: interactions[1], agent 'billing', turn 1, call 2, has not answered yet\n"
        "      = 1 message\n"
        "    ~ messages[1] user\n"
        "        - Where is order 17?\n"
        "        + Where is order 18?\n"
        "        = 1 line\n"
        "      = 2 messages\n"
        "    - messages[4] user, recorded, not asked now\n"
        "        And now?\n"
        "    + messages[4] assistant, not recorded\n"
        '        calls price({"n": 1})\n'
        "    + settings.temperature: 0.5\n"
        f"  if the change is meant, record again: {AGAIN}"
    )


def test_miss_tells_settings_and_tools_apart_from_messages() -> None:
    near = recorded(chat("hi", tools=[tool("price"), tool("stock")], temperature=0), "1")

    text = missed(near, call=chat("hi", tools=[tool("price", n={})], temperature=1, stream=True))

    assert text == (
        f"a.yaml: no recording answers agent 'billing' in turn 1: {TEXT}\n"
        "  nothing was recorded that asks the same\n"
        "  nearest: interactions[0], agent 'billing', turn 1, call 1, has not answered yet\n"
        "      = 2 messages\n"
        "    + tools.price.schema.properties.n: {}\n"
        '    - tools.stock: {"description": "", "schema": {"properties": {}, "type": "object"}}\n'
        "    ~ settings.temperature: 0 → 1\n"
        "    ~ streamed: false → true\n"
        f"  if the change is meant, record again: {AGAIN}"
    )


def test_miss_shows_the_place_where_long_lines_part() -> None:
    near = recorded(chat("so " * 60 + "it was seventeen"), "1")

    text = missed(near, call=chat("so " * 60 + "it was eighteen"))

    assert (
        "        - …so so so so so it was seventeen\n        + …so so so so so it was eighteen\n"
    ) in text


def test_miss_of_what_is_no_model_call_compares_bodies() -> None:
    near = recorded(post({"order": {"id": 1, "n": 2}}, "https://x.com/orders"), "1")

    text = missed(near, call=post({"order": {"id": 7, "n": 2}}, "https://x.com/orders"))

    assert text == (
        "a.yaml: no recording answers agent 'billing' in turn 1: POST /orders\n"
        "  nothing was recorded that asks the same\n"
        "  nearest: interactions[0], agent 'billing', turn 1, call 1, has not answered yet\n"
        "    ~ body.order.id: 1 → 7\n"
        f"  if the change is meant, record again: {AGAIN}"
    )


REASONS = {
    "already played": (
        {"items": (recorded(chat("a"), "1"),), "played": (chat("a"),)},
        "it was recorded 1 time, and every recording has answered",
        "interactions[0], agent 'billing', turn 1, call 1, has answered already",
    ),
    "other agent": (
        {"items": (recorded(chat("a"), "1", "triage"),)},
        "it was recorded, but asked by agent 'triage'",
        "interactions[0], agent 'triage', turn 1, call 1, has not answered yet",
    ),
    "other turn": (
        {"items": (recorded(chat("a"), "1", turn=3),), "policy": "strict"},
        "it was recorded in turn 3",
        "interactions[0], agent 'billing', turn 3, call 1, has not answered yet",
    ),
    "used up": (
        {"items": (recorded(chat("b"), "1"),), "policy": "per-agent", "played": (chat("b"),)},
        "the agent made 1 call in this turn when it was recorded, and every recording has answered",
        "interactions[0], agent 'billing', turn 1, call 1, has answered already\n"
        "      = 1 message\n    ~ messages[1] user\n        - b\n        + a",
    ),
}


@pytest.mark.parametrize(("given", "why", "near"), REASONS.values(), ids=REASONS)
def test_miss_says_why(given: dict[str, Any], why: str, near: str) -> None:
    rest = {key: value for key, value in given.items() if key != "items"}

    text = missed(*given["items"], call=chat("a"), **rest)

    assert text == (
        f"a.yaml: no recording answers agent 'billing' in turn 1: {TEXT}\n"
        f"  {why}\n"
        f"  nearest: {near}\n"
        f"  if the change is meant, record again: {AGAIN}"
    )


def test_miss_under_the_strict_policy_shows_what_should_have_been_asked() -> None:
    items = [recorded(chat(name), name, call=call) for call, name in enumerate("ab", 1)]

    text = missed(*items, call=chat("b"), policy="strict")

    assert text == (
        f"a.yaml: no recording answers agent 'billing' in turn 1: {TEXT}\n"
        "  it was recorded, but the agent asked something else before it\n"
        "  next: interactions[0], agent 'billing', turn 1, call 1, has not answered yet\n"
        "      = 1 message\n"
        "    ~ messages[1] user\n"
        "        - a\n"
        "        + b\n"
        f"  if the change is meant, record again: {AGAIN}"
    )


def test_miss_of_what_was_never_asked_says_how_to_record_it() -> None:
    text = missed(recorded(chat("a"), "1"), call=HttpRequest("GET", "https://x.com/rates?day=1"))

    assert text == (
        "a.yaml: no recording answers agent 'billing' in turn 1: GET /rates?day=1\n"
        "  nothing was recorded that is similar\n"
        f"  to record it: {AGAIN}"
    )


def test_miss_without_a_cassette_says_so() -> None:
    play = Player(absent("a.yaml"), KEYING, again=AGAIN)

    with pytest.raises(CassetteMissed) as caught:
        play.take("", 2, chat("a"))

    assert str(caught.value) == (
        f"a.yaml: no recording answers a call of no agent in turn 2: {TEXT}\n"
        "  there is no such cassette\n"
        f"  to record it: {AGAIN}"
    )


def test_miss_keeps_its_data_through_pickle() -> None:
    play = Player(Cassette(Path("a.yaml"), (recorded(chat("a"), "1"),)), KEYING)
    with pytest.raises(CassetteMissed) as caught:
        play.take("billing", 1, chat("b", temperature=1))

    again = pickle.loads(pickle.dumps(caught.value))

    assert str(again) == str(caught.value)
    assert (again.args[1].reason, again.args[1].number) == ("differs", 0)


def test_miss_shows_no_secret() -> None:
    secret = "AI" + "zaSyA1bC2dE3fG4hI5jK6lM7nO8pQ9rS0tU1v"

    text = missed(recorded(chat("a"), "1"), call=chat(f"use {secret}"))

    assert secret not in text
    assert "+ use [redacted:google]" in text


def test_nearest_is_searched_among_few_and_compared_with_one() -> None:
    items = tuple(recorded(chat(f"question {number}"), "") for number in range(5_000))
    play = Player(Cassette(Path("a.yaml"), items), KEYING)
    with (
        patch.object(missing, "_parts", wraps=vars(missing)["_parts"]) as parts,
        patch.object(missing, "differences", wraps=missing.differences) as differences,
        pytest.raises(CassetteMissed) as caught,
    ):
        play.take("billing", 1, chat("question 7x"))

    assert caught.value.args[1].number == 7
    assert (parts.call_count, differences.call_count) == (COMPARED_MAX + 1, 1)


@pytest.mark.parametrize(
    "url", ["https://x.com/v2/search", "https://x.com/v1/search?page=2", "https://x.com/search"]
)
def test_a_request_that_moved_is_near_the_one_with_its_body(url: str) -> None:
    body = b'{"query": "boots"}'
    request = HttpRequest("POST", "https://x.com/v1/search?page=1", (), body)
    other = HttpRequest("POST", url, (), body)

    text = missed(recorded(request, "1"), call=other)

    assert "nearest: interactions[0]" in text
    assert "path: " in text
    assert "similar" not in text


def test_another_request_at_another_address_is_not_near() -> None:
    request = HttpRequest("POST", "https://x.com/v1/search", (), b'{"query": "boots"}')
    other = HttpRequest("POST", "https://x.com/v1/order", (), b'{"id": 7}')

    assert "nothing was recorded that is similar" in missed(recorded(request, "1"), call=other)

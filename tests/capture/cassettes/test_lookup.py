from __future__ import annotations

import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from simkit.capture.cassettes import Cassette, Drift, Interaction, Keying, Player
from simkit.core.errors import CassetteMissed
from simkit.core.redact import Redactor
from simkit.providers.http import HttpResponse
from tests.capture.cassettes.requests import KEYING, answer, chat, recorded, texts


def player(*items: Interaction, policy: Any = "content", keying: Keying = KEYING) -> Player:
    return Player(Cassette(Path("a.yaml"), items), keying, policy)


def test_recordings_are_found_in_any_order() -> None:
    play = player(*(recorded(chat(name), name) for name in "abc"))

    result = [play.take("billing", 1, chat(name)) for name in "cab"]

    assert texts(result) == ["c", "a", "b"]


def test_recordings_of_one_question_answer_in_the_order_in_which_they_were_asked() -> None:
    play = player(recorded(chat("a"), "1"), recorded(chat("b"), "2"), recorded(chat("a"), "3"))

    result = [play.take("billing", 1, chat("a")) for _ in range(2)]

    assert texts(result) == ["1", "3"]
    assert [(number, item.request) for number, item in play.unplayed()] == [(1, chat("b"))]


def test_recording_answers_once() -> None:
    play = player(recorded(chat("a"), "1"))
    play.take("billing", 1, chat("a"))

    with pytest.raises(CassetteMissed):
        play.take("billing", 1, chat("a"))


def test_agents_do_not_answer_for_each_other() -> None:
    play = player(recorded(chat("a"), "1", "triage"), recorded(chat("a"), "2", "billing"))

    result = [play.take(agent, 1, chat("a")) for agent in ("billing", "triage")]

    assert texts(result) == ["2", "1"]


def test_sessions_that_ask_the_same_are_answered_each_by_its_own_in_any_order() -> None:
    items = [
        msgspec.structs.replace(recorded(chat("a"), text), session=session)
        for text, session in [("1", "s1"), ("2", "s2"), ("3", "s1"), ("4", "s2")]
    ]
    play = player(*items)

    result = [play.take("billing", 1, chat("a"), session) for session in ("s2", "s1", "s2", "s3")]

    # One that was not recorded has what is left.
    assert texts(result) == ["2", "1", "4", "3"]


@pytest.mark.parametrize("policy", ["content", "per-agent", "strict"])
def test_recording_of_nobody_answers_everybody(policy: str) -> None:
    play = player(recorded(chat("a"), "1", "", 0), policy=policy)

    result = play.take("billing", 3, chat("a"))

    assert texts([result]) == ["1"]
    assert play.drifts() == ()


def test_policy_per_agent_answers_in_order_and_reports_what_drifted() -> None:
    play = player(
        recorded(chat("a"), "1"),
        recorded(chat("x"), "2", "triage"),
        recorded(chat("b"), "3"),
        policy="per-agent",
    )

    result = [play.take("billing", 1, chat(name)) for name in "ac"]

    assert texts(result) == ["1", "3"]
    assert play.drifts() == (Drift("billing", 1, 2, chat("c")),)
    assert [number for number, _ in play.unplayed()] == [1]


def test_policy_per_agent_keeps_to_the_turn() -> None:
    play = player(
        recorded(chat("a"), "1", turn=1), recorded(chat("a"), "2", turn=2), policy="per-agent"
    )

    assert texts([play.take("billing", 2, chat("a"))]) == ["2"]


def test_policy_strict_wants_the_same_question_in_the_same_order() -> None:
    items = [recorded(chat(name), name) for name in "ab"]
    play = player(*items, policy="strict")

    with pytest.raises(CassetteMissed):
        play.take("billing", 1, chat("b"))
    assert texts([play.take("billing", 1, chat(name)) for name in "ab"]) == ["a", "b"]


def test_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'loose' is no policy; known: content, per-agent, strict"):
        player(policy="loose")


def test_secret_in_what_is_asked_does_not_hide_the_recording() -> None:
    keying = Keying(Redactor({"MY_TOKEN": "aB3dE6gH9jK2"}))
    play = player(recorded(chat("it is [redacted:env]"), "1"), keying=keying)

    assert texts([play.take("billing", 1, chat("it is aB3dE6gH9jK2"))]) == ["1"]


def test_captured_values_are_served_as_they_are_now() -> None:
    keying = Keying(Redactor({}), capture={"order": r"ORD-\d+", "folder": r'"cwd": "([^"]+)"'})
    first = recorded(chat('{"cwd": "C:/old"} ORD-1'), "ORD-1 in C:/old, not ORD-11")
    later = recorded(chat("ORD-1 in C:/old"), "ORD-1 is new", call=2)
    play = player(first, later, keying=keying)

    items = [
        play.take("billing", 1, chat('{"cwd": "C:/new"} ORD-777')),
        play.take("billing", 1, chat("ORD-777 in C:/old")),
    ]

    assert texts(items) == ["ORD-777 in C:/new, not ORD-7771", "ORD-777 is new"]


def test_sessions_capture_apart() -> None:
    keying = Keying(Redactor({}), capture={"order": r"ORD-\d+"})
    play = player(*(recorded(chat("ORD-1"), "ORD-1") for _ in range(2)), keying=keying)

    result = [play.take("billing", 1, chat(f"ORD-{n}"), f"s{n}") for n in (7, 8)]

    assert texts(result) == ["ORD-7", "ORD-8"]


def test_rewritten_stream_keeps_its_events() -> None:
    keying = Keying(Redactor({}), capture={"order": r"ORD-\d+"})
    response = HttpResponse(200, (), (b"data: ORD-1\n\n", b"data: x", b"yz\n\n"), "", (1, 2, 3))
    item = Interaction(request=chat("ORD-1"), response=response)
    play = player(item, keying=keying)

    result = play.take("billing", 1, chat("ORD-4711"))

    assert result == HttpResponse(
        200, (), (b"data: ORD-4711\n\n", b"data: x", b"yz\n\n"), "", (1, 2, 3)
    )


def test_threads_share_a_cassette_without_playing_anything_twice() -> None:
    names = [str(number % 50) for number in range(400)]
    play = player(*(recorded(chat(name), str(n)) for n, name in enumerate(names)))
    start = threading.Barrier(8)

    def ask(thread: int) -> list[HttpResponse]:
        start.wait()
        return [play.take("billing", 1, chat(name)) for name in names[thread::8]]

    with ThreadPoolExecutor(8) as threads:
        results = [response for rows in threads.map(ask, range(8)) for response in rows]

    assert Counter(texts(results)) == Counter(map(str, range(400)))
    assert play.unplayed() == ()


def calls_of(play: Player, number: int) -> int:
    """How many functions, those written in C too, one lookup calls."""
    result = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal result
        result += event in ("call", "c_call")

    request = chat(f"{number:04}")
    sys.setprofile(count)
    try:
        play.take("billing", 1, request)
    finally:
        sys.setprofile(None)
    return result


@pytest.mark.parametrize("policy", ["content", "per-agent", "strict"])
def test_lookup_takes_as_many_calls_in_a_large_cassette_as_in_a_small_one(policy: str) -> None:
    work = []
    for size in (10, 5_000):
        items = (recorded(chat(f"{number:04}"), "") for number in range(size))
        play = player(*items, policy=policy)
        order = [0, 1, 2] if policy != "content" else [size // 2, size - 1, 0]
        work.append([calls_of(play, number) for number in order][1:])

    assert work[0] == work[1]
    assert work[0][0] > 10


def test_responses_are_those_of_the_file() -> None:
    response = answer("as it is")
    play = player(Interaction(request=chat("a"), response=response, agent="billing"))

    assert play.take("billing", 1, chat("a")) is response

from __future__ import annotations

import gc
import io
import json
from collections.abc import Sequence
from typing import Any
from weakref import ref

import pytest
import vcr
from vcr.cassette import Cassette
from vcr.errors import CannotOverwriteExistingCassetteException
from vcr.matchers import get_matchers_results
from vcr.request import Request

from simkit.capture.cassettes import Keying
from simkit.core.redact import Redactor
from simkit.providers.protocols import protocol_of
from simkit.vcr import Matching, is_nearest_recording, matches_model_request, register, vcr_config
from tests.capture.cassettes.requests import CHAT_URL

OTHERS = {
    "openai-responses": ("https://api.openai.com/v1/responses", {"model": "m", "input": "SAID"}),
    "anthropic": (
        "https://api.anthropic.com/v1/messages",
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "SAID"}]},
    ),
    "gemini": (
        "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent?key=abcdefgh12",
        {"contents": [{"role": "user", "parts": [{"text": "SAID"}]}]},
    ),
}
ANSWER = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": b"{}"}}


def chat(*reply: str, url: str = CHAT_URL, **more: Any) -> Request:
    messages = [{"role": "system", "content": "You help."}]
    messages += [{"role": "user", "content": text} for text in reply]
    return request(url, {"model": "gpt-5", "messages": messages, **more})


def request(url: str, body: Any, **headers: str) -> Request:
    return Request("POST", url, json.dumps(body), {"content-type": "application/json", **headers})


def get(url: str) -> Request:
    return Request("GET", url, None, {})


def difference(call: Request, recorded: Request) -> str:
    """What the matcher says, empty if it matches; it has met neither request before."""
    try:
        Matching(Keying(Redactor({}))).matches_model_request(call, recorded)
    except AssertionError as error:
        return str(error) or "they differ, and nothing says in what"
    return ""


def cassette(recorded: Sequence[Request], **options: Any) -> Cassette:
    """vcrpy's own cassette with these recordings, configured by simkit."""
    result = register(vcr.VCR(record_mode="none", **vcr_config(**options)))
    known = result.get_merged_config(path="no file")
    names = ("match_on", "before_record_request", "before_record_response", "record_mode")
    created = Cassette("no file", **{name: known[name] for name in names})
    for item in recorded:
        created.append(item, ANSWER)
    created.rewound = True
    return created


def miss(result: Cassette, call: Request) -> str:
    """What vcrpy says of a request that its cassette does not answer."""
    assert not result.can_play_response_for(call)
    return str(CannotOverwriteExistingCassetteException(cassette=result, failed_request=call))


def test_order_of_keys_headers_host_and_what_is_circumstance_do_not_count() -> None:
    recorded = chat("hi", temperature=0)
    turned = json.dumps(dict(reversed(json.loads(recorded.body).items())), indent=2)
    call = Request(
        "POST", "http://127.0.0.1:4000/v1/chat/completions", turned.replace(": 0", ": 0.0"),
        {"user-agent": "other/2", "x-stainless-package-version": "9.9"},
    )  # fmt: skip

    assert difference(call, recorded) == ""
    assert difference(chat("hi", temperature=0, user="u-1", store=True), recorded) == ""


def test_differences_are_told_message_by_message() -> None:
    recorded = chat("hi", "My order came broken.\nHelp me.", temperature=0)

    text = difference(chat("hi", "My order came late.\nHelp me.", temperature=1), recorded)

    assert text == (
        "- recorded, + asked now\n"
        "  = 2 messages\n"
        "~ messages[2] user\n"
        "    - My order came broken.\n"
        "    + My order came late.\n"
        "    = 1 line\n"
        "~ settings.temperature: 0 → 1"
    )


@pytest.mark.parametrize("name", OTHERS)
def test_every_protocol_is_compared_by_what_it_says(name: str) -> None:
    url, body = OTHERS[name]
    recorded = request(url, body)
    other = json.loads(json.dumps(body).replace("SAID", "something else"))

    assert difference(request(url, body, **{"x-api-key": "other"}), recorded) == ""
    text = difference(request(url, other), recorded)
    assert "~ messages[0] user" in text
    assert "    - SAID\n    + something else" in text


def test_no_secret_is_told() -> None:
    key = "sk-proj-1234567890abcdefghijklmnopqrstuv"

    text = difference(chat(f"with {key} now"), chat(f"with {key}"))

    assert "+ with [redacted:openai] now" in text
    assert key not in text


def test_requests_that_are_no_model_calls_are_compared_as_vcrpy_does() -> None:
    recorded = get("https://weather.example/now?city=Oslo&unit=c")

    assert difference(get("https://weather.example/now?unit=c&city=Oslo"), recorded) == ""
    assert difference(get("http://weather.example/now?city=Rome"), recorded) == (
        "scheme: http != https\n"
        "port: 80 != 443\n"
        "query: [('city', 'Rome')] != [('city', 'Oslo'), ('unit', 'c')]"
    )
    post = request("https://a.example/search", {"q": 1})
    assert difference(post, request("https://a.example/search", {"q": 2})) == ""


def test_a_model_call_is_no_other_request() -> None:
    service = request("https://a.example/v1/search", json.loads(chat("hi").body))

    text = difference(chat("hi"), service)

    assert "~ path: /v1/search → /v1/chat/completions" in text


@pytest.mark.parametrize(
    "body",
    [io.BytesIO, lambda body: iter([body[:9], body[9:]]), bytearray, bytes.decode, json.loads],
    ids=["file", "iterator", "bytearray", "text", "data"],
)
def test_bodies_are_read_however_a_client_hands_them_over(body: Any) -> None:
    plain = chat("hi")

    call = Request("POST", CHAT_URL, body(plain.body), {})

    assert difference(call, plain) == ""
    assert difference(call, plain) == ""


def test_what_is_volatile_matches_and_the_rest_does_not() -> None:
    result = cassette([chat("It is 2026-01-02.")], volatile=[r"/\d{4}-\d\d-\d\d/"])

    assert result.can_play_response_for(chat("It is 2031-12-24."))
    assert "- It is …." in miss(result, chat("It was 2026-01-02."))


def test_vcrpys_error_tells_the_nearest_recording_alone() -> None:
    result = cassette([
        *(chat(f"question {number}") for number in range(30)),
        chat("hi", "Where is my order?", temperature=0),
        get("https://weather.example/now"),
    ])  # fmt: skip

    text = miss(result, chat("hi", "Where is my parcel?", temperature=0))

    assert text.count(CHAT_URL) == 2  # What was asked, and the nearest.
    assert "- Where is my order?" in text
    assert "+ Where is my parcel?" in text
    assert "question" not in text


def test_vcrpys_error_of_a_service_tells_what_differs() -> None:
    text = miss(cassette([get("https://weather.example/now")]), get("https://weather.example/then"))

    assert "path: /then != /now" in text


def test_a_recording_that_has_answered_is_told_as_played() -> None:
    result = cassette([chat("hi"), chat("hi!")])
    result.play_response(chat("hi"))

    assert not result.can_play_response_for(chat("hi"))
    (nearest,) = result.find_requests_with_most_matches(chat("hi"))
    assert (nearest[0], nearest[2]) == (result.requests[0], [])


def test_within_equal_questions_answers_come_in_the_order_of_recording() -> None:
    result = cassette([])
    for number in range(3):
        result.append(chat("hi"), {**ANSWER, "body": {"string": b"%d" % number}})

    played = [result.play_response(chat("hi"))["body"]["string"] for _ in range(3)]

    assert played == [b"0", b"1", b"2"]


def test_each_request_is_read_once_however_many_recordings_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def counted(request: Any) -> Any:
        read.append(request.url)
        return protocol_of(request)

    monkeypatch.setattr("simkit.vcr.protocol_of", counted)
    questions = [chat(f"question {number}", seed=number) for number in range(60)]
    result = cassette(questions, volatile=["nothing at all"])

    for question in reversed(questions):
        assert result.can_play_response_for(question)
        result.play_response(question)

    assert result.all_played
    assert len(read) == 60


def test_texts_are_made_of_one_recording_in_a_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    result = cassette([chat(f"question {number}") for number in range(50)])
    call = result.filter_request(chat("another one"))

    results = [get_matchers_results(call, item, result._match_on)[1] for item in result.requests]

    texts = [dict(failed)["matches_model_request"] for failed in results]
    assert texts[0].startswith("- recorded, + asked now")
    assert set(texts[1:]) == {"it asks something else"}


def test_neither_a_cassette_nor_its_requests_are_kept_alive() -> None:
    result = cassette([chat("hi")])
    miss(result, chat("you"))
    remaining = ref(result), ref(result.requests[0])

    del result
    gc.collect()

    assert [results() for results in remaining] == [None, None]


def test_the_matchers_of_no_options_are_there_by_name() -> None:
    assert matches_model_request(chat("a"), chat("a")) is None
    assert is_nearest_recording(chat("a"), chat("b"))

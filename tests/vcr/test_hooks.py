from __future__ import annotations

import copy
import gzip
import io
import json
import zlib
from typing import Any

import pytest
from vcr.request import Request

from simkit.core.redact import Redactor
from simkit.vcr import Hooks, before_record_request, before_record_response, body_of
from tests.capture.cassettes.requests import CHAT_URL

KEY = "sk-proj-1234567890abcdefghijklmnopqrstuv"
HIDDEN = "[redacted:openai]"
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"it is {KEY}"}]})


def answered(body: Any, **headers: list[str]) -> dict[str, Any]:
    named = {name.replace("_", "-"): values for name, values in headers.items()}
    return {"status": {"code": 200, "message": "OK"}, "headers": named, "body": {"string": body}}


def test_a_request_keeps_the_headers_that_simkit_records() -> None:
    headers = {
        "Authorization": f"Bearer {KEY}", "X-Api-Key": KEY, "Cookie": "a=b", "User-Agent": "x/1",
        "Content-Type": "application/json", "X-My-Own": "secret", "openai-beta": b"assistants=v2",
    }  # fmt: skip

    request = before_record_request(Request("POST", CHAT_URL, b"{}", headers))

    assert dict(request.headers) == {
        "Content-Type": "application/json", "openai-beta": "assistants=v2",
    }  # fmt: skip


def test_secrets_in_a_url_and_in_a_body_are_replaced() -> None:
    url = "https://weather.example/now?city=Oslo&key=abcdef123456"

    request = before_record_request(Request("POST", url, BODY, {}))

    assert request.uri == "https://weather.example/now?city=Oslo&key=[redacted:parameter]"
    assert request.body == BODY.replace(KEY, HIDDEN).replace(": ", ":").replace(", ", ",").encode()


@pytest.mark.parametrize(
    "body", [io.BytesIO, lambda body: iter([body[:90], body[90:]]), json.loads],
    ids=["file", "iterator", "data"],
)  # fmt: skip
def test_secrets_are_replaced_however_a_client_hands_a_body_over(body: Any) -> None:
    request = Request("POST", CHAT_URL, body(BODY.encode()), {})
    kind = type(request.body)

    filter_ = before_record_request(request)

    assert isinstance(filter_.body, kind)
    assert HIDDEN.encode() in body_of(filter_)
    assert KEY.encode() not in body_of(filter_)


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_what_a_client_packs_is_looked_into(encoding: str, pack: Any) -> None:
    headers = {"Content-Encoding": encoding}

    request = before_record_request(Request("POST", CHAT_URL, pack(BODY.encode()), headers))

    assert HIDDEN.encode() in body_of(request)


def test_a_request_without_secrets_stays_as_it_is() -> None:
    binary = b"\x89PNG\x00\xff\xfe"

    request = before_record_request(Request("POST", CHAT_URL, binary, {"Accept": "*/*"}))

    assert (request.uri, request.body, dict(request.headers)) == (
        CHAT_URL,
        binary,
        {"Accept": "*/*"},
    )


def test_headers_of_a_response_that_are_secret_by_name_are_left_out() -> None:
    response = answered(
        b"{}", Set_Cookie=["session=abc"], X_Auth_Token=["abc"], X_Limit=["7"],
        Location=["https://a.example/?page=2&sig=abcdef"], X_Said=[f"Bearer {KEY}"],
    )  # fmt: skip

    data = before_record_response(response)

    assert data["headers"] == {
        "X-Limit": ["7"],
        "Location": ["https://a.example/?page=2&sig=[redacted:parameter]"],
        "X-Said": [data["headers"]["X-Said"][0]],
    }
    assert KEY not in str(data)
    assert KEY in str(response)


def test_what_a_stream_says_in_pieces_is_replaced() -> None:
    events = "".join(
        "data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) + "\n\n"
        for piece in ("it is ", KEY[:12], KEY[12:], ".")
    )
    response = answered(events.encode(), Content_Type=["text/event-stream"])

    text = before_record_response(response)["body"]["string"].decode()

    assert HIDDEN in text
    assert KEY[:12] not in text
    assert KEY[12:] not in text
    assert text.count("data: ") == 4


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
def test_a_compressed_body_is_looked_into(encoding: str, compress: Any) -> None:
    body = compress(BODY.encode())
    headers = {"Content_Encoding": [encoding], "Content_Length": [str(len(body))]}

    data = before_record_response(answered(body, **headers))

    hidden = data["body"]["string"]
    assert HIDDEN.encode() in hidden
    assert data["headers"] == {"Content-Length": [str(len(hidden))]}


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", gzip.compress(b'{"a": 1}')), ("gzip", b'{"a": 1}'), ("made-up", b"\x00\xff"),
     ("", b"\x89PNG\r\n\x1a\n\x00\xff\xfe"), ("", b""), ("", None)],
    ids=["gzip", "gzip undone", "unknown", "picture", "empty", "none"],
)  # fmt: skip
def test_a_response_without_secrets_stays_byte_for_byte(encoding: str, body: Any) -> None:
    response = answered(body, **({"Content_Encoding": [encoding]} if encoding else {}))
    before = copy.deepcopy(response)

    assert before_record_response(response) == before


def test_what_older_versions_recorded_of_httpx_stays_as_it_is() -> None:
    response = {"status_code": 200, "headers": [["a", "b"]], "content": "{}"}

    assert before_record_response(response) is response


def test_redacting_what_is_redacted_changes_nothing() -> None:
    once = before_record_response(answered(BODY.encode(), Location=["/?key=abcdef"]))

    assert before_record_response(copy.deepcopy(once)) == once


def test_hooks_are_not_copied_with_a_configuration() -> None:
    hooks = Hooks(Redactor({}))

    copied = copy.deepcopy({"before_record_request": [hooks.before_record_request]})

    assert copied["before_record_request"][0].__self__ is hooks  # type: ignore[attr-defined]

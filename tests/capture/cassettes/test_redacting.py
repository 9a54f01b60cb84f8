from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.cassettes.encodings import with_body
from simkit.capture.cassettes.redacting import redacted, redacted_response
from simkit.core.redact import Redactor
from simkit.providers.http import HttpResponse
from tests.capture.cassettes.test_format import interactions

REDACTOR = Redactor({"MY_TOKEN": "aB3dE6gH9jK2"})
SSE = (("content-type", "text/event-stream; charset=utf-8"),)


def test_stream_keeps_its_pieces_and_waits_where_a_secret_goes() -> None:
    chunks = (b'data: {"password"', b': "abc"}\n\ndata: aB3d', b"E6gH9jK2\n\n", b"data: [DONE]\n\n")

    response = redacted_response(HttpResponse(200, SSE, chunks, "cut", (1, 2, 3, 4)), REDACTOR)

    assert response == HttpResponse(
        200,
        SSE,
        (
            b'data: {"password"',
            b':"[redacted:password]"}\n\ndata: [red',
            b"acted:env]\n\n",
            b"data: [DONE]\n\n",
        ),
        "cut",
        (1, 2, 3, 4),
    )


def test_response_without_secrets_is_kept_piece_by_piece() -> None:
    chunks = (b"data: \xc3", b"\xa9\n\n", b": ping\n", b"data:x\r\n\r\n")

    response = redacted_response(HttpResponse(200, SSE, chunks), REDACTOR)

    assert response.chunks == chunks


def test_response_that_loses_lines_comes_in_one_piece_after_all_the_waiting() -> None:
    response = with_body(HttpResponse(200, (), (b"a\n", b"b\n"), "", (3, 4)), b"c")

    assert response == HttpResponse(200, (), (b"c",), "", (7,))


@pytest.mark.parametrize("name", ["Set-Cookie", "openai-organization", "x-anything", "date"])
def test_header_that_is_not_known_to_be_harmless_is_not_kept(name: str) -> None:
    response = redacted_response(HttpResponse(200, ((name, "x"), *SSE), (b"",)), REDACTOR)

    assert response.headers == SSE


@given(st.lists(st.binary(max_size=4) | st.sampled_from([b"\n", b"\n\n", b"ab\n"]), max_size=6),
       st.lists(st.binary(max_size=6), max_size=6))  # fmt: skip
def test_other_body_is_cut_into_as_many_pieces_or_one(
    chunks: list[bytes], new: list[bytes]
) -> None:
    response = HttpResponse(200, (), tuple(chunks))

    result = with_body(response, b"".join(new))

    assert result.body == b"".join(new)
    assert len(result.chunks) in (len(chunks), 1)


@given(interactions)
def test_redacting_an_interaction_twice_is_redacting_it_once(item: Any) -> None:
    once = redacted(item, REDACTOR)

    assert redacted(once, REDACTOR) == once


def test_headers_that_clients_act_on_are_kept_without_what_is_secret_in_them() -> None:
    headers = (
        ("Location", "https://x.com/b?page=2&key=abc"),
        ("Link", '<https://x.com/?page=3>; rel="next"'),
        ("Set-Cookie", "id=1"), ("Content-Disposition", 'attachment; filename="a.csv"'),
        ("Server", "x/1"),
    )  # fmt: skip

    response = redacted_response(HttpResponse(302, headers, (b"",)), REDACTOR)

    assert response.headers == (
        ("location", "https://x.com/b?page=2&key=[redacted:parameter]"),
        ("link", '<https://x.com/?page=3>; rel="next"'),
        ("content-disposition", 'attachment; filename="a.csv"'),
    )

"""Server-sent events: what is framed is read again, and streams of others are read too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.providers import sse
from simkit.providers.http import HttpResponse
from simkit.providers.sse import pieces

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)


def test_a_value_is_compact_json_on_one_line() -> None:
    framed = sse.frame({"text": "Grüezi\nwohl", "done": None}, "message")

    assert framed == 'event: message\ndata: {"text":"Grüezi\\nwohl","done":null}\n\n'.encode()


def test_a_text_stands_as_it_is() -> None:
    assert sse.frame("[DONE]") == b"data: [DONE]\n\n"
    assert sse.frame("two\nlines") == b"data: two\ndata: lines\n\n"


@given(st.lists(st.tuples(NAMES.map(str.strip), NAMES)))
def test_what_is_framed_is_read_again(pairs: list[tuple[str, str]]) -> None:
    body = b"".join(sse.frame(data, event) for event, data in pairs)

    assert list(sse.events(body)) == pairs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", []),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (b"data: a\r\rdata:b\n\n", [("", "a"), ("", "b")]),
        (b": a comment\n\ndata: a\n: another\n\n", [("", "a")]),
        (b"data: one\ndata: two\n\n", [("", "one\ntwo")]),
        (b"event: ping\n\ndata: a\n\n", [("", "a")]),
        (b"id: 1\nretry: 10\nevent: e\ndata: a\n\n", [("e", "a")]),
        (b"data\n\n", [("", "")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
    ],
)
def test_streams_are_read_as_the_standard_says(
    body: bytes, expected: list[tuple[str, str]]
) -> None:
    assert list(sse.events(body)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'data: {"a":1}', [("", '{"a":1}')]),
        (b"event: end\ndata: [DONE]\n", [("end", "[DONE]")]),
        (b'data: {"a":1', []),
        (b"data: [DON", []),
        (b'data: "a"', []),
        (b'data: {"a":"\xc3', []),
    ],
)
def test_a_last_event_without_its_blank_line_counts_if_it_is_whole(
    body: bytes, expected: list[tuple[str, str]]
) -> None:
    assert list(sse.events(b"data: first\n\n" + body)) == [("", "first"), *expected]


@pytest.mark.parametrize(
    ("header", "body", "is_stream"),
    [
        ("text/event-stream; charset=utf-8", b"", True),
        ("", b"\ndata: {}", True),
        ("application/json", b'{"data": 1}', False),
        ("", b"", False),
    ],
)
def test_a_stream_is_known_by_its_header_or_its_first_word(
    header: str, body: bytes, is_stream: bool
) -> None:
    response = HttpResponse(200, (("Content-Type", header),), (body,))

    assert sse.is_stream(response) is is_stream


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (None, ["abcdefghijklmnopqrst", "uvwxyz"]),
        ((2, 3), ["ab", "cde", "fgh", "ijk", "lmn", "opq", "rst", "uvw", "xyz"]),
        ((25,), ["abcdefghijklmnopqrstuvwxy", "z"]),
        (3, ["abcdefghi", "jklmnopqr", "stuvwxyz"]),
        (1, ["abcdefghijklmnopqrstuvwxyz"]),
        (99, list("abcdefghijklmnopqrstuvwxyz")),
    ],
)
def test_a_text_is_cut_as_it_is_asked(
    chunks: tuple[int, ...] | int | None, expected: list[str]
) -> None:
    assert pieces("abcdefghijklmnopqrstuvwxyz", chunks) == expected


@given(st.text(), st.none() | st.integers(1, 9) | st.lists(st.integers(0, 9), min_size=1))
def test_no_piece_is_empty_and_together_they_are_the_text(
    text: str, chunks: int | list[int] | None
) -> None:
    texts = pieces(text, tuple(chunks) if isinstance(chunks, list) else chunks)

    assert "".join(texts) == text
    assert all(texts)

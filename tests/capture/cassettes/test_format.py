from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import vcr
from hypothesis import given
from hypothesis import strategies as st
from vcr.serialize import deserialize
from vcr.serializers import jsonserializer, yamlserializer

from simkit.capture.cassettes import Cassette, Interaction, encoded, load, loads
from simkit.core.errors import CassetteInvalid
from simkit.providers.http import HttpRequest, HttpResponse
from tests.golden import assert_file_is

EVENTS = (b'data: {"n": 1}\n\ndata: {"n"', b": 2}\n\n", b"data: [DONE]\n\n")
STREAMED = Interaction(
    request=HttpRequest(
        "POST", "https://api.openai.com/v1/chat/completions",
        (("content-type", "application/json"),), b'{"model": "gpt-5", "note": "it\'s no: 12:30"}',
    ),
    response=HttpResponse(200, (("content-type", "text/event-stream"),), EVENTS, "cut", (7, 0, 5)),
    agent="no", turn=2, call=1, session="s1", protocol="openai-chat",
    recorded_at="2026-01-02T03:04:05Z",
)  # fmt: skip
PLAIN = Interaction(
    request=HttpRequest("GET", "https://x.com/a"),
    response=HttpResponse(429, (("retry-after", "12"),), (b"\x00\xff",)),
)
YAML = Path(__file__).parent / "golden" / "two-interactions.yaml"

tricky = st.text(st.sampled_from("ab \n\t\r'\"\\:#-|>%@&*!?{}[],~é\x85\u2028\ufeff😀\x00\x7f012no"))
names = tricky.filter(bool)
interactions = st.builds(
    Interaction,
    request=st.builds(
        HttpRequest, st.just("POST"), names, st.lists(st.tuples(names, tricky), max_size=1).map(
            tuple
        ), tricky.map(str.encode) | st.binary(max_size=9),
    ),
    response=st.builds(
        HttpResponse, st.integers(100, 599), st.just((("content-type", "text/plain"),)),
        st.lists(tricky.map(str.encode) | st.binary(max_size=9), min_size=1, max_size=3).map(tuple),
        st.sampled_from(["", "cut", "timeout"]),
    ),
    agent=tricky, turn=st.integers(0, 9), session=tricky, protocol=tricky, recorded_at=tricky,
)  # fmt: skip


def exchanged(content: str, serializer: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """What vcrpy reads in a file: method, URL, and both bodies."""
    for request, response in zip(*deserialize(content, serializer), strict=True):
        yield request.method, request.uri, request.body, response["body"]["string"]


@pytest.mark.golden
def test_file_is_written_with_every_text_quoted_and_keys_in_one_order() -> None:
    content = encoded(Cassette(Path("a.yaml"), (STREAMED, PLAIN)), {0: "0123abcd"})

    assert_file_is(YAML, content.decode())


def test_json_file_says_the_same_as_yaml() -> None:
    content = encoded(Cassette(Path("a.json"), (STREAMED,)), {0: "0123abcd"})

    first = yamlserializer.deserialize(YAML.read_text(encoding="utf-8"))["interactions"][:1]
    assert json.loads(content) == {"interactions": first, "version": 1}
    assert loads(content, "a.json").interactions == (STREAMED,)


def test_body_that_is_no_text_cannot_stand_in_json() -> None:
    with pytest.raises(CassetteInvalid) as caught:
        encoded(Cassette(Path("a.json"), (STREAMED, PLAIN)))

    assert str(caught.value) == (
        "a.json: a body that is no text cannot stand in JSON; record to `.yaml`\n"
        "  at interactions[1]"
    )


def test_file_is_not_written_under_an_extension_that_says_something_else() -> None:
    with pytest.raises(CassetteInvalid) as caught:
        encoded(Cassette(Path("a.yaml.gz"), (PLAIN,)))

    assert str(caught.value) == (
        "a.yaml.gz: a cassette is recorded to a file that ends in .yaml, .yml, .json"
    )


@pytest.mark.slow
@given(st.lists(interactions, max_size=2))
def test_what_is_written_is_read_again(items: list[Interaction]) -> None:
    cassette = Cassette(Path("a.yaml"), tuple(items))

    assert loads(encoded(cassette), "a.yaml") == cassette


@pytest.mark.slow
@given(interactions)
def test_vcrpy_reads_what_simkit_reads(item: Interaction) -> None:
    content = encoded(Cassette(Path("a.yaml"), (item,))).decode()

    request, response = item.request, item.response
    assert list(exchanged(content, yamlserializer)) == [
        ("POST", request.url, request.body or None, response.body)
    ]


def test_vcrpy_reads_the_json_file_too() -> None:
    content = encoded(Cassette(Path("a.json"), (STREAMED,))).decode()

    read = list(exchanged(content, jsonserializer))

    body = STREAMED.request.body
    assert read == [("POST", STREAMED.request.url, body, b"".join(EVENTS))]


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_vcrpy_plays_the_file(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    file.write_bytes(encoded(Cassette(file, (STREAMED,))))
    serializer = {"yaml": "yaml", "json": "json"}[suffix]

    with vcr.use_cassette(str(file), record_mode="none", serializer=serializer) as cassette:
        (response,) = cassette.responses_of(cassette.requests[0])

    assert response["status"] == {"code": 200, "message": "OK"}
    assert response["body"]["string"] == b"".join(EVENTS)


@pytest.mark.slow
def test_pytest_recording_plays_the_file(pytester: pytest.Pytester) -> None:
    content = encoded(Cassette(Path("a.yaml"), (STREAMED,)))
    folder = pytester.mkdir("cassettes") / "test_it"
    folder.mkdir()
    (folder / "test_one.yaml").write_bytes(content)
    (folder / "more.yaml").write_bytes(content)
    pytester.makepyfile(
        test_it="""
        import pytest, urllib.request

        @pytest.mark.block_network
        @pytest.mark.vcr("test_it/more.yaml")
        def test_one():
            for _ in range(2):
                request = urllib.request.Request(
                    "https://api.openai.com/v1/chat/completions", b"{}", method="POST"
                )
                with urllib.request.urlopen(request) as response:
                    assert response.read().startswith(b'data: {"n": 1}')
        """
    )
    pytester.makepyfile(
        conftest="""
        import os, pytest

        @pytest.fixture(scope="module")
        def vcr_cassette_dir(request):
            return os.path.join(os.path.dirname(request.module.__file__), "cassettes")

        @pytest.fixture
        def default_cassette_name(request):
            return "test_it/test_one"
        """
    )

    result = pytester.runpytest_subprocess("-p", "no:randomly")

    result.assert_outcomes(passed=1)


def test_file_of_an_empty_cassette_holds_no_interactions(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(encoded(Cassette(file)))

    assert file.read_text() == "interactions: []\nversion: 1\n"
    assert load(file) == Cassette(file)

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import vcr
from hypothesis import given
from hypothesis import strategies as st
from vcr.serialize import deserialize
from vcr.serializers import jsonserializer, yamlserializer

from simkit.capture.cassettes import (
    Cassette,
    Interaction,
    Keying,
    Recorder,
    encoded,
    load,
    loads,
    save,
)
from simkit.core.errors import CassetteInvalid
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse
from tests.capture.cassettes.requests import KEYING, answer, chat, record, recorded
from tests.golden import assert_file_is

ADVICE = "\n  restore the file, or delete it and record again; it is never overwritten"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, those that should have gone too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_recorded_interactions_stand_in_the_order_in_which_they_were_asked(tmp_path: Path) -> None:
    recorder = Recorder(Redactor({}))
    first = recorder.begin("triage", 1, chat("a"))
    second = recorder.begin("billing", 1, chat("b"))
    third = recorder.begin("billing", 1, chat("c"))
    recorder.begin("billing", 1, chat("never answered"))
    for number in (third, first, second):
        recorder.end(number, answer(str(number)), "2026-01-02")

    result = save(tmp_path / "a.yaml", recorder.interactions(), KEYING)

    assert [(item.agent, item.call, item.request) for item in result.interactions] == [
        ("triage", 1, chat("a")),
        ("billing", 1, chat("b")),
        ("billing", 2, chat("c")),
    ]
    assert load(tmp_path / "a.yaml") == result


def test_recorder_keeps_a_compressed_stream_in_its_pieces() -> None:
    packed = gzip.compress(b"data: 1\n\ndata: 2\n\n")
    headers = (
        ("Content-Type", "text/event-stream"),
        ("Content-Encoding", "gzip"),
        ("Content-Length", str(len(packed))),
        ("Connection", "keep-alive"),
    )
    recorder = Recorder(Redactor({}))

    record(recorder, chat("a"), HttpResponse(200, headers, (packed[:4], packed[4:]), "", (5, 7)))

    (item,) = recorder.interactions()
    assert item.response == HttpResponse(
        200, (("content-type", "text/event-stream"),), (b"data: 1\n\ndata: 2\n\n",), "", (12,)
    )
    assert item.protocol == "openai-chat"


def test_recorder_refuses_a_body_that_is_not_what_its_headers_say() -> None:
    recorder = Recorder(Redactor({}))

    with pytest.raises(CassetteInvalid) as caught:
        record(recorder, chat("a"), HttpResponse(200, (("content-encoding", "gzip"),), (b"plain",)))

    assert str(caught.value) == "a response cannot be recorded: its bytes are not gzip"


def test_cut_stream_is_recorded_as_far_as_it_came() -> None:
    packed = gzip.compress(b"data: 1\n\n" * 100)
    recorder = Recorder(Redactor({}))

    headers = (("content-encoding", "gzip"),)
    record(recorder, chat("a"), HttpResponse(200, headers, (packed[:-12],), "cut"))

    (item,) = recorder.interactions()
    assert item.response.ends == "cut"
    assert (b"data: 1\n\n" * 100).startswith(item.response.body)
    assert item.response.body


def test_new_interactions_stand_behind_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.yaml"
    save(file, [recorded(chat("a"), "1")], KEYING)

    save(file, [recorded(chat("b"), "2")], KEYING)

    assert [item.request for item in load(file).interactions] == [chat("a"), chat("b")]


def test_interactions_take_the_place_of_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    save(file, [recorded(chat("a"), "1")], KEYING)

    save(file, [recorded(chat("b"), "2")], KEYING, lambda before: [recorded(chat("b"), "2")])

    assert [item.request for item in load(file).interactions] == [chat("b")]


def test_file_is_left_alone_where_nothing_is_new(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("interactions: []\nversion: 1 # by hand\n")

    save(file, [], KEYING)

    assert contents(tmp_path) == {"a.yaml": b"interactions: []\nversion: 1 # by hand\n"}


@pytest.mark.parametrize("content", [b"", b"interactions: [", b"\xff\xfe", b"version: 3"])
def test_file_that_cannot_be_read_is_never_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.yaml").write_bytes(content)

    with pytest.raises(CassetteInvalid):
        save(tmp_path / "a.yaml", [recorded(chat("a"), "1")], KEYING)

    assert contents(tmp_path) == {"a.yaml": content}


def test_file_is_as_it_was_where_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    save(file, [recorded(chat("a"), "1")], KEYING)
    before = contents(tmp_path)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CassetteInvalid) as caught:
        save(file, [recorded(chat("b"), "2")], KEYING)

    assert str(caught.value) == f"{file}: the file cannot be written: No space left on device"
    assert contents(tmp_path) == before


def test_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "a.yaml", tmp_path / "b.yaml"
    save(file, [recorded(chat("a"), "1")], KEYING)
    file.chmod(0o640)
    link.symlink_to(file)

    save(link, [recorded(chat("b"), "2")], KEYING)

    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert len(load(file).interactions) == 2


def test_key_stands_in_the_file_and_is_computed_anew_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"

    save(file, [recorded(chat("a"), "1")], KEYING)

    key = KEYING.question(chat("a")).key("billing")
    assert f"    key: '{key}'\n" in file.read_text()
    changed = file.read_text().replace(key, "0" * 32)
    file.write_text(changed)
    assert load(file).interactions == (recorded(chat("a"), "1"),)


def test_secret_that_no_redaction_reaches_stops_the_writing(tmp_path: Path) -> None:
    secret = "gh" + "p_aB3dE6gH9jK2mN5pQ8rS1tU4"
    item = Interaction(
        request=HttpRequest("GET", "/"), response=HttpResponse(200, (), (b"",)), protocol=secret
    )

    with pytest.raises(CassetteInvalid) as caught:
        save(tmp_path / "a.yaml", [item], KEYING)

    assert str(caught.value) == (
        f"{tmp_path / 'a.yaml'}: not written: it would hold a secret, known by the rule `github`\n"
        "  at line 15\n"
        "  remove it from the request, or declare it volatile under `record`"
    )
    assert contents(tmp_path) == {}


def test_secrets_of_a_file_of_another_recorder_go_when_it_is_added_to(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    secret = "aB3dE6gH9jK2mN5p"
    request = HttpRequest("POST", f"/a?key={secret}", (("Authorization", secret),), secret.encode())
    item = Interaction(request=request, response=HttpResponse(200, (), (b"",)))
    file.write_bytes(encoded(Cassette(file, (item,))))

    save(file, [recorded(chat("b"), "2")], Keying(Redactor({"SOME_KEY": secret})))

    assert secret not in file.read_text()
    assert len(load(file).interactions) == 2


def test_file_that_cannot_be_read_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("version: 1\ninteractions:\n- request: 1\n  response: {}\n")

    with pytest.raises(CassetteInvalid) as caught:
        save(file, [recorded(chat("a"), "1")], KEYING)

    assert str(caught.value) == (
        f"{file}:3: this must be a mapping, not a number\n  at interactions[0].request" + ADVICE
    )


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
def test_pytest_recording_plays_the_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_recording.plugin")
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

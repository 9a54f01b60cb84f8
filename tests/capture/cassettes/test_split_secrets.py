"""A secret that a stream says in pieces stands in no cassette, and a scan finds it in any."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.capture.cassettes import Keying, Recorder, encoded, load, save, scan_file
from simkit.capture.cassettes.redacting import redacted_response
from simkit.capture.cassettes.values import Cassette, Interaction
from simkit.core.redact import Redactor
from simkit.providers import eventstream
from simkit.providers.http import HttpResponse
from simkit.providers.streams import events, frames_of
from tests.capture.cassettes.requests import chat, record
from tests.conftest import IS_NIGHTLY
from tests.planted import MIXED, SHAPED, key

REDACTOR: Final = Redactor({"MY_TOKEN": "hush-hush-0815"})
SSE: Final = (("content-type", "text/event-stream"),)
FRAMES: Final = (("content-type", eventstream.CONTENT_TYPE),)
NDJSON: Final = (("content-type", "application/x-ndjson"),)
NAMED: Final = key("pass", "word")
STEP: Final = 1 if IS_NIGHTLY else 7
"""Between the places at which texts are cut."""


def chat_delta(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda piece: {"id": "c", "choices": [{"index": 0, "delta": {field: piece}}]}


def chat_arguments(piece: str) -> dict[str, Any]:
    call = {"index": 1, "function": {"arguments": piece}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def responses(kind: str) -> Callable[[str], dict[str, Any]]:
    return lambda piece: {
        "type": kind, "item_id": "i1", "output_index": 0, "sequence_number": len(piece),
        "delta": piece,
    }  # fmt: skip


def anthropic(kind: str, field: str) -> Callable[[str], dict[str, Any]]:
    return lambda piece: {
        "type": "content_block_delta", "index": 1, "delta": {"type": kind, field: piece}
    }  # fmt: skip


def gemini(piece: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": piece}]}}]}


CARRIERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "chat text": chat_delta("content"),
    "chat reasoning": chat_delta("reasoning_content"),
    "chat arguments": chat_arguments,
    "responses text": responses("response.output_text.delta"),
    "responses arguments": responses("response.function_call_arguments.delta"),
    "responses reasoning": responses("response.reasoning_summary_text.delta"),
    "anthropic text": anthropic("text_delta", "text"),
    "anthropic arguments": anthropic("input_json_delta", "partial_json"),
    "anthropic thinking": anthropic("thinking_delta", "thinking"),
    "gemini text": gemini,
    "cohere text": lambda piece: {
        "type": "content-delta",
        "index": 0,
        "delta": {"message": {"content": {"text": piece}}},
    },
    "bedrock text": lambda piece: {"contentBlockIndex": 0, "delta": {"text": piece}},
    "bedrock arguments": lambda piece: {
        "contentBlockIndex": 1,
        "delta": {"toolUse": {"input": piece}},
    },
    "bedrock-anthropic text": anthropic("text_delta", "text"),
    "unknown": lambda piece: {"x": [[{"deep": piece}]]},
}
OTHERS: Final[tuple[dict[str, Any], ...]] = (
    {"choices": [{"index": 1, "delta": {"content": "other"}}]},
    {"type": "ping"},
)


def stream(carrier: str, pieces: list[str]) -> HttpResponse:
    """A stream that says the pieces, with events of others between them; each a chunk."""
    carried = CARRIERS[carrier]
    results = [event for piece in pieces for event in (carried(piece), OTHERS[len(piece) % 2])]
    if carrier.startswith("bedrock"):
        payloads = [json.dumps(event).encode() for event in results]
        if "anthropic" in carrier:
            payloads = [eventstream.chunk_of(payload) for payload in payloads]
        frames = tuple(eventstream.frame(payload, "chunk") for payload in payloads)
        return HttpResponse(200, FRAMES, frames, "", (1,) * len(frames))
    chunks = [f"data: {json.dumps(event)}\n\n".encode() for event in results]
    return HttpResponse(200, SSE, (*chunks, b"data: [DONE]\n\n"), "", (1,) * (len(chunks) + 1))


def eventstream_frames(body: bytes) -> list[eventstream.Frame]:
    return frames_of(HttpResponse(200, FRAMES, (body,)))


def content_of(response: HttpResponse, carrier: str) -> str:
    shape = CARRIERS[carrier]("\0")
    path = _path(shape)
    results = []
    for _, data in events(response):
        if data == "[DONE]" or (event := json.loads(data)) in OTHERS:
            continue
        for step in path:
            event = event[step]
        results.append(event)
    return "".join(results)


def _path(value: Any) -> list[Any]:
    """The way to the piece in an event."""
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, below in steps:
        if below == "\0":
            return [step]
        if isinstance(below, dict | list):
            path = _path(below)
            if path:
                return [step, *path]
    return []


def check(carrier: str, pieces: list[str]) -> None:
    response = stream(carrier, pieces)

    result = redacted_response(response, REDACTOR)

    assert content_of(result, carrier) == REDACTOR.text("".join(pieces))
    assert len(result.chunks) == len(response.chunks)
    assert result.waits_ms == response.waits_ms
    assert redacted_response(result, REDACTOR) == result


@pytest.mark.parametrize("kind", SHAPED)
def test_secret_of_each_kind_is_gone_wherever_deltas_cut_it(kind: str) -> None:
    text = f"use {SHAPED[kind]} now"

    for at in range(1, len(text), STEP):
        check("chat text", [text[:at], text[at:]])


@pytest.mark.parametrize("carrier", CARRIERS)
def test_secret_of_each_kind_is_gone_from_each_kind_of_delta(carrier: str) -> None:
    # Every kind is cut in chat text above; of a carrier some kinds show whether it is read.
    for secret in list(SHAPED.values())[::8]:
        text = f"use {secret} now"
        check(carrier, [text[at : at + 3] for at in range(0, len(text), 3)])


@pytest.mark.parametrize("carrier", ["chat arguments", "anthropic arguments"])
@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({NAMED: "abc"}),
        json.dumps({"to": "x", "api_key": 12345678, "n": 1}),
        json.dumps({"a": {"b": [{"note": SHAPED["openai"]}]}}),
        '{"note": "' + SHAPED["openai"].replace("-", "\\u002d") + '"}',
        json.dumps({"inner": json.dumps({NAMED: 'a"b'})}),
    ],
    ids=["named", "a number", "shaped", "escaped", "JSON in JSON"],
)
def test_secret_in_arguments_is_gone_wherever_deltas_cut_it(carrier: str, arguments: str) -> None:
    for at in range(1, len(arguments), STEP):
        response = stream(carrier, [arguments[:at], arguments[at:]])

        result = redacted_response(response, REDACTOR)

        value = content_of(result, carrier)
        assert "[redacted:" in value
        assert json.loads(value) == REDACTOR.value(json.loads(arguments))
        assert len(result.chunks) == len(response.chunks)


@pytest.mark.parametrize("carrier", ["chat text", "bedrock text", "bedrock-anthropic text"])
def test_bytes_of_a_stream_may_be_cut_anywhere(carrier: str) -> None:
    whole = stream(carrier, ["use sk-proj-", MIXED[:10], MIXED[10:20]])
    for at in range(1, len(whole.body), STEP):
        chunks = whole.body[:at], whole.body[at:]
        response = redacted_response(HttpResponse(200, whole.headers, chunks), REDACTOR)

        assert content_of(response, carrier) == "use [redacted:openai]"
        assert len(response.chunks) == 2


@pytest.mark.parametrize("carrier", ["bedrock text", "bedrock-anthropic text"])
def test_a_damaged_or_cut_frame_hides_no_secret(carrier: str) -> None:
    whole = stream(carrier, ["use ", SHAPED["openai"]])
    wrong = whole.body[:-1] + bytes((whole.body[-1] ^ 1,))

    for body in (wrong, whole.body[:-1], whole.body[: len(whole.body) - 6]):
        result = redacted_response(HttpResponse(200, whole.headers, (body,)), REDACTOR).body
        scanned = b"".join(frame.content for frame in eventstream_frames(result))

        assert SHAPED["openai"].encode() not in result + scanned


def test_value_of_the_environment_is_gone_in_lines_of_json_and_in_a_list() -> None:
    values = [{"response": piece, "done": False} for piece in ("it is hush-", "hush-08", "15.")]
    lines = "".join(json.dumps(value) + "\n" for value in values).encode()
    listed = json.dumps(values).encode()

    in_lines = redacted_response(HttpResponse(200, NDJSON, (lines[:9], lines[9:])), REDACTOR)
    in_list = redacted_response(HttpResponse(200, (), (listed,)), REDACTOR)

    read = [json.loads(line)["response"] for line in in_lines.body.splitlines()]
    assert read == ["it is [redacted:env]", "", "."]
    assert [value["response"] for value in json.loads(in_list.body)] == read
    assert len(in_lines.chunks) == 2


@pytest.mark.parametrize(
    ("suffix", "carrier"),
    [("yaml", "chat text"), ("json", "chat text"), ("yaml", "bedrock text"),
     ("yaml", "bedrock-anthropic text")],
)  # fmt: skip
def test_recorded_file_holds_no_split_secret_and_scan_finds_it_in_others(
    tmp_path: Path, suffix: str, carrier: str
) -> None:
    ours, theirs = tmp_path / f"ours.{suffix}", tmp_path / f"theirs.{suffix}"
    for kind, secret in list(SHAPED.items())[::STEP]:
        half = len(secret) // 2
        response = stream(carrier, ["use ", secret[:half], secret[half:], " now"])
        recorder = Recorder(REDACTOR)
        record(recorder, chat("hello"), response)
        theirs.write_bytes(
            encoded(Cassette(theirs, (Interaction(request=chat("x"), response=response),)))
        )

        ours.unlink(missing_ok=True)
        save(ours, recorder.interactions(), Keying(REDACTOR))

        stored = Cassette(ours, load(ours).interactions).interactions[0].response
        assert f"[redacted:{kind}]" in content_of(stored, carrier)
        assert scan_file(ours, REDACTOR).leaks == ()
        assert [leak.rule for leak in scan_file(theirs, REDACTOR).leaks] == [kind], kind


def test_two_choices_are_not_read_as_one_text() -> None:
    half = len(SHAPED["openai"]) // 2
    first, second = SHAPED["openai"][:half], SHAPED["openai"][half:]
    rows = [
        {"choices": [{"index": index, "delta": {"content": text}}]}
        for index, text in ((0, f"a {first[:6]}"), (1, second), (0, "b"), (1, "c"))
    ]
    body = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in rows)

    assert redacted_response(HttpResponse(200, SSE, (body,)), REDACTOR).body == body


def test_an_event_of_any_depth_is_redacted() -> None:
    secret = SHAPED["openai"]
    deep = {"a": json.loads("[" * 900 + f'"{secret}"' + "]" * 900)}
    rows = [{"delta": secret[:12]}, deep, {"delta": secret[12:]}]
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in rows)

    result = redacted_response(HttpResponse(200, SSE, (body,)), REDACTOR).body

    assert secret.encode() not in result
    assert result.count(b"[redacted:openai]") == 2

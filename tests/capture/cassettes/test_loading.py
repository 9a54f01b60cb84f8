from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from vcr.request import Request
from vcr.serialize import serialize
from vcr.serializers import jsonserializer, yamlserializer

from simkit.capture.cassettes import Interaction, load, loads
from simkit.core.errors import CassetteInvalid
from simkit.providers.http import HttpRequest, HttpResponse
from tests.capture.cassettes.requests import CHAT_URL

ADVICE = "\n  restore the file, or delete it and record again; it is never overwritten"
JSON = (("Content-Type", "application/json"),)
REQUEST = HttpRequest("POST", CHAT_URL, JSON, b'{"model":"gpt-5"}')
ANSWERED = HttpResponse(200, JSON, (b'{"text":"caf\xc3\xa9"}',))


def exchanged(content: str | bytes, name: str = "a.yaml") -> list[tuple[HttpRequest, HttpResponse]]:
    """What a file says, without what simkit would add."""
    content = content.encode() if isinstance(content, str) else content
    return [(item.request, item.response) for item in loads(content, name).interactions]


def vcrpy_file(serializer: Any, body: bytes, **headers: list[str]) -> str:
    """A file as vcrpy itself writes it."""
    request = Request("POST", CHAT_URL, REQUEST.body, {"Content-Type": "application/json"})
    headers = {"Content-Type": ["application/json"], **headers}
    status = {"code": 200, "message": "OK"}
    response = {"status": status, "headers": headers, "body": {"string": body}}
    return str(serialize({"requests": [request], "responses": [response]}, serializer))


@pytest.mark.parametrize(
    ("serializer", "name"), [(yamlserializer, "a.yaml"), (jsonserializer, "a.json")]
)
def test_file_of_vcrpy_is_read(serializer: Any, name: str) -> None:
    content = vcrpy_file(serializer, ANSWERED.body)

    assert exchanged(content, name) == [(REQUEST, ANSWERED)]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ANSWERED.body)),
        ("deflate", zlib.compress(ANSWERED.body)),
        ("deflate", zlib.compress(ANSWERED.body, wbits=-15)),
        ("gzip, deflate", zlib.compress(gzip.compress(ANSWERED.body))),
        ("gzip", ANSWERED.body),
        ("br", ANSWERED.body),
        ("identity", ANSWERED.body),
    ],
    ids=["gzip", "zlib", "raw deflate", "both", "gzip undone", "brotli undone", "identity"],
)
def test_compressed_body_is_read_as_what_it_holds(encoding: str, body: bytes) -> None:
    headers = {"content-encoding": [encoding], "Content-Length": [str(len(body))]}

    content = vcrpy_file(yamlserializer, body, **headers)

    assert exchanged(content) == [(REQUEST, ANSWERED)]


def test_anchors_and_binary_texts_are_read() -> None:
    content = f"""
        interactions:
        - request: {{body: !!binary {base64.b64encode(REQUEST.body).decode()},
            headers: &h {{Content-Type: [application/json]}},
            method: POST, uri: 'https://api.openai.com/v1/chat/completions'}}
          response: {{body: {{string: !!python/str '{{"text":"café"}}'}}, headers: *h,
            status: {{code: 200, message: OK}}}}
        version: 1
        """

    assert exchanged(content) == [(REQUEST, ANSWERED)]


def test_sizes_of_a_body_that_was_edited_by_hand_count_no_more() -> None:
    content = """
        interactions:
        - request: {method: POST, uri: /a}
          response: {status: {code: 200}, body: {string: 'abcd'}}
          simkit: {agent: a, chunks: [1, 1], offsets_ms: [3, 9]}
        version: 1
        """

    (item,) = loads(content.encode(), "a.yaml").interactions

    response = HttpResponse(200, (), (b"abcd",), "", (9,))
    assert item == Interaction(request=HttpRequest("POST", "/a"), response=response, agent="a")


RESPONSE = '{"status": {"code": 200}}'
TEXT = '{"version": 1, "interactions": [{"request": REQUEST, "response": RESPONSE EXTRA}]}'
GET = '{"method": "GET", "uri": "/"}'


def make_file(request: str = GET, extra: str = "") -> str:
    """A file with one interaction."""
    return TEXT.replace("REQUEST", request).replace("RESPONSE", RESPONSE).replace("EXTRA", extra)


WRONG = {
    "a.yaml: the file is empty": " \n",
    "a.yaml:1: this is no cassette: it has no `interactions`": "version: 1",
    "a.yaml:1: this must be a mapping, not a list": "- request: 1",
    "a.yaml:2: version 3 is not known\n  at version": "interactions: []\nversion: 3",
    "a.yaml:1: it has no `version`: its end is missing": "interactions: []",
    "a.yaml:2: version None is not known\n  at version": "interactions: []\nversion:",
    "a.yaml:2: this must be a list, not nothing\n  at interactions": "version: 1\ninteractions:",
    "a.yaml:3: it has no `response`\n  at interactions[0]": (
        "version: 1\ninteractions:\n- request: {}"
    ),
    "a.yaml:1: it needs a text under `method`\n  at interactions[0].request": make_file(
        '{"uri": "/"}'
    ),
    "a.yaml:2: it needs a text under `uri`\n  at interactions[0].request.uri": make_file(
        '{"method": "GET",\n "uri": 5}'
    ),
    "a.yaml:1: a body is a text, not a truth value\n  at interactions[0].request.body": make_file(
        '{"method": "GET", "uri": "/", body: no}'
    ),
    "a.yaml:1: this is not what simkit writes: Expected `int`, got `str` - at `$.turn`\n"
    "  at interactions[0].simkit": make_file(extra=', "simkit": {"turn": "2"}'),
    "a.yaml:1: 'lost' is not known; known: cut, timeout\n"
    "  at interactions[0].simkit.ends": make_file(extra=', "simkit": {"ends": "lost"}'),
    "a.yaml:1: the tag `!!python/object/apply:os.system` is not supported": (
        "!!python/object/apply:os.system [ls]"
    ),
    "a.yaml:2: the key 'version' is here twice": "version: 1\nversion: 1",
    "a.yaml:2: the `[` opened here is never closed": "version: 1\ninteractions: [",
    "a.yaml:2: a character that cannot stand in YAML": "version: 1\ninteractions: \x00",
    "a.yaml:1: values are nested deeper than 200 levels": "[" * 300 + "]" * 300,
}


@pytest.mark.parametrize(("message", "content"), WRONG.items(), ids=WRONG)
def test_file_that_is_no_cassette_is_refused_with_path_and_line(message: str, content: str) -> None:
    with pytest.raises(CassetteInvalid) as caught:
        loads(content.encode(), "a.yaml")

    assert str(caught.value) == message + ADVICE


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'{"interactions":\n [}', "a.json:2: this is no JSON: Expecting value"),
        (
            "a.json",
            b'{"version": 1,\n "interactions": [{"request": 1, "response": 2}]}',
            "a.json:2: this must be a mapping, not a number\n  at interactions[0].request",
        ),
        ("a.json", b"[" * 9_999, "a.json: its values are nested too deeply"),
        ("a.yaml", b"version: 1\n# \xff", "a.yaml:2: byte 13 of the file (0xff) is not UTF-8"),
        (
            "a.yaml",
            b"interactions:\n- request: {method: GET, uri: /}\n"
            b"  response:\n    status: {code: 200}\n"
            b"    headers: {Content-Encoding: gzip}\n    body: {string: !!binary H4sI}\n"
            b"version: 1\n",
            "a.yaml:6: this body cannot be decompressed: it is cut off\n"
            "  at interactions[0].response.body",
        ),
    ],
    ids=["JSON syntax", "JSON shape", "JSON depth", "encoding", "gzip body"],
)
def test_bytes_that_are_no_cassette_are_refused(name: str, content: bytes, message: str) -> None:
    with pytest.raises(CassetteInvalid) as caught:
        loads(content, name)

    assert str(caught.value) == message + ADVICE


def test_file_that_is_not_there_is_no_empty_cassette(tmp_path: Path) -> None:
    with pytest.raises(CassetteInvalid) as caught:
        load(tmp_path / "a.yaml")

    assert str(caught.value) == f"{tmp_path / 'a.yaml'}: there is no such file"


def test_folder_is_no_cassette(tmp_path: Path) -> None:
    with pytest.raises(CassetteInvalid) as caught:
        load(tmp_path)

    assert str(caught.value) == f"{tmp_path}: this is a directory, not a file"


def test_words_that_a_newer_version_adds_are_passed_over() -> None:
    content = json.dumps(json.loads(make_file(extra=', "simkit": {"agent": "a", "mood": "good"}')))

    (item,) = loads(content.encode(), "a.json").interactions

    assert item.agent == "a"


@pytest.mark.parametrize(
    "extra", [{"\ud800": 1}, {"agent": "\ud800"}, {"turn": "\ud800"}, {"key": "\ud800"}], ids=str
)
def test_half_a_surrogate_among_what_simkit_adds_is_refused(
    extra: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "a.json"
    tree = {
        "version": 1,
        "interactions": [
            {
                "request": {"method": "GET", "uri": "/"},
                "response": {"status": {"code": 200}, "headers": {}, "body": {"string": ""}},
                "simkit": extra,
            }
        ],
    }
    file.write_text(json.dumps(tree), encoding="utf-8")

    with pytest.raises(CassetteInvalid, match="half a surrogate is no character"):
        load(file)

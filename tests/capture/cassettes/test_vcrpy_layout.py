"""Files of other recorders: imported, scanned, and refused by replay with the command to use."""

from __future__ import annotations

import gzip
import textwrap
from pathlib import Path

import pytest

from simkit.capture.cassettes import load, load_foreign
from simkit.core.errors import CassetteInvalid
from tests.capture.cassettes.test_loading import ADVICE, ANSWERED, REQUEST

FOREIGN = {
    "vcrpy before 6": """
        interactions:
        - request: {body: '{"model":"gpt-5"}', headers: {Content-Type: [application/json]},
            method: POST, uri: 'https://api.openai.com/v1/chat/completions'}
          response: {content: '{"text":"café"}', http_version: HTTP/1.1, status_code: 200,
            headers: [[Content-Type, application/json]]}
        version: 1
        """,
    "pydantic-ai": """
        interactions:
        - request:
            headers: {Content-Type: [application/json]}
            method: POST
            parsed_body: {model: gpt-5}
            uri: https://api.openai.com/v1/chat/completions
          response:
            headers: {Content-Type: [application/json]}
            parsed_body: {text: café}
            status: {code: 200, message: OK}
        version: 1
        """,
    "go-vcr": """
        version: 2
        interactions:
        - id: 0
          request: {proto: HTTP/1.1, host: api.openai.com, body: '{"model":"gpt-5"}',
            headers: {Content-Type: [application/json]}, method: POST,
            url: 'https://api.openai.com/v1/chat/completions'}
          response: {proto: HTTP/2.0, body: '{"text":"café"}', status: 200 OK, code: 200,
            headers: {Content-Type: [application/json]}, duration: 1.5s}
        """,
    "langchain-tests": """
        requests:
        - {method: POST, uri: 'https://api.openai.com/v1/chat/completions',
           body: '{"model":"gpt-5"}', headers: {Content-Type: application/json}}
        responses:
        - {status: {code: 200}, headers: {Content-Type: application/json},
           body: {string: '{"text":"café"}'}}
        """,
}
PYDANTIC_AI = FOREIGN["pydantic-ai"]


@pytest.mark.parametrize(("recorder", "content"), FOREIGN.items(), ids=FOREIGN)
def test_file_of_another_recorder_is_imported_and_not_replayed(
    recorder: str, content: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content, encoding="utf-8")

    items = load_foreign(file).interactions
    with pytest.raises(CassetteInvalid) as caught:
        load(file)

    assert [(item.request, item.response) for item in items] == [(REQUEST, ANSWERED)]
    assert str(caught.value) == (
        f"{file}: this file is as {recorder} writes it, and not in vcrpy's layout\n"
        f"  `simkit cassettes import {file} NEW.yaml` writes one that is"
    )


def test_a_compressed_file_and_one_without_a_version_are_imported(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml.gz"
    file.write_bytes(gzip.compress(PYDANTIC_AI.replace("version: 1", "").encode()))

    (item,) = load_foreign(file).interactions

    assert (item.request, item.response) == (REQUEST, ANSWERED)
    with pytest.raises(CassetteInvalid, match="simkit cassettes import"):
        load(file)


@pytest.mark.parametrize(
    "content",
    ["- request: !!python/object:vcr.request.Request {host: a}",
     "- request: {protocol: https, host: a, port: 443, path: /}"],
    ids=["YAML", "data"],
)  # fmt: skip
def test_vcrpy_itself_rewrites_what_it_wrote_before_1_0(content: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(CassetteInvalid) as caught:
        load(file)

    assert str(caught.value) == (
        f"{file}: this file is as vcrpy before 1.0 writes it, and not in vcrpy's layout\n"
        f"  `python -m vcr.migration {file}` rewrites it in today's layout"
    )


ALIASES = "\n".join(
    ["b0: &b0 [1]", *(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 12))]
)
BOMB = f"{ALIASES}\n" + textwrap.dedent(PYDANTIC_AI.replace("{text: café}", "*b11"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{requests: [1], responses: []}", "there are 1 requests, but 0 responses"),
        ("{requests: 1, responses: []}", "`requests` and `responses` must be lists"),
        (PYDANTIC_AI.replace("[application/json]", "{a: 1}"), "a header's value is a text, not a "),
        (FOREIGN["vcrpy before 6"].replace("[[Content-Type, ", "[[a, b, "),
         "a header is a name and a value"),
        (PYDANTIC_AI.replace("{text: café}", "[.nan, !!binary aGk=]"), "this is no JSON value"),
        (BOMB, "aliases expand it to more than 1,000,000 bytes"),
    ],
    ids=["sizes", "lists", "header", "pair", "no JSON", "aliases"],
)  # fmt: skip
def test_a_file_that_cannot_be_rearranged_is_refused(
    content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simkit.capture.cassettes.vcrpy_layout.BODY_BYTES_MAX", 1_000_000)
    file = tmp_path / "a.yaml"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(CassetteInvalid) as caught:
        load_foreign(file)

    assert message in str(caught.value)
    assert str(caught.value).endswith(ADVICE)

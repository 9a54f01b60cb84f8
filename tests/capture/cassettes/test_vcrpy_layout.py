"""Bodies that are values: pydantic-ai's recordings are read, and what is no JSON is refused."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from simkit.capture.cassettes import load
from simkit.core.errors import CassetteInvalid
from tests.capture.cassettes.test_loading import ADVICE, ANSWERED, REQUEST

PYDANTIC_AI = """
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
"""


def test_a_recording_of_pydantic_ai_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(PYDANTIC_AI, encoding="utf-8")

    (item,) = load(file).interactions

    assert (item.request, item.response) == (REQUEST, ANSWERED)


ALIASES = "\n".join(
    ["b0: &b0 [1]", *(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 12))]
)
BOMB = f"{ALIASES}\n" + textwrap.dedent(PYDANTIC_AI.replace("{text: café}", "*b11"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PYDANTIC_AI.replace("parsed_body: {m", "content: {m"), "vcrpy keeps a body under `body`"),
        (PYDANTIC_AI.replace("[application/json]", "{a: 1}"), "a header's value is a text, not a "),
        (PYDANTIC_AI.replace("{text: café}", "[.nan, !!binary aGk=]"), "this is no JSON value"),
        (BOMB, "aliases expand it to more than 1,000,000 bytes"),
    ],
    ids=["other key", "header", "no JSON", "aliases"],
)
def test_a_body_that_is_no_value_of_json_is_refused(
    content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simkit.capture.cassettes.vcrpy_layout.BODY_BYTES_MAX", 1_000_000)
    file = tmp_path / "a.yaml"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(CassetteInvalid) as caught:
        load(file)

    assert message in str(caught.value)
    assert str(caught.value).endswith(ADVICE)

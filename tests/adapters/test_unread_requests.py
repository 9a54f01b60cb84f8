"""RUN-06: a model asked in words that nobody here reads is told, whoever answers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from simkit.checks.judge import Outcome
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from tests.recording import Provider, echo, prepared, provider, write

APP: Final = '''
"""Asks one model in old words, and reads its pages."""

import json
import os
import urllib.request

from langgraph.graph import START, StateGraph


def sent(path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    url = os.environ["PROVIDER"] + path
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def asked(text):
    return sent("/v1/completions", {"model": "llama", "prompt": text})["choices"][0]["text"]


def run(text):
    return asked(text)


def read(text):
    return sent("/api/tags")["models"][0]


def node(state):
    return {"said": asked(state["said"])}


graph = StateGraph(dict).add_node("clerk", node).add_edge(START, "clerk").compile()


def run_graph(text):
    return graph.invoke({"said": text})["said"]
'''
SCENARIO: Final = """\
version: 1
scenario: a model of nobody's
pipeline: desk:FUNCTION
app: {path: [.], fresh: true}
MORE
turns: [{user: hello, expect: {reply: REPLY}}]
"""


def answers(request: HttpRequest) -> HttpResponse:
    """Speaks OpenAI's old protocol."""
    if request.method == "GET":
        body: dict[str, object] = {"models": ["llama"]}
    elif "/v1/completions" in request.url:
        content = json.loads(request.body)["prompt"]
        body = {"choices": [{"text": f"{content} yourself"}]}
    else:
        result = echo(request)
        assert isinstance(result, HttpResponse)
        return result
    head = (("content-type", "application/json"),)
    return HttpResponse(200, head, (json.dumps(body).encode(),))


@pytest.fixture
def server(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with provider() as result:
        result.answer = answers
        monkeypatch.setenv("PROVIDER", result.url)
        yield result


def file_for(folder: Path, function: str, more: str, reply: str = "hello yourself") -> Path:
    text = SCENARIO.replace("FUNCTION", function).replace("MORE", more).replace("REPLY", reply)
    return write(folder, text, APP)


def warned(outcome: Outcome) -> list[tuple[str, str]]:
    """What is warned of; nothing is worse."""
    assert [finding.what for finding in outcome.judgement.findings] == []
    return [(warning.id, warning.what) for warning in outcome.judgement.warnings]


def expected_warnings(server: Provider) -> list[tuple[str, str]]:
    host = server.url.removeprefix("http://")
    return [(
        "RUN-06",
        f"POST {host}/v1/completions is OpenAI's completions, which simkit does not read: "
        "if it asks a model, no claim sees what was sent and answered",
    )]  # fmt: skip


@pytest.mark.parametrize("function", ["run", "run_graph"])
def test_an_allowed_host_is_asked_in_words_that_nobody_reads(
    tmp_path: Path, server: Provider, function: str
) -> None:
    file = file_for(tmp_path, function, "allow_hosts: [127.0.0.1]")

    assert warned(simulate(prepared(file))) == expected_warnings(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("function", ["run", "run_graph"])
def test_so_it_is_where_that_is_recorded_and_where_the_recording_answers(
    tmp_path: Path, server: Provider, function: str
) -> None:
    file = file_for(tmp_path, function, "cassette: desk")

    recorded = record(prepared(file), Recording("all", "2026-01-05T09:00:00Z")).outcome
    again = simulate(prepared(file))

    assert warned(recorded) == expected_warnings(server)
    assert warned(again) == expected_warnings(server)
    assert len(server.requests) == 1


def test_what_asks_no_model_passes(tmp_path: Path, server: Provider) -> None:
    file = file_for(tmp_path, "read", "allow_hosts: [127.0.0.1]", "llama")

    assert warned(simulate(prepared(file))) == []
    assert len(server.requests) == 1


def test_it_can_be_claimed_and_turned_off_by_the_address(tmp_path: Path, server: Provider) -> None:
    allowed = "allow_hosts: [127.0.0.1]"
    off = file_for(tmp_path, "run", f"{allowed}\nlints: {{RUN-06: it is our own model}}")
    assert warned(simulate(prepared(off))) == []

    text = (
        file_for(tmp_path, "run", allowed)
        .read_text()
        .replace(
            "expect: {", "expect: {findings: [{id: RUN-06, interface: {$contains: completions}}], "
        )
    )
    claimed = write(tmp_path, text, APP)
    assert warned(simulate(prepared(claimed))) == []

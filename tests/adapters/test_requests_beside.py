"""What went over the wire stands beside the run, with the line of code that asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from simkit.session.simulate import simulate
from simkit.trace.changes import apply_change
from simkit.trace.events import RequestSent, ResponseReceived
from tests.recording import prepared, write

APP: Final = '''
"""Asks one model, with all that was said, and a picture."""

import openai

said = [{"role": "system", "content": "You help at the desk. " * 20}]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 20_000}}


def run(text):
    said.append({"role": "user", "content": [{"type": "text", "text": text}, PICTURE]})
    client = openai.OpenAI(max_retries=0)
    try:
        answer = client.chat.completions.create(model="m", messages=said)
    except openai.OpenAIError:
        return "later"
    said.append({"role": "assistant", "content": answer.choices[0].message.content})
    return answer.choices[0].message.content
'''
SCENARIO: Final = """\
version: 1
scenario: pictures
pipeline: desk:run
app: {path: [.], fresh: true}
agents: {desk: {system: {$starts: You help}}}
turns:
  - {user: One, replies: {desk: Two}}
  - {user: Three, replies: {desk: {error: rate_limit}}}
  - {user: Four, replies: {desk: {error: connection}}}
"""


def test_each_request_has_its_bytes_and_its_line_and_each_response_too(tmp_path: Path) -> None:
    trace = simulate(prepared(write(tmp_path, SCENARIO, APP))).trace
    requests = [event for event in trace.events if isinstance(event, RequestSent)]
    responses = [event for event in trace.events if isinstance(event, ResponseReceived)]
    body: Any = None
    bodies = [body := apply_change(body, event.body, lambda raw: raw) for event in requests]

    line = APP.split("\n").index(
        '        answer = client.chat.completions.create(model="m", messages=said)'
    )
    assert {event.where for event in requests} == {f"desk.py:{line + 1} in run"}
    assert {event.method + " " + event.url for event in requests} == {
        "POST api.openai.com/v1/chat/completions"
    }
    assert [len(each["messages"]) for each in bodies] == [2, 4, 5]
    assert [each["messages"][-1]["content"][0]["text"] for each in bodies] == [
        "One",
        "Three",
        "Four",
    ]
    assert "$bytes" in bodies[0]["messages"][1]["content"][1]["image_url"]["url"]
    assert [event.status for event in responses] == [200, 429, 0]
    answer = json.loads(str(responses[0].body))
    assert answer["choices"][0]["message"]["content"] == "Two"
    assert len(trace.stored()) < 12_000

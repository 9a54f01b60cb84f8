"""Remote agents of a scenario over A2A: with the official clients of both generations.

`nox -s a2a_clients` runs this file with a2a-sdk 0.3 and 1.x.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from simkit import simulate
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record
from simkit.trace.events import ModelFailed
from tests.adapters.test_servers import problems_of, scenario
from tests.recording import prepared

BY_HAND = """
import json
import httpx
from openai import OpenAI

URL = "https://weather.example.com/a2a"

def ask(method, **params):
    body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
    with httpx.stream("POST", URL, json=body) as answer:
        answer.read()
        text = answer.text
    lines = [each[6:] for each in text.splitlines() if each.startswith("data: ")] or [text]
    return [json.loads(each) for each in lines]

def plan(message):
    said = OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": message}])
    return said.choices[0].message.content

def run(message):
    return text_of(ask("message/send", message=asked(plan(message))))

def asked(text):
    return {"kind": "message", "role": "user", "messageId": "m-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": text}, {"kind": "data", "data": {"days": 2}}]}

def text_of(answers):
    said = answers[-1]
    if "error" in said:
        return f"error {said['error']['code']}: {said['error']['message']}"
    parts = said["result"].get("parts") or said["result"]["artifacts"][0]["parts"]
    return " ".join(each.get("text") or json.dumps(each["data"]) for each in parts)

def card(message):
    card = httpx.get(URL + "/.well-known/agent-card.json").json()
    return f"{card['name']} {card['description']} {card['url']} {len(card['skills'])}"

def task(message):
    (said,) = ask("message/send", message=asked(plan(message)))
    known = said["result"]
    (again,) = ask("tasks/get", id=known["id"])
    (gone,) = ask("tasks/get", id="t-9")
    (late,) = ask("tasks/cancel", id=known["id"])
    return " ".join([known["status"]["state"], again["result"]["artifacts"][0]["parts"][0]["text"],
                     str(gone["error"]["code"]), str(late["error"]["code"])])

def stream(message):
    said = ask("message/stream", message=asked(plan(message)))
    return " ".join(each["result"]["kind"] for each in said)
"""
CLIENT = """
from uuid import uuid4
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a import types
from openai import OpenAI

async def run(message, streaming=False):
    said = OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": message}]).choices[0].message.content
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, "https://weather.example.com").get_agent_card()
        config = ClientConfig(httpx_client=http, streaming=streaming)
        client = ClientFactory(config).create(card)
        return "".join([text async for text in texts(client, said, message_id=str(uuid4()))])

async def streamed(message):
    return await run(message, True)
"""
OLD = f"""{CLIENT}
async def texts(client, said, **fields):
    part = types.Part(root=types.TextPart(text=said))
    request = types.Message(role=types.Role.user, parts=[part], **fields)
    async for event in client.send_message(request):
        if isinstance(event, types.Message):
            yield event.parts[0].root.text
        elif event[0].status.state == "completed":
            for artifact in event[0].artifacts:
                yield "".join(each.root.text for each in artifact.parts)
"""
NEW = f"""{CLIENT}
async def texts(client, said, **fields):
    parts = [types.Part(text=said)]
    asked = types.Message(role=types.Role.ROLE_USER, parts=parts, **fields)
    async for event in client.send_message(types.SendMessageRequest(message=asked)):
        if event.HasField("message"):
            yield event.message.parts[0].text
        elif event.HasField("artifact_update"):
            yield event.artifact_update.artifact.parts[0].text
        elif event.HasField("task"):
            for artifact in event.task.artifacts:
                for each in artifact.parts:
                    yield each.text
"""
SERVER = "servers: {weather: {a2a: {card: {description: Knows the weather.}}}}\n"
TASK = SERVER.replace("card:", "answers: task, card:")
ASKS = """\
turns:
  - user: Will it rain?
    replies: {reader: Rain in Porto?, weather: It rains.}
    expect:
      reply: It rains.
      agents: [reader, weather]
      context: {weather: {messages: [{user: {$starts: Rain in Porto?}}]}}
"""


def sdk() -> str:
    """The first part of the installed SDK's version; empty without one."""
    try:
        return version("a2a-sdk").partition(".")[0]
    except PackageNotFoundError:
        return ""


CLIENTS = [
    pytest.param(BY_HAND, "run", "", SERVER, id="by hand"),
    pytest.param(BY_HAND, "run", "", TASK, id="by hand, task"),
    *(
        pytest.param(code, entry, number, server, id=f"{number}, {entry}, {name}")
        for code, number in ((OLD, "0"), (NEW, "1"))
        for entry in ("run", "streamed")
        for name, server in (("message", SERVER), ("task", TASK))
    ),
]


@pytest.mark.parametrize(("code", "entry", "needs", "server"), CLIENTS)
def test_every_client_asks_the_remote_agent_the_same_every_time(
    tmp_path: Path, code: str, entry: str, needs: str, server: str
) -> None:
    if needs and sdk() != needs:
        pytest.skip(f"a2a-sdk {needs}.x is not installed: `nox -s a2a_clients` has it")
    case = scenario(tmp_path, code, server + ASKS, entry)

    first, second = simulate(case), simulate(case)

    assert problems_of(first) == []
    assert first.trace.digest() == second.trace.digest()
    wrong = scenario(tmp_path, code, server + ASKS.replace("[reader, weather]", "[reader]"), entry)
    assert any("agents does not match" in text for text in problems_of(simulate(wrong)))


def run_of(tmp_path: Path, entry: str, rest: str) -> list[str]:
    """What a scenario of the client by hand breaks."""
    return problems_of(simulate(scenario(tmp_path, BY_HAND, rest, entry)))


def test_a_request_to_a_remote_agent_is_a_handoff_with_its_text_and_data(tmp_path: Path) -> None:
    claim = "handoffs: [{from: reader, to: weather, query: {$starts: Rain}, payload: {days: 2}}]"
    right = SERVER + ASKS.replace("      agents:", f"      {claim}\n      agents:")

    assert run_of(tmp_path, "run", right) == []
    (problem, *_) = run_of(tmp_path, "run", right.replace("{days: 2}", "{days: 3}"))
    assert "handoffs does not match" in problem


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("{error: {type: task_not_found, message: No such task}}", "error -32001: No such task"),
        ("{json: {rain: 0.8}}", '{"rain": 0.8}'),
    ],
)
def test_a_remote_agent_fails_or_answers_with_data(tmp_path: Path, line: str, reply: str) -> None:
    rest = ASKS.replace("weather: It rains.", f"weather: {line}")
    rest = rest.replace("reply: It rains.", f"reply: {reply!r}")
    outcome = simulate(scenario(tmp_path, BY_HAND, SERVER + rest))

    assert problems_of(outcome) == []
    failures = [event for event in outcome.trace.events if isinstance(event, ModelFailed)]
    assert [event.error for event in failures] == ["task_not_found"] * ("error" in line)


@pytest.mark.parametrize(
    ("entry", "server", "reply"),
    [
        ("card", SERVER, "weather Knows the weather. https://weather.example.com/a2a 1"),
        ("card", "servers: {weather: {a2a: {card: card.json}}}\n", "Wetter  https://w.example 1"),
        ("task", TASK, "completed It rains. -32001 -32002"),
        ("stream", TASK, "task artifact-update status-update"),
        ("stream", SERVER, "message"),
    ],
)
def test_cards_tasks_and_streams(tmp_path: Path, entry: str, server: str, reply: str) -> None:
    card = '{"name": "Wetter", "url": "https://w.example"}'
    (tmp_path / "card.json").write_text(card, encoding="utf-8")
    asks = "replies: {reader: Rain in Porto?, weather: It rains.}" if entry != "card" else ""
    turns = f"turns: [{{user: hi, expect: {{reply: {reply!r}}}}}]\n"
    turns = turns.replace("user: hi", f"user: hi, {asks}") if asks else turns

    assert run_of(tmp_path, entry, server + turns) == []


def test_a_task_may_need_the_user(tmp_path: Path) -> None:
    line = "{text: Which city?, raw: {state: input-required}}"
    code = BY_HAND.replace(
        "return text_of(ask", "return str([each['result']['status'] for each in ask"
    ).replace("asked(plan(message))))", "asked(plan(message)))])")
    rest = ASKS.replace("weather: It rains.", f"weather: {line}")
    status = "{$all: [{$contains: input-required}, {$contains: Which city?}]}"
    outcome = simulate(scenario(tmp_path, code, SERVER + rest.replace("It rains.", status)))

    assert problems_of(outcome) == []


def test_a_remote_agent_without_a_line_says_which_to_write(tmp_path: Path) -> None:
    (problem, *_) = run_of(tmp_path, "run", SERVER + ASKS.replace(", weather: It rains.", ""))

    assert "agent 'weather' made a model call in turn 1, but the scenario has no r" in problem


class Weather(BaseHTTPRequestHandler):
    """A remote agent that runs."""

    def do_POST(self) -> None:
        """Answer a message."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"kind": "message", "messageId": "x", "role": "agent"}
        parts = [{"kind": "text", "text": "It rains."}]
        body = {"jsonrpc": "2.0", "id": request["id"], "result": {**message, "parts": parts}}
        encoded = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_a_remote_agent_is_recorded_and_replayed_without_it(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Weather) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        code = BY_HAND.replace(
            "https://weather.example.com", f"http://127.0.0.1:{server.server_address[1]}/weather"
        )
        rest = "cassette: rain\nservers: {weather: {a2a: recorded}}\n" + ASKS
        rest = rest.replace(", weather: It rains.", "")
        scenario(tmp_path, code, rest)
        file = prepared(tmp_path / "a.scenario.yaml")
        done = record(file, Recording("all", "2026-01-05T09:00:00Z"))
        server.shutdown()
        thread.join()
    code = code.replace('"id": "1"', '"id": "2"').replace("m-1", "m-2")
    (tmp_path / "reading.py").write_text(code, encoding="utf-8")
    replayed = simulate(prepared(tmp_path / "a.scenario.yaml"))

    assert problems_of(done.outcome) == problems_of(replayed) == []
    assert replayed.trace.digest() == done.outcome.trace.digest()


def test_a_card_that_cannot_be_read_is_an_error_of_the_scenario(tmp_path: Path) -> None:
    rest = "servers: {weather: {a2a: {card: none.json}}}\nturns: [{user: hi}]\n"
    (problem, *_) = run_of(tmp_path, "card", rest)

    assert "the card of `weather` cannot be read" in problem

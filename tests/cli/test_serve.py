"""`simkit serve`, from outside: programs in processes of their own, real clients and none."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkit.cli.serve import ServeOptions, _handle
from tests.cli.projects import Call, write

ROOT = Path(__file__).resolve().parents[2]
APPS = ROOT / "tests" / "apps"
PYTHON = shlex.quote(sys.executable)
CLIENTS = {
    "matrix_openai_chat": "openai",
    "matrix_openai_responses": "openai",
    "matrix_anthropic": "anthropic",
    "matrix_gemini": "google.genai",
}
ASKS = """\
import asyncio, importlib, json, sys

sys.path.insert(0, sys.argv[1])
desk = importlib.import_module(sys.argv[2])


def told(reply):
    print(json.dumps(reply, ensure_ascii=False), flush=True)


def attempt(ask):
    try:
        told(ask())
    except Exception:
        told("it failed")


with asyncio.Runner() as runner:
    told(runner.run(desk.async_streamed("How are Zürich and Bern? ☀")))
    told(desk.sync("As data: how is Zürich?"))
    attempt(lambda: desk.sync("How busy are you?"))
    attempt(lambda: desk.sync_streamed("Tell me a long story"))
    told(runner.run(desk.asynchronous("Thanks")))
"""
CONVERSATION = """\
version: 1
scenario: a whole conversation
pipeline: weather:desk
agents: {desk: {system: You know the weather.}}
turns:
  - user: How are Zürich and Bern? ☀
    replies:
      desk:
        - text: One moment.
          calls: [weather: {city: Zürich}, weather: {city: Bern}, clock: {city: Bern}]
          chunks: 3
        - text: Both are grey. 🌫
          chunks: 4
    expect:
      reply: Both are grey. 🌫
      agents: [desk]
      tool_calls:
        - {agent: desk, tool: weather, args: {city: Zürich}}
        - {agent: desk, tool: weather, args: {city: Bern}}
        - {agent: desk, tool: clock, args: {city: Bern}}
      context:
        desk:
          messages: [{system: You know the weather.}, {user: How are Zürich and Bern? ☀}]
          tools: [weather, clock]
        desk[-1]: {includes: [{role: tool, tool: weather, content: {$contains: grey}}]}
  - user: "As data: how is Zürich?"
    replies: {desk: {json: {city: Zürich, degrees: 21}}}
    expect: {model_calls: {desk: 1}}
  - user: How busy are you?
    replies: {desk: REPLIES}
    expect: {EXPECT}
  - user: Tell me a long story
    replies: {desk: {error: cut_stream}}
    expect: {error: cut_stream, model_calls: {desk: 1}}
  - user: Thanks
    replies: {desk: {text: Grüezi!, latency_ms: 20}}
    expect: {reply: Grüezi!}
"""


def conversation(module: str) -> str:
    """The scenario; Google's library does not try again, the others do if they are told to."""
    if module == "matrix_gemini":
        replies, expect = "{error: rate_limit}", "error: {type: rate_limit, status: 429}"
    else:
        replies = "[{error: {type: rate_limit, status: 429, retry_after: 0.01}}, Not at all.]"
        expect = "reply: Not at all., model_calls: {desk: 2}"
    return CONVERSATION.replace("REPLIES", replies).replace("EXPECT", expect)


@pytest.mark.slow
@pytest.mark.parametrize("module", CLIENTS)
def test_a_whole_conversation_holds_with_every_provider_s_client(
    process: Call, module: str
) -> None:
    if find_spec(CLIENTS[module]) is None:
        pytest.skip(f"{CLIENTS[module]} is not installed")
    write("asks.py", ASKS)
    write("talk.scenario.yaml", conversation(module))

    done = process(
        "serve", "talk.scenario.yaml",
        "--then", f"{PYTHON} asks.py {shlex.quote(str(APPS))} {module}",
    )  # fmt: skip

    replies = [json.loads(line) for line in done.out.splitlines()[:5]]
    busy = "it failed" if module == "matrix_gemini" else "Not at all."
    assert replies == [
        "Both are grey. 🌫", {"city": "Zürich", "degrees": 21}, busy, "it failed", "Grüezi!"
    ], done.err  # fmt: skip
    # Google's library says that it finds a key under each of its two names.
    lines = [line for line in done.err.splitlines() if not line.startswith("Both GOOGLE_API_KEY")]
    assert "  ok      a whole conversation" in done.out
    assert (done.code, lines) == (0, [])


SUPERVISED = """\
version: 1
pipeline: office
agents:
  planner: {instructions: "Plan for ${state.user}. Be short.", handoffs: [writer]}
  writer: {instructions: Write what was planned., tools: [send, note]}
tools: {send: {}, note: {}}
channels: {messages: {reducer: append, scope: session}, user: {}}
flow: {handoffs: {start: planner}}
---
version: 1
scenario: a plan, then a text
pipeline: office
turns:
  - user: Invite Ada
    replies:
      planner: Write to her on Friday.
      writer: [{calls: [send: {to: Ada}, note: {day: Friday}]}, It is sent.]
    expect:
      agents: [planner, writer]
      reply: It is sent.
      tool_calls:
        - {agent: writer, tool: send, args: {to: Ada}, result: done}
        - {agent: writer, tool: note, args: {day: Friday}, result: {ok: true}}
      context:
        writer:
          messages:
            - system: Write what was planned.
            - user: "Invite Ada\\nPlan: Write to her on Friday."
"""
NODE = """\
const base = process.env.OPENAI_BASE_URL;

async function ask(messages, tools) {
  const answer = await fetch(`${base}/chat/completions`, {
    method: "POST",
    headers: {"content-type": "application/json", authorization: "Bearer none"},
    body: JSON.stringify({model: "gpt-5-mini", messages, ...(tools && {tools})}),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body.choices[0].message;
}

const tool = (name) => ({type: "function", function: {name, parameters: {type: "object"}}});
const results = {send: "done", note: '{"ok": true}'};
const plan = await ask([
  {role: "system", content: "Plan for Bob. Be short."},
  {role: "user", content: "Invite Ada"},
]);
const messages = [
  {role: "system", content: "Write what was planned."},
  {role: "user", content: `Invite Ada\\nPlan: ${plan.content}`},
];
let said = await ask(messages, [tool("send"), tool("note")]);
while (said.tool_calls) {
  messages.push(said);
  for (const call of said.tool_calls)
    messages.push({role: "tool", tool_call_id: call.id, content: results[call.function.name]});
  said = await ask(messages, [tool("send"), tool("note")]);
}
console.log(said.content);
"""
SOCKETS = """\
import json, os, urllib.request


def post(path, body, **headers):
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + path, json.dumps(body).encode(),
        {"content-type": "application/json", **headers},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"]


def ask(path, system, messages, **headers):
    tools = [{"name": n, "input_schema": {"type": "object"}} for n in ("send", "note")]
    body = {"model": "m", "max_tokens": 9, "system": system, "messages": messages, "tools": tools}
    return post(path, body, **headers)


(plan,) = ask(
    "/v1/messages", "Anything.", [{"role": "user", "content": "Invite Ada"}],
    **{"x-simkit-agent": "planner"},
)
messages = [{"role": "user", "content": "Invite Ada\\nPlan: " + plan["text"]}]
path = "/agents/writer/v1/messages"
calls = ask(path, "Write what was planned.", messages)
results = {"send": "done", "note": '{"ok": true}'}
messages += [
    {"role": "assistant", "content": calls},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call["id"], "content": results[call["name"]]}
        for call in calls
    ]},
]
print(ask(path, "Write what was planned.", messages)[0]["text"])
"""


@pytest.mark.slow
def test_a_program_in_another_language_is_held_against_a_declared_pipeline(process: Call) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    write("office.scenario.yaml", SUPERVISED)
    write("program.mjs", NODE)

    done = process("serve", "office.scenario.yaml", "--then", "node program.mjs")

    assert done.out.startswith("It is sent.\n  ok      a plan, then a text\n"), done.out + done.err
    assert (done.code, done.err) == (0, "")


@pytest.mark.slow
def test_agents_are_told_by_a_header_and_by_a_path(process: Call) -> None:
    write("office.scenario.yaml", SUPERVISED)
    write("program.py", SOCKETS)

    done = process("serve", "office.scenario.yaml", "--then", f"{PYTHON} program.py")

    assert done.out.startswith("It is sent.\n  ok      a plan, then a text\n"), done.out + done.err
    assert (done.code, done.err) == (0, "")


ECHO = """\
version: 1
scenario: hello
pipeline: somewhere:else
agents: {a: {system: Say hello.}}
turns:
  - {user: hi, replies: {a: hello}, expect: {reply: hello}}
  - {user: bye, replies: {a: goodbye}, expect: {reply: goodbye}}
"""


def test_a_port_in_use_is_one_error(simkit: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        done = simkit("serve", "scenarios/good.scenario.yaml::it holds", "--port", str(port))

    assert done == (2, "", f"port {port} cannot be listened to: Address already in use\n")


@contextmanager
def listening(file: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Serves without a command, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "simkit", "serve", file, *options], text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HTTPS_PROXY": "", "NO_PROXY": "a.example"},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.load(answer)


def ask_server(url: str, text: str) -> str:
    """Asks for a chat completion; returns what the model says."""
    messages = [{"role": "system", "content": "Say hello."}, {"role": "user", "content": text}]
    answer = post(f"{url}/v1/chat/completions", {"model": "m", "messages": messages})
    content: str = answer["choices"][0]["message"]["content"]
    return content


@pytest.mark.slow
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_it_judges(project: Path, which: signal.Signals) -> None:
    write("echo.scenario.yaml", ECHO)

    with listening("echo.scenario.yaml", "--format", "json") as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        url = printed["url"]
        texts = [ask_server(url, "hi"), ask_server(url, "bye")]
        process.send_signal(which)
        out, err = process.communicate(timeout=60)

    assert texts == ["hello", "goodbye"]
    assert printed["environment"]["OPENAI_BASE_URL"] == f"{url}/v1"
    assert printed["environment"]["NO_PROXY"] == "a.example,127.0.0.1"
    answer = json.loads(out)
    assert answer["scenarios"][0]["outcome"] == "held"
    assert (answer["command"], answer["url"]) == ("serve", url)
    assert err == f"serving on {url}; Ctrl-C judges\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_without_a_command_the_environment_is_printed_for_a_shell(project: Path) -> None:
    write("echo.scenario.yaml", ECHO)

    with listening("echo.scenario.yaml") as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[2].rstrip(";")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)

    assert out.startswith(
        f"export OPENAI_BASE_URL={url}/v1\nexport OPENAI_API_BASE={url}/v1\n"
        f"export AZURE_OPENAI_ENDPOINT={url}\nexport OPENAI_API_KEY=simkit\n"
    )
    assert process.returncode == 1


@pytest.mark.parametrize("program", ["", "python desk.py"])
def test_without_a_command_a_problem_is_told_once_as_it_comes(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run: Any = SimpleNamespace(problem=None)
    options = ServeOptions(path="a", port=0, program=program, form="text", show="")

    def take(request: str) -> str:
        run.problem = "there is no reply" if request != "first" else None
        return f"the answer to {request}"

    run.take = take
    handle: Any = _handle(options, run)
    answers = [handle(request) for request in ("first", "second", "third")]

    assert answers == [f"the answer to {name}" for name in ("first", "second", "third")]
    line = "" if program else "refused from now on: there is no reply\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.slow
def test_a_signal_ends_the_command_too(project: Path) -> None:
    write("echo.scenario.yaml", ECHO)
    program = f"exec {PYTHON} -uc 'import time; print(\"here\"); time.sleep(600)'"

    with listening("echo.scenario.yaml", "--then", program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)

    assert "FAILED  hello" in out
    assert err == f"the command was stopped by SIGTERM: {program}\n"
    assert process.returncode == 2

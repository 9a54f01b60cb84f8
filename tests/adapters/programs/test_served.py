"""A served scenario: which turn and whose call a request is, and what becomes of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from simkit.adapters.programs.reports import NEXT
from simkit.adapters.programs.served import ServedRun
from simkit.checks.judge import judge
from simkit.cli.serve import served, silent_turns, unused_of
from simkit.language.yaml import load_text
from simkit.providers.http import HttpRequest, HttpResponse, NoResponse
from simkit.runtime.functions import function_named
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase
from simkit.trace import events as e
from simkit.trace.store import Trace

URL = "http://127.0.0.1:8080"
HEAD = """\
version: 1
scenario: s
pipeline: some:where
agents: {a: {system: {$starts: A}}, b: {system: {$starts: B}, handoff: to_b}}
"""


def prepared(scenario: str, head: str = HEAD) -> Prepared:
    file = "test.scenario.yaml"
    library = Library()
    documents = load_text(head + dedent(scenario).strip("\n"), file)
    library._changed[file] = documents
    return library.prepared(ScenarioCase(file, "s", len(documents) - 1, 1))


class Program:
    """What talks to a served scenario, without a network."""

    def __init__(self, scenario: str, head: str = HEAD) -> None:
        self.prepared = prepared(scenario, head)
        self.trace = Trace()
        self.run: ServedRun = served(self.prepared, self.trace)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        names = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        data = json.dumps(body).encode()
        return self.run.take(HttpRequest(method, f"{URL}{path}", names, data))

    def asks(self, *messages: str, prefix: str = "", **more: Any) -> HttpResponse:
        """Sends a chat completion; ``A: …`` is a system message, others are the user's."""
        rows = [
            {"role": "system" if text[:2] in ("A:", "B:", "C:") else "user", "content": text}
            for text in messages
        ]
        headers = {name: more.pop(name) for name in list(more) if name.startswith("x_")}
        body = {"model": "m", "messages": rows, **more}
        response = self.send("POST", f"{prefix}/v1/chat/completions", body, **headers)
        assert isinstance(response, HttpResponse)
        return response

    def hears(self, *messages: str, **more: Any) -> str:
        """Returns what the model says, or the message of a refusal."""
        answer = json.loads(self.asks(*messages, **more).body)
        if "error" in answer:
            return f"refused: {answer['error']['message']}"
        return str(answer["choices"][0]["message"]["content"])

    def begins(self) -> Any:
        """Begins the next turn; returns status and answer."""
        response = self.send("POST", NEXT)
        return response.status, json.loads(response.body or b"null")

    @property
    def turn(self) -> int:
        """The turn that has begun last."""
        return sum(type(event) is e.TurnStarted for event in self.trace.events)

    def end(self) -> list[Any]:
        """Ends the run; returns each turn's reply and error, and the error of the run."""
        self.run.finish(silent_turns(self.prepared), lambda: None)
        ends: list[Any] = [
            (event.reply, event.error.type if event.error else None)
            for event in self.trace.events
            if isinstance(event, e.TurnFinished)
        ]
        (last,) = [event for event in self.trace.events if isinstance(event, e.RunFinished)]
        return [*ends, last.error.type if last.error else None]


THREE = """
turns:
  - {user: hi, replies: {a: hello}}
  - {user: go on, replies: {a: [one, two]}}
  - {user: bye, replies: {a: goodbye}}
"""


def test_a_turn_begins_when_its_message_is_the_latest() -> None:
    program = Program(THREE)

    items = [
        program.hears("A:", "hi"),
        program.hears("A:", "hi", "go on"),
        program.hears("A:", "hi", "go on"),
        program.hears("A:", "bye"),
    ]

    assert items == ["hello", "one", "two", "goodbye"]
    assert program.end() == [("hello", None), ("two", None), ("goodbye", None), None]


@pytest.mark.parametrize(
    "reply",
    ["The user says: go on", "hi\ngo on", "go on!", "  go on "],
    ids=["within words", "the whole talk", "beside a sign", "with spaces"],
)
def test_a_message_may_stand_within_another(reply: str) -> None:
    program = Program(THREE)
    program.hears("A:", "hi")

    assert program.hears("A:", reply) == "one"
    assert program.turn == 2


@pytest.mark.parametrize(
    "reply", ["hi", "a question of the agent's own", "go only", "go on hi"],
    ids=["the same", "another", "part of a word", "in the wrong order"],
)  # fmt: skip
def test_what_is_not_the_next_message_goes_on_with_the_turn(reply: str) -> None:
    program = Program(THREE.replace("{a: hello}", "{a: [hello, again]}"))
    program.hears("A:", "hi")

    assert program.hears("A:", reply) == "again"
    assert program.turn == 1


def test_instructions_show_the_turn_where_there_is_no_user_message() -> None:
    program = Program(THREE)
    program.hears("A: what means hi")

    assert program.hears("A: what means go on") == "one"


def test_who_says_the_same_twice_is_at_the_second_once_the_first_is_answered() -> None:
    program = Program(
        """
        turns:
          - {user: "yes", replies: {a: [one, two]}}
          - {user: "yes", replies: {a: three}}
        """
    )

    response = [program.hears("A:", "yes") for _ in range(3)]

    assert response == ["one", "two", "three"]
    assert program.end() == [("two", None), ("three", None), None]


def test_a_turn_that_is_left_out_is_begun_on_the_way() -> None:
    program = Program(THREE)
    program.hears("A:", "hi")

    assert program.hears("A:", "bye") == "goodbye"
    assert program.end() == [("hello", None), (None, None), ("goodbye", None), None]


def test_a_later_turn_is_not_begun_by_a_message_that_only_mentions_it() -> None:
    program = Program(THREE.replace("{a: hello}", "{a: [hello, again]}"))
    program.hears("A:", "hi")

    assert program.hears("A:", "say bye to her") == "again"


def test_a_program_may_begin_turns_itself() -> None:
    program = Program(THREE)

    values = [
        program.begins(), program.hears("A:", "bye"),
        program.begins(), program.hears("A:"), program.hears("A:"),
        program.begins(), program.hears("A:", "hi"), program.begins(),
    ]  # fmt: skip

    def send_turn(turn: int, user: str, **state: Any) -> Any:
        return 200, {
            "turn": turn, "session": "s1", "project": "p1", "user": user, "resumes": False,
            "state": state,
        }  # fmt: skip

    assert values == [
        send_turn(1, "hi"), "hello",
        send_turn(2, "go on"), "one", "two",
        send_turn(3, "bye"), "goodbye",
        (204, None),
    ]  # fmt: skip


def test_sessions_have_logs_of_their_own() -> None:
    program = Program(
        """
        turns:
          - {user: hi, session: one, replies: {a: hello}}
          - {user: hi, session: two, replies: {a: hello too}}
          - {user: bye, session: one, replies: {a: goodbye}}
        """
    )

    items = [program.hears("A:", "hi"), program.hears("A:", "hi"), program.hears("A:", "hi", "bye")]

    assert items == ["hello", "hello too", "goodbye"]
    pairs = [
        (event.session, event.message.content)
        for event in program.trace.events
        if isinstance(event, e.MessageAdded)
    ]
    assert pairs == [
        ("one", "hi"), ("one", "hello"), ("two", "hi"), ("two", "hello too"), ("one", "bye"),
        ("one", "goodbye"),
    ]  # fmt: skip


def test_an_agent_is_named_by_a_header_a_path_or_a_rule() -> None:
    program = Program("turns: [{user: hi, replies: {a: one, b: two, my agent: three}}]", PIPELINE)

    items = [
        program.hears("nobody's", "hi", x_simkit_agent="a"),
        program.hears("nobody's", "hi", prefix="/agents/b"),
        program.hears("nobody's", "hi", prefix="/agents/my%20agent"),
    ]

    assert items == ["one", "two", "three"]


PIPELINE = """\
version: 1
pipeline: p
agents:
  a: {instructions: "A: say ${state.x} to ${state.y}.", handoffs: [b, my agent]}
  b: {instructions: "B: say"}
  my agent: {instructions: "B: say nothing."}
channels: {messages: {reducer: append, scope: session}, x: {}, y: {}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: s
pipeline: p
"""


def test_a_declared_pipeline_s_agents_are_known_by_their_instructions() -> None:
    program = Program("turns: [{user: hi, replies: {a: one, b: two, my agent: three}}]", PIPELINE)

    items = [
        program.hears("A: say this to that.\nBe kind.", "hi"),
        program.hears("B: say something.", "hi"),
        program.hears("B: say nothing.", "hi"),
    ]

    assert items == ["one", "two", "three"]


def test_control_passes_by_a_tool_that_the_rules_name() -> None:
    program = Program("turns: [{user: hi, replies: {a: {handoff: {to: b}}, b: done}}]")
    tool = {"type": "function", "function": {"name": "to_b", "parameters": {"type": "object"}}}

    answer = json.loads(program.asks("A:", "hi", tools=[tool]).body)
    program.hears("B:", "hi")
    program.end()

    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "to_b", "arguments": "{}"}
    events = [event for event in program.trace.events if isinstance(event, e.HandoffMade)]
    assert [(event.from_agent, event.to_agent) for event in events] == [("a", "b")]


def test_a_failure_that_nothing_follows_is_the_turn_s_error() -> None:
    program = Program(
        """
        turns:
          - {user: hi, replies: {a: [{error: overloaded}, hello]}}
          - {user: bye, replies: {a: {error: rate_limit}}}
          - {user: really, replies: {a: {error: length}}}
        """
    )

    statuses = [program.asks("A:", text).status for text in ("hi", "hi", "bye", "really")]

    assert statuses == [503, 200, 429, 200]
    assert program.end() == [("hello", None), (None, "rate_limit"), (None, None), None]


def test_a_timeout_is_handed_on() -> None:
    program = Program("turns: [{user: hi, replies: {a: {error: timeout}}}]")
    body = {"messages": [{"role": "system", "content": "A"}, {"role": "user", "content": "hi"}]}

    decision = program.send("POST", "/v1/chat/completions", {"model": "m", **body})

    assert isinstance(decision, NoResponse)
    assert decision.kind == "timeout"


def test_a_scripted_latency_is_waited_for() -> None:
    program = Program("turns: [{user: hi, replies: {a: {text: hello, latency_ms: 250}}}]")

    assert program.asks("A:", "hi").waits_ms == (250,)


def test_a_call_too_many_ends_the_run_as_a_replay_would() -> None:
    program = Program(THREE)
    missing = (
        "refused: simkit: agent 'a' made model call #2 in turn 1, but the scenario has 1 reply for "
        "it.\nAdd one under turns[0].replies.a, or expect the turn to stop earlier."
    )

    response = [program.hears("A:", text) for text in ("hi", "hi", "go on")]

    assert response == ["hello", missing, missing]
    assert program.end() == [("hello", "ReplyMissing"), "ReplyMissing"]


def test_a_call_of_nobody_s_breaks_the_run() -> None:
    program = Program(THREE)

    response = program.hears("C: who am I?", "hi")

    assert response.startswith(
        "refused: simkit: a model call belongs to no agent: POST http://127.0."
    )
    assert (
        response.removeprefix("refused: simkit: ") == program.run.problem == str(program.run.broken)
    )


def test_a_body_that_its_protocol_does_not_know_breaks_the_run() -> None:
    program = Program(THREE)

    response = program.send("POST", "/v1/messages", {"model": 1})

    assert response.status == 400
    assert "is no request that anthropic knows" in program.run.problem


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/chat/completions", None),
        ("/v1/responses", None),
        ("/v1/messages", "error"),
        ("/v1beta/models/m:generateContent", None),
    ],
)
def test_a_refusal_is_told_as_the_provider_would(path: str, kind: str | None) -> None:
    program = Program(THREE)

    response = program.send("POST", path, {})

    data = json.loads(response.body)
    assert response.status == 400
    assert data.get("type") == kind
    assert data["error"]["message"] == f"simkit: {program.run.problem}"
    if "models" not in path:
        assert ("x-should-retry", "false") in response.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "reply"),
    [
        ("GET", "/v1/chat/completions", 405, "/v1/chat/completions takes POST, not GET"),
        ("GET", NEXT, 405, "/simkit/next takes POST, not GET"),
        ("GET", "/v1/models?limit=3", 404, "GET /v1/models is no model call. Spoken here: "),
        ("HEAD", "/v1/models", 404, "HEAD /v1/models is no model call. Spoken here: "),
        ("POST", "/v1/embeddings", 404, "POST /v1/embeddings is no model call. Spoken here: "),
        ("POST", "/", 404, "POST / is no model call. Spoken here: "),
    ],
)
def test_what_is_no_model_call_is_refused_and_ends_nothing(
    method: str, path: str, status: int, reply: str
) -> None:
    program = Program(THREE)

    response = program.send(method, path)

    assert response.status == status
    assert json.loads(response.body)["error"]["message"].startswith(reply)
    assert program.run.unknown == {f"{method} {path.partition('?')[0]}": 1}
    assert program.hears("A:", "hi") == "hello"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_whether_it_is_there_may_be_asked(method: str) -> None:
    program = Program(THREE)

    response = program.send(method, "/")

    assert response.status == 200
    about = json.loads(response.body)
    assert (about["simkit"], about["turn"], about["ANTHROPIC_BASE_URL"]) == ("serve", 0, URL)
    assert not program.run.unknown


def test_turns_that_nothing_need_be_asked_for_are_not_missed() -> None:
    program = Program("turns: [{user: hi, replies: {a: hello}}, {user: thanks}, {user: bye}]")
    program.hears("A:", "hi")

    assert program.end() == [("hello", None), (None, None), (None, None), None]


def test_a_program_that_asks_nothing_has_ended_too_early() -> None:
    assert Program(THREE).end() == ["ProgramEnded"]


def test_structured_output_is_the_reply_as_json() -> None:
    program = Program("turns: [{user: hi, replies: {a: {json: {n: 1}}}}]")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    named = {"type": "json_schema", "json_schema": {"name": "out", "schema": schema}}

    assert program.hears("A:", "hi", response_format=named) == '{"n":1}'
    assert program.end() == [({"n": 1}, None), None]


def test_what_means_nothing_to_a_served_program_is_listed() -> None:
    scenario = """
    app: {path: [.], setup: some:setup, env: {X: y}, tools: {book: some:book}}
    turns:
      - {user: hi, replies: {a: hello}, tool_results: {book: y}}
    """

    assert list(unused_of(prepared(scenario))) == [
        "`tool_results` (book) are used where the program asks for them, with POST /simkit/tool. "
        "Else it carries its tools out itself; what they return is seen in its next request, and "
        "claimed under `tool_calls`.",
        "`app` (setup, tools) is not used: simkit does not run the program",
    ]
    restarted = "turns: [{user: hi}, {user: bye, restart: true}]"
    assert list(unused_of(prepared(restarted, PIPELINE))) == [
        "`restart` of turn 2 is not used: simkit does not run the program"
    ]


def test_a_cassette_answers_whom_no_line_answers(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "system", "content": "A:"}]}
    interaction = {
        "request": {
            "method": "POST", "uri": "https://api.openai.com/v1/chat/completions",
            "body": json.dumps(body), "headers": {"content-type": ["application/json"]},
        },
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {"content-type": ["application/json"], "content-length": ["1"]},
            "body": {"string": json.dumps({
                "id": "x", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{
                    "index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "recorded"},
                }],
            })},
        },
        "simkit": {"agent": "a", "turn": 1},
    }  # fmt: skip
    cassette = tmp_path / "talk.json"
    cassette.write_text(json.dumps({"version": 1, "interactions": [interaction]}), "utf-8")

    program = Program(f"cassette: {cassette}\nturns: [{{user: hi}}]")

    assert program.hears("A:") == "recorded"
    assert program.end() == [("recorded", None), None]


TWO = """
turns:
  - {user: hi, session: one, replies: {a: hello one}}
  - {user: hi, session: two, replies: {a: hello two}}
  - {user: go on, session: one, replies: {a: [tale one, end one]}}
  - {user: go on, session: two, replies: {a: [tale two, end two]}}
"""


def chat(program: Program, *reply: str) -> str:
    """Sends a conversation: the user's and the model's words by turns."""
    messages = [{"role": "system", "content": "A:"}]
    for place, text in enumerate(reply):
        messages.append({"role": "assistant" if place % 2 else "user", "content": text})
    response = program.send("POST", "/v1/chat/completions", {"model": "m", "messages": messages})
    answer = json.loads(response.body)
    if "error" in answer:
        return f"refused: {answer['error']['message']}"
    return str(answer["choices"][0]["message"]["content"])


def test_two_sessions_with_the_same_words_are_told_apart_by_their_histories() -> None:
    program = Program(TWO)

    texts = [
        chat(program, "hi"),
        chat(program, "hi"),
        chat(program, "hi", "hello one", "go on"),
        chat(program, "hi", "hello one", "go on"),
        chat(program, "hi", "hello two", "go on"),
        chat(program, "hi", "hello two", "go on"),
    ]

    assert texts == ["hello one", "hello two", "tale one", "end one", "tale two", "end two"]
    assert program.end()[-1] is None


def test_a_request_that_goes_on_with_another_session_is_an_error_and_is_not_answered() -> None:
    program = Program(TWO)
    chat(program, "hi")
    chat(program, "hi")

    refused = chat(program, "hi", "hello two", "go on")

    assert refused == (
        "refused: simkit: a request continues session 'two', by its history, but turn 3 is "
        "of session 'one'. Let the program ask in the order of the scenario's turns, or begin each "
        "turn with a POST to /simkit/next."
    )
    assert chat(program, "hi", "hello one", "go on").startswith("refused: ")
    assert program.end()[-1] == "SessionMixed"


def test_a_late_request_of_the_session_before_is_not_answered_with_the_others_lines() -> None:
    program = Program(TWO)
    chat(program, "hi")
    chat(program, "hi")
    chat(program, "hi", "hello one", "go on")
    chat(program, "hi", "hello two", "go on")

    assert "session 'one'" in chat(program, "hi", "hello one", "go on", "tale one", "more")


@pytest.mark.parametrize(
    "history",
    [["go on"], ["hi", "who knows", "go on"], ["hi", "hello one", "hi", "hello two", "go on"]],
    ids=["none", "nobody's", "both sessions'"],
)
def test_a_history_that_does_not_tell_contradicts_nothing(history: list[str]) -> None:
    program = Program(TWO)
    chat(program, "hi")
    chat(program, "hi")

    assert chat(program, *history) == "tale one"


def test_who_begins_turns_itself_is_believed() -> None:
    program = Program(TWO)
    for _ in range(3):
        program.begins()

    assert chat(program, "hi", "hello two", "go on") == "tale one"


DECLARED = """\
version: 1
pipeline: p
agents:
  a: {instructions: "A:", tools: [look], returns: tool_output}
tools: {look: {args: {type: object}}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: s
pipeline: p
"""


def judged(program: Program) -> list[str]:
    program.end()
    judgement = judge(
        program.prepared.scenario, program.prepared.document, program.trace, function_named
    ).judgement
    return [f"{item.id}: {item.what}" for item in (*judgement.findings, *judgement.warnings)]


def test_a_tools_result_that_is_the_output_leaves_no_work_open_and_is_not_seen() -> None:
    scenario = """
    turns:
      - user: hi
        replies: {a: {calls: [look: {at: sky}]}}
        expect: {EXPECT}
    """
    plain = Program(scenario.replace("{EXPECT}", "{agents: [a]}"), DECLARED)
    plain.asks("A:", "hi", tools=[{"type": "function", "function": {"name": "look"}}])
    claimed = Program(scenario.replace("{EXPECT}", "{tool_calls: []}"), DECLARED)
    claimed.asks("A:", "hi", tools=[{"type": "function", "function": {"name": "look"}}])

    assert judged(plain) == []
    assert judged(claimed) == [
        "claim: tool_calls is not observable by driver 'served', which does not see whether a "
        "tool ran that was asked for last"
    ]

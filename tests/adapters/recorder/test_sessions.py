"""A model's tool calls have ids as its provider makes them, and are known again by those."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.messages import Message, ToolCall
from simkit.trace.events import StateUpdated
from tests.adapters.running import run_app
from tests.adapters.scribes import Desk, user

CODE = """
import json
import urllib.request

LOOK = {"name": "look", "parameters": {"type": "object", "properties": {}}}

def sent(path, **body):
    url = f"https://llm.example.test/{path}"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)

def completed(messages):
    tools = [{"type": "function", "function": LOOK}]
    answer = sent("v1/chat/completions", model="m", messages=messages, tools=tools)
    return answer["choices"][0]["message"]

def openai_chat(text):
    return completed([{"role": "user", "content": text}])["tool_calls"][0]["id"]

def openai_responses(text):
    tools = [{"type": "function", **LOOK}]
    return sent("v1/responses", model="m", input=text, tools=tools)["output"][-1]["call_id"]

def anthropic(text):
    messages = [{"role": "user", "content": text}]
    tools = [{"name": "look", "input_schema": LOOK["parameters"]}]
    found = sent("v1/messages", model="m", max_tokens=9, messages=messages, tools=tools)
    return found["content"][-1]["id"]

def gemini(text):
    contents = [{"role": "user", "parts": [{"text": text}]}]
    tools = [{"functionDeclarations": [LOOK]}]
    found = sent("v1beta/models/m:generateContent", contents=contents, tools=tools)
    return found["candidates"][0]["content"]["parts"][-1]["functionCall"]["id"]

def particular(text):
    messages = [{"role": "user", "content": text}]
    said = completed(messages)
    call = said["tool_calls"][0]
    if not call["id"].startswith("call_"):
        # As some frameworks do with the ids of another provider.
        call["id"] = "call_0"
    answer = {"role": "tool", "tool_call_id": call["id"], "content": "grey"}
    return completed([*messages, said, answer])["content"]

def gemini_talk(text, named):
    contents = [{"role": "user", "parts": [{"text": text}]}]
    tools = [{"functionDeclarations": [LOOK]}]
    number = 0
    while True:
        found = sent("v1beta/models/m:generateContent", contents=contents, tools=tools)
        parts = found["candidates"][0]["content"]["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not calls:
            return parts[-1]["text"]
        answers = []
        for call in calls:
            number += 1
            del call["id"]
            own = {"id": f"own-{number}"} if named else {}
            call |= own
            response = {"name": call["name"], "response": {"result": f"grey {number}"}, **own}
            answers.append({"functionResponse": response})
        contents += [{"role": "model", "parts": parts}, {"role": "user", "parts": answers}]

def gemini_own_ids(text):
    return gemini_talk(text, True)

def gemini_no_ids(text):
    return gemini_talk(text, False)

def renumbered_once(text, fills, numbered):
    messages = [{"role": "user", "content": text}]
    while True:
        said = completed(messages)
        if not said.get("tool_calls"):
            return said["content"]
        answers = []
        for number, call in enumerate(said["tool_calls"]):
            args = {**json.loads(call["function"]["arguments"]), **fills}
            call["function"]["arguments"] = json.dumps(args)
            call["id"] = f"call_{number}" if numbered else f"call_{len(messages)}_{number}"
            content = f"grey {args['at']} {number}"
            answers.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        messages += [said, *answers]

def renumbered(text):
    return " ".join(renumbered_once(text, {}, True) for _ in range(2))

def renumbered_by_place(text):
    return " ".join(renumbered_once(text, {}, False) for _ in range(2))

def filled_in(text):
    return " ".join(renumbered_once(text, {"n": 1}, True) for _ in range(2))

def floating(text):
    return " ".join(renumbered_once(text, {"n": 1.0}, True) for _ in range(2))

def no_ids_once(text, merges):
    contents = [{"role": "user", "parts": [{"text": text}]}]
    tools = [{"functionDeclarations": [LOOK]}]
    while True:
        found = sent("v1beta/models/m:generateContent", contents=contents, tools=tools)
        parts = found["candidates"][0]["content"]["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not calls:
            return parts[-1]["text"]
        answers = []
        for number, call in enumerate(calls):
            del call["id"]
            response = {"content": f"grey {call['args']['at']} {number}"}
            answers.append({"functionResponse": {"name": "look", "response": response}})
        if merges:
            parts = [part for place, part in enumerate(parts) if part not in parts[:place]]
        contents += [{"role": "model", "parts": parts}, {"role": "user", "parts": answers}]

def no_ids(text):
    return " ".join(no_ids_once(text, False) for _ in range(2))

def merged(text):
    return " ".join(no_ids_once(text, True) for _ in range(2))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "call_ids_app.py").write_text(CODE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai_chat", "call_000000000000000000000001"),
        ("openai_responses", "call_000000000000000000000001"),
        ("anthropic", "toolu_000000000000000000000001"),
        ("gemini", "call1"),
    ],
)
def test_a_call_has_an_id_as_its_provider_makes_it(
    provider: str, expected: str, folder: Path
) -> None:
    scenario = f"""
        agents: {{desk: {{tools: [look]}}}}
        lints: {{FLW-07: the call is not what is tested}}
        turns:
          - user: Look
            replies: {{desk: {{calls: [look: {{}}]}}}}
            expect: {{reply: {expected}}}
    """

    ran = run_app(f"call_ids_app:{provider}", scenario, folder)

    assert ran.judgement.findings == ()


def test_a_program_that_takes_only_its_providers_ids_sends_the_calls_back_under_them(
    folder: Path,
) -> None:
    scenario = """
        agents: {desk: {tools: [look]}}
        turns:
          - user: Look
            replies: {desk: [{calls: [look: {}]}, It is grey.]}
            expect: {reply: It is grey., tool_calls: [{agent: desk, tool: look, result: grey}]}
    """

    ran = run_app("call_ids_app:particular", scenario, folder)

    assert ran.judgement.findings == ()


@pytest.mark.parametrize("client", ["gemini_own_ids", "gemini_no_ids"])
def test_calls_that_a_client_gives_its_own_ids_are_the_models(client: str, folder: Path) -> None:
    scenario = """
        agents: {desk: {tools: [look]}}
        turns:
          - user: Look
            replies:
              desk:
                - calls: [look: {}, look: {}]
                - calls: [look: {at: sea}]
                - It is grey.
            expect:
              reply: It is grey.
              tool_calls:
                - {args: {$exact: {}}, result: grey 1}
                - {args: {$exact: {}}, result: grey 2}
                - {args: {at: sea}, result: grey 3}
    """

    ran = run_app(f"call_ids_app:{client}", scenario, folder)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())
    assert [len(call.context.messages) for call in ran.view.turns[0].calls] == [1, 4, 6]
    assert len(ran.view.messages) == 7


CLIENTS = ["renumbered", "renumbered_by_place", "filled_in", "floating", "no_ids"]


@pytest.mark.parametrize(
    ("client", "second"),
    # Of calls that were merged, equal results are one message.
    [("merged", "land"), *((client, at) for client in CLIENTS for at in ("sea", "land"))],
)
def test_every_call_has_its_own_result_where_a_client_numbers_each_conversation_anew(
    client: str, second: str, folder: Path
) -> None:
    scenario = f"""
        agents: {{desk: {{tools: [look]}}}}
        turns:
          - user: Look
            replies:
              desk:
                - calls: [look: {{at: sea, n: 1}}, look: {{at: sea, n: 1}}]
                - calls: [look: {{at: sky, n: 1}}]
                - Grey.
                - calls: [look: {{at: {second}, n: 1}}, look: {{at: {second}, n: 1}}]
                - Grey too.
            expect:
              reply: Grey. Grey too.
              tool_calls:
                - {{args: {{at: sea}}, result: {{$contains: grey sea 0}}}}
                - {{args: {{at: sea}}, result: {{$contains: grey sea 1}}}}
                - {{args: {{at: sky}}, result: {{$contains: grey sky 0}}}}
                - {{args: {{at: {second}}}, result: {{$contains: grey {second} 0}}}}
                - {{args: {{at: {second}}}, result: {{$contains: grey {second} 1}}}}
    """

    ran = run_app(f"call_ids_app:{client}", scenario, folder)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


def test_a_clients_ids_and_the_wires_may_both_stand_for_one_call() -> None:
    desk = Desk()
    desk.turn("Look")
    tool_calls = [ToolCall(desk.recorder.new_call_id(), "look", {}) for _ in range(2)]
    answers = desk.answers(desk.asks([user("Look")]), "", *tool_calls)
    wire, state = (
        desk.recorder.known(
            Message("assistant", "", calls=tuple(ToolCall(i, "look", {}) for i in ids)), desk.run()
        )
        for ids in (["call_1", "call_2"], ["e1f", "0b7"])
    )

    assert {item.id for item in (answers, wire, state)} == {answers.id}
    assert desk.recorder.call_request("call_2") is desk.recorder.call_request("0b7")


def test_an_id_that_came_back_as_it_was_served_is_not_taken_for_another() -> None:
    desk = Desk()
    desk.turn("Look")
    tool_call = ToolCall(desk.recorder.new_call_id(), "look", {})
    answers = desk.answers(desk.asks([user("Look")]), "", tool_call)
    number = desk.recorder.known(Message("assistant", calls=(tool_call,)), desk.run())
    other = desk.recorder.known(
        Message("assistant", calls=(ToolCall("other", "look", {}),)), desk.run()
    )

    assert number.id == answers.id != other.id


def test_what_the_pipeline_keeps_of_a_call_names_it_as_the_trace_does() -> None:
    desk = Desk()
    desk.turn("Look")
    ours = desk.recorder.new_call_id()
    served = desk.recorder.served_id(ours, "call_")
    desk.recorder.wrote({"records": [{"id": served, "text": f"by {served}", "other": "call_7"}]})

    (update,) = [event for event in desk.trace.events if isinstance(event, StateUpdated)]

    assert update.update == {"records": [{"id": ours, "text": f"by {served}", "other": "call_7"}]}


def test_ids_that_no_provider_makes_stay_as_the_pipeline_has_them() -> None:
    desk = Desk()
    desk.turn("Look")
    desk.recorder.known(Message("assistant", "", calls=(ToolCall("1", "look", {}),)), desk.run())
    desk.recorder.wrote({"page": "1"})

    (update,) = [event for event in desk.trace.events if isinstance(event, StateUpdated)]

    assert update.update == {"page": "1"}

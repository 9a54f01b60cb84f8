"""Which offered tool takes a value that a reply line gives, and as which arguments."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simkit.adapters.model_calls import args_of, concluded, output_of, output_tool
from simkit.capture.cassettes import load
from simkit.checks.judge import Outcome
from simkit.core.messages import Message, ToolCall
from simkit.providers import sse
from simkit.providers.http import HttpRequest, HttpResponse, NoResponse
from simkit.providers.values import Offer, ParsedRequest
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from simkit.trace.events import ModelFailed, ToolCalled
from tests.adapters.scribes import Desk
from tests.recording import APP, SCENARIO, Provider, echo, prepared, write
from tests.recording import folder as folder
from tests.recording import server as server

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
OFFERS = (Offer("look_up", WORD), Offer("final_number", NUMBER), Offer("final_word", WORD))
TOOLS = {"final_number": "", "final_word": ""}


def name_of(parsed_request: ParsedRequest, value: object) -> str | None:
    offer = output_tool(parsed_request, value, TOOLS)
    return offer.name if offer is not None else None


@pytest.mark.parametrize(
    ("value", "name"),
    [({"n": 1}, "final_number"), ({"word": "x"}, "final_word"), ({"m": 1}, "final_number")],
)
def test_the_first_output_tool_that_takes_a_value_is_called_or_the_first(
    value: object, name: str
) -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS), value) == name


def test_the_tool_that_must_be_called_is_called_whatever_it_takes() -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS, choice="look_up"), {"n": 1}) == "look_up"


def test_where_the_request_asks_for_a_schema_output_is_text() -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS, output=NUMBER), {"n": 1}) is None


def test_where_no_output_tool_is_offered_output_is_text() -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS[:1]), {"word": "x"}) is None


def test_a_value_that_is_no_object_is_the_one_argument() -> None:
    two: dict[str, Any] = {"properties": {"a": {}, "b": {}}}
    pairs = (([1], OFFERS[1]), ({"n": 1}, OFFERS[1]), (1, Offer("x", two)))

    assert [args_of(value, offer, TOOLS) for value, offer in pairs] == [{"n": [1]}, {"n": 1}, 1]


@pytest.mark.parametrize("value", [1, "one", None, [1], {"n": 1}, {"word": "x"}])
def test_an_argument_that_is_named_holds_the_output_whatever_that_is(value: Any) -> None:
    tools = {"final_number": "n"}
    args = args_of(value, OFFERS[1], tools)

    assert args == {"n": value}
    assert output_of(ToolCall("1", "final_number", args), tools) == value


def test_without_a_named_argument_the_arguments_are_the_output() -> None:
    assert output_of(ToolCall("1", "final_number", {"n": 1}), TOOLS) == {"n": 1}


def test_arguments_that_are_no_object_are_the_output() -> None:
    call = ToolCall("1", "final_number", "not JSON")

    assert output_of(call, {"final_number": "n"}) == "not JSON"


def test_a_call_of_an_output_tool_is_no_tool_at_work_and_gives_the_output() -> None:
    desk = Desk()
    desk.turn("hi")
    run = desk.run()
    desk.recorder.set_output_tools(run, {"final_number": "n"})

    call = desk.asks([Message("user", "hi")])
    reply = desk.answers(call, "", ToolCall("x", "final_number", {"n": 3}))
    concluded(desk.recorder, run, reply)
    desk.ends()

    assert [*desk.recorder.pending("final_number")] == []
    assert desk.view.runs[run.id].output == 3
    assert [event for event in desk.trace.events if isinstance(event, ToolCalled)] == []


def test_a_run_that_also_calls_another_tool_goes_on() -> None:
    desk = Desk()
    desk.turn("hi")
    run = desk.run()
    desk.recorder.set_output_tools(run, {"final_number": "n"})
    both = ToolCall("x", "final_number", {"n": 3}), ToolCall("y", "look_up", {"word": "w"})

    concluded(desk.recorder, run, desk.answers(desk.asks([Message("user", "hi")]), "", *both))

    assert not run.is_over
    assert [request.call.name for request in desk.recorder.pending("look_up")] == ["look_up"]


NOW = "2026-01-05T09:00:00Z"
STREAMING = '''
from time import perf_counter

import httpx2


def stream(agent, text, until=None, clock=None):
    """Returns the pieces, as they are read."""
    messages = [{"role": "system", "content": SYSTEM[agent]}, {"role": "user", "content": text}]
    body = {"model": "m", "messages": messages, "stream": True}
    pieces = []
    with httpx2.Client() as client:
        url = os.environ["PROVIDER"] + "/v1/chat/completions"
        with client.stream("POST", url, json=body) as response:
            for piece in response.iter_raw():
                pieces.append(piece)
                if clock is not None:
                    SEEN.append(clock())
                if until is not None and until.encode() in piece:
                    break
    return pieces


SEEN = []


def run_streamed(text):
    return str(len(stream("clerk", text)))


def run_timed(text):
    stream("clerk", text, clock=perf_counter)
    # Of a response that was held back, all pieces would come at once.
    return str(SEEN[-1] - SEEN[0] > 0.5)


def run_until_done(text):
    stream("clerk", text, "[DONE]")
    return "read"


def run_until_first(text):
    stream("clerk", text, "one")
    return "read"
'''


def scenario(function: str, reply: str, *more: str) -> str:
    """Returns a scenario of one turn that calls another function of the app."""
    text = SCENARIO.replace("desk:run", f"desk:{function}").replace("boss: clerk: hello", reply)
    return text + "".join(f"{line}\n" for line in more)


def recorded(file: Path) -> Outcome:
    """Records a scenario, which holds."""
    outcome = record(prepared(file), Recording("all", NOW)).outcome
    assert outcome.judgement.findings == ()
    return outcome


def event(text: str, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, **more}
    return sse.frame({"id": "c1", "object": "chat.completion.chunk", "choices": [choice]})


WORDS = (event("one"), event(" two"), event("", finish_reason="stop"), sse.frame(sse.DONE))
STREAM = (("content-type", "text/event-stream"),)


def test_a_stream_is_recorded_in_the_pieces_and_at_the_times_at_which_it_came(
    folder: Path, server: Provider
) -> None:
    server.answer = lambda request: HttpResponse(200, STREAM, WORDS, waits_ms=(0, 60, 60, 60))
    file = write(folder, scenario("run_streamed", "4"), APP + STREAMING)

    recorded(file)

    (result,) = load("cassettes/desk.yaml").interactions
    assert result.response.chunks == WORDS
    assert len(result.response.waits_ms) == 4
    assert all(wait >= 40 for wait in result.response.waits_ms[1:])
    assert simulate(prepared(file)).judgement.findings == ()


@pytest.mark.slow
def test_whoever_reads_a_stream_has_its_first_piece_long_before_the_last_is_sent(
    folder: Path, server: Provider
) -> None:
    server.answer = lambda request: HttpResponse(200, STREAM, WORDS, waits_ms=(0, 300, 300, 300))
    timed = scenario("run_timed", "True").replace("fresh: true", "fresh: true, real: [clock]")
    file = write(folder, timed, APP + STREAMING)

    outcome = recorded(file)

    assert outcome.trace.events[-1].error is None  # type: ignore[union-attr]


def test_a_client_that_leaves_after_the_last_event_has_read_all_of_it(
    folder: Path, server: Provider
) -> None:
    server.answer = lambda request: HttpResponse(200, STREAM, WORDS, waits_ms=(0, 5, 5, 5))
    file = write(folder, scenario("run_until_done", "read"), APP + STREAMING)

    outcome = recorded(file)

    (result,) = load("cassettes/desk.yaml").interactions
    assert (result.response.body, result.response.ends) == (b"".join(WORDS), "")
    assert kinds(outcome) == kinds(simulate(prepared(file)))


def test_a_stream_that_the_code_left_is_recorded_as_far_as_it_was_read(
    folder: Path, server: Provider
) -> None:
    server.answer = lambda request: HttpResponse(200, STREAM, WORDS, waits_ms=(0, 300, 300, 300))
    file = write(folder, scenario("run_until_first", "read"), APP + STREAMING)

    outcome = recorded(file)

    (result,) = load("cassettes/desk.yaml").interactions
    assert (result.response.chunks, result.response.ends) == (WORDS[:1], "cut")
    assert kinds(outcome) == kinds(simulate(prepared(file)))


def kinds(outcome: Outcome) -> list[str]:
    """Returns the names of a run's events."""
    return [type(item).__name__ for item in outcome.trace.events]


@pytest.mark.slow
def test_what_is_compressed_is_recorded_as_it_is_read(folder: Path, server: Provider) -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        plain = echo(request)
        headers = (*plain.headers, ("content-encoding", "gzip"))
        return HttpResponse(200, headers, (gzip.compress(plain.body),))

    server.answer = answer
    app = """
def run_httpx(text):
    messages = [{"role": "system", "content": SYSTEM["clerk"]}, {"role": "user", "content": text}]
    url = os.environ["PROVIDER"] + "/v1/chat/completions"
    answer = httpx2.post(url, json={"model": "m", "messages": messages})
    return answer.json()["choices"][0]["message"]["content"]
"""
    file = write(folder, scenario("run_httpx", "clerk: hello"), APP + STREAMING + app)

    recorded(file)

    (result,) = load("cassettes/desk.yaml").interactions
    assert json.loads(result.response.body)["choices"][0]["message"]["content"] == "clerk: hello"
    assert result.response.headers == (("content-type", "application/json"),)
    assert simulate(prepared(file)).judgement.findings == ()


def test_an_answer_that_cannot_be_decompressed_is_an_error_and_nothing_is_written(
    folder: Path, server: Provider
) -> None:
    headers = (("content-type", "application/json"), ("content-encoding", "gzip"))
    server.answer = lambda request: HttpResponse(200, headers, (b"no gzip",))
    app = """
def run_anyway(text):
    try:
        ask("clerk", text)
    except Exception as problem:
        return "none"
"""
    file = write(folder, scenario("run_anyway", "none"), APP + app)

    with pytest.raises(Exception, match="a response cannot be recorded: its bytes are not gzip"):
        record(prepared(file), Recording("all", NOW, keeps_failed=True))

    assert not Path("cassettes/desk.yaml").exists()


def test_a_request_that_is_no_model_call_is_recorded_for_the_agent_at_work(
    folder: Path, server: Provider
) -> None:
    app = """
def run_marked(text):
    import simkit
    with simkit.agent("clerk"):
        return ask("clerk", text + json.dumps(weather("Lisbon")))
"""
    reply = 'clerk: hello{\\"city\\": \\"Lisbon\\", \\"sunny\\": true}'
    file = write(folder, scenario("run_marked", reply), APP + app)

    recorded(file)
    server.requests.clear()

    interactions = load("cassettes/desk.yaml").interactions
    assert [
        (interaction.request.method, interaction.agent, interaction.protocol)
        for interaction in interactions
    ] == [("GET", "clerk", ""), ("POST", "clerk", "openai-chat")]
    assert simulate(prepared(file)).judgement.findings == ()
    assert server.requests == []


def test_a_request_that_was_not_recorded_says_so(folder: Path) -> None:
    file = write(folder, scenario("run_with_weather", "x"))
    record(prepared(file), Recording("all", NOW, keeps_failed=True))
    (folder / "desk.py").write_text(APP.replace('"Lisbon"', '"Porto"'), encoding="utf-8")

    (end,) = simulate(prepared(file)).trace.events[-1:]

    text = str(end.error.message)  # type: ignore[union-attr]
    assert text.startswith(
        "cassettes/desk.yaml: no recording answers a call of no agent in turn 1: "
        "GET /weather?city=Porto\n"
        "  nothing was recorded that asks the same\n"
    )
    assert "/weather?city=Lisbon" in text


STOCK = "record: {tools: [stock]}"


def stocked(user: str, reply: str) -> str:
    """Returns a scenario of which a tool is recorded."""
    text = scenario("run_with_stock", reply, STOCK).replace("user: hello", f"user: {user}")
    return text.replace("fresh: true}", "fresh: true, tools: {stock: desk:stock}}")


def test_a_tool_that_was_recorded_is_not_carried_out_again(folder: Path) -> None:
    reply = 'clerk: {\\"item\\": \\"wood\\", \\"left\\": 3}'
    file = write(folder, stocked("wood", reply))

    recorded(file)
    (folder / "desk.py").write_text(
        APP.replace("calls.append(item)", "raise SystemError('no database')"), encoding="utf-8"
    )

    first = load("cassettes/desk.yaml").interactions[0]
    assert (first.request.method, first.request.url) == ("CALL", "tool:stock")
    assert (first.request.body, first.response.body) == (
        b'{"item":"wood"}',
        b'{"item":"wood","left":3}',
    )
    assert simulate(prepared(file)).judgement.findings == ()


def test_a_tool_that_failed_fails_again_as_it_did(folder: Path) -> None:
    file = write(folder, stocked("gold", "failed: no gold"))

    outcome = recorded(file)
    again = simulate(prepared(file))

    assert again.judgement.findings == ()
    assert outcome.trace.digest() == again.trace.digest()


def test_a_tool_that_is_called_otherwise_is_a_miss_that_no_code_can_swallow(folder: Path) -> None:
    recorded(write(folder, stocked("gold", "failed: no gold")))
    file = write(folder, stocked("silver", "failed: no gold"))

    (end,) = simulate(prepared(file)).trace.events[-1:]

    assert end.error.message.startswith(  # type: ignore[union-attr]
        "cassettes/desk.yaml: no recording answers a call of no agent in turn 1: CALL stock\n"
    )


@pytest.mark.slow
def test_a_result_that_is_no_plain_data_cannot_be_recorded(folder: Path) -> None:
    app = APP.replace('return {"item": item, "left": 3}', "return {'item': {item}}")
    file = write(folder, stocked("wood", "x"), app)

    with pytest.raises(Exception, match="tool `stock` returned a set, which a cassette"):
        record(prepared(file), Recording("all", NOW))


def test_a_tool_that_is_to_be_recorded_must_be_known(folder: Path) -> None:
    file = write(folder, scenario("run", "x", "record: {tools: [stok]}"))

    with pytest.raises(Exception, match="does not know the function of tool `stok`"):
        record(prepared(file), Recording("all", NOW))


RETRYING = """
import urllib.error


def run_patiently(text):
    for _ in range(3):
        try:
            return ask("clerk", text)
        except urllib.error.HTTPError:
            continue
        except OSError:
            continue
"""


def test_failures_are_recorded_and_fail_again(folder: Path, server: Provider) -> None:
    failures = [HttpResponse(429, (), (b'{"error":{"message":"slow down"}}',))]
    server.answer = lambda request: failures.pop() if failures else echo(request)
    file = write(folder, scenario("run_patiently", "clerk: hello"), APP + RETRYING)

    outcome = recorded(file)

    interactions = load("cassettes/desk.yaml").interactions
    assert [interaction.response.status for interaction in interactions] == [429, 200]
    assert outcome.trace.digest() == simulate(prepared(file)).trace.digest()
    assert [kind for kind in kinds(outcome) if kind in ("ModelFailed", "ModelRetried")] == [
        "ModelFailed", "ModelRetried",
    ]  # fmt: skip


def test_a_connection_that_is_lost_is_told_but_there_is_nothing_to_record(
    folder: Path, server: Provider
) -> None:
    lost = [NoResponse("connection", "gone")]
    server.answer = lambda request: lost.pop() if lost else echo(request)
    file = write(folder, scenario("run_patiently", "clerk: hello"), APP + RETRYING)

    done = record(prepared(file), Recording("all", NOW))
    outcome = done.outcome

    assert "recorded: 1 interaction in " in done.note
    assert "; 1 request had no answer, or only the beginning of one:\n  POST " in done.note
    assert len(load("cassettes/desk.yaml").interactions) == 1
    assert [item.error for item in outcome.trace.events if isinstance(item, ModelFailed)] == [
        "connection"
    ]


def test_reply_lines_go_on_answering_while_the_rest_is_recorded(
    folder: Path, server: Provider
) -> None:
    text = SCENARIO.replace("user: hello,", "user: hello, replies: {clerk: hi},")
    file = write(folder, text.replace("clerk: hello", "hi"))

    recorded(file)

    assert [interaction.agent for interaction in load("cassettes/desk.yaml").interactions] == [
        "boss"
    ]
    assert len(server.requests) == 1
    assert simulate(prepared(file)).judgement.findings == ()


def test_agents_in_threads_are_recorded_in_the_order_in_which_they_asked(
    folder: Path, server: Provider
) -> None:
    threads = """
import contextvars
from concurrent.futures import ThreadPoolExecutor


def run_at_once(text):
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(contextvars.copy_context().run, ask, "clerk", text + str(n))
            for n in range(8)
        ]
    return " ".join(sorted(one.result() for one in asked))
"""
    reply = " ".join(f"clerk: hello{n}" for n in range(8))
    file = write(folder, scenario("run_at_once", reply), APP + threads)

    record(prepared(file), Recording("all", NOW, keeps_failed=True))

    interactions = load("cassettes/desk.yaml").interactions
    assert sorted(
        json.loads(interaction.request.body)["messages"][1]["content"]
        for interaction in interactions
    ) == [f"hello{n}" for n in range(8)]
    assert all(interaction.response.status == 200 for interaction in interactions)
    assert simulate(prepared(file)).trace.events[-1].unplayed == ()  # type: ignore[union-attr]

"""`simkit live` asks the models of simulated users, and judges; it counts their calls apart."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkit.capture.cassettes import load
from simkit.cli import main
from simkit.core.messages import Message, Usage
from simkit.explore.user_models import identity_in
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import protocol_of
from simkit.providers.values import OutgoingReply, ParsedRequest
from tests.cli.test_live_simulations import replayed
from tests.recording import Provider
from tests.recording import server as server
from tests.scripted_providers import KEY, point_clients
from tests.test_docs import HOW_TO, blocks, write_files

pytestmark = pytest.mark.usefixtures("desk")

PIPELINE = """\
version: 1
pipeline: desk
models: {default: openai/gpt-5-mini}
channels: {messages: {reducer: append, scope: session}}
agents:
  front:
    instructions: You are the front.
    context: [instructions, history, current_message]
    writes: {messages: ["${run.final_message}"]}
flow: {handoffs: {start: front}}
"""
SIMULATION = """\
version: 1
simulation: everybody is answered politely
pipeline: desk.pipeline.yaml
turns: 4
users:
  buyer:
    model: USER
    goal: Get order ${persona.order} refunded.
    persona: {order: {$sample: [A-1, B-2]}}
    cassette: buyer
always:
  reply: {$not: {$contains: idiot}}
"""
USER_MODEL = "gpt-5"
Say = Callable[[list[str], str], str]
"""Returns the text of a user's model, given what the user was prompts, and its order."""


def message_of(message: str, *, done: bool = False) -> str:
    """Returns the answer of a user's model."""
    return json.dumps({"done": done, "message": message})


def insists(prompts: list[str], order: str) -> str:
    """Says twice what it wants, and thanks."""
    texts = (f"Refund {order}.", f"I said: refund {order}!", "Thanks.")
    return message_of(texts[len(prompts) - 1], done=len(prompts) == 3)


class World:
    """Answers as the desk, and as its users."""

    def __init__(self, say: Say = insists, replies: tuple[str, ...] = ("Hm.", "Done.")) -> None:
        self._say, self._replies = say, itertools.cycle(replies)
        self._numbers = itertools.count()
        self.users: list[ParsedRequest] = []
        self.desk: list[ParsedRequest] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answers one request."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        identity = identity_in(parsed)
        if identity:
            self.users.append(parsed)
            prompts = [m.content for m in parsed.messages if m.role == "user"]
            order = json.loads(identity)["persona"]["order"]
            text = self._say(prompts, order)
        else:
            self.desk.append(parsed)
            text = next(self._replies)
        usage = Usage(100, 10) if identity else Usage(7, 3)
        reply = OutgoingReply(f"s{next(self._numbers)}", Message("assistant", text), usage)
        return protocol.served(reply, parsed)


@pytest.fixture
def desk(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    point_clients(server, monkeypatch)
    server.requests.clear()
    (cwd / "pyproject.toml").touch()
    (cwd / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    write()
    (cwd / "prices.yaml").write_text(
        "prices:\n  gpt-5-mini: {input: 1000, output: 1000}\n"
        "  gpt-5: {input: 1000, output: 1000}\n",
        encoding="utf-8",
    )
    return cwd


def write(old: str = "", new: str = "", model: str = f"openai/{USER_MODEL}") -> None:
    assert old in SIMULATION
    text = SIMULATION.replace(old, new, 1) if old else SIMULATION
    Path("desk.simulation.yaml").write_text(text.replace("USER", model), encoding="utf-8")


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


def live(*arguments: str) -> int:
    return called("live", "desk.simulation.yaml", *arguments)


def explored(*arguments: str) -> int:
    return called("explore", "desk.simulation.yaml", *arguments)


def own_messages(parsed: ParsedRequest) -> list[str]:
    return [m.content for m in parsed.messages if m.role == "assistant"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-5",
        "{model: openai/gpt-5, stream: true}",
        "{model: openai-responses/gpt-5, settings: {temperature: 1}}",
        "{model: anthropic/claude-haiku-4-5, stream: true, settings: {max_tokens: 99}}",
        "{model: gemini/gemini-2.5-flash, settings: {temperature: 1}}",
    ],
)
def test_a_user_sees_its_words_and_the_replies_alone_and_ends_when_it_is_done(
    server: Provider, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    server.answer = world = World()
    write(model=model)

    assert live("--runs", "1") == 0, capsys.readouterr()

    first, second, third = world.users
    assert [m.content for m in second.messages if m.role == "user"] == [
        "The conversation begins.",
        "Application: Hm.",
    ]
    assert json.loads(own_messages(third)[1])["message"].startswith("I said: refund")
    assert "Get order" in first.messages[0].content
    assert "You are the front" not in str(third.messages)
    users = [m.content for m in world.desk[-1].messages if m.role == "user"]
    assert users[-1] == "Thanks."
    server.requests.clear()
    write("always:", "models: {front: Hm.}\nalways:", model=model)
    assert explored("--runs", "5") == 0
    assert server.requests == []


@pytest.mark.slow
def test_calls_of_users_are_counted_and_kept_apart(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = world = World(replies=("Hm.", "You idiot."))

    code = live("--runs", "2", "--format", "json")

    output = capsys.readouterr()
    assert code == 1, output.err
    report = json.loads(output.out)
    assert (report["model_calls"], report["input_tokens"]) == (6, 6 * 7)
    assert (report["users"]["model_calls"], report["users"]["input_tokens"]) == (6, 600)
    assert report["users"]["cost_usd"] == pytest.approx(6 * 110 * 1000 / 1e6)
    assert report["cost_usd"] == pytest.approx(6 * 10 * 1000 / 1e6)
    (scenario,) = report["scenarios"]
    assert [run["replays"] for run in scenario["runs"]] == [True, True]
    file = Path(scenario["runs"][0]["scenario"])
    cassette = load(file.parent / "cassettes" / f"{file.name.removesuffix('.scenario.yaml')}.yaml")
    assert {item.agent for item in cassette.interactions} == {"front"}
    assert len(cassette.interactions) == 3
    users = load("cassettes/buyer.yaml").interactions
    assert {(item.agent, item.scenario) for item in users} == {
        ("user buyer", f"everybody is answered politely, run {number}") for number in (1, 2)
    }
    assert [item.turn for item in users] == [1, 2, 3, 1, 2, 3]
    assert called("cassettes", "--strict") == 0, capsys.readouterr()
    write("simulation: everybody", "simulation: nobody")
    assert called("cassettes", "--strict") == 1
    assert "6 interactions of no scenario that names it" in capsys.readouterr().out
    write("cassette: buyer", "cassette: other")
    assert called("cassettes", "--strict") == 1
    assert "orphan: no scenario names it" in capsys.readouterr().out
    server.requests.clear()
    again = replayed(scenario["runs"][0]["scenario"])
    assert again["findings"]
    assert server.requests == []
    assert len(world.users) == 6


@pytest.mark.slow
def test_what_was_recorded_is_explored_offline_and_in_processes_alike(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = world = World()
    live("--runs", "6", "-j", "2")
    orders = {str(request.messages[0].content)[-30:] for request in world.users}
    assert len(orders) == 2
    write("always:", "models: {front: [Hm., You idiot.]}\nalways:")
    server.requests.clear()
    capsys.readouterr()

    files = {}
    for count in ("1", "2"):
        assert explored("--runs", "120", "--to", f"found-{count}", "-j", count) == 1
        (file,) = Path(f"found-{count}").glob("*.yaml")
        output = capsys.readouterr()
        assert "note:" not in output.err
        files[count] = file.read_text(encoding="utf-8"), output.out.splitlines()[1:4]
    assert files["1"][0] == files["2"][0]
    assert files["1"][1] == [line.replace("found-2", "found-1") for line in files["2"][1]]
    assert "- user: Refund" in files["1"][0]
    assert "gpt-5" not in files["1"][0]
    assert server.requests == []


@pytest.mark.slow
def test_a_run_of_the_same_number_takes_the_place_of_the_one_before(server: Provider) -> None:
    server.answer = World()
    live("--runs", "2")
    server.answer = World(lambda prompts, order: message_of(f"Only {order}", done=True))

    live("--runs", "1")

    users = load("cassettes/buyer.yaml").interactions
    assert [item.scenario[-5:] for item in users] == ["run 1", *["run 2"] * 3]


def broken(number: int, text: str) -> Say:
    """Returns a user whose message of a number has a text that is no answer."""

    def say(prompts: list[str], order: str) -> str:
        return text if len(prompts) == number else insists(prompts, order)

    return say


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Refund me!", 'it answered \'Refund me!\', which is not {"done": …, "message": …}'),
        ('{"done": false, "message": ""}', "its message is empty, and it is not done"),
        ('{"done": true, "message": ""}', "it is done before it said anything"),
        ('{"done": "no", "message": "Hi"}', "which is not"),
    ],
)
def test_a_model_that_gives_no_first_message_is_one_error(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    server.answer = world = World(broken(1, text))

    assert live("--runs", "3") == 2

    output = capsys.readouterr()
    begin = r"\w+\.simulation\.yaml:\d+:\d+: the model of user 'buyer' gave no message 1: "
    assert re.match(begin, output.err)
    assert problem in output.err
    assert world.desk == []
    assert len(world.users) == 2
    assert not list(desk.rglob("*.scenario.yaml"))


@pytest.mark.slow
def test_a_run_whose_user_fails_later_breaks_off_and_is_no_pass(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    count = itertools.count()

    def say(prompts: list[str], order: str) -> str:
        # The first run ends well, so that the second one is a failure among others.
        return "Hm" if next(count) in (4, 5) else insists(prompts, order)

    server.answer = World(say)

    assert live("--runs", "2", "--format", "json") == 1

    (scenario,) = json.loads(capsys.readouterr().out)["scenarios"]
    assert [run["held"] for run in scenario["runs"]] == [True, False]
    assert "gave no message 2" in scenario["runs"][1]["findings"][0]
    # Its words would replay it without a failure.
    assert scenario["runs"][1]["scenario"] is None
    # Half a conversation is no recording.
    recorded = load("cassettes/buyer.yaml").interactions
    assert [item.scenario[-5:] for item in recorded] == ["run 1"] * 3


@pytest.mark.slow
def test_a_model_is_asked_once_more_for_an_answer_of_another_form(server: Provider) -> None:
    count = itertools.count()

    def say(prompts: list[str], order: str) -> str:
        return "Hm" if next(count) == 1 else insists(prompts, order)

    server.answer = world = World(say)

    assert live("--runs", "1") == 0

    assert [len(own_messages(request)) for request in world.users] == [0, 1, 1, 2]
    write("always:", "models: {front: Hm.}\nalways:")
    assert explored("--runs", "5") == 0


@pytest.mark.slow
def test_a_key_that_is_refused_is_one_error(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"error": {"message": "no such key", "code": "invalid_api_key"}}'
    server.answer = lambda request: HttpResponse(
        401, (("content-type", "application/json"),), (body,)
    )

    assert live("--runs", "3") == 2

    assert "the model of user 'buyer' gave no message 1" in capsys.readouterr().err
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_budget_holds_the_calls_of_users_too(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = world = World()
    Path("prices.yaml").write_text(
        "prices: {gpt-5-mini: {input: 1000, output: 1000}}", encoding="utf-8"
    )

    assert live("--runs", "2", "--budget-usd", "1") == 2
    assert "the price of `gpt-5` is not known" in capsys.readouterr().err
    assert world.users == []

    Path("prices.yaml").write_text(
        "prices: {gpt-5-mini: {input: 1, output: 1}, gpt-5: {input: 1000, output: 1000}}",
        encoding="utf-8",
    )
    # Two messages of the user cost $0.22; the third one is not asked for.
    assert live("--runs", "2", "--budget-usd", "0.2") == 1
    assert len(world.users) == 2
    assert "stopped at the budget" in capsys.readouterr().out


@pytest.mark.slow
def test_secrets_are_in_no_recording(server: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "swordfish-1234")
    server.answer = World(
        lambda prompts, order: message_of("My token is swordfish-1234.", done=True)
    )

    assert live("--runs", "1") == 0

    text = Path("cassettes/buyer.yaml").read_text(encoding="utf-8")
    assert "swordfish" not in text
    assert KEY not in text
    write("always:", "models: {front: Hm.}\nalways:")
    assert explored("--runs", "5") == 0


APP = """\
import os

from openai import OpenAI


class Desk:
    def __init__(self):
        self.messages = [{"role": "system", "content": "You are the front."}]

    def send(self, text):
        self.messages.append({"role": "user", "content": text})
        answer = OpenAI().chat.completions.create(model="gpt-5-mini", messages=self.messages)
        self.messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        return answer.choices[0].message.content
"""


@pytest.mark.slow
def test_users_talk_with_code_too(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "shop.py").write_text(APP, encoding="utf-8")
    server.answer = world = World()
    write(
        "pipeline: desk.pipeline.yaml", "pipeline: shop:Desk\nagents: {front: You are the front.}"
    )

    assert live("--runs", "2") == 0, capsys.readouterr()
    assert [len(world.users), len(world.desk)] == [6, 6]

    server.requests.clear()
    assert explored("--runs", "20") == 0, capsys.readouterr()
    assert server.requests == []


@pytest.mark.slow
def test_two_users_share_a_cassette(server: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    seller = "{model: openai/gpt-5, goal: Sell., persona: {order: C-3}, sessions: 2, CASSETTE}"
    seller = seller.replace("CASSETTE", "cassette: buyer")
    write("always:", f"  seller: {seller}\nalways:")
    server.answer = world = World()

    assert live("--runs", "3", "--format", "json") == 0

    assert json.loads(capsys.readouterr().out)["users"]["model_calls"] == len(world.users)
    agents = {(item.agent, item.session) for item in load("cassettes/buyer.yaml").interactions}
    assert {agent for agent, _ in agents} == {"user buyer", "user seller"}
    assert {session for _, session in agents} <= {"buyer", "seller-1", "seller-2"}
    server.requests.clear()
    assert explored("--runs", "20", "--to", "found") == 0
    assert server.requests == []


@pytest.mark.parametrize(
    ("new", "problem"),
    [("../buyer", "would be written outside the project"), ("broken", "broken.yaml")],
)
def test_a_cassette_that_cannot_be_written_is_an_error_before_anything_is_sent(
    server: Provider, capsys: pytest.CaptureFixture[str], new: str, problem: str
) -> None:
    Path("broken.yaml").write_text("interactions: 3\n", encoding="utf-8")
    write("cassette: buyer", f"cassette: {new}")

    assert live("--runs", "1") == 2

    assert problem in capsys.readouterr().err
    assert server.requests == []


class Angry:
    """Answers as the counter on the page about simulations, and as its user."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answers one request."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        identity = identity_in(parsed)
        text = "I am sorry. Which order is it?"
        if identity:
            order = json.loads(identity)["persona"]["order"]
            talk = [f"I want my money back for {order}!", f"{order}, I said!", "This is stupid."]
            place = sum(message.role == "assistant" for message in parsed.messages)
            text = message_of(talk[place], done=place == 2)
        reply = OutgoingReply(
            f"s{next(self._numbers)}",
            Message("assistant", text),
            Usage(sum(len(message.content) for message in parsed.messages) // 4, len(text) // 4),
        )
        return protocol.served(reply, parsed)


@pytest.mark.slow
def test_the_page_on_simulations_shows_what_a_user_with_a_model_does(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    page = HOW_TO / "simulated-users.md"
    write_files(page, desk)
    prices = "prices: {gpt-5-mini: {input: 0.25, output: 2.0}}\n"
    (desk / "prices.yaml").write_text(prices, encoding="utf-8")
    server.answer = Angry()
    printed = [text for kind, text in blocks(page) if "angry.simulation.yaml --" in text]
    assert len(printed) == 2

    for text in printed:
        command, _, expected = text.partition("\n")
        words = command.removeprefix("$ simkit ").split()
        with pytest.raises(SystemExit):
            main(words)
        # How many conversations come to what depends on the version of Hypothesis.
        numbers = r"\d+\.\d+ s" if "live" in words else r"\b\d+\b"
        printed_now = re.sub(numbers, "…", capsys.readouterr().out)
        assert printed_now.strip() == re.sub(numbers, "…", expected).strip()


GRAPH = """\
from typing import Annotated

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def front(state: MessagesState):
    messages = [("system", "You are the front."), *state["messages"]]
    answer = ChatOpenAI(model="gpt-5-mini").invoke(messages)
    return {"messages": [answer]}


def ask(state: MessagesState):
    return {"messages": [("human", "order " + interrupt("Which order?"))]}


builder = StateGraph(MessagesState)
builder.add_node(ask)
builder.add_node(front)
builder.add_edge(START, "ask")
builder.add_edge("ask", "front")
graph = builder.compile(checkpointer=InMemorySaver())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "order", "talk"),
    [
        ("", "A-1", [["Application asks: Which order?"], ["Application: Hm."]]),
        (
            "    answers: C-3\n",
            "C-3",
            [["Application asks: Which order?", "You answered: C-3", "Application: Hm."]],
        ),
    ],
)
def test_the_model_answers_what_the_application_asks_unless_the_file_does(
    desk: Path,
    server: Provider,
    capsys: pytest.CaptureFixture[str],
    answers: str,
    order: str,
    talk: list[list[str]],
) -> None:
    pytest.importorskip("langgraph")
    pytest.importorskip("langchain_openai")
    (desk / "shop.py").write_text(GRAPH, encoding="utf-8")
    write("    cassette: buyer\n", f"    cassette: buyer\n{answers}")
    text = Path("desk.simulation.yaml").read_text(encoding="utf-8")
    text = text.replace("desk.pipeline.yaml", "shop:graph").replace("[A-1, B-2]", "[A-1]")
    Path("desk.simulation.yaml").write_text(text, encoding="utf-8")

    def say(prompts: list[str], order: str) -> str:
        if prompts[-1].endswith("Which order?"):
            return message_of(order)
        return message_of("" if len(prompts) > 1 else "Refund!", done=len(prompts) > 1)

    server.answer = world = World(say)

    assert live("--runs", "1") == 0, capsys.readouterr()

    prompts = [m.content for m in world.users[-1].messages if m.role == "user"]
    assert prompts == ["The conversation begins.", *map("\n".join, talk)]
    (request,) = world.desk
    assert request.messages[-1].content == f"order {order}"


POLITE = "How polite is the reply, 1 to 5?"
JUDGED_PIPELINE = """\
version: 1
pipeline: desk
models: {default: openai/gpt-5-mini}
agents: {front: {instructions: You are the front.}}
flow: {handoffs: {start: front}}
"""
SCENARIO = f"""\
version: 1
scenario: a complaint is answered politely
pipeline: desk.pipeline.yaml
judge: anthropic/claude-haiku-4-5
turns:
  - user: My order came broken
    replies: {{front: I am sorry.}}
    judge_replies: {{'{POLITE}': 5, Is it short?: true}}
    expect:
      judge:
        '{POLITE}': {{$gte: 4}}
        Is it short?: true
"""


class Rude:
    """Answers politely and rudely in turn, and judges so."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.models: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answers one request."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        self.models.append(parsed.model)
        words = parsed.messages[-1].content
        text = "Go away." if self.models.count("gpt-5-mini") % 2 else "I am sorry."
        if parsed.output is not None:
            answer: Any = True if "short" in words else 1 if "Go away." in words else 5
            text = json.dumps({"reason": "It is so.", "answer": answer})
        reply = OutgoingReply(f"s{next(self.numbers)}", Message("assistant", text), Usage(100, 10))
        return protocol.served(reply, parsed)


@pytest.fixture
def judged_desk(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    point_clients(server, monkeypatch)
    (cwd / "desk.pipeline.yaml").write_text(JUDGED_PIPELINE, encoding="utf-8")
    (cwd / "desk.scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    (cwd / "prices.yaml").write_text(
        "prices:\n  gpt-5-mini: {input: 1000, output: 1000}\n"
        "  claude-haiku-4-5: {input: 10000, output: 10000}\n",
        encoding="utf-8",
    )
    return cwd


def live_judged(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["live", "desk.scenario.yaml", *arguments])
    return int(stop.value.code or 0)


@pytest.mark.slow
def test_each_question_has_a_rate_and_a_failed_run_replays_with_its_answer(
    judged_desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = rude = Rude()

    code = live_judged("--runs", "4", "--format", "json")

    assert code == 1
    report = json.loads(capsys.readouterr().out)
    (scenario,) = report["scenarios"]
    assert {claim["claim"]: claim["held"] for claim in scenario["claims"]} == {
        f"turn 1: judge '{POLITE}'": 2,
        "turn 1: judge 'Is it short?'": 4,
    }
    assert rude.models.count("claude-haiku-4-5") == 8
    assert report["model_calls"] == 12
    assert report["cost_usd"] == pytest.approx(4 * (110 * 1000 + 2 * 110 * 10000) / 1e6)
    failed = [run for run in scenario["runs"] if not run["held"]]
    assert [run["replays"] for run in failed] == [True, True]
    again = replayed(failed[0]["scenario"])
    (finding,) = again["findings"]
    assert finding["path"][:5] == ["turns", 0, "expect", "judge", POLITE]
    assert finding["differences"][0]["found"] == "1"
    assert finding["context"] == ["the judge's reason: It is so."]


@pytest.mark.slow
def test_a_budget_needs_the_price_of_the_judge_and_ends_its_calls(
    judged_desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = rude = Rude()
    Path("prices.yaml").write_text(
        "prices: {gpt-5-mini: {input: 1000, output: 1000}}", encoding="utf-8"
    )

    assert live_judged("--runs", "2", "--budget-usd", "1") == 2
    assert "the price of `claude-haiku-4-5` is not known" in capsys.readouterr().err
    assert rude.models == []

    Path("prices.yaml").write_text(
        "prices: {gpt-5-mini: {input: 1000, output: 1000}, "
        "claude-haiku-4-5: {input: 10000, output: 10000}}",
        encoding="utf-8",
    )
    assert live_judged("--runs", "2", "--budget-usd", "0.5", "--format", "json") == 1
    # The first answer of the judge spends what is left; its second question is not asked.
    assert rude.models == ["gpt-5-mini", "claude-haiku-4-5"]


@pytest.mark.slow
def test_without_a_judge_its_questions_are_left_out_and_listed(
    judged_desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = rude = Rude()
    text = SCENARIO.replace("judge: anthropic/claude-haiku-4-5\n", "")
    Path("desk.scenario.yaml").write_text(text, encoding="utf-8")

    assert live_judged("--runs", "1") == 0

    assert rude.models == ["gpt-5-mini"]
    printed = capsys.readouterr().out
    assert "left out: 2 claims" in printed
    assert "the scenario names no model that answers" in printed


@pytest.mark.slow
@pytest.mark.parametrize("names_model", [True, False])
def test_a_question_that_repeats_a_reply_has_its_rate_or_is_left_out(
    judged_desk: Path, server: Provider, capsys: pytest.CaptureFixture[str], names_model: bool
) -> None:
    server.answer = rude = Rude()
    question = "Is '${turns[0].reply}' short?"
    text = (
        SCENARIO.partition("turns:")[0]
        + "turns:\n  - {user: Hello, replies: {front: Hi.}}\n  - user: Thanks\n"
        + f'    judge_replies: {{"{question}": true}}\n    replies: {{front: Bye.}}\n'
        + f'    expect: {{judge: {{"{question}": false}}}}\n'
    )
    if names_model:
        text += f'expect: {{judge: {{"{question}": true}}}}\n'
    else:
        text = text.replace("judge: anthropic/claude-haiku-4-5\n", "")
    Path("desk.scenario.yaml").write_text(text, encoding="utf-8")

    code = live_judged("--runs", "2", "--format", "json")

    (scenario,) = json.loads(capsys.readouterr().out)["scenarios"]
    claims = {claim["claim"]: claim["held"] for claim in scenario["claims"]}
    rates = {f"turn 2: judge {question!r}": 0, f"whole run: judge {question!r}": 2}
    assert (code, claims) == ((1, rates) if names_model else (0, {}))
    assert rude.models.count("claude-haiku-4-5") == (4 if names_model else 0)

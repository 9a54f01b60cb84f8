"""`simkit live` runs simulations: drawn users, real models, faults, and the claims."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkit.cli import main
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import protocol_of
from simkit.providers.values import OutgoingReply
from tests.cli.projects import run_simkit
from tests.recording import Provider
from tests.recording import server as server
from tests.scripted_providers import point_clients

pytestmark = pytest.mark.usefixtures("desk")

PIPELINE = """\
version: 1
pipeline: desk
models: {default: openai/gpt-5-mini}
channels: {messages: {reducer: append, scope: session}}
agents:
  front:
    instructions: You are the front.
    tools: [refund]
    handoffs: [expert]
    writes: {messages: ["${run.final_message}"]}
  expert: {instructions: You are the expert.}
tools:
  refund: {args: {type: object, properties: {order: {type: string}}}}
flow: {handoffs: {start: front}}
"""
SIMULATION = """\
version: 1
simulation: nobody is refunded twice, and everybody is answered politely
pipeline: desk.pipeline.yaml
judge: openai/gpt-5
turns: 3
users:
  buyer:
    persona: {order: {$sample: [A-1, B-2, C-3, D-4]}}
    states:
      asks: {says: "Refund ${persona.order}", then: thanks}
      thanks: {says: "Thanks for ${persona.order}"}
tools: {refund: {returns: {refunded: "${persona.order}"}}}
always:
  reply: {$not: {$contains: idiot}}
  context: {front: {includes: [{$contains: "${persona.order}"}]}, expert: {tokens: {$lt: 9}}}
  judge: {Is the reply polite?: yes}
never:
  - {tool: refund, args: {order: Z-9}}
  - {tool: refund, twice_with: args}
finally:
  state: {messages: {$len: {$lte: 4}}}
"""


class Desk:
    """Refunds once or twice by the number of the conversation, and thanks."""

    def __init__(self, twice: Sequence[str] = ("B-2",), rude: Sequence[str] = ("C-3",)) -> None:
        self._twice, self._rude = twice, rude
        self._numbers = itertools.count()
        self.orders: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answers one request."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        number = next(self._numbers)
        message = self._answer(parsed.messages, parsed.output is not None, number)
        return protocol.served(OutgoingReply(f"s{number}", message, Usage(11, 7)), parsed)

    def _answer(self, messages: Sequence[Message], is_judge: bool, number: int) -> Message:
        last = messages[-1].content
        if is_judge:
            answer = "no" if "Go away" in last else "yes"
            return Message("assistant", json.dumps({"reason": "It is so.", "answer": answer}))
        order = next(m.content for m in messages if m.role == "user").split()[-1]
        results = sum(m.role == "tool" for m in messages)
        if last.startswith("Refund"):
            self.orders.append(order)
        if last.startswith("Thanks"):
            text = "Go away." if order in self._rude else "You are welcome."
            return Message("assistant", text)
        if results < (2 if order in self._twice else 1):
            call = ToolCall(f"call_{number}", "refund", {"order": order})
            return Message("assistant", "", calls=(call,))
        return Message("assistant", "It is refunded.")


@pytest.fixture
def desk(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    point_clients(server, monkeypatch)
    server.requests.clear()
    (cwd / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (cwd / "desk.simulation.yaml").write_text(SIMULATION, encoding="utf-8")
    return cwd


def live(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["live", *arguments])
    return int(stop.value.code or 0)


def replayed(file: str) -> Any:
    done = run_simkit("replay", file, "--format", "json")
    (scenario,) = json.loads(done.out)["scenarios"]
    return scenario


@pytest.mark.slow
def test_claims_of_a_simulation_have_rates_and_its_failed_runs_replay_offline(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = desk_model = Desk()

    code = live("desk.simulation.yaml", "--runs", "12", "--format", "json")

    output = capsys.readouterr()
    assert code == 1, output.err
    (scenario,) = json.loads(output.out)["scenarios"]
    orders = desk_model.orders
    assert len(orders) == 12
    assert {*orders} == {"A-1", "B-2", "C-3", "D-4"}
    twice, rude = orders.count("B-2"), orders.count("C-3")
    claims = {claim["claim"]: (claim["held"], claim["judged"]) for claim in scenario["claims"]}
    assert claims == {
        "always.reply": (12, 12),
        "always.context.front.includes": (12, 12),
        # The expert was never asked.
        "always.context.expert.tokens": (0, 0),
        'always.judge."Is the reply polite?"': (12 - rude, 12),
        "finally.state.messages": (12, 12),
        "never[0]": (12, 12),
        "never[1]": (12 - twice, 12),
    }
    assert scenario["held"] == 12 - twice - rude
    failed = [run for run in scenario["runs"] if not run["held"]]
    assert [run["replays"] for run in failed] == [True] * (twice + rude)
    server.requests.clear()
    paths = [finding["path"] for run in failed for finding in replayed(run["scenario"])["findings"]]
    assert sum(path[:3] == ["turns", 1, "expect"] and path[3] == "judge" for path in paths) == rude
    assert sum(path[:2] == ["expect", "tool_calls"] for path in paths) == twice
    assert server.requests == []
    # Each run draws users of its own, and the same ones each time.
    again = server.answer = Desk()
    live("desk.simulation.yaml", "--runs", "3", "--to", "again")
    assert again.orders == orders[:3]


@pytest.mark.slow
def test_a_question_that_names_a_user_has_its_rate(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SIMULATION.replace("Is the reply polite?", '"Is the reply to ${persona.order} polite?"')
    Path("desk.simulation.yaml").write_text(text, encoding="utf-8")
    server.answer = desk_model = Desk(twice=())

    live("desk.simulation.yaml", "--runs", "12", "--format", "json")

    (scenario,) = json.loads(capsys.readouterr().out)["scenarios"]
    rude = desk_model.orders.count("C-3")
    assert rude
    (row,) = [claim for claim in scenario["claims"] if "judge" in claim["claim"]]
    assert row["claim"] == 'always.judge."Is the reply to ${persona.order} polite?"'
    assert (row["held"], row["judged"]) == (12 - rude, 12)


@pytest.mark.slow
def test_an_error_of_a_turn_ends_the_conversation_and_has_a_row_of_its_own(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse(400, (("content-type", "application/json"),), (b'{"error": {}}',))

    server.answer = answer

    code = live("desk.simulation.yaml", "--runs", "1", "--format", "json")

    assert code == 1
    (scenario,) = json.loads(capsys.readouterr().out)["scenarios"]
    (row,) = [claim for claim in scenario["claims"] if claim["claim"].startswith("not: ")]
    assert "turn 1 ended with error" in row["claim"]
    assert row["held"] == 0
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("old", "new", "words", "problem"),
    [
        ("", "", ("--from", "2"), "is a simulation, which has no turns"),
        (
            'tools: {refund: {returns: {refunded: "${persona.order}"}}}\n',
            "",
            (),
            "nothing says what tool `refund` returns, so a live run cannot go on",
        ),
        ("", "", ("-k", "nothing"), "there is no scenario that fits -k 'nothing'"),
        ("always:", "alwys:", (), "unknown key `alwys`"),
    ],
)
def test_a_mistake_in_a_simulation_is_one_error_before_anything_is_sent(
    server: Provider,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    words: tuple[str, ...],
    problem: str,
) -> None:
    assert old in SIMULATION
    Path("desk.simulation.yaml").write_text(SIMULATION.replace(old, new), encoding="utf-8")

    assert live("desk.simulation.yaml", *words) == 2

    assert problem in capsys.readouterr().err
    assert server.requests == []


def test_an_exploration_asks_no_judge(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["explore", "desk.simulation.yaml", "--runs", "1"])

    assert stop.value.code == 2
    output = capsys.readouterr()
    assert "a judge is a model, and none is asked here" in output.out + output.err


FAULTY = """\
version: 1
simulation: nobody is refunded twice
pipeline: desk.pipeline.yaml
turns: TURNS
users:
  buyer: {states: {asks: {says: Refund A-1, then: thanks}, thanks: {says: Thanks for A-1}}}
tools: {refund: {returns: {refunded: A-1}}}
faults: FAULTS
never: [{tool: refund, twice_with: args}]
"""


def report(
    capsys: pytest.CaptureFixture[str], faults: str, turns: int = 1, runs: int = 1, more: str = ""
) -> Any:
    text = FAULTY.replace("FAULTS", faults).replace("TURNS", str(turns)) + more
    Path("desk.simulation.yaml").write_text(text, encoding="utf-8")
    code = live("desk.simulation.yaml", "--runs", str(runs), "--format", "json")
    output = capsys.readouterr()
    assert code in (0, 1), output.err
    (scenario,) = json.loads(output.out)["scenarios"]
    return scenario


def turns_of(run: Any) -> list[dict[str, Any]]:
    document = next(yaml.safe_load_all(Path(run["scenario"]).read_text(encoding="utf-8")))
    turns: list[dict[str, Any]] = document["turns"]
    return turns


def user_messages(request: HttpRequest) -> list[str]:
    protocol = protocol_of(request)
    assert protocol is not None
    messages = protocol.parse_request(request).messages
    return [message.content for message in messages if message.role == "user"]


@pytest.mark.slow
def test_a_failure_is_answered_in_place_of_the_provider_and_then_it_goes_on(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = Desk()

    scenario = report(capsys, "{rate_limit: 1}")

    # The first turn fails without a request; the message is said again, and the refund is made.
    assert scenario["faults"] == {"rate_limit": 1}
    assert [scenario["held"], scenario["runs"][0]["faults"]] == [1, ["rate_limit"]]
    assert len(server.requests) == 2


@pytest.mark.slow
def test_a_failed_run_with_failures_of_providers_replays_offline(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = Desk(twice=("A-1",))

    scenario = report(capsys, "{overloaded: 1}")

    (run,) = scenario["runs"]
    first, again = turns_of(run)
    assert (first["faults"], first["expect"]) == (
        [{"call": 1, "error": "overloaded"}], {"error": "overloaded"},
    )  # fmt: skip
    assert "faults" not in again
    assert run["replays"] is True
    server.requests.clear()
    assert replayed(run["scenario"])["findings"]
    assert server.requests == []


@pytest.mark.slow
def test_a_message_is_sent_twice_and_the_claim_sees_it(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = Desk()

    scenario = report(capsys, "{duplicate_turn: 1}", turns=2)

    (run,) = scenario["runs"]
    assert (run["faults"], run["held"]) == (["duplicate_turn"], False)
    assert [turn["user"] for turn in turns_of(run)] == ["Refund A-1", "Refund A-1"]
    assert run["replays"] is True


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "key"), [("cancelled_turn", "cancel"), ("crash", "crash")])
def test_a_turn_is_cut_where_it_comes_to_its_moment(
    fault: str, key: str, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = Desk(twice=("A-1",))

    scenario = report(capsys, f"{{{fault}: 1}}", runs=6)

    cut = [run for run in scenario["runs"] if run["faults"] == [fault]]
    assert scenario["faults"] == {fault: len(cut)}
    assert 2 <= len(cut) <= 6
    for run in scenario["runs"]:
        turns = turns_of(run)
        assert [key in turn for turn in turns] == ([True, False] if run in cut else [False])
        assert run["replays"] is True


@pytest.mark.slow
def test_a_new_process_goes_on_with_the_conversation(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = Desk()

    scenario = report(capsys, "{restart: 1}", turns=2)

    (run,) = scenario["runs"]
    assert (run["faults"], run["held"]) == (["restart"], True)
    # Each turn was asked once, and the new process knows what was said.
    assert len(server.requests) == 3
    assert run["model_calls"] == 3
    assert user_messages(server.requests[-1]) == ["Refund A-1", "Thanks for A-1"]


@pytest.mark.slow
def test_faults_do_not_change_what_users_say(
    server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = []
    users = "{buyer: {says: [A-1, B-2, C-3, D-4]}}"
    for faults in ("{}", "{rate_limit: 0.0001}"):
        server.answer = Desk()
        server.requests.clear()
        text = FAULTY.replace("TURNS", "2").replace("FAULTS", faults)
        data = yaml.safe_load(text)
        data["users"] = yaml.safe_load(users)
        Path("desk.simulation.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
        live("desk.simulation.yaml", "--runs", "3")
        messages.append([user_messages(request)[-1] for request in server.requests])

    assert messages[0] == messages[1]


@pytest.mark.slow
def test_what_is_left_out_is_said(server: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    server.answer = Desk()
    more = "models: {front: Hello.}\nmisbehaves: {empty: 0.1}\nschedule: pct\n"

    scenario = report(capsys, "{}", more=more)
    live("desk.simulation.yaml", "--runs", "1")

    notes = [
        "`models:`, since real models answer",
        "`misbehaves:`, since real models leave their interface by themselves",
        "`schedule:`, since models are answered when they answer",
    ]
    assert scenario["notes"] == notes
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "left out" in line] == [f"  left out: {n}" for n in notes]


CODE = """
import openai


def answer(text):
    reply = openai.OpenAI(max_retries=0).chat.completions.create(
        model="gpt-5-mini",
        messages=[
            {"role": "system", "content": "You are the front."},
            {"role": "user", "content": text},
        ],
    )
    return reply.choices[0].message.content
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "happened", "requests"),
    [("cancelled_turn", {}, 1), ("server_error", {"server_error": 1}, 1)],
)
def test_faults_of_code_happen_where_they_can(
    fault: str,
    happened: dict[str, int],
    requests: int,
    server: Provider,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Synchronous code cannot be cancelled: its turn comes to its end."""
    server.answer = Desk()
    Path("front.py").write_text(CODE, encoding="utf-8")
    Path("desk.simulation.yaml").write_text(
        "version: 1\nsimulation: thanks\npipeline: front:answer\napp: {path: [.]}\n"
        "agents: {front: {system: You are the front.}}\nturns: 1\n"
        f"users: {{u: {{says: Thanks for A-1}}}}\nfaults: {{{fault}: 1}}\n",
        encoding="utf-8",
    )

    live("desk.simulation.yaml", "--runs", "1", "--format", "json")

    output = capsys.readouterr()
    (scenario,) = json.loads(output.out)["scenarios"]
    assert (scenario["held"], scenario["faults"]) == (1, happened), output.out
    assert len(server.requests) == requests

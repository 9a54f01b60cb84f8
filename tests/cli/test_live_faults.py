"""``simkit live`` lets faults of simulations happen to real models, and says what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of
from tests.cli.test_live_simulations import Desk, live, replayed
from tests.cli.test_live_simulations import desk as desk
from tests.recording import Provider
from tests.recording import server as server

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
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = Desk()

    scenario = report(capsys, "{rate_limit: 1}")

    # The first turn fails without a request; the message is said again, and the refund is made.
    assert scenario["faults"] == {"rate_limit": 1}
    assert [scenario["held"], scenario["runs"][0]["faults"]] == [1, ["rate_limit"]]
    assert len(server.requests) == 2


@pytest.mark.slow
def test_a_failed_run_with_failures_of_providers_replays_offline(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
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
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
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
    fault: str, key: str, desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
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
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
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
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
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
def test_what_is_left_out_is_said(
    desk: Path, server: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
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
    desk: Path,
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

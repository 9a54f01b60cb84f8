"""Offline, a user with a model says what its cassette has recorded, whatever the replies are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from simkit.capture.cassettes import Interaction, Keying, save
from simkit.core.errors import SimkitError, SourceError
from simkit.core.messages import Message, Usage
from simkit.core.redact import redactor_of
from simkit.explore.campaigns import Bounds, run_campaign
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse, converse_by
from simkit.explore.scenarios import scenario_text
from simkit.explore.subjects import Subject
from simkit.explore.user_models import LiveUsers, http_request_of, request_to_user
from simkit.explore.users import UserConversation
from simkit.providers.http import HttpResponse
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import OutgoingReply
from simkit.session.execution.judging import Answering
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.spec.scenario.simulated_users import SimulatedUser
from tests.explore.searching import search_all
from tests.explore.test_simulations import campaign_of, replayed, subject_of

USER: Mapping[str, Any] = {
    "model": "openai/gpt-5-mini",
    "goal": "Get ${persona.order} refunded.",
    "persona": {"order": {"$sample": ["A-1", "B-2"]}},
    "cassette": "buyer",
}
SIMULATION = """
users:
  buyer:
    model: openai/gpt-5-mini
    goal: Get ${persona.order} refunded.
    persona: {order: {$sample: [A-1, B-2]}}
    cassette: buyer
models: {desk: Hm.}
turns: 4
"""


class Line(NamedTuple):
    """One message of a recorded user."""

    message: str
    after: str = ""
    """What it was shown before; empty for what the application says in every test."""
    done: bool = False
    text: str = ""
    """The model's answer as it stands, in place of JSON."""


def record(
    folder: Path,
    *conversations: Sequence[Line],
    order: str = "A-1",
    user: Mapping[str, Any] = USER,
    personal: tuple[str, ...] = (),
    **persona: str,
) -> None:
    """Writes conversations as `simkit live` does, after those that the cassette already has."""
    simulated = SimulatedUser.model_validate(user)
    interactions = []
    for conversation in conversations:
        talk = UserConversation()
        for place, line in enumerate(conversation):
            if place:
                talk.show(line.after or "Application: Hm.")
            request = request_to_user(simulated, {"order": order, **persona}, talk)
            protocol = PROTOCOLS[request.protocol]
            answer = {"done": line.done, "message": line.message}
            text = line.text or json.dumps(answer)
            reply = OutgoingReply("s1", Message("assistant", text), Usage(1, 1))
            response = protocol.served(reply, request)
            assert isinstance(response, HttpResponse)
            interactions.append(
                Interaction(
                    request=http_request_of(request),
                    response=response,
                    agent="user buyer",
                    turn=place + 1,
                    call=1,
                    session="s1",
                    protocol=request.protocol,
                )
            )
            talk.say(line.message)
    keying = Keying(redactor_of(frozenset(), personal))
    save(folder / "cassettes" / "buyer.yaml", interactions, keying)


def plan_of(number: int, turns: int = 4) -> Plan:
    chance = Random(number)
    numbers = [TurnPlan(chance.getrandbits(64), 0, (chance.getrandbits(64),)) for _ in range(turns)]
    return Plan(tuple(numbers), chance.getrandbits(64))


def talks_of(subject: Subject, count: int = 60) -> set[tuple[Any, ...]]:
    """Returns what the user says in some conversations."""
    runs = (converse(subject, plan_of(number)) for number in range(count))
    return {tuple(turn.get("user", turn.get("resume")) for turn in run.turns) for run in runs}


def test_users_keep_no_connection_after_their_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Answering] = []
    monkeypatch.setattr(Answering, "close", lambda self: closed.append(self))
    record(tmp_path, [Line("Refund!")])
    subject, observer = subject_of(tmp_path, SIMULATION), Mock()

    with LiveUsers(subject.prepared, subject.simulation, "run 1", observer, "") as users:
        answering = [*users._answering.values()]

    assert closed == answering != []


def test_a_user_follows_the_recorded_conversation_whatever_is_replied(tmp_path: Path) -> None:
    record(tmp_path, [Line("Refund!"), Line("Really?", "Application: No."), Line("Bye", done=True)])

    subject = subject_of(tmp_path, SIMULATION)

    assert talks_of(subject) == {("Refund!", "Really?", "Bye")}


def test_what_the_user_saw_decides_before_what_it_said(tmp_path: Path) -> None:
    record(
        tmp_path,
        [Line("Refund!"), Line("Why not?", "Application: No."), Line("Bye", done=True)],
        [Line("Refund!"), Line("Thanks", "Application: Hm.", done=True)],
    )

    assert talks_of(subject_of(tmp_path, SIMULATION)) == {("Refund!", "Thanks")}
    other = subject_of(tmp_path, SIMULATION.replace("desk: Hm.", "desk: Perhaps."))
    assert talks_of(other) == {("Refund!", "Why not?", "Bye"), ("Refund!", "Thanks")}


def test_each_recorded_answer_is_a_choice_that_an_enumeration_takes(tmp_path: Path) -> None:
    record(tmp_path, [Line("A", done=True)], [Line("B", done=True)], [Line("A", done=True)])
    subject = subject_of(tmp_path, SIMULATION)
    talks = []

    def run(source: Any) -> Any:
        explored = converse_by(subject, source)
        talks.append([turn["user"] for turn in explored.turns])
        return explored

    campaign = search_all(run, runs=50, turns_max=4)

    assert talks == [["A"], ["B"]]
    assert campaign.is_complete


def test_the_user_says_nothing_more_where_the_recordings_end(tmp_path: Path) -> None:
    record(
        tmp_path,
        [Line("Refund!"), Line("Well?")],
        [Line("Hello"), Line("", done=True)],
        [Line("Hi"), Line("", text="I have no more to say.")],
    )

    assert talks_of(subject_of(tmp_path, SIMULATION)) == {
        ("Refund!", "Well?"), ("Hello",), ("Hi",)
    }  # fmt: skip


def test_only_recorded_personas_talk_and_a_note_says_so(tmp_path: Path) -> None:
    record(tmp_path, [Line("Refund B-2", done=True)], order="B-2")
    record(tmp_path, [Line("Refund C-3", done=True)], order="C-3")
    subject = subject_of(tmp_path, SIMULATION)
    notes: list[str] = []

    run_campaign("desk.simulation.yaml", subject, Bounds(runs=3), say=notes.append)

    assert talks_of(subject) == {("Refund B-2",)}
    assert notes == [
        "user 'buyer': 1 of 2 personas recorded; `simkit live` records more with more --runs"
    ]
    record(tmp_path, [Line("Refund A-1", done=True)], order="A-1")
    subject = subject_of(tmp_path, SIMULATION)
    assert talks_of(subject) == {("Refund B-2",), ("Refund A-1",)}
    assert subject.notes == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("refunded.", "refunded at once."),
        ("openai/gpt-5-mini", "openai/gpt-5"),
        ("openai/gpt-5-mini", "openai-responses/gpt-5-mini"),
        ("openai/gpt-5-mini", "{model: openai/gpt-5-mini, settings: {temperature: 1}}"),
        ("[A-1, B-2]", "[C-3, B-2]"),
        ("persona: {order", "persona: {name: Ada, order"),
    ],
)
def test_what_was_recorded_of_another_user_is_no_answer(tmp_path: Path, old: str, new: str) -> None:
    record(tmp_path, [Line("Refund!", done=True)])
    assert old in SIMULATION

    with pytest.raises(SourceError) as raised:
        subject_of(tmp_path, SIMULATION.replace(old, new))

    assert raised.value.what == (
        "`buyer.yaml` has no conversation of user `buyer` with this model, these settings, this "
        "goal and one of these personas"
    )
    assert "simkit live" in raised.value.advice
    line = raised.value.where.split(":")[1]
    text = (tmp_path / "desk.simulation.yaml").read_text(encoding="utf-8")
    assert text.splitlines()[int(line) - 1].strip() == "cassette: buyer"


def test_without_a_cassette_nothing_is_explored(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no cassette `buyer\.yaml`") as raised:
        subject_of(tmp_path, SIMULATION)

    assert "Record some: simkit live" in raised.value.advice


def test_answers_that_are_none_are_no_recording(tmp_path: Path) -> None:
    record(tmp_path, [Line("", text="Hello")], [Line("", text='{"done": false, "message": " "}')])

    with pytest.raises(SourceError, match="has no conversation of user `buyer`"):
        subject_of(tmp_path, SIMULATION)


def test_a_user_without_a_word_is_no_recording(tmp_path: Path) -> None:
    record(tmp_path, [Line("", done=True)])

    with pytest.raises(SourceError, match="has no conversation of user `buyer`"):
        subject_of(tmp_path, SIMULATION)


def test_a_broken_cassette_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "buyer.yaml").write_text("interactions: 3\n", encoding="utf-8")

    with pytest.raises(SimkitError, match=r"buyer\.yaml"):
        subject_of(tmp_path, SIMULATION)


ASKING = SIMULATION.replace("desk: Hm.", "desk: [{interrupt: Which order?, weight: 99}, Hm.]")


def test_the_model_answers_questions_of_agents(tmp_path: Path) -> None:
    record(
        tmp_path,
        [Line("Refund!"), Line("A-1", "Application asks: Which order?", done=True)],
        [Line("Refund!"), Line("Hm", "Application: Done.", done=True)],
    )

    run = converse(subject_of(tmp_path, ASKING), plan_of(1))

    assert [{"user", "resume"} & {*turn} for turn in run.turns] == [{"user"}, {"resume"}]
    assert run.turns[1]["resume"] == "A-1"


def test_answers_of_the_file_come_before_those_of_the_model(tmp_path: Path) -> None:
    record(tmp_path, [Line("Refund!"), Line("Bye", done=True)])
    text = ASKING.replace("cassette: buyer", 'cassette: buyer\n    answers: "no"')

    run = converse(subject_of(tmp_path, text), plan_of(1))

    assert [turn.get("user", turn.get("resume")) for turn in run.turns] == ["Refund!", "no"] + (
        ["Bye"] * (len(run.turns) == 3)
    )


def test_a_message_that_is_sent_twice_is_no_message_of_the_model(tmp_path: Path) -> None:
    record(tmp_path, [Line("Refund!"), Line("Bye", done=True)])
    subject = subject_of(tmp_path, f"{SIMULATION}faults: {{duplicate_turn: 0.5}}\n")
    campaign = search_of(subject)

    assert {"Refund!", "Bye"} == {turn["user"] for run in campaign for turn in run}
    orders = {tuple(turn["user"] for turn in run) for run in campaign}
    assert ("Refund!", "Refund!", "Bye") in orders
    assert ("Refund!", "Bye") in orders


def search_of(subject: Subject) -> list[Any]:
    chance, runs = Random(0), []
    for _ in range(60):
        turns = [TurnPlan(chance.getrandbits(64), rare=(chance.randrange(10_000),)) for _ in "1234"]
        runs.append(converse(subject, Plan(tuple(turns), 0, (True,))).turns)
    return runs


def test_two_conversations_at_once_go_on_by_themselves(tmp_path: Path) -> None:
    record(tmp_path, [Line("Refund!"), Line("Bye", done=True)])
    subject = subject_of(tmp_path, SIMULATION.replace("cassette:", "sessions: 2\n    cassette:"))

    run = converse(subject, plan_of(3))

    by_session: dict[str, list[str]] = {}
    for turn in run.turns:
        by_session.setdefault(turn["session"], []).append(turn["user"])
    assert by_session == {"buyer-1": ["Refund!", "Bye"], "buyer-2": ["Refund!", "Bye"]}


def test_a_recording_of_redacted_words_is_found(tmp_path: Path) -> None:
    user = {**USER, "goal": "Write to ada@example.org.", "persona": {"order": "A-1"}}
    record(tmp_path, [Line("I am ada@example.org", done=True)], user=user, personal=("email",))
    text = SIMULATION.replace("Get ${persona.order} refunded.", "Write to ada@example.org.")
    text = text.replace("{$sample: [A-1, B-2]}", "A-1") + "record: {personal: [email]}\n"

    ((message,),) = talks_of(subject_of(tmp_path, text))

    assert message.startswith("I am ")
    assert "ada@example.org" not in message
    assert "ada@example.org" not in (tmp_path / "cassettes" / "buyer.yaml").read_text("utf-8")


def test_what_is_found_replays_without_the_users_model(tmp_path: Path) -> None:
    record(tmp_path, [Line("Refund!"), Line("Cost $${x} ${turns[0].reply}", done=True)])
    text = SIMULATION.replace("desk: Hm.", "desk: You idiot.")
    subject = subject_of(tmp_path, f"{text}always: {{reply: {{$not: {{$contains: idiot}}}}}}\n")
    (discovery,) = campaign_of(subject, 20).discoveries

    os.remove(tmp_path / "cassettes" / "buyer.yaml")

    assert replayed(discovery, subject, tmp_path) == {discovery.cause}
    text = scenario_text(discovery, subject, tmp_path, "simkit explore")
    assert "user: Refund!" in text
    assert "cassette" not in text
    assert "gpt-5-mini" not in text


def test_words_that_look_like_references_are_replayed_as_they_are(tmp_path: Path) -> None:
    record(tmp_path, [Line("Cost ${x}"), Line("It is ${turns[0].reply}", done=True)])
    text = SIMULATION.replace("desk: Hm.", "desk: [Hm., You idiot.]")
    text += "finally: {state: {messages: {$not: {$len: 4}}}}\n"
    subject = subject_of(tmp_path, text)
    campaign = campaign_of(subject, 20)
    assert campaign.discoveries
    for discovery in campaign.discoveries:
        assert replayed(discovery, subject, tmp_path) >= {discovery.cause}
    file = tmp_path / "a.scenario.yaml"
    (item,) = items_in(str(file))
    trace = simulate(Library().prepared(item)).view
    assert trace.turns[0].message is not None
    assert trace.turns[0].message.content == "Cost ${x}"


@pytest.mark.slow
def test_the_same_cassette_gives_the_same_campaign(tmp_path: Path) -> None:
    record(
        tmp_path,
        [Line("Refund!"), Line("Why?", "Application: No."), Line("Bye", done=True)],
        [Line("Refund!"), Line("Thanks", done=True)],
        [Line("Hello"), Line("Bye", done=True)],
    )
    text = SIMULATION.replace("desk: Hm.", "desk: [Hm., You idiot.]")
    text += "always: {reply: {$not: {$contains: idiot}}}\n"

    def tapes() -> Any:
        campaign = campaign_of(subject_of(tmp_path, text), 60)
        return [(each.runs, each.first, each.record.tape) for each in campaign.discoveries]

    assert tapes() == tapes() != []

"""A conversation that is taken turn by turn is the scenario that it grows into."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
import pytest

from simkit.session.execution import running
from simkit.session.simulate import Conversation, run, simulate
from simkit.session.workers import Worker, start_worker
from simkit.spec.scenario.files import Prepared
from simkit.trace.events import AnyEvent, CheckpointRestored, RunFinished, UncontrolledEffect
from tests.building import prepared

PIPELINE = """
channels: {notes: {reducer: append, scope: project}}
agents: {a: {instructions: A., writes: {messages: ["${run.final_message}"], notes: ["${run.reply}"]}}}
flow: {handoffs: {start: a}}
"""  # noqa: E501
TURNS = (
    "{user: One, replies: {a: Uno.}, expect: {reply: Uno.}}",
    "{user: Two, session: other, replies: {a: {interrupt: Which?}}, expect: {interrupt: Which?}}",
    "{user: Three, replies: {a: {error: refusal}}, expect: {error: refusal}}",
    "{resume: This, session: other, replies: {a: Due.}, expect: {reply: Due.}}",
    "{user: Five, replies: {a: Cinque.}, expect: {reply: Cinque.}}",
)


def of(*turns: str, pipeline: str = PIPELINE, more: str = "") -> Prepared:
    return prepared(pipeline, f"{more}\nturns:\n" + "".join(f"  - {turn}\n" for turn in turns))


def restarted(turn: str) -> str:
    return f"{{restart: true, {turn[1:]}"


def taken_one_by_one(turns: tuple[str, ...], pipeline: str = PIPELINE) -> list[tuple[str, Any]]:
    """What a look shows after every turn: the digest, and what does not hold."""
    looks = []
    with Conversation(of(turns[0], pipeline=pipeline)) as conversation:
        for end in range(1, len(turns) + 1):
            conversation.follow(of(*turns[:end], pipeline=pipeline))
            judged = conversation.judgement(compared=True)
            looks.append((conversation.trace().digest(), judged))
    return looks


def simulated(turns: tuple[str, ...], pipeline: str = PIPELINE) -> list[tuple[str, Any]]:
    """The same of each scenario that it has been."""
    outcomes = [simulate(of(*turns[:n], pipeline=pipeline)) for n in range(1, len(turns) + 1)]
    return [(outcome.trace.digest(), outcome.judgement) for outcome in outcomes]


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [PIPELINE, f"store: sqlite\n{PIPELINE}"])
@pytest.mark.parametrize("restarts", [(), (3,), (1, 2, 4)])
def test_every_look_shows_what_a_scenario_of_these_turns_comes_to(
    pipeline: str, restarts: tuple[int, ...]
) -> None:
    turns = tuple(
        restarted(turn) if place in restarts else turn for place, turn in enumerate(TURNS)
    )

    assert taken_one_by_one(turns, pipeline) == simulated(turns, pipeline)


def test_a_look_does_not_end_the_conversation() -> None:
    with Conversation(of(TURNS[0])) as conversation:
        conversation.follow(of(TURNS[0]))
        trace = conversation.trace()
        conversation.follow(of(TURNS[0], TURNS[4]))
        outcome = conversation.finish()

    assert type(trace.events[-1]) is RunFinished
    assert [type(event) for event in outcome.trace.events].count(RunFinished) == 1
    assert outcome.trace.encoded() == run(of(TURNS[0], TURNS[4])).encoded()


def test_what_is_claimed_of_an_error_later_lets_the_conversation_go_on() -> None:
    failing = "{user: One, replies: {a: {error: refusal}}}"
    claimed = "{user: One, replies: {a: {error: refusal}}, expect: {error: refusal}}"

    with Conversation(of(failing)) as conversation:
        conversation.follow(of(failing, TURNS[4]))
        before = conversation.turns_taken
        conversation.follow(of(claimed, TURNS[4]))

        assert (before, conversation.turns_taken) == (1, 2)
        assert conversation.finish().trace.digest() == run(of(claimed, TURNS[4])).digest()


def test_a_limit_on_turns_ends_it_whatever_is_claimed() -> None:
    limited = "limits: {turns: 1}"
    turns = (TURNS[0], "{user: Two, replies: {a: Due.}, expect: {error: {$any: true}}}", TURNS[4])

    with Conversation(of(*turns, more=limited)) as conversation:
        conversation.follow(of(*turns[:2], more=limited))
        conversation.follow(of(*turns, more=limited))

        assert conversation.turns_taken == 1
        assert conversation.trace().digest() == run(of(*turns, more=limited)).digest()


def test_only_the_turns_that_are_asked_for_are_judged() -> None:
    wrong = "{user: One, replies: {a: [Uno., Never.]}, expect: {reply: Due.}}"
    scenario = of(wrong, TURNS[4])

    with Conversation(scenario) as conversation:
        conversation.follow(scenario)

        assert [finding.turn for finding in conversation.judgement({0}).findings] == [1, 1]
        assert conversation.judgement({1}).findings == ()
        assert [finding.turn for finding in conversation.judgement().findings] == [1, 1]


def asking_a_shell(_messages: Any) -> str:
    return "" if os.system("") else "It is late."


def test_conversations_with_one_pipeline_may_take_their_turns_in_turns() -> None:
    sys.modules.setdefault("shell_for_conversations", sys.modules[__name__])
    line = "{user: One, replies: {a: {function: 'shell_for_conversations:asking_a_shell'}}}"
    first, both = of(line), of(line, line)
    both = msgspec.structs.replace(both, pipeline=first.pipeline)
    with Conversation(first) as item, Conversation(first) as other:
        for scenario in (first, both):
            for conversation in (item, other):
                conversation.follow(scenario)

        effects = [e.turn for e in item.view.events if type(e) is UncontrolledEffect]
        assert effects == [1, 2]
        assert item.trace().digest() == other.trace().digest() == run(both).digest()


@pytest.mark.slow
def test_each_restart_is_one_new_process_however_often_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[object] = []

    def noting(*arguments: Any, **rest: Any) -> Worker:
        started.append(rest)
        return start_worker(*arguments, **rest)

    monkeypatch.setattr("simkit.session.execution.new_process.start_worker", noting)
    turns = [TURNS[0], restarted(TURNS[4]), TURNS[4], restarted(TURNS[4]), TURNS[4]]
    with Conversation(of(TURNS[0])) as conversation:
        for end in range(1, len(turns) + 1):
            conversation.follow(of(*turns[:end]))
            conversation.judgement()
        restored = [e for e in conversation.trace().events if type(e) is CheckpointRestored]

    assert len(started) == len(restored) == 2


def test_runs_are_compared_once_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Prepared] = []

    def noting(scenario: Prepared) -> Any:
        compared.append(scenario)
        return running.unbroken(scenario)

    monkeypatch.setattr("simkit.session.simulate.unbroken", noting)
    turns = [TURNS[0], restarted(TURNS[4]), TURNS[4]]
    with Conversation(of(*turns)) as conversation:
        for end in range(1, len(turns) + 1):
            conversation.follow(of(*turns[:end]))
            conversation.judgement()
        before = len(compared)
        conversation.finish()

    assert (before, len(compared)) == (0, 1)


def test_a_conversation_that_is_left_tells_nothing_more() -> None:
    asking = of(TURNS[1])
    conversation = Conversation(asking)
    conversation.follow(asking)
    events: list[AnyEvent] = list(conversation.view.events)

    conversation.close()

    assert conversation.view.events == events
    assert conversation.judgement().passed


def test_what_cannot_be_served_is_told_at_its_turn() -> None:
    scenario = of(TURNS[0], "{resume: Nobody asked, replies: {a: Due.}}")

    with Conversation(scenario) as conversation:
        conversation.follow(scenario)
        judgement = conversation.finish().judgement

    assert [(finding.where, finding.what) for finding in judgement.findings] == [
        (
            "test.scenario.yaml:12:14",
            "turn 2 answers a question, but in session 's1' nobody has asked one.",
        )
    ]
    assert judgement.exit_code == 1


def test_a_file_in_place_of_its_scenarios_is_told_what_to_write() -> None:
    with pytest.raises(TypeError) as refused:
        simulate("desk.scenario.yaml")  # type: ignore[arg-type]

    assert str(refused.value) == (
        "simulate() takes a scenario of simkit.load(), not 'desk.scenario.yaml'; write "
        '`for scenario in simkit.load("x.scenario.yaml"): simkit.simulate(scenario)`'
    )

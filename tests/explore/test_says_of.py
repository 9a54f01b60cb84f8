"""A simulated user says what a scenario's user says, mostly in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from simkit.core.errors import SourceError
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.explore.subjects import Subject
from tests.explore.test_simulations import DESK, subject_of

RECORDED = """
---
scenario: a refund
pipeline: desk
turns:
  - user: Hello
    replies: {desk: Hi.}
  - user: Where is $${order}?
    pause: 2 h
    replies: {desk: Here.}
  - user: In another chat
    session: other
    replies: {desk: Hm.}
  - user: {json: {order: A-1}}
    replies: {desk: Yes.}
---
scenario: in rows
pipeline: desk
examples: [{order: A-1}]
turns: [{user: "${column.order}", replies: {desk: Bye.}}]
"""
USER = "users: {u: {says_of: 'lines.scenario.yaml::a refund'}}\n"


def write_lines(folder: Path, text: str = RECORDED) -> None:
    pipeline = DESK.partition("---")[0]
    (folder / "lines.scenario.yaml").write_text(pipeline + text, encoding="utf-8")


def messages_of(subject: Subject, plan: Plan) -> list[object]:
    return [turn["user"] for turn in converse(subject, plan).turns]


def test_the_simplest_conversation_is_the_recorded_one(tmp_path: Path) -> None:
    write_lines(tmp_path)
    subject = subject_of(tmp_path, f"{USER}turns: 5\n")

    run = converse(subject, Plan((TurnPlan(),) * 5))

    assert [turn["user"] for turn in run.turns] == [
        "Hello",
        "Where is ${order}?",
        {"json": {"order": "A-1"}},
    ]
    assert [turn.get("pause") for turn in run.turns] == [None, "2 h", None]


def test_a_message_is_rarely_said_twice_or_left_out(tmp_path: Path) -> None:
    write_lines(tmp_path)
    subject = subject_of(tmp_path, f"{USER}turns: 5\n")
    chance = Random(7)

    seconds: Counter[str] = Counter()
    for _ in range(300):
        plan = Plan(tuple(TurnPlan(chance.getrandbits(64)) for _ in range(5)))
        seconds[str(messages_of(subject, plan)[1:2])] += 1

    assert {*seconds} == {"['Hello']", "['Where is ${order}?']", "[{'json': {'order': 'A-1'}}]"}
    assert seconds["['Where is ${order}?']"] > 200
    assert min(seconds.values()) > 10


def test_answers_of_the_scenario_are_the_users_unless_it_has_own_ones(tmp_path: Path) -> None:
    text = RECORDED.replace(
        "  - user: In another chat\n    session: other\n    replies: {desk: Hm.}\n",
        "  - resume: A-7\n    replies: {desk: Hm.}\n",
    )
    write_lines(tmp_path, text)

    user = subject_of(tmp_path, USER).simulation.users["u"]
    assert user.answers == ["A-7"]
    own = USER.replace("{says_of", "{answers: B-2, says_of")
    assert subject_of(tmp_path, own).simulation.users["u"].answers == "B-2"


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ("{says_of: line.scenario.yaml}", "there is no scenario file `line.scenario.yaml`"),
        ("{says_of: lines.scenario.yaml}", "`lines.scenario.yaml` holds several scenarios"),
        ("{says_of: 'lines.scenario.yaml::refund'}", "there is no scenario 'refund'"),
        ("{says_of: [a]}", "must be the name of a scenario file, not a list"),
        (
            "{says_of: 'lines.scenario.yaml::a refund', start: a}",
            "`start` has no meaning beside `says_of`",
        ),
        ("{says_of: 'lines.scenario.yaml::a refund', says: Hi}", "`says` has no meaning beside"),
    ],
)
def test_a_mistake_is_told_at_its_place(tmp_path: Path, user: str, problem: str) -> None:
    write_lines(tmp_path)

    with pytest.raises(SourceError) as raised:
        subject_of(tmp_path, f"users: {{u: {user}}}\n")

    assert problem in raised.value.what
    assert ".simulation.yaml:" in raised.value.where


def test_a_row_of_a_table_is_a_scenario_of_its_own(tmp_path: Path) -> None:
    write_lines(tmp_path)
    user = "users: {u: {says_of: 'lines.scenario.yaml::in rows'}}\n"

    subject = subject_of(tmp_path, user)

    assert messages_of(subject, Plan((TurnPlan(),))) == ["A-1"]


@pytest.mark.parametrize("session", ["", "    session: other\n"])
def test_a_message_that_repeats_a_reply_is_refused_where_it_stands(
    tmp_path: Path, session: str
) -> None:
    """A conversation that is drawn has other replies; another session's messages are not said."""
    repeated = f'  - user: "You said ${{turns[0].reply}}"\n{session}    replies: {{desk: Yes.}}\n'
    text = RECORDED.replace("  - user: {json: {order: A-1}}\n    replies: {desk: Yes.}\n", repeated)
    write_lines(tmp_path, text)

    if session:
        assert len(subject_of(tmp_path, USER).simulation.users["u"].states or {}) == 2
        return
    with pytest.raises(SourceError, match="a message that repeats a reply") as raised:
        subject_of(tmp_path, USER)

    assert "lines.scenario.yaml" in raised.value.where

"""Users say what a scenario's user says, mostly in order; models answer lines of scenarios."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from simkit.core.errors import SourceError
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.explore.subjects import Subject
from tests.explore.desks import DESK
from tests.explore.test_simulations import subject_of

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


@pytest.mark.slow
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


LINES = """
---
scenario: ${column.order}
pipeline: desk
examples: [{order: A-1}, {order: B-2}]
turns:
  - user: Hi
    replies:
      desk: [{calls: {look: {order: "${column.order}"}}}, "$${order} is sent."]
      billing: Refunded.
---
scenario: short
pipeline: desk
turns: [{user: Hi, replies: {desk: Bye.}}]
"""


def lines_of(folder: Path, models: str) -> list[object]:
    pipeline = DESK.partition("---")[0]
    (folder / "lines.scenario.yaml").write_text(pipeline + LINES, encoding="utf-8")
    return [*subject_of(folder, f"models: {models}\n").lines["desk"]]


def test_the_lines_of_all_scenarios_and_rows_are_taken_once(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "{desk: {replies_of: lines.scenario.yaml}}")

    assert lines == [
        {"calls": {"look": {"order": "A-1"}}},
        "${order} is sent.",
        {"calls": {"look": {"order": "B-2"}}},
        "Bye.",
    ]


def test_a_literal_stays_one_beside_references(tmp_path: Path) -> None:
    persona = "users: {u: {says: 'My ${persona.a}', persona: {a: 1}}}\n"
    models = "models: {desk: {replies_of: lines.scenario.yaml}}\n"
    lines_of(tmp_path, "{desk: Hi}")

    lines = [*subject_of(tmp_path, persona + models).lines["desk"]]

    assert lines[1] == "${order} is sent."


def test_they_stand_beside_others_and_share_a_weight(tmp_path: Path) -> None:
    models = "{desk: [{anything: true}, {replies_of: lines.scenario.yaml, weight: 3}, Hm.]}"
    lines = lines_of(tmp_path, models)
    subject = subject_of(tmp_path, f"models: {models}\n")

    assert [lines[0], lines[-1], len(lines)] == [None, "Hm.", 6]
    assert [line.weight for line in subject.simulation.models["desk"]] == [1, 3, 3, 3, 3, 1]
    record = converse(subject, Plan((TurnPlan(answers=(10,)), TurnPlan(answers=(13,)))))
    assert [turn["replies"]["desk"] for turn in record.turns] == ["Bye.", "Hm."]


@pytest.mark.parametrize(
    ("line", "problem", "at"),
    [
        ("{desk: {replies_of: line.scenario.yaml}}", "there is no scenario file", ".replies_of"),
        ("{dsk: {replies_of: lines.scenario.yaml}}", "has no line of agent `dsk`", ".replies_of"),
        ("{desk: {replies_of: lines.scenario.yaml, wait: 2}}", "unknown key `wait`", ".wait"),
    ],
)
def test_a_mistake_in_borrowed_lines_is_told_at_its_place(
    line: str, problem: str, at: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=problem) as raised:
        lines_of(tmp_path, line)

    assert raised.value.at.endswith(at)
    assert raised.value.where.startswith(f"{tmp_path}/desk.simulation.yaml:")

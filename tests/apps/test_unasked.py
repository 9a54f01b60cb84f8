"""What public reports say is found without a claim; the mended twin of each has no finding."""

from __future__ import annotations

import json
import re

import pytest

import simkit
from simkit.explore.choices import AnswerLog, ChoiceLog, TurnLog
from simkit.explore.conversations import converse
from simkit.explore.subjects import pipeline_subject
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared
from tests.adapters.running import APPS, run_app, scenarios
from tests.conftest import sample_by_day
from tests.explore.searching import without_shrinking

PAGE = APPS.parent.parent / "docs" / "explanation" / "found-unasked.md"
ROW = re.compile(r"^\| (?P<report>\S[^|]*\S) \| [^|]+ \| (?P<lints>[A-Z, 0-9-]+) \| (.*) \|$", re.M)
ROWS = {report: (lints, run) for report, lints, run in ROW.findall(PAGE.read_text("utf-8"))}
CASES = scenarios(APPS / "unasked_code.scenario.yaml", APPS / "unasked_langgraph.scenario.yaml")
EXPLORED = [case for case in CASES if ROWS.get(case.item.name, ("", "no"))[1].isdecimal()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.item.name)
def test_a_report_is_found_by_the_lint_in_the_table_and_its_mended_twin_is_silent(
    case: Prepared,
) -> None:
    report, mended, _ = case.item.name.partition(", mended")
    lints, _ = ROWS[report]
    judgement = simulate(case).judgement

    identities = {each.id for each in (*judgement.findings, *judgement.warnings, *judgement.noted)}
    # A note on a changed variable depends on what ran before in this process.
    assert identities - {"RUN-08"} == (set() if mended else {*lints.split(", ")})


@pytest.mark.slow
@pytest.mark.parametrize("case", sample_by_day(EXPLORED, 4), ids=lambda case: case.item.name)
def test_explore_finds_a_report_from_the_application_alone_as_the_table_says(
    case: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_shrinking(monkeypatch)
    monkeypatch.syspath_prepend(str(APPS))
    lints, run = ROWS[case.item.name]
    exploration = simkit.explore(case.scenario.pipeline, runs=max(10, int(run)), seed=0)

    identities = {each.id for each in (*exploration.findings, *exploration.warnings)}
    identities |= {note.partition(":")[0] for note in exploration.notes}
    assert identities >= {*lints.split(", ")}


def test_explored_users_refer_to_what_an_answer_has_brought_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    rules = {"desk": {"messages": {"$any": True}}}
    telling, referring = TurnLog(answers=(AnswerLog((2,)),)), TurnLog(user=(0, 1))
    subject = pipeline_subject(Library(), "unasked_code:Memory", rules)

    record = converse(subject, ChoiceLog((telling, referring)))

    assert [turn["user"] for turn in record.turns] == ["Hello.", "Tell me more about R-1001."]
    assert [turn["replies"] for turn in record.turns] == [
        {"desk": "R-1001 is the number of this case."},
        {"desk": "Done."},
    ]
    assert {cause.id for cause in record.causes} == {"CTX-22"}


CHAIN = """
    app: {path: [.], call: chat}
    agents: {research: You research., write: You write.}
    turns: [{user: Where is my parcel, replies: {research: ANSWER, write: It comes.}}]
"""


@pytest.mark.parametrize(
    ("answer", "is_found"),
    [
        ("R-1001 is late.", True),
        ("The train leaves at 12:34.", True),
        ("It is with the carrier since Monday", True),
        ("It is late.", False),
        ("LOOKUP: winner 2025 race", False),
        ('{"to": "billing", "why": "R-1001 is late."}', False),
        ("<why>R-1001 is late.</why><to>billing</to>", False),
    ],
)
def test_an_answer_for_a_reader_is_read_and_one_that_code_parses_need_not_be(
    answer: str, is_found: bool
) -> None:
    ran = run_app("unasked_code:Crew", CHAIN.replace("ANSWER", json.dumps(answer)))

    assert [each.id for each in ran.judgement.warnings] == ["FLW-13"] * is_found

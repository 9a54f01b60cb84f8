"""Turns that are repeated, and turns that refer to the replies of earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from simkit.checks.judge import Outcome
from simkit.cli.serve import served
from simkit.core.errors import SourceError
from simkit.core.redact import Redactor
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in
from simkit.trace.store import Trace
from simkit.trace.views import said_in, view_of
from simkit.update.proposals import additions, fixes
from tests.golden import assert_says, cases

DESK: Final = """version: 1
pipeline: desk
channels: {messages: {reducer: append, scope: session}}
agents:
  clerk: {instructions: You help., tools: [look], context: [instructions, history, current_message]}
tools: {look: {args: {type: object}}}
flow: {handoffs: {start: clerk}}
---
version: 1
scenario: a case
pipeline: desk
"""
CASE: Final = """turns:
  - user: Hello
    replies: {clerk: Case 17}
  - user: "Again ${turn.repetition}, turn ${turn.number}, of ${turns[0].reply}"
    repeat: 3
    replies:
      clerk:
        - calls: [look: {case: "${turns[0].reply}"}]
        - "${turn.repetition}: ${turns[-1].reply}"
    tool_results: {look: {is: "${turns[-1].reply}"}}
    expect:
      reply: "${turn.repetition}: ${turns[-1].reply}"
      context: {"clerk[0]": {current_message: [{user: {$ends: Case 17}}]}}
  - user: Bye, ${turns[3].reply}
    replies: {clerk: Bye}
expect:
  tool_calls: {$len: 3, $each: {args: {case: "${turns[0].reply}"}}}
  state: {messages: {$len: 10, $has: [{assistant: "${turns[-2].reply}"}]}}
"""
CODE: Final = """
import urllib.request, json
def run(text):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(
        "https://api.openai.com/v1/chat/completions", body, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""


@pytest.fixture(autouse=True)
def _import_folder(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(cwd))


def prepared(turns: str, head: str = DESK) -> Prepared:
    """The scenario of these turns."""
    Path("t.scenario.yaml").write_text(head + turns, encoding="utf-8")
    (item,) = items_in("t.scenario.yaml")
    return Library().prepared(item)


def describe_findings(outcome: Outcome) -> list[str]:
    """What is said against a run, with its lines."""
    return [f"{finding.where}: {finding.what}" for finding in outcome.judgement.findings]


def replies(trace: Trace) -> list[Any]:
    """The replies of a run."""
    return [row["reply"] for row in said_in(view_of(trace.events))]


# repeated, and referring


def test_a_repeated_turn_is_taken_so_often_and_refers_to_what_was_said() -> None:
    outcome = simulate(prepared(CASE))

    assert describe_findings(outcome) == []
    assert replies(outcome.trace) == [
        "Case 17", "1: Case 17", "2: 1: Case 17", "3: 2: 1: Case 17", "Bye"
    ]  # fmt: skip


@pytest.mark.slow
def test_a_restart_inside_repeated_turns_knows_what_was_said() -> None:
    outcome = simulate(prepared(CASE.replace("repeat: 3", "repeat: 3\n    restart: true")))

    assert describe_findings(outcome) == []
    assert replies(outcome.trace)[3] == "3: 2: 1: Case 17"


def test_a_session_that_refers_to_another_is_the_same_alone() -> None:
    outcome = simulate(prepared(CASE.replace("user: Bye,", "session: other\n    user: Bye,")))

    assert [text for text in describe_findings(outcome) if "STA" in text] == []
    assert view_of(outcome.trace.events).turns[4].reply == "Bye"


@pytest.mark.parametrize(
    ("reply", "turn", "wrong"),
    [
        ("{json: {$any: true}}",
         'user: b, replies: {clerk: x}, expect: {reply: "${turns[0].reply}"}', 1),
        ("{json: {a: o}}",
         'user: b, replies: {clerk: x}, expect: {reply: {$not: "${turns[0].reply}"}}', 0),
        ("{json: {a: 1}}",
         'user: b, replies: {clerk: {json: {a: 1}}}, expect: {reply: "${turns[0].reply}"}', 0),
        ("{json: {error: rate_limit}}",
         'user: b, replies: {clerk: "${turns[0].reply}"}, expect: {reply: {error: rate_limit}}', 0),
        ("{json: {text: hello}}",
         'user: "${turns[0].reply}", replies: {clerk: x}, expect: {context: {clerk: '
         "{current_message: [{user: {$contains: text}}]}}}", 0),
        ("{json: {error: bad}}",
         'user: b, replies: {clerk: [{calls: [look: {}]}, x]}, '
         'tool_results: {look: "${turns[0].reply}"}, '
         "expect: {tool_calls: [{result: {error: bad}, error: null}]}", 0),
    ],
)  # fmt: skip
def test_a_reply_that_is_json_is_a_value_and_no_word_of_a_scenario(
    reply: str, turn: str, wrong: int
) -> None:
    turns = f"turns:\n  - {{user: a, replies: {{clerk: {reply}}}}}\n  - {{{turn}}}\n"

    texts = [
        text
        for text in describe_findings(simulate(prepared(turns)))
        if "does not match" in text or wrong == 0
    ]

    assert len(texts) == wrong, texts


def test_code_is_led_the_same_way() -> None:
    Path("app_of_turns.py").write_text(CODE, encoding="utf-8")
    head = "version: 1\nscenario: code\npipeline: app_of_turns:run\nagents: {bot: {model: m}}\n"
    turns = """turns:
  - {user: Hello, replies: {bot: Case 17}}
  - user: About ${turns[-1].reply}
    repeat: 2
    replies: {bot: "${turn.repetition} of ${turns[0].reply}"}
    expect:
      reply: "${turn.repetition} of Case 17"
      context: {bot: {includes: [{user: "About ${turns[-1].reply}"}]}}
"""

    outcome = simulate(prepared(turns, head))

    assert describe_findings(outcome) == []
    assert replies(outcome.trace) == ["Case 17", "1 of Case 17", "2 of Case 17"]


def test_a_reply_alone_keeps_its_type_and_what_is_no_reply_is_null() -> None:
    turns = """turns:
  - {user: Hello, replies: {clerk: {json: {case: 17}}}}
  - user: {json: "${turns[0].reply}"}
    replies: {clerk: {interrupt: Which?}}
    expect: {interrupt: Which?}
  - {resume: "${turns[0].reply.case}", replies: {clerk: "It is ${turns[1].reply}"}}
"""
    view = view_of(simulate(prepared(turns)).trace.events)

    assert view.turns[2].reply == "It is null"
    assert view.messages[3].content == '{"case":17}'


def test_a_literal_beside_what_waits_stays_literal() -> None:
    turns = """turns:
  - {user: Hello, replies: {clerk: Case}}
  - {user: "$${turns[0].reply} ${turns[0].reply}", replies: {clerk: Yes},
     expect: {context: {clerk: {current_message: [{user: "$${turns[0].reply} Case"}]}}}}
"""
    assert describe_findings(simulate(prepared(turns))) == []


# what is told


def test_a_finding_says_its_line_and_which_repetition() -> None:
    outcome = simulate(prepared(CASE.replace('reply: "${turn.rep', 'reply: "no ${turn.rep')))

    assert describe_findings(outcome) == [
        f"t.scenario.yaml:23:14: reply does not match, repetition {number} of 3"
        for number in (1, 2, 3)
    ]
    assert [finding.turn for finding in outcome.judgement.findings] == [2, 3, 4]


@cases(__file__, "refused")
def test_what_cannot_be_is_told_at_its_place(old: str, new: str, says: str) -> None:
    assert old in CASE
    with pytest.raises(SourceError) as refused:
        prepared(CASE.replace(old, new, 1))

    assert_says(str(refused.value), says)


def test_more_repetitions_than_anybody_needs_are_refused() -> None:
    with pytest.raises(SourceError, match=r":16:13: .*from 1 to 10,000"):
        prepared(CASE.replace("repeat: 3", "repeat: 1000000000"))


# editing


def test_a_claim_of_a_repeated_turn_is_not_edited_and_one_behind_it_is_at_its_own_place() -> None:
    wrong = CASE.replace("clerk: Bye}", "clerk: Bye}\n    expect: {reply: Tschau}")
    case = prepared(wrong.replace('reply: "${turn.rep', 'reply: "no ${turn.rep'))
    outcome = simulate(case)

    proposal = fixes(case, outcome.view, outcome.judgement)

    assert [note.what for note in proposal.notes] == [
        f"turns[{turn}].expect.reply: its turn is repeated, and this is repetition {turn} of 3"
        for turn in (1, 2, 3)
    ]
    assert [(edit.edit.path, edit.where) for edit in proposal.edits] == [
        (("turns", 2, "expect", "reply"), "t.scenario.yaml:27:21")
    ]


def test_first_claims_are_written_of_turns_that_are_not_repeated() -> None:
    bare = CASE[: CASE.index("    expect:")] + CASE[CASE.index("  - user: Bye") :]
    case = prepared(bare)

    proposal = additions(case, simulate(case).view, Redactor({}))

    assert [edit.edit.path for edit in proposal.edits] == [("turns", 0), ("turns", 2)]
    assert {note.where for note in proposal.notes} == {"t.scenario.yaml:15:5"}


def test_a_served_program_waits_for_no_reply() -> None:
    with pytest.raises(SourceError, match="takes its turns by itself"):
        served(prepared(CASE), Trace())

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
def _import_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


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


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Bye, ${turns[3].", "Bye, ${turns[4].",
         "t.scenario.yaml:25:11: `turns[4]` is not before turn 5\n  at turns[4].user\n"
         "  What was said before it is turns[0] to turns[3]."),
        ("of ${turns[0].", "of ${turns[2].",
         "t.scenario.yaml:15:11: `turns[2]` is not before turn 2\n"
         "  at turns[1].user, repetition 1 of 3\n  What was said before it is turns[0]."),
        ("user: Hello", "user: ${turns[-1].reply}",
         "t.scenario.yaml:13:11: `turns[-1]` is not before turn 1\n  at turns[0].user\n"
         "  Nothing was said before the first turn."),
        ("Bye, ${turns[3].reply", "Bye, ${turns[3].rpely",
         "t.scenario.yaml:25:11: nothing of a turn is called `rpely`\n  at turns[4].user\n"
         "  did you mean `reply`?   known: reply"),
        ("Bye, ${turns[3].reply", "Bye, ${turns.reply",
         "t.scenario.yaml:25:11: `${turns.reply}` does not name a turn and a field\n"
         "  at turns[4].user\n"
         "  Write `${turns[0].reply}`, or `${turns[-1].reply}` for the turn before."),
        ("Bye, ${turns[3].reply", "Bye, ${turn.nmuber",
         "t.scenario.yaml:25:11: `${turn.nmuber}` is not there\n  at turns[4].user\n"
         "  did you mean `turn.number`?   known: turn.number, turn.repetition"),
        ("repeat: 3", "repeat: 0",
         "t.scenario.yaml:16:13: must be a whole number from 1 to 10,000, not 0\n"
         "  at turns[1].repeat"),
        ("repeat: 3", "repeat: often",
         "t.scenario.yaml:16:13: must be a whole number from 1 to 10,000, not the text "
         "`often`\n"
         "  at turns[1].repeat"),
        ("replies:\n      clerk:\n        - calls", "replies:\n      clrek:\n        - calls",
         "t.scenario.yaml:18:7: unknown agent `clrek`\n"
         "  at turns[1].replies.clrek, repetition 1 of 3\n"
         "  did you mean `clerk`?   known: clerk"),
        ("turns:\n", "given: {state: {messages: ['${turns[0].reply}']}}\nturns:\n",
         "t.scenario.yaml:12:28: `${turns[0].reply}` is in a place without turns\n"
         "  at given.state.messages[0]\n"
         "  It can stand in a turn, and `turns` in claims on the whole run too."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_at_its_place(old: str, new: str, says: str) -> None:
    assert old in CASE
    with pytest.raises(SourceError) as refused:
        prepared(CASE.replace(old, new, 1))

    assert str(refused.value) == says


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

"""Failing claims become what was found, in the text of their file."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.update.running import accepted, failing_claims

HEAD = """\
version: 1
pipeline: desk
agents:
  clerk: {instructions: Help., tools: [look], handoffs: [boss]}
  boss: {instructions: Decide.}
tools: {look: {args: {type: object}}}
contracts: [{from: clerk, to: boss, type: case, payload: {type: object, required: [nr]}}]
flow: {handoffs: {start: clerk}}
---
version: 1
scenario: a case
pipeline: desk
"""
TURN = """\
turns:
  - user: Hello   # says the user
    replies:
      clerk:
        - calls: [look: {at: door}]
        - {handoff: {to: boss, payload: {nr: 7}}}
      boss: "It's: done"
    tool_results: {look: {open: true}}
    expect:
"""
INDENT = " " * 6


def body(text: str) -> str:
    """What a file says behind the turn's `expect:`."""
    head = HEAD + TURN
    assert text.startswith(head), "what no claim says has changed"
    return text[len(head) :]


@pytest.mark.parametrize(
    ("claims", "fixed"),
    [
        ("agents: [clerk]  # who\n", "agents: [clerk, boss]  # who\n"),
        ("agents:\n  - boss # b\n", "agents:\n  - clerk\n  - boss # b\n"),
        ("reply: 'no'\n", "reply: 'It''s: done'\n"),
        ("reply:\n  no\nmodel_calls: {clerk: 1, boss: 1}\n",
         "reply:\n  \"It's: done\"\nmodel_calls: {clerk: 2, boss: 1}\n"),
        ("handoffs: []\n", "handoffs: [{from: clerk, to: boss, type: case, payload: {nr: 7}}]\n"),
        ("handoffs: [{to: clerk, outcome: rejected}]\n",
         "handoffs: [{to: boss, outcome: made}]\n"),
        ("handoffs:\n  - to: clerk\n    payload: {nr: 8}\n",
         "handoffs:\n  - to: boss\n    payload: {nr: 7}\n"),
        ("tool_calls: [{tool: look, args: {at: 'window'}, result: {$any: true}}]\n",
         "tool_calls: [{tool: look, args: {at: 'door'}, result: {$any: true}}]\n"),
        ("tool_calls:\n  []\n",
         "tool_calls:\n  [{agent: clerk, tool: look, args: {at: door}, result: {open: true}}]\n"),
        ("context:\n  boss: {sections: [instructions], history: [{user: Hello}]}\n",
         "context:\n  boss: {sections: [instructions, handoff, current_message], history: []}\n"),
        ("context:\n  clerk[1]:\n    run:\n      - assistant: {$any: true}\n"
         "      - {role: tool, content: {open: false}}\n",
         "context:\n  clerk[1]:\n    run:\n      - assistant: {$any: true}\n"
         "      - {role: tool, content: {open: true}}\n"),
        ("runs:\n  boss: {output: done, reply: {$starts: It}}\n",
         "runs:\n  boss: {output: \"It's: done\", reply: {$starts: It}}\n"),
        ("state: {messages: {$len: 9}}\n", "state: {messages: {$len: 2}}\n"),
        ("error: NoRoute\n", "error: null\n"),
    ],
)  # fmt: skip
def test_a_failing_claim_becomes_what_was_found(tmp_path: Path, claims: str, fixed: str) -> None:
    new = accepted(HEAD + TURN + indent(claims, INDENT), tmp_path)

    assert body(new.text) == indent(fixed, INDENT)
    assert new.notes == []
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new.text) == []


def test_a_rejected_handoff_gets_its_outcome(tmp_path: Path) -> None:
    text = HEAD + (
        "turns:\n"
        "  - user: Hello\n"
        "    replies: {clerk: [{handoff: {to: boss, payload: {}}}, I stay.]}\n"
        "    expect:\n"
        "      handoffs: [{to: boss}]\n"
    )

    new = accepted(text, tmp_path)

    assert new.text == text.replace("[{to: boss}]", "[{to: boss, outcome: rejected}]")


@pytest.mark.parametrize(
    ("claims", "note"),
    [
        ("      reply: {$contains: no}\n",
         "22:26: turns[0].expect.reply.$contains: `$contains` does not match \"It's: done\""),
        ("      context: {boss: {includes: [{user: Bye}]}}\n",
         "22:35: turns[0].expect.context.boss.includes[0]: matches no message"),
        ("      context: {boss: {excludes: [{user: Hello}]}}\n",
         "22:35: turns[0].expect.context.boss.excludes[0]: matches a message"),
        ("      context: {'*': {sections: [history]}}\n",
         "22:33: turns[0].expect.context.*.sections: `*` speaks of several: "
         "what one of them found may not hold of others"),
        ("      runs: {'boss[*]': {output: x}}\n",
         "22:34: turns[0].expect.runs.\"boss[*]\".output: `boss[*]` speaks of several: "
         "what one of them found may not hold of others"),
        ("      findings: [CTX-02]\n",
         "22:18: turns[0].expect.findings[0]: CTX-02 is claimed, but not found in turn 1"),
        ("      context: {'clerk[5]': {tokens: 3}}\n",
         "22:29: turns[0].expect.context.\"clerk[5]\": agent 'clerk' made 2 model calls in turn 1, "
         "so there is no [5]: the first is [0], the last [1]"),
    ],
)  # fmt: skip
def test_what_no_value_answers_is_left_to_people(tmp_path: Path, claims: str, note: str) -> None:
    text = HEAD + TURN + claims

    new = accepted(text, tmp_path)

    assert new.text == text
    assert new.notes == [note]


def test_what_holds_is_not_touched_beside_what_does_not(tmp_path: Path) -> None:
    claims = (
        "      # first\n"
        "      agents: [  clerk,boss ]\n"
        "      reply: no  # why\n"
        "      state: {messages: {$len: {$gte: 1}}}   # odd   spaces\n\n"
    )

    new = accepted(HEAD + TURN + claims, tmp_path)

    assert body(new.text) == claims.replace("no  # why", '"It\'s: done"  # why')


def test_line_ends_and_a_missing_last_one_stay(tmp_path: Path) -> None:
    text = (HEAD + TURN + "      reply: no").replace("\n", "\r\n")

    new = accepted(text, tmp_path)

    assert new.text == text.replace("reply: no", 'reply: "It\'s: done"')


def test_lints_are_never_accepted(tmp_path: Path) -> None:
    turn = TURN.replace('boss: "It\'s: done"', 'boss: ["It\'s: done", unused]')
    text = HEAD + turn + "      reply: no\n"

    new = accepted(text, tmp_path)

    assert new.text == text.replace("reply: no", 'reply: "It\'s: done"')
    assert new.notes == []


ROWS = (
    HEAD.replace("a case", "case ${column.no}")
    + """\
examples: [{no: one, says: eins}, {no: two, says: zwei}]
turns:
  - user: Hello
    replies: {clerk: "${column.says}"}
    expect:
"""
)


@pytest.mark.parametrize(
    ("claims", "notes"),
    [
        ("      reply: ${column.no}\n",
         ["18:14: turns[0].expect.reply: it is filled in by a reference"]),
        ("      reply: eins\n",
         ["18:14: turns[0].expect.reply: 1 row of 2 found something else; "
          "the rows of a table share what is written here"]),
        ("      reply: drei\n",
         ["18:14: turns[0].expect.reply: the rows of the table found different values"]),
    ],
)  # fmt: skip
def test_what_rows_do_not_agree_on_is_left_to_people(
    tmp_path: Path, claims: str, notes: list[str]
) -> None:
    new = accepted(ROWS + claims, tmp_path)

    assert new.text == ROWS + claims
    assert new.notes == notes


def test_what_all_rows_found_is_accepted(tmp_path: Path) -> None:
    new = accepted(ROWS + "      agents: [boss]\n", tmp_path)

    assert new.text == ROWS + "      agents: [clerk]\n"


def test_a_value_behind_an_alias_is_left_to_people(tmp_path: Path) -> None:
    text = HEAD + "x-said: &said no\n" + TURN + "      reply: *said\n"

    new = accepted(text, tmp_path)

    assert new.text == text
    assert new.notes == [
        "13:9: turns[0].expect.reply: it is written elsewhere: here is only its alias `*said`"
    ]


def test_a_text_that_looks_like_a_reference_is_written_as_a_text(tmp_path: Path) -> None:
    text = HEAD + "turns:\n  - user: Hi\n    replies: {clerk: 'Pay $${sum}'}\n"
    text += "    expect: {reply: 'Pay'}\n"

    new = accepted(text, tmp_path)

    assert new.text == text.replace("reply: 'Pay'", "reply: 'Pay $${sum}'")
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new.text) == []

"""Claims on runs, replies, calls and how a turn ends: where they hold, and where they do not."""

from __future__ import annotations

from msgspec.structs import replace

from simkit.trace import events as e
from tests.checks.judging import MEALS, describe_findings, text


def interrupted(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Edits a trace so that its turns end with a question."""
    if isinstance(event, e.TurnFinished):
        where = (event.at, event.session, event.turn, "coach", "r9")
        request = e.TurnInterrupted(*where, question={"sure": "?"})
        return [request, replace(event, waits_for="r9")]
    return [event]


def test_an_interrupt_is_the_question_that_the_turn_ends_with() -> None:
    value = describe_findings(MEALS, "interrupt: {sure: '?'}\nstate: {total: 2}", edit=interrupted)
    result = describe_findings(MEALS, "interrupt: {sure: '!'}", edit=interrupted)
    missed = describe_findings(MEALS, "interrupt: {sure: '?'}")

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        interrupt does not match
        at `'!'}`
        sure: wanted "!", found "?"
    """)
    assert missed == text("""
        claim E [turn 2]
        interrupt does not match
        at `{sure: '?'}`
        .: wanted {sure: "?"}, found null
        | nothing was asked in turn 2
    """)

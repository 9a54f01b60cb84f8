"""What a live run says of its claims, under the paths that they have in the file."""

from __future__ import annotations

from pathlib import Path

from simkit.session.live.scripted_words import claim_units
from simkit.session.live.trials import LiveScenario
from simkit.session.simulate import simulate
from tests.recording import prepared

DESK = """\
version: 1
pipeline: desk
agents: {desk: {instructions: You refund., handoffs: []}}
flow: {handoffs: {start: desk}}
---
version: 1
scenario: two answers
judge: openai/gpt-5-mini
pipeline: desk
turns:
  - {user: Hello, replies: {desk: Hi.}}
  - user: Refund me
    replies: {desk: Sure.}
    judge_replies: {"Is it ${turns[0].reply}": false}
    expect: {judge: {"Is it ${turns[0].reply}": true}}
judge_replies: {"Was it kind?": true}
expect: {judge: {"Did it end with ${turns[1].reply}": true, "Was it kind?": true}}
"""


def test_a_claim_whose_question_refers_to_a_reply_has_the_path_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "desk.scenario.yaml"
    file.write_text(DESK, encoding="utf-8")
    ready = prepared(file)

    results = LiveScenario(ready, tuple(claim_units(ready, 1))).results(simulate(ready))

    assert [path[-1] for path in results.unheld] == [
        "Is it ${turns[0].reply}", "Did it end with ${turns[1].reply}"
    ]  # fmt: skip
    assert results.others == ()

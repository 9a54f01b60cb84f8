"""A claim on a turn speaks of events that turns have: the denial of another always holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.session.simulate import simulate
from simkit.spec.scenario.claim_names import BETWEEN_TURNS
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in

SCENARIO = """\
pipeline: desk
agents: {desk: {instructions: Help.}}
flow: {handoffs: {start: desk}}
---
scenario: s
pipeline: desk
turns:
  - user: Hello.
    replies: {desk: Hello!}
    judge_replies: {Is it polite?: yes}
    expect: {judge: {Is it polite?: yes}<TURN>}
expect: {<RUN>}
"""


def text_of(claim: str = "", run: str = "") -> str:
    return SCENARIO.replace("<TURN>", claim and f", {claim}").replace("<RUN>", run)


def simulated(folder: Path, text: str) -> tuple[set[str], set[str]]:
    """The kinds of events in turns, and those of the whole run."""
    file = folder / "a.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    outcome = simulate(library.prepared(item))
    assert outcome.passed
    view = outcome.view
    inside = {
        type(event).__name__ for turn in view.turns for event in view.events[turn.lo : turn.hi]
    }
    return inside, {type(event).__name__ for event in view.events}


def test_the_events_between_turns_are_those_that_no_turn_has(tmp_path: Path) -> None:
    inside, all_kinds = simulated(tmp_path, text_of())

    assert all_kinds - inside == {*BETWEEN_TURNS}


@pytest.mark.parametrize("kind", BETWEEN_TURNS)
@pytest.mark.parametrize("form", ["{$not: {$has: [{kind: <KIND>}]}}", "{$has: [{kind: <KIND>}]}"])
def test_they_are_refused_in_a_turn_and_may_be_claimed_of_the_run(
    kind: str, form: str, tmp_path: Path
) -> None:
    claim = f"events: {form.replace('<KIND>', kind)}"

    with pytest.raises(SourceError, match=f"`{kind}` happens in no turn") as problem:
        simulated(tmp_path, text_of(claim))

    assert ":11:" in problem.value.where
    if "$not" not in form and kind != "JudgeAnswered":
        simulated(tmp_path, text_of(run=claim))

"""The claims of a file and what came of each: what fails beside them is not theirs."""

from __future__ import annotations

from pathlib import Path

from simkit.report.outcomes import result_of
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.viewer.claim_lines import claim_lines
from tests.viewer.scenes import SHOP


def states_of(folder: Path, text: str) -> dict[str, str]:
    """Each claim of the first scenario, as ``turn claim``, to its state."""
    file = folder / "shop.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library = Library()
    prepared = library.prepared(items_in(str(file), library.cache)[0])
    outcome = simulate(prepared)
    lines = claim_lines(prepared.document, result_of(prepared, outcome, None))
    return {line.path.replace("turns.", "").replace(".expect", ""): line.state for line in lines}


def test_a_claim_that_fails_leaves_those_beside_it(tmp_path: Path) -> None:
    assert states_of(tmp_path, SHOP) == {
        "0.reply": "held",
        "1.agents": "held",
        "1.context.refunds.includes": "failing",
        "1.state.status": "held",
    }


def test_a_lint_at_the_turn_fails_none_of_its_claims(tmp_path: Path) -> None:
    text = SHOP.replace("[tool_messages, tool_calls, intermediate_ai]", "[tool_calls]")

    states = states_of(tmp_path, text)

    assert set(states.values()) == {"held"}


def test_claims_of_turns_that_did_not_run_are_not_looked_at(tmp_path: Path) -> None:
    text = SHOP.replace("    replies: {triage: How can I help?}\n", "")
    text = text.replace("expect: {reply: How can I help?}", "expect: {agents: [triage]}")

    states = states_of(tmp_path, text)

    assert states["1.agents"] == states["1.state.status"] == "skipped"

"""A handoff that an error cuts off follows from the error; one that is wrong by itself does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.recorder.test_handoffs_guessed import CODE
from tests.adapters.running import run_app


@pytest.mark.parametrize(("claim", "follows"), [("{to: refunds}", True), ("{to: sales}", False)])
def test_a_handoff_that_was_requested_when_the_code_failed_follows_from_that(
    tmp_path: Path, claim: str, follows: bool
) -> None:
    folder = tmp_path
    code = CODE.format(tools=["to_refunds"], following={}).replace(
        'agent = NEXT.get(call["function"]["name"], agent)', "raise KeyError('order_id')"
    )
    (folder / "cut_off_app.py").write_text(code, encoding="utf-8")
    scenario = f"""
        agents: {{triage: You are triage., refunds: You are refunds.}}
        turns:
          - user: Money back
            replies: {{triage: {{handoff: {{to: refunds}}}}}}
            expect: {{handoffs: [{claim}]}}
    """

    findings = run_app("cut_off_app:main", scenario, folder, fits=False).judgement.findings

    (handoffs,) = [finding for finding in findings if "handoffs" in finding.path]
    assert ("turn 1 ended with error" in handoffs.follows) is follows

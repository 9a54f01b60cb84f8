"""A claim asserts something only where it was looked at: of rows, and on code that implements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations import item, unmutated
from tests.test_reference_systems import INDEX, TABLES, lines_of_table, page
from tests.twins import ROOT, claims_in, lacks, on_twin, reason_left_out, scenarios, twins

VACUOUS = "RUN-03"
ROWS = {
    "scenarios/agent_engine/engine_linear.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_accumulation.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_decision.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_gather.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_memory.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_refinement.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_debugging.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_example.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_lifecycle.pipeline.yaml": "2",
    "scenarios/agent_engine/engine_tools.pipeline.yaml": "2",
    "scenarios/fitness_coach/langgraph.pipeline.yaml": "1",
    "scenarios/research_assistant/assistant.pipeline.yaml": "4",
    "scenarios/handoff_pattern/openai_agents.pipeline.yaml": "5",
    "scenarios/supervisor_context/node.pipeline.yaml": "3",
    "scenarios/supervisor_context/node_goals.pipeline.yaml": "3",
    "scenarios/supervisor_context/node_validation.pipeline.yaml": "3",
}
"""The system of each twin."""


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_every_claim_that_a_row_names_was_looked_at_and_could_be_broken(table: str) -> None:
    folder, _ = TABLES[table]
    named = {scenario for row in page(table) for scenario, _ in row.claims}

    for scenario in sorted(named):
        missing = lacks(item(folder, scenario))
        if missing:
            pytest.skip(missing)
        judgement = unmutated(folder, scenario).judgement
        assert judgement.passed_over == (), scenario
        assert [warning.what for warning in judgement.warnings if warning.id == VACUOUS] == [], (
            scenario
        )
    assert named


@pytest.mark.slow
@pytest.mark.parametrize("twin", twins())
def test_the_index_counts_the_claims_that_were_looked_at_on_code(twin: str) -> None:
    by_name = {
        re.findall(r"\]\((?:\.\./)+([^)]+)\)", line[1])[0]: line
        for line in lines_of_table(INDEX.read_text(encoding="utf-8"), "of system")
    }
    # Those without a claim only say what a stand-in for the provider answers.
    claiming = [scenario for scenario in scenarios(twin) if claims_in(scenario)]
    request = [entry for entry in claiming if not reason_left_out(twin, entry)]
    missing = {lacks(entry, twin) for entry in request} - {""}
    if missing:
        pytest.skip(", ".join(sorted(missing)))

    over = [finding for entry in request for finding in on_twin(twin, entry).judgement.passed_over]

    reasons = dict.fromkeys(entry.what.partition(" was not looked at: ")[2] for entry in over)
    counted = [
        ROWS[twin],
        f"[{Path(twin).name.partition('.')[0]}](../../{twin})",
        str(len(request)),
        str(len(claiming) - len(request)),
        str(sum(claims_in(claiming_file) for claiming_file in request) - len(over)),
        str(len(over)),
        "; ".join(reasons) or "–",
    ]
    assert by_name[twin] == counted, " | ".join(counted)

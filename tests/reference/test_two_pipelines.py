"""One scenario, two pipelines: what holds on a design holds on the code that implements it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simkit.checks.findings import Finding
from simkit.language.paths import parse
from simkit.spec.scenario.items import ScenarioCase
from tests.conftest import sample_by_day
from tests.mutations import errors, findings_at, is_written, where_in_file
from tests.test_reference_systems import INDEX, lines_of_table
from tests.twins import (
    ROOT,
    Mutant,
    app_of,
    claims_in,
    holds_on,
    lacks,
    mutants,
    mutated,
    needs_unseen,
    on_both,
    on_twin,
    reason_left_out,
    scenario_of,
    scenarios,
    twins,
)

SYSTEMS = {
    "fitness_coach": "1",
    "agent_engine": "2",
    "supervisor_context": "3",
    "research_assistant": "4",
    "handoff_pattern": "5",
}
"""The number of the system in each folder."""


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def skip_without(item: ScenarioCase, twin: str) -> None:
    missing = lacks(item, twin)
    if missing:
        pytest.skip(missing)


@pytest.mark.slow(10)
@pytest.mark.parametrize("twin", twins())
def test_scenarios_hold_on_both_and_nothing_differs_but_what_is_declared(twin: str) -> None:
    """One run of each scenario shows what is equal, what differs, and what was looked at."""
    implements = app_of(twin).implements
    assert implements is not None
    excluded = [item for item in scenarios(twin) if reason_left_out(twin, item)]
    included = [item for item in scenarios(twin) if item not in excluded]
    for item in scenarios(twin):
        skip_without(item, twin)
    claiming = [item for item in scenarios(twin) if claims_in(item)]
    differences, over = set[str](), list[Finding]()

    for item in included:
        both = on_both(twin, item)
        assert (item.id, both.own.judgement.findings) == (item.id, ())
        assert (item.id, both.other.judgement.findings) == (item.id, ())
        assert both.undeclared.is_equal, (item.id, both.undeclared)
        differences |= both.known
        # Scenarios without a claim only say what a stand-in for the provider answers.
        over += both.other.judgement.passed_over if item in claiming else ()

    assert included
    assert [item.id for item in excluded if holds_on(twin, item)] == [], "take it out: it holds"
    assert sorted(implements.differs.keys() - differences) == []
    assert [
        kind
        for kind in implements.unseen
        if not any(needs_unseen(twin, item, kind) for item in included)
    ] == []
    reasons = dict.fromkeys(entry.what.partition(" was not looked at: ")[2] for entry in over)
    looked_at = [item for item in claiming if item in included]
    counted = [
        SYSTEMS[Path(twin).parent.name],
        f"[{Path(twin).name.partition('.')[0]}](../../{twin})",
        str(len(looked_at)),
        str(len(claiming) - len(looked_at)),
        str(sum(claims_in(item) for item in looked_at) - len(over)),
        str(len(over)),
        "; ".join(reasons) or "–",
    ]
    assert index_of_twins()[twin] == counted, " | ".join(counted)


def index_of_twins() -> dict[str, list[str]]:
    """Return the lines of the index of reference systems, by the file of the twin."""
    lines = lines_of_table(INDEX.read_text(encoding="utf-8"), "of system")
    return {re.findall(r"\]\((?:\.\./)+([^)]+)\)", line[1])[0]: line for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", sample_by_day(mutants(), 36), ids=lambda mutant: mutant.id)
def test_a_fault_in_the_code_turns_the_same_scenario_red_where_it_stands(
    mutant: Mutant, tmp_path: Path
) -> None:
    item = scenario_of(mutant)
    skip_without(item, mutant.twin)
    sound = on_twin(mutant.twin, item)

    outcome = mutated(mutant, tmp_path)

    assert sound.judgement.findings == ()
    for claim in mutant.red:
        assert is_written(item.file, item.index, parse(claim)), f"{claim} is not there"
        findings = findings_at(outcome, claim)
        assert findings, f"{claim} still holds: {outcome.judgement.findings}"
        for finding in findings:
            assert finding.where == where_in_file(item.file, item.index, finding.path)
    # The claim is false: the run did not break down, neither the script nor the code; but code that
    # asks a model once more than the scenario answers is red at what it did, and then breaks off.
    assert [finding for finding in outcome.judgement.findings if finding.breaks] == []
    assert set(errors(outcome)) <= {*errors(sound), "ReplyMissing"}


def test_every_twin_has_mutants_with_names_of_their_own() -> None:
    counts = {twin: sum(mutant.twin == twin for mutant in mutants()) for twin in twins()}
    names = [mutant.id for mutant in mutants()]

    assert twins()
    assert {twin: count for twin, count in counts.items() if count < 5} == {}
    assert len(set(names)) == len(names)

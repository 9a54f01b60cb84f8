"""One scenario, two pipelines: what holds on a design holds on the code that implements it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.language.paths import parse
from simkit.spec.scenario.items import ScenarioCase
from tests.mutations import errors, findings_at, is_written, where_in_file
from tests.twins import (
    ROOT,
    Mutant,
    app_of,
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

CASES = [(twin, item) for twin in twins() for item in scenarios(twin)]
NAMES = [f"{Path(twin).name.split('.')[0]}: {item.id}" for twin, item in CASES]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def skip_without(item: ScenarioCase, twin: str) -> None:
    missing = lacks(item, twin)
    if missing:
        pytest.skip(missing)


@pytest.mark.slow
@pytest.mark.parametrize(("twin", "item"), CASES, ids=NAMES)
def test_a_scenario_holds_on_both_and_nothing_differs_but_what_is_declared(
    twin: str, item: ScenarioCase
) -> None:
    skip_without(item, twin)
    if reason_left_out(twin, item):
        assert not holds_on(twin, item), "it holds: take it out of `leaves_out`"
        return

    both = on_both(twin, item)

    assert both.own.judgement.findings == ()
    assert both.other.judgement.findings == ()
    assert both.undeclared.is_equal, both.undeclared


@pytest.mark.slow
@pytest.mark.parametrize("twin", twins())
def test_every_declared_difference_is_there_in_some_scenario(twin: str) -> None:
    implements = app_of(twin).implements
    assert implements is not None
    request = [item for item in scenarios(twin) if not reason_left_out(twin, item)]
    for item in request:
        skip_without(item, twin)

    value = frozenset[str]().union(*(on_both(twin, item).known for item in request))

    assert request
    assert sorted(implements.differs.keys() - value) == []


@pytest.mark.slow
@pytest.mark.parametrize("twin", twins())
def test_what_is_declared_not_to_be_seen_is_claimed_by_some_scenario(twin: str) -> None:
    implements = app_of(twin).implements
    assert implements is not None
    request = [item for item in scenarios(twin) if not reason_left_out(twin, item)]
    for item in request:
        skip_without(item, twin)

    stale = [
        kind for kind in implements.unseen
        if not any(needs_unseen(twin, item, kind) for item in request)
    ]  # fmt: skip

    assert stale == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.id)
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
    # The claim is false: the run did not break down, neither the script nor the code.
    assert [finding for finding in outcome.judgement.findings if finding.breaks] == []
    assert set(errors(outcome)) <= set(errors(sound))


def test_every_twin_has_mutants_with_names_of_their_own() -> None:
    counts = {twin: sum(mutant.twin == twin for mutant in mutants()) for twin in twins()}
    names = [mutant.id for mutant in mutants()]

    assert twins()
    assert {twin: count for twin, count in counts.items() if count < 5} == {}
    assert len(set(names)) == len(names)

"""Every rule of the reference systems can be broken, and its claim says so at its own line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.language.paths import parse
from simkit.spec.pipeline.mutants import apply_edits
from tests.conftest import sample_by_day
from tests.mutations import (
    Mutation,
    errors,
    findings_at,
    is_written,
    item,
    mutated,
    mutations,
    other_scenario,
    pipeline_document,
    unmutated,
    where_in_file,
    with_its_script_alone,
)


def mutation(identity: str) -> Mutation:
    return next(entry for entry in mutations() if entry.id == identity)


@pytest.mark.slow
@pytest.mark.parametrize("fault", sample_by_day(mutations(), 9), ids=lambda fault: fault.id)
def test_a_mutation_turns_its_claim_red_where_it_stands_and_nothing_unrelated(
    fault: Mutation,
) -> None:
    place = item(fault.folder, fault.scenario)
    sound = unmutated(fault.folder, fault.scenario)

    outcome = mutated(fault)

    assert sound.judgement.findings == ()
    for claim in fault.red:
        assert is_written(place.file, place.index, parse(claim)), f"{claim} is not there"
        findings = findings_at(outcome, claim)
        assert findings, f"{claim} still holds"
        for finding in findings:
            assert finding.where == where_in_file(place.file, place.index, finding.path)
    # The claim is false: the run did not break down, neither the script nor the pipeline.
    assert [finding for finding in outcome.judgement.findings if finding.breaks] == []
    assert set(errors(outcome)) <= set(errors(sound))
    assert other_scenario(fault).judgement.findings == ()


@pytest.mark.slow
def test_the_unrelated_scenario_runs_the_mutated_pipeline() -> None:
    for fault in mutations():
        red = pipeline_document(fault.folder, fault.scenario)
        green = pipeline_document(fault.folder, fault.green)

        assert fault.green != fault.scenario, fault.id
        assert (green.file, green.index) == (red.file, red.index), fault.id


def test_every_mutation_changes_its_pipeline() -> None:
    for fault in mutations():
        data = pipeline_document(fault.folder, fault.scenario).data

        assert apply_edits(data, fault.edit) != data, fault.id


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    sample_by_day((fault for fault in mutations() if fault.edit_scenario), 9),
    ids=lambda fault: fault.id,
)
def test_it_is_the_pipeline_that_is_broken_and_not_the_script(fault: Mutation) -> None:
    """With the script as it is, the scenario holds, which the test above asserts."""
    try:
        outcome = with_its_script_alone(fault)
    except SourceError:
        # The sound pipeline refuses the script before a claim could be red.
        return

    runs = not errors(outcome) and not any(f.breaks for f in outcome.judgement.findings)
    red = any(findings_at(outcome, claim) for claim in fault.red)
    assert not (runs and red)


def test_mutations_have_names_of_their_own_and_say_why() -> None:
    names = [entry.id for entry in mutations()]

    assert len(set(names)) == len(names)
    assert [entry.id for entry in mutations() if not entry.why.endswith(".")] == []


def test_a_mutation_without_its_edit_turns_nothing_red() -> None:
    fault = replace(mutation("fc-42"), edit=())

    outcome = mutated(fault)

    assert [findings_at(outcome, claim) for claim in fault.red] == [[]] * len(fault.red)


def test_an_edit_that_breaks_the_file_is_an_error_and_no_finding() -> None:
    fault = replace(mutation("fc-42"), edit=({"remove": "agents.router"},))

    with pytest.raises(SourceError):
        mutated(fault)


def test_edits_are_made_in_order_on_a_copy() -> None:
    shared = {"b": [1, 2]}
    data = {"one": shared, "two": shared}
    edits = ({"set": "one.c", "to": 3}, {"insert": "one.b[1]", "value": 9}, {"remove": "one.b[0]"})

    after = apply_edits(data, edits)

    assert after == {"one": {"b": [9, 2], "c": 3}, "two": {"b": [1, 2]}}
    assert data == {"one": {"b": [1, 2]}, "two": {"b": [1, 2]}}


@pytest.mark.parametrize(
    "edit",
    [
        {"set": "agents.nobody.tools", "to": []},
        {"remove": "agents.nobody"},
        {"insert": "list[5]", "value": 1},
        {"rename": "agents", "to": "actors"},
    ],
    ids=["set", "remove", "insert", "an unknown action"],
)
def test_an_edit_that_leads_nowhere_is_refused(edit: dict[str, object]) -> None:
    with pytest.raises((KeyError, IndexError, ValueError)):
        apply_edits({"agents": {}, "list": [1]}, (edit,))


def test_where_a_claim_stands_is_read_from_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "two.scenario.yaml"
    file.write_text("a: 1\n---\nturns:\n  - expect:\n      reply: hello\n", encoding="utf-8")

    claim, beyond = parse("turns[0].expect.reply"), parse("turns[0].expect.handoffs[0]")

    assert where_in_file(str(file), 1, claim) == f"{file}:5:14"
    assert is_written(str(file), 1, claim)
    assert where_in_file(str(file), 1, beyond) == f"{file}:5:7"
    assert not is_written(str(file), 1, beyond)

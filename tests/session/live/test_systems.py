"""The reference systems run live over real HTTP, and what they leave when they fail replays."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from simkit.adapters.programs.program import variables_for
from simkit.cli.serve import served
from simkit.session.live.scripted_words import claim_units
from simkit.session.live.trials import ReplayFiles, live_scenario, replays, run_trial
from simkit.spec.pipeline.models import PriceTable
from simkit.spec.scenario.files import Prepared
from simkit.trace.store import Trace
from tests.recording import provider
from tests.stand_in import closing, provider_scenario, recorded_scenarios

CASES = {prepared.document.file: prepared for prepared in reversed(list(recorded_scenarios()))}
"""One recorded scenario of each file: LangGraph, OpenAI Agents, plain HTTP, a declared pipeline."""


@pytest.mark.slow
@pytest.mark.parametrize("prepared", CASES.values(), ids=[Path(f).parent.name for f in CASES])
@pytest.mark.parametrize("fails", [False, True], ids=["as scripted", "failing"])
def test_a_reference_system_runs_live(
    prepared: Prepared, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    # A module may keep a client with the address that an earlier test gave it.
    for name in [module for module in sys.modules if module.partition(".")[0] == "engine"]:
        monkeypatch.delitem(sys.modules, name)
    files = ReplayFiles(tmp_path / "x.scenario.yaml", tmp_path / "cassettes" / "x.yaml")
    units = claim_units(prepared)
    live = live_scenario(_with_false_claim(prepared) if fails else prepared, units)
    run = served(provider_scenario(prepared), Trace())
    with provider() as server, monkeypatch.context() as patch:
        for name, value in variables_for(server.url, os.environ).items():
            patch.setenv(name, value)
        server.answer = lambda request: closing(run.take(request))

        trial, text = run_trial(live, files, PriceTable())

    assert not run.problem
    assert trial.calls
    assert {call.status for call in trial.calls} == {200}
    if not fails:
        assert trial.texts == ()
        assert not files.cassette.exists()
        return
    assert len(trial.texts) == 1
    files.scenario.write_text(text, encoding="utf-8")
    assert replays(files.scenario, trial)


def _with_false_claim(prepared: Prepared) -> Prepared:
    """Returns the scenario with a claim on the whole run that does not hold."""
    data = {**prepared.document.data, "expect": {"events": {"$len": 1}}}
    return msgspec.structs.replace(prepared, document=prepared.document.with_data(data))

"""`simkit.explore` finds what the command finds, and returns it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkit import SimkitError, explore, load, simulate
from simkit.cli.commands.search import explore_command
from simkit.explore import api
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Done, write
from tests.explore.test_explore import BROKEN, SCENARIO, SOUND
from tests.explore.test_simulations import BUYER, DESK, REFUNDS

Call = Callable[..., Done]


@pytest.fixture
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_in_a_folder")
def test_a_finding_holds_the_scenario_that_shows_it() -> None:
    Path("desk.pipeline.yaml").write_text(BROKEN, encoding="utf-8")

    exploration = explore(Path("desk.pipeline.yaml"), runs=60)

    (finding,) = exploration.findings
    assert (finding.id, exploration.passed) == ("HND-03", False)
    assert "HND-03: agent 'billing'" in str(exploration)
    assert finding.command == "simkit explore desk.pipeline.yaml --runs 60 --seed 0"
    Path("found.scenario.yaml").write_text(finding.scenario, encoding="utf-8")
    (scenario,) = load("found.scenario.yaml")
    assert "HND-03" in simulate(scenario).judgement.findings
    assert not Path(".simkit").exists()


@pytest.mark.usefixtures("_in_a_folder")
def test_a_sound_pipeline_passes_and_says_what_was_not_reached() -> None:
    Path("desk.scenario.yaml").write_text(SOUND + SCENARIO, encoding="utf-8")
    (scenario,) = load("desk.scenario.yaml")

    sound = explore(scenario, runs=40, turns=1)
    short = explore(scenario, runs=1, turns=1)

    assert sound.passed
    assert sound.conversations >= 40
    assert sound.unreached == ()
    assert "tool look of desk" in short.unreached


@pytest.mark.usefixtures("_in_a_folder")
def test_a_folder_is_explored_as_a_whole_and_what_is_skipped_is_said() -> None:
    Path("a.simulation.yaml").write_text(DESK + BUYER, encoding="utf-8")
    broken = DESK + BUYER + REFUNDS + "always: {state: {refunds: []}}\n"
    Path("b.simulation.yaml").write_text(broken, encoding="utf-8")
    Path("c.simulation.yaml").write_text(DESK + BUYER + "skip: not now\n", encoding="utf-8")

    exploration = explore(".", runs=30)

    assert [finding.subject for finding in exploration.findings] == ["b.simulation.yaml::the desk"]
    assert exploration.skipped == ("c.simulation.yaml::the desk: not now",)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"runs": 0}, "must be at least 1"),
        ({"turns": 0}, "must be at least 1"),
        ({"turns": 9_000}, "must be at most 8,000"),
        ({"runs": "5"}, "`runs` must be a whole number, not the text `5`"),
        ({"runs": True}, "`runs` must be a whole number, not true"),
        ({"seed": 1.5}, "`seed` must be a whole number, not 1.5"),
        ({"seconds": -1}, "`seconds` must be a number above 0, not -1"),
        ({"seconds": "x"}, "`seconds` must be a number above 0, not the text `x`"),
        ({"profile": 3}, "no profile 3"),
        ({"profile": "chaso"}, "Did you mean 'chaos'"),
    ],
)
def test_a_mistake_is_one_clear_error(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SimkitError, match=problem):
        explore("desk.pipeline.yaml", **options)


def test_only_what_can_be_explored_is_taken() -> None:
    with pytest.raises(SimkitError, match="can be explored, not a mapping"):
        explore({"pipeline": "desk"})  # type: ignore[arg-type]


def test_the_function_has_the_options_of_the_command() -> None:
    ways = {"subject", "folder", "processes", "cluster", "needs_met", "is_strict", "page"}
    """Where it runs, writes, and ends with an error.

    The function runs in its caller's process, writes nothing, and returns what was not looked at.
    """
    options = {parameter.name for parameter in explore_command.params} - ways

    assert options == {*inspect.signature(api.explore).parameters} - ways


def test_the_command_writes_what_the_function_returns(simkit: Call) -> None:
    write("desk.pipeline.yaml", BROKEN)

    simkit("explore", "desk.pipeline.yaml", "--runs", "60", "--to", ".")

    (finding,) = explore("desk.pipeline.yaml", runs=60).findings
    assert Path("HND-03-billing.scenario.yaml").read_text(encoding="utf-8") == finding.scenario

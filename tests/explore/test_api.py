"""Exploration from Python, its strictness, and this project's own applications."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Final

import pytest

from simkit import SimkitError, explore, load, simulate
from simkit.cli.commands.search import explore_command
from simkit.explore import api
from simkit.explore.campaigns import Bounds, run_campaign
from simkit.explore.subjects import scenario_subject
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in
from tests.cli.projects import Call, Done, write
from tests.conftest import IS_NIGHTLY, sample_by_day
from tests.explore.desks import BROKEN, DESK, SOUND
from tests.explore.searching import without_shrinking
from tests.explore.test_explore import SCENARIO
from tests.explore.test_simulations import BUYER, REFUNDS, UNJUDGED


@pytest.mark.usefixtures("cwd")
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


@pytest.mark.usefixtures("cwd")
def test_a_sound_pipeline_passes_and_says_what_was_not_reached() -> None:
    Path("desk.scenario.yaml").write_text(SOUND + SCENARIO, encoding="utf-8")
    (scenario,) = load("desk.scenario.yaml")

    sound = explore(scenario, runs=40, turns=1)
    short = explore(scenario, runs=1, turns=1)

    assert sound.passed
    assert sound.conversations >= 40
    assert sound.unreached == ()
    assert "tool look of desk" in short.unreached


@pytest.mark.slow
@pytest.mark.usefixtures("cwd")
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
        ({"profile": "chaso"}, "Did you mean `chaos`"),
    ],
)
def test_a_mistake_is_one_clear_error(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SimkitError, match=problem):
        explore("desk.pipeline.yaml", **options)


def test_only_what_can_be_explored_is_taken() -> None:
    with pytest.raises(SimkitError, match="can be explored, not a mapping"):
        explore({"pipeline": "desk"})  # type: ignore[arg-type]


def test_the_function_has_the_options_of_the_command() -> None:
    ways = {"subject", "folder", "form", "processes", "cluster", "needs_met", "is_strict", "page"}
    """Where it runs, writes, and ends with an error.

    The function runs in its caller's process, writes nothing, and returns what was not looked at.
    """
    options = {parameter.name for parameter in explore_command.params} - ways

    assert options == {*inspect.signature(api.explore).parameters} - ways


@pytest.mark.slow
def test_the_command_writes_what_the_function_returns(simkit: Call) -> None:
    write("desk.pipeline.yaml", BROKEN)

    simkit("explore", "desk.pipeline.yaml", "--runs", "60", "--to", ".")

    (finding,) = explore("desk.pipeline.yaml", runs=60).findings
    assert Path("HND-03-billing.scenario.yaml").read_text(encoding="utf-8") == finding.scenario


SKIPPED = SOUND + "---\nscenario: a\npipeline: desk\nskip: not now\nturns: [{user: Hi.}]\n"
NEEDY = SKIPPED.replace("skip: not now", "needs: [a-library-of-nobody]")
LACKS = "needs a-library-of-nobody, which is not installed: pip install a-library-of-nobody"


def test_where_everything_is_skipped_nothing_was_explored(simkit: Call) -> None:
    write("a/one.scenario.yaml", SKIPPED)
    write("a/two.scenario.yaml", NEEDY)

    assert simkit("explore", "a") == Done(
        0,
        "a/one.scenario.yaml::a: skipped: not now\n"
        f"a/two.scenario.yaml::a: skipped: {LACKS}\n"
        "nothing was explored: 2 skipped\n",
        "",
    )
    assert simkit("replay", "a").code == 0


def test_a_missing_library_is_an_error_where_needs_must_be_met(simkit: Call) -> None:
    write("a/one.scenario.yaml", NEEDY)
    write("a/two.scenario.yaml", SOUND + "---\nscenario: b\npipeline: desk\nturns: [{user: Hi.}]\n")

    done = simkit("explore", "a", "--needs-met", "--runs", "2")

    assert done.code == 2 == simkit("replay", "a", "--needs-met").code
    assert f"a/one.scenario.yaml:{NEEDY.count(chr(10)) - 1}:8: {LACKS}\n  at needs\n" in done.err
    # What can be explored is explored all the same.
    assert "a::desk:\n2 conversations" in done.out
    assert "nothing was explored" not in done.out


def test_a_claim_that_was_never_judged_fails_a_strict_exploration(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + UNJUDGED)

    lax = simkit("explore", "a.simulation.yaml", "--runs", "5")
    strict = simkit("explore", "a.simulation.yaml", "--runs", "5", "--strict")

    line = "always.state.refunds: no conversation judged it: what it speaks of never happened"
    assert (lax.code, strict.code) == (0, 1)
    assert line not in lax.out
    assert line in strict.out.splitlines()


APPS: Final = Path(__file__).resolve().parent.parent / "apps"
RUNS: Final = 30 if IS_NIGHTLY else 6
KNOWN: Final[dict[str, set[str]]] = {
    "agents_desk:ask": set(),
    # A filter drops calls and keeps their results, and the user's message behind a text.
    "agents_desk:two_filters": {"CTX-01", "HND-03"},
    "agents_team:translator": set(),
    "agents_team:searcher": set(),
    "agents_team:counted": {"MaxTurnsExceeded"},  # it permits two
    "agents_team:Desk": set(),
    "clinic:build": set(),
    "dated_desk:Desk": set(),
    "langgraph_house_hunt:app": {"HND-06"},  # langgraph-supervisor#230
    "langgraph_research:build": set(),
    # A tool that divides by its argument; langgraph-swarm#26.
    "langgraph_ships_crew:app": {"ZeroDivisionError", "CTX-02", "HND-06"},
    "pydantic_ai_desk:router": {"UnexpectedModelBehavior"},  # the outputs it refuses twice
}
"""Application to the lints and errors that exploring it may show."""


def prepared(name: str) -> Prepared:
    """Return the first scenario of an application."""
    library = Library()
    for file in sorted(APPS.glob(f"{name.partition(':')[0]}*.scenario.yaml")):
        for item in items_in(str(file), library.cache):
            ready = library.prepared(item)
            if str(ready.scenario.pipeline) == name:
                return ready
    raise AssertionError(f"no scenario of {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sample_by_day(KNOWN, 5))
def test_an_application_is_explored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_shrinking(monkeypatch)
    ready = prepared(name)
    if ready.unmet:
        pytest.skip(str(ready.refusal()))

    campaign = run_campaign(name, scenario_subject(ready), Bounds(runs=RUNS, turns=2))

    causes = {discovery.cause for discovery in campaign.discoveries}
    kinds = {cause.detail if cause.id == "claim" else cause.id for cause in causes}
    assert kinds <= KNOWN[name]
    assert campaign.model_calls or kinds

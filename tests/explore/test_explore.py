"""Exploration finds what breaks, in unscripted conversations, and writes it down."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from simkit.checks.findings import Finding
from simkit.explore import campaigns
from simkit.explore.causes import Cause, cause_of
from simkit.explore.choices import ChoiceLog, Plan, TurnPlan
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.drawing import _FAR
from simkit.explore.scenarios import headline, scenario_text
from simkit.explore.search import Campaign, Discovery
from simkit.explore.subjects import Subject, scenario_subject
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.cli.projects import Call, write
from tests.conftest import sample_by_day
from tests.explore.desks import BROKEN, SOUND, TWICE_BROKEN
from tests.explore.searching import search, search_all
from tests.test_docs import write_files

ROOT = Path(__file__).resolve().parent.parent.parent
KNOWN_BUGS = ROOT / "scenarios" / "known_bugs"
PAGE = ROOT / "docs" / "how-to" / "explore.md"
LIMITED = TWICE_BROKEN.replace("flow:", "limits: {handoffs_per_turn: 1}\nflow:")
SCENARIO = """
---
version: 1
scenario: where it starts
pipeline: desk
turns:
  - user: My order is A-1042.
"""


def started(folder: Path, pipeline: str) -> Subject:
    file = folder / "desk.scenario.yaml"
    file.write_text(pipeline + SCENARIO, encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    return scenario_subject(library.prepared(item))


def searched(subject: Subject, runs: int = 60, seed: int = 0) -> Campaign:
    return search(partial(converse, subject), runs=runs, turns_max=2, seed=seed)


@pytest.mark.slow
def test_a_sound_pipeline_shows_nothing(tmp_path: Path) -> None:
    campaign = searched(started(tmp_path, SOUND))

    assert campaign.discoveries == ()
    assert campaign.runs >= 60
    assert campaign.model_calls > campaign.turns > campaign.runs


def test_a_target_that_is_not_shown_the_request_is_found_in_one_turn(tmp_path: Path) -> None:
    campaign = searched(started(tmp_path, BROKEN))

    by_id = {discovery.cause.id: discovery for discovery in campaign.discoveries}
    assert "HND-03" in by_id
    (turn,) = by_id["HND-03"].record.turns
    assert list(turn["replies"]) == ["desk", "billing"]
    assert turn["replies"]["desk"]["handoff"]["to"] == "billing"


@pytest.mark.slow
def test_one_seed_is_one_campaign(tmp_path: Path) -> None:
    subject = started(tmp_path, BROKEN)

    assert searched(subject) == searched(subject)


def test_a_seed_draws_the_same_whatever_the_process_has_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis reads numbers in the source of imported modules, and likes to draw them."""

    def plans() -> list[Plan]:
        drawn: list[Plan] = []

        def run(plan: Plan | ChoiceLog) -> ExploredRun:
            assert isinstance(plan, Plan)
            drawn.append(plan)
            return ExploredRun(({},), {}, 1)

        search(run, runs=60, turns_max=2, seed=0, rare=2)
        return drawn

    first = plans()
    numbers = ", ".join(str(_FAR + number) for number in range(1_000, 9_000, 200))
    (tmp_path / "full_of_numbers.py").write_text(f"x = [{numbers}]\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("full_of_numbers")

    assert plans() == first
    assert max(plan.turns[0].user for plan in first) > 1_000_000


@pytest.mark.slow
def test_another_cause_is_found_after_the_first_one(tmp_path: Path) -> None:
    campaign = searched(started(tmp_path, LIMITED), runs=400)

    assert {discovery.cause.id for discovery in campaign.discoveries} == {"HND-03", "FLW-01"}
    assert len({discovery.cause for discovery in campaign.discoveries}) == len(campaign.discoveries)


@pytest.mark.parametrize("detail", ["always.state.refunds", "finally.reply", "never.0", "KeyError"])
def test_a_cause_that_comes_and_goes_is_reported_without_its_claim(
    detail: str, tmp_path: Path
) -> None:
    subject = started(tmp_path, SOUND)
    cause = Cause("claim", "", detail)
    finding = Finding("claim", "E", "it broke once", "", path=("turns", 9, "expect", "state"))
    first = iter([{cause: finding}])

    def run(choices: Plan | ChoiceLog) -> ExploredRun:
        return structs.replace(converse(subject, choices), causes=next(first, {}))

    (discovery,) = search(run, runs=5, turns_max=2, seed=0).discoveries

    assert not discovery.is_repeatable
    assert "it broke once" in headline(discovery) or "does not hold" in headline(discovery)
    text = scenario_text(discovery, subject, tmp_path, "simkit explore")
    assert "expect" not in text
    assert "turns:" in text


NOTHING = Cause("none", "", "")
NO_FINDING = Finding("none", "W", "nothing", "")
NUMBERS = st.integers(0, 2**32 - 1)
ANSWERS = st.lists(NUMBERS, max_size=5).map(tuple)
TURNS = st.builds(TurnPlan, user=NUMBERS, answers=ANSWERS, results=ANSWERS)
PLANS = st.builds(Plan, turns=st.lists(TURNS, min_size=1, max_size=3).map(tuple))


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [SOUND, BROKEN], ids=["sound", "broken"])
@given(plan=PLANS)
@settings(suppress_health_check=list(HealthCheck))
def test_what_is_written_is_what_was_run(
    pipeline: str, plan: Plan, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The scenario of any conversation fits the pipeline, and shows the same findings."""
    subject = started(tmp_path_factory.mktemp("desk"), pipeline)
    record = converse(subject, plan)
    cause = next(iter(record.causes), NOTHING)
    conversation = ExploredRun(
        record.turns, record.causes or {NOTHING: NO_FINDING}, record.model_calls
    )

    folder = tmp_path_factory.mktemp("found")
    file = folder / "a.scenario.yaml"
    text = scenario_text(Discovery(cause, conversation, 1, 1), subject, folder, "simkit explore")
    file.write_text(text, encoding="utf-8")

    library = Library()
    (item,) = items_in(str(file), library.cache)
    outcome = simulate(library.prepared(item))
    causes = {cause_of(finding) for finding in outcome.judgement.findings if not finding.follows}
    assert causes == {*record.causes}
    assert sum(len(turn.calls) for turn in outcome.view.turns) == record.model_calls


@pytest.mark.slow
def test_the_command_writes_a_scenario_that_fails_by_itself(simkit: Call) -> None:
    write("desk.pipeline.yaml", BROKEN)

    done = simkit("explore", "desk.pipeline.yaml", "--runs", "60")

    assert done.code == 1
    assert "  FOUND  HND-03: " in done.out
    assert "simkit replay found/HND-03-billing.scenario.yaml" in done.out
    replayed = simkit("replay", "found/HND-03-billing.scenario.yaml")
    assert replayed.code == 1
    assert "HND-03" in replayed.out


def test_nothing_found_is_said_and_writes_nothing(simkit: Call) -> None:
    write("desk.pipeline.yaml", SOUND)

    done = simkit("explore", "desk.pipeline.yaml", "--runs", "20")

    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("nothing was found: no error, no lint, no limit\n")
    assert not Path("found").exists()


@pytest.mark.slow
def test_the_time_ends_it_with_what_was_found(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("desk.pipeline.yaml", BROKEN)
    # Each look at the clock takes 10 ms, however busy the machine is.
    ticks = count(0, 0.01)
    monkeypatch.setattr(campaigns, "time", SimpleNamespace(monotonic=lambda: next(ticks)))

    done = simkit("explore", "desk.pipeline.yaml", "--runs", "1000000", "--time", "1.5")

    assert done.code == 1
    assert done.out.startswith("stopped: 149 conversations")
    assert "  FOUND  HND-03: " in done.out


@pytest.mark.slow
def test_hypothesis_writes_no_folder_of_its_own(
    process: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HYPOTHESIS_STORAGE_DIRECTORY", raising=False)
    write("folded.py", "NUMBER = 12345\n\n\ndef ask(text):\n    return text\n")

    assert process("explore", "folded:ask", "--runs", "60", "-j", "2").code == 0

    assert not Path(".hypothesis").exists()


@pytest.mark.slow
def test_no_source_of_an_application_is_read_for_numbers(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = "hypothesis.internal.conjecture.providers._get_local_constants"
    monkeypatch.setattr(reader, lambda: pytest.fail("the source is read"))
    write("desk.pipeline.yaml", BROKEN)

    done = simkit("explore", "desk.pipeline.yaml", "--runs", "60")

    assert "60 conversations" in done.out


def test_no_time_for_any_conversation_is_no_pass(simkit: Call) -> None:
    write("desk.pipeline.yaml", BROKEN)

    done = simkit("explore", "desk.pipeline.yaml", "--time", "0.000001")

    assert done.code == 2
    assert done.out.startswith("stopped: 0 conversations")
    assert done.out.endswith(
        "\nnothing was explored: no conversation came to its end in that time\n"
    )


def test_every_way_to_search_ends_when_it_is_late(tmp_path: Path) -> None:
    subject = started(tmp_path, SOUND)
    calls = iter([False, False, False])

    def is_late() -> bool:
        return next(calls, True)

    campaign = search(partial(converse, subject), runs=50, turns_max=1, seed=0, is_late=is_late)
    assert (campaign.runs, campaign.is_stopped) == (3, True)
    calls = iter([False, False])
    whole = search_all(partial(converse_by, subject), runs=50, turns_max=1, is_late=is_late)
    assert (whole.runs, whole.is_stopped, whole.is_complete) == (2, True, False)


@pytest.mark.slow
def test_a_file_that_is_there_is_kept(simkit: Call) -> None:
    write("desk.pipeline.yaml", BROKEN)
    write("found/HND-03-billing.scenario.yaml", "mine\n")

    simkit("explore", "desk.pipeline.yaml", "--runs", "60")

    assert Path("found/HND-03-billing.scenario.yaml").read_text() == "mine\n"
    assert Path("found/HND-03-billing-2.scenario.yaml").is_file()


@pytest.mark.slow
def test_a_scenario_that_another_command_found_is_written_once(simkit: Call) -> None:
    write("desk.pipeline.yaml", BROKEN)

    simkit("explore", "desk.pipeline.yaml", "--runs", "60")
    done = simkit("explore", "desk.pipeline.yaml", "--runs", "50")

    assert [path.name for path in Path("found").iterdir()] == ["HND-03-billing.scenario.yaml"]
    assert "simkit replay found/HND-03-billing.scenario.yaml\n" in done.out


@pytest.mark.slow
def test_the_page_shows_what_the_command_says_and_writes(simkit: Call) -> None:
    page = PAGE.read_text(encoding="utf-8")
    output, scenario = re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)
    write_files(PAGE, Path())

    done = simkit("explore", "desk.pipeline.yaml")

    # How many conversations it takes depends on Hypothesis.
    printed = output.removeprefix("$ simkit explore desk.pipeline.yaml\n")
    assert re.sub(r"\d+", "#", done.out) == re.sub(r"\d+", "#", printed)
    assert Path("found/HND-03-billing.scenario.yaml").read_text(encoding="utf-8") == scenario


NOISY: Final = """\
import logging
import sys

from openai import OpenAI


def run(text):
    print("printed")
    print("printed", file=sys.stderr)
    logging.getLogger("desk").error("printed")
    sent = [{"role": "system", "content": "You are the desk."}, {"role": "user", "content": text}]
    client = OpenAI(api_key="none")
    said = client.chat.completions.create(model="m", messages=sent).choices[0].message.content
    if said == "Done.":
        raise KeyError("order")
    return said
"""


@pytest.mark.slow
def test_code_in_the_folder_above_is_found_from_what_is_written(simkit: Call) -> None:
    Path("noisy_desk.py").write_text(NOISY)
    Path("written").mkdir()
    Path("written/desk.scenario.yaml").write_text(
        "scenario: a desk\npipeline: noisy_desk:run\n"
        "agents: {desk: {system: {$starts: You are}}}\n"
        "turns: [{user: hi, replies: {desk: hello}}]\n"
    )

    done = simkit("explore", "written/desk.scenario.yaml", "--runs", "5")

    assert "FOUND" in done.out
    assert "printed" not in done.out + done.err
    (file,) = Path("found").iterdir()
    assert "app:" not in file.read_text()
    assert simkit("replay", str(file)).code == 1


LATE = """
import socket, weakref
from simkit.capture.http.refusals import note_refusal

class Kept:
    pass

KEPT = Kept()

def dial():
    socket.gethostbyname("example.com")

def run(text):
    WAY
    return "done"
"""


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("note_refusal('after its run, a thread dialled', is_late=True)", "FOUND  RUN-02: after"),
        ("weakref.finalize(KEPT, dial)", "RUN-02: "),
    ],
    ids=["between the conversations", "at the end"],
)
def test_what_code_is_refused_after_its_run_is_found(way: str, words: str, simkit: Call) -> None:
    Path("late_desk.py").write_text(LATE.replace("WAY", way))
    Path("late.scenario.yaml").write_text(
        "scenario: late\npipeline: late_desk:run\nturns: [{user: hi}]\n"
    )

    done = simkit("explore", "late.scenario.yaml", "--runs", "2")

    assert (done.code, words in done.out) == (1, True), done.out + done.err


@pytest.mark.slow
def test_a_call_of_no_agent_is_told_with_the_rule_to_add(simkit: Call) -> None:
    Path("noisy_desk.py").write_text(NOISY)
    Path("desk.scenario.yaml").write_text(
        "scenario: a desk\npipeline: noisy_desk:run\n"
        "agents: {billing: {system: {$starts: You bill}}}\n"
        "turns: [{user: hi, replies: {billing: hello}}]\n"
    )

    done = simkit("explore", "desk.scenario.yaml", "--runs", "5")

    assert done.code == 2
    assert 'name: {system: {$eq: "You are the desk."}}' in done.err
    assert "simkit init" not in done.err


def test_mistakes_are_told(simkit: Call) -> None:
    missing = simkit("explore", "gone.pipeline.yaml")
    assert (missing.code, missing.out) == (2, "")
    assert "gone.pipeline.yaml: there is no such file" in missing.err
    unknown = simkit("explore", "nowhere:answer", "--runs", "3")
    assert unknown.code == 2
    assert unknown.err.startswith("function `nowhere:answer`: there is no module 'nowhere'.")
    assert "explored.scenario.yaml" not in unknown.err


def test_a_missing_hypothesis_is_named_with_what_to_install(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("desk.pipeline.yaml", SOUND)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    modules = (
        "simkit.explore.drawing",
        "simkit.explore.search",
        "simkit.explore.scenarios",
        "simkit.explore.campaigns",
        "simkit.cli.explore",
    )
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)

    done = simkit("explore", "desk.pipeline.yaml")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "simkit explore needs Hypothesis, which is not installed here: "
        "pip install 'hypothesis>=6.100'\n"
    )


BUGS = (
    ("swarm_26:app", "HND-06", 1, 3),
    ("supervisor_230:app", "HND-06", 1, 3),
    ("langgraph_7129:app", "CTX-01", 1, 2),
    ("langgraph_4007:app", "STA-09", 1, 0),
    ("openai_agents_2258:Desk", "CTX-17", 2, 3),
)


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "lint", "turns", "lines"), sample_by_day(BUGS, 3))
def test_bugs_of_frameworks_are_found_from_the_application_alone(
    bug: str, lint: str, turns: int, lines: int, simkit: Call
) -> None:
    module = bug.partition(":")[0]
    for package in ("langgraph_swarm", "langgraph_supervisor", "langchain", "agents"):
        pytest.importorskip(package)
    shutil.copy(KNOWN_BUGS / f"{module}.py", f"{module}.py")

    done = simkit("explore", bug, "--runs", "20", "--turns", str(turns))

    assert done.code == 1
    assert f"  FOUND  {lint}: " in done.out
    part = done.out.partition(f"  FOUND  {lint}: ")[2]
    smallest = re.search(r"smallest: (\d+) turns?, (\d+) reply lines?", part)
    assert smallest is not None
    assert int(smallest[1]) <= turns
    assert int(smallest[2]) <= lines
    assert "simkit replay found/" in part


def test_a_misspelt_agent_of_code_is_never_reached(simkit: Call) -> None:
    write(
        "desk.py",
        "from openai import OpenAI\n\nclient = OpenAI(api_key='sk-test')\n\n\ndef answer(text):\n"
        "    messages = [{'role': 'system', 'content': 'You are the desk.'}]\n"
        "    reply = client.chat.completions.create(model='gpt-5-mini', messages=messages)\n"
        "    return reply.choices[0].message.content\n",
    )
    write(
        "desk.simulation.yaml",
        "simulation: a desk\npipeline: desk:answer\napp: {path: [.]}\n"
        "agents: {desk: {system: You are the desk.}}\nmodels: {dsk: Hello.}\n",
    )

    done = simkit("explore", "desk.simulation.yaml", "--runs", "5")

    assert (
        "reached 1 of 2 agents\nnever reached: agent dsk: nothing passed control to it\n"
        in done.out
    )

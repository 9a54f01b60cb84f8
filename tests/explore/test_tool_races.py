"""Tools that a framework calls begin in an order that the schedule chooses, and end turns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.checks.judge import Outcome
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.scenarios import scenario_text
from simkit.explore.search import Discovery
from simkit.explore.subjects import Subject, with_profile
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.events import ToolCalled, ToolReturned
from tests.adapters.running import APPS, run_app
from tests.explore.searching import search, search_all
from tests.explore.test_simulations import labels, subject_of
from tests.session.execution.test_cut_turns import describe_findings, ends, faults

ROOT: Final = Path(__file__).resolve().parents[2]
FRAMEWORKS: Final = {
    "langgraph": "langchain",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "google_adk": "google.adk.agents",
}
SIMULATION: Final = """
version: 1
simulation: who chose a seat is charged for it
pipeline: <PIPELINE>
app: {path: ["<APPS>"]}
agents: {desk: {system: {$contains: You are the desk.}}}
users: {u: {says: Book.}}
turns: 1
models:
  desk:
    - {calls: <CALLS>, when: {messages: {$len: {$lte: 2}}}}
    - {text: Done., when: {messages: {$len: {$gt: 2}}}}
always: {reply: <REPLY>}
"""
SEAT: Final = "[choose_seat: {seat: 12A}, charge: {card: visa}]"


def cases() -> Iterator[Any]:
    """Each framework with its tools in threads and in tasks."""
    for framework in FRAMEWORKS:
        for way in ("threads", "tasks", "threads_of_tasks"):
            if (framework, way) != ("google_adk", "threads"):
                yield pytest.param(framework, way, id=f"{framework}-{way}")


def races_of(
    folder: Path, framework: str, way: str, calls: str = SEAT, reply: str = "12A 0"
) -> Subject:
    pytest.importorskip(FRAMEWORKS[framework])
    words = {
        "<PIPELINE>": f"booking_{framework}:{way}",
        "<APPS>": APPS.as_posix(),
        "<CALLS>": calls,
        "<REPLY>": reply,
    }
    text = SIMULATION
    for mark, word in words.items():
        text = text.replace(mark, word)
    return subject_of(folder, text, pipeline="")


def written_file(discovery: Discovery, subject: Subject, folder: Path) -> tuple[Path, Outcome]:
    """The file that is written of a discovery, and what comes of it here."""
    file = folder / "kept.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, folder, "simkit"), encoding="utf-8")
    return file, outcome_of(file)


def outcome_of(file: Path) -> Outcome:
    library = Library()
    (item,) = items_in(str(file), library.cache)
    return simulate(library.prepared(item))


def digest_in_new_process(file: Path, hash_seed: str) -> str:
    """The digest of a file's run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "simkit", "replay", "--format", "json", str(file)],
        capture_output=True, text=True, check=False, timeout=300, encoding="utf-8", cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    digest = re.search(r'"digest": "(\w+)"', done.stdout)
    assert digest is not None, done.stdout + done.stderr
    return digest[1]


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "way"), [*cases()])
def test_the_races_profile_finds_tools_that_need_an_order(
    framework: str, way: str, tmp_path: Path
) -> None:
    subject = with_profile(races_of(tmp_path, framework, way), "races")

    campaign = search(partial(converse, subject), runs=20, turns_max=1, seed=0)

    (discovery,) = labels(campaign).values()
    schedule = discovery.record.turns[0]["schedule"]
    assert schedule == ["desk", "charge()", "choose_seat()"]
    file, outcome = written_file(discovery, subject, tmp_path)
    assert outcome.view.turns[0].reply == "nothing 0"
    assert outcome.trace.digest() == digest_in_new_process(file, hash_seed="7")


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "way"), [*cases()])
def test_a_tool_may_wait_for_another_one_of_its_message(
    framework: str, way: str, tmp_path: Path
) -> None:
    """Whichever begins first: what waits is at rest, so that the other one is let go."""
    if (framework, way) == ("google_adk", "threads_of_tasks"):
        pytest.skip("a plain function that blocks the ADK's loop would wait for ever anywhere")
    subject = races_of(tmp_path, framework, way, "[wait: {}, signal: {}]", '"0"')
    orders = set()

    def run(source: Any) -> ExploredRun:
        record = converse_by(subject, source)
        orders.add(" ".join(record.turns[0].get("schedule", ())))
        return record

    campaign = search_all(run, runs=20, turns_max=1)

    assert campaign.is_complete
    assert campaign.discoveries == ()
    assert {"desk wait() signal()", "desk signal() wait()"} <= orders


@pytest.mark.slow
@pytest.mark.parametrize("framework", [*FRAMEWORKS])
def test_an_update_that_is_lost_inside_tools_is_found(framework: str, tmp_path: Path) -> None:
    """Now and then tools begin together, so that they meet in the middle of their work."""
    looks = "[look: {place: Bern}, look: {place: Rome}]"
    subject = races_of(tmp_path, framework, "tasks", looks, '"2"')

    campaign = search_all(partial(converse_by, subject), runs=20, turns_max=1)

    (discovery,) = labels(campaign).values()
    # Models alone are listed: tools do not wait.
    assert discovery.record.turns[0]["schedule"] == ["desk", "desk"]
    _, outcome = written_file(discovery, subject, tmp_path)
    assert outcome.view.turns[0].reply == "1"


@pytest.mark.slow
@pytest.mark.parametrize("framework", [*FRAMEWORKS])
def test_results_of_the_scenario_come_in_the_order_that_a_turn_lists(
    framework: str, tmp_path: Path
) -> None:
    pytest.importorskip(FRAMEWORKS[framework])
    text = f"""
version: 1
scenario: s
pipeline: booking_{framework}:tasks
app: {{path: ["{APPS.as_posix()}"]}}
agents: {{desk: {{system: {{$contains: You are the desk.}}}}}}
turns:
  - user: Hi
    replies: {{desk: [{{calls: [choose_seat: {{seat: 1A}}, look: {{place: Bern}}]}}, Done.]}}
    tool_results: {{choose_seat: one, look: two}}
    schedule: [desk, look(), choose_seat()]
    expect:
      events:
        $in_order:
          - {{kind: ToolReturned, tool: look, result: two}}
          - {{kind: ToolReturned, tool: choose_seat, result: one}}
"""
    file = tmp_path / "t.scenario.yaml"
    file.write_text(text, encoding="utf-8")

    assert [str(finding) for finding in outcome_of(file).judgement.findings] == []


@pytest.mark.slow
@pytest.mark.parametrize("framework", [*FRAMEWORKS])
@pytest.mark.parametrize("way", ["tasks", "threads_of_tasks"])
@pytest.mark.parametrize("key", ["cancel", "crash"])
@pytest.mark.parametrize("at", ["start", "end"])
def test_a_tool_that_a_framework_calls_is_where_a_turn_ends(
    framework: str, way: str, key: str, at: str, tmp_path: Path
) -> None:
    pytest.importorskip(FRAMEWORKS[framework])
    ran = run_app(
        f"booking_{framework}:{way}",
        f"""
        app: {{path: ["{APPS.as_posix()}"]}}
        agents: {{desk: {{system: {{$contains: You are the desk.}}}}}}
        turns:
          - user: Book.
            replies: {{desk: {{calls: [choose_seat: {{seat: 12A}}]}}}}
            {key}: {{tool: choose_seat, at: {at}}}
        """,
        tmp_path,
    )

    assert describe_findings(ran) == []
    assert ends(ran) == ["ProcessCrashed" if key == "crash" else "TurnCancelled"]
    start = "the end of " if at == "end" else ""
    assert faults(ran) == [f"{key} at {start}call 1 of choose_seat()"]
    goes_on = key == "cancel" and (framework, way) == ("langgraph", "threads_of_tasks")
    called = ["ToolCalled choose_seat"] if at == "end" or goes_on else []
    tool_events = [
        f"{type(event).__name__} {event.tool}"
        for event in ran.trace.events
        if isinstance(event, (ToolCalled, ToolReturned))
    ]
    assert tool_events == [*called, *(["ToolReturned choose_seat"] if goes_on else [])]

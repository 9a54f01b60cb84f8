"""One recorded desk, asked from every door: pytest items, features, Python, the command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from simkit.capture.cassettes import Interaction, load
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record
from tests.processes import run_python
from tests.recording import Provider, prepared
from tests.recording import server as server
from tests.scripted_providers import DESK, SCENARIO, Desk, point_clients, write_desk

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]

FEATURE = """\
Feature: the desk
  Scenario: a broken order is refunded
    Given the pipeline "desk"
    And the cassette "desk"
    When the user says "My order A-1 came broken"
    And find_order returns id "A-1" and state "delivered"
    Then the reply is "You get a refund."
"""
TESTS = """\
from pytest_bdd import scenarios

from simkit.bdd import *

scenarios("desk.feature")


def test_the_desk_from_python(sim):
    desk = sim("desk.pipeline.yaml", cassette="desk")

    found = {"id": "A-1", "state": "delivered"}
    done = desk.say("My order A-1 came broken", tool_results={"find_order": found})

    assert done.reply == "You get a refund."


def test_another_message_is_a_miss(sim):
    desk = sim("desk.pipeline.yaml", cassette="desk", lints={"RUN-04": "nothing is asked"})

    assert desk.say("Hello").error.type == "CassetteMissed"
"""


@pytest.fixture
def folder(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    point_clients(server, monkeypatch)
    server.answer = Desk(DESK)
    done = record(prepared(write_desk(cwd)), Recording("all", "2026-01-05T09:00:00Z"))
    assert done.outcome.passed
    for name in [*os.environ]:
        if name.endswith(("_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    return cwd


def ran(*words: str, code: int = 0) -> str:
    """Runs a command in a process of its own; returns what it prints."""
    done = run_python("-m", *words, PYTHONPATH=os.pathsep.join(("", str(ROOT))))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_scenario_files_features_and_python_replay_one_cassette(folder: Path) -> None:
    (folder / "desk.feature").write_text(FEATURE, encoding="utf-8")
    (folder / "test_desk.py").write_text(TESTS, encoding="utf-8")

    text = ran("pytest", "-q", "-p", "no:cacheprovider", ".")

    assert "4 passed" in text


def test_the_command_expects_verifies_and_lists_it(folder: Path) -> None:
    bare = SCENARIO[: SCENARIO.index("    expect:")]
    write_desk(folder, scenario=bare)

    ran("simkit", "expect", "desk.scenario.yaml", "--yes")

    text = Path("desk.scenario.yaml").read_text(encoding="utf-8")
    assert "reply: You get a refund." in text
    assert "1 of 1 digest is equal" in ran("simkit", "replay", ".", "--verify")
    listed = json.loads(ran("simkit", "cassettes", "--format", "json"))["cassettes"]
    assert [(item["file"], item["interactions"], item["is_orphan"]) for item in listed] == [
        ("cassettes/desk.yaml", 3, False)
    ]
    assert ran("simkit", "validate", "--strict", ".").startswith("2 files, 1 scenario: fine")


def test_what_is_shipped_is_what_its_stand_in_answers(cwd: Path) -> None:
    shipped = "scenarios/recorded_desk"
    for name in ("desk.pipeline.yaml", "desk.scenario.yaml", "provider.scenario.yaml"):
        file = cwd / shipped / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((ROOT / shipped / name).read_bytes())
    (cwd / "cassettes").mkdir()
    again = f"{sys.executable} -m simkit record {shipped}/desk.scenario.yaml --mode all --force"

    ran("simkit", "serve", f"{shipped}/provider.scenario.yaml", "--then", again)

    new, old = (load(at / "cassettes/recorded_desk.yaml") for at in (cwd, ROOT))
    assert list(map(timeless, new.interactions)) == list(map(timeless, old.interactions))


def timeless(interaction: Interaction) -> object:
    """Returns an interaction without when, where and by which version of a client it was."""
    path = interaction.request.url.partition("//")[2].partition("/")[2]
    body, data = json.loads(interaction.request.body), json.loads(interaction.response.body)
    request = msgspec.structs.replace(interaction.request, url=path, headers=(), body=b"")
    response = msgspec.structs.replace(interaction.response, headers=(), chunks=())
    return msgspec.structs.replace(
        interaction, request=request, response=response, recorded_at=""
    ), body, data  # fmt: skip

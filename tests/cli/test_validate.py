from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.projects import ECHO, GOOD, Call, write

ROOT = Path(__file__).resolve().parents[2]


ODD = GOOD.replace("it holds", "it is odd").replace("reply: hello", "reply: {$schema: {}}")


def test_programs_get_one_object(simkit: Call) -> None:
    write("scenarios/odd.scenario.yaml", ECHO + ODD)

    done = simkit("validate", "--strict", "--format", "json")

    data = json.loads(done.out)
    assert (done.code, done.err) == (1, "")
    assert [problem["code"] for problem in data["problems"]] == ["VAL-24"]
    assert data["summary"] == {
        "files": 2, "scenarios": 4, "errors": 0, "warnings": 1, "turned_off": 0, "exit_code": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_the_projects_own_scenarios_are_without_a_warning(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    done = simkit("validate", "--strict", "scenarios")

    assert (done.code, done.err) == (0, "")

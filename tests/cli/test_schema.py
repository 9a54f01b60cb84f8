from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from simkit.spec import json_schemas
from tests.cli.projects import Call, Done

SCENARIO = {
    "version": 1, "scenario": "x", "pipeline": "p",
    "turns": [{"user": "hi", "expect": {"reply": 1}}],
}  # fmt: skip
PIPELINE = {
    "version": 1, "pipeline": "p", "agents": {"a": {}}, "flow": {"handoffs": {"start": "a"}},
}  # fmt: skip


@pytest.mark.parametrize("kind", ["scenario", "pipeline"])
def test_the_schema_of_one_kind_is_printed(simkit: Call, kind: str) -> None:
    done = simkit("schema", kind)

    assert done.code == 0
    assert json.loads(done.out) == json_schemas.schemas()[kind]


def test_without_a_kind_either_document_is_accepted_and_nothing_else(simkit: Call) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(simkit("schema").out))

    assert validator.is_valid(SCENARIO)
    assert validator.is_valid(PIPELINE)
    assert not validator.is_valid({**SCENARIO, "turnz": []})
    assert not validator.is_valid({**PIPELINE, "turns": []})


def test_the_schema_can_be_written_to_a_file(simkit: Call) -> None:
    printed = simkit("schema", "scenario").out

    assert simkit("schema", "scenario", "-o", "schema.json") == Done(0, "", "")
    assert Path("schema.json").read_text(encoding="utf-8") == printed


def test_a_file_that_cannot_be_written_is_named(simkit: Call) -> None:
    assert simkit("schema", "-o", "nowhere/schema.json") == Done(
        2, "", "-o: there is no folder nowhere\n"
    )

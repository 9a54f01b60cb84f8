"""Implementation of ``simkit schema``: one schema, or the one for either kind of document."""

from __future__ import annotations

import json
from typing import Any

from simkit.spec.json_schemas import json_schema_of
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import CodePipeline, ProgramPipeline
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.simulations import Simulation


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas (draft 2020-12) of documents: scenarios, simulations, and three of
    pipelines.

    They check the shape as the loader does; only the loader checks names, references and regular
    expressions.
    """
    return {
        "scenario": json_schema_of(Scenario, "simkit scenario"),
        "simulation": json_schema_of(Simulation, "simkit simulation"),
        "pipeline": json_schema_of(Pipeline, "simkit pipeline"),
        "code": json_schema_of(CodePipeline, "simkit pipeline that is code"),
        "program": json_schema_of(ProgramPipeline, "simkit pipeline that is a program"),
    }


def schema_text(kind: str | None) -> str:
    """Return the JSON Schema of a kind of document, or of both, indented."""
    schemas_ = schemas()
    schema = schemas_[kind] if kind else either(schemas_)
    return json.dumps(schema, indent=2, ensure_ascii=False)


def either(known_definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema that accepts a document of any of the kinds.

    The definitions of the schemas are joined, because references start at the top of the whole.
    """
    definitions: dict[str, Any] = {}
    for schema in known_definitions.values():
        for name, definition in schema["$defs"].items():
            assert definitions.setdefault(name, definition) == definition, name
    own = ("$schema", "$defs")
    return {
        "$schema": next(iter(known_definitions.values()))["$schema"],
        "title": "simkit",
        "description": "A scenario, a simulation or a pipeline of simkit.",
        "anyOf": [
            {key: value for key, value in schema.items() if key not in own}
            for schema in known_definitions.values()
        ],
        "$defs": definitions,
    }

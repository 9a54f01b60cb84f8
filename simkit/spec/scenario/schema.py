"""The JSON Schemas of the two kinds of document, for editors and for who writes tools."""

from __future__ import annotations

from typing import Any

from simkit.spec.fields import json_schema_of
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import CodePipeline, ProgramPipeline
from simkit.spec.scenario.model import Scenario


def schemas() -> dict[str, dict[str, Any]]:
    """Returns the JSON Schemas (draft 2020-12) of documents: scenarios, and three of pipelines.

    They hold the shape that the loader holds; names, references and regular expressions are the
    loader's alone.
    """
    return {
        "scenario": json_schema_of(Scenario, "simkit scenario"),
        "pipeline": json_schema_of(Pipeline, "simkit pipeline"),
        "code": json_schema_of(CodePipeline, "simkit pipeline that is code"),
        "program": json_schema_of(ProgramPipeline, "simkit pipeline that is a program"),
    }

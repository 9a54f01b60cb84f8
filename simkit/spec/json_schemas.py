"""The JSON Schemas of files, for editors: one for each kind, and one for all."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from functools import cache
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from simkit.core import answers
from simkit.language.matching import matcher_json_schema
from simkit.spec.fields import MATCHER_SCHEMA, Later, YamlModel
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import CodePipeline, ProgramPipeline
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.simulations import Simulation


class _Generator(GenerateJsonSchema):
    """A generator that follows models that are built later, and adds what pydantic cannot know."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open: list[type[BaseModel]] = []

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        if _is_later(schema):
            # pydantic would put what a model's own function returns in place of a reference to it.
            metadata = {**schema.get("metadata", {})}
            metadata.pop("pydantic_js_functions", None)
            schema = {**schema, "metadata": metadata}
        return super().generate_inner(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        # A model has a title of its own.
        return not _is_later(schema) and super().field_title_should_be_set(schema)

    def function_plain_schema(
        self, schema: core_schema.PlainValidatorFunctionSchema
    ) -> dict[str, Any]:
        if not _is_later(schema):
            return super().function_plain_schema(schema)
        model: type[BaseModel] = cast(Any, schema["function"]["function"]).model
        model.model_rebuild()
        inner = cast(Any, model.__pydantic_core_schema__)
        if model in self._open:
            return self.definition_ref_schema(core_schema.definition_reference_schema(inner["ref"]))
        return self.generate_inner(inner)

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        model = schema["cls"]
        self._open.append(model)
        described = super().model_schema(schema)
        self._open.pop()
        if issubclass(model, YamlModel):
            described.setdefault("patternProperties", {})["^x-"] = {
                "description": "The author's own; not looked at."
            }
            texts = _descriptions(model)
            for key, value in described.get("properties", {}).items():
                if key in texts:
                    value.setdefault("description", texts[key])
            model.describe(described)
        return described


def _is_later(schema: Any) -> bool:
    """Return whether a schema stands for a model that is built later."""
    return schema.get("type") == "function-plain" and isinstance(
        schema["function"]["function"], Later
    )


def _descriptions(model: type[YamlModel]) -> dict[str, str]:
    """Return the text under each field, by the field's key.

    pydantic's ``use_attribute_docstrings`` reads the source of every model when it is imported,
    which is a sixth of what `simkit replay` costs; only the JSON Schema needs these texts.
    """
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not (issubclass(base, YamlModel) and base.model_fields):
            continue
        definition = _classes_of(base.__module__)[base.__name__]
        for field, below in pairwise(definition.body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            known = model.model_fields.get(field.target.id)
            if known and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                texts[known.alias or field.target.id] = inspect.cleandoc(str(below.value.value))
    return texts


@cache
def _classes_of(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def json_schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """Return the model's JSON Schema (draft 2020-12), with matchers."""
    schema: dict[str, Any] = _finished(
        model.model_json_schema(by_alias=True, schema_generator=_Generator)
    )
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    schema.setdefault("$defs", {}).update(matcher_json_schema())
    return schema


def _finished(schema: Any) -> Any:
    """Return pydantic's schema with matchers put in, and without defaults that nobody writes."""
    if isinstance(schema, list):
        return [_finished(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    is_whole = "$ref" in schema
    finished = {
        key: _finished(inner)
        for key, inner in schema.items()
        if key not in MATCHER_SCHEMA and not (key == "default" and (inner is None or is_whole))
    }
    if any(key in schema for key in MATCHER_SCHEMA):
        finished["$ref"] = "#/$defs/matcher"
    return finished


# One schema, or the one for either kind of document


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
    """Return the JSON Schema of a kind of document, or of both, indented; also of `answers`."""
    if kind == "answers":
        return answers.SCHEMA.read_text(encoding="utf-8").rstrip()
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

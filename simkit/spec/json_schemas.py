"""The JSON Schemas of file models, for editors."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from simkit.language.matching import matcher_json_schema
from simkit.spec.fields import MATCHER_SCHEMA, Later, YamlModel


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
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in pairwise(definition.body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            known = model.model_fields.get(field.target.id)
            if known and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                texts[known.alias or field.target.id] = inspect.cleandoc(str(below.value.value))
    return texts


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

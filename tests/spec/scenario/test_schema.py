"""The JSON Schemas hold the shape that the loader holds, and describe every field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from simkit.language.yaml import Document, load_text
from simkit.spec.json_schemas import schemas
from tests.building import load
from tests.refusals import Case, parametrized, table

SCENARIOS: Final = Path(__file__).resolve().parents[3] / "scenarios"
BROKEN: Final = [case for case in table("bad_input.yaml")[1] if case.shape]
BASES: Final = ["bad_input.yaml", "spec/pipeline/names.yaml", "spec/scenario/names.yaml"]
SCHEMAS: Final = schemas()
VALIDATORS: Final = {kind: Draft202012Validator(schema) for kind, schema in SCHEMAS.items()}


def kind_of(document: Document) -> str:
    """The kind of document that a document is."""
    if "turns" in document.data:
        return "scenario"
    return next((kind for kind in ("code", "program") if kind in document.data), "pipeline")


def errors_in(documents: list[Document]) -> list[str]:
    """What the schemas refuse."""
    return [
        f"{document.position(tuple(error.absolute_path))}: {error.message}"
        for document in documents
        for error in VALIDATORS[kind_of(document)].iter_errors(document.data)
    ]


@pytest.mark.parametrize("kind", ["scenario", "pipeline"])
def test_schema_is_one(kind: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind])

    assert SCHEMAS[kind]["title"] == f"simkit {kind}"
    assert SCHEMAS[kind]["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "file",
    sorted([*SCENARIOS.rglob("*.scenario.yaml"), *SCENARIOS.rglob("*.pipeline.yaml")]),
    ids=lambda file: str(file.relative_to(SCENARIOS)),
)
def test_documents_of_the_project_are_valid(file: Path) -> None:
    assert errors_in(load(file)) == []


@pytest.mark.parametrize("file", BASES)
def test_bases_of_the_tables_are_valid(file: str) -> None:
    base, _, accepted = table(file)

    documents = [d for text in (base, *(c.text for c in accepted)) for d in load_text(text, file)]

    assert errors_in(documents) == []


@parametrized(BROKEN)
def test_broken_shape_that_the_loader_refuses_is_refused_here_too(case: Case) -> None:
    documents = {kind_of(document): document for document in load_text(case.text, "t.yaml")}

    refused = {kind for kind in documents if errors_in([documents[kind]])}

    assert refused == {case.shape}


@pytest.mark.parametrize(
    ("part", "is_valid"),
    [
        ({"user": "Hello", "replies": {"a": "Hi"}}, True),
        ({"user": 7, "replies": {"a": [1.5, {"json": None}]}}, True),
        ({"user": {"json": {}}, "replies": {"a": {"text": "x", "calls": [{"t": {}}]}}}, True),
        ({"user": {"text": "a", "json": 1}}, False),
        ({"user": ["a"]}, False),
        ({"user": "a", "replies": {"a": []}}, False),
        ({"user": "a", "replies": {"a": {"text": "x", "json": 1}}}, False),
        ({"user": "a", "replies": {"a": {"error": "timeout"}}}, True),
        ({"user": "a", "replies": {"a": {"error": "timed_out"}}}, False),
        ({"user": "a", "expect": {"reply": {"$contains": "a", "$len": {"$gt": 1}}}}, True),
        ({"user": "a", "expect": {"reply": {"$contians": "a"}}}, False),
        ({"user": "a", "expect": {"findings": ["CTX-07", {"id": "CTX-07"}]}}, True),
        ({"user": "a", "expect": {"findings": [{"agent": "a"}]}}, False),
        ({"user": "a", "expect": {"context": {"a": {"history": [], "notes": ["x"]}}}}, True),
        ({"user": "a", "expect": {"context": {"a": {"history": {}}}}}, False),
        ({"user": "a", "x-mine": {"anything": []}}, True),
    ],
)
def test_turn_is_valid_exactly_when_the_loader_takes_it(part: Any, is_valid: bool) -> None:
    document = {"version": 1, "scenario": "s", "pipeline": "p", "turns": [part]}

    assert VALIDATORS["scenario"].is_valid(document) is is_valid


def fields_in(schema: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every property that a schema names, with its own schema."""
    if isinstance(schema, list):
        for inner in schema:
            yield from fields_in(inner, at)
    elif isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            yield f"{at}.{name}", inner
        for key, inner in schema.items():
            yield from fields_in(inner, f"{at}.{key}")


@pytest.mark.parametrize("kind", ["scenario", "pipeline"])
def test_every_field_has_a_description(kind: str) -> None:
    # `$approx` says in its own description what its options are.
    fields = [(at, field) for at, field in fields_in(SCHEMAS[kind]) if "$approx." not in at]

    assert len(fields) > 50
    assert [at for at, field in fields if not field.get("description")] == []

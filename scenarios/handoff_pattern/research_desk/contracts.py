"""The registered handoffs: what each one passes, and what is wrong with one that is asked for."""

from __future__ import annotations

from typing import Any, Literal

from jsonschema import Draft202012Validator
from pydantic import BaseModel

QUERY_CHARACTERS_MAX = 500

DOCUMENT: dict[str, Any] = {
    "type": "object",
    "required": ["content", "type", "filename", "has_content"],
    "anyOf": [
        {"properties": {"content": {"const": ""}, "has_content": {"const": False}}},
        {"properties": {"content": {"minLength": 1}, "has_content": {"const": True}}},
    ],
}
RESEARCH_DELEGATION: dict[str, Any] = {
    "type": "object",
    "required": [
        "source_agent", "handoff_type", "reference_document", "referenced_files",
        "analysis_context",
    ],
    "properties": {
        "source_agent": {"const": "reference_agent"},
        "handoff_type": {"const": "research_delegation"},
        "reference_document": DOCUMENT,
        "referenced_files": {"type": "object"},
        "analysis_context": {
            "type": "object",
            "required": ["needs_calculations", "calculation_results", "complexity"],
        },
        "context_data": {"type": "object"},
        "handoff_reason": {"type": "string"},
        "expected_output": {"type": "string"},
    },
    "additionalProperties": False,
}  # fmt: skip
DELEGATION_ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "required": ["type", "query", "payload"],
    "properties": {
        "type": {"const": "research_delegation"},
        "query": {"type": "string"},
        "payload": RESEARCH_DELEGATION,
    },
    "additionalProperties": False,
}


class LookupContext(BaseModel):
    """What a quick lookup passes."""

    conversation_context: str


class QuickLookup(BaseModel):
    """chat_agent -> research_agent: a question that research answers in chat's place."""

    type: Literal["quick_lookup"]
    query: str
    payload: LookupContext


def objections(request: dict[str, Any]) -> str:
    """Says what is wrong with a delegation that a model asks for; empty if nothing is."""
    found = []
    for error in Draft202012Validator(RESEARCH_DELEGATION).iter_errors(request["payload"]):
        place = "".join(f".{step}" for step in error.absolute_path)
        found.append(f"payload{place}: {error.message}")
    size = len(request["query"])
    if size > QUERY_CHARACTERS_MAX:
        found.append(f"query has {size} characters, at most {QUERY_CHARACTERS_MAX} are allowed")
    return "; ".join(found)

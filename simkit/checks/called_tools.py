"""Names of arguments in claims on code: those of the schemas that its requests offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from simkit.core.messages import JsonValue
from simkit.language.paths import is_array
from simkit.language.yaml import Document, SourcePath
from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.known import KnownNames, ValueSchemas, values_in
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.views import View


def schemas_of_calls(view: View) -> ValueSchemas:
    """Return the schemas of the tools that code was offered and called, and of their arguments.

    A function may receive more than the model asks for, so of a tool that was never called no names
    of arguments are known.
    """
    offers: dict[str, dict[bytes, Any]] = {}
    if view.pipeline.is_code and view.definitions:
        for tool in view.definitions.values():
            _add(offers, str(tool), tool.parameters)
        calls = [event for event in view.events if type(event) is e.ToolCalled]
        for call in calls:
            if call.tool in offers:
                for args in (call.args, view.requests.get(call.call_id)):
                    _add(offers, call.tool, _schema_of(args))
        offers = {call.tool: offers[call.tool] for call in calls if call.tool in offers}
    args = {tool: {"anyOf": [*schemas.values()]} for tool, schemas in offers.items()}
    return ValueSchemas(args, is_every_tool=False)


def _add(offers: dict[str, dict[bytes, Any]], tool: str, schema: JsonValue) -> None:
    offers.setdefault(tool, {})[msgspec.json.encode(schema)] = schema


def _schema_of(value: JsonValue) -> JsonValue:
    """Return a schema with the names in a value."""
    if isinstance(value, Mapping):
        properties = {key: _schema_of(part) for key, part in value.items()}
        return {"type": "object", "properties": properties}
    if is_array(value):
        return {"type": "array", "items": {"anyOf": [_schema_of(part) for part in value]}}
    return {"type": "string"}


def check_called(
    scenario: Scenario,
    document: Document,
    claims: Iterable[tuple[SourcePath, Expect]],
    view: View,
) -> None:
    """Raise SourceError for the first argument in a claim that no call of its tool can have."""
    schemas = schemas_of_calls(view)
    if schemas.args:
        names = ClaimNames(document, KnownNames(values=schemas), {}, partial(values_in, scenario))
        for path, expect in claims:
            names.check(expect, path)

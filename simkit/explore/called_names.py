"""Names of arguments in the claims on code: its requests show the schemas of its tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.known import known_in
from simkit.spec.scenario.value_names import ValueSchemas, values_in
from simkit.trace.events import Event, ToolCalled


def check_called(prepared: Prepared, schemas: Mapping[str, Any], events: Iterable[Event]) -> None:
    """Raise SourceError for the first argument in a claim that no call of its tool can have.

    ``schemas`` are those of the tools that models were offered. A function may receive more than
    the model asks for, so only tools that were called are checked.
    """
    calls: dict[str, list[Any]] = {}
    for event in events:
        if type(event) is ToolCalled and event.tool in schemas:
            calls.setdefault(event.tool, []).append(event.args)
    if not calls:
        return
    scenario = prepared.scenario
    values = values_in(scenario)
    args = {tool: [*values.args.get(tool, ()), *given] for tool, given in calls.items()}
    own = ValueSchemas({tool: schemas[tool] for tool in calls}, is_every_tool=False)
    known = msgspec.structs.replace(known_in(prepared.pipeline), values=own)
    replaced = partial(msgspec.structs.replace, values, args=args)
    names = ClaimNames(prepared.document, known, {}, replaced)
    (turn,) = scenario.turns
    names.check(turn.expect, ("turns", 0, "expect"))
    names.check(scenario.expect, ("expect",))

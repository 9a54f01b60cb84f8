"""Approvals: the user's decisions on calls and handoffs that wait for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.core.errors import ScriptMisfit
from simkit.core.messages import Handoff, ToolCall
from simkit.core.text import short
from simkit.language.json_schema import place_text, schema_errors
from simkit.language.paths import as_text
from simkit.runtime.turn import Turn

_ADVICE = (
    "Decide with `true`, `false`, `{message: why not}` or `{override_args: {…}}`; on several calls "
    "with a mapping, tool to decision, or a list in the order of the question."
)


class Decision(msgspec.Struct, frozen=True):
    """The user's decision on one call."""

    is_approved: bool
    args: Any = None
    """The arguments that the user has put in place of the model's; None for the model's own."""
    reason: str = "the user does not approve it"


def decisions_in(answer: Any, calls: Sequence[ToolCall], turn: Turn) -> list[Decision]:
    """Return the decisions on calls, in their order; raise ScriptMisfit if an answer is none."""
    if isinstance(answer, list) and len(answer) == len(calls):
        values = answer
    elif isinstance(answer, Mapping) and not answer.keys() & {"message", "override_args"}:
        unknown = [name for name in answer if all(each.name != name for each in calls)]
        if unknown:
            raise _misfit(turn, f"decides on `{unknown[0]}`, but no call of it waits")
        values = [answer.get(each.name) for each in calls]
    else:
        values = [answer] * len(calls)
    return [_decision(value, call, turn) for value, call in zip(values, calls, strict=True)]


def _decision(value: Any, call: ToolCall, turn: Turn) -> Decision:
    if isinstance(value, bool):
        return Decision(value)
    match value:
        case {"message": str(reason)} if len(value) == 1:
            return Decision(False, reason=reason)
        case {"override_args": dict(args)} if len(value) == 1:
            schema = turn.compiled.tool_args.get(call.name)
            schema = True if schema is None else schema
            for path, problem in schema_errors(schema, args, turn.compiled.schemas):
                raise _misfit(turn, f"changes `{call.name}`{place_text(path)}: {problem}")
            return Decision(True, args)
    raise _misfit(turn, f"decides `{short(as_text(value), 80)}` on `{call.name}`")


def changed_handoff(args: Mapping[str, Any], reply: Handoff, turn: Turn) -> Handoff:
    """Return a handoff with the user's arguments; raise ScriptMisfit for unknown ones."""
    try:
        return Handoff(reply.to, **{"type": reply.type, **args})
    except TypeError:
        raise _misfit(turn, "changes a handoff, which has `type`, `query` and `payload`") from None


def _misfit(turn: Turn, problem: str) -> ScriptMisfit:
    at = ("turns", turn.number - 1, "resume")
    return ScriptMisfit(f"turn {turn.number} {problem}.\n{_ADVICE}", at)

"""Lints on tools' arguments: the function gets the arguments that the model wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from simkit.checks.findings import Hit
from simkit.core.messages import JsonValue
from simkit.core.text import short_both
from simkit.language.json_schema.coercion import lost_in
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.views import View

_SHOWN_MAX: Final = 60


class ArgumentLost:
    """FLW-09: a tool is called with the arguments that the model wrote.

    Changes by a schema are no loss: defaults are added, texts become numbers, dates or objects,
    state and context objects are injected, a key has its alias. It is a warning, because code
    between model and function may change arguments on purpose.
    """

    id = "FLW-09"
    kinds: tuple[type, ...] = (e.ToolCalled,)

    def look(self, event: e.ToolCalled, view: View) -> Iterable[Hit]:
        """Compare the arguments of a tool call with those that the model wrote."""
        request = view.requests.get(event.call_id)
        if request == event.args or not isinstance(request, Mapping):
            return ()
        args = event.args if isinstance(event.args, Mapping) else {}
        lost = [*lost_in(request, args)]
        if not lost:
            return ()
        problem = (
            f"tool {event.tool!r} of agent {event.agent!r} was called in turn {event.turn} with "
            "other arguments than the model said: "
            + "; ".join(_words(key, request, args) for key in lost)
        )
        data = {"tool": event.tool, "arguments": lost}
        return (Hit(self.id, problem, event.turn, event.agent, data=data),)


def _words(key: str, request_args: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> str:
    value_received = as_text(args[key]) if key in args else "nothing"
    requested_text, value_received = short_both(
        as_text(request_args[key]), value_received, _SHOWN_MAX
    )
    return f"{key}: {requested_text} → {value_received}"

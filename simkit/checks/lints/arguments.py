"""Lints on tools' arguments: what the model says reaches the function that carries it out."""

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
    """FLW-09: a tool is called with the arguments that the model said.

    What a framework does by a schema is no loss: defaults are filled in, texts become numbers,
    dates or objects, state and context objects are injected, a key has its alias. It is a warning:
    code between model and function may change arguments on purpose.
    """

    id = "FLW-09"
    kinds: tuple[type, ...] = (e.ToolCalled,)

    def look(self, event: e.ToolCalled, view: View) -> Iterable[Hit]:
        """Compare what a tool was called with to what its model said."""
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

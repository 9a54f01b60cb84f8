"""How a scenario says that agents are run: ``app: {call: …, run_options: …}``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simkit.adapters.entry import found_as
from simkit.core.errors import FunctionMissing
from simkit.spec.scenario.apps import App


def way_of(app: App, ways: Sequence[str], noun: str = "an agent") -> str:
    """Returns the way to run ``what``, the first unless the app names another.

    Raises FunctionMissing for a way that there is not.
    """
    way = app.options.call or ways[0]
    if way not in ways:
        raise FunctionMissing(f"{noun} is run by {', '.join(ways)}: not by `{way}`", way)
    return way


def options_of(app: App, session: str) -> dict[str, Any]:
    """Returns what a session's agent is run with beside its messages.

    Raises FunctionMissing where the function is not there, or returns no mapping.
    """
    entry = app.options.run_options
    return {} if entry is None else options_made(entry, found_as(entry), session)


def options_made(entry: str, make: Callable[..., Any], session: str) -> dict[str, Any]:
    """Returns what ``make`` returns; it is told the session's name if it takes one."""
    named = "session" in inspect.signature(make).parameters
    options = make(session=session) if named else make()
    if not isinstance(options, Mapping):
        raise FunctionMissing(
            f"`{entry}` returns an object of class `{type(options).__name__}`, not a mapping of "
            "what an agent is run with, by its names",
            entry,
        )
    return dict(options)

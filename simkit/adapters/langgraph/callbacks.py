"""LangChain's callbacks: start and end of a node's code, tools, and models without HTTP.

They are taken from the managers that call the handlers of a run. A handler among those of the
users would be visible to them, and LangChain does more for each run that has one.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Final

from simkit.adapters.api import ContextListeners, Replacement, Row
from simkit.adapters.langgraph import compat

listeners: Final = ContextListeners[Any]("simkit_graphs")
"""The listeners of runs: each is a `GraphListener`."""


def callback_rows() -> list[Row]:
    """Return the replacements that call a listener after the handlers of a run."""
    starts = [(*slot, _called(slot[1], is_start=True)) for slot in compat.RUN_STARTS]
    ends = [(*slot, _called(slot[1], is_start=False)) for slot in compat.RUN_ENDS]
    return [*starts, *ends, *((*slot, _split) for slot in compat.splits_of_runs())]


def _called(name: str, *, is_start: bool) -> Callable[[Replacement], Replacement]:
    """Return the wrapper of a method. That of a start returns the runs, an end is one of a run."""

    def tell(listener: Any, manager: Any, result: Any, args: Any, options: Any) -> None:
        if _OF_TRACERS not in manager.__dict__:
            getattr(listener, name)(result if is_start else manager, *args, **options)

    @listeners.around
    def method(listener: Any, before: Replacement, self: Any, *args: Any, **options: Any) -> Any:
        result = before(self, *args, **options)
        tell(listener, self, result, args, options)
        return result

    @listeners.around
    async def awaited(
        listener: Any, before: Replacement, self: Any, *args: Any, **options: Any
    ) -> Any:
        result = await before(self, *args, **options)
        tell(listener, self, result, args, options)
        return result

    return lambda before: (awaited if iscoroutinefunction(before) else method)(before)


_OF_TRACERS: Final = "simkit_of_tracers"
"""The attribute of managers whose events others report too."""


def _split(before: Replacement) -> Replacement:
    """Wrap what gives tracers another payload: they get the event from a manager of their own."""

    def split_handlers(manager: Any) -> Any:
        real, tracers = before(manager)
        setattr(tracers, _OF_TRACERS, True)
        return real, tracers

    return split_handlers

"""What goes into a graph's long-term store, and out of it."""

from __future__ import annotations

from typing import Any, Final

from langgraph.store.base import GetOp, PutOp, SearchOp

from simkit.adapters.activations import Run
from simkit.adapters.langgraph.taps import current_listener
from simkit.adapters.scribe import Scribe
from simkit.transports.installing import Made, Row

SCOPE: Final = "global"


def rows_for(store: Any) -> list[Row]:
    """Returns what to replace so that a store is listened to: all it does is a batch."""
    return [(type(store), "batch", _heard), (type(store), "abatch", _heard_async)]


def _told(store: Any, operations: Any) -> list[Any]:
    listed, listener = list(operations), current_listener()
    if listener is not None:
        listener.stored(store, listed)
    return listed


def _heard(before: Made) -> Made:
    def batch(self: Any, ops: Any) -> Any:
        return before(self, _told(self, ops))

    return batch


def _heard_async(before: Made) -> Made:
    async def abatch(self: Any, ops: Any) -> Any:
        return await before(self, _told(self, ops))

    return abatch


def tell(operation: Any, scribe: Scribe, run: Run | None) -> None:
    """Writes down what an operation reads or writes."""
    agent = run.agent if run is not None else ""
    if isinstance(operation, PutOp):
        scribe.stored(f"{'/'.join(operation.namespace)}/{operation.key}", SCOPE, agent, run)
    elif isinstance(operation, GetOp):
        scribe.read(f"{'/'.join(operation.namespace)}/{operation.key}", SCOPE, agent, run)
    elif isinstance(operation, SearchOp):
        scribe.read("/".join(operation.namespace_prefix), SCOPE, agent, run)

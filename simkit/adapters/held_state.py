"""Objects of an application whose fields are state: their changes, and who made them."""

from __future__ import annotations

from typing import Any

from simkit.adapters.activations import Run
from simkit.adapters.plain_values import Snapshots
from simkit.adapters.trace_recorder import TraceRecorder


class HeldState:
    """The last seen fields of one scenario's objects."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder, self._snapshots = recorder, Snapshots()

    def look(self, thing: Any, otherwise: str, run: Run | None) -> None:
        """Record the changed fields of an object: ``run`` wrote them, unless the object is new.

        An object without fields is one channel with the name ``otherwise``.
        """
        if thing is None:
            return
        update, is_new = self._snapshots.changes(self._recorder.session, thing, otherwise)
        if not update:
            return
        writer = None if is_new else run
        agent = writer.agent if writer is not None else ""
        self._recorder.wrote(update, agent, writer, cause="given" if is_new else "writes")

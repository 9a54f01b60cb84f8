"""Objects of an application whose fields are state: what of them changed, and by whom."""

from __future__ import annotations

from typing import Any

from simkit.adapters.activations import Run
from simkit.adapters.plain_values import Snapshots
from simkit.adapters.trace_recorder import TraceRecorder


class HeldState:
    """What the objects of one scenario held when they were looked at last."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder, self._snapshots = recorder, Snapshots()

    def look(self, thing: Any, otherwise: str, run: Run | None) -> None:
        """Report what an object holds that it did not at the last look: ``run`` wrote it, unless
        the object is new. One without fields is a channel itself, by the name ``otherwise``."""
        if thing is None:
            return
        update, is_new = self._snapshots.changes(self._recorder.session, thing, otherwise)
        if not update:
            return
        writer = None if is_new else run
        agent = writer.agent if writer is not None else ""
        self._recorder.wrote(update, agent, writer, cause="given" if is_new else "writes")

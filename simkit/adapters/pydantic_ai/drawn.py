"""What PydanticAI draws anew in every run, and its messages carry into state: times and ids."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Any, Final

from simkit.adapters.pydantic_ai.where import current_log
from simkit.transports.installing import Made, Row


def _virtual(before: Any) -> Any:
    """The time in which the scenario lives."""

    class Virtual(before):  # type: ignore[misc]  # It is `datetime`, or what somebody put there.
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            log = current_log()
            found: datetime = before.now(tz) if log is None else log.scribe.clock.moment()
            return found if log is None else found.astimezone(tz)

    return Virtual


def _counted(before: Made) -> Made:
    """Ids of runs and conversations."""

    def uuid7() -> uuid.UUID:
        log = current_log()
        found: uuid.UUID = before() if log is None else uuid.UUID(int=log.next_number())
        return found

    return uuid7


_DRAWN: Final = (
    ("pydantic_ai._utils", "datetime", _virtual),
    ("pydantic_ai._agent_graph", "uuid7", _counted),
)


def rows() -> Iterator[Row]:
    """Returns what is replaced; a version that draws elsewhere is left as it is."""
    for module, name, made in _DRAWN:
        if hasattr(sys.modules.get(module), name):
            yield sys.modules[module], name, made

"""What all channels of a graph hold that puts out some of them (`output_schema`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langgraph.errors import GraphInterrupt
from langgraph.pregel._io import read_channels
from langgraph.pregel._loop import PregelLoop

from simkit.transports.installing import Made, Row

WHOLE: Final = "simkit"
"""A stream's mode that nobody else asks for."""


def is_narrow(puts_out: str | Sequence[str], channels: str | Sequence[str]) -> bool:
    """Whether some channels are not put out."""
    are_lists = not isinstance(puts_out, str) and not isinstance(channels, str)
    return are_lists and not set(channels) <= set(puts_out)


def _told(before: Made) -> Made:
    def after_tick(self: Any) -> None:
        try:
            before(self)
        except GraphInterrupt:  # The step is over all the same.
            _tell(self)
            raise
        _tell(self)

    return after_tick


def _tell(loop: Any) -> None:
    hears = loop.stream is not None and WHOLE in loop.stream.modes
    if hears and is_narrow(loop.output_keys, loop.stream_keys):
        values = read_channels(loop.channels, loop.stream_keys)
        loop.stream((loop.checkpoint_ns, WHOLE, values))


ROWS: Final[tuple[Row, ...]] = ((PregelLoop, "after_tick", _told),)
"""What to replace so that streams tell it when a step is over."""

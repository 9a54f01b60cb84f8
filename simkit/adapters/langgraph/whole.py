"""What all channels of a graph hold when a call begins, and when each of its steps is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from langgraph.errors import GraphInterrupt
from langgraph.pregel._io import read_channels
from langgraph.pregel._loop import PregelLoop

from simkit.adapters.langgraph.channels import is_state
from simkit.capture.http.installing import Replacement, Row

WHOLE: Final = "simkit"
"""A stream's mode that nobody else asks for."""


class ChannelValues(msgspec.Struct, frozen=True):
    """What the channels of one call of a graph hold."""

    channels: Mapping[str, Any]
    """As the graph declares them."""
    values: Mapping[str, Any]
    is_first: bool
    """The call begins."""


def _wrap_loop(before: Replacement) -> Replacement:
    def _first(self: Any, **options: Any) -> Any:
        result = before(self, **options)
        _tell(self, True)
        return result

    return _first


def _stepped(before: Replacement) -> Replacement:
    def after_tick(self: Any) -> None:
        try:
            before(self)
        except GraphInterrupt:  # The step is over all the same.
            _tell(self, False)
            raise
        _tell(self, False)

    return after_tick


def _tell(loop: Any, is_first: bool) -> None:
    if loop.stream is not None and WHOLE in loop.stream.modes:
        names = [name for name in loop.channels if is_state(name)]
        state = ChannelValues(loop.specs, read_channels(loop.channels, names), is_first)
        loop.stream((loop.checkpoint_ns, WHOLE, state))


ROWS: Final[tuple[Row, ...]] = (
    (PregelLoop, "_first", _wrap_loop),
    (PregelLoop, "after_tick", _stepped),
)
"""What to replace so that streams tell what channels hold."""

"""Moments: the place in a turn at which its user cancels it, or its process ends."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator

from simkit.spec.fields import Positive, TextValue, YamlModel, refuse
from simkit.spec.refers_to import RefersTo

AT_START: Final = "start"
AT_END: Final = "end"
ANY_TOOL: Final = "*"
"""The name that stands for any tool."""


class Moment(YamlModel):
    """A moment in a turn: a model call waits for its answer, or a tool begins or ends."""

    noun: ClassVar[str] = "key of a moment"

    agent: Annotated[TextValue, RefersTo("agent")] | None = None
    """The agent that makes the call; without it, any agent."""
    tool: Annotated[TextValue, RefersTo("tool", also=(ANY_TOOL,))] | None = None
    """The tool that is called; `"*"` is any tool. Without it, the call is one of a model."""
    call: Positive = 1
    """The number of the call in the turn, from 1: of the agent's calls, or of all. Calls of tools
    are counted as they begin."""
    at: Literal["start", "end"] = AT_START
    """The moment of the tool's call: `start`, before it does anything, or `end`, after its effect
    and before anybody has its result."""
    is_certain: ClassVar[bool] = True
    """Whether a turn that does not come to it is an error."""


class PossibleMoment(Moment):
    """A moment that a turn may not come to: a model decides which calls it makes."""

    is_certain: ClassVar[bool] = False


def _of_a_call(value: Any) -> Any:
    if isinstance(value, dict) and "at" in value and "tool" not in value:
        raise refuse(
            "`at` says when in a tool's call, and no tool is named",
            advice="Name it: `tool: refund`. A model call is cut while it waits for its answer.",
            at=("at",),
        )
    return value


CutMoment = Annotated[Moment, BeforeValidator(_of_a_call)]

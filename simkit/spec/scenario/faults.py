"""Planned faults: how a provider fails instead of giving the scenario's reply."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, WithJsonSchema

from simkit.core import messages as m
from simkit.spec.fields import Positive, TextValue, YamlModel, refuse, shown_value
from simkit.spec.scenario.replies import ErrorValue, failure_of


def _share(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise refuse(f"must be a share above 0 and up to 1, not {shown_value(value)}")
    return value


Share = Annotated[
    float,
    BeforeValidator(_share),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
_PLACED: Final = ("call", "times")


class Fault(YamlModel):
    """One planned fault: model calls that fail, whatever would have answered them."""

    noun: ClassVar[str] = "key of a fault"

    error: ErrorValue
    """How the provider fails: a name, or `{status, type, message, retry_after}`."""
    agent: TextValue | None = None
    """The agent whose model calls fail; without it, every agent."""
    call: Positive = 1
    """The agent's model call in the turn that fails, from 1; retries count."""
    times: Positive = 1
    """The number of consecutive calls that fail."""
    share: Share | None = None
    """Instead of `call`: the share of calls that fail, drawn from the seed."""

    def failure(self) -> m.Fails:
        """Return the failure as a value."""
        return failure_of(self.error)


def _fault(value: Any) -> Any:
    if isinstance(value, dict) and "share" in value:
        placed = next((key for key in _PLACED if key in value), None)
        if placed is not None:
            raise refuse(f"a fault has `share` or `{placed}`, not both")
    return value


Faults = tuple[Annotated[Fault, BeforeValidator(_fault)], ...]

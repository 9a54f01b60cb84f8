"""What came of one turn, as a test looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from simkit.errors import SourceError
from simkit.events import AnyEvent, ErrorFacts, LogRecorded
from simkit.expect.findings import Finding
from simkit.expect.runs import groups_of
from simkit.expect.scope import log_fields
from simkit.messages import JsonValue
from simkit.simulation.listed import (
    Agents,
    Drops,
    Handoffs,
    LeftOut,
    Listed,
    LogRecords,
    Messages,
    Names,
    ToolCalls,
)
from simkit.simulation.places import Place
from simkit.source import near
from simkit.views import CallView, ContextView, TurnView, View
from simkit.words import counted

__tracebackhide__ = True
"""pytest shows the line of the test, not what is beneath it."""


class Told(Protocol):
    """What an outcome asks the conversation that it belongs to."""

    @property
    def view(self) -> View:
        """The views on all that happened so far."""

    def expects_error(self, number: int) -> bool:
        """Whether somebody has looked at the error with which a turn ended."""

    def expect_error(self, number: int) -> None:
        """Notes that somebody has looked at the error with which a turn ended."""

    def look_at_findings(self, number: int) -> list[Finding]:
        """Returns the findings of a turn, and remembers that they were looked at."""

    def place_of(self, number: int) -> Place:
        """Where the user spoke in a turn."""


class SeenContext(Messages):
    """Exactly what one model call received: its messages, in order."""

    def __init__(self, view: ContextView) -> None:
        super().__init__(view.messages)
        self._view = view

    @property
    def sections(self) -> Names:
        """The sections that made something, in order, each once."""
        return Names(self._view.sections)

    def section(self, name: str) -> Messages:
        """The messages that a section made; none if it made nothing."""
        return Messages(self._view.section(name))

    @property
    def dropped(self) -> Drops:
        """What histories read and left out, each with the filter (``by``)."""
        return Drops(self._view.dropped())

    @property
    def left_out(self) -> LeftOut:
        """What other sections read and left out, each with the reason (``by``)."""
        return LeftOut(self._view.left_out())

    @property
    def tools(self) -> Names:
        """The tools offered."""
        return Names(self._view.tools)

    @property
    def handoffs(self) -> Names | None:
        """The agents that control may be passed to; None where a tool offered names none."""
        return None if self._view.handoffs is None else Names(self._view.handoffs)

    @property
    def tokens(self) -> int:
        """The size of the context, by the pipeline's counter."""
        return self._view.tokens

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """The model's settings."""
        return self._view.settings or {}


class TurnOutcome:
    """What came of one turn."""

    def __init__(self, simulation: Told, number: int) -> None:
        """``number`` counts turns from 1."""
        self._simulation, self.number = simulation, number

    def __repr__(self) -> str:
        return f"<turn {self.number}>"

    @property
    def _turn(self) -> TurnView:
        view = self._simulation.view
        if self.number > len(view.turns):
            raise self._error(f" was not run: {_why_not(view)}")
        return view.turns[self.number - 1]

    @property
    def reply(self) -> Any:
        """What the pipeline answered, a text or a value; raises if the turn ended with an error.

        A test that means the error looks at `error` first.
        """
        error = self._turn.error
        if error is not None and not self._simulation.expects_error(self.number):
            raise self._error(f" ended with {error.type}: {error.message}")
        return self._turn.reply

    @property
    def error(self) -> ErrorFacts | None:
        """How the turn failed (``type``, ``message``); None if it did not.

        Who has looked at an error knows of it: the conversation may go on.
        """
        if self._turn.error is not None:
            self._simulation.expect_error(self.number)
        return self._turn.error

    @property
    def interrupt(self) -> Any:
        """What an agent asked the user, who answers with ``resume``; None if nothing."""
        return self._turn.interrupt

    @property
    def agents(self) -> Agents:
        """The agents that ran, in the order in which they started; parallel ones as a list."""
        return Agents(groups_of(self._turn.runs))

    def context(self, agent: str, call: int | None = None) -> SeenContext:
        """What an agent's model call of this turn received; ``0`` is the first, ``-1`` the last.

        Raises for an agent that made several calls if none is named: what holds of one of them
        may not hold of another.
        """
        calls = self._calls(agent)
        if call is None and len(calls) > 1:
            made = counted(len(calls), "model call")
            raise self._error(
                f": agent `{agent}` made {made}: say which, `context({agent!r}, 0)` or "
                f"`context({agent!r}, -1)`, or look at all of them, `contexts({agent!r})`"
            )
        index = call or 0
        if not -len(calls) <= index < len(calls):
            made = counted(len(calls), "model call")
            raise self._error(f": agent `{agent}` made {made}, and none is `{index}`")
        return SeenContext(calls[index].context)

    def contexts(self, agent: str) -> Listed[SeenContext]:
        """What each model call of an agent received in this turn, in order."""
        return Listed(SeenContext(call.context) for call in self._calls(agent))

    def _calls(self, agent: str) -> Sequence[CallView]:
        calls = self._turn.calls_by_agent.get(agent)
        if calls is None:
            asked = list(self._turn.calls_by_agent)
            raise self._error(f": agent `{agent}` made no model call", near(agent, asked), asked)
        return calls

    @property
    def model_calls(self) -> dict[str, int]:
        """Agent to the number of its model calls."""
        return {agent: len(calls) for agent, calls in self._turn.calls_by_agent.items()}

    @property
    def handoffs(self) -> Handoffs:
        """Requests to pass control, in order: ``from to type mode query payload outcome``."""
        return Handoffs(one.fields() for one in self._turn.handoffs)

    @property
    def tool_calls(self) -> ToolCalls:
        """Tool calls in order: ``agent tool args result error``."""
        return ToolCalls(one.fields() for one in self._turn.tools)

    @property
    def logs(self) -> LogRecords:
        """Log records of the code's own loggers, in order: ``level logger message error agent``.

        Of a pipeline that is code, with ``app={"logs": True}``; else none is seen.
        """
        if "logs" not in self._simulation.view.pipeline.observes:
            raise self._error(': log records are not seen; say `app={"logs": True}`')
        return LogRecords(log_fields(one) for one in self.events if isinstance(one, LogRecorded))

    @property
    def state(self) -> dict[str, Any]:
        """The channels after the turn, before those of scope turn are cleared."""
        return dict(self._turn.state)

    @property
    def events(self) -> list[AnyEvent]:
        """Everything that happened in the turn."""
        return self._simulation.view.events[self._turn.lo : self._turn.hi]

    @property
    def findings(self) -> Listed[Finding]:
        """What lints found in this turn; who has looked at them answers for them."""
        return Listed(self._simulation.look_at_findings(self.number))

    def _error(self, what: str, nearest: str = "", known: Iterable[str] = ()) -> SourceError:
        place = self._simulation.place_of(self.number)
        return place.error(f"turn {self.number}{what}", nearest, tuple(known))


def _why_not(view: View) -> str:
    last = view.turns[-1] if view.turns else None
    if last is not None and last.error is not None:
        return (
            f"turn {last.number} ended with {last.error.type}: {last.error.message}\n"
            "  If that is meant, look at its `error` before."
        )
    return view.error.message if view.error is not None else "the conversation was over"

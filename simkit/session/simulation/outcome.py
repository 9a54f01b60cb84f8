"""What came of one turn, as a test looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from simkit.checks.findings import Finding
from simkit.checks.observing import WORDS, unobservable, unobservable_in_context
from simkit.checks.runs import groups_of
from simkit.checks.scope import Scope, log_fields, scope_of_turn
from simkit.core.errors import SourceError
from simkit.core.messages import JsonValue
from simkit.core.text import counted
from simkit.language.yaml import near
from simkit.session.simulation.asking import QuestionScope
from simkit.session.simulation.listed import (
    Agents,
    Channels,
    Contexts,
    Drops,
    Events,
    Findings,
    Handoffs,
    LeftOut,
    LogRecords,
    Messages,
    Sections,
    Targets,
    ToolCalls,
    Tools,
)
from simkit.session.simulation.places import Place
from simkit.session.simulation.seen import Named, SeenError, seen_error
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.known import KnownNames
from simkit.spec.scenario.selecting import selected
from simkit.trace.events import LogRecorded
from simkit.trace.views import CallView, ContextView, TurnView, View

__tracebackhide__ = True
"""pytest shows the line of the test, not what is beneath it."""


class OutcomeSource(Protocol):
    """What an outcome asks the conversation that it belongs to."""

    @property
    def view(self) -> View:
        """The views on all that happened so far."""

    def expects_error(self, number: int) -> bool:
        """Return whether somebody has looked at the error with which a turn ended."""

    def expect_error(self, number: int) -> None:
        """Record that somebody has looked at the error with which a turn ended."""

    def look_at_findings(self, number: int) -> list[Finding]:
        """Return the findings of a turn, and remember that they were looked at."""

    def place_of(self, number: int) -> Place:
        """Where the user spoke in a turn."""

    def known(self) -> KnownNames:
        """The names that there are."""


class SeenContext(Messages):
    """Exactly what one model call received: its messages, in order."""

    def __init__(
        self, view: ContextView, subject: QuestionScope, refuse_unseen: Callable[[str, str], None]
    ) -> None:
        """``refuse_unseen`` raises for what is not seen of an agent's contexts."""
        super().__init__(view.messages, subject)
        self._view, self._refuse_unseen = view, refuse_unseen

    @property
    def sections(self) -> Sections:
        """The sections that made something, in order, each once."""
        self._refuse_unseen(self.subject.agent, "sections")
        return Sections(self._view.sections, self.subject)

    def section(self, name: str) -> Messages:
        """The messages that a section made; none if it made nothing."""
        self.subject.check_section(name)
        return Messages(self._view.section(name), self.subject)

    @property
    def dropped(self) -> Drops:
        """What histories read and left out, each with the filter (``by``)."""
        self._refuse_unseen(self.subject.agent, "dropped")
        return Drops(self._view.dropped(), self.subject)

    @property
    def left_out(self) -> LeftOut:
        """What other sections read and left out, each with the reason (``by``)."""
        self._refuse_unseen(self.subject.agent, "left_out")
        return LeftOut(self._view.left_out(), self.subject)

    @property
    def tools(self) -> Tools:
        """The tools offered."""
        return Tools(self._view.tools, self.subject)

    @property
    def handoffs(self) -> Targets | None:
        """The agents that control may be passed to; None where a tool offered names none."""
        return None if self._view.handoffs is None else Targets(self._view.handoffs, self.subject)

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

    def __init__(self, simulation: OutcomeSource, number: int) -> None:
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
    def error(self) -> SeenError | None:
        """How the turn failed (``type``, ``message``); None if it did not.

        Who has looked at an error knows of it: the conversation may go on.
        """
        error = self._turn.error
        if error is None:
            return None
        self._simulation.expect_error(self.number)
        return seen_error(error, self._subject())

    @property
    def interrupt(self) -> Any:
        """What an agent asked the user, who answers with ``resume``; None if nothing."""
        return self._turn.interrupt

    @property
    def agents(self) -> Agents:
        """The agents that ran, in the order in which they started; parallel ones as a list."""
        self._refuse_unseen("agents")
        return Agents(groups_of(self._turn.runs), self._subject())

    def context(self, agent: str, call: int | None = None) -> SeenContext:
        """Return what an agent's model call of this turn received; ``0`` is the first, ``-1`` the
        last.

        Raises for an agent that made several calls if none is named: what holds of one of them
        may not hold of another.
        """
        calls = self._calls(agent)
        if call is None and len(calls) > 1:
            count_text = counted(len(calls), "model call")
            raise self._error(
                f": agent `{agent}` made {count_text}: say which, `context({agent!r}, 0)` or "
                f"`context({agent!r}, -1)`, or look at all of them, `contexts({agent!r})`"
            )
        index = call or 0
        if not -len(calls) <= index < len(calls):
            count_text = counted(len(calls), "model call")
            raise self._error(f": agent `{agent}` made {count_text}, and none is `{index}`")
        return self._context(calls[index])

    def contexts(self, agent: str) -> Contexts:
        """Return what each model call of an agent received in this turn, in order."""
        subject = self._subject(agent)
        return Contexts((self._context(call) for call in self._calls(agent)), subject)

    def _context(self, call: CallView) -> SeenContext:
        return SeenContext(call.context, self._subject(call.agent), self._refuse_unseen_in_context)

    def _calls(self, agent: str) -> Sequence[CallView]:
        calls = self._turn.calls_by_agent.get(agent)
        if calls is None:
            agents = list(self._turn.calls_by_agent)
            raise self._error(f": agent `{agent}` made no model call", near(agent, agents), agents)
        return calls

    @property
    def model_calls(self) -> Named[int]:
        """Agent to the number of its model calls."""
        counts = {agent: len(calls) for agent, calls in self._turn.calls_by_agent.items()}
        return Named(counts, "model_calls", "agent", self._subject())

    @property
    def handoffs(self) -> Handoffs:
        """Request to pass control, in order: ``from to type mode query payload outcome``."""
        self._refuse_unseen("handoffs")
        return Handoffs((handoff.fields() for handoff in self._turn.handoffs), self._subject())

    @property
    def tool_calls(self) -> ToolCalls:
        """Tool calls in order: ``agent tool args result error``."""
        self._refuse_unseen("tool_calls")
        return ToolCalls((tool.fields() for tool in self._turn.tools), self._subject())

    @property
    def logs(self) -> LogRecords:
        """Log records of the code's own loggers, in order: ``level logger message error agent``.

        Of a pipeline that is code, with ``app={"logs": True}``; else none is seen.
        """
        if "logs" not in self._simulation.view.pipeline.observes:
            raise self._error(': log records are not seen; say `app={"logs": True}`')
        records = (log_fields(event) for event in self.events if isinstance(event, LogRecorded))
        return LogRecords(records, self._subject())

    @property
    def state(self) -> Channels:
        """The channels after the turn, before those of scope turn are cleared."""
        self._refuse_unseen("state")
        return Channels(self._turn.state, self._subject())

    @property
    def events(self) -> Events:
        """Everything that happened in the turn."""
        return Events(self._simulation.view.events[self._turn.lo : self._turn.hi], self._subject())

    @property
    def findings(self) -> Findings:
        """What lints found in this turn; who has looked at them answers for them."""
        return Findings(self._simulation.look_at_findings(self.number), self._subject())

    def _subject(self, agent: str = "") -> QuestionScope:
        return QuestionScope(self._simulation.known, self._simulation.place_of(self.number), agent)

    def _scope(self) -> Scope:
        view = self._simulation.view
        return scope_of_turn(self._turn, self.number - 1, Expect(), view)

    def _refuse_unseen(self, claim: str) -> None:
        """Raise for what the pipeline does not show: that nothing is there would always hold."""
        need = unobservable(self._scope(), claim)
        if need:
            raise self._error(f": `{claim}` is not observable here: {WORDS[need]} cannot be seen")

    def _refuse_unseen_in_context(self, agent: str, claim: str) -> None:
        need = unobservable_in_context(self._scope(), selected(agent), claim, None)
        if need:
            raise self._error(
                f": `{claim}` of agent `{agent}` is not observable here: "
                f"{WORDS[need]} cannot be seen"
            )

    def _error(self, problem: str, nearest: str = "", known: Iterable[str] = ()) -> SourceError:
        place = self._simulation.place_of(self.number)
        return place.error(f"turn {self.number}{problem}", nearest, tuple(known))


def _why_not(view: View) -> str:
    last = view.turns[-1] if view.turns else None
    if last is not None and last.error is not None:
        return (
            f"turn {last.number} ended with {last.error.type}: {last.error.message}\n"
            "  If that is meant, look at its `error` before."
        )
    return view.error.message if view.error is not None else "the conversation was over"

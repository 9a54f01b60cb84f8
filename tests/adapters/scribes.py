"""A recorder at work, and what its trace says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simkit.adapters.recorder.handoffs import HandoffTools
from simkit.adapters.recorder.sessions import Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.core.messages import JsonValue, Message, ToolCall
from simkit.providers.values import Offer
from simkit.runtime.context.rendering import counter_named
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View, view_of
from tests.building import message_lines

START = "2026-01-05T09:00:00Z"


class Desk:
    """A recorder, told of turns and model calls in few words."""

    def __init__(self, handoffs: Mapping[str, str] | None = None, **limits: int) -> None:
        self.trace = Trace()
        self.recorder = TraceRecorder(
            self.trace, VirtualClock(START), counter_named("chars/4"), Limits(**limits)
        )
        self.recorder.handoff_tools = HandoffTools(handoffs)
        facts = e.PipelineFacts(name="app", agents={}, observes=("runs", "handoffs"))
        self.trace.emit(e.RunStarted(0, scenario="s", driver="python", pipeline=facts))
        self.turns = 0

    def turn(self, text: str, session: str = "s1") -> None:
        """The user says something."""
        self.turns += 1
        self.recorder.begin_turn(self.turns, session, "p1", text)

    def run(self, agent: str = "a") -> Run:
        """Returns the agent's activation that is open, or a new one."""
        return self.recorder.open_run(agent) or self.recorder.begin_run(agent)

    def asks(
        self, messages: Sequence[Message], agent: str = "a", *offers: Offer, **settings: JsonValue
    ) -> str:
        """An agent sends a context; returns the call's id."""
        return self.recorder.record_request(self.run(agent), messages, offers, settings)

    def answers(self, call: str, text: str = "", *calls: ToolCall, agent: str = "a") -> Message:
        """Its model answers."""
        message = Message("assistant", text, calls=calls)
        return self.recorder.replied(self.run(agent), call, message, "text", None)

    def ends(self, reply: str | None = None) -> None:
        """The turn is over."""
        self.recorder.end_turn(reply, None, ())

    @property
    def view(self) -> View:
        """The views on what was written down."""
        return view_of(self.trace.events)

    def contexts(self) -> list[list[str]]:
        """Returns what each model call received, as judges see it."""
        return [message_lines(call.context.messages) for call in self.view.calls.values()]

    def log(self) -> list[tuple[int, str]]:
        """Returns the number and line of everything that was said."""
        added = [event.message for event in self.trace.events if isinstance(event, e.MessageAdded)]
        return [
            (message.number, line)
            for message, line in zip(added, message_lines(added), strict=True)
        ]

    def kinds(self) -> list[str]:
        """Returns the names of all events but what is said."""
        return [
            type(event).__name__ for event in self.trace.events if type(event) is not e.MessageAdded
        ]


def user(text: str) -> Message:
    return Message("user", text)


def system(text: str) -> Message:
    return Message("system", text)


def assistant(text: str, *calls: ToolCall) -> Message:
    return Message("assistant", text, calls=calls)


def tool(text: str, call: str, name: str = "look") -> Message:
    return Message("tool", text, call_id=call, tool=name)

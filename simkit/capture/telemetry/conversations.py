"""Conversations: the steps of an export by their users' messages, and what of them is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.gaps import call_name, missing_calls, missing_in, why
from simkit.capture.telemetry.losses import lost_messages, lost_spans
from simkit.capture.telemetry.recorded import RecordedConversation, RecordedTurn
from simkit.capture.telemetry.spans import Step
from simkit.core.messages import JsonValue
from simkit.core.text import counted, short

_OF_TURN: Final = (names.SCENARIO, names.PIPELINE, names.SESSION, names.TURN)
_TEXT_MAX: Final = 60
"""The length of a text in a line."""


def conversations_of(steps: Sequence[Step]) -> list[RecordedConversation]:
    """Return the conversations, in the order in which they began."""
    around = {step.id: step for step in steps}
    units = [_Unit(own, around) for own in _by_trace(steps) if any(map(_is_call, own))]
    conversations: list[_Growing] = []
    for unit in sorted(units, key=lambda unit: unit.start):
        growing = next((c for c in reversed(conversations) if c.takes(unit)), None)
        if growing is None:
            growing = _Growing(unit)
            conversations.append(growing)
        growing.add(unit)
    return [growing.conversation() for growing in conversations]


def _by_trace(steps: Sequence[Step]) -> list[list[Step]]:
    traces: dict[str, list[Step]] = {}
    for step in steps:
        traces.setdefault(step.trace or step.id, []).append(step)
    return [*traces.values()]


def _is_call(step: Step) -> bool:
    return step.kind == "model"


def _texts_of_user(call: Step) -> list[str]:
    return [message.content for message in call.messages or () if message.role == "user"]


class _Unit:
    """One trace: all that one entry into the application caused, or one model call by hand."""

    def __init__(self, steps: Sequence[Step], around: Mapping[str, Step]) -> None:
        self.steps, self._around = steps, around
        self.calls = [step for step in steps if _is_call(step)]
        self.session = next((step.session for step in steps if step.session), "")
        self.start = min(step.start for step in steps)
        self.end = max(step.end for step in steps)
        self.root = root = next((s for s in steps if s.parent not in around), steps[0])
        self.is_bare = _is_call(root)
        """Whether nothing is around the model call."""
        self.user_texts = _texts_of_user(self.calls[0])
        """The user messages that the first model call was sent."""
        # The first agent may be sent the user's message in other words.
        named = "" if self.is_bare else root.text
        self.text = named or "".join(self.user_texts[-1:])
        self.failed = root.failed and not self.is_bare
        self.broken = [step for step in steps if step.parent and step.parent not in around]

    @property
    def own(self) -> Mapping[str, JsonValue]:
        """Return the facts of a run of simkit; empty for others."""
        return self.root.attributes if {*_OF_TURN} <= {*self.root.attributes} else {}

    def agent_of(self, step: Step) -> str:
        """Return the agent of a step: the nearest that a step around it runs, else its own."""
        if names.SCENARIO in step.attributes and step.agent:
            return step.agent
        at: Step | None = step
        while at is not None:
            if at.kind == "agent":
                return at.name
            at = self._around.get(at.parent)
        return step.agent

    def gaps(self) -> Iterator[str]:
        """Yield the agents that lack a model call."""
        around = {step.id for call in self.calls for step in self.outwards(call)}
        for step in self.steps:
            is_function = self.own and names.OUTPUT not in step.attributes
            if step.kind == "agent" and step.id not in around and not is_function:
                yield f"agent {step.name!r} ran, and the trace has no model call of it"
        yield from self.root.missing if self.root.kind not in ("model", "tool") else ()
        count = self.own.get(names.SPANS, len(self.steps))
        if count != len(self.steps):
            number, known = self.own[names.TURN], len(self.steps)
            yield f"turn {number}: the file has {known} of its {count} spans"

    def outwards(self, step: Step) -> Iterator[Step]:
        """Yield the steps around a step, the nearest first."""
        at = self._around.get(step.parent)
        while at is not None:
            yield at
            at = self._around.get(at.parent)


class _Growing:
    """A conversation to which traces are added."""

    def __init__(self, first: _Unit) -> None:
        self._units: list[_Unit] = []
        self._session, self._is_bare = first.session, first.is_bare
        self._turns: list[tuple[RecordedTurn, list[_Unit]]] = []

    def takes(self, unit: _Unit) -> bool:
        """Return whether a trace is a part of this conversation."""
        if unit.session or self._session:
            return unit.session == self._session
        if unit.is_bare and self._is_bare:
            return True
        goes_on = bool(self._turns) and self._turns[-1][0].user in unit.user_texts[:-1]
        return goes_on or self._joins(unit)

    def _joins(self, unit: _Unit) -> bool:
        """Return whether a trace is of the turn that is the last so far."""
        if not self._turns or names.TURN in unit.own:
            return False
        turn, units = self._turns[-1]
        replies = [c.answer.content for c in turn.calls if c.answer and c.answer.content]
        if any(reply in unit.text for reply in replies):
            return True  # Made of what models have said in this turn.
        times = [first.user_texts.count(turn.user) for first in units]
        is_again = unit.user_texts.count(turn.user) in times
        return unit.text == turn.user and is_again

    def add(self, unit: _Unit) -> None:
        """Add a trace: to the last turn, or as a new one."""
        if not self._joins(unit):
            turn = RecordedTurn(unit.text, unit.own)
            self._turns.append((turn, []))
        turn, units = self._turns[-1]
        units.append(unit)
        self._units.append(unit)
        pairs = [
            *zip(turn.calls, turn.agents, strict=True),
            *((call, unit.agent_of(call)) for call in unit.calls),
        ]
        calls, agents = zip(*sorted(pairs, key=lambda pair: pair[0].start), strict=True)
        turn.calls, turn.agents = [*calls], [*agents]
        tools = [step for step in unit.steps if step.kind == "tool"]
        around = {step.id for call in unit.calls for step in unit.outwards(call)}
        turn.asking |= {step.name for step in tools if step.id in around}
        turn.tools += [step for step in tools if step.name not in turn.asking]
        turn.failed = turn.failed or unit.failed
        turn.targets += [step.name for step in unit.steps if step.kind == "handoff"]

    def conversation(self) -> RecordedConversation:
        """Return the conversation, with what it lacks."""
        turns = [turn for turn, _ in self._turns]
        own = next((unit.own for unit in self._units if unit.own), {})
        name = str(own.get(names.SCENARIO) or short(turns[0].user, _TEXT_MAX))
        refused, missing = [*self._refusals(turns)], [*self._missing(turns)]
        return RecordedConversation(name or "an imported trace", turns, missing, refused, own)

    def _refusals(self, turns: Sequence[RecordedTurn]) -> Iterator[str]:
        for number, turn in enumerate(turns, 1):
            if not turn.user:
                yield f"turn {number}: the user's message is not in the trace"
            for place, call in enumerate(turn.calls):
                where = f"turn {number}, {call_name(turn, place)}"
                if call.answer is None and call.error is None:
                    yield f"{where}: the model's reply is not in the trace{why(call)}"
                elif any("reply" in text for text in call.missing):
                    yield f"{where}: {'; '.join(call.missing)}"
                for ask in call.answer.calls if call.answer else ():
                    if not isinstance(ask.args, Mapping):
                        yield f"{where}: the arguments of its call of {ask.name!r} are no object"
                if not call.start and sum(len(turn.calls) for turn in turns) > 1:
                    yield f"{where}: it has no time, so the order of the calls is unknown"
        yield from missing_calls(turns)

    def _missing(self, turns: Sequence[RecordedTurn]) -> Iterator[str]:
        if broken := sum(len(unit.broken) for unit in self._units):
            yield f"the file lacks the parent of {counted(broken, 'span')}"
        if len(self._units) > 1 and self._is_bare and not self._session:
            yield (
                "the trace names no conversation: simkit reads its model calls as one, and finds "
                "turns by the user's messages"
            )
        calls = [*chain.from_iterable(turn.calls for turn in turns)]
        if "assistant" in [message.role for message in calls[0].messages or ()]:
            yield (
                "the first model call was sent earlier replies: they are examples of its prompt, "
                "or turns before this trace"
            )
        yield from chain.from_iterable(map(_Unit.gaps, self._units))
        yield from lost_spans([*chain.from_iterable(unit.steps for unit in self._units)], turns)
        for number, turn in enumerate(turns, 1):
            yield from missing_in(turn, number)
        yield from lost_messages(turns)
        if not all(map(all, (turn.agents for turn in turns))):
            yield (
                "no span names the agents: they are told by their instructions, and named by them"
            )

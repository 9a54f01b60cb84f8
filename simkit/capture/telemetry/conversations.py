"""Conversations: the steps of an export by their users' messages, and what of them is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.gaps import (
    calls_of,
    lines_of_call,
    lines_of_contexts,
    lines_of_spans,
    lines_of_tools,
    missing_calls,
    why,
)
from simkit.capture.telemetry.recorded import RecordedConversation, RecordedTurn
from simkit.capture.telemetry.spans import Step, node_metadata, outwards
from simkit.core.messages import JsonValue
from simkit.core.text import counted, short

_OF_TURN: Final = (names.SCENARIO, names.PIPELINE, names.SESSION, names.TURN)
_TEXT_MAX: Final = 60
"""The length of a text in a line."""


def conversations_of(steps: Sequence[Step]) -> list[RecordedConversation]:
    """Return the conversations, in the order in which they began."""
    around = {step.id: step for step in steps}
    traces: dict[str, list[Step]] = {}
    for step in steps:
        traces.setdefault(step.trace or step.id, []).append(step)
    units = [
        _Unit(own, around) for own in traces.values() if any(step.kind == "model" for step in own)
    ]
    conversations: list[_Growing] = []
    for unit in sorted(units, key=lambda unit: (unit.start, [*around].index(unit.calls[0].id))):
        growing = next((c for c in reversed(conversations) if c.takes(unit)), None)
        if growing is None:
            growing = _Growing(unit)
            conversations.append(growing)
        growing.add(unit)
    latest: dict[str, _Growing] = {}
    for growing in conversations:
        before = latest.get(growing.beginning.text, growing)
        latest[growing.beginning.text] = growing
        if before is not growing and growing.beginning.start <= before.end:
            before.is_split = growing.is_split = True
    return [growing.conversation() for growing in conversations]


class _Unit:
    """One trace: all that one entry into the application caused, or one model call by hand."""

    def __init__(self, steps: Sequence[Step], around: Mapping[str, Step]) -> None:
        self.steps = steps
        self.calls = [step for step in steps if step.kind == "model"]
        for call in self.calls:
            call.agent = _agent_of(call, around)
        self.session = next((step.session for step in steps if step.session), "")
        self.start = min(call.start for call in self.calls)
        self.root = root = next((s for s in steps if s.parent not in around), steps[0])
        self.is_bare = root.kind == "model"
        """Whether nothing is around the model call."""
        self.user_texts = [m.content for m in self.calls[0].messages or () if m.role == "user"]
        """The user messages that the first model call was sent."""
        # The first agent may be sent the user's message in other words.
        named = "" if self.is_bare else root.text
        self.text = named or "".join(self.user_texts[-1:])
        self.failed = root.failed and not self.is_bare
        self.around = around

    @property
    def own(self) -> Mapping[str, JsonValue]:
        """Return the facts of a run of simkit; empty for others."""
        return self.root.attributes if {*_OF_TURN} <= {*self.root.attributes} else {}

    @cached_property
    def asking(self) -> set[str]:
        """Return the steps within which models were asked."""
        return {step.id for call in self.calls for step in outwards(call, self.around)}

    def gaps(self) -> Iterator[str]:
        """Yield the agents that lack a model call."""
        for step in self.steps:
            is_function = self.own and names.OUTPUT not in step.attributes
            if step.kind == "agent" and step.id not in self.asking and not is_function:
                yield f"agent {step.name!r} ran, and the trace has no model call of it"
            yield from step.missing if step.kind not in ("model", "tool") else ()
            if [*outwards(step, self.around)][-1].parent in self.around:
                yield f"span {step.name!r} is its own ancestor: its parent is unknown"
        parents = [step.parent for step in self.steps]
        if broken := [parent for parent in parents if parent and parent not in self.around]:
            yield f"the file lacks the parent of {counted(len(broken), 'span')}"
        if parents.count("") > 1:
            yield f"a trace has several outermost spans, {self.root.name!r} and others"
        count = self.own.get(names.SPANS, len(self.steps))
        if count != len(self.steps):
            number, known = self.own[names.TURN], len(self.steps)
            yield f"turn {number}: the file has {known} of its {count} spans"


def _agent_of(call: Step, around: Mapping[str, Step]) -> str:
    """Return the agent of a call: the nearest that a step around it runs, else its own."""
    if call.agent and (names.SCENARIO in call.attributes or node_metadata(call.attributes)):
        return call.agent
    return next((at.name for at in outwards(call, around) if at.kind == "agent"), call.agent)


class _Growing:
    """A conversation to which traces are added."""

    def __init__(self, first: _Unit) -> None:
        self._units: list[_Unit] = []
        self._session, self._is_bare = first.session, first.is_bare
        self._turns: list[tuple[RecordedTurn, list[_Unit]]] = []
        self.beginning, self._failures = first, set[str]()
        self.is_split = False
        """Whether one that began meanwhile with the same message may be a part of it."""

    @property
    def end(self) -> int:
        """Return when its first trace ended."""
        return max(step.end for step in self.beginning.steps)

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
        turn.calls = sorted([*turn.calls, *unit.calls], key=lambda call: call.start)
        tools = [step for step in unit.steps if step.kind == "tool"]
        turn.asking |= {step.name for step in tools if step.id in unit.asking}
        turn.tools += [step for step in tools if step.name not in turn.asking]
        turn.failed = turn.failed or unit.failed
        self._failures |= {str(s.attributes.get(names.CALL_ID)) for s in tools if s.failed}
        for call in turn.calls:
            call.failures = self._failures
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
        for where, turn, call in calls_of(turns):
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
        if len(self._units) > 1 and not self._session:
            yield (
                "the trace names no conversation: simkit reads its model calls as one, and finds "
                "turns by the user's messages"
            )
        if self.is_split:
            yield (
                "another conversation began meanwhile with the same message: if both are one turn, "
                "no span is around it"
            )
        calls = [*chain.from_iterable(turn.calls for turn in turns)]
        if "assistant" in [message.role for message in calls[0].messages or ()]:
            yield (
                "the first model call was sent earlier replies: they are examples of its prompt, "
                "or turns before this trace"
            )
        yield from chain.from_iterable(map(_Unit.gaps, self._units))
        yield from lines_of_spans([*chain.from_iterable(unit.steps for unit in self._units)], turns)
        for number, turn in enumerate(turns, 1):
            yield from (f"turn {number}{line}" for line in _gaps_of(turn))
        for where, _, call in calls_of(turns):
            yield from (f"{where}: {line}" for line in lines_of_call(call))
        yield from lines_of_contexts(turns)
        if not all(call.agent for call in calls):
            yield (
                "no span names the agents: they are told by their instructions, and named by them"
            )


def _gaps_of(turn: RecordedTurn) -> Iterator[str]:
    """Yield the ends of the lines on the gaps of a turn."""
    settings = turn.own.get(names.SETTINGS)
    for key in settings if isinstance(settings, list) else ():
        yield f": the value of `{key}`, which the run's scenario sets: write it"
    last = turn.calls[-1].answer
    if last is not None and last.calls and not turn.failed:
        yield f" ends with a call of {last.calls[0].name!r}, and no reply"
    yield from lines_of_tools(turn)

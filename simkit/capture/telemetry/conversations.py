"""Conversations: the steps of an export by their users' messages, and what of them is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.spans import Step
from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.core.text import counted, short

_OF_TURN: Final = (names.SCENARIO, names.PIPELINE, names.SESSION, names.TURN)
_TEXT_MAX: Final = 60
"""The length of a text in a line."""


class RecordedTurn(msgspec.Struct):
    """One message of the user, and all that it caused."""

    user: str
    own: Mapping[str, JsonValue] = {}
    """Its facts in a run of simkit, by names of `conventions`; empty for others."""
    calls: list[Step] = []
    """The model calls, as they began."""
    agents: list[str] = []
    """The agent of each call; empty where the export does not say it."""
    tools: list[Step] = []
    targets: list[str] = []
    """The agents that were handed to."""
    asking: frozenset[str] = frozenset()
    """The tools inside which models were asked, so that they are no fixed results."""
    failed: bool = False
    """Whether it ended with an error."""


class RecordedConversation(msgspec.Struct):
    """One user's conversation."""

    name: str
    turns: list[RecordedTurn] = []
    missing: list[str] = []
    """The gaps of the export without which a scenario is right."""
    refused: list[str] = []
    """Why no scenario can be made of it."""
    own: Mapping[str, JsonValue] = {}
    """The facts of a run of simkit; empty for others."""


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
                where = f"turn {number}, {_call_name(turn, place)}"
                if call.answer is None and call.error is None:
                    yield f"{where}: the model's reply is not in the trace{_why(call)}"
                elif any("reply" in text for text in call.missing):
                    yield f"{where}: {'; '.join(call.missing)}"
                for ask in call.answer.calls if call.answer else ():
                    if not isinstance(ask.args, Mapping):
                        yield f"{where}: the arguments of its call of {ask.name!r} are no object"
                if not call.start and sum(len(turn.calls) for turn in turns) > 1:
                    yield f"{where}: it has no time, so the order of the calls is unknown"
        yield from _gaps(turns)

    def _missing(self, turns: Sequence[RecordedTurn]) -> Iterator[str]:
        if broken := sum(len(unit.broken) for unit in self._units):
            yield f"the file lacks the parent of {counted(broken, 'span')}"
        if len(self._units) > 1 and self._is_bare and not self._session:
            yield (
                "the trace has only model calls, and names no conversation: simkit reads them as "
                "one conversation, and finds turns by the user's messages"
            )
        calls = [*chain.from_iterable(turn.calls for turn in turns)]
        if "assistant" in [message.role for message in calls[0].messages or ()]:
            yield (
                "the first model call was sent earlier replies: they are examples of its prompt, "
                "or turns before this trace"
            )
        yield from chain.from_iterable(map(_Unit.gaps, self._units))
        for number, turn in enumerate(turns, 1):
            yield from _missing_in(turn, number)
        if True in [call.lacks_texts for call in calls]:
            yield "texts beside tool calls: events of these conventions leave them out"
        if not all(map(all, (turn.agents for turn in turns))):
            yield (
                "no span names the agents: they are told by their instructions, and named by them"
            )


def _missing_in(turn: RecordedTurn, number: int) -> Iterator[str]:
    """Yield the gaps of a turn without which a scenario is right."""
    settings = turn.own.get(names.SETTINGS)
    for key in settings if isinstance(settings, list) else ():
        yield f"turn {number}: the value of `{key}`, which the run's scenario sets: write it"
    last = turn.calls[-1].answer
    if last is not None and last.calls and not turn.failed:
        yield f"turn {number} ends with a call of {last.calls[0].name!r}, and no reply"
    for place, call in enumerate(turn.calls):
        for line in _missing_of(call, turn):
            yield f"turn {number}, {_call_name(turn, place)}: {line}"
    yield from _unasked(turn, number)
    for line in dict.fromkeys(f"{t.name!r}: {text}" for t in turn.tools for text in t.missing):
        yield f"turn {number}, tool {line}"
    lacking = [t.name for t in turn.tools if t.result is ABSENT and not t.failed]
    for name in dict.fromkeys([*lacking, *_calls_without_result(turn)]):
        yield f"turn {number}, tool {name!r}: its result is not in the trace"


def _unasked(turn: RecordedTurn, number: int) -> Iterator[str]:
    """Yield what happened in a turn, and no reply asks for."""
    asks = [ask.name for call in turn.calls if call.answer for ask in call.answer.calls]
    used = {tool.name for tool in turn.tools}
    for name in sorted(used.difference(asks)):
        yield f"turn {number}, tool {name!r}: it ran, and no reply in the trace calls it"
    if len(turn.targets) > sum(name not in used for name in asks):
        yield f"turn {number}: control went to {turn.targets[0]!r}, and no reply hands it over"


def _missing_of(call: Step, turn: RecordedTurn) -> Iterator[str]:
    """Yield the gaps of a model call."""
    if call.messages is None:
        yield f"what the model was sent is not in the trace{_why(call)}"
    elif call.missing:
        yield "; ".join(call.missing)
    if not all(message.content or message.calls for message in call.messages or ()):
        yield "a message that it was sent is empty, or its text was not captured"
    answer = call.answer
    if answer is not None and not (answer.content or answer.calls or call.error):
        yield "the model's reply is empty, or was not captured"
    for name in _edited(call, turn):
        yield f"it was sent the call of {name!r} with other arguments than its reply has"


def _edited(call: Step, turn: RecordedTurn) -> Iterator[str]:
    """Yield the tools whose calls have other arguments in a context than in their replies."""
    replies: dict[str, list[JsonValue]] = {}
    for ask in chain.from_iterable(c.answer.calls for c in turn.calls if c.answer):
        replies.setdefault(ask.id, []).append(ask.args)
    for ask in chain.from_iterable(message.calls for message in call.messages or ()):
        if ask.id and ask.args not in replies.get(ask.id, [ask.args]):
            yield ask.name


def _calls_without_result(turn: RecordedTurn) -> Iterator[str]:
    """Yield the tools of calls after which their agent was asked again, if nothing has a result."""
    results = {m.call_id for call in turn.calls for m in call.messages or () if m.role == "tool"}
    known = {*turn.asking, *(tool.name for tool in turn.tools)}
    for place, (call, agent) in enumerate(zip(turn.calls, turn.agents, strict=True)):
        asks = call.answer.calls if call.answer and agent in turn.agents[place + 1 :] else ()
        for ask in asks:
            if ask.id not in results and ask.name not in known and not ask.is_handoff:
                yield ask.name


def _gaps(turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what later contexts tell of model calls that the export does not have."""
    known = _Known()
    for number, turn in enumerate(turns, 1):
        for place, (call, agent) in enumerate(zip(turn.calls, turn.agents, strict=True)):
            where = f"turn {number}, {_call_name(turn, place)}"
            if place == 0 and call.messages and call.messages[-1].role == "tool":
                yield f"{where}: it was sent results of tools first: model calls before are missing"
            is_after = False
            for message in call.messages or ():
                if gap := known.gap(message, agent, is_after=is_after):
                    yield f"{where}: it was sent {gap}: a model call is missing"
                known.add(message)
                is_after = is_after or (message.role == "user" and message.content == turn.user)
            known.agents.add(agent)
            if call.answer is not None:
                known.add(call.answer)


class _Known:
    """The replies and calls that the calls so far show.

    An agent's first context may begin with examples of its prompt.
    """

    def __init__(self) -> None:
        self.agents: set[str] = set()
        self._calls: set[str] = set()
        self._texts: set[str] = set()

    def add(self, message: Message) -> None:
        """Take a message into account."""
        self._calls |= {call.id for call in message.calls}
        self._texts.add(message.content)

    def gap(self, message: Message, agent: str, *, is_after: bool) -> str:
        """Return what of a message no reply in the trace has; empty for nothing.

        ``is_after`` says that it stands after the turn's message, as no example of a prompt does.
        """
        is_new = agent not in self.agents
        if message.role != "assistant" or (is_new and not is_after):
            return ""
        for call in message.calls:
            # Frameworks write such calls themselves, when control goes back.
            if call.id and call.id not in self._calls and not call.name.startswith("transfer_back"):
                return f"a call of {call.name!r} that no reply in the trace asks for"
        if is_new:
            return ""  # Code may begin a reply itself.
        is_derived = any(text and text in message.content for text in self._texts)
        if message.calls or message.content in self._texts or is_derived:
            return ""
        return f"the reply {short(message.content, _TEXT_MAX)!r} that no model gives in the trace"


def _call_name(turn: RecordedTurn, place: int) -> str:
    agent = turn.agents[place]
    index = turn.agents[:place].count(agent)
    return f"{agent}[{index}]" if agent else f"model call {place}"


def _why(call: Step) -> str:
    if call.missing:
        return f": {'; '.join(call.missing)}"
    if call.failed:
        return f": {call.status.strip() or 'it failed, and its span does not say how'}"
    if not call.end:
        return ": its span did not end"
    return ": the exporter did not capture content"

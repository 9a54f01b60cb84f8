"""Gaps: what the parts of an export tell of those that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.recorded import RecordedTurn
from simkit.capture.telemetry.spans import Step
from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.core.text import short


def missing_in(turn: RecordedTurn, number: int) -> Iterator[str]:
    """Yield the gaps of a turn without which a scenario is right."""
    settings = turn.own.get(names.SETTINGS)
    for key in settings if isinstance(settings, list) else ():
        yield f"turn {number}: the value of `{key}`, which the run's scenario sets: write it"
    last = turn.calls[-1].answer
    if last is not None and last.calls and not turn.failed:
        yield f"turn {number} ends with a call of {last.calls[0].name!r}, and no reply"
    for place, call in enumerate(turn.calls):
        for line in _missing_of(call, turn):
            yield f"turn {number}, {call_name(turn, place)}: {line}"
    yield from _unasked(turn, number)
    for line in dict.fromkeys(f"{t.name!r}: {text}" for t in turn.tools for text in t.missing):
        yield f"turn {number}, tool {line}"
    lacking = [t.name for t in turn.tools if t.result is ABSENT and not t.failed]
    for name in dict.fromkeys([*lacking, *_calls_without_result(turn)]):
        yield f"turn {number}, tool {name!r}: its result is not in the trace"


def _unasked(turn: RecordedTurn, number: int) -> Iterator[str]:
    """Yield what happened in a turn, and no reply asks for."""
    asks = [ask.name for call in turn.calls if call.answer for ask in call.answer.calls]
    used = {*turn.asking, *(tool.name for tool in turn.tools)}
    for name in sorted(used.difference(asks)):
        yield f"turn {number}, tool {name!r}: it ran, and no reply in the trace calls it"
    if len(turn.targets) > sum(name not in used for name in asks):
        yield f"turn {number}: control went to {turn.targets[0]!r}, and no reply hands it over"


def _missing_of(call: Step, turn: RecordedTurn) -> Iterator[str]:
    """Yield the gaps of a model call."""
    if call.messages is None:
        yield f"what the model was sent is not in the trace{why(call)}"
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


def missing_calls(turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what later contexts tell of model calls that the export does not have."""
    known = _Known()
    for number, turn in enumerate(turns, 1):
        for place, (call, agent) in enumerate(zip(turn.calls, turn.agents, strict=True)):
            where = f"turn {number}, {call_name(turn, place)}"
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
        return f"the reply {short(message.content, 60)!r} that no model gives in the trace"


def call_name(turn: RecordedTurn, place: int) -> str:
    agent = turn.agents[place]
    index = turn.agents[:place].count(agent)
    return f"{agent}[{index}]" if agent else f"model call {place}"


def why(call: Step) -> str:
    if call.missing:
        return f": {'; '.join(call.missing)}"
    if call.failed:
        return f": {call.status.strip() or 'it failed, and its span does not say how'}"
    if not call.end:
        return ": its span did not end"
    return ": the exporter did not capture content"

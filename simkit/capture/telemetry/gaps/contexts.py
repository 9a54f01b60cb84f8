"""Lines on what the contexts of model calls tell of calls, messages and tools that others lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import chain

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.gaps.calls import TEXT_MAX, calls_of
from simkit.capture.telemetry.recorded import RecordedTurn
from simkit.capture.telemetry.spans import Step, messages_of
from simkit.core.messages import Message
from simkit.core.text import short


def missing_calls(turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what later contexts tell of model calls that the export does not have."""
    identities, texts, agents = set[str](), set[str](), set[str]()
    for where, turn, call in calls_of(turns):
        if call is turn.calls[0] and call.messages and call.messages[-1].role == "tool":
            yield f"{where}: it was sent results of tools first: model calls before are missing"
        # An agent's first context may begin with examples of its prompt.
        is_own = call.agent in agents
        for message in call.messages or ():
            is_own = is_own or (message.role == "user" and message.content == turn.user)
            gap = _gap(message, identities, texts, is_new=call.agent not in agents)
            if is_own and gap and message.role == "assistant":
                yield f"{where}: it was sent {gap}: a model call is missing"
            identities |= {ask.id for ask in message.calls}
            texts.add(message.content)
        agents.add(call.agent)
        if call.answer is not None:
            identities |= {ask.id for ask in call.answer.calls}
            texts.add(call.answer.content)


def _gap(message: Message, identities: Set[str], texts: Set[str], *, is_new: bool) -> str:
    """Return what of a reply no earlier message has; empty for nothing."""
    for call in message.calls:
        # Frameworks write such calls themselves, when control goes back.
        if call.id and call.id not in identities and not call.name.startswith("transfer_back"):
            return f"a call of {call.name!r} that no reply in the trace asks for"
    is_derived = message.content in texts or any(t and t in message.content for t in texts)
    if is_new or message.calls or is_derived:  # Code may begin a reply itself.
        return ""
    return f"the reply {short(message.content, TEXT_MAX)!r} that no model gives in the trace"


def lines_of_contexts(turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what the calls' contexts tell of messages and tools that they lack."""
    calls = [*chain.from_iterable(turn.calls for turn in turns)]
    if any(call.lacks_texts for call in calls):
        yield "texts beside tool calls: events of these conventions leave them out"
    yield from _changed(calls)
    for where, _, call in calls_of(turns):
        yield from (f"{where}: {line}" for line in _lost_from(call, calls))


def _changed(calls: Sequence[Step]) -> Iterator[str]:
    """Yield the calls and results that stand in several forms, by their ids."""
    forms: dict[str, set[str]] = {}
    has_texts = not any(call.lacks_texts for call in calls)
    for message in chain.from_iterable(map(messages_of, calls)):
        text = message.content if has_texts or message.role == "tool" else ""
        for ask in message.calls:
            forms.setdefault(f"call {ask.id!r}", set()).add(f"{ask.name} {ask.args} {text}")
        if message.role == "tool":
            forms.setdefault(f"result of call {message.call_id!r}", set()).add(text)
    for name, own in forms.items():
        if len(own) > 1 and not name.endswith(" ''"):
            yield f"the {name} stands in {len(own)} forms: code changed it, or the export did"


def _lost_from(call: Step, calls: Sequence[Step]) -> Iterator[str]:
    asks, results = dict[str, str](), dict[str, str]()
    for message in call.messages or ():
        if message.role == "tool" and message.call_id:
            results[message.call_id] = message.tool
            if message.call_id not in asks:
                yield f"it was sent a result of {message.tool or 'a tool'!r}, and not the call"
        asks |= {ask.id: ask.name for ask in message.calls if ask.id}
    for identity in sorted(asks.keys() - results.keys()):
        yield f"it was sent a call of {asks[identity]!r}, and no result of it"
    if call.lacks_texts and not _instructions(call) and any(map(_instructions, calls)):
        yield "no instructions are in what it was sent, and other calls have some"
    if names.RUN not in call.attributes:
        yield from _left_out(call, calls)


def _left_out(call: Step, calls: Sequence[Step]) -> Iterator[str]:
    """Yield the messages that other contexts have; code itself may leave out the first ones."""
    instructions, own = _instructions(call), [*map(_likeness, call.messages or ())]
    for earlier in reversed(calls[: calls.index(call)]):
        others = [m for m in messages_of(earlier) if m.role != "system"]
        shared = [index for index, m in enumerate(others) if _likeness(m) in own]
        if _instructions(earlier) == instructions and shared:
            # Each message may be an event, which may be lost alone.
            within = others if call.lacks_texts else others[: shared[-1]]
            lost = [message for message in within if _likeness(message) not in own]
            if lost:
                text = f"the {lost[0].role} message {short(lost[0].content, TEXT_MAX)!r}"
                yield f"it was not sent {text} again: code left it out, or the export did"
            return


def _likeness(message: Message) -> tuple[str, ...]:
    """Return by what a message is known again: events leave out the texts beside calls."""
    own = [call.id for call in message.calls] or [message.content]
    return message.role, *own


def _instructions(call: Step) -> str:
    return "\n".join(m.content for m in call.messages or () if m.role == "system")

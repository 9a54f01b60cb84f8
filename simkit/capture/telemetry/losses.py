"""Losses: what the spans and messages of a conversation tell of others that the file lacks.

Each line is a fact of the file that a whole export seldom has: a graph's node that asks no model,
a context that leaves out what an earlier one has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from simkit.capture.telemetry.gaps import call_name
from simkit.capture.telemetry.recorded import RecordedTurn
from simkit.capture.telemetry.spans import Step, node_metadata
from simkit.core.messages import HANDOFF_PREFIX, Message
from simkit.core.text import short

_TEXT_MAX: Final = 60
ONLY_CALLS: Final = "the trace has only model calls: of a lost one, only later ones tell"
"""Said of clients by hand, which have no spans around their calls."""


def is_structured(steps: Sequence[Step]) -> bool:
    """Return whether an exporter writes tools, agents and nodes beside model calls."""
    kinds = ("tool", "agent", "handoff")
    return any(step.kind in kinds or node_metadata(step.attributes) for step in steps)


def lost_spans(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what the spans of a conversation tell of spans that the file lacks."""
    if any(turn.own for turn in turns):
        return  # Runs of simkit have a count of their spans.
    if not is_structured(steps):
        yield ONLY_CALLS
        yield from _texts_of_nobody(turns)
        return
    for step in steps:
        if not step.end and step.kind != "model":
            yield f"the file does not have the end of {step.name!r}"
    if idle := [*dict.fromkeys(_idle(steps))]:
        where = ", ".join(map(repr, idle))
        yield f"no model call or tool is within {where}: code alone, or the file lacks the spans"
    yield from _calls_without_span(steps, turns)
    yield from _ends_of_nobody(steps, turns)


def _idle(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the nodes without a span of a model or a tool, and what is called as their likes."""
    around = {step.id: step for step in steps}
    busy, asking = set[str](), set[str]()
    for step in steps:
        at = around.get(step.parent) if step.kind in ("model", "tool", "handoff") else None
        asking |= {at.name} if at is not None and step.kind == "model" else set()
        while at is not None:
            busy.add(at.id)
            at = around.get(at.parent)
    for step in steps:
        is_node = node_metadata(step.attributes).get("langgraph_node") == step.name
        if step.kind == "other" and step.id not in busy and (is_node or step.name in asking):
            yield step.name


def _calls_without_span(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield the tools that replies call more often than they have spans."""
    asks = Counter(ask.name for call in _calls(turns) if call.answer for ask in call.answer.calls)
    lacking = asks - Counter(step.name for step in steps if step.kind == "tool")
    handoffs = sum(step.kind == "handoff" for step in steps)
    for name in sorted(lacking, key=lambda name: not name.startswith(HANDOFF_PREFIX)):
        known = min(lacking[name], handoffs)
        handoffs -= known
        if count := lacking[name] - known:
            yield (
                f"tool {name!r}: {count} of its {asks[name]} calls without a span: a result is a "
                "later context's, and an error reads as one"
            )


def _calls(turns: Sequence[RecordedTurn]) -> Iterator[Step]:
    return chain.from_iterable(turn.calls for turn in turns)


def _ends_of_nobody(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield the texts with which agents ended, if nothing else in the trace has them."""
    texts = {turn.user for turn in turns} | {str(s.result) for s in steps if s.kind == "tool"}
    for call in _calls(turns):
        texts |= {m.content for m in (*(call.messages or ()), *filter(None, [call.answer]))}
    texts.discard("")
    for text in dict.fromkeys(step.outcome for step in steps if step.outcome and not step.failed):
        if not any(text in known or known in text for known in texts):
            yield f"{short(text, _TEXT_MAX)!r} is an outcome that no model in the trace gives"


def _texts_of_nobody(turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what stands beside models' replies in later requests, where nothing else tells it."""
    for turn in turns:
        replies = list[str]()
        for call in turn.calls:
            rest = next((m.content for m in reversed(call.messages or ()) if m.role == "user"), "")
            parts = [text for text in (*replies, turn.user) if text and text in rest]
            for part in sorted(parts, key=len, reverse=True):
                rest = rest.replace(part, " ")
            if not {*parts} <= {turn.user} and any(map(str.isalnum, rest)):
                text = short(rest.strip(), _TEXT_MAX)
                yield f"{text!r} stands beside replies in a request: of code, or of a missing call"
            replies += [call.answer.content] if call.answer else []


def lost_messages(turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what the calls' contexts tell of messages that they lack."""
    calls = [*_calls(turns)]
    if True in [call.lacks_texts for call in calls]:
        yield "texts beside tool calls: events of these conventions leave them out"
    for number, turn in enumerate(turns, 1):
        for place, call in enumerate(turn.calls):
            for line in _lost_from(call, calls):
                yield f"turn {number}, {call_name(turn, place)}: {line}"


def _lost_from(call: Step, calls: Sequence[Step]) -> Iterator[str]:
    asks, results = dict[str, str](), set[str]()
    for message in call.messages or ():
        if message.role == "tool" and message.call_id and message.call_id not in asks:
            yield f"it was sent a result of {message.tool or 'a tool'!r}, and not the call"
        asks |= {ask.id: ask.name for ask in message.calls if ask.id}
        results |= {message.call_id} if message.role == "tool" else set()
    for identity, name in asks.items():
        if identity not in results:
            yield f"it was sent a call of {name!r}, and no result of it"
    if call.lacks_texts:  # Each message is an event, which may be lost alone.
        yield from _left_out(call, calls)


def _left_out(call: Step, calls: Sequence[Step]) -> Iterator[str]:
    """Yield the messages that other contexts have."""
    instructions, own = _instructions(call), {*map(_likeness, call.messages or ())}
    if not instructions and any(map(_instructions, calls)):
        yield "no instructions are in what it was sent, and other calls have some"
    for earlier in reversed(calls[: calls.index(call)]):
        others = [m for m in earlier.messages or () if m.role != "system"]
        others += [earlier.answer] if earlier.answer is not None else []
        if _instructions(earlier) == instructions and own & {*map(_likeness, others)}:
            for message in others:
                if _likeness(message) not in own:
                    name = f"the {message.role} message {short(message.content, _TEXT_MAX)!r}"
                    yield f"it was not sent {name} again: code left it out, or the export did"
            return


def _likeness(message: Message) -> tuple[str, ...]:
    """Return by what a message is known again: events leave out the texts beside calls."""
    own = [call.id for call in message.calls] or [message.content]
    return message.role, *own


def _instructions(call: Step) -> str:
    return "\n".join(m.content for m in call.messages or () if m.role == "system")

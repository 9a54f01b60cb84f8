"""Lines on what an export lacks: what its calls, contexts, spans and texts tell of lost parts."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.exports import DAY_NS
from simkit.capture.telemetry.messages import texts_in
from simkit.capture.telemetry.recorded import RecordedTurn
from simkit.capture.telemetry.spans import Step, messages_of, node_metadata, outwards
from simkit.core.messages import ABSENT, HANDOFF_PREFIX, Message
from simkit.core.text import short

# Model calls: gaps without which a scenario is right

TEXT_MAX: Final = 60
"""The letters of a message that a line shows."""


def lines_of_call(call: Step) -> Iterator[str]:
    """Yield the gaps of a model call without which a scenario is right."""
    if call.messages is None:
        yield f"what the model was sent is not in the trace{why(call)}"
    elif call.missing:
        yield "; ".join(call.missing)
    if not all(message.content or message.calls for message in call.messages or ()):
        yield "a message that it was sent is empty, or its text was not captured"
    answer = call.answer
    if answer is not None and not (answer.content or answer.calls or call.error):
        yield "the model's reply is empty, or was not captured"


def calls_of(turns: Sequence[RecordedTurn]) -> Iterator[tuple[str, RecordedTurn, Step]]:
    """Yield each call of each turn, with its name in a line."""
    for number, turn in enumerate(turns, 1):
        counts = Counter[str]()
        for index, call in enumerate(turn.calls):
            name = f"{call.agent}[{counts[call.agent]}]" if call.agent else f"model call {index}"
            counts[call.agent] += 1
            yield f"turn {number}, {name}", turn, call


def why(call: Step) -> str:
    """Return the cause for which a part of a call is not there, as the end of a line."""
    if call.missing:
        return f": {'; '.join(call.missing)}"
    if call.failed:
        return f": {call.status.strip() or 'it failed, and its span does not say how'}"
    if not call.end:
        return ": its span did not end"
    return ": the exporter did not capture content"


# Contexts, which repeat calls, messages and tools


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


# Spans: these facts are seldom in a whole export, such as a node that asks no model


_ROUNDED_NS: Final = 10**6
ONLY_CALLS: Final = "the trace has only model calls: of a lost one, only later ones tell"
"""Said of clients by hand, which have no spans around their calls."""


def lines_of_spans(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield what the spans of a conversation tell of spans that the file lacks."""
    if any(turn.own for turn in turns):
        return  # Runs of simkit have a count of their spans, and virtual time.
    yield from _clocks(steps)
    kinds = ("tool", "agent", "handoff")
    if not any(step.kind in kinds or node_metadata(step.attributes) for step in steps):
        yield ONLY_CALLS
        return
    for step in steps:
        if not step.end and step.kind != "model":
            yield f"the file does not have the end of {step.name!r}"
    if idle := [*dict.fromkeys(_idle(steps))]:
        where = ", ".join(map(repr, idle))
        yield f"no model call or tool is within {where}: code alone, or the file lacks the spans"
    yield from _calls_without_span(steps, turns)


def _clocks(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the spans whose times cannot be right beside others."""
    around = {step.id: step for step in steps}
    for step in steps:
        outer = around.get(step.parent, step)
        if not step.start:
            yield f"the file does not have the beginning of {step.name!r}"
        elif step.end and not 0 <= step.end - step.start < DAY_NS:
            yield f"{step.name!r} ends before it begins, or a day later: its clock is wrong"
        elif not outer.start - _ROUNDED_NS < step.start < (outer.end or step.start) + _ROUNDED_NS:
            yield f"{step.name!r} begins before or after {outer.name!r}, which is around it"


def _idle(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the nodes without a span of a model or a tool, and what is called as their likes."""
    around = {step.id: step for step in steps}
    busy, asking = set[str](), set[str]()
    for step in steps:
        if step.kind in ("model", "tool", "handoff"):
            outer = [*outwards(step, around)][1:]
            asking |= {at.name for at in outer[:1] if step.kind == "model"}
            busy |= {at.id for at in outer}
    for step in steps:
        node = node_metadata(step.attributes).get("langgraph_node")
        is_node = node is not None and step.name.split(" ")[-1] == node
        if step.kind == "other" and step.id not in busy and (is_node or step.name in asking):
            yield step.name


def _calls_without_span(steps: Sequence[Step], turns: Sequence[RecordedTurn]) -> Iterator[str]:
    """Yield the tools that replies call more often than they have spans."""
    asks = Counter(ask.name for turn in turns for ask in turn.asks)
    lacking = asks - Counter(step.name for step in steps if step.kind == "tool")
    handoffs = sum(step.kind == "handoff" for step in steps)
    for name in sorted(lacking, key=lambda name: not name.startswith(HANDOFF_PREFIX)):
        explained = min(lacking[name], handoffs)
        handoffs -= explained
        if count := lacking[name] - explained:
            yield (
                f"tool {name!r}: {count} of its {asks[name]} calls without a span: a result is a "
                "later context's, and an error reads as one"
            )


def lines_of_tools(turn: RecordedTurn) -> Iterator[str]:
    """Yield what the tools and handoffs of a turn tell of replies, and lack themselves."""
    asks = [ask.name for ask in turn.asks]
    used = {*turn.asking, *(tool.name for tool in turn.tools)}
    for name in sorted(used.difference(asks)):
        yield f", tool {name!r}: it ran, and no reply in the trace calls it"
    if len(turn.targets) > sum(name not in used for name in asks):
        yield f": control went to {turn.targets[0]!r}, and no reply hands it over"
    for line in dict.fromkeys(f"{t.name!r}: {text}" for t in turn.tools for text in t.missing):
        yield f", tool {line}"
    for tool in turn.tools:
        yield from _other_copies(tool, turn)
    lacking = [t.name for t in turn.tools if t.result is ABSENT and not t.failed]
    for name in dict.fromkeys(lacking):
        yield f", tool {name!r}: its result is not in the trace"
    yield from _unsent(turn)


def _unsent(turn: RecordedTurn) -> Iterator[str]:
    """Yield the tools whose agent is asked no more once they have run."""
    last = {call.agent: call for call in turn.calls}
    ran = {*turn.asking, *(tool.name for tool in turn.tools)}
    for agent, call in last.items():
        for ask in call.answer.calls if call.answer is not None else ():
            if ask.name in ran:
                yield (
                    f", tool {ask.name!r}: it ran, and its result was sent to no model: "
                    f"code ended {agent!r} there, or the file lacks a call"
                )


def _other_copies(tool: Step, turn: RecordedTurn) -> Iterator[str]:
    """Yield what a tool's span lacks, or has otherwise than replies and contexts."""
    if tool.failed and not tool.status.strip():
        yield f", tool {tool.name!r}: it failed, and its span does not say how"
    args = [ask.args for ask in turn.asks if ask.name == tool.name]
    if args and isinstance(tool.args, Mapping) and tool.args not in args:
        yield f", tool {tool.name!r}: it ran with other arguments than a reply has"
    results = [m.content for c in turn.calls for m in c.messages or () if m.tool == tool.name]
    if isinstance(tool.result, str) and results and tool.result not in "\n".join(results):
        yield f", tool {tool.name!r}: its result is another than what a model was sent"


# Texts of which others are longer


def cut_texts(steps: Sequence[Step], objects: Sequence[Any]) -> Iterator[str]:
    """Yield the texts that stand once in a file, and of which others have more."""
    counts = Counter(texts_in(objects))
    texts, ordered = {text for step in steps for text in _texts_of(step) if text}, sorted(counts)
    for text in sorted(texts):
        longer = next(iter(ordered[bisect_right(ordered, text) :][:1]), "")
        rest = longer.removeprefix(text)
        # Code makes longer texts of several whole ones.
        is_made = any(len(other) > 1 and other in rest for other in texts)
        if counts[text] < 2 and longer.startswith(text) and not is_made:
            part, whole = short(text, TEXT_MAX), short(longer, TEXT_MAX)
            yield f"{part!r} may be cut off: elsewhere it is {whole!r}"


def _texts_of(step: Step) -> Iterator[str]:
    yield from (step.text, step.agent)
    yield step.name if step.kind in ("agent", "tool", "handoff") else ""
    for message in messages_of(step):
        yield message.content
        yield from (call.name for call in message.calls)

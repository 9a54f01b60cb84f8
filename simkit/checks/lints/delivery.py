"""Lints on what the target of a handoff gets: the request, the data, and where each belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, lint, texts_of
from simkit.checks.lints.handoffs import HandoffEvent, contract_of, required_keys
from simkit.core.messages import JsonValue, Message
from simkit.core.text import parted_at
from simkit.language.paths import leaves
from simkit.trace import events as e
from simkit.trace.views import Arrival, CallView, HistoryView, InlinePart, View
from simkit.trace.views.arrivals import SETTLED_MAX


def first_call_of_target(
    event: e.ContextBuilt, view: View
) -> tuple[CallView, e.HandoffRequested] | None:
    """Return the call and its handoff, if this is the first context of a handoff's target.

    A summarizing agent's call within the target's run does not count.
    """
    if event.base:
        return None
    run = view.runs.get(event.run)
    if run is None or not run.handoff or run.agent != event.agent or len(run.calls) != 1:
        return None
    handoff = view.handoffs.get(run.handoff)
    return (run.calls[0], handoff.event) if handoff is not None else None


def _data(handoff: HandoffEvent) -> dict[str, JsonValue]:
    return {"from": handoff.from_agent, "to": handoff.to_agent, "type": handoff.type}


class _LostRequests(list["_Lost"]):
    """The requests that code has lost in the turn, until the use of the targets is known."""


@lint("HND-03", e.TurnFinished, when=_LostRequests)
def _lost_by_code(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    return [hit for loss in facts.notes.pop(_LostRequests) for hit in loss.hits(facts.view)]


@lint("HND-03", e.ContextBuilt, when="handed_over")
def request_lost(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """HND-03: the target's first context contains the user's latest message or the handoff's query.

    The message is recognized by its id or its text, and the query by its text, anywhere in what was
    made for this call or said in this turn. If code builds the context, texts inside JSON messages
    count too, and of a delegation any text of its payload: its sender rephrases the request.
    Isolation may be declared: the contract has ``history: none``, or the recipe a ``task``. An
    agent that code uses as a tool answers its caller, not the user. If no adapter says whether it
    is one, the hit is a warning. Seen in agent-framework#3161.
    """
    lost_here = _lost_request(event, facts.view) if event.run in facts.handed_over else None
    if lost_here is not None and facts.is_code:
        facts.notes_of(_LostRequests).append(lost_here)
    elif lost_here is not None:
        yield lost_here.hit


def _lost_request(event: e.ContextBuilt, view: View) -> _Lost | None:
    first_call = first_call_of_target(event, view)
    if first_call is None:
        return None
    call, handoff = first_call
    contract = contract_of(handoff, view.pipeline)
    if contract is not None and contract.history == "none":
        return None
    message = view.turns[-1].message
    isolated = GRAPH_SECTIONS if view.pipeline.flow == "graph" else TASK_SECTIONS
    others = [handoff.query or ""]
    if "sections" not in view.pipeline.observes:
        others += inner_texts(message.data if message is not None else None)
        if view.handoffs[handoff.handoff].mode == "delegate":
            others += inner_texts(handoff.payload)
    parts = call.context.parts
    if is_shown(parts, message, others, isolated):
        return None
    if _is_said_before(parts, handoff, view):
        return None
    missing = (
        "is not sent the user's message"
        if handoff.query is None
        else "is sent neither the user's message nor the query"
    )
    problem = (
        f"agent {event.agent!r}, to which {handoff.from_agent!r} handed off in turn "
        f"{event.turn}, {missing}"
    )
    hit = Hit.at("HND-03", call, problem, **_data(handoff))
    payload_texts = [*inner_texts(handoff.payload)]
    is_asked = bool(payload_texts) and is_shown(parts, None, payload_texts, isolated)
    return _Lost(hit, handoff, len(view.turns[-1].calls), is_asked)


def _is_said_before(
    parts: Sequence[InlinePart | HistoryView], handoff: HandoffEvent, view: View
) -> bool:
    """Return whether the same words were used before.

    The driver may take the request for that message. The native driver knows the user's message by
    its id.
    """
    message = view.turns[-1].message
    words = [handoff.query]
    if view.pipeline.is_code and message is not None:
        words.append(message.content)
    before = {*_texts(parts, settled_max=SETTLED_MAX)}
    return any(text in before for text in words if text)


class _Lost(NamedTuple):
    """A request that its target did not get, before the use of the target is known."""

    hit: Hit
    handoff: HandoffEvent
    calls: int
    """The number of model calls in the turn up to then."""
    is_asked: bool
    """Whether the target got the contents of the handoff itself."""

    def hits(self, view: View) -> Iterable[Hit]:
        """Return the hit, with its severity, at the end of the turn."""
        is_tool = view.handoffs[self.handoff.handoff].mode == "delegate" or self._has_gone_on(view)
        if is_tool and self.is_asked:
            return ()
        is_known = view.pipeline.has_adapter and not is_tool
        return (self.hit if is_known else replace(self.hit, severity="W"),)

    def _has_gone_on(self, view: View) -> bool:
        """Return whether the source calls its model again without having got control back."""
        later = view.turns[-1].calls[self.calls :]
        runs = [view.runs.get(call.run) for call in later if call.agent == self.handoff.from_agent]
        return any(run is not None and not run.handoff for run in runs)


TASK_SECTIONS: Final = frozenset(("task",))
"""Sections that replace the request if somebody else sets the task."""
GRAPH_SECTIONS: Final = TASK_SECTIONS | {"input", "upstream"}
"""In a graph, a node's output is the next node's request."""


def _shows_message(part: InlinePart | HistoryView, identity: str, isolated: frozenset[str]) -> bool:
    """Return whether a part has the message of this id, or is of a section in its place."""
    number = int(identity[1:]) if identity else -1
    if type(part) is InlinePart:
        sections = {part.section, *(piece.section for piece in part.pieces)}
        return part.of == number or not isolated.isdisjoint(sections)
    if not identity:
        return False
    tail = part.tail[max(0, part.lo - part.hi) :]
    return any(message.id == identity for message in tail) or _is_settled(part, number)


def is_shown(
    parts: Sequence[InlinePart | HistoryView],
    turn_message: Message | None,
    others: Sequence[str],
    isolated: frozenset[str],
) -> bool:
    identity = turn_message.id if turn_message is not None else ""
    texts_expected = [
        text for text in (turn_message.content if turn_message else "", *others) if text
    ]
    if not texts_expected:
        return True
    if any(_shows_message(part, identity, isolated) for part in parts):
        return True
    return any(text in text_ for text_ in _texts(parts, settled_max=0) for text in texts_expected)


def inner_texts(value: JsonValue) -> Iterator[str]:
    """Yield the texts inside an object or a list."""
    if not isinstance(value, str):
        yield from (text for text in leaves(value) if isinstance(text, str))


def _is_settled(part: HistoryView, number: int) -> bool:
    """Return whether a message is among the settled ones, searched from the newest on.

    This happens in a resumed turn, or if a driver settles messages that were shown before.
    """
    for index in range(part.hi - 1, part.lo - 1, -1):
        entry = part.stream.entries[index]
        if entry.number <= number:
            return entry.number == number
    return False


def _texts(parts: Sequence[InlinePart | HistoryView], settled_max: int) -> Iterator[str]:
    """Yield the texts of a context: made ones, this turn's, then the newest settled ones."""
    for part in parts:
        if type(part) is InlinePart:
            yield part.message.content
            continue
        if part.rendered is not None:
            yield part.rendered.content
            continue
        if part.summary is not None:
            yield part.summary.content
        tail = part.tail[max(0, part.lo - part.hi) :]
        tail += part.stream.entries[max(part.lo, part.hi - settled_max) : part.hi]
        for message in tail:
            yield from texts_of(message)


class _Waiting(dict[str, CallView]):
    """Runs of targets, each with its first call."""


@lint("HND-12", e.ContextBuilt, when="handed_over")
def context_ignored(event: e.ContextBuilt, facts: Facts) -> None:
    """HND-12: every required key of a delivered payload reaches the target's contexts.

    The contract determines the required keys; if the pipeline is code and has no contract, all keys
    are required. `Arrivals` says whether a value is lost: no text that the target is sent shows it,
    between word boundaries. It is not observable, and no finding, if only a text shows it that
    would be there anyway, or if there is nothing to recognize (true, false, null, an empty text,
    the name of the source or the target). Functions have no context. If a function of the
    application gets the payload beside the target (``on_handoff`` of the OpenAI Agents SDK), the
    payload is meant for that function. From reference system 5, "I don't have context".
    """
    if event.run in facts.handed_over:
        first_call = first_call_of_target(event, facts.view)
        if first_call is not None:
            facts.notes_of(_Waiting)[event.run] = first_call[0]


@lint("HND-12", e.AgentFinished, e.TurnFinished, when=_Waiting)
def _ignored_by_runs(event: e.AgentFinished | e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    waiting = facts.notes_of(_Waiting)
    over = [event.run] if isinstance(event, e.AgentFinished) else [*waiting]
    calls = [waiting.pop(run) for run in over if run in waiting]
    return [hit for call in calls for hit in _ignored(call, facts.view)]


def _ignored(call: CallView, view: View) -> Iterable[Hit]:
    run = view.runs[call.run]
    if run.status in ("failed", "cancelled", "timed_out"):
        return
    handoff = view.handoffs[run.handoff].event
    keys = _states_by_key(view.arrivals.of(run))
    lost = [key for key, state in keys.items() if state == "lost"]
    if not lost:
        return
    data = _data(handoff)
    pair = f"the payload that {handoff.from_agent!r} handed to it in turn {call.turn}"
    required = required_keys(handoff, view.pipeline)
    missing = [key for key in lost if required is None or key in required]
    names = ", ".join(f"`{key}`" for key in missing)
    if len(lost) == len(keys):
        problem = f"{call.agent!r} is sent nothing of {pair}"
        if 0 < len(missing) < len(lost):
            problem += f"; its contract requires {names}"
    elif missing:
        problem = f"{call.agent!r} is not sent {names} of {pair}"
        data |= {"missing": list(missing)}
    else:
        return
    yield Hit.at("HND-12", call, problem, **data)


def _states_by_key(arrivals: Iterable[Arrival]) -> dict[str, str]:
    """Return what became of each key of a payload; without those that no text could show."""
    states: dict[str, str] = {}
    for arrival in arrivals:
        if arrival.state != "unknown" or arrival.is_somewhere:
            states[arrival.key] = max(arrival.state, states.get(arrival.key, ""), key=_STATES.index)
    return states


_STATES: Final = ("", "lost", "unknown", "arrived")
"""From the least to the most: a key has arrived if one of its values has."""


WHOLE_MIN: Final = 80
"""A text of this many characters counts as a document if the query contains all of it."""
CHUNK_MIN: Final = 200
"""A stretch of this many characters counts as a document's, whatever surrounds it."""

DOCUMENT_MIN: Final = 1000
DOCUMENT_LINES_MIN: Final = 10
"""A query with more characters than this, in more lines, counts as a document."""


class _States(dict[str, "_Blocks"]):
    """Session to the blocks of its state's long texts."""

    read = 0
    """The number of events of which the updates are indexed."""


@lint("HND-10", e.HandoffMade)
def data_in_query(event: e.HandoffMade, facts: Facts) -> Iterable[Hit]:
    """HND-10: a delegated query does not contain the document itself.

    It does if it repeats a text of the payload or of the session's given or current state (a whole
    text of at least 80 characters, or a stretch of at least 200; white space is normalized), or if
    it looks like a document: over 1,000 characters in more than ten lines. It may quote messages of
    the conversation. Texts are indexed by blocks of 80 characters when the first long query comes,
    each once, so that a query costs its own length. From reference system 5, anti-patterns.
    """
    raw = event.query or ""
    if len(raw) < WHOLE_MIN:
        return
    states, view = facts.notes_of(_States), facts.view
    for update in view.events[states.read : view.hi]:
        if type(update) is e.StateUpdated:
            states.setdefault(update.session, _Blocks()).add_all(view.new_parts(update)[0])
    states.read = view.hi
    query = " ".join(raw.split())
    query_blocks = _Blocks()
    query_blocks.add_all(event.payload)
    where, size = "the payload", query_blocks.longest_in(query)
    in_state = states.setdefault(event.session, _Blocks()).longest_in(query)
    if in_state > size:
        where, size = "the state", in_state
    pasted = f"holds {size} characters of a text that is in {where}"
    if not size and len(raw) > DOCUMENT_MIN and raw.count("\n") > DOCUMENT_LINES_MIN:
        size, pasted = len(raw), f"is itself a document of {len(raw)} characters"
    if not size:
        return
    problem = (
        f"the query of handoff {event.handoff} from {event.from_agent!r} to "
        f"{event.to_agent!r} in turn {event.turn} {pasted}"
    )
    data = {**_data(event), "characters": size}
    yield Hit.at("HND-10", event, problem, agent=event.from_agent, **data)


class _Blocks:
    """An index of long texts, by any whole block of theirs."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, int]] = {}
        """Block to the newest text that has it, and its offset."""

    def add_all(self, value: Any) -> None:
        """Add every long text inside a value."""
        for leaf in leaves(value):
            if isinstance(leaf, str) and len(leaf) >= WHOLE_MIN:
                text = " ".join(leaf.split())
                for start in range(0, len(text) - WHOLE_MIN + 1, WHOLE_MIN):
                    self._places[text[start : start + WHOLE_MIN]] = text, start

    def longest_in(self, query: str) -> int:
        """Return the length of the longest document stretch in the query; 0 if there is none."""
        longest = index = 0
        places = self._places
        while places and index <= len(query) - WHOLE_MIN:
            candidates = places.get(query[index : index + WHOLE_MIN])
            if candidates is None:
                index += 1
                continue
            text, start = candidates
            after = parted_at(query[index:], text[start:])
            size = parted_at(query[:index][::-1], text[:start][::-1]) + after
            if size >= CHUNK_MIN or size == len(text):
                longest = max(longest, size)
            index += after
        return longest

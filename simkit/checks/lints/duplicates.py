"""CTX-07 and CTX-24: messages that appear twice in a context, or inside one text of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import filterfalse, pairwise, permutations
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, first_of, lint
from simkit.core.messages import Message, as_json
from simkit.core.text import short
from simkit.language.recognition import Sought
from simkit.trace import events as e
from simkit.trace.views import ContextView, HistoryView, StreamView, TurnView, View

Pair = tuple[str, str, str, str]
"""The two messages, each by id (empty if it was made) and section."""


MessagesByKey = dict[Hashable, tuple[Message, str]]
"""The messages of one context that no stream has settled: text, or key, to message and section."""


def _key_of(message: Message) -> Hashable:
    """Return the key that two duplicates share.

    It consists of author, turn and content; for calls and results also of their ids, since two
    calls of a tool may ask, or answer, the same.
    """
    if message.calls:
        call_ids = tuple([call.id for call in message.calls])
        return message.agent, message.turn, message.content, call_ids
    if message.call_id:
        return message.agent, message.turn, message.content, message.call_id
    if not message.content:
        return (message.id,)
    return message.role, message.agent, message.turn, message.content


class _StreamState:
    """The position up to which one stream was read, and the last index of each message in it.

    Texts are looked up first, since nearly all differ; only messages with equal texts are compared
    by key.
    """

    def __init__(self, stream: StreamView) -> None:
        self.stream = stream
        self.read = 0
        self.texts: dict[str, int] = {}
        """Content to the first index with it."""
        self.keys: dict[Hashable, int] = {}
        """Key to its last index, for contents that came more than once."""
        self.ids: dict[str, int] = {}
        """Id to its last index; only used if an agent reads two histories."""
        self.ids_read = 0
        self.crossed: dict[str, int] = {}
        """Other stream to the index up to which this one was compared with it."""

    def twin(self, message: Message) -> int:
        """Return the last index of an equal message; -1 if there is none."""
        first = self.texts.get(message.content)
        if first is None:
            return -1
        key = _key_of(message)
        index = self.keys.get(key, -1)
        if index < 0 and _key_of(self.stream.entries[first]) == key:
            return first
        return index

    def pairs_with(self, by_key: MessagesByKey, part: HistoryView) -> Iterable[Pair]:
        """Yield the pairs of settled messages and of the context's other ones."""
        for message, section in () if self.texts.keys().isdisjoint(by_key) else by_key.values():
            twin = self.twin(message)
            if twin >= part.lo:
                yield self.stream.entries[twin].id, part.section, message.id, section


class _ReadStreams(dict[str, _StreamState]):
    """The streams of contexts as far as they were read, by their ids."""

    def settle(self, part: HistoryView, pairs: list[Pair]) -> _StreamState:
        """Read the messages of a stream that were settled since the lint last looked at it."""
        stream = self.get(part.stream.id)
        if stream is None or stream.stream is not part.stream:
            stream = self[part.stream.id] = _StreamState(part.stream)
        entries = part.stream.entries
        for index in range(stream.read, part.hi):
            message = entries[index]
            if message.content not in stream.texts:
                stream.texts[message.content] = index
                continue
            twin = stream.twin(message)
            if twin >= part.lo:
                pairs.append((entries[twin].id, part.section, message.id, part.section))
            stream.keys[_key_of(message)] = index
        stream.read = max(stream.read, part.hi)
        return stream

    def cross(self, shown_parts: Sequence[HistoryView], pairs: list[Pair]) -> None:
        """Compare the histories of one context with each other, once for each new message."""
        for part in shown_parts:
            stream_state = self[part.stream.id]
            entries = part.stream.entries
            for index in range(stream_state.ids_read, part.hi):
                stream_state.ids[entries[index].id] = index
            stream_state.ids_read = part.hi
        for part, other in permutations(shown_parts, 2):
            if other.stream is not part.stream:
                self._cross_one(part, other, pairs)

    def _cross_one(self, part: HistoryView, second: HistoryView, pairs: list[Pair]) -> None:
        stream_state, against = self[part.stream.id], self[second.stream.id]
        entries = part.stream.entries
        start = max(stream_state.crossed.get(second.stream.id, 0), part.lo)
        for index in range(start, part.hi):
            message = entries[index]
            twin = against.ids.get(message.id, -1)
            if twin < 0:
                twin = against.twin(message)
            if twin >= max(second.lo, 0):
                other = second.stream.entries[twin].id, second.section
                first, two = sorted([(message.id, part.section), other])
                pairs.append((*first, *two))
        stream_state.crossed[second.stream.id] = part.hi


@lint("CTX-07", e.ContextBuilt)
def duplicate_message(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-07: no two messages of a context are equal, and no id comes twice.

    Equal messages have the same role, author, content and turn; tool calls and results are compared
    with their ids. So a user may say "yes" in every turn, and a tool may answer the same twice; but
    the lint finds a reply that was stored under a second id, a message read through two sections,
    or a text that two sections made. It leaves to other lints: instructions (CTX-03), and the
    user's current message by its id (CTX-16). A pair is reported once for each agent, when both
    first are in its window. Code may say again that a tool has failed, after another answer of
    the model. An error is a whole past that comes twice: each message of it, of the
    user and of an agent, as where a session and the caller both send the conversation. Seen in
    agent-framework#4695 and #7955, and openai-agents#2171.
    """
    view = facts.view
    context = view.calls[event.call].context
    pairs = _pairs_in(context, facts.notes_of(_ReadStreams), event)
    pairs = [*filterfalse(lambda pair: _is_said_again(pair, context, facts), pairs)]
    if not pairs:
        return
    current_id = getattr(view.turns[-1].message, "id", "")
    fresh: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        first, in_one, two, in_two = pair
        is_current = first == two == current_id and first
        if not is_current and facts.is_new("CTX-07", event.agent, pair):
            fresh.setdefault((in_one, in_two), []).append(pair)
    call = view.calls[event.call]
    pasts, agent_session = facts.notes_of(_Pasts), (event.session, event.agent)
    if fresh and agent_session not in pasts and pasts.decide(agent_session, call.context, view):
        pairs = [pair for group in fresh.values() for pair in group]
        problem = (
            f"agent {call.agent!r} is sent all of the earlier turns again in turn {call.turn}: "
            f"{_named(pairs)}"
        )
        yield Hit.at("CTX-07", call, problem, ids=[[first, two] for first, _, two, _ in pairs])
    if pasts.get(agent_session):
        return
    for sections, names in fresh.items():
        problem = f"agent {event.agent!r} is sent {_named(names)} in turn {event.turn}"
        ids = [[first, two] for first, _, two, _ in names]
        yield Hit.at("CTX-07", call, problem, is_warning=True, ids=ids, sections=list(sections))


def _is_said_again(pair: Pair, context: ContextView, facts: Facts) -> bool:
    """Return whether code repeats a text of its own after an answer: that a tool failed again."""
    identity = pair[0]
    if not facts.is_code or identity != pair[2] or not facts.writers.get(int(identity[1:] or 0)):
        return False
    roles = ["again" if each.id == identity else each.role for each in context.messages]
    at = [index for index, role in enumerate(roles) if role == "again"]
    return all("assistant" in roles[first:second] for first, second in pairwise(at))


class _Pasts(dict[tuple[str, str], bool]):
    """Whether an agent of a session is sent the whole past twice, once it is sent any of it.

    This is decided once, since a look at all messages in every turn would grow with its square.
    """

    def decide(self, agent_session: tuple[str, str], context: ContextView, view: View) -> bool:
        """Decide whether each message of earlier turns comes twice, of the user and of an agent.

        Words that came several times must come twice as often.
        """
        turn = view.turns[-1]
        past = Counter(
            (message.role, message.content)
            for message in context.messages
            if message.role != "system" and message.content and 0 < message.turn < turn.number
        )
        if not past:
            return False
        times = Counter(_words_before(turn, view))
        is_twice = all(count >= 2 * max(1, times[words]) for words, count in past.items())
        self[agent_session] = {"user", "assistant"} <= {role for role, _ in past} and is_twice
        return self[agent_session]


def _words_before(turn: TurnView, view: View) -> Iterable[tuple[str, str]]:
    """Yield the messages of a session's user and the answers of models, up to a turn."""
    for earlier in view.turns[:-1]:
        if earlier.session == turn.session:
            if earlier.message is not None:
                yield "user", earlier.message.content
            replies = (call.reply for call in earlier.calls if call.reply is not None)
            yield from (("assistant", reply.content) for reply in replies)


def _pairs_in(context: ContextView, streams: _ReadStreams, event: e.ContextBuilt) -> list[Pair]:
    """Return the pairs in a context; of histories and of a run only those that are new."""
    pairs: list[Pair] = []
    by_key: MessagesByKey = {}
    shown_parts = [part for part in context.parts if type(part) is HistoryView]
    if event.base:
        for message in context.own_messages:
            _join(by_key, message, "run", pairs)
    else:
        for part in context.parts:
            if type(part) is HistoryView or part.section == "instructions":
                continue
            if part.message.content:
                _join(by_key, part.message, part.section, pairs)
        several = len(shown_parts) > 1
        for part in shown_parts:
            streams.settle(part, pairs)
            if part.tail:
                _join_tail(by_key, part, pairs, several)
        if several:
            streams.cross(shown_parts, pairs)
    for part in shown_parts:
        pairs += streams.settle(part, pairs).pairs_with(by_key, part)
    return pairs


def _named(pairs: Sequence[Pair]) -> str:
    """Return the text about duplicates: ``message m3 twice (section history)``.

    Contexts of code have no sections.
    """
    a, first, b, two = pairs[0]
    through = f" (section {first})" if first == two else f" (sections {first} and {two})"
    if not first or not two:
        through = ""
    if not a or not b:
        return f"the same text twice{through}"
    ids = [a if a == b else f"{a} = {b}" for a, _, b, _ in pairs]
    if len(ids) == 1:
        return f"message {ids[0]} twice{through}"
    return f"{len(ids)} messages twice{through}: {first_of(ids)}"


def _join(by_key: MessagesByKey, message: Message, section: str, pairs: list[Pair]) -> None:
    """Add a message that was made, or written in this turn or run."""
    content = message.content
    other = by_key.get(content)
    if other is None:
        by_key[content] = message, section
        return
    key = _key_of(message)
    if _key_of(other[0]) != key:
        other = by_key.get(key)
    if other is None:
        by_key[key] = message, section
    else:
        pairs.append((other[0].id, other[1], message.id, section))


def _join_tail(by_key: MessagesByKey, part: HistoryView, pairs: list[Pair], several: bool) -> None:
    """Add the current turn's messages; also by their ids if another history shows them."""
    tail, section = part.tail, part.section
    for index in range(max(0, part.lo - part.hi), len(tail)):
        message = tail[index]
        if several and message.id:
            other = by_key.get((message.id,))
            if other is not None:
                pairs.append((other[0].id, other[1], message.id, section))
                continue
            by_key[(message.id,)] = message, section
        _join(by_key, message, section, pairs)


_NUMBERED: Final = re.compile(r"^\s*(?:[-*•]|\d+[.):])?\s*")
"""The front of a line in a list."""


class _Lists(dict[int, list[str]]):
    """Message to the lines that it lists more often than anybody said them."""


@lint("CTX-24", e.MessageAdded, when="is_code")
def _note_list(event: e.MessageAdded, facts: Facts) -> None:
    message = event.message
    lines = message.content.splitlines() if message.role != "tool" else ()
    if len(lines) < 3:
        return
    counts = Counter(_NUMBERED.sub("", line).strip() for line in lines)
    repeated = {line: count for line, count in counts.items() if count > 1 and line}
    if repeated and (listed := _listed_too_often(repeated, facts)):
        facts.notes_of(_Lists)[message.number] = listed


def _listed_too_often(repeated: dict[str, int], facts: Facts) -> list[str]:
    """Return the lines that hold a message with its author, and come more often than it does."""
    messages = Counter(message.content.strip() for message in facts.view.messages.values())
    return [
        line
        for line, count in repeated.items()
        if 0 < messages[_message_in(line)] < count and Sought(_message_in(line)).is_distinctive
    ]


def _message_in(line: str) -> str:
    """Return the message in a line of a transcript: ``user: Hello``, quoted, or a JSON object."""
    value = as_json(line) if line.startswith("{") else None
    content = value.get("content") if isinstance(value, dict) else line.partition(": ")[2]
    return content.strip(" '\"`") if isinstance(content, str) else ""


@lint("CTX-24", e.ContextBuilt, when=_Lists)
def listed_twice(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-24: a text that lists messages has each as often as it was said.

    Lines are compared without their numbers. Found is a line with an author and a message that
    comes more often than the session has such messages, as where a summary is summarized together
    with what it holds. Seen in openai-agents#3791.
    """
    lists, call = facts.notes_of(_Lists), facts.view.calls[event.call]
    for message in call.context.messages:
        for line in lists.pop(message.number, ()):
            problem = (
                f"agent {event.agent!r} is sent in turn {event.turn} a text that lists a message "
                f"more often than it was said: {short(line, SHOWN_MAX)!r}"
            )
            yield Hit.at("CTX-24", call, problem, line=line, ids=[message.id])

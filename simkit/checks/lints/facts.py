"""Lints on facts: required in an agent's contexts, or private to an agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import reads
from simkit.checks.searching import Search
from simkit.core.messages import JsonValue, Message
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.paths import leaves
from simkit.trace import events as e
from simkit.trace.views import MadePart, ShownPart, StreamView, View

_encode = msgspec.json.Encoder().encode
_words_of = re.compile(r"\w+").findall


class _Required(msgspec.Struct, frozen=True):
    """One fact that an agent requires, ready for searching."""

    text: str
    matcher: Matcher


class RequiredFactMissing:
    """CTX-05: the facts under an agent's ``requires`` are in each of its contexts.

    A text must occur in some message; a message matcher must hold for one. Later calls of a run
    repeat its first parts and are not checked again. Seen in adk#6019 and crewAI#500.
    """

    id = "CTX-05"

    def __init__(self) -> None:
        self._search = Search()
        self._required: dict[str, tuple[_Required, ...]] = {}

    def concerns(self, pipeline: e.PipelineFacts) -> bool:
        """Return whether an agent requires a fact."""
        return any(agent.requires for agent in pipeline.agents.values())

    @reads(e.ContextBuilt)
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check the first context of each run."""
        agent = event.agent
        required = self._required.get(agent)
        if required is None:
            facts = view.pipeline.agents.get(agent)
            requires = facts.requires if facts is not None else ()
            required = self._required[agent] = tuple(
                _ready(requirement) for requirement in requires
            )
        if not required or event.base:
            return ()
        call = view.calls[event.call]
        missing = [
            fact.text for fact in required if not self._search.occurs(call.context, fact.matcher)
        ]
        if not missing:
            return ()
        problem = (
            f"agent {agent!r} is not sent what it requires in turn {event.turn}: "
            f"{', '.join(missing)}"
        )
        data: dict[str, JsonValue] = {"missing": list(missing)}
        return (Hit(self.id, problem, event.turn, agent, call.index, data=data),)


def _ready(fact: JsonValue) -> _Required:
    if isinstance(fact, str):
        return _Required(repr(fact), compile_matcher({"$contains": fact}))
    return _Required(_encode(fact).decode(), compile_matcher(fact))


SECRET_MIN: Final = 4
"""Shorter texts occur in any context by chance."""


class _Secret(msgspec.Struct, frozen=True):
    """A text of a private channel, in one of the forms that it may have in a context."""

    number: int
    text: str
    word: str
    """Its longest word, by which it is searched."""
    channel: str

    def is_in(self, text: str) -> bool:
        """Return whether it occurs in a text, between word boundaries."""
        secret, start = self.text, text.find(self.text)
        while start >= 0:
            end = start + len(secret)
            before = text[start - 1 : start] + secret[0]
            after = secret[-1] + text[end : end + 1]
            if not (_is_joined(before) or _is_joined(after)):
                return True
            start = text.find(secret, start + 1)
        return False


def _is_joined(pair: str) -> bool:
    return len(pair) > 1 and all(letter.isalnum() or letter == "_" for letter in pair)


class _Index:
    """The words of one stream's settled messages, and how far secrets were searched there."""

    __slots__ = ("read", "secrets", "stream", "words")

    def __init__(self, stream: StreamView) -> None:
        self.stream, self.read, self.secrets = stream, 0, 0
        self.words: dict[str, list[int]] = {}


class PrivateFactLeaked:
    """CTX-06: the content of a channel that is ``private`` to an agent is in no other's context.

    The lint searches for every text of at least four characters that the channel ever contained,
    whole and between word boundaries; the pipeline's own names are no secrets. It does not search
    an agent's instructions and its own messages. It reports each agent and text once. Texts and
    messages are indexed by their words, each once. Seen in crewAI#2789 and adk#5961.
    """

    id = "CTX-06"

    def __init__(self) -> None:
        self._owners: dict[str, list[str]] = {}
        """Private channel to the agents that may see it."""
        self._names: set[str] = set()
        self._secrets: list[_Secret] = []
        self._known: set[tuple[str, str]] = set()
        self._by_word: dict[str, list[_Secret]] = {}
        self._indexes: dict[str, _Index] = {}
        self._reported: set[tuple[str, int]] = set()

    @reads(e.StateUpdated, waits="_owners")
    def write(self, event: e.StateUpdated, view: View) -> Iterable[Hit]:
        """Collect private texts."""
        if not self._owners.keys().isdisjoint(event.update):
            for parts in view.new_parts(event):
                for channel in self._owners.keys() & parts.keys():
                    self._add(channel, view.resolved(parts[channel]))
        return ()

    @reads(e.RunStarted)
    def begin(self, event: e.RunStarted, view: View) -> Iterable[Hit]:
        """Note who may see which channel."""
        facts = event.pipeline
        for name, agent in facts.agents.items():
            for channel in agent.private:
                self._owners.setdefault(channel, []).append(name)
            self._names.update((name, *agent.tools))
        self._names.update(facts.channels)
        for channel in self._owners:
            if channel in facts.channels:
                self._add(channel, facts.channels[channel].default)
        return ()

    def _add(self, channel: str, value: Any) -> None:
        for text in _texts_in(value):
            whole = text.strip()
            if len(whole) < SECRET_MIN or whole in self._names or (channel, whole) in self._known:
                continue
            self._known.add((channel, whole))
            number = len(self._known)
            for form in dict.fromkeys((whole, _encode(whole).decode()[1:-1])):
                words = _words_of(form)
                if words:
                    word = max(words, key=len)
                    secret = _Secret(number, form, word, channel)
                    self._secrets.append(secret)
                    self._by_word.setdefault(word, []).append(secret)

    @reads(e.ContextBuilt, waits="_secrets")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Search for private texts in every context."""
        call = view.calls[event.call]
        agent = event.agent
        facts_found: dict[tuple[str, str], None] = {}
        for section, secret in self._facts_in(event, call.context.parts, call.context.own_messages):
            if agent in self._owners[secret.channel] or (agent, secret.number) in self._reported:
                continue
            self._reported.add((agent, secret.number))
            facts_found[secret.channel, section] = None
        hits = []
        for channel, section in facts_found:
            owners = self._owners[channel]
            problem = (
                f"agent {agent!r} is sent a value of channel `{channel}` in turn {event.turn}, "
                f"through section {section}; it is private to {', '.join(map(repr, owners))}"
            )
            data: dict[str, JsonValue] = {
                "channel": channel,
                "section": section,
                "owners": list(owners),
            }
            hits.append(Hit(self.id, problem, event.turn, agent, call.index, data=data))
        return hits

    def _facts_in(
        self,
        event: e.ContextBuilt,
        parts: Iterable[MadePart | ShownPart],
        messages: Iterable[Message],
    ) -> Iterator[tuple[str, _Secret]]:
        """Yield the private texts in a context; of a later call of a run, in the new part."""
        for message in messages:
            yield from self._in_message(message, "run", event.agent)
        if not event.base:
            for part in parts:
                if isinstance(part, MadePart):
                    for section, text in _made_texts(part):
                        yield from self._in_text(text, section)
                elif part.rendered is not None:
                    yield from self._in_text(part.rendered.content, part.section)
                else:
                    if part.summary is not None:
                        yield from self._in_text(part.summary.content, part.section)
                    yield from self._in_settled(part, event.agent)
                    for message in part.tail[max(0, part.lo - part.hi) :]:
                        yield from self._in_message(message, part.section, event.agent)

    def _in_text(self, text: str, section: str) -> Iterator[tuple[str, _Secret]]:
        by_word = self._by_word
        for word in by_word.keys() & set(_words_of(text)):
            for secret in by_word[word]:
                if secret.is_in(text):
                    yield section, secret

    def _in_message(
        self, message: Message, section: str, agent: str
    ) -> Iterator[tuple[str, _Secret]]:
        if message.agent != agent:
            yield from self._in_text(_text_of(message), section)

    def _in_settled(self, part: ShownPart, agent: str) -> Iterator[tuple[str, _Secret]]:
        """Search for new secrets in old messages, and for all secrets in new ones."""
        index = self._indexes.get(part.stream.id)
        if index is None or index.stream is not part.stream:
            index = self._indexes[part.stream.id] = _Index(part.stream)
        entries = part.stream.entries
        for secret in self._secrets[index.secrets :]:
            for place in reversed(index.words.get(secret.word, ())):
                if place < part.lo:
                    break
                message = entries[place]
                if message.agent != agent and secret.is_in(_text_of(message)):
                    yield part.section, secret
                    break
        index.secrets = len(self._secrets)
        for place in range(index.read, part.hi):
            message = entries[place]
            for word in set(_words_of(_text_of(message))):
                index.words.setdefault(word, []).append(place)
            if place >= part.lo:
                yield from self._in_message(message, part.section, agent)
        index.read = max(index.read, part.hi)


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text inside a value."""
    for leaf in leaves(value):
        if isinstance(leaf, (str, Message)):
            yield leaf.content if isinstance(leaf, Message) else leaf


def _made_texts(part: MadePart) -> Iterator[tuple[str, str]]:
    """Yield (section, text) of a made message, without instructions."""
    if part.pieces:
        for piece in part.pieces:
            if piece.section != "instructions":
                yield piece.section, piece.content
    elif part.section != "instructions":
        yield part.section, _text_of(part.message)


def _text_of(message: Message) -> str:
    """Return a message's content, with the arguments of its calls."""
    if not message.calls:
        return message.content
    call_args = [_encode(call.args).decode() for call in message.calls]
    return "\n".join((message.content, *call_args))

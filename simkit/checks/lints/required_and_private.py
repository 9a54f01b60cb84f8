"""Lints on facts: required in an agent's contexts, or private to an agent; on servers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, lint, texts_of
from simkit.checks.searching import Search
from simkit.core.messages import JsonValue, Message
from simkit.core.text import counted, short
from simkit.language.json_schema import is_number
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.paths import as_text, leaves, parts_of
from simkit.language.recognition import Sought, whole_places
from simkit.trace import events as e
from simkit.trace.views import CallView, ContextView, HistoryView, InlinePart, StreamView

_encode = msgspec.json.Encoder().encode
_words_of = re.compile(r"\w+").findall


class _Requirements(dict[str, Sequence[tuple[str, Matcher]]]):
    """Agent to the facts that it requires, in words and ready for searching."""

    def __init__(self) -> None:
        self.search = Search()


@lint("CTX-05", e.ContextBuilt, when="has_requirements")
def required_fact_missing(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-05: the facts under an agent's ``requires`` are in each of its contexts.

    A text must occur in some message; a message matcher must hold for one. Later calls of a run
    repeat its first parts and are not checked again. Seen in adk#6019 and crewAI#500.
    """
    agent = facts.pipeline.agents.get(event.agent)
    if agent is None or not agent.requires or event.base:
        return
    call = facts.view.calls[event.call]
    requirements = facts.notes_of(_Requirements)
    if event.agent not in requirements:
        requirements[event.agent] = [*map(_ready, agent.requires)]
    required, occurs = requirements[event.agent], requirements.search.occurs
    missing = [text for text, matcher in required if not occurs(call.context, matcher)]
    if missing:
        problem = (
            f"agent {event.agent!r} is not sent what it requires in turn {event.turn}: "
            f"{', '.join(missing)}"
        )
        yield Hit.at("CTX-05", call, problem, missing=list(missing))


def _ready(fact: JsonValue) -> tuple[str, Matcher]:
    if isinstance(fact, str):
        return repr(fact), compile_matcher({"$contains": fact})
    return _encode(fact).decode(), compile_matcher(fact)


SECRET_MIN: Final = 4
"""Shorter texts occur in any context by chance: they are searched behind their key alone."""
DIGITS_MIN: Final = 6
"""Numbers with fewer digits, or of fewer than four without the zeros at the end, likewise."""
KEYED_DIGITS_MIN: Final = 3
"""Numbers of a mapping with fewer digits occur by chance even behind their key."""


class _Secret(msgspec.Struct, frozen=True):
    """A value of a private channel, in one of the forms that it may have in a context."""

    number: int
    word: str
    """Its longest word, by which it is searched."""
    channel: str
    text: str = ""
    values: tuple[Sought, ...] = ()
    """The values that a context must show, if there is no text."""
    has_keys: bool = False
    """Whether each value must stand behind its key."""

    def is_in(self, text: str) -> bool:
        """Return whether it occurs in a text, between word boundaries."""
        if self.text:
            return next(whole_places(text, self.text), None) is not None
        return all(
            sought.is_keyed(text) if self.has_keys else sought.is_in(text) for sought in self.values
        )


def _short_values(channel: str, value: Any) -> Iterator[tuple[Sought, ...]]:
    """Yield the values that only their keys make recognizable: alone, or two of a mapping."""
    if _is_short(value):
        yield (Sought(value, channel),)
        return
    if isinstance(value, Mapping):
        short_values = [Sought(part, key) for key, part in value.items() if _is_short(part)]
        clear = [sought for sought in short_values if _digits(sought.value) >= KEYED_DIGITS_MIN]
        yield from ((sought,) for sought in clear)
        yield from pairwise(sought for sought in short_values if sought not in clear)
    for part in parts_of(value):
        if not _is_short(part):
            yield from _short_values("", part)


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value.strip()) < SECRET_MIN
    return isinstance(value, bool) or (is_number(value) and not _is_clear_number(value))


def _is_clear_number(value: Any) -> bool:
    digits = "".join(filter(str.isdigit, str(value))) if is_number(value) else ""
    return len(digits) >= DIGITS_MIN and len(digits.rstrip("0")) >= SECRET_MIN


def _digits(value: Any) -> int:
    return sum(map(str.isdigit, str(value))) if is_number(value) else 0


class _Index:
    """The words of one stream's settled messages, and how far secrets were searched there."""

    def __init__(self, stream: StreamView) -> None:
        self.stream, self.read, self.secrets = stream, 0, 0
        self.words: dict[str, list[int]] = {}


class _Secrets:
    """The texts of private channels, and how far contexts were searched for them."""

    def __init__(self) -> None:
        self.owners: dict[str, list[str]] = {}
        """Private channel to the agents that may see it."""
        self.is_code = False
        """Whether a framework's own marks say what is private: then by chance nothing is."""
        self.own_writes: set[tuple[str, str]] = set()
        """Agent and channel of that name that it has written itself, in code."""
        self._names: set[str] = set()
        self._secrets: list[_Secret] = []
        self._existing: set[tuple[Hashable, ...]] = set()
        self._by_word: dict[str, list[_Secret]] = {}
        self._indexes: dict[str, _Index] = {}

    def begin(self, pipeline: e.PipelineFacts) -> None:
        """Note who may see which channel."""
        self.is_code = pipeline.is_code
        for name, agent in pipeline.agents.items():
            for channel in agent.private:
                self.owners.setdefault(channel, []).append(name)
            self._names.update((name, *agent.tools))
        self._names.update(pipeline.channels)
        for channel in self.owners:
            if channel in pipeline.channels:
                self.add(channel, pipeline.channels[channel].default)

    def add(self, channel: str, value: Any) -> None:
        """Add the texts inside a value of a private channel."""
        for text in _texts_in(value):
            whole = text.strip()
            is_clear = Sought(whole).is_distinctive or not self.is_code
            if len(whole) >= SECRET_MIN and whole not in self._names and is_clear:
                forms = dict.fromkeys((whole, _encode(whole).decode()[1:-1]))
                self._keep(channel, whole, {form: [form] for form in forms})
        for leaf in filter(_is_clear_number, leaves(value)):
            self._keep(channel, leaf, {"": _forms_of(leaf)}, (Sought(leaf),))
        for values in _short_values(channel, value) if not self.is_code else ():
            names = tuple((sought.key, sought.value) for sought in values)
            self._keep(channel, names, {"": _forms_of(values[0].value)}, values, has_keys=True)

    def _keep(
        self,
        channel: str,
        name: Hashable,
        texts: Mapping[str, Iterable[str]],
        values: tuple[Sought, ...] = (),
        has_keys: bool = False,
    ) -> None:
        """Keep a value once; ``texts`` has its texts, each with the forms that it is found by."""
        if (channel, type(name), name) in self._existing:
            return
        self._existing.add((channel, type(name), name))
        number = len(self._existing)
        for text, forms in texts.items():
            words = {max(parts, key=len) for form in forms if (parts := _words_of(form))}
            for word in sorted(words):
                secret = _Secret(number, word, channel, text, values, has_keys)
                self._secrets.append(secret)
                self._by_word.setdefault(word, []).append(secret)

    def found_in(
        self, event: e.ContextBuilt, context: ContextView
    ) -> Iterator[tuple[str, _Secret]]:
        """Yield the private texts in a context; of a later call of a run, in the new part."""
        if not self._secrets:
            return
        for message in context.own_messages:
            yield from self._in_message(message, "run", event.agent)
        if not event.base:
            for part in context.parts:
                if isinstance(part, InlinePart):
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
        for word in sorted(by_word.keys() & set(_words_of(text))):
            for secret in by_word[word]:
                if secret.is_in(text):
                    yield section, secret

    def _in_message(
        self, message: Message, section: str, agent: str
    ) -> Iterator[tuple[str, _Secret]]:
        if message.agent != agent:
            yield from self._in_text("\n".join(texts_of(message)), section)

    def _in_settled(self, part: HistoryView, agent: str) -> Iterator[tuple[str, _Secret]]:
        """Search for new secrets in old messages, and for all secrets in new ones."""
        index = self._indexes.get(part.stream.id)
        if index is None or index.stream is not part.stream:
            index = self._indexes[part.stream.id] = _Index(part.stream)
        entries = part.stream.entries
        for secret in self._secrets[index.secrets :]:
            for position in reversed(index.words.get(secret.word, ())):
                if position < part.lo:
                    break
                message = entries[position]
                if message.agent != agent and secret.is_in("\n".join(texts_of(message))):
                    yield part.section, secret
                    break
        index.secrets = len(self._secrets)
        for position in range(index.read, part.hi):
            message = entries[position]
            for word in set(_words_of("\n".join(texts_of(message)))):
                index.words.setdefault(word, []).append(position)
            if position >= part.lo:
                yield from self._in_message(message, part.section, agent)
        index.read = max(index.read, part.hi)


@lint("CTX-06", e.RunStarted)
def _note_owners(event: e.RunStarted, facts: Facts) -> None:
    if any(agent.private for agent in event.pipeline.agents.values()):
        facts.notes_of(_Secrets).begin(event.pipeline)


@lint("CTX-06", e.StateUpdated, when=_Secrets)
def _note_private_texts(event: e.StateUpdated, facts: Facts) -> None:
    secrets, view = facts.notes_of(_Secrets), facts.view
    if not secrets.owners.keys().isdisjoint(event.update):
        for parts in view.new_parts(event):
            for channel in secrets.owners.keys() & parts.keys():
                if secrets.is_code and event.agent not in secrets.owners[channel]:
                    secrets.own_writes.add((event.agent, channel))
                    continue
                secrets.add(channel, view.resolved(parts[channel]))


@lint("CTX-06", e.ContextBuilt, when=_Secrets)
def private_fact_leaked(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-06: the content of a channel that is ``private`` to an agent is in no other's context.

    The lint searches for every value that the channel ever contained, whole and between word
    boundaries: texts of at least four characters, numbers of at least six digits. A shorter value,
    true or false must stand behind the channel's name (``pin: 12``). In a mapping, two shorter
    values must stand behind their keys, or one number of three digits. Nothing else is observable:
    no date in another format, no number in words. The pipeline's own names are no secrets. The
    lint does not search an agent's instructions and its own messages. It reports each agent and
    value once. Values and messages are indexed by their words, each once. Of code, channels are
    private that LangChain's `PrivateStateAttr` marks, and only clear texts and numbers count; that
    is a warning, for the agent's own model may have passed them on. Seen in crewAI#2789, adk#5961
    and deepagents#3542.
    """
    secrets, call, agent = facts.notes_of(_Secrets), facts.view.calls[event.call], event.agent
    sections: dict[tuple[str, str], None] = {}
    for section, secret in secrets.found_in(event, call.context):
        is_own = agent in secrets.owners[secret.channel] or (
            (agent, secret.channel) in secrets.own_writes
        )
        if not is_own and facts.is_new("CTX-06", agent, secret.number):
            sections[secret.channel, section] = None
    for channel, section in sections:
        owners = secrets.owners[channel]
        through = f", through section {section}" if section else ""
        problem = (
            f"agent {agent!r} is sent a value of channel `{channel}` in turn {event.turn}{through};"
            f" it is private to {', '.join(map(repr, owners))}"
        )
        data: dict[str, JsonValue] = {"channel": channel, "section": section}
        is_warning = secrets.is_code
        yield Hit.at("CTX-06", call, problem, is_warning=is_warning, owners=[*owners], **data)


def _forms_of(value: Any) -> list[str]:
    """Return a value as texts write it."""
    if isinstance(value, bool):
        return ["true", "True"] if value else ["false", "False"]
    if isinstance(value, str):
        return [value.strip(), _encode(value.strip()).decode()[1:-1]]
    return [_encode(value).decode(), *(f"{value:{form}}" for form in ("", ",", ".2f", ",.2f"))]


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text inside a value."""
    for leaf in leaves(value):
        if isinstance(leaf, (str, Message)):
            yield leaf.content if isinstance(leaf, Message) else leaf


def _made_texts(part: InlinePart) -> Iterator[tuple[str, str]]:
    """Yield (section, text) of a made message, without instructions."""
    if part.pieces:
        for piece in part.pieces:
            if piece.section != "instructions":
                yield piece.section, piece.content
    elif part.section != "instructions":
        yield part.section, "\n".join(texts_of(part.message))


# Lints on what servers let models do


_ORDERS: Final = (
    r"(?:call|use|using|invoke|run|execute|trigger|must|always|first|next|now|please|"
    r"before|ignore|instructions?)"
)
_AFTER: Final = r"(?:must|should|now|immediately|first|before|next|with)"
_SENTENCE: Final = r"[^.!?\n]{0,80}?"


class _Text(NamedTuple):
    """A text of a server that a model is sent."""

    server: str
    agent: str
    """The agent that is sent it; empty for a description, which all are sent."""
    source: str
    """Its place in messages."""
    text: str


class _ServersOf(dict[str, tuple[str, ...]]):
    """Tool to the servers that have one of this name."""


@lint("SEC-03", e.ToolDefined)
def _note_servers(event: e.ToolDefined, facts: Facts) -> None:
    if event.server or event.shared:
        facts.notes_of(_ServersOf)[event.tool] = event.shared or (event.server,)


@lint("SEC-03", e.RunFinished, when=_ServersOf)
def shared_name(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """SEC-03: no agent is offered a tool under a name that two of its servers have.

    An agent's servers are those whose tools it is offered, or all, if it is the only agent. If the
    client offers the tool once, that is a warning: it may leave out the other one on purpose.
    """
    view, servers_of = facts.view, facts.notes_of(_ServersOf)
    is_alone = len({*facts.pipeline.agents, *(call.agent for call in view.calls.values())}) == 1
    for call in view.calls.values():
        for tool, times in _shared_in(call, servers_of, is_alone):
            if not facts.is_new("SEC-03", call.agent, tool):
                continue
            servers = servers_of[tool]
            calls = (each for turn in view.turns for each in turn.tools if each.tool == tool)
            answered = {each.server: None for each in calls if each.agent == call.agent}
            text = (
                f"agent {call.agent!r} is offered {counted(times, 'tool')} `{tool}` in turn "
                f"{call.turn}, and the servers {_both(servers)} have one each; its calls were "
                f"answered by {_both(filter(None, answered)) or 'none of them'}"
            )
            yield Hit.at("SEC-03", call, text, is_warning=times < 2, tool=tool, servers=[*servers])


def _shared_in(
    call: CallView, servers_of: Mapping[str, tuple[str, ...]], is_alone: bool
) -> Iterator[tuple[str, int]]:
    """Yield the offered tools of which the agent has several servers, and how often each is."""
    names = [name for name in call.context.tools if name in servers_of]
    reached = {servers_of[name][0] for name in names if len(servers_of[name]) == 1}
    for tool, times in Counter(names).items():
        is_its_own = is_alone or times > 1 or len(reached & {*servers_of[tool]}) > 1
        if len(servers_of[tool]) > 1 and is_its_own:
            yield tool, times


def _both(names: Iterable[str | None]) -> str:
    return " and ".join(f"`{name}`" for name in names)


class _ServersTexts:
    """The texts of servers so far, and their tools."""

    def __init__(self) -> None:
        self.texts: list[_Text] = []
        self.servers: dict[str, str] = {}
        """Tool to its server."""

    def __bool__(self) -> bool:
        return bool(self.texts)


@lint("SEC-02", e.ToolDefined, e.ToolReturned)
def _note_text(event: e.ToolDefined | e.ToolReturned, facts: Facts) -> None:
    if not event.server:
        return
    if isinstance(event, e.ToolDefined):
        reader, source, text = "", f"the description of {event.tool!r}", event.description
    else:
        source = f"the result of {event.tool!r} in turn {event.turn}"
        reader, text = event.agent, as_text(event.result)
    notes = facts.notes_of(_ServersTexts)
    notes.servers[event.tool] = event.server
    notes.texts.append(_Text(event.server, reader, source, text))


@lint("SEC-02", e.ToolCalled, when=_ServersTexts)
def instructed_call(event: e.ToolCalled, facts: Facts) -> Iterable[Hit]:
    """SEC-02: no model calls a tool because a server that does not have the tool tells it to.

    The text must name the tool as an order, and come before the call: in a result that the agent
    was sent, or in a description. Within one server, descriptions may say what to call next.
    """
    notes = facts.notes_of(_ServersTexts)
    for server, agent, source, text in notes.texts:
        if agent not in ("", event.agent) or notes.servers.get(event.tool) == server:
            continue
        order = _order_in(text, event.tool)
        if order and facts.is_new("SEC-02", f"{server}/{event.tool}"):
            problem = (
                f"agent {event.agent!r} called {event.tool!r} in turn {event.turn} after server "
                f"`{server}` told it to, in {source}: {short(order, 120)}"
            )
            yield Hit.at("SEC-02", event, problem, tool=event.tool, server=server)


def _order_in(text: str, tool: str) -> str:
    """Return the part of a text that orders to call a tool; empty if none does."""
    name = rf"(?<!\w){re.escape(tool)}(?!\w)"
    if tool.isalpha() and tool.islower():  # It may be a common word.
        name = rf"(?:`{tool}`|\"{tool}\"|{name}\(|{name} tool|tool {name})"
    order = rf"\b{_ORDERS}\b{_SENTENCE}{name}|{name}{_SENTENCE}\b{_AFTER}\b"
    match = re.search(order, text, re.IGNORECASE)
    return match[0] if match else ""

"""A first look at claims: plain ones are proven from the events alone, without any view.

Most runs hold, and most claims name agents, a text in a context, a reply or a channel's value. The
proof reads each event once and gives up at whatever is not plain, in the trace or in the claims;
then the checks decide, and say what is wrong. It may never prove what the checks would refuse: a
property test holds the two against each other, over shipped and damaged traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from simkit.checks.vacuous import may_deny
from simkit.core.messages import Message
from simkit.language.matching import compile_matcher
from simkit.spec.scenario.claims import Expect, selected
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.reducers import BUILT_IN, DECLARED_RESET, Reducer, empty_value, reducer_of
from simkit.trace.store import REFERENCES

NEW: Final = 8
"""The number of settled messages among which a text is looked for: the newest."""
_PROVABLE: Final = frozenset(("agents", "context", "reply", "state"))
_OF_CONTEXTS: Final = frozenset(("includes", "excludes"))
_OBSERVED: Final = frozenset(("sections", "state", "runs"))
_SCALARS: Final = (str, int, float, bool, type(None))
_SCOPES: Final = ("turn", "session")


class _Unproven(Exception):
    """Something is not plain, or does not hold."""


class _Claims:
    """The claims on one turn, if all are plain."""

    __slots__ = ("agents", "denied", "reply", "state", "texts")

    def __init__(self, expect: Expect) -> None:
        """Raise _Unproven for claims that are not plain."""
        claimed = expect.__pydantic_fields_set__
        if not claimed <= _PROVABLE:
            raise _Unproven
        self.agents = expect.agents if "agents" in claimed else None
        self.state = expect.state if "state" in claimed else None
        self.reply = expect.reply if "reply" in claimed else None
        self.texts: dict[str, list[str]] = {}
        """Agent to the texts that its first context must contain."""
        self.denied: dict[str, list[str]] = {}
        """Agent to those whose messages none of its contexts may contain."""
        if self.agents is not None:
            self._check_agents()
        if self.state is not None and (type(self.state) is not dict or may_deny(self.state)):
            raise _Unproven
        if "reply" in claimed and (self.reply is None or may_deny(self.reply)):
            raise _Unproven
        if "context" in claimed:
            for key in expect.context:
                self._add_context(key, expect.context[key])

    def _check_agents(self) -> None:
        if type(self.agents) is not list or not self.agents:
            raise _Unproven
        for name in self.agents:
            if type(name) is not str:
                raise _Unproven

    def _add_context(self, key: str, claims: Any) -> None:
        if (
            not selected(key).is_plain
            or not claims.__pydantic_fields_set__ <= _OF_CONTEXTS
            or claims.__pydantic_extra__
        ):
            raise _Unproven
        self.texts[key] = [_only(matcher, "$contains") for matcher in claims.includes or ()]
        self.denied[key] = [_only(matcher, "agent") for matcher in claims.excludes or ()]


def _only(matcher: Any, key: str) -> str:
    """Return the text under the only key of a matcher; raise _Unproven for any other matcher."""
    if type(matcher) is dict and key in matcher and len(matcher) == 1:
        text = matcher[key]
        if type(text) is str and text:
            return text
    raise _Unproven


def _have_edits(cuts: Iterable[e.Cut]) -> bool:
    """Return whether a filter changed a message, instead of dropping it as a whole."""
    for cut in cuts:  # noqa: SIM110 - a plain loop is faster.
        if cut.what != "message":
            return True
    return False


class _Stream:
    """The settled part of a filtered history."""

    __slots__ = ("agents", "has_edits", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.agents: dict[str | None, bool] = {}
        self.has_edits = False
        """Whether a filter changed a message."""


_PLAIN: Final[dict[int, tuple[Expect, _Claims]]] = {}
"""The id of claims, which turns and seeds share, and are kept here, to their plain form."""
_PLAIN_MAX: Final = 1_024


def _claims_of(expect: Expect) -> _Claims:
    """Return claims in plain form; raise _Unproven."""
    known = _PLAIN.get(id(expect))
    if known is None:
        plain = _Claims(expect)
        if len(_PLAIN) >= _PLAIN_MAX:
            _PLAIN.clear()
        known = _PLAIN[id(expect)] = expect, plain
    return known[1]


class _Proof:
    """A proof that all claims on turns hold; each event is read once."""

    def __init__(self, turns: Sequence[_Claims | None]) -> None:
        self._turns = turns
        self._place = -1
        self._claims: _Claims | None = None
        """The claims on the current turn."""
        self._is_open = False
        self._sessions = 0
        self._agents: list[str] = []
        """The agents that ran in the turn, in order."""
        self._called: dict[str, bool] = {}
        """The agents whose models were called in the turn."""
        self._messages: dict[int, Message] = {}
        self._authors: dict[str | None, bool] = {}
        self._streams: dict[str, _Stream] = {}
        self._start: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        """Claimed channel to its value."""
        self._reducers: dict[str, Reducer] = {}
        self._of_turn: list[str] = []

    def read(self, events: Sequence[e.AnyEvent]) -> None:
        """Read a trace; raise _Unproven where the proof ends."""
        handlers = _HANDLERS
        for event in events:
            kind = type(event)
            if kind in handlers:
                handlers[kind](self, event)
        if self._is_open or self._place < 0:
            raise _Unproven
        for claims in self._turns:
            # A denial proves something only if what it denies is somewhere in the trace.
            for key in claims.denied if claims is not None else ():
                for author in claims.denied[key] if claims is not None else ():
                    if author not in self._authors:
                        raise _Unproven

    def _run_started(self, event: e.RunStarted) -> None:
        facts = event.pipeline
        if facts.unseen or not _OBSERVED.issubset(facts.observes):
            raise _Unproven
        for agent in facts.agents:
            if facts.agents[agent].sections is not None:
                raise _Unproven
        for claims in self._turns:
            for name in (claims.state or ()) if claims is not None else ():
                if name not in self._start:
                    self._add_channel(name, facts.channels.get(name))
        self._values = {**self._start}

    def _add_channel(self, name: str, channel: e.ChannelFacts | None) -> None:
        if channel is None or channel.scope not in _SCOPES or channel.reducer not in BUILT_IN:
            raise _Unproven
        self._start[name] = empty_value(channel.reducer, channel.default)
        self._reducers[name] = reducer_of(channel.reducer, channel.last)
        if channel.scope == "turn":
            self._of_turn.append(name)

    def _session_started(self, event: e.SessionStarted) -> None:
        self._sessions += 1
        # A session that starts later has an empty state from then on.
        if self._sessions > 1 or self._place >= 0:
            raise _Unproven

    def _turn_started(self, event: e.TurnStarted) -> None:
        if self._is_open or not self._sessions:
            raise _Unproven
        self._place += 1
        self._claims = self._turns[self._place] if self._place < len(self._turns) else None
        self._agents, self._called, self._is_open = [], {}, True

    def _message_added(self, event: e.MessageAdded) -> None:
        message = event.message
        number = int(message.id[1:])
        if number in self._messages:
            raise _Unproven
        self._messages[number] = message
        self._authors[message.agent] = True

    def _agent_started(self, event: e.AgentStarted) -> None:
        if event.group or event.branch or event.call_id or not self._is_open:
            raise _Unproven
        self._agents.append(event.agent)

    def _context_built(self, event: e.ContextBuilt) -> None:
        for part in event.parts:
            if isinstance(part, e.Shown):
                self._settle(part)
            else:
                for history in part.shown:
                    self._settle(history)
        claims, agent = self._claims, event.agent
        if claims is None or agent not in claims.texts:
            return
        if event.base or event.hidden or not self._is_open:
            raise _Unproven
        if agent not in self._called:
            self._called[agent] = True
            for text in claims.texts[agent]:
                self._find(text, event)
        for author in claims.denied[agent]:
            self._miss(author, event)

    def _settle(self, part: e.Shown) -> None:
        """Add what is settled to a stream."""
        stream = self._streams.get(part.stream)
        if stream is None or part.restarts:
            stream = self._streams[part.stream] = _Stream()
        messages, agents = self._messages, stream.agents
        for number in part.kept:
            agents[messages[number].agent] = True
        stream.numbers += part.kept
        if part.cuts:
            stream.has_edits = stream.has_edits or _have_edits(part.cuts)

    def _find(self, text: str, event: e.ContextBuilt) -> None:
        """Raise _Unproven unless a new message of a context contains a text."""
        messages = self._messages
        for number in event.said:
            if text in messages[number].content:
                return
        for part in event.parts:
            if not isinstance(part, e.Shown):
                if text in part.message.content:
                    return
            elif part.rendered is not None:
                if text in part.rendered.content:
                    return
            elif not part.lo and not (part.tail_cuts and _have_edits(part.tail_cuts)):
                for number in part.tail:
                    if text in messages[number].content:
                        return
                stream = self._streams[part.stream]
                for number in () if stream.has_edits else stream.numbers[-NEW:]:
                    if text in messages[number].content:
                        return
        raise _Unproven

    def _miss(self, author: str, event: e.ContextBuilt) -> None:
        """Raise _Unproven unless no message of a context is an agent's."""
        messages = self._messages
        for number in event.said:
            if messages[number].agent == author:
                raise _Unproven
        for part in event.parts:
            if not isinstance(part, e.Shown):
                if part.message.agent == author:
                    raise _Unproven
                continue
            stream = self._streams[part.stream]
            if (
                author in stream.agents
                or stream.has_edits
                or (part.tail_cuts and _have_edits(part.tail_cuts))
                or part.summary is not None
                or part.rendered is not None
            ):
                raise _Unproven
            for number in part.tail:
                if messages[number].agent == author:
                    raise _Unproven

    def _state_updated(self, event: e.StateUpdated) -> None:
        if event.state:
            return  # It is the state of an inner graph.
        if not self._sessions:
            raise _Unproven
        update, reducers = event.update, self._reducers
        for name in update:
            if name in reducers:
                if event.values is not None:
                    raise _Unproven
                self._values[name] = reducers[name](
                    self._values[name], self._resolved(update[name])
                )

    def _resolved(self, raw: Any) -> Any:
        """Return a recorded update with messages in place of references."""
        kind = type(raw)
        if kind is list:
            return [item if type(item) in _SCALARS else self._resolved(item) for item in raw]
        if kind is dict:
            for key in raw:
                if key == "$message" and len(raw) == 1:
                    return self._messages[raw[key]]
                if key in REFERENCES or key == DECLARED_RESET:
                    raise _Unproven
            return {
                key: raw[key] if type(raw[key]) in _SCALARS else self._resolved(raw[key])
                for key in raw
            }
        if kind not in _SCALARS:
            raise _Unproven
        return raw

    def _turn_finished(self, event: e.TurnFinished) -> None:
        if event.waits_for or not self._is_open:
            raise _Unproven
        self._is_open = False
        claims = self._claims
        if claims is not None:
            if claims.agents is not None and claims.agents != self._agents:
                raise _Unproven
            for agent in claims.texts:
                if agent not in self._called:
                    raise _Unproven
            if claims.state is not None and not compile_matcher(claims.state).holds(self._values):
                raise _Unproven
            if claims.reply is not None:
                reply = event.reply
                if type(reply) is not str or not compile_matcher(claims.reply).holds(reply):
                    raise _Unproven
        for name in self._of_turn:
            self._values[name] = self._start[name]


_HANDLERS: Final[Mapping[type, Callable[[_Proof, Any], None]]] = {
    e.RunStarted: _Proof._run_started,
    e.SessionStarted: _Proof._session_started,
    e.TurnStarted: _Proof._turn_started,
    e.MessageAdded: _Proof._message_added,
    e.AgentStarted: _Proof._agent_started,
    e.ContextBuilt: _Proof._context_built,
    e.StateUpdated: _Proof._state_updated,
    e.TurnFinished: _Proof._turn_finished,
}


def all_hold(scenario: Scenario, events: Sequence[e.AnyEvent]) -> bool:
    """Return whether the events prove that each claim holds, and that no denial is vacuous.

    False says nothing: a claim may hold that is not plain.
    """
    if scenario.expect.__pydantic_fields_set__:
        return False
    try:
        turns = [
            _claims_of(turn.expect) if turn.expect.__pydantic_fields_set__ else None
            for turn in scenario.turns
        ]
        if any(claims is not None for claims in turns):
            _Proof(turns).read(events)
    except (_Unproven, LookupError, TypeError, ValueError, AttributeError):
        # A damaged trace is read again by the checks, which fail as they always did.
        return False
    return True

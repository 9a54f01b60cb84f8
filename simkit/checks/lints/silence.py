"""A proof that no lint finds anything in a trace: each event is read once, in one loop.

Most turns of a declared pipeline are plain: agents are routed; each reads its instructions, its
history and the user's message, calls tools, answers with a text or passes control, and writes. The
proof gives up at whatever is not plain; then the lints read the trace from its beginning, and
decide. It may never prove what a lint would report: a property test compares the two, over shipped
and damaged traces.

A lint is silent if none of its methods is called, or if what is proven here rules out what they
look for (`RULED_OUT`). Every other method, of a lint that concerns the pipeline, ends the proof: a
new lint is asked until somebody has thought about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from simkit.checks.lints.exchanges import Calls, Handoffs
from simkit.checks.lints.ruled_out import Asking, Plain
from simkit.core.messages import Message
from simkit.trace import events as e

WARNED_SHARE: Final = 0.8
"""The share of a budget from which CTX-10 warns."""


Step: TypeAlias = Callable[["Silence", Any], bool]
"""Returns whether an event of its kind is plain."""
Reading: TypeAlias = Callable[["Silence", Iterable[e.AnyEvent]], bool]
"""Returns whether all events are plain."""


class Silence:
    """A proof about a trace, which goes on with it."""

    def __init__(self, plain: Plain) -> None:
        self._are_plain = _reading_of(tuple(plain.items()))
        """Returns whether these events are plain, too."""
        self.calls = Calls()
        self.handoffs = Handoffs(e.PipelineFacts(name="", agents={}))
        self.alone: list[e.AnyEvent] = []
        """The new events that lints read that decide by them alone."""
        self._has_begun = False
        """Whether the pipeline is known."""
        self._ended = 0
        """The number of turns that have ended."""
        self._instructions: Mapping[str, str] = {}
        """Agent to its declared instructions."""
        self._blocks: dict[str, e.Made] = {}
        """Agent to the part with its instructions, if it begins its contexts."""
        self._users_part: e.Made | None = None
        """The part with the turn's message of the user."""
        self._starts: frozenset[str] | None = None
        """The agents that may start a turn; None for any."""
        self._is_open = False
        """Whether control may go anywhere."""
        self._turn = self._last_turn = 0
        """The current turn, 0 between turns, and the newest."""
        self._newest = 0
        """The newest message."""
        self._settled: dict[str, int] = {}
        """Stream to its newest settled message."""
        self._is_first = False
        """Whether no agent has started in the turn."""
        self._targets: tuple[str, ...] = ()
        """The targets of the turn's last route."""
        self._inputs: dict[str, list[Any]] = {}
        """Agent to the inputs of its runs in the turn."""
        self._numbers: dict[tuple[str, str | None, str], int] = {}
        """Role, author and text of the turn's messages to their numbers."""
        self._writers: dict[int, str] = {}
        """The turn's messages to the runs that wrote them."""
        self._call_streams: set[str] = set()
        """Streams with messages of calls."""
        self._user = 0
        """The turn's message of the user."""
        self._base = self._base_run = ""
        """The newest model call that is the first of its run, and that run."""
        self._own_messages: tuple[int, ...] = ()
        """The run's messages since then."""
        self._given: set[tuple[str, str | None, str]] = set()
        """The same keys of the messages before all turns, which belong to none, as texts that
        sections make."""

    @property
    def turns(self) -> int | None:
        """The number of turns, if all of them have ended."""
        return None if self._turn else self._ended

    def goes_on(self, events: Iterable[e.AnyEvent]) -> bool:
        """Return whether these events are plain, too; after one that is not, nothing holds."""
        if self.alone:
            self.alone = []
        return self._are_plain(self, events)

    def _turn_started(self, event: e.TurnStarted) -> bool:
        if (
            self._turn
            or event.turn <= self._last_turn
            or event.message <= self._newest
            or self.calls.open
        ):
            return False
        self._turn = self._last_turn = event.turn
        self._is_first, self._targets, self._user = True, (), 0
        self._inputs, self._numbers, self._writers = {}, {}, {}
        self._users_part = None
        if self.calls.times:
            self.calls.times = {}
        return True

    def _message_added(self, event: e.MessageAdded) -> bool:
        message, numbers = event.message, self._numbers
        number = int(message.id[1:]) if message.id else 0
        if number <= self._newest or message.turn != self._turn:
            return False
        self._newest = number
        self._writers[number] = event.run
        if event.run == self._base_run:
            self._own_messages += (number,)
        if message.calls:
            return self.calls.ask(event, number)
        if message.call_id:
            return self.calls.answer(event, number)
        key = (message.role, message.agent, message.content)
        if not message.content or message.role == "system" or key in numbers or self.calls.open:
            return False
        numbers[key] = number
        if not self._turn:
            if key in self._given:  # Another session begins with the same.
                return False
            self._given.add(key)
        elif not self._user and message.role == "user":
            self._user = number
        return True

    def _agent_started(self, event: e.AgentStarted) -> bool:
        """Return whether an agent may start, and has not had the same input in the turn."""
        agent = event.agent
        if event.handoff or self.handoffs.open_request is not None:
            if not self.handoffs.start(event):
                return False
        elif not (
            agent in self._targets
            or (self._is_first and (self._starts is None or agent in self._starts))
            or self._is_open
        ):
            return False
        self._is_first = False
        if agent not in self._inputs:
            self._inputs[agent] = [event.input]
            return True
        inputs = self._inputs[agent]
        if event.input in inputs:
            return False
        inputs.append(event.input)
        return True

    def _route_chosen(self, event: e.RouteChosen) -> bool:
        self._targets = event.targets
        return True

    def _turn_finished(self, event: e.TurnFinished) -> bool:
        if not self._turn or self.calls.open or self.handoffs.open_request is not None:
            return False
        self._turn = 0
        self._ended += 1
        return True

    def _run_started(self, event: e.RunStarted) -> bool:
        """Note the pipeline; return whether it is the only one, and a run of it can be plain."""
        if self._has_begun:
            return False
        self._has_begun = True
        facts = event.pipeline
        self.handoffs = Handoffs(facts)
        self._instructions = {name: agent.instructions for name, agent in facts.agents.items()}
        self._starts = frozenset((*facts.starts, facts.decider)) if facts.starts else None
        self._is_open = facts.is_open
        return (
            not facts.is_code
            and not any(agent.private for agent in facts.agents.values())
            and not any(channel.reducer == "add" for channel in facts.channels.values())
        )

    def _context_built(self, event: e.ContextBuilt) -> bool:
        """Return whether a context has its agent's instructions, and each message once.

        Most are the instructions, a history and the user's message, and their first and last parts
        have been seen in another context.
        """
        agent, parts = event.agent, event.parts
        if self.calls.open:
            return False
        if event.base:
            return event.base == self._base and event.said == self._own_messages
        if event.said:
            return False
        self._base, self._base_run, self._own_messages = event.call, event.run, ()
        targets = self.handoffs.targets
        if targets and event.run in targets and not self.handoffs.show(event, self._user):
            return False
        # Three parts, which a slice tells without a call.
        is_usual = agent in self._blocks and parts[2:] and not parts[3:]
        if is_usual and parts[0] is self._blocks[agent]:
            middle, last = parts[1], parts[2]
            if last is self._users_part and type(middle) is e.Shown:
                number = last.of
                return (
                    self._settles(middle)
                    and number > self._settled[middle.stream]
                    and number not in middle.tail
                )
        if agent not in self._instructions:
            return False
        declared, blocks, has_speech = self._instructions[agent], 0, False
        own: tuple[int, ...] = ()
        """Logged messages that were made for this context, as the user's current one is."""
        texts: tuple[str, ...] = ()
        history: e.Shown | None = None
        for part in parts:
            if type(part) is not e.Made:
                if history is not None or not self._settles(part):
                    return False
                history, has_speech = part, True
                continue
            message = part.message
            content, is_system = message.content, message.role == "system"
            if part.pieces or part.shown or not content or message.calls or message.call_id:
                return False
            if part.section == "instructions":
                if content != declared or message.agent != agent or message.id or part.of:
                    return False
                if is_system and has_speech:
                    return False
                blocks += 1
            else:
                number = part.of or message.number
                key = (message.role, None, content)
                if message.agent is not None or content in texts or number in own:
                    return False
                if message.id and message.number != number:  # It shows one, and is another.
                    return False
                if message.turn:
                    if message.turn != self._turn or (
                        key in self._numbers and self._numbers[key] != number
                    ):
                        return False
                elif key in self._given:
                    return False
                texts += (content,)
                if number:
                    own += (number,)
            has_speech = has_speech or not is_system
        if history is not None and own:
            newest, tail = self._settled[history.stream], history.tail
            for number in own:
                if number <= newest or number in tail:
                    return False
        if blocks != (1 if declared else 0):
            return False
        if len(parts) == 3 and blocks:
            self._know(agent, parts[0], parts[2])
        return True

    def _know(self, agent: str, first: e.Part, last: e.Part) -> None:
        """Note parts of a plain context that are plain in any of the same form.

        The user's message is logged already: a later one that equals it ends the proof.
        """
        if type(first) is e.Made and first.section == "instructions":
            self._blocks[agent] = first
        if type(last) is e.Made and last.of:
            message, numbers = last.message, self._numbers
            key = (message.role, None, message.content)
            if key in numbers and numbers[key] == last.of:
                self._users_part = last

    def _settles(self, part: e.Shown) -> bool:
        """Note what a stream settles; return whether no message of it comes twice or is changed."""
        settled, stream, following = self._settled, part.stream, self.calls.following
        newest = settled.get(stream, 0)
        has_calls = False
        for number in part.kept:
            if number <= newest:
                return False
            if number in following:
                has_calls = True
            newest = number
        settled[stream] = newest
        for number in part.tail:
            if number <= newest:
                return False
            if number in following:
                has_calls = True
            newest = number
        if has_calls:
            if not (self.calls.are_whole(part.kept) and self.calls.are_whole(part.tail)):
                return False
            self._call_streams.add(stream)
        return not (
            newest > self._newest
            or (part.lo and stream in self._call_streams)
            or not (part.rendered is None or _is_plain(part.rendered))
            or (part.cuts and _have_edits(part.cuts))
            or (part.tail_cuts and _have_edits(part.tail_cuts))
        )


def _is_plain(message: Message) -> bool:
    """Return whether a message has a text, and no calls or results."""
    return bool(message.content) and not message.calls and not message.call_id


def _have_edits(cuts: Sequence[e.Cut]) -> bool:
    """Return whether cuts change messages; most drop them."""
    for cut in cuts:  # noqa: SIM110 - a plain loop, because most contexts have cuts.
        if cut.what != "message":
            return True
    return False


_HANDLERS: Final[Mapping[type, Step]] = {
    e.RunStarted: Silence._run_started,
    e.TurnStarted: Silence._turn_started,
    e.MessageAdded: Silence._message_added,
    e.AgentStarted: Silence._agent_started,
    e.ContextBuilt: Silence._context_built,
    e.RouteChosen: Silence._route_chosen,
    e.TurnFinished: Silence._turn_finished,
}


_TERMS: Final[Mapping[type, str]] = {
    e.ContextBuilt: f"(not event.budget or event.tokens < {WARNED_SHARE} * event.budget)",
    e.ModelCalled: "event.turn == silence._turn",
    # All of a run's lists begin with a message that it wrote in this turn.
    e.StateUpdated: "(not event.run or begin_with_own(event.update, silence._writers, event.run))"
    " and (not event.handoff or silence.handoffs.write(event))",
    e.ToolCalled: "silence.calls.execute(event)",
    e.ToolReturned: "silence.calls.take(event)",
    e.HandoffRequested: "silence.handoffs.request(event)",
    e.HandoffMade: "silence.handoffs.make(event)",
}
"""Expressions for what makes events of other kinds plain: a call for each is most of the time."""


@cache
def _reading_of(plain: tuple[tuple[type, Asking], ...]) -> Reading:
    """Return the loop over events: which are plain is one expression for each kind.

    It is generated, since each event of each run comes through here: a function for each kind, or a
    list of fields, takes longer than all else.
    """
    names: dict[str, Any] = {"begin_with_own": begin_with_own}
    lines = ["def are_plain(silence, events):", "  for event in events:", "    kind = type(event)"]
    for place, (kind, asking) in enumerate(plain):
        default = kind(at=0)
        names[f"kind_{place}"] = kind
        terms = [_term(field, getattr(default, field)) for field in asking.unset]
        if kind in _TERMS:
            terms.append(_TERMS[kind])
        if kind in _HANDLERS:
            names[f"handler_{place}"] = _HANDLERS[kind]
            terms.append(f"handler_{place}(silence, event)")
        lines.append(f"    {'elif' if place else 'if'} kind is kind_{place}:")
        lines.append(f"      if not ({' and '.join(terms) or 'True'}): return False")
        if asking.alone:
            tests = [
                " or ".join(f"not ({_term(field, getattr(default, field))})" for field in fields)
                for fields in asking.alone
            ]
            is_read = " or ".join(tests) if all(tests) else "True"
            lines.append(f"      if {is_read}: silence.alone.append(event)")
    lines += ["    else: return False", "  return True"]
    exec(compile("\n".join(lines), "<plain events>", "exec"), names)
    reading: Reading = names["are_plain"]
    return reading


def _term(field: str, unset: Any) -> str:
    """Return the expression that a field of an event is not set.

    All values of a field have one type, or are None, and a type has one empty value.
    """
    if unset is None:
        return f"event.{field} is None"
    return f"event.{field} == {unset!r}" if unset else f"not event.{field}"


def begin_with_own(update: Mapping[str, Any], writers: Mapping[int, str], run: str) -> bool:
    """Return whether all lists of an update begin with a message that the run wrote.

    ``writers`` has the run of each message, by its number.
    """
    for channel in update:
        items = update[channel]
        if type(items) is list and items:
            first = items[0]
            if type(first) is not dict or "$message" not in first:
                return False
            number = first["$message"]
            if number not in writers or writers[number] != run:
                return False
    return True

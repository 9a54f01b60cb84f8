"""CTX-11: how much of a context is none of the agent's business."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from simkit import events as e
from simkit.expect.findings import Hit
from simkit.messages import Message
from simkit.views import MadePart, ShownPart, StreamView, View

RECALLED: Final = frozenset({"notes", "memories", "recall"})
"""Sections of recalled items: they count neither as irrelevant nor in the total."""

DEFAULT_SHARE: Final = 0.2


class _Tally:
    """The irrelevant tokens of one stream, as sums over its first k entries."""

    __slots__ = ("last", "stream", "sums")

    def __init__(self, stream: StreamView) -> None:
        self.stream = stream
        self.sums: list[int] = [0]
        self.last: dict[str, int] = {}
        """Agent outside ``sees`` to the last place that is due to it."""


class IrrelevantShare:
    """CTX-11: the share of a context that other agents caused stays under its limit.

    Irrelevant are the messages of agents outside the agent's ``sees`` (its own are relevant), and
    the user's messages of earlier turns in which, the router's decider apart, only such agents
    ran. Recalled items (sections ``notes``, ``memories``, ``recall``) count neither way. The limit
    is ``limits: irrelevant_share``, 20 % unless set; an agent without ``sees`` is never reported.
    From reference system 1, "Potential issues", and adk#4070.
    """

    id = "CTX-11"
    kinds: tuple[type, ...] = (e.ContextBuilt,)

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._relevant: dict[str, frozenset[str]] = {}

    def look(self, event: e.AnyEvent, view: View) -> Iterable[Hit]:
        """Adds what is new in the streams to their sums, and compares with the limit."""
        assert isinstance(event, e.ContextBuilt)
        agent = event.agent
        facts = view.pipeline.agents.get(agent)
        if facts is None or facts.sees is None:
            return ()
        relevant = self._relevant.get(agent)
        if relevant is None:
            relevant = self._relevant[agent] = frozenset((agent, *facts.sees))
        call = view.calls[event.call]
        irrelevant, total = 0, event.tokens
        for part in call.context.parts:
            if type(part) is MadePart:
                if part.pieces:
                    total -= sum(p.tokens for p in part.pieces if p.section in RECALLED)
                elif part.section in RECALLED:
                    total -= part.tokens
                elif _is_foreign(part.message, relevant):
                    irrelevant += part.tokens
            else:
                assert isinstance(part, ShownPart)
                irrelevant += self._of_history(part, agent, relevant, view)
        limit = view.pipeline.limits.get("irrelevant_share", DEFAULT_SHARE)
        if irrelevant <= limit * total:
            return ()
        share = irrelevant / total
        agents = self._agents(call.context.parts, agent, relevant)
        what = (
            f"{share:.0%} of what agent {agent!r} is sent in turn {event.turn} comes from agents "
            f"outside its `sees`: {', '.join(agents)} (the limit is {limit:.0%})"
        )
        data = {"share": round(share, 2), "agents": agents}
        return (Hit(self.id, what, event.turn, agent, call.index, data=data),)

    def _of_history(
        self, part: ShownPart, agent: str, relevant: Collection[str], view: View
    ) -> int:
        """The irrelevant tokens that a history shows."""
        tally = self._tally(part.stream, agent, relevant, view)
        lo, hi = part.lo, part.hi
        tokens = tally.sums[hi] - tally.sums[lo] if lo < hi else 0
        for place in range(max(0, lo - hi), len(part.tail)):
            if _is_foreign(part.tail[place], relevant):
                tokens += part.tail_tokens[place]
        return tokens

    def _tally(
        self, stream: StreamView, agent: str, relevant: Collection[str], view: View
    ) -> _Tally:
        key = (stream.id, agent)
        tally = self._tallies.get(key)
        if tally is None or tally.stream is not stream:
            tally = self._tallies[key] = _Tally(stream)
        sums = tally.sums
        for place in range(len(sums) - 1, len(stream.entries)):
            causes = _causes(stream.entries[place], relevant, view)
            for cause in causes:
                tally.last[cause] = place
            sums.append(sums[-1] + (stream.tokens[place] if causes else 0))
        return tally

    def _agents(
        self, parts: Iterable[MadePart | ShownPart], agent: str, relevant: Collection[str]
    ) -> list[str]:
        """The agents that are to blame, by name."""
        found: set[str] = set()
        for part in parts:
            messages: list[Message] = []
            if isinstance(part, ShownPart):
                tally = self._tallies[part.stream.id, agent]
                found.update(name for name, place in tally.last.items() if place >= part.lo)
                messages = part.tail
            elif not part.pieces:
                messages = [part.message]
            found.update(m.agent for m in messages if m.agent and m.agent not in relevant)
        return sorted(found)


def _is_foreign(message: Message, relevant: Collection[str]) -> bool:
    return message.agent is not None and message.agent not in relevant


def _causes(message: Message, relevant: Collection[str], view: View) -> Collection[str]:
    """The agents outside ``sees`` that a settled message is due to; none if it is relevant."""
    author = message.agent
    if author is not None:
        return () if author in relevant else (author,)
    turns = view.turns
    if message.role != "user" or not 0 < message.turn <= len(turns):
        return ()
    decider = view.pipeline.decider
    answered = {run.agent for run in turns[message.turn - 1].runs if run.agent != decider}
    return answered if answered.isdisjoint(relevant) else ()

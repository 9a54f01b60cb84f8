"""CTX-11: the share of a context that is not relevant to the agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts
from simkit.checks.lints.registry import lint
from simkit.core.messages import JsonValue
from simkit.trace import events as e
from simkit.trace.views import MadePart, ShownPart, StreamView, View

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
        """Agent outside ``sees`` to the last entry that it caused."""


class _Shares:
    """The irrelevant tokens of all streams."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], _Tally] = {}
        """Stream and agent to the tokens that are irrelevant to the agent."""
        self._answered: dict[int, frozenset[str]] = {}
        """Ended turn to the agents that ran in it, without the decider."""

    def of_history(self, part: ShownPart, agent: str, relevant: frozenset[str], view: View) -> int:
        """Return the irrelevant tokens that a history shows."""
        stream = part.stream
        key = (stream.id, agent)
        tally = self.tallies.get(key)
        if tally is None or tally.stream is not stream:
            tally = self.tallies[key] = _Tally(stream)
        lo, hi = part.lo, part.hi
        sums = tally.sums
        if len(sums) <= hi:
            self._extend(tally, relevant, view)
        tokens = sums[hi] - sums[lo] if lo < hi else 0
        for place in range(max(0, lo - hi), len(part.tail)):
            author = part.tail[place].agent
            if author is not None and author not in relevant:
                tokens += part.tail_tokens[place]
        return tokens

    def _extend(self, tally: _Tally, relevant: frozenset[str], view: View) -> None:
        """Add the stream's new messages to the sums."""
        sums, last = tally.sums, tally.last
        entries, tokens = tally.stream.entries, tally.stream.tokens
        total = sums[-1]
        for place in range(len(sums) - 1, len(entries)):
            message = entries[place]
            author = message.agent
            if author is not None:
                if author not in relevant:
                    last[author] = place
                    total += tokens[place]
            elif message.role == "user":
                causes = self._answered_by(message.turn, view)
                if causes and causes.isdisjoint(relevant):
                    last.update(dict.fromkeys(causes, place))
                    total += tokens[place]
            sums.append(total)

    def _answered_by(self, turn: int, view: View) -> frozenset[str]:
        """Return the agents that ran in an ended turn; none outside turns."""
        answers = self._answered.get(turn)
        if answers is None:
            runs = view.turns[turn - 1].runs if 0 < turn <= len(view.turns) else ()
            decider = view.pipeline.decider
            answers = frozenset([run.agent for run in runs if run.agent != decider])
            self._answered[turn] = answers
        return answers

    def agents_in(
        self, parts: Iterable[MadePart | ShownPart], agent: str, relevant: frozenset[str]
    ) -> list[str]:
        """Return the agents that caused the irrelevant messages, by name."""
        agents_found: set[str] = set()
        for part in parts:
            if type(part) is ShownPart:
                for name, place in self.tallies[part.stream.id, agent].last.items():
                    if place >= part.lo:
                        agents_found.add(name)
                authors = [message.agent for message in part.tail[max(0, part.lo - part.hi) :]]
            else:
                authors = [] if part.pieces else [part.message.agent]
            agents_found.update(
                author for author in authors if author is not None and author not in relevant
            )
        return sorted(agents_found)


@lint("CTX-11", e.ContextBuilt, when="has_sees")
def irrelevant_share(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-11: the share of a context that other agents caused stays under its limit.

    Irrelevant are the messages of agents outside the agent's ``sees`` (its own are relevant), and
    the user's messages of earlier turns in which, apart from the router's decider, only such agents
    ran. Recalled items (sections ``notes``, ``memories``, ``recall``) do not count. The limit is
    ``limits: irrelevant_share``, 20 % by default; an agent without ``sees`` is never reported. From
    reference system 1, "Potential issues", and adk#4070.
    """
    agent = event.agent
    pipeline, view, shares = facts.pipeline, facts.view, facts.notes_of(_Shares)
    if agent not in pipeline.agents or pipeline.agents[agent].sees is None:
        return
    relevant = frozenset((agent, *(pipeline.agents[agent].sees or ())))
    call = view.calls[event.call]
    irrelevant, total = 0, event.tokens
    for part in call.context.parts:
        if type(part) is ShownPart:
            irrelevant += shares.of_history(part, agent, relevant, view)
        elif part.pieces:
            total -= sum(p.tokens for p in part.pieces if p.section in RECALLED)
        elif part.section in RECALLED:
            total -= part.tokens
        else:
            author = part.message.agent
            if author is not None and author not in relevant:
                irrelevant += part.tokens
    if not irrelevant:
        return
    limit = pipeline.limits.get("irrelevant_share", DEFAULT_SHARE)
    if irrelevant <= limit * total:
        return
    share = irrelevant / total
    agents = shares.agents_in(call.context.parts, agent, relevant)
    problem = (
        f"{round(100 * share)} % of what agent {agent!r} is sent in turn {event.turn} comes "
        f"from agents outside its `sees`: {', '.join(agents)} "
        f"(the limit is {round(100 * limit)} %)"
    )
    data: dict[str, JsonValue] = {"share": round(share, 2), "agents": list(agents)}
    yield Hit("CTX-11", problem, event.turn, agent, call.index, data=data)

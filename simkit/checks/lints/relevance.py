"""CTX-11: the share of a context that is not relevant to the agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import reads
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


class IrrelevantShare:
    """CTX-11: the share of a context that other agents caused stays under its limit.

    Irrelevant are the messages of agents outside the agent's ``sees`` (its own are relevant), and
    the user's messages of earlier turns in which, apart from the router's decider, only such agents
    ran. Recalled items (sections ``notes``, ``memories``, ``recall``) do not count. The limit is
    ``limits: irrelevant_share``, 20 % by default; an agent without ``sees`` is never reported. From
    reference system 1, "Potential issues", and adk#4070.
    """

    id = "CTX-11"

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._relevant: dict[str, frozenset[str] | None] = {}
        self._answered: dict[int, frozenset[str]] = {}
        """Ended turn to the agents that ran in it, without the decider."""

    def concerns(self, pipeline: e.PipelineFacts) -> bool:
        """Return whether anybody says which agents are relevant."""
        return any(agent.sees is not None for agent in pipeline.agents.values())

    @reads(e.ContextBuilt)
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Add the new messages of the streams to their sums, and compare with the limit."""
        agent = event.agent
        relevant = self._relevant.get(agent)
        if relevant is None:
            facts = view.pipeline.agents.get(agent)
            if facts is None or facts.sees is None:
                return ()
            relevant = self._relevant[agent] = frozenset((agent, *facts.sees))
        call = view.calls[event.call]
        irrelevant, total = 0, event.tokens
        for part in call.context.parts:
            if type(part) is ShownPart:
                irrelevant += self._of_history(part, agent, relevant, view)
                continue
            if part.pieces:
                total -= sum(p.tokens for p in part.pieces if p.section in RECALLED)
            elif part.section in RECALLED:
                total -= part.tokens
            else:
                author = part.message.agent
                if author is not None and author not in relevant:
                    irrelevant += part.tokens
        if not irrelevant:
            return ()
        limit = view.pipeline.limits.get("irrelevant_share", DEFAULT_SHARE)
        if irrelevant <= limit * total:
            return ()
        share = irrelevant / total
        agents = self._agents(call.context.parts, agent, relevant)
        problem = (
            f"{round(100 * share)} % of what agent {agent!r} is sent in turn {event.turn} comes "
            f"from agents outside its `sees`: {', '.join(agents)} "
            f"(the limit is {round(100 * limit)} %)"
        )
        data = {"share": round(share, 2), "agents": agents}
        return (Hit(self.id, problem, event.turn, agent, call.index, data=data),)

    def _of_history(self, part: ShownPart, agent: str, relevant: frozenset[str], view: View) -> int:
        """Return the irrelevant tokens that a history shows."""
        stream = part.stream
        key = (stream.id, agent)
        tally = self._tallies.get(key)
        if tally is None or tally.stream is not stream:
            tally = self._tallies[key] = _Tally(stream)
        lo, hi = part.lo, part.hi
        sums = tally.sums
        if len(sums) <= hi:
            self._extend(tally, relevant, view)
        tokens = sums[hi] - sums[lo] if lo < hi else 0
        if part.tail:
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

    def _agents(
        self, parts: Iterable[MadePart | ShownPart], agent: str, relevant: frozenset[str]
    ) -> list[str]:
        """Return the agents that caused the irrelevant messages, by name."""
        agents_found: set[str] = set()
        for part in parts:
            if type(part) is ShownPart:
                for name, place in self._tallies[part.stream.id, agent].last.items():
                    if place >= part.lo:
                        agents_found.add(name)
                for message in part.tail[max(0, part.lo - part.hi) :]:
                    if message.agent is not None and message.agent not in relevant:
                        agents_found.add(message.agent)
            else:
                author = part.message.agent
                if author is not None and author not in relevant and not part.pieces:
                    agents_found.add(author)
        return sorted(agents_found)

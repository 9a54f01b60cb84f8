"""Planned faults of models: the calls that fail, by count and by seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from simkit.core.errors import ProcessCrashed, ScriptMisfit, TurnCancelled, TurnCut
from simkit.core.messages import Answer, Fails
from simkit.core.rng import Chance
from simkit.runtime.ports import ModelRequest, TurnModel
from simkit.spec.scenario.moments import ANY_TOOL, AT_END, TOOL_MARK, Moment
from simkit.spec.scenario.replies import Fault


class Planned(msgspec.Struct, frozen=True, gc=False):
    """A failure in place of an answer."""

    fails: Fails
    number: int
    """The number of its agent's call in the turn, from 1."""

    @property
    def words(self) -> str:
        """Return ``rate_limit on call 2``."""
        return f"{self.fails.kind} on call {self.number}"


class ToolStart(msgspec.Struct, frozen=True, gc=False):
    """The start of a tool's call: its numbers in the turn, from 1."""

    agent: str
    tool: str
    of_agent: int
    """Its number among the agent's calls of the tool."""
    of_tool: int
    """Its number among all calls of the tool."""
    of_agents_tools: int
    """Its number among the agent's calls of any tool."""
    of_all: int
    """Its number among all calls of any tool."""

    def number(self, moment: Moment) -> int:
        """Return the number that a moment counts."""
        if moment.tool == ANY_TOOL:
            return self.of_all if moment.agent is None else self.of_agents_tools
        return self.of_tool if moment.agent is None else self.of_agent


class CutMoment(msgspec.Struct, frozen=True, gc=False):
    """The moment at which a turn ends before its reply."""

    key: str
    """`cancel` or `crash`."""
    moment: Moment

    def due(self, agent: str, number: int, total: int) -> TurnCut | None:
        """Return the end of the turn; None if a model call is not the one.

        ``number`` counts the agent's calls in the turn, ``total`` those of all agents.
        """
        named = self.moment.agent
        if self.moment.tool is not None or named not in (None, agent):
            return None
        return self._end(self.words) if self.moment.call == (number if named else total) else None

    def due_at_tool(self, start: ToolStart, at: str) -> TurnCut | None:
        """Return the end of the turn; None if the start or the end of a tool is not the one."""
        moment = self.moment
        is_it = (
            moment.at == at
            and moment.tool in (ANY_TOOL, start.tool)
            and moment.agent in (None, start.agent)
            and moment.call == start.number(moment)
        )
        if not is_it:
            return None
        number = start.of_tool if moment.agent is None else start.of_agent
        return self._end(_words(number, moment.agent, start.tool, at))

    def _end(self, words: str) -> TurnCut:
        if self.key == "crash":
            return ProcessCrashed(f"the process ended at {words}", f"crash at {words}")
        return TurnCancelled(f"the user cancelled the turn at {words}", f"cancel at {words}")

    @property
    def words(self) -> str:
        """Return ``call 2 of billing``, or ``the end of call 1 of refund()``."""
        moment = self.moment
        return _words(moment.call, moment.agent, moment.tool, moment.at)


def _words(number: int, agent: str | None, tool: str | None, at: str) -> str:
    """Return the words of a moment."""
    if tool is None:
        return f"call {number}{f' of {agent}' if agent else ''}"
    start = "the end of " if at == AT_END else ""
    name = "any tool" if tool == ANY_TOOL else f"{tool}{TOOL_MARK}"
    return f"{start}call {number} of {name}{f' by {agent}' if agent else ''}"


_AT_TOOL: Final = re.compile(r"\w+ at (the end of )?call (\d+) of (.+)\(\)")


def tool_moment(fault: str) -> dict[str, str | int] | None:
    """Return the moment, as a scenario writes it, at which a turn was cut by any agent's tool.

    ``fault`` is what the trace says of it; None if that speaks of no tool.
    """
    words = _AT_TOOL.fullmatch(fault)
    if words is None:
        return None
    moment: dict[str, str | int] = {"tool": words[3]}
    if words[2] != "1":
        moment["call"] = int(words[2])
    if words[1]:
        moment["at"] = AT_END
    return moment


class FaultPlan:
    """Decides for each model call whether it fails; counts begin again with every turn.

    The draw for a call depends on the seed, the turn, the agent and the call's number only.
    """

    def __init__(
        self,
        turns: Sequence[Sequence[Fault]] = (),
        always: Sequence[Fault] = (),
        seed: int = 0,
        cuts: Mapping[int, CutMoment] = {},
        *,
        is_certain: bool = True,
    ) -> None:
        """``turns`` and ``cuts``, by the index of their turn, may grow.

        ``always`` applies to each turn. ``is_certain``: a turn that cannot end at its moment is an
        error, if that moment is certain.
        """
        self._turns, self._always, self._cuts = turns, tuple(always), cuts
        self._chance = Chance(seed).child("faults")
        self._place = 0
        self._calls: dict[str, int] = {}
        self._tool_calls: dict[tuple[str, str], int] = {}
        """Agent and tool to the number of calls that began, in a turn that a tool cuts."""
        self.faults: tuple[Fault, ...] = ()
        """The faults of the current turn."""
        self._are_certain = is_certain
        self.is_certain = is_certain
        """Whether it is an error if this turn cannot end at its moment; else it goes on."""
        self.cut: CutMoment | None = None
        """The end of the current turn, until it took place."""
        self.has_any = False
        """Whether the current turn began with any of these."""
        self.ends_at_tool = False
        """Whether the current turn is to end at a tool."""

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""
        faults = self._turns[index] if index < len(self._turns) else ()
        if not (faults or self._always or self._cuts or self.has_any):
            return  # As most turns, it has no fault, and the one before had none.
        self._place, self._calls, self._tool_calls = index, {}, {}
        self.faults = (*faults, *self._always)
        self.cut = self._cuts.get(index)
        self.has_any = bool(self.faults) or self.cut is not None
        self.is_certain = self._are_certain and (self.cut is None or self.cut.moment.is_certain)
        self.ends_at_tool = self.cut is not None and self.cut.moment.tool is not None

    def check_cut(self) -> None:
        """Raise ScriptMisfit if the turn was to end at a call that it did not make."""
        if self.cut is None or not self.is_certain:
            return
        key, kind = self.cut.key, "model"
        calls = [f"{number} of {agent}" for agent, number in self._calls.items()]
        if self.cut.moment.tool is not None:
            kind = "tool"
            calls = [
                f"{number} of {tool}{TOOL_MARK} by {agent}"
                for (agent, tool), number in self._tool_calls.items()
            ]
        raise ScriptMisfit(
            f"turn {self._place + 1} ended before its `{key}`, {self.cut.words}: its {kind} "
            f"calls were {', '.join(calls) or 'none'}.\nName a call that it makes.",
            ("turns", self._place, key),
        )

    def begin_tool(self, agent: str, tool: str) -> ToolStart | None:
        """Count a tool's call that begins; return None in a turn that does not end at one."""
        if not self.ends_at_tool:
            return None
        calls = self._tool_calls
        calls[agent, tool] = calls.get((agent, tool), 0) + 1
        return ToolStart(
            agent,
            tool,
            calls[agent, tool],
            sum(number for (_, name), number in calls.items() if name == tool),
            sum(number for (name, _), number in calls.items() if name == agent),
            sum(calls.values()),
        )

    def due_at_tool(self, start: ToolStart | None, at: str) -> TurnCut | None:
        """Return the end of the turn at a moment of a tool's call; None if it goes on."""
        if start is None or self.cut is None:
            return None
        cut = self.cut.due_at_tool(start, at)
        if cut is not None:
            self.cut = None
        return cut

    def due(self, agent: str) -> Planned | TurnCut | None:
        """Count a model call of an agent; return its failure, or None. The first fault wins.

        The end of the turn comes before any failure; it takes place once.
        """
        number = self._calls[agent] = self._calls.get(agent, 0) + 1
        if self.cut is not None:
            cut = self.cut.due(agent, number, sum(self._calls.values()))
            if cut is not None:
                self.cut = None
                return cut
        for which, fault in enumerate(self.faults):
            if fault.agent in (None, agent) and self._strikes(fault, which, agent, number):
                return Planned(fault.failure(), number)
        return None

    def _strikes(self, fault: Fault, which: int, agent: str, number: int) -> bool:
        if fault.share is None:
            return fault.call <= number < fault.call + fault.times
        draw = self._chance.child(f"{self._place}/{agent}/{number}/{which}")
        return draw.random.random() < fault.share


class FaultyModel:
    """A model with planned failures in front of another model."""

    def __init__(self, model: TurnModel, plan: FaultPlan) -> None:
        self._model, self._plan = model, plan
        self.begin_group, self.unused = model.begin_group, model.unused

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""
        self._plan.begin_turn(index)
        self._model.begin_turn(index)

    def answer(self, request: ModelRequest) -> Answer:
        """Return the planned failure, or the other model's answer; raise TurnCut."""
        planned = self._plan.due(request.agent) if self._plan.has_any else None
        if planned is None:
            return self._model.answer(request)
        if isinstance(planned, TurnCut):
            raise planned
        return Answer(planned.fails, fault=planned.words)

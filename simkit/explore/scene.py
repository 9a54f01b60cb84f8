"""The offers to models and tools of one conversation, and their answers so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from simkit.core.errors import ReplyMissing, ScriptMisfit
from simkit.core.messages import Calls, JsonValue
from simkit.explore.choices import Choices, Source
from simkit.explore.claims import Part, parts_of
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.functions import function_named, schema_of
from simkit.runtime.ports import ModelRequest, WaitingCall
from simkit.runtime.schedules import Below, Blocks, Pick, any_of, names_of, pick_of
from simkit.spec.pipeline.agents import ELSE
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.moments import FIFO, TOOL_MARK
from simkit.spec.scenario.simulations import Simulation
from simkit.trace.store import canonical

T = TypeVar("T")


class Scene:
    """The choices of one conversation, and the answers of its models and tools so far."""

    def __init__(
        self,
        source: Source,
        simulation: Simulation,
        lines: Mapping[str, Sequence[Any]],
        shares: Mapping[str, float],
        *,
        brings_up_numbers: bool,
    ) -> None:
        """``lines`` are those of the simulation, as data; ``shares`` of what is rare in answers.

        ``brings_up_numbers``: some answers have a number of their own, to which users may refer.
        """
        self.brings_up_numbers = brings_up_numbers
        self.names: frozenset[str] = frozenset()
        """The names of the agents that the framework knows."""
        self.source, self.simulation, self.lines, self.shares = source, simulation, lines, shares
        self.persona: Mapping[str, Any] = {}
        """The persona of the user who speaks."""
        self.replies: list[dict[str, list[Any]]] = []
        """The answers of models, turn by turn, as a scenario has them."""
        self.results: list[dict[str, list[Any]]] = []
        """The answers of tools, turn by turn, as a scenario has them."""
        self.questions: set[Any] = set()
        """Session, agent and question of each interrupt so far."""
        self.offered: set[Part] = set()
        """The tools and handoffs that models were offered."""
        self._offers: set[tuple[str, tuple[str, ...], tuple[str, ...]]] = set()
        """The offers of model calls so far: an agent's are the same in most of them."""
        self.reached: set[Part] = set()
        """The tools and handoffs that models asked for."""
        self.provided: set[Part] = set()
        """The provider's own tools that models were offered: whether one is used nobody sees."""
        self.misfit: ScriptMisfit | None = None
        """The error of a line that did not fit the request; None if all did."""
        self.faults: list[set[str]] = []
        """The faults of providers, turn by turn."""
        self._given: list[dict[tuple[str, str], list[Any]]] = []
        """Turn by turn, the answers of each agent and each tool."""
        self._again: dict[tuple[str, str], list[Any]] | None = None
        """The answers that a turn which runs again has still to get; None in a new turn."""

    def offer(self, agent: str, tools: tuple[str, ...], handoffs: tuple[str, ...]) -> None:
        """Note what a model call of an agent offers."""
        offer = agent, tools, handoffs
        if offer not in self._offers:
            self._offers.add(offer)
            self.offered.update(parts_of(*offer))

    def begin_turn(self, index: int) -> None:
        """Begin a turn, or run one again that waits for the user: in a new process it does."""
        self._again = None
        if index < len(self._given):
            self._again = {key: [*answers] for key, answers in self._given[index].items()}
            return
        self._given.append({})
        self.replies.append({})
        self.results.append({})
        self.faults.append(set())

    def once(self, noun: str, name: str, choose: Callable[[], T]) -> T:
        """Return the next answer of an agent or a tool; in a turn that runs again, as it was.

        ``choose`` returns a new one. Raise ReplyMissing if it asks for more than it did before.
        """
        if self._again is None:
            answer = choose()
            self._given[-1].setdefault((noun, name), []).append(answer)
            return answer
        answers = self._again.get((noun, name))
        if not answers:
            raise ReplyMissing(f"{noun} {name!r} was not asked so often when the turn first ran.")
        earlier: T = answers.pop(0)
        return earlier


ACTIONS_MAX: Final = 4
"""The number of answers of an agent in one turn that act: call tools or pass control.

A model may go on for ever. That the pipeline then ends at its limit is no fault of the pipeline.
"""
_FORCED: Final = frozenset(("required", "any"))
"""The words by which a request says that some tool must be called; compatible servers say `any`."""


PayloadSchemas = Callable[[str, str], Sequence[tuple[str | None, JsonValue]]]
"""Function that returns the payloads that an agent may hand to another one, each as the type that
the handoff must say (None if it need not), and a schema (None if there is none)."""


class Interfaces(msgspec.Struct, frozen=True):
    """The schemas of a declared pipeline's models and tools; empty for code."""

    payloads_of: PayloadSchemas = lambda source, target: ((None, None),)
    delegates: Callable[[str, str], bool] = lambda source, target: False
    """Returns whether a handoff between two agents comes back to its source."""
    names: Sequence[str] = ()
    """Words of the pipeline, such as its agents, which an answer may say."""
    tool_args: Mapping[str, JsonValue] = {}
    tool_returns: Mapping[str, JsonValue] = {}
    schemas: Mapping[str, JsonValue] = {}
    """The schemas that a ``$ref`` may name."""
    function: Callable[[str], Callable[..., Any]] = function_named
    """Returns a user's function by its name."""
    is_code: bool = True
    decisions: Mapping[str, Sequence[str]] = {}
    """Agent whose answer says how control moves, to the words by which it does."""


class TurnCalls:
    """The calls of each agent in a turn, by which it may call some tools next, and others not."""

    def __init__(self) -> None:
        self._called: Counter[tuple[str, str]] = Counter()
        self._actions: Counter[str] = Counter()

    def act(self, agent: str) -> None:
        """Count an action of an agent."""
        self._actions[agent] += 1

    def add(self, agent: str, calls: Calls) -> None:
        """Count the calls of an answer."""
        self._called.update((agent, call.tool) for call in calls.calls)

    def has_acted_enough(self, agent: str) -> bool:
        """Return whether an agent has acted as often as it may in a turn, if it may stop."""
        return self._actions[agent] >= ACTIONS_MAX

    def tools_for(self, request: ModelRequest) -> tuple[Sequence[str], bool]:
        """Return the tools that the model may call, and whether it must call one.

        A model that must would never end a loop by itself. So it comes to the tool that ends it:
        after some actions it calls only those that it has called least.
        """
        tools, choice, allowed = request.tools, request.choice, request.allowed
        if allowed is not None:
            tools = tuple(tool for tool in tools if tool in allowed)
        if choice in tools:
            return (choice,), True
        if choice == "none":
            return (), False
        is_forced = choice in _FORCED and bool(tools)
        if is_forced and self.has_acted_enough(request.agent):
            return self._least_called(request.agent, tools), True
        return tools, is_forced

    def tool_in_place(self, request: ModelRequest) -> str | None:
        """Return the tool that a model calls in place of an action that it has done often enough.

        None if it need not call one.
        """
        tools, is_forced = self.tools_for(request)
        return self._least_called(request.agent, tools)[0] if is_forced else None

    def _least_called(self, agent: str, tools: Sequence[str]) -> list[str]:
        counts = {tool: self._called[agent, tool] for tool in tools}
        least = min(counts.values())
        return [tool for tool, count in counts.items() if count == least]


def interfaces_of_code(app: object) -> Interfaces:
    """Return the results that tools of the scenario's servers may have."""
    assert isinstance(app, App)
    tools = [
        (name, tool, each.returns)
        for name, server in app.servers.items()
        if server.mcp is not None
        for tool, each in server.mcp.tools.items()
    ]
    counts = Counter(tool for _, tool, _ in tools)
    return Interfaces(
        tool_returns={
            tool if counts[tool] == 1 else f"{name}/{tool}": schema_of(returns, {})
            for name, tool, returns in tools
        }
    )


def interfaces_of(ready: CompiledPipeline) -> Interfaces:
    """Return what a pipeline's models are offered, and what their answers must satisfy."""

    def payloads_of(source: str, target: str) -> list[tuple[str | None, JsonValue]]:
        contracts = ready.contracts_for(source, target)
        must_say_type = len(contracts) > 1
        return [
            (
                contract.type if must_say_type else None,
                canonical(schema_of(contract.payload, ready.schemas)),
            )
            for contract in contracts
        ] or [(None, None)]

    def delegates(source: str, target: str) -> bool:
        return any(each.mode == "delegate" for each in ready.contracts_for(source, target))

    return Interfaces(
        payloads_of,
        delegates,
        tuple(ready.agents),
        ready.tool_args,
        ready.tool_returns,
        ready.schemas,
        ready.functions.named,
        decisions=_decisions_in(ready.pipeline),
        is_code=False,
    )


def _decisions_in(pipeline: Pipeline) -> dict[str, Sequence[str]]:
    """Return the words that move control: a decision's labels, a router's targets.

    They are empty for any others, if these move it, too.
    """
    flow = pipeline.flow
    if flow.router is not None:
        targets = tuple(name for name in pipeline.agents if name != flow.router.decide)
        return {flow.router.decide: targets}
    if flow.graph is None:
        return {}
    words: dict[str, Sequence[str]] = {}
    for name, node in flow.graph.nodes.items():
        if node.role == "decision":
            labels = [edge.label for edge in flow.graph.edges if edge.from_ == name]
            may_be_other = node.exit or ELSE in labels
            named = dict.fromkeys(label for label in labels if label not in (None, ELSE))
            words[name] = (*([""] if may_be_other else []), *(label or "" for label in named))
    return words


# The order in which the models of an explored conversation are answered, and how it is kept.


OFTEN: Final = 8
"""In one of so many turns calls do not wait."""
TOGETHER: Final = 4
"""One of so many answers of drawn conversations comes together with all others that wait."""


class _Answered(NamedTuple):
    """A call that was answered."""

    name: str
    waiting: int
    """The number of calls that waited, itself among them."""
    group: int
    """The number of its answer in the turn; calls that were answered together have the same."""


class OrderChoices(msgspec.Struct, eq=False):
    """A schedule whose choices are those of a conversation; it keeps the names of a turn."""

    orders_tools = True

    word: str
    choices: Callable[[], Choices]
    """Returns those of the turn."""
    is_each: bool
    """Whether they take every order in turn."""
    commutes: bool
    """Whether what parallel agents do commutes: then every order in which they end is enough."""
    may_be_at_once: bool
    """Whether the simplest choice is that calls do not wait for each other, which a scenario need
    not say. Code then asks in an order that may depend on what its clients have cached."""
    answers_at_once: bool = True
    """Whether calls are answered at once, and `pick` is not called."""
    _pick: Pick | None = None
    _place: int = 0
    _turns: dict[int, list[_Answered]] = {}
    """For each turn the calls that were answered."""
    _again: list[_Answered] | None = None
    """The rest of the order in which a turn that runs again first ran; None in a new turn."""
    _group: int = 0
    """The number of the answer that is given now."""
    _is_together: bool = False
    """Whether all calls that wait now are answered together."""
    _is_first: bool = False
    """Whether the last answer was that of the call that was made first."""

    def begin_turn(self, index: int) -> None:
        """Begin a turn with its choices, or run one again, in a new process, as it ran."""
        self._again, self._place = None, index
        self._group, self._is_together = 0, False
        if index in self._turns:
            self._again = [*self._turns[index]]
            self.answers_at_once = not self._again
            return
        self._pick = None if self.word == FIFO else self._pick_of(self.choices().below)
        self.answers_at_once = self._pick is None
        self._turns[index] = []

    def _pick_of(self, below: Below) -> Pick | None:
        if self.is_each:
            return Blocks(below) if self.commutes else any_of(below)
        if self.may_be_at_once and not below(OFTEN):
            return None
        return pick_of(self.word, below)

    def pick(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next."""
        names = names_of(waiting)
        if self._again is not None:
            answered = self._again.pop(0) if self._again else _Answered("", 0, -1)
            self._group = answered.group
            return names.index(answered.name) if answered.name in names else 0
        index = self._pick(waiting) if self._pick is not None and not self._is_together else 0
        self._is_first = index == 0
        answers = self._turns[self._place]
        self._group += not self._is_together
        answers.append(_Answered(names[index], len(waiting), self._group))
        if len(waiting) == 1:
            self._is_together = False
        return index

    def joins(self) -> bool:
        """Return whether the next call is answered together with the last one: with one, all are.

        Code that gives way for no time, `await asyncio.sleep(0)`, meets other code only so.
        They are so in the order in which they were made, exhaustively once in a turn: two parts of
        code that meet once show a lost update.
        """
        if self._again is not None:
            return bool(self._again) and self._again[0].group == self._group
        may = self._is_first and not (self.is_each and self._was_together())
        if may and not self._is_together:
            count = 2 if self.is_each else TOGETHER
            self._is_together = self.choices().below(count) == count - 1
        return self._is_together

    def _was_together(self) -> bool:
        answers = self._turns[self._place]
        return len({answered.group for answered in answers}) < len(answers)

    def end_turn(self) -> None:
        """Do nothing: there are no names that could be left over."""

    def order_of(self, turn: int) -> list[str | list[str]]:
        """Return the list by which a scenario's turn repeats the order, up to its last choice.

        It is empty if no two calls have waited at the same time. Where tools have waited, it has
        the last one of them: tools wait in turns whose list names one, and in no other.
        """
        answers = self._turns.get(turn, [])
        if all(answered.waiting == 1 for answered in answers):
            return []
        groups = [[*group] for _, group in groupby(answers, key=lambda answered: answered.group)]
        last = max(
            number
            for number, group in enumerate(groups, 1)
            if any(each.waiting > 1 or TOOL_MARK in each.name for each in group)
        )
        names = [[answered.name for answered in group] for group in groups[:last]]
        return [group if len(group) > 1 else group[0] for group in names]

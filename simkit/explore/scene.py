"""The offers to models and tools of one conversation, and their answers so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from simkit.core.errors import ReplyMissing, ScriptMisfit
from simkit.core.messages import Calls, JsonValue
from simkit.explore.choices import Source
from simkit.explore.claims import Part, parts_of
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.functions import function_named, schema_of
from simkit.runtime.ports import ModelRequest
from simkit.spec.pipeline.agents import ELSE
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import App
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

    def begin_turn(self, place: int) -> None:
        """Begin a turn, or run one again that waits for the user: in a new process it does."""
        self._again = None
        if place < len(self._given):
            self._again = {key: [*answers] for key, answers in self._given[place].items()}
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
        if not is_forced:
            return None
        return self._least_called(request.agent, tools)[0]

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
            own = dict.fromkeys(label for label in labels if label not in (None, ELSE))
            words[name] = (*([""] if may_be_other else []), *(label or "" for label in own))
    return words

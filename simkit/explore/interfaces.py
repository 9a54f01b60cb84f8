"""Models and tools that may answer anything that their interface permits.

A model's interface is in its request: the tools that it is offered, their schemas, the schema of
its output, the agents that it may pass control to. Each answer is kept as the reply line that gives
it again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import (
    Answer,
    CallLine,
    Calls,
    Handoff,
    JsonValue,
    Reply,
    Structured,
    Text,
)
from simkit.explore.choices import Choices, TurnPlan
from simkit.explore.values import value_of
from simkit.runtime.ports import ModelRequest, ToolReply
from simkit.trace.events import UnusedLines, UnusedResults

ACTIONS_MAX: Final = 4
"""The number of answers of an agent in one turn that act: call tools or pass control.

A model may go on for ever. That the pipeline then ends at its limit is no fault of the pipeline.
"""
REPEATS_MAX: Final = 2
"""How often an agent makes the same call in one turn: a model that repeats itself is no fault of
the pipeline either."""
KNOWN_MAX: Final = 6
"""The number of texts of the conversation that an argument may repeat."""
_MENTIONED: Final = re.compile(r"\b(?=[\w-]*\d)\w[\w-]+\b")
"""Numbers of orders, invoices and the like."""
TEXT: Final = "Done."

PayloadSchema = Callable[[str, str], JsonValue]
"""Function that returns the schema of the payload from an agent to another one; None if there is
none."""


class Lines:
    """The answers of models and tools, turn by turn, as a scenario has them."""

    def __init__(self) -> None:
        self.replies: list[dict[str, list[Any]]] = []
        self.results: list[dict[str, list[Any]]] = []

    def begin_turn(self) -> None:
        """Begin a turn."""
        self.replies.append({})
        self.results.append({})


class ChoosingModel:
    """A model that answers by choice; the model of every agent."""

    def __init__(
        self,
        plans: Sequence[TurnPlan],
        lines: Lines,
        tool_args: Mapping[str, JsonValue],
        schemas: Mapping[str, JsonValue],
        payload_of: PayloadSchema,
        names: Sequence[str],
    ) -> None:
        """``names`` are words of the pipeline, such as its agents, which an answer may say."""
        self._plans, self._lines, self._names = plans, lines, names
        self._tool_args, self._schemas, self._payload_of = tool_args, schemas, payload_of
        self._answers: Iterator[tuple[int, ...]] = iter(())
        self._actions: Counter[str] = Counter()
        self._repeats: Counter[tuple[str, bytes]] = Counter()

    def begin_turn(self, place: int) -> None:
        """Begin a turn with its choices."""
        self._answers = iter(self._plans[place].answers)
        self._actions, self._repeats = Counter(), Counter()
        self._lines.begin_turn()

    def begin_group(self, agents: Sequence[str]) -> None:
        """Do nothing: every run is answered."""

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return nothing: choices that are left over decide nothing."""
        return ()

    def answer(self, request: ModelRequest) -> Answer:
        """Return an answer that the request permits."""
        choices = Choices(next(self._answers, ()))
        reply = self._reply(request, choices)
        line = line_of(reply)
        if isinstance(reply, (Calls, Handoff)):
            self._actions[request.agent] += 1
            action = request.agent, msgspec.json.encode(line)
            self._repeats[action] += 1
            if self._repeats[action] > REPEATS_MAX:
                reply, line = Text(TEXT), TEXT
        lines = self._lines.replies[-1].setdefault(request.agent, [])
        lines.append(line)
        return Answer(reply, line=len(lines) - 1 if isinstance(reply, Handoff) else None)

    def _reply(self, request: ModelRequest, choices: Choices) -> Reply:
        known = _mentioned(request)
        actions: list[Callable[[], Reply]] = []
        if self._actions[request.agent] < ACTIONS_MAX:
            actions += [self._calling(request, (tool,), choices, known) for tool in request.tools]
            actions += [
                self._handing(request, target, choices, known) for target in request.handoffs
            ]
            if len(request.tools) > 1:
                # Providers let a model call several tools in one answer.
                tools = request.tools
                actions.append(
                    lambda: self._calling(
                        request, (choices.one_of(tools), choices.one_of(tools)), choices, known
                    )()
                )
        place = choices.below(len(actions) + 1)
        try:
            if place:
                return actions[place - 1]()
            if request.output is not None:
                names = [*self._names, *known]
                return Structured(value_of(request.output, choices, names, self._schemas))
        except ValueError:
            pass  # A schema of which no value is known: the model says something instead.
        return Text(TEXT)

    def _calling(
        self, request: ModelRequest, tools: Sequence[str], choices: Choices, known: Sequence[str]
    ) -> Callable[[], Reply]:
        def reply() -> Reply:
            return Calls(
                tuple(CallLine(tool, self._args(request, tool, choices, known)) for tool in tools)
            )

        return reply

    def _args(
        self, request: ModelRequest, tool: str, choices: Choices, known: Sequence[str]
    ) -> JsonValue:
        schema = request.args.get(tool) or self._tool_args.get(tool)
        args: JsonValue = {}
        return args if schema is None else value_of(schema, choices, known, self._schemas)

    def _handing(
        self, request: ModelRequest, target: str, choices: Choices, known: Sequence[str]
    ) -> Callable[[], Reply]:
        def reply() -> Reply:
            schema = self._payload_of(request.agent, target)
            if schema is None:
                return Handoff(target)
            return Handoff(target, payload=value_of(schema, choices, known, self._schemas))

        return reply


class ChoosingTools:
    """Tools that return what their schemas permit; a tool with a function runs for real."""

    def __init__(
        self,
        plans: Sequence[TurnPlan],
        lines: Lines,
        real: Callable[[str], bool],
        run: Callable[[str, JsonValue], JsonValue],
        returns: Mapping[str, JsonValue],
        schemas: Mapping[str, JsonValue],
    ) -> None:
        """``real`` returns whether a tool has a function, and ``run`` calls it."""
        self._plans, self._lines, self._real, self._run = plans, lines, real, run
        self._returns, self._schemas = returns, schemas
        self._results: Iterator[tuple[int, ...]] = iter(())

    def begin_turn(self, place: int) -> None:
        """Begin a turn with its choices."""
        self._results = iter(self._plans[place].results)

    def unused(self) -> tuple[UnusedResults, ...]:
        """Return nothing: choices that are left over decide nothing."""
        return ()

    def scripts(self, tool: str) -> bool:
        """Return whether the tool is answered by choice."""
        return not self._real(tool)

    def call(self, agent: str, tool: str, args: JsonValue) -> ToolReply:
        """Return a result that the tool's schema permits, or that of its function."""
        if self._real(tool):
            return ToolReply(self._run(tool, args))
        choices = Choices(next(self._results, ()))
        results = self._lines.results[-1].setdefault(tool, [])
        at = ("turns", len(self._lines.results) - 1, "tool_results", tool, len(results))
        if choices.below(4) == 3:
            results.append({"error": "unavailable"})
            return ToolReply(error="unavailable", at=at)
        schema = self._returns.get(tool)
        try:
            value = TEXT if schema is None else value_of(schema, choices, (), self._schemas)
        except ValueError:
            value = TEXT
        results.append({"returns": value})
        return ToolReply(value, at=at)


def line_of(reply: Reply) -> Any:
    """Return the reply line that gives an answer again."""
    if isinstance(reply, Text):
        return reply.text
    if isinstance(reply, Structured):
        return {"json": reply.value}
    if isinstance(reply, Calls):
        return {"calls": [{call.tool: call.args} for call in reply.calls]}
    assert isinstance(reply, Handoff)
    payload = {} if reply.payload is None else {"payload": reply.payload}
    return {"handoff": {"to": reply.to, **payload}}


def _mentioned(request: ModelRequest) -> list[str]:
    """Return numbers and the like that the context mentions, the newest first."""
    texts = (message.content for message in reversed(request.messages()))
    return list(dict.fromkeys(word for text in texts for word in _MENTIONED.findall(text)))[
        :KNOWN_MAX
    ]

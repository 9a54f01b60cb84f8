"""Models and tools that may answer anything that their interface permits.

A model's interface is in its request: the tools that it is offered, their schemas, the schema of
its output, the agents that it may pass control to. Each answer is kept as the reply line that gives
it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from simkit.core.errors import ScriptMisfit
from simkit.core.messages import (
    HANDOFF_PREFIX,
    Answer,
    CallLine,
    Calls,
    Citation,
    Fails,
    Handoff,
    JsonValue,
    Reply,
    ResponseExtras,
    Structured,
    Text,
    Thinking,
)
from simkit.explore.choices import Choices, value_of, wrong_value
from simkit.explore.claims import parts_of
from simkit.explore.scene import Interfaces, Scene, TurnCalls
from simkit.language.yaml import packed, unpacked
from simkit.providers.failures import FAILURES
from simkit.runtime.models.script import (
    ScriptedLines,
    context_root,
    mentioned,
    no_line_left,
    reply_of,
    words_offered,
)
from simkit.runtime.ports import ModelRequest, ToolReply
from simkit.spec.scenario.replies import ScriptLine, compiled_script, failure_of
from simkit.spec.scenario.replies import line_of as reply_line_of
from simkit.spec.scenario.simulated_users import sample
from simkit.spec.scenario.simulations import PROVIDER_FAULTS, SimulatedTool, with_persona
from simkit.trace.events import UnusedLines, UnusedResults
from simkit.trace.store import canonical

REPEATS_MAX: Final = 2
"""How often an agent makes the same call in one turn: a model that repeats itself is no fault of
the pipeline either."""
TEXT: Final = "Done."
REFERENCE: Final = "R-"
"""The beginning of the numbers that drawn answers bring up, and to which users refer."""
_TELLING_ODDS: Final = 3
"""One of so many answers brings up a number, where users may refer to it."""
_THINKING_ODDS: Final = 4
"""One of so many answers of a model that shows its thinking has some."""
_THOUGHTS: Final = ResponseExtras(thinking=Thinking("I think."))
_SILENT_ODDS: Final = 4
"""One of so many answers is empty, where an agent has its say after others, in the last turn."""
_SEARCH: Final = "search"
"""A part of the names of providers' own search tools: `web_search`, `googleSearch`."""
_CITED: Final = ResponseExtras(
    citations=(Citation("https://example.com/page", "A page", TEXT, TEXT, "a query"),)
)
"""The page that a model cites when its provider has searched."""
ANY_TOOL: Final = SimulatedTool(fails=0.25)
"""The answers of a tool that no simulation names."""
UNKNOWN_TOOL: Final = "a_tool_that_was_not_offered"


class ChoosingModel:
    """A model that answers by choice; the model of every agent."""

    def __init__(self, scene: Scene, interfaces: Interfaces) -> None:
        self._scene, self._interfaces = scene, interfaces
        self._checker = ScriptedLines(interfaces.tool_args, interfaces.schemas, interfaces.function)
        self._calls = TurnCalls()
        self._repeats: Counter[tuple[str, bytes]] = Counter()
        self._last: dict[str, Reply] = {}
        """Agent to its last action in the turn."""

    def begin_turn(self, index: int) -> None:
        """Begin a turn with its choices."""
        self._calls, self._repeats, self._last = TurnCalls(), Counter(), {}
        self._scene.begin_turn(index)

    def begin_group(self, agents: Sequence[str]) -> None:
        """Do nothing: no line is ambiguous."""

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return nothing: choices that are left over decide nothing."""
        return ()

    def answer(self, request: ModelRequest) -> Answer:
        """Return an answer that the simulation and the request permit, or a rare one.

        Raise ReplyMissing if a turn that runs again does not do what it did.
        """
        return self._scene.once("agent", request.agent, lambda: self._chosen(request))

    def _chosen(self, request: ModelRequest) -> Answer:
        searches = False
        if self._interfaces.is_code:
            # Tools without a schema are the provider's own: no answer asks the code for them.
            tools = tuple(tool for tool in request.tools if tool in request.args)
            others = [tool for tool in request.tools if tool not in tools]
            searches = any(_SEARCH in tool.lower() for tool in others)
            self._scene.provided.update(parts_of(request.agent, others, ()))
            request = msgspec.structs.replace(request, tools=tools)
        choices = self._scene.source.answer()
        kind = self._scene.source.oddity(self._scene.shares)
        unusual = self._unusual(kind, request, choices) if kind else None
        if unusual is not None:
            line = line_of(unusual)
            if isinstance(unusual, Calls) and kind in ("unknown_tool", "invalid_arguments"):
                line["unchecked"] = True
            return self._record(request, Answer(unusual), line)
        index, line = self._line(request, choices)
        if line is not None:
            return self._answer_of_line(request, line, index)
        return self._any_answer(request, choices, searches=searches)

    def _answer_of_line(self, request: ModelRequest, line: Any, index: int) -> Answer:
        """Return the answer of a line of the simulation."""
        where = ("models", request.agent, index)
        try:
            answer = self._checker.answer(reply_line(line), request, where)
        except ScriptMisfit as problem:
            self._scene.misfit = problem
            raise
        is_computed = isinstance(line, dict) and "function" in line
        text = line_of(answer.reply) if is_computed else without(line, "when")
        if isinstance(answer.reply, (Calls, Handoff)):
            self._repeats.update(_actions(request.agent, line))
            self._last[request.agent] = answer.reply
        return self._record(request, answer, text)

    def _any_answer(self, request: ModelRequest, choices: Choices, *, searches: bool) -> Answer:
        """Return any answer that the request permits."""
        reply = self._reply(request, choices)
        line = line_of(reply)
        if isinstance(reply, (Calls, Handoff)):
            self._calls.act(request.agent)
            if self._is_repeated(request, line):
                reply = self._another(request, choices)
                line = line_of(reply)
        if isinstance(reply, (Calls, Handoff)):
            self._repeats.update(_actions(request.agent, line))
            self._last[request.agent] = reply
            if isinstance(reply, Calls):
                self._calls.add(request.agent, reply)
        if searches and reply == Text(TEXT) and not choices.below(2):
            # Providers leave it to the model whether it searches.
            cited = {"text": TEXT, "citations": [_page(page) for page in _CITED.citations]}
            return self._record(request, Answer(reply, extras=_CITED), cited)
        if self._scene.brings_up_numbers:
            return self._as_models_are(request, reply, choices)
        return self._record(request, Answer(reply), line)

    def _as_models_are(self, request: ModelRequest, reply: Reply, choices: Choices) -> Answer:
        """Return a reply with what else models do: bring up numbers, say nothing, think."""
        if choices.below(_TELLING_ODDS) == _TELLING_ODDS - 1:
            reply = self._telling(reply)
        if reply == Text(TEXT) and self._has_last_word(request.agent):
            reply = Text(TEXT if choices.below(_SILENT_ODDS) < _SILENT_ODDS - 1 else "")
        line = line_of(reply)
        if request.can_think and choices.below(_THINKING_ODDS) == _THINKING_ODDS - 1:
            line = {"thinking": "I think.", **(line if isinstance(line, dict) else {"text": line})}
            return self._record(request, Answer(reply, extras=_THOUGHTS), line)
        return self._record(request, Answer(reply), line)

    def _has_last_word(self, agent: str) -> bool:
        """Return whether an agent speaks after others, to which it has passed control, at the end.

        An empty answer in an earlier turn would be an empty message in later requests.
        """
        last = self._last.get(agent)
        hands_off = isinstance(last, Handoff) or (
            isinstance(last, Calls)
            and any(call.tool.startswith(HANDOFF_PREFIX) for call in last.calls)
        )
        return hands_off and len(self._scene.replies) == self._scene.source.turns

    def _telling(self, reply: Reply) -> Reply:
        """Return a reply with a text that no other answer has, so that its way can be seen."""
        count = sum(len(lines) for turn in self._scene.replies for lines in turn.values())
        text = f"{REFERENCE}{count + 1001} is the number of this case."
        if isinstance(reply, (Calls, Handoff)):
            return msgspec.structs.replace(reply, text=text)
        return Text(text) if reply == Text(TEXT) else reply

    def _line(self, request: ModelRequest, choices: Choices) -> tuple[int, Any]:
        """Return one of the agent's lines that fit the context, with its place in the file.

        The line is None for any answer. Raise ScriptMisfit if no line is left: an answer that none
        permits would be found, written and counted as if the file said it.
        """
        lines = self._scene.lines.get(request.agent)
        if not lines:
            return 0, None
        models = self._scene.simulation.models[request.agent]
        weights: list[tuple[tuple[int, Any], int]] = []
        reasons: list[str] = []
        for index, (data, model) in enumerate(zip(lines, models, strict=True)):
            line = with_persona(data, self._scene.persona)
            if reason := self._reason_against(request, line):
                reasons.append(f"`[{index}]` {reason}")
            else:
                weights.append(((index, line), model.weight))
        if not weights:
            raise self._misfit(no_line_left(request.agent, reasons), request.agent)
        index, line = choices.weighted(weights)
        if (question := self._question(request, line)) is not None:
            self._scene.questions.add(question)
        return index, line

    def _reason_against(self, request: ModelRequest, line: Any) -> str:
        """Return why a line is no answer now; empty if it may be."""
        if isinstance(line, dict) and "when" in line:
            when = reply_line(line).when
            if when is not None and not when.holds(context_root(request)):
                return "waits for its `when`"
        # That a model asks or does the same again and again is no fault of the pipeline.
        if self._is_repeated(request, line):
            return "was used as often as one turn permits"
        question = self._question(request, line)
        return "has asked already" if question in self._scene.questions else ""

    def _misfit(self, problem: str, agent: str) -> ScriptMisfit:
        self._scene.misfit = ScriptMisfit(problem, ("models", agent))
        return self._scene.misfit

    def _is_repeated(self, request: ModelRequest, line: Any) -> bool:
        """Return whether the agent has done in the turn what a line does as often as it may.

        The same delegation once more would get the same answer: it is made once.
        """
        if not isinstance(line, dict) or not ("calls" in line or "handoff" in line):
            return False
        actions, handoff = _actions(request.agent, line), line.get("handoff")
        most = REPEATS_MAX
        if handoff and self._interfaces.delegates(request.agent, handoff["to"]):
            most = 1
        return any(self._repeats[action] + actions[action] > most for action in actions)

    def _question(self, request: ModelRequest, line: Any) -> tuple[str, str, bytes] | None:
        """Return session, agent and question of a line that asks the user; None for others."""
        if not isinstance(line, dict) or "interrupt" not in line:
            return None
        return request.session, request.agent, packed(line["interrupt"])

    def _record(self, request: ModelRequest, answer: Answer, line: Any) -> Answer:
        agent, reply = request.agent, answer.reply
        self._scene.offer(agent, (*request.tools,), (*request.handoffs,))
        if isinstance(reply, Calls):
            tools = [call.tool for call in reply.calls if call.tool in request.tools]
            self._scene.reached.update(parts_of(agent, tools, ()))
        elif isinstance(reply, Handoff):
            self._scene.reached.update(parts_of(agent, (), [reply.to]))
        lines = self._scene.replies[-1].setdefault(agent, [])
        lines.append(line)
        if not isinstance(reply, Handoff):
            return answer
        return msgspec.structs.replace(answer, line=len(lines) - 1)

    def _unusual(self, kind: str, request: ModelRequest, choices: Choices) -> Reply | None:
        """Return an answer outside of the interface, or a failure; None where there is none."""
        if kind in FAILURES:
            if kind in PROVIDER_FAULTS:
                self._scene.faults[-1].add(kind)
            return failure_of(kind)
        if kind == "empty":
            return Text("")
        if kind == "repeats_itself":
            return self._last.get(request.agent)
        if kind == "unknown_tool":
            return Calls((CallLine(UNKNOWN_TOOL, {}),))
        if kind in ("two_handoffs_at_once", "handoff_beside_tool_call"):
            return self._two_at_once(kind, request, choices)
        if not request.tools:
            return None
        tool = choices.one_of(request.tools)
        schema = self._schema_of(request, tool)
        if schema is None:
            return None
        args = self._args(request, tool, choices, ())
        wrong = wrong_value(schema, args, choices, self._interfaces.schemas)
        return None if wrong is None else Calls((CallLine(tool, wrong),))

    def _two_at_once(self, kind: str, request: ModelRequest, choices: Choices) -> Reply | None:
        """Return two calls of which one hands off, or both; None where none are offered.

        In a declared pipeline a reply is a handoff or has calls, so that it cannot do both.
        """
        handing = [tool for tool in request.tools if tool.startswith(HANDOFF_PREFIX)]
        others = [tool for tool in request.tools if tool not in handing]
        second = handing if kind == "two_handoffs_at_once" else others
        if not handing or not second:
            return None
        pair = choices.one_of(handing), choices.one_of(second)
        try:
            return self._calls_of(request, pair, choices, mentioned(request))
        except ValueError:
            return None  # A schema of which no value is known.

    def _reply(self, request: ModelRequest, choices: Choices) -> Reply:
        known = mentioned(request)
        tools, is_forced = self._calls.tools_for(request)
        actions: list[Callable[[], Reply]] = []
        call = partial(self._calls_of, request, choices=choices, known=known)
        if is_forced or not self._calls.has_acted_enough(request.agent):
            actions += [partial(call, (tool,)) for tool in tools]
            actions += [
                partial(self._handoff, request, target, choices, known)
                for target in request.handoffs
            ]
            if len(tools) > 1 and not request.is_one_call:
                # Providers let a model call several tools in one answer.
                actions.append(lambda: call((choices.one_of(tools), choices.one_of(tools))))
        choice = choices.below(len(actions) + (not is_forced)) + is_forced
        if choice:
            with suppress(ValueError):  # No value of the schema is known.
                return actions[choice - 1]()
        return self._closing_reply(request, choices, known)

    def _closing_reply(
        self, request: ModelRequest, choices: Choices, known: Sequence[str]
    ) -> Reply:
        """Return an answer without an action: a value of the output's schema, or a text."""
        if request.output is not None:
            own = self._interfaces
            names = [*filter(None, own.decisions.get(request.agent, ())), *own.names, *known]
            with suppress(ValueError):
                return Structured(value_of(request.output, choices, names, own.schemas))
        return Text(choices.one_of(self._words_for(request)))

    def _words_for(self, request: ModelRequest) -> Sequence[str]:
        """Return the texts by which a model may decide, or else the one that it says."""
        words = self._interfaces.decisions.get(request.agent)
        if words:
            return [word or TEXT for word in words]
        if not self._scene.brings_up_numbers or request.tools or request.handoffs:
            return (TEXT,)
        prompt = "\n".join(each.content for each in request.messages() if each.role == "system")
        return (TEXT, *words_offered(prompt, self._scene.names))

    def _another(self, request: ModelRequest, choices: Choices) -> Reply:
        """Return an answer in place of an action that the model has done often enough."""
        tool, known = self._calls.tool_in_place(request), mentioned(request)
        if tool is not None:
            with suppress(ValueError):
                return self._calls_of(request, (tool,), choices, known)
        return self._closing_reply(request, choices, known)

    def _calls_of(
        self, request: ModelRequest, tools: Sequence[str], choices: Choices, known: Sequence[str]
    ) -> Reply:
        return Calls(
            tuple(CallLine(tool, self._args(request, tool, choices, known)) for tool in tools)
        )

    def _args(
        self, request: ModelRequest, tool: str, choices: Choices, known: Sequence[str]
    ) -> JsonValue:
        schema = self._schema_of(request, tool)
        args: JsonValue = {}
        if schema is None:
            return args
        return value_of(schema, choices, known, self._interfaces.schemas)

    def _schema_of(self, request: ModelRequest, tool: str) -> JsonValue:
        return request.args.get(tool) or self._interfaces.tool_args.get(tool)

    def _handoff(
        self, request: ModelRequest, target: str, choices: Choices, known: Sequence[str]
    ) -> Reply:
        possible = self._interfaces.payloads_of(request.agent, target)
        kind, schema = possible[0] if len(possible) == 1 else choices.one_of(possible)
        if schema is None:
            return Handoff(target, kind)
        payload = value_of(schema, choices, known, self._interfaces.schemas)
        return Handoff(target, kind, payload=payload)


class ChoosingTools(msgspec.Struct, eq=False):
    """Tools that return what they may; a tool with a function runs for real."""

    _scene: Scene
    _interfaces: Interfaces
    _real: Callable[[str], bool]
    """Returns whether a tool has a function."""
    _run: Callable[[str, JsonValue], JsonValue]
    """Calls it."""

    def begin_turn(self, index: int) -> None:
        """Do nothing: the model begins the turn."""

    def unused(self) -> tuple[UnusedResults, ...]:
        """Return nothing: choices that are left over decide nothing."""
        return ()

    def has_result_for(self, tool: str) -> bool:
        """Return whether the tool is answered by choice."""
        return tool in self._scene.simulation.tools or not self._real(tool)

    def call(self, agent: str, tool: str, args: JsonValue) -> ToolReply:
        """Return a result that the tool may have, or that of its function."""
        if not self.has_result_for(tool):
            return reply_of(lambda: self._run(tool, args))
        return self._scene.once("tool", tool, lambda: self._chosen(tool))

    def _chosen(self, tool: str) -> ToolReply:
        choices = self._scene.source.result()
        results = self._scene.results[-1].setdefault(tool, [])
        at = ("turns", len(self._scene.results) - 1, "tool_results", tool, len(results))
        options = self._scene.simulation.tools.get(tool, ANY_TOOL)
        latency_ms = options.latency_ms
        late = {"latency_ms": latency_ms} if latency_ms else {}
        if choices.happens(options.fails or 0):
            results.append({"error": options.error, **late})
            return ToolReply(None, options.error, latency_ms, at)
        value = self._value(tool, options, choices)
        results.append({"returns": value, **late})
        return ToolReply(value, None, latency_ms, at, is_unchecked=False)

    def _value(self, tool: str, options: SimulatedTool, choices: Choices) -> JsonValue:
        if "returns" in options.model_fields_set:
            value = sample(options.returns, choices.one_of)
            return canonical(with_persona(value, self._scene.persona))
        schema = self._interfaces.tool_returns.get(tool)
        if schema is None:
            return TEXT
        try:
            return value_of(schema, choices, (), self._interfaces.schemas)
        except ValueError:
            return TEXT


def reply_line(data: Any) -> ScriptLine:
    """Return a compiled line of a simulation, whose data was checked when it was loaded."""
    return _reply_line(packed(data))


@lru_cache(maxsize=1024)
def _reply_line(encoded: bytes) -> ScriptLine:
    line = reply_line_of(unpacked(encoded))
    assert line is not None
    return compiled_script({"": line})[""][0]


def _actions(agent: str, line: Any) -> Counter[tuple[str, bytes]]:
    """Return what a line does, by which repetitions are counted: its calls, or its handoff."""
    if not isinstance(line, dict):
        return Counter()
    calls = line.get("calls", ())
    parts = [*(calls if isinstance(calls, list) else [calls]), line.get("handoff")]
    return Counter((agent, msgspec.json.encode(canonical(part))) for part in parts if part)


def without(line: Any, name: str) -> Any:
    """Return a line without one of its keys; a text alone if nothing else is left."""
    if not isinstance(line, dict) or name not in line:
        return line
    rest = {key: value for key, value in line.items() if key != name}
    return rest["text"] if [*rest] == ["text"] else rest


def _page(citation: Citation) -> dict[str, str]:
    """Return a cited page as a reply line says it."""
    return {
        name: value for name in citation.__struct_fields__ if (value := getattr(citation, name))
    }


def line_of(reply: Reply) -> Any:
    """Return the reply line that gives an answer again."""
    if isinstance(reply, Text):
        return reply.text
    if isinstance(reply, Structured):
        return {"json": reply.value}
    if isinstance(reply, Fails):
        return {"error": reply.kind}
    assert isinstance(reply, (Calls, Handoff))
    words = {"text": reply.text} if reply.text else {}
    if isinstance(reply, Calls):
        return {**words, "calls": [{call.tool: call.args} for call in reply.calls]}
    kind = {} if reply.type is None else {"type": reply.type}
    payload = {} if reply.payload is None else {"payload": reply.payload}
    return {**words, "handoff": {"to": reply.to, **kind, **payload}}

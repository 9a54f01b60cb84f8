"""Scripted models and tools: reply lines, used in order, checked before use."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import msgspec

from simkit.core import errors
from simkit.core.gc_pause import collected_meanwhile
from simkit.core.messages import (
    NO_EXTRAS,
    Answer,
    Calls,
    Computes,
    Handoff,
    JsonValue,
    Message,
    Structured,
    Text,
)
from simkit.core.text import counted, guess, short
from simkit.language.json_schema import schema_errors
from simkit.language.matching import compile_matcher
from simkit.language.paths import as_text, follow
from simkit.language.yaml import SourcePath, near, path_text
from simkit.runtime.ports import ModelRequest, ToolReply
from simkit.spec.scenario.replies import ScriptLine, ToolAnswers, TurnScript, asking_server, line_of
from simkit.trace.events import UnusedLines, UnusedResults
from simkit.trace.store import canonical

WAITING_MAX: Final = 3
"""The number of lines in an error that explains why their `when` does not hold."""
WHY_MAX: Final = 80
"""The length of expected and actual values of such a `when`."""
ARGUMENTS_MAX: Final = 200
"""The length of a call's arguments in an error."""


def agents_in(turns: Iterable[TurnScript]) -> Iterator[str]:
    """Yield the agents in reply lines: those that answer, and targets of handoffs."""
    for turn in turns:
        for agent, lines in turn.items():
            yield agent
            for line in lines:
                if isinstance(line.answer.reply, Handoff):
                    yield line.answer.reply.to


class ScriptedLines(msgspec.Struct, eq=False):
    """Reply lines as answers; each is checked with the request that it answers."""

    _tool_args: Mapping[str, JsonValue]
    """The tools' argument schemas, by name."""
    _schemas: Mapping[str, JsonValue]
    _function: Callable[[str], Callable[..., Any]]

    def answer(self, line: ScriptLine, request: ModelRequest, where: SourcePath) -> Answer:
        """Return a line's answer, computed if it is a function.

        Raise ScriptMisfit, with the line's path ``where``, if the request does not permit it.
        """
        answer = line.answer
        reply = answer.reply
        if type(reply) is Computes:
            answer = self._computed(answer, reply, request, where)
            reply = answer.reply
        if line.is_unchecked:
            pass
        elif type(reply) is Calls:
            self._check_calls(reply, request, where)
        elif request.output is not None and isinstance(reply, (Text, Structured)):
            self._check_output(reply, request, where)
        if type(reply) is Handoff or answer.extras is not NO_EXTRAS:
            answer = msgspec.structs.replace(answer, line=line.index)
        return answer

    def _computed(
        self, answer: Answer, reply: Computes, request: ModelRequest, where: SourcePath
    ) -> Answer:
        """Call the user's function for the line; it gets the messages as ``{role, content}``."""
        messages = [{"role": m.role, "content": m.content} for m in request.messages()]
        try:
            with collected_meanwhile:
                function = self._function(reply.function)(messages)
        except errors.FunctionFailed as problem:
            raise errors.ScriptBroken(f"{path_text(where)}: {problem}", where) from problem
        line = line_of(function)
        if line is None:
            raise errors.ScriptBroken(
                f"{path_text(where)}: `{reply.function}` returned a {type(function).__name__}, "
                "which is no reply line. Return a text, or a mapping such as {'json': …}.",
                where,
            )
        made_answer = line.answer()
        return Answer(
            made_answer.reply,
            made_answer.usage or answer.usage,
            made_answer.latency_ms or answer.latency_ms,
            made_answer.chunks or answer.chunks,
            extras=made_answer.extras,
        )

    def _check_calls(self, reply: Calls, request: ModelRequest, where: SourcePath) -> None:
        for call in reply.calls:
            if call.tool not in request.tools:
                offered = ", ".join(request.tools) or "none"
                hint = guess(call.tool, request.tools)
                raise errors.ScriptMisfit(
                    f"{path_text(where)} calls tool {call.tool!r}, which agent "
                    f"{request.agent!r} is not offered.{hint} Offered: {offered}.",
                    where,
                )
            schema = request.args.get(call.tool) or self._tool_args.get(call.tool)
            if schema is None:
                continue
            for path, text in schema_errors(schema, call.args, self._schemas):
                raise errors.ScriptMisfit(
                    f"{path_text(where)} calls tool {call.tool!r} with arguments that its "
                    f"schema refuses: {_located(path, text)}. "
                    f"{_advice(call.args, path, text, call.tool in request.args)}",
                    where,
                )

    def _check_output(
        self, reply: Text | Structured, request: ModelRequest, where: SourcePath
    ) -> None:
        if isinstance(reply, Structured):
            value = reply.value
        else:
            try:
                value = request.read(reply.text)
            except errors.OutputInvalid:
                value = reply.text
        for path, text in schema_errors(request.output, value, self._schemas):
            raise errors.ScriptMisfit(
                f"{path_text(where)} does not satisfy the output schema of agent "
                f"{request.agent!r}: {_located(path, text)}. "
                "Correct the line, or the schema (`output` of the agent, or what code sends); to "
                "send nonsense on purpose write `error: malformed_json`.",
                where,
            )


class ScriptedModel:
    """A model that answers with reply lines; a line belongs to one agent and one turn."""

    def __init__(
        self,
        turns: Sequence[TurnScript],
        tool_args: Mapping[str, JsonValue],
        schemas: Mapping[str, JsonValue],
        function: Callable[[str], Callable[..., Any]],
    ) -> None:
        """``tool_args`` are the tools' argument schemas, by name."""
        self._turns, self._lines = turns, ScriptedLines(tool_args, schemas, function)
        self._place = 0
        self._unused: dict[str, Sequence[ScriptLine]] = {}
        """Agent to its unused lines."""
        self._missed: dict[str, int] = {}
        """Agent to the number of its calls in the turn that no line has answered."""

    def begin_turn(self, index: int) -> None:
        """Begin a turn with its lines; unused lines of the last turn are dropped."""
        self._place = index
        self._unused = {**self._turns[index]}
        self._missed = {}

    def begin_group(self, agents: Sequence[str]) -> None:
        """Reject lines without ``when`` for an agent that runs twice in parallel."""
        for agent in dict.fromkeys(agents):
            times = list(agents).count(agent)
            if times > 1 and any(line.when is None for line in self._unused.get(agent, ())):
                raise errors.ScriptMisfit(
                    f"agent {agent!r} runs {times} times in parallel in turn {self._place + 1}, "
                    f"so each of its lines under turns[{self._place}].replies.{agent} "
                    "needs a `when` that says which run it answers.",
                    ("turns", self._place, "replies", agent),
                )

    def answer(self, request: ModelRequest) -> Answer:
        """Use the first unused line whose ``when`` holds for the context."""
        agent = request.agent
        unused = self._unused.get(agent, ())
        root: dict[str, Any] | None = None
        for at, line in enumerate(unused):
            if line.when is not None:
                root = root if root is not None else context_root(request)
                if not line.when.holds(root):
                    continue
            self._unused[agent] = (*unused[:at], *unused[at + 1 :])
            where = ("turns", self._place, "replies", agent, line.index)
            return self._lines.answer(line, request, where)
        self._missed[agent] = self._missed.get(agent, 0) + 1
        raise errors.ReplyMissing(self._missing(request, self._calls(agent), unused))

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return the turn's unused lines."""
        return tuple(
            UnusedLines(agent, tuple(line.index for line in lines), self._calls(agent))
            for agent, lines in self._unused.items()
            if lines
        )

    def _calls(self, agent: str) -> int:
        """Return the number of an agent's calls in the turn: each used a line, or found none."""
        lines = self._turns[self._place].get(agent, ())
        used = len(lines) - len(self._unused.get(agent, ()))
        return used + self._missed.get(agent, 0)

    def _missing(self, request: ModelRequest, number: int, waiting: Sequence[ScriptLine]) -> str:
        agent, index = request.agent, self._place
        where = path_text(("turns", index, "replies", agent))
        if waiting:
            which = ", ".join(str(line.index + 1) for line in waiting)
            root = context_root(request)
            return (
                f"agent {agent!r} made model call #{number} in turn {index + 1}, "
                f"but none of its unused lines ({which}) has a `when` that holds for the context.\n"
                f"{_why_not(waiting[:WAITING_MAX], root)}"
                f"Change a `when` under {where}, or add a line without one."
            )
        lines = self._turns[index].get(agent)
        if lines is None:
            others = ", ".join(name for name in self._unused if name != agent)
            hint = f" (the turn has replies for {others})" if others else ""
            nearest = near(agent, [name for name in self._unused if not self._calls(name)])
            hint += f": is `{nearest}` meant for it?" if nearest else ""
            return (
                f"agent {agent!r} made a model call in turn {index + 1}, "
                f"but the scenario has no reply for it{hint}{'' if nearest else '.'}\n"
                f"Add one under {where}, or expect another agent to run."
            )
        has = counted(len(lines), "reply", "replies")
        return (
            f"agent {agent!r} made model call #{number} in turn {index + 1}, "
            f"but the scenario has {has} for it.\n"
            f"Add one under {where}, or expect the turn to stop earlier."
        )


def _located(path: SourcePath, text: str) -> str:
    """Return a schema's error after its path in the value, unless it concerns the whole value."""
    return f"{path_text(path)}: {text}" if path else text


def _advice(args: JsonValue, path: SourcePath, text: str, is_sent: bool) -> str:
    """Return advice on arguments that a schema rejects, for code or for a declared pipeline."""
    value_there = follow(args, path)
    if isinstance(value_there, (dict, list)) and text.endswith("is not of type 'string'"):
        quoted = msgspec.json.encode(value_there).decode().replace("'", "''")
        return f"The tool takes the JSON as a text; write it as a text: '{quoted}'."
    if is_sent:
        return "Correct the line: the schema is what the pipeline sends with the tool."
    return "Correct the line, or the tool's `args`."


def _why_not(lines: Sequence[ScriptLine], root: Mapping[str, Any]) -> str:
    """Return the expected and actual values of each line's ``when``, a line of text each."""
    note = ""
    for line in lines:
        miss = next(iter(line.when.mismatches(root)), None) if line.when is not None else None
        if miss is not None:
            where = f"at {path_text(miss.path)}: " if miss.path else ""
            note += f"  {line.index + 1}. {where}wanted {short(miss.expected, WHY_MAX)}, "
            note += f"found {short(miss.actual, WHY_MAX)}\n"
    return note


def context_root(request: ModelRequest) -> dict[str, Any]:
    """Return the root of a reply line's ``when``: the context, by section and as a whole."""
    sections: Mapping[str, Sequence[Message]] = request.sections()
    return {
        **sections,
        "sections": [name for name, messages in sections.items() if messages],
        "messages": request.messages(),
        "tools": list(request.tools),
        "agent": request.agent,
        "turn": request.turn,
    }


class ScriptedTools(msgspec.Struct, eq=False):
    """Tools that the scenario answers; a tool without results runs for real."""

    _turns: Sequence[Mapping[str, ToolAnswers]]
    _shared: Mapping[str, ToolAnswers]
    _functions: Mapping[str, str]
    """The tools' real functions."""
    _run: Callable[[str, Mapping[str, Any]], Any]
    """Calls one by its name."""
    _place: int = 0
    _used: dict[str, set[int]] = {}
    _calls: dict[str, int] = {}

    def begin_turn(self, index: int) -> None:
        """Begin a turn with its results."""
        self._place, self._used, self._calls = index, {}, {}

    def unused(self) -> tuple[UnusedResults, ...]:
        """Return the turn's own unused results; those for all turns are no finding."""
        lines_unused = []
        results = self._turns[self._place]
        if not results:
            return ()
        for tool in results:
            scripted = results[tool]
            # A single result that every call gets is used from the first call on.
            if scripted.may_wait or (self._used.get(tool) and not scripted.answers[1:]):
                continue
            used = self._used.get(tool, ())
            indices = tuple(index for index in range(len(scripted.answers)) if index not in used)
            if indices:
                calls = self._calls.get(tool, 0)
                lines_unused.append(UnusedResults(tool, indices, calls, scripted.successive))
        return tuple(lines_unused)

    def has_result_for(self, tool: str) -> bool:
        """Return whether the scenario answers a tool in this turn."""
        return self._answers(tool) is not None

    def _answers(self, tool: str) -> ToolAnswers | None:
        results = self._turns[self._place].get(tool)
        return results if results is not None else self._shared.get(tool)

    def call(self, agent: str, tool: str, args: JsonValue) -> ToolReply:
        """Return the scripted answer, or the real function's result."""
        scripted = self._answers(tool)
        if scripted is not None:
            return self._scripted(agent, tool, args, scripted)
        function = self._functions.get(tool)
        if function is None:
            raise errors.ToolMissing(
                f"agent {agent!r} called tool {tool!r} in turn {self._place + 1}, "
                "which has neither a result in the scenario nor a function in the pipeline.\n"
                f"{_called_with(args)}"
                f"Add one under turns[{self._place}].tool_results.{tool}, "
                f"or an entrypoint under tools.{tool}.function.{self._known()}"
            )
        return reply_of(lambda: self._run(function, args))

    def _place_of(self, tool: str, index: int) -> tuple[str | int, ...]:
        if tool not in self._turns[self._place]:
            return ()
        return ("turns", self._place, *_key_of(tool), index)

    def _known(self) -> str:
        """Return a line with the tools that have an answer in this turn; empty if none."""
        results = dict.fromkeys((*self._turns[self._place], *self._shared))
        lines = [
            f"There are {noun} for: {', '.join(names)}."
            for noun, names in (("results", results), ("functions", self._functions))
            if names
        ]
        return f"\n{' '.join(lines)}" if lines else ""

    def _scripted(self, agent: str, tool: str, args: Any, scripted: ToolAnswers) -> ToolReply:
        used = self._used.setdefault(tool, set())
        self._calls[tool] = self._calls.get(tool, 0) + 1
        for index, answer in enumerate(scripted.answers):
            if scripted.successive and index in used:
                continue
            if answer.when is not None and not compile_matcher(answer.when).holds(args):
                continue
            used.add(index)
            at = self._place_of(tool, index)
            own, path = (at, at) if scripted.successive else (None, at[:-1])
            return ToolReply(
                answer.returns, answer.error, answer.latency_ms, own, path, answer.is_unchecked
            )
        if scripted.successive and len(used) == len(scripted.answers):
            count = counted(len(scripted.answers), "result")
            problem = f" again, but the scenario has {count} for it"
        else:
            problem = ", but no result's `when` holds for its arguments"
        server = asking_server(tool)
        caller = f"server {server!r} asked" if server else f"agent {agent!r} called tool {tool!r}"
        raise errors.ToolMissing(
            f"{caller} in turn {self._place + 1}{problem}.\n"
            f"{_called_with(args)}"
            f"Add one under turns[{self._place}].{'.'.join(_key_of(tool))}."
        )


def _key_of(tool: str) -> tuple[str, str]:
    """Return where a turn has the results of a tool, or a user's answers."""
    server = asking_server(tool)
    return ("elicits", server) if server else ("tool_results", tool)


def _called_with(args: JsonValue) -> str:
    """Return a line with the arguments of a call, shortened."""
    args_text = short(as_text(canonical(args)), ARGUMENTS_MAX) if args else ""
    return (
        f"It was called with {args_text}.\n" if args_text else "It was called without arguments.\n"
    )


def reply_of(run: Callable[[], JsonValue]) -> ToolReply:
    """Return what a tool's function returns; one that raises is a tool that fails."""
    try:
        return ToolReply(run())
    except errors.FunctionFailed as problem:
        cause = problem.__cause__
        return ToolReply(error=f"{type(cause).__name__}: {cause}")


def call_with(function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a tool's function with its arguments by name, or as one mapping if it takes one."""
    takes_names = False
    with suppress(TypeError, ValueError):  # Some built-in functions have no signature: ValueError.
        inspect.signature(function).bind(**args)
        takes_names = True
    return function(**args) if takes_names else function(dict(args))


# Words of a request that an answer may repeat: numbers in it, and words to choose from.


REASONS_MAX: Final = 4
"""The number of lines in an error that says why none of them is an answer."""
KNOWN_MAX: Final = 6
"""The number of texts of the conversation that an argument may repeat."""
_MENTIONED: Final = re.compile(r"\b(?=[\w-]*\d)\w[\w-]+\b")
"""Numbers of orders, invoices and the like."""
_LISTED: Final = re.compile(r"\b[\w-]+(?:, [\w-]+)*,? (?:or|OR|\|) [\w-]+\b")
_QUOTED: Final = re.compile(r"['\"`]([\w-]{2,30})['\"`]")
_WORDS_MAX: Final = 6


@lru_cache(maxsize=256)
def words_offered(prompt: str, names: frozenset[str]) -> Sequence[str]:
    """Return the words of which instructions let a model say one: lists, quotes, names of agents.

    One word alone is no choice.
    """
    words = [*_QUOTED.findall(prompt), *(name for name in names if name in prompt)]
    for part in _LISTED.findall(prompt):
        words += re.split(r",? (?:or|OR|\|) |, ", part)
    several = sorted(dict.fromkeys(words))[:_WORDS_MAX]
    return several if len(several) > 1 else ()


def mentioned(request: ModelRequest) -> list[str]:
    """Return numbers and the like that the context mentions, the newest first."""
    texts = (message.content for message in reversed(request.messages()))
    return list(dict.fromkeys(word for text in texts for word in _MENTIONED.findall(text)))[
        :KNOWN_MAX
    ]


def no_line_left(agent: str, reasons: Sequence[str]) -> str:
    """Return the error of a file whose lines leave an agent nothing to say."""
    listed = ", ".join(reasons[:REASONS_MAX])
    more = f", and {len(reasons) - REASONS_MAX} more" if len(reasons) > REASONS_MAX else ""
    return (
        f"agent {agent!r} is asked for an answer, and none of its lines is left: {listed}{more}\n"
        "  Add a line that ends its work, such as a text, or `anything: true`."
    )

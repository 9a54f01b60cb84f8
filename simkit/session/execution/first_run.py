"""The first run of an app: its model calls, their answers or what stands in, results of tools."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import msgspec

from simkit.adapters.model_calls import ModelCall
from simkit.adapters.recorder.handoffs import PREFIXES
from simkit.adapters.recorder.sessions import ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.toolbox import toolbox_at_work
from simkit.capture.cassettes.values import decoded, foreign_type
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward
from simkit.core.errors import SimkitError
from simkit.core.messages import JsonValue, Message, ToolCall, Usage
from simkit.language.json_schema import schema_errors
from simkit.language.json_schema.examples import example_of
from simkit.language.paths import with_parts
from simkit.providers.body_reader import json_text
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, header
from simkit.providers.protocols import require_key
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest, ParsedResponse
from simkit.runtime.models.script import words_offered
from simkit.session.execution.processes import InProcessWorker, ProcessSetup
from simkit.spec.scenario.files import Prepared
from simkit.trace.events import HandoffRequested
from simkit.trace.store import Trace

UNMARKED: Final = "unmarked"
"""The agent of calls that the code does not attribute."""


class ObservedCall(msgspec.Struct):
    """One model call."""

    turn: int
    """The index of the turn."""
    agent: str
    model_request: ParsedRequest
    answer: ParsedResponse | None = None
    """None until it is answered."""


class Used(msgspec.Struct, frozen=True):
    """One call of a tool's function."""

    turn: int
    tool: str
    result: JsonValue = None
    error: str = ""


class FirstRun(msgspec.Struct, frozen=True):
    """The observations of a first run."""

    calls: tuple[ObservedCall, ...]
    used: tuple[Used, ...]
    functions: Mapping[str, str]
    """Tool to its function, if the function can be replaced."""
    targets: frozenset[str] = frozenset()
    """The agents of which a framework, or the tool's name, says that they were handed to."""
    stubbed: frozenset[str] = frozenset()
    """Tools whose results the scenario gives although no function is named for them."""
    replaceable: frozenset[str] = frozenset()
    """Tools that are objects of the app's modules, which a framework calls."""


def first_run(prepared: Prepared, source: ScaffoldedReplies | None) -> FirstRun:
    """Run an app once, answered by a source, for real without one; raise SimkitError if it
    fails."""
    with ExitStack() as stack:
        witness = _ProbeAnswerer(source)
        trace = Trace()
        process = InProcessWorker(ProcessSetup(prepared, traffic=witness), trace)
        stack.callback(process.close)
        for index, turn in enumerate(prepared.scenario.turns):
            witness.turn = index
            error = process.take(turn, 0)
            if error is not None:
                raise SimkitError(f"the app failed in turn {index + 1}: {error.message}")
    calls_answered = tuple(call for call in witness.calls if call.answer is not None)
    handoffs = (event for event in trace.events if isinstance(event, HandoffRequested))
    targets = frozenset(event.to_agent for event in handoffs)
    observed = calls_answered, tuple(witness.used), witness.functions, targets
    return FirstRun(*observed, replaceable=frozenset(witness.replaceable))


class _ProbeAnswerer:
    """Forwards model calls, or has them answered, and records them."""

    def __init__(self, source: ScaffoldedReplies | None) -> None:
        self.is_live = source is None
        self._source = source
        self.turn = 0
        self.calls: list[ObservedCall] = []
        self.used: list[Used] = []
        self.functions: dict[str, str] = {}
        self.replaceable: set[str] = set()
        self._known: set[str] = set()
        """Tools that were searched for."""

    def decide(
        self, call: ModelCall, recorder: TraceRecorder, answered: Callable[[HttpAnswer], None]
    ) -> Decision:
        """Answer or forward a model call."""
        call_record = ObservedCall(self.turn, call.run.agent, call.model_request)
        self.calls.append(call_record)
        for offer in call.model_request.offers:
            self._stand_in(offer.name)

        def ended(answer: HttpAnswer) -> None:
            if isinstance(answer, HttpResponse):
                chunks = decoded(answer.chunks, header(answer.headers, "content-encoding"))
                plain = msgspec.structs.replace(answer, chunks=chunks)
                call_record.answer = call.protocol.parse_response(plain, call.model_request)
            answered(answer)

        if self._source is None:
            require_key(call.request)
            return Forward(ChunkRecorder(ended, lambda response: True))
        response = self._source.answer(call, recorder)
        ended(response)
        return response

    def decide_other(
        self, request: HttpRequest, agent: str, recorder: TraceRecorder
    ) -> Decision | None:
        """Forward a request, unless nothing may be asked."""
        return Forward(None) if self._source is None else None

    def records(self, tool: str) -> bool:
        """Return whether a tool's function is observed."""
        return tool in self._known

    def carried_out(
        self, request: ToolRequest, recorder: TraceRecorder, real: Callable[[], Any]
    ) -> Any:
        """Return the real result, and record it."""
        before, turn, tool = len(self.calls), self.turn, request.call.name
        try:
            result = real()
        except Exception as problem:
            self._keep(before, Used(turn, tool, error=_problem_text(problem)))
            raise
        if inspect.isawaitable(result):
            return self._awaited(before, turn, tool, result)
        self._keep(before, Used(turn, tool, result))
        return result

    def unplayed(self) -> list[str]:
        """Return nothing: recordings need not be used."""
        return []

    def drifted(self) -> list[str]:
        """Return nothing: requests are not compared."""
        return []

    def _stand_in(self, tool: str) -> None:
        """Observe the function of a tool, if the app has one with its name."""
        toolbox = toolbox_at_work()
        if tool in self._known or toolbox is None:
            return
        self._known.add(tool)
        objects = _named(tool, Path.cwd())
        functions = {f"{each.__module__}:{tool}": each for each in objects if _is_plain(each, tool)}
        self.replaceable |= {tool} if objects and not functions else set()
        if len(functions) == 1:
            (self.functions[tool],) = functions
            toolbox.add(tool, functions[self.functions[tool]])

    async def _awaited(self, before: int, turn: int, tool: str, result: Any) -> Any:
        try:
            value = await result
        except Exception as problem:
            self._keep(before, Used(turn, tool, error=_problem_text(problem)))
            raise
        self._keep(before, Used(turn, tool, value))
        return value

    def _keep(self, before: int, used: Used) -> None:
        """Record a call, unless a model was called inside it, or its result is not reproducible."""
        is_foreign = bool(foreign_type(used.result))
        if len(self.calls) > before or is_foreign:
            self.functions.pop(used.tool, None)
        # An object of the application's may not leave its process.
        self.used.append(Used(used.turn, used.tool) if is_foreign else used)


def _problem_text(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _named(tool: str, folder: Path) -> list[Any]:
    """Return the objects of a name that the app's own modules define or import."""
    objects = []
    for module in sys.modules.copy().values():
        value = vars(module).get(tool)
        file = Path(getattr(module, "__file__", "") or "")
        if isinstance(value, FunctionType):
            file = Path(value.__code__.co_filename)
        if value is not None and file.is_relative_to(folder) and "site-packages" not in file.parts:
            objects.append(value)
    return objects


def _is_plain(value: Any, tool: str) -> bool:
    return isinstance(value, FunctionType) and value.__qualname__ == tool


# Scaffolded replies: what stands in for a model of which nothing is known but its requests


_USAGE = Usage(1, 1)


class Manner(msgspec.Struct, frozen=True):
    """How scaffolded replies decide where a request leaves a choice."""

    handoffs_max: int = 3
    """The number of tools that pass control which are called, each once in all."""
    is_true: bool = True
    """The boolean in JSON."""
    has_items: bool = True
    """Whether lists in JSON have an item, so that what works them off works."""
    is_first: bool = True
    """Whether a model that must call some tool calls the first one, not the last."""
    says_json: bool = True
    """Whether a model whose instructions speak of JSON says it."""
    says_word: bool = False
    """Whether a model that may answer with one of several words says one, each time another."""


MANNERS: Final = (
    Manner(),
    Manner(says_json=False),
    Manner(says_json=False, says_word=True),
    Manner(is_true=False),
    Manner(has_items=False),
    Manner(is_first=False),
    Manner(handoffs_max=1),
    Manner(handoffs_max=0),
    Manner(handoffs_max=0, is_true=False),
    Manner(is_true=False, has_items=False),
    Manner(handoffs_max=0, is_true=False, has_items=False, is_first=False),
)
"""Manners in the order in which to try them: some fail if a guardrail says `is_abusive`, if the
agent that takes over needs more than a handoff gives it, if an item is searched for in the network,
if the first tool does something real, or if code routes by the word that a model says."""


MADE_UP: Final = re.compile(r" \w+ A-\d+\b")
"""A text of scaffolded JSON, where code puts it into instructions."""
_SHAPE: Final = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")
_KEY: Final = re.compile(
    r"""["'](\w+)["']\s*:\s*(?:["'](\w+(?:["'\s]*\|["'\s]*\w+)*)|(\[)|(\d)|(true|false|bool))?"""
)


def described_json(instructions: str, steps: int = 0) -> dict[str, JsonValue] | None:
    """Return JSON as instructions describe it; None if they do not speak of any.

    Where they let a model choose among words, it is the first one, or one later by ``steps``; texts
    end in a number that is higher by these, so that an old one is no new one.

    >>> described_json('Answer in JSON: {"order": "...", "kind": "refund|order", "count": 1}', 1)
    {'order': 'order A-2', 'kind': 'order', 'count': 1}
    """
    shape = _SHAPE.search(instructions)
    if shape is None or "json" not in instructions.lower():
        return None
    described: dict[str, JsonValue] = {}
    for key, choice, is_list, is_number, is_boolean in _KEY.findall(shape[0]):
        words = re.findall(r"\w+", choice) or [f"{key} A-{steps + 1}"]
        word = words[steps % len(words)]
        described[key] = [key] if is_list else 1 if is_number else bool(is_boolean) or word
    return described


def _instructions(request: ParsedRequest) -> str:
    return "\n".join(m.content for m in request.messages if m.role == "system")


class ScaffoldedReplies:
    """Answers each model call with the least that its request asks for.

    That is JSON where a schema is named, a call where one is required, else a sentence.
    """

    is_live = False

    def __init__(self, manner: Manner, texts: Sequence[str] = ()) -> None:
        """``texts`` are said first, each to the next request that it fits."""
        self._manner, self._given, self.texts = manner, texts, [*texts]
        self.last = ""
        """The last message, as the app reads it."""
        self._choices: set[str] = set()
        """The fields of the manner by which a choice was made."""
        self._handed_off: set[str] = set()
        """The tools that pass control that were called."""
        self._count = 0
        self._answers: Counter[str] = Counter()
        """How often each schema, and each instruction, was answered."""

    def in_words(self) -> ScaffoldedReplies | None:
        """Return new replies that say words where these made up sentences; None if none was
        offered."""
        if self._manner.says_word or "says_word" not in self._choices:
            return None
        return ScaffoldedReplies(msgspec.structs.replace(self._manner, says_word=True), self._given)

    def differs_in(self, manner: Manner) -> bool:
        """Return whether the replies would be others in another manner."""
        return any(getattr(manner, name) != getattr(self._manner, name) for name in self._choices)

    def answer(self, call: ModelCall, recorder: TraceRecorder) -> HttpAnswer:
        """Return the answer, in the words of the provider that is asked."""
        message = self._message(call, recorder)
        self.last = message.content or " ".join(json_text(each.args) for each in message.calls)
        reply = OutgoingReply(call.id, message, _USAGE)
        return call.protocol.served(reply, call.model_request)

    def _message(self, call: ModelCall, recorder: TraceRecorder) -> Message:
        request = call.model_request
        offers = {offer.name: offer for offer in request.offers}
        output = next((offers[name] for name in call.run.output_tools if name in offers), None)
        handoff = self._handoff(call, recorder)
        if handoff is not None:
            return self._calling(handoff, call, recorder, self._example)
        if request.choice in offers:
            return self._calling(offers[request.choice], call, recorder)
        if request.output is not None:
            system = _instructions(request)
            described = None if self.texts else described_json(system, self._times(system))
            value = self._value(request.output) or described or {}
            return Message("assistant", json_text(value), data=value)
        if output is not None:
            return self._calling(output, call, recorder)
        if request.choice == "required" and offers:
            self._choices |= {"is_first"} if len(offers) > 1 else set()
            return self._calling([*offers.values()][-1 + self._manner.is_first], call, recorder)
        return Message("assistant", self._text(request))

    def _text(self, request: ParsedRequest) -> str:
        if self.texts:
            return self.texts.pop(0)
        system = _instructions(request)
        words, times = words_offered(system, frozenset()), self._times(system)
        self._choices |= {"says_word"} if words else set()
        if (described := described_json(system, times)) is not None:
            self._choices.add("says_json")
            if self._manner.says_json:
                return json_text(described)
        self._count += 1
        says_word = words and self._manner.says_word
        return words[times % len(words)] if says_word else f"Reply {self._count}."

    def _times(self, text: str) -> int:
        """Return how often a schema, or instructions, were answered before this time."""
        self._answers[text] += 1
        return self._answers[text] - 1

    def _handoff(self, call: ModelCall, recorder: TraceRecorder) -> Offer | None:
        """Return the tool by which the agent that asks hands off now, if it does."""
        if call.model_request.choice not in ("auto", "required"):
            return None
        tools = recorder.handoff_tools
        for offer in sorted(call.model_request.offers, key=lambda each: each.name):
            passes = tools.target_of(offer.name) or offer.name.startswith(PREFIXES)
            if passes and offer.name not in self._handed_off:
                self._choices.add("handoffs_max")
                if len(self._handed_off) < self._manner.handoffs_max:
                    self._handed_off.add(offer.name)
                    return offer
        return None

    def _calling(
        self,
        offer: Offer,
        call: ModelCall,
        recorder: TraceRecorder,
        value: Callable[[Any], JsonValue] | None = None,
    ) -> Message:
        args = (value or self._value)(offer.schema) if offer.schema is not None else {}
        served = recorder.served_id(recorder.new_call_id(), call.protocol.call_prefix)
        return Message("assistant", calls=(ToolCall(served, offer.name, args),))

    def _value(self, schema: Any) -> Any:
        """Return the first text that is JSON of a schema, else an example."""
        for text in self.texts:
            with suppress(msgspec.DecodeError):
                if not schema_errors(schema, value := msgspec.json.decode(text)):
                    self.texts.remove(text)
                    return value
        return self._example(schema)

    def _example(self, wanted_schema: Any) -> Any:
        # A supervisor that always says the same agent never ends.
        steps = self._times(json_text(wanted_schema))
        schema = _rotated(wanted_schema, steps)
        denying = _with_default(schema, "boolean", "examples", [False])
        self._choices |= {"is_true"} if example_of(schema) != example_of(denying) else set()
        chosen = schema if self._manner.is_true else denying
        with_items = _with_default(chosen, "array", "minItems", 1)
        plain, filled = (_numbered(chosen, each, steps + 1) for each in (chosen, with_items))
        if filled == plain or schema_errors(schema, filled):
            return plain
        self._choices.add("has_items")
        return filled if self._manner.has_items else plain


def _numbered(allowed: Any, schema: Any, number: int) -> Any:
    """Return an example of a schema whose empty texts, and those that say their key, are numbered
    if what is allowed has room for it."""

    def numbered(value: Any) -> Any:
        if isinstance(value, list):
            return [numbered(item) for item in value]
        pairs = value.items() if isinstance(value, dict) else ()
        texts = {key: f"{key} A-{number}" for key, item in pairs if item in ("", key)}
        return {key: texts.get(key) or numbered(item) for key, item in pairs} if pairs else value

    example = example_of(schema)
    result = numbered(example)
    return example if schema_errors(allowed, result) else result


def _rotated(schema: Any, steps: int) -> Any:
    """Return a schema whose lists of values begin later, by a number of steps."""

    def rotated(part: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(values := part.get("enum"), list):
            return part
        return {**part, "enum": [values[(n + steps) % len(values)] for n in range(len(values))]}

    return _with_parts(schema, rotated)


def _with_default(schema: Any, kind: str, keyword: str, value: Any) -> Any:
    """Return a schema whose parts of a type have a keyword, where they do not have it."""
    return _with_parts(schema, lambda p: {keyword: value, **p} if p.get("type") == kind else p)


def _with_parts(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a schema with all its mappings changed."""
    whole = with_parts(schema, lambda part: _with_parts(part, change))
    return change(whole) if isinstance(schema, Mapping) else whole

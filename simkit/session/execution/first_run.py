"""The first run of an app: its model calls with their answers, and the results of its tools."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import msgspec

from simkit.adapters.model_calls import ModelCall
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.toolbox import toolbox_at_work
from simkit.capture.cassettes.encodings import decoded
from simkit.capture.cassettes.tool_calls import foreign_type
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward
from simkit.core.errors import SimkitError
from simkit.core.messages import JsonValue
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, header
from simkit.providers.values import ParsedRequest, ParsedResponse
from simkit.session.execution.processes import InProcessWorker, ProcessSetup
from simkit.session.execution.scaffold import ScaffoldedReplies
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


def first_run(prepared: Prepared, source: ScaffoldedReplies | None) -> FirstRun:
    """Run an app once, answered by a source, for real without one; raise SimkitError if it
    fails."""
    with ExitStack() as stack:
        witness = _ProbeAnswerer(source)
        trace = Trace()
        process = InProcessWorker(ProcessSetup(prepared, traffic=witness), trace)
        stack.callback(process.close)
        for place, turn in enumerate(prepared.scenario.turns):
            witness.turn = place
            error = process.take(turn, 0)
            if error is not None:
                raise SimkitError(f"the app failed in turn {place + 1}: {error.message}")
    calls_answered = tuple(call for call in witness.calls if call.answer is not None)
    handoffs = (event for event in trace.events if isinstance(event, HandoffRequested))
    targets = frozenset(event.to_agent for event in handoffs)
    return FirstRun(calls_answered, tuple(witness.used), witness.functions, targets)


class _ProbeAnswerer:
    """Forwards model calls, or has them answered, and records them."""

    def __init__(self, source: ScaffoldedReplies | None) -> None:
        self.is_live = source is None
        self._source = source
        self.turn = 0
        self.calls: list[ObservedCall] = []
        self.used: list[Used] = []
        self.functions: dict[str, str] = {}
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
        self,
        tool: str,
        args: JsonValue,
        agent: str,
        recorder: TraceRecorder,
        real: Callable[[], Any],
    ) -> Any:
        """Return the real result, and record it."""
        before, turn = len(self.calls), self.turn
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
        functions = _functions_named(tool, Path.cwd())
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
        if len(self.calls) > before or foreign_type(used.result):
            self.functions.pop(used.tool, None)
        self.used.append(used)


def _problem_text(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _functions_named(tool: str, folder: Path) -> dict[str, Any]:
    """Return the functions of a name in the app's own modules, by ``module:function``."""
    functions = {}
    for module in list(sys.modules.values()):
        function = vars(module).get(tool)
        if not isinstance(function, FunctionType) or function.__qualname__ != tool:
            continue
        file = Path(function.__code__.co_filename)
        if file.is_relative_to(folder) and "site-packages" not in file.parts:
            functions[f"{function.__module__}:{tool}"] = function
    return functions

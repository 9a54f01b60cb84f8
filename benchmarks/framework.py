"""What driving a framework costs: by itself, with the taps only, and with everything around it.

Its models are fakes that answer at once, so that nothing hides the price. With the taps only, the
adapter is installed and what it writes down is thrown away. Everything is a scenario: trace,
contexts, default lints, claims, and, where a client is used, the wire.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.graph import TEXT
from benchmarks.measuring import medians
from benchmarks.wire import ANSWER, JSON
from simkit.adapters.entry import Caller, home_of, is_factory
from simkit.adapters.framework_driver import AdapterContext, FunctionDriver, driver_for
from simkit.adapters.instrumentation import Instrumented
from simkit.adapters.modules import entry_of
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.script import COUNTER
from simkit.core.errors import RunHalted, SimkitError
from simkit.runtime.context.rendering import counter_named
from simkit.runtime.ports import UserTurn
from simkit.runtime.scheduler import VirtualClock
from simkit.session.simulate import simulate
from simkit.spec.pipeline.model import Limits
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, items_in
from simkit.testing.rules import ForReal
from simkit.trace import events as e

APPS: Final = Path(__file__).parent / "apps"
SIZES: Final = {"few": 10, "many": 1_000}
"""How many messages there are before the first turn."""
KINDS: Final = {"few": "10 messages", "few_timed": "10 messages, a clock", "many": "1000 messages"}
"""The conversations with agents, by the ends of their functions' names."""
TURNS: Final = {"few": 10, "few_timed": 10, "many": 2}
"""Turns in a round, where a framework takes long with many messages."""
GRAPH_TURNS: Final = 10
START: Final = "2026-01-05T09:00:00Z"


class Case(msgspec.Struct, frozen=True):
    """One pipeline, in the ways in which it is run."""

    name: str
    scenario: Mapping[str, Any]
    """What a scenario says beside its turns."""
    turn: Mapping[str, Any]
    """What a turn says beside its message."""
    texts: Sequence[str]
    """What the user says, turn by turn."""
    alone: Callable[[Sequence[str]], object]
    """Runs all turns without simkit."""
    before: Callable[[bool], object] = bool
    """Is told whether what follows goes over the wire."""


def rows(rounds: int) -> list[list[object]]:
    """Returns what a turn costs in each framework, and the ratios to it alone."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    sys.path.insert(0, str(APPS))
    table: list[list[object]] = []
    try:
        for framework, cases in FRAMEWORKS.items():
            try:
                for case in cases():
                    table += _measured(f"{framework}, {case.name}", case, rounds)
            except ImportError as problem:
                table.append([framework, f"NOT MEASURED, see its extra: {problem}", "", ""])
    finally:
        sys.path.remove(str(APPS))
    return table


def _measured(name: str, case: Case, rounds: int) -> Iterator[list[object]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "framework.scenario.yaml"
        turns = [{"user": text, **case.turn} for text in case.texts]
        file.write_text(
            json.dumps({"version": 1, "scenario": "desk", **case.scenario, "turns": turns})
        )
        (item,) = items_in(str(file))
        prepared = Library().prepared(item)

    def alone() -> None:
        case.before(False)
        case.alone(case.texts)

    def tapped() -> None:
        case.before(False)
        assert isinstance(prepared.pipeline, App)
        _tapped(prepared.pipeline, case.texts)

    def everything() -> None:
        case.before(True)
        outcome = simulate(prepared)
        assert outcome.passed, outcome.judgement.findings[:1]

    subjects = {"alone": alone, "taps only": tapped, "everything": everything}
    for subject in subjects.values():
        subject()  # At its first run a framework reads its types.
    times = medians(subjects, rounds)
    for way, seconds in times.items():
        ratio = f"{seconds / times['alone']:.2f}×"
        yield [name, way, f"{seconds / len(case.texts) * 1e3:.2f} ms a turn", ratio]


def _texts(turns: int) -> list[str]:
    return [f"{number}: {TEXT}" for number in range(turns)]


class _Nowhere:
    """A sink that keeps nothing."""

    def emit(self, event: e.AnyEvent) -> None:
        """Takes it, and forgets it."""


def _tapped(app: App, texts: Sequence[str]) -> None:
    """Runs a pipeline with its adapter alone."""
    recorder = TraceRecorder(_Nowhere(), VirtualClock(START), counter_named(COUNTER), Limits())
    caller = Caller()
    adapter_context = AdapterContext(recorder, caller, ForReal(), _halted)
    entry = entry_of(app)
    if is_factory(entry):
        entry = entry()
    flown = driver_for(entry, app, adapter_context) or FunctionDriver(entry, app, adapter_context)
    driver = Instrumented(flown, adapter_context, home_of(app.entry), app.agents)
    driver.facts(e.PipelineFacts(name=app.pipeline, agents={}))
    try:
        for number, text in enumerate(texts, 1):
            recorder.begin_turn(number, "s1", "p1", text)
            driver.run_turn(UserTurn(text))
            recorder.end_turn(None, None, ())
    finally:
        driver.close()
        caller.close()


def _halted(cause: SimkitError) -> RunHalted:
    return RunHalted(cause)


def _graphs() -> Iterator[Case]:
    desk: Any = importlib.import_module("graph_desk")

    def run(made: Callable[[], Any], given: Callable[[str], Any], texts: Sequence[str]) -> None:
        graph, config = made(), {"configurable": {"thread_id": desk.THREAD}}
        for text in texts:
            graph.invoke(given(text), config)

    for saver, (how_many, size) in itertools.product((False, True), SIZES.items()):
        made = f"remembering_{how_many}" if saver else "forgetful"
        given = "with_nothing" if saver else f"with_{how_many}"
        options = {
            "path": [str(APPS)], "input": f"graph_desk:{given}",
            "config": {"configurable": {"thread_id": desk.THREAD}},
        }  # fmt: skip
        yield Case(
            f"{size} messages{', checkpointer' if saver else ''}",
            {"pipeline": f"graph_desk:{made}", "app": options},
            {"expect": {"agents": list(desk.NODES)}},
            _texts(GRAPH_TURNS),
            partial(run, getattr(desk, made), getattr(desk, given)),
        )
    options = {"path": [str(APPS)], "input": "graph_desk:with_few"}
    yield Case(
        KINDS["few_timed"],
        {"pipeline": "graph_desk:forgetful_timed", "app": options},
        {"expect": {"agents": list(desk.NODES)}},
        _texts(GRAPH_TURNS),
        partial(run, desk.forgetful_timed, desk.with_few),
    )


def _agents() -> Iterator[Case]:
    pair: Any = importlib.import_module("agents_pair")
    import agents

    agents.set_tracing_disabled(True)
    answers = (_response(_HANDOFF), _response(_SAID))

    def before(is_wired: bool) -> None:
        client = _client(() if is_wired else answers)
        agents.set_default_openai_client(client, use_for_tracing=False)

    turn = {
        "replies": {"Triage": {"handoff": {"to": "Billing"}}, "Billing": TEXT},
        "expect": {"agents": ["Triage", "Billing"], "reply": TEXT},
    }
    yield from _clients("agents_pair", pair, turn, before)


def _one_agent() -> Iterator[Case]:
    one: Any = importlib.import_module("one_agent")
    turn = {"replies": {"desk": TEXT}, "expect": {"agents": ["desk"], "reply": TEXT}}
    yield from _clients(
        "one_agent", one, turn, lambda is_wired: one.use(_client(() if is_wired else (ANSWER,)))
    )


def _clients(
    module: str, code: Any, turn: Mapping[str, Any], before: Callable[[bool], object]
) -> Iterator[Case]:
    """Yields the cases of a framework that asks through a provider's client."""

    def run(answer: Callable[[str], Any], texts: Sequence[str]) -> None:
        with asyncio.Runner() as runner:
            for text in texts:
                assert runner.run(answer(text)) == TEXT

    for how_many, name in KINDS.items():
        yield Case(
            name,
            {"pipeline": f"{module}:after_{how_many}", "app": {"path": [str(APPS)]}},
            turn,
            _texts(TURNS[how_many]),
            partial(run, getattr(code, f"after_{how_many}")),
            before,
        )


FRAMEWORKS: Final[Mapping[str, Callable[[], Iterator[Case]]]] = {
    "LangGraph": _graphs,
    "OpenAI Agents": _agents,
    "PydanticAI": _one_agent,
}


def _client(answers: Sequence[bytes]) -> Any:
    """Returns a client on a transport that gives these answers in turns, and at once.

    Without any, its transport is one for real requests, which simkit answers.
    """
    import httpx2
    from openai import AsyncOpenAI

    if not answers:
        return AsyncOpenAI(http_client=httpx2.AsyncClient(verify=False))
    endless = itertools.cycle(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=dict(JSON), content=next(endless))

    return AsyncOpenAI(http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))


_HANDOFF: Final = {
    "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "transfer_to_billing",
    "arguments": "{}", "status": "completed",
}  # fmt: skip
_SAID: Final = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}  # fmt: skip


def _response(item: Mapping[str, Any]) -> bytes:
    counted = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    details = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    body = {
        "id": "resp_1", "object": "response", "created_at": 0, "status": "completed",
        "model": "gpt-5", "output": [item], "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": [], "usage": {**counted, **details},
    }  # fmt: skip
    return json.dumps(body).encode()

"""PydanticAI as it is: what is claimed to be seen is seen, and by these hooks."""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from pydantic_ai import Agent, InstrumentationSettings, models  # noqa: E402
from pydantic_ai.models.test import TestModel  # noqa: E402
from pydantic_ai.toolsets import WrapperToolset  # noqa: E402

from simkit.adapters import observation  # noqa: E402
from simkit.adapters.pydantic_ai import compat, runner  # noqa: E402
from simkit.adapters.pydantic_ai.agent_runs import AgentRunLog  # noqa: E402
from simkit.adapters.pydantic_ai.runner import HeardToolset, ObservingCapability  # noqa: E402
from simkit.adapters.recorder.trace import TraceRecorder  # noqa: E402
from simkit.core.errors import SourceError, Unsupported  # noqa: E402
from simkit.session.simulate import simulate  # noqa: E402
from simkit.spec.scenario.files import Prepared  # noqa: E402
from simkit.trace import events as e  # noqa: E402
from tests.adapters.running import APPS, passes, prepared, run_app, scenario_in, scenarios  # noqa: E402

DESK, GRAPH = APPS / "pydantic_ai_desk.scenario.yaml", APPS / "pydantic_ai_graph.scenario.yaml"


def scenario(start: str) -> Prepared:
    return scenario_in(start, DESK, GRAPH)


TEXT = """
    turns:
      - user: A window
        replies:
          triage: [{calls: [ask_seats: {question: A window?}]}, You sit in 12A.]
          seats: [{calls: [book_seat: {seat: 12A}]}, It is 12A.]
        expect:
          reply: You sit in 12A.
          agents: [triage, seats]
          runs: {seats: {input: A window?, output: It is 12A.}, triage: {output: You sit in 12A.}}
          state: {seat: 12A}
          tool_calls:
            - {agent: triage, tool: ask_seats, result: It is 12A.}
            - {agent: seats, tool: book_seat, result: booked 12A}
          context: {seats: {messages: [{system: You book seats.}, {user: A window?}]}}
"""
WAYS = ["ask", "ask_in_sync", "ask_streamed", "ask_streamed_in_sync", "ask_by_events",
        "ask_by_nodes"]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_asks_another_is_seen_however_it_is_run(way: str) -> None:
    ran = run_app(f"pydantic_ai_desk:{way}", TEXT)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


CHAT = """
    app: {path: [.], run_options: pydantic_ai_desk:passenger, call: WAY}
    turns:
      - user: A window
        replies: {triage: 12A is free.}
        expect: {reply: 12A is free., agents: [triage]}
      - user: Take it
        replies: {triage: [{calls: [ask_seats: {question: 12A}]}, Taken.], seats: Yes}
        expect:
          reply: Taken.
          agents: [triage, seats]
          context: {triage: {includes: [{user: A window}, {assistant: 12A is free.}]}}
"""


@pytest.mark.parametrize("way", ["run", "run_sync", "run_stream", "run_stream_events", "iter"])
def test_an_agent_keeps_its_conversation(way: str) -> None:
    ran = run_app("pydantic_ai_desk:triage", CHAT.replace("WAY", way))

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


SESSIONS = """
    app: {path: [.], run_options: pydantic_ai_desk:passenger}
    turns:
      - {session: a, user: I am A, replies: {triage: [{calls: [ask_seats: {question: 1A}]}, Hello A], seats: [{calls: [book_seat: {seat: 1A}]}, "1A"]}}
      - {session: b, user: I am B, replies: {triage: Hello B}, expect: {state: {seat: null}}}
      - session: a
        user: Who am I?
        replies: {triage: A}
        expect:
          state: {seat: 1A}
          context:
            triage: {includes: [{user: I am A}, {assistant: Hello A}], excludes: [{user: I am B}]}
"""  # noqa: E501


def test_messages_that_are_kept_in_state_are_the_same_every_time() -> None:
    text = """
        turns:
          - user: Hello
            replies: {writer: [{calls: [look_back: {}]}, Once., Twice., Thrice.]}
            expect:
              state:
                messages: {$len: 6, $has: {timestamp: "2026-01-05 09:00:00+00:00"}}
                begun: {$regex: "^019b8d62-7a80-7"}
    """
    case = prepared("pydantic_ai_desk:write", text)

    first, second = simulate(case), simulate(case)

    assert first.passed
    assert first.trace.encoded() == second.trace.encoded()


@pytest.mark.slow
def test_sessions_keep_apart() -> None:
    ran = run_app("pydantic_ai_desk:triage", SESSIONS)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


@pytest.mark.slow
def test_scenarios_that_run_at_once_see_their_own_agents_only() -> None:
    several = [*scenarios(DESK)[:3], *scenarios(GRAPH)] * 2
    alone = [simulate(item).trace.digest() for item in several]

    with ThreadPoolExecutor(4) as pool:
        at_once = [item.trace.digest() for item in pool.map(simulate, several)]

    assert at_once == alone


# What each hook is for


def _same(before: Any) -> Any:
    return before


async def _as_it_is(self: Any, ctx: Any, request_context: Any) -> Any:
    return request_context


async def _no_process(
    self: Any, ctx: Any, *, output_context: Any, output: Any, handler: Any
) -> Any:  # fmt: skip
    return await handler(output)


def _nothing(*args: Any, **kwargs: Any) -> Any:
    """Stands for what nobody writes down."""
    return ()


def _unwrapped(self: Any, toolset: Any) -> Any:
    return toolset


HOOKS: dict[str, tuple[Any, str, Any, str]] = {
    "runs": (runner, "_iterate", _same, "desk: an agent asks"),
    "names": (runner, "_named", _same, "desk: agents of a registry"),
    "steps": (runner, "wrap_step", _same, "graph: steps run"),
    "tools": (ObservingCapability, "get_wrapper_toolset", _unwrapped, "desk: an agent asks"),
    "tools' results": (HeardToolset, "call_tool", WrapperToolset.call_tool,
                       "desk: tools that are stubs"),
    "output tools": (
        ObservingCapability, "before_model_request", _as_it_is, "desk: structured output",
    ),
    "output functions": (
        ObservingCapability, "wrap_output_process", _no_process, "desk: an output function",
    ),
    "models off the wire": (AgentRunLog, "answered", _nothing, "graph: a model that sends"),
    "output that is refused": (
        TraceRecorder, "set_output_tools", _nothing, "desk: an output function",
    ),
    "output that is taken": (AgentRunLog, "settled", _nothing, "desk: an output function"),
    "calls that are denied": (AgentRunLog, "_tell_unmade", _nothing, "desk: a tool call waits"),
    "history processors": (runner, "rows_for", _nothing, "desk: a history processor drops"),
    "hooks on requests": (
        compat, "FILTER_METHODS", ("before_model_request",), "desk: a hook hides",
    ),
    "dependencies": (AgentRunLog, "look", _nothing, "desk: an agent asks"),
    "parallel runs": (TraceRecorder, "begin_group", lambda self: "", "desk: three agents"),
    "time to begin": (observation, "TICKS", 0, "desk: two tools"),
    "failures": (AgentRunLog, "failed", _nothing, "desk: an agent that is given up"),
}  # fmt: skip


@functools.cache
def passes_unbroken(start: str) -> bool:
    """Returns whether a scenario passes as long as no hook is removed."""
    return passes(scenario(start))


@pytest.mark.slow
@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_removed_turns_a_scenario_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, nothing, start = HOOKS[name]
    assert passes_unbroken(start)

    monkeypatch.setattr(owner, attribute, nothing)

    assert not passes(scenario(start))


# The application's own


def test_a_nested_run_names_the_run_inside_which_it_works() -> None:
    ran = run_app("pydantic_ai_desk:ask", TEXT)

    starts = [event for event in ran.trace.events if isinstance(event, e.AgentStarted)]
    assert [(start.agent, start.run, start.parent) for start in starts] == [
        ("triage", "r1", ""), ("seats", "r2", "r1"),
    ]  # fmt: skip


def test_what_an_agents_code_writes_before_it_runs_another_agent_is_its_own() -> None:
    ran = run_app(
        "pydantic_ai_desk:ask_together",
        """
        turns:
          - user: Put us together
            replies:
              companions: [{calls: [seat_beside: {seat: 12A}]}, Nobody sits there.]
              seats: Nobody.
            expect: {state: {seat: 12A}}
        """,
    )

    writes = [event for event in ran.trace.events if isinstance(event, e.StateUpdated)]
    assert [(write.cause, write.agent, write.update) for write in writes[1:]] == [
        ("writes", "companions", {"seat": "12A"})
    ]


def test_agents_run_outside_a_scenario_are_left_alone() -> None:
    alone = Agent(TestModel(custom_output_text="Hi"))
    assert passes(scenario("desk: a history processor drops"))

    assert asyncio.run(alone.run("Hello")).output == "Hi"


def test_code_that_forbids_itself_real_requests_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", False)

    assert passes(scenario("desk: an agent asks"))
    assert models.ALLOW_MODEL_REQUESTS is False


def test_no_key_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    assert passes(scenario("desk: two tools"))


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What the application's own instrumentation exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    yield exporter
    Agent.instrument_all(False)


def test_the_applications_own_instrumentation_makes_no_difference(
    spans: InMemorySpanExporter,
) -> None:
    case = scenario("desk: an agent asks")
    with_spans = simulate(case)
    Agent.instrument_all(False)

    assert with_spans.passed
    assert with_spans.trace.digest() == simulate(case).trace.digest()
    agents = [
        (span.attributes or {})["gen_ai.agent.name"]
        for span in spans.get_finished_spans()
        if "gen_ai.agent.name" in (span.attributes or {}) and "invoke_agent" in span.name
    ]
    assert agents == ["seats", "triage", "triage"]


def test_the_applications_own_capabilities_stay_in_force() -> None:
    ran = run_app(
        "pydantic_ai_hooks:ask",
        """
        turns:
          - user: Hello
            replies: {careful: [{calls: [greet: {name: ann}]}, Bye]}
            tool_results: {greet: Hello Ann}
            expect:
              reply: Bye
              tool_calls: [{tool: greet, args: {name: ann}, result: Hello Ann}]
              context: {"careful[1]": {includes: [{role: tool, content: HELLO ANN}]}}
        """,
    )

    assert ran.judgement.findings == ()
    pydantic_ai_hooks = importlib.import_module("pydantic_ai_hooks")

    assert pydantic_ai_hooks.calls == [
        "wrap_run", "wrap_model_request", "before_model_request", "prepare_model_request",
        "after_model_request", "wrap_tool_execute", "before_tool_execute", "after_tool_execute",
        "wrap_model_request", "before_model_request", "prepare_model_request",
        "after_model_request",
    ]  # fmt: skip


def test_a_result_that_a_processor_parts_from_its_call_is_left_out_by_it() -> None:
    # PydanticAI itself takes it out, so that nobody is sent it.
    ran = run_app(
        "pydantic_ai_hooks:hasty",
        """
        turns:
          - user: Is Ann in?
            replies: {hasty: [{calls: [look_up: {name: Ann}]}, I cannot say]}
            expect:
              context:
                "hasty[1]":
                  messages: []
                  dropped:
                    - {user: IS ANN IN?, by: keep_last}
                    - {calls: [{tool: look_up}], by: keep_last}
                    - {tool: Ann is in, by: keep_last}
        """,
    )

    assert ran.judgement.findings == ()


# What cannot be

REFUSED: dict[str, tuple[str, str]] = {
    "a way that there is not": (
        "app: {path: [.], call: ask}\nturns: [{user: Hi}]",
        ":4:24: an agent is run by run, run_sync, run_stream, run_stream_events, iter: "
        "not by `ask`",
    ),
    "options that are no mapping": (
        "app: {path: [.], run_options: pydantic_ai_desk:Passenger}\nturns: [{user: Hi}]",
        ":4:31: `pydantic_ai_desk:Passenger` returns an object of class `Passenger`, not a "
        "mapping of what an agent is run with, by its names",
    ),
    "an answer to no question": (
        "turns: [{user: Hi, replies: {clerk: Hi}}, {resume: true}]",
        "turn 2 answers an interrupt, and no tool call waits for approval.",
    ),
    "a tool that nobody has": (
        "turns: [{user: Hi, replies: {clerk: Hi}, tool_results: {weather: Rain}}]",
        "no model was offered tool `weather`. Did you mean `out_weather`? "
        "Offered: out_cancel_flight, out_weather.",
    ),
    "a handoff without a tool": (
        "turns: [{user: Hi, replies: {clerk: {handoff: {to: seats}}}}]",
        "agent 'clerk' is offered no tool that passes control to 'seats'. "
        "Offered: out_weather, out_cancel_flight.\n"
        "Name the tool under `agents: {seats: {handoff: …}}`.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused(name: str) -> None:
    text, says = REFUSED[name]

    with pytest.raises((SourceError, Unsupported)) as caught:
        run_app("pydantic_ai_desk:clerk", text)

    assert says in str(caught.value)


def test_a_missing_line_stops_nested_agents_too() -> None:
    case = prepared(
        "pydantic_ai_desk:side_by_side", "turns: [{user: Hi, replies: {translator: Hola}}]"
    )

    problems = [finding.what for finding in simulate(case).judgement.findings]

    assert [problem.partition(",")[0] for problem in problems] == [
        "agent 'translator (2)' made a model call in turn 1"
    ]

"""Whose a model call is, by spans: with a provider of the application's, and without one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import Span, Tracer, TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from simkit.adapters.opentelemetry import compat, watch
from simkit.adapters.opentelemetry.watch import SpanInstrument
from simkit.core.errors import SourceError
from tests.adapters.running import RUNS, run_app
from tests.building import Ran

CASES: dict[str, tuple[str, str]] = {
    "an agent in a tool": (
        "desk",
        """
        turns:
          - user: What is it?
            replies:
              boss: [{calls: [look_up: {what: it}]}, It is., It is 42.]
              researcher: "42"
            expect:
              reply: It is 42.
              agents: [boss, researcher]
              model_calls: {boss: 3, researcher: 1}
              runs: {boss: {output: It is 42.}, researcher: {output: "42"}}
              events:
                $in_order:
                  - {kind: AgentStarted, agent: boss, run: r1}
                  - {kind: AgentStarted, agent: researcher, run: r2, parent: r1}
                  - {kind: AgentFinished, agent: researcher, status: done}
                  - {kind: ModelCalled, agent: boss, run: r1}
                  - {kind: AgentFinished, agent: boss, status: done}
        """,
    ),
    "a handoff": (
        "desk",
        """
        app: {path: [.]}
        agents: {closer: {handoff: pass_on}}
        turns:
          - user: What is it?
            replies:
              boss: [{calls: [look_up: {}]}, It is., {handoff: {to: closer}}]
              researcher: "42"
              closer: Goodbye.
            expect:
              reply: Goodbye.
              agents: [boss, researcher, closer]
              handoffs: [{from: boss, to: closer}]
              events:
                $in_order:
                  - {kind: AgentFinished, agent: boss, status: handed_off}
                  - {kind: HandoffMade, to_agent: closer}
                  - {kind: AgentStarted, agent: closer}
        """,
    ),
    "one prompt in tasks": (
        "panel",
        """
        turns:
          - user: Yes or no?
            replies: {a: "yes", b: "no", c: perhaps}
            expect: {reply: "yes, no, perhaps", agents: [a, b, c]}
        """,
    ),
    "one prompt in threads": (
        "crowd",
        """
        turns:
          - user: Yes or no?
            replies: {a: "yes", b: "no", c: perhaps}
            expect: {reply: "yes, no, perhaps", agents: [c, a, b]}
        """,
    ),
    "agents that only calls name": (
        "by_calls",
        """
        turns:
          - user: What is it?
            replies: {clerk: [{calls: [look_up: {}]}, Nothing.], editor: Nothing!}
            expect:
              reply: Nothing!
              agents: [clerk, editor]
              model_calls: {clerk: 2, editor: 1}
              events:
                $in_order:
                  - {kind: AgentStarted, agent: clerk, run: r1}
                  - {kind: ModelCalled, agent: clerk, run: r1}
                  - {kind: ModelCalled, agent: clerk, run: r1}
                  - {kind: AgentFinished, agent: clerk, status: done}
                  - {kind: AgentStarted, agent: editor}
                  - {kind: AgentFinished, agent: editor, status: done}
        """,
    ),
    "a span without an operation": (
        "by_hand",
        """
        turns:
          - user: Yes or no?
            replies: {worker: ["yes", "no"]}
            expect: {reply: "yes, no", agents: [worker], runs: {worker: {output: "no"}}}
        """,
    ),
    "an agent that fails": (
        "failing",
        """
        turns:
          - user: Yes or no?
            replies: {first: "yes", second: "no"}
            expect:
              reply: "no"
              agents: [first, second]
              events:
                $in_order:
                  - {kind: AgentFinished, agent: first, status: failed}
                  - {kind: AgentFinished, agent: second, status: done}
        """,
    ),
    "an agent that is stopped": (
        "impatient",
        """
        turns:
          - user: Yes or no?
            replies: {slow: "yes", quick: "no"}
            expect:
              reply: "no"
              events:
                $in_order:
                  - {kind: AgentFinished, agent: slow, status: cancelled}
                  - {kind: AgentFinished, agent: quick, status: done}
        """,
    ),
    "code that names another agent": (
        "marked",
        """
        turns:
          - user: Yes or no?
            replies: {inner: "yes"}
            expect: {reply: "yes", agents: [inner]}
        """,
    ),
    "a span that has ended": (
        "stale",
        """
        turns:
          - user: Yes or no?
            replies: {starter: ["yes", "no"]}
            expect: {reply: "yes, no", model_calls: {starter: 2}}
        """,
    ),
    "two turns and sessions": (
        "by_hand",
        """
        turns:
          - user: Begin
            replies: {worker: ["yes", "no"]}
            expect: {agents: [worker]}
          - user: And now?
            replies: {worker: ["no", "no"]}
            expect: {agents: [worker], runs: {worker: {output: "no"}}}
          - user: Yes or no?
            session: s2
            replies: {worker: ["yes", "yes"]}
            expect: {agents: [worker], events: {$has: {kind: AgentStarted, run: r3}}}
        """,
    ),
}


def run(name: str) -> Ran:
    function, text = CASES[name]
    return run_app(f"otel_team:{function}", text)


def passes(name: str) -> bool:
    try:
        return run(name).judgement.passed
    except SourceError:
        return False


@contextmanager
def provider(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[InMemorySpanExporter]:
    """Configures the application's own provider, as it does once in a process."""
    exporter = InMemorySpanExporter()
    own = TracerProvider(shutdown_on_exit=False, **options)
    own.add_span_processor(SimpleSpanProcessor(exporter))
    with monkeypatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", own)
        sys.modules.pop("otel_team", None)  # Its tracer keeps the provider of its first use.
        yield exporter
    sys.modules.pop("otel_team", None)


def tree(exporter: InMemorySpanExporter) -> list[tuple[str, str, Any]]:
    """Returns what was exported: each span, the one around it, and its attributes."""
    result = exporter.get_finished_spans()
    names = {item.context.span_id: item.name for item in result if item.context is not None}
    return [
        (
            item.name,
            names.get(item.parent.span_id, "?") if item.parent else "",
            dict(item.attributes or {}),
        )
        for item in result
    ]


@pytest.mark.parametrize("name", CASES)
def test_calls_are_told_apart_where_no_provider_is_configured(name: str) -> None:
    ran = run(name)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_calls_are_told_apart_with_a_provider_and_it_makes_no_difference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = run(name)

    with provider(monkeypatch) as exporter:
        ran = run(name)

    assert ran.judgement.findings == ()
    assert ran.trace.digest() == without.trace.digest()
    assert exporter.get_finished_spans() != ()


@pytest.mark.parametrize("name", CASES)
def test_calls_are_told_apart_where_a_sampler_drops_all_spans(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(monkeypatch, sampler=sampling.ALWAYS_OFF) as exporter:
        ran = run(name)

    assert ran.judgement.findings == ()
    assert exporter.get_finished_spans() == ()


def test_calls_are_told_apart_where_the_sdk_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    with provider(monkeypatch) as exporter:
        ran = run("an agent in a tool")

    assert (ran.judgement.findings, exporter.get_finished_spans()) == ((), ())


def test_the_application_exports_the_spans_that_it_exports_without_simkit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with provider(monkeypatch) as exporter:
        assert passes("an agent in a tool")

    boss = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"}
    researcher = {**boss, "gen_ai.agent.name": "researcher"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.agent.name": "boss"}
    chat = {"gen_ai.operation.name": "chat"}
    assert tree(exporter) == [
        ("chat", "invoke_agent boss", chat),
        ("chat", "invoke_agent researcher", chat),
        ("invoke_agent researcher", "execute_tool", researcher),
        ("chat", "execute_tool", chat),
        ("execute_tool", "invoke_agent boss", tool),
        ("chat", "invoke_agent boss", chat),
        ("invoke_agent boss", "invoke_agent boss", boss),
        ("invoke_agent boss", "", boss),
    ]


def test_spans_are_left_alone_when_the_turns_are_over() -> None:
    before = (trace.NoOpTracer.start_span, Tracer.start_span, Span.end)
    assert passes("an agent in a tool")

    span = trace.NoOpTracer().start_span("after", attributes={"gen_ai.agent.name": "nobody"})

    assert (trace.NoOpTracer.start_span, Tracer.start_span, Span.end) == before
    assert span is trace.INVALID_SPAN
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a handoff", "one prompt in tasks", "one prompt in threads"])
def test_many_runs_have_one_digest(name: str) -> None:
    assert len({run(name).trace.digest() for _ in range(RUNS)}) == 1


def _unchanged(before: Any) -> Any:
    return before


def _nothing(*args: Any, **kwargs: Any) -> Any:
    """Stands for what nobody sees."""


def _no_id(*args: Any, **kwargs: Any) -> str:
    return ""


HOOKS: dict[str, tuple[Any, str, Any, str]] = {
    "spans start": (watch, "_started", _unchanged, "one prompt in tasks"),
    "spans end": (SpanInstrument, "ended", _nothing, "an agent that fails"),
    "spans around spans": (SpanInstrument, "_parent", _no_id, "an agent in a tool"),
    "activations": (watch, "activation", _nothing, "an agent in a tool"),
    "failures": (watch, "has_failed", _nothing, "an agent that fails"),
    "who is at work": (SpanInstrument, "run_now", _nothing, "an agent in a tool"),
}


@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_removed_turns_a_scenario_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, nothing, case = HOOKS[name]
    assert passes(case)

    monkeypatch.setattr(owner, attribute, nothing)

    assert not passes(case)


def test_the_end_of_a_recorded_span_is_a_hook_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(monkeypatch):
        assert passes("an agent that fails")

        monkeypatch.setattr(watch, "_ended", _unchanged)

        assert not passes("an agent that fails")


def test_a_call_whose_spans_name_nobody_is_no_ones() -> None:
    with pytest.raises(SourceError, match="a model call belongs to no agent"):
        run_app("otel_team:nameless", "turns: [{user: Hi, replies: {a: Hi}}]")


def test_a_call_whose_spans_name_nobody_is_told_by_the_scenarios_rules() -> None:
    ran = run_app(
        "otel_team:nameless",
        """
        app: {path: [.]}
        agents: {decider: Decide.}
        turns: [{user: Hi, replies: {decider: Hi}, expect: {agents: [decider]}}]
        """,
    )

    assert ran.judgement.findings == ()


def test_an_agent_of_a_framework_with_an_adapter_is_told_by_that_alone() -> None:
    pytest.importorskip("agents", reason="openai-agents is not installed")

    ran = run_app(
        "otel_agents:inside_a_span",
        "turns: [{user: Hi, replies: {Greeter: Hi}, expect: {agents: [Greeter]}}]",
    )

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


def test_a_tool_whose_function_is_unknown_is_refused_though_spans_are_seen() -> None:
    with pytest.raises(SourceError, match="tool `find_flights`"):
        run_app(
            "otel_team:by_hand",
            "turns: [{user: Hi, replies: {worker: [Hi, Hi]}, tool_results: {find_flights: none}}]",
        )


def otlp(monkeypatch: pytest.MonkeyPatch) -> tuple[type[Any], list[str]]:
    """Returns an exporter in the place of OTLP's, and the names of what it has sent."""
    texts: list[str] = []

    class OTLPSpanExporter(InMemorySpanExporter):
        """Would send spans."""

        def export(self, spans: Any) -> Any:
            texts.extend(span.name for span in spans)
            return SpanExportResult.SUCCESS

    module = ModuleType(f"{compat.OTLP}.http.trace_exporter")
    vars(module).update(OTLPSpanExporter=OTLPSpanExporter, SpanExportResult=SpanExportResult)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return OTLPSpanExporter, texts


def test_nothing_is_exported_over_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, sent_messages = otlp(monkeypatch)
    with provider(monkeypatch) as server:
        own = trace.get_tracer_provider()
        assert isinstance(own, TracerProvider)
        own.add_span_processor(SimpleSpanProcessor(exporter()))

        assert passes("a span without an operation")
        assert (sent_messages, len(server.get_finished_spans())) == ([], 3)

        own.get_tracer("after").start_span("after").end()
        assert sent_messages == ["after"]


def test_what_waits_to_be_exported_is_not_sent_after_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter, sent_messages = otlp(monkeypatch)
    with provider(monkeypatch):
        own = trace.get_tracer_provider()
        assert isinstance(own, TracerProvider)
        waiting = BatchSpanProcessor(exporter())
        own.add_span_processor(waiting)

        assert passes("a span without an operation")
        own.force_flush()
        waiting.shutdown()

        assert sent_messages == []

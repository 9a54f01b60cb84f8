"""The OpenAI Agents SDK as it is: what is claimed to be seen is seen, and by these hooks."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

agents = pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import run as agents_run  # noqa: E402
from agents.testing import ScriptedModel, assistant_message  # noqa: E402
from agents.tracing import get_trace_provider  # noqa: E402
from agents.tracing.processors import BackendSpanExporter  # noqa: E402

from simkit.adapters.openai_agents import runner as openai_agents_runner  # noqa: E402
from simkit.adapters.openai_agents.agent_runs import AgentRunLog  # noqa: E402
from simkit.adapters.openai_agents.runner import FlightHooks  # noqa: E402
from simkit.adapters.recorder.trace import TraceRecorder  # noqa: E402
from simkit.core.errors import SourceError  # noqa: E402
from simkit.spec.scenario.files import Prepared  # noqa: E402
from simkit.trace import events as e  # noqa: E402
from tests.adapters.running import APPS, passes, run_app, scenario_in  # noqa: E402
from tests.upstream import missing  # noqa: E402

DESK, TEAM = APPS / "agents_desk.scenario.yaml", APPS / "agents_team.scenario.yaml"
UPSTREAM = APPS / "agents_upstream.scenario.yaml"


def scenario(start: str) -> Prepared:
    case = scenario_in(start, DESK, TEAM, UPSTREAM)
    if Path(case.item.file) == UPSTREAM and missing("openai_agents"):
        pytest.skip(missing("openai_agents"))
    return case


FAQ = """
    turns:
      - user: Is there wifi?
        replies:
          Triage: [{calls: [look_up: {question: wifi}]}, {text: One moment., handoff: {to: FAQ}}]
          FAQ: "Yes"
        tool_results: {look_up: {wifi: true}}
        expect:
          reply: "Yes"
          agents: [Triage, FAQ]
          handoffs: [{from: Triage, to: FAQ}]
          tool_calls: [{agent: Triage, tool: look_up, result: {wifi: true}}]
          context:
            # Before the filter, and behind it.
            Triage[-1]: {includes: [{role: tool}]}
            FAQ:
              messages:
                - system: You answer questions.
                - user: Is there wifi?
                - {assistant: One moment., agent: Triage}
"""
HOMEWORK = """
    turns:
      - user: Do my homework
        replies:
          Guard: {json: {is_homework: true}}
          Tutor: {calls: [archive: {word: homework}]}
        expect:
          reply: Do it yourself.
          agents: [Tutor, Guard]
          runs: {Guard: {output: {is_homework: true}}}
          events:
            $in_order:
              - {kind: AgentStarted, agent: Guard, parent: r1}
              - kind: GuardrailTripped
                agent: Tutor
                guardrail: no_homework
                reason: '{"is_homework":true}'
              - {kind: AgentFinished, agent: Tutor, status: cancelled}
"""
CHAT = """
    app: {path: [.], call: WAY}
    turns:
      - user: Hello
        replies: {Chatty: [{calls: [dictionary: {word: hi}]}, Hi!]}
        expect:
          reply: Hi!
          agents: [Chatty]
          tool_calls: [{agent: Chatty, tool: dictionary, result: hi!}]
          context: {Chatty: {settings: {model: gpt-5-mini}}}
      - user: And now?
        replies: {Chatty: Bye}
        expect:
          context:
            Chatty: {includes: [{user: Hello}, {role: tool, content: hi!}, {assistant: Hi!}]}
"""


@pytest.mark.parametrize("way", ["ask", "ask_in_sync", "ask_streamed"])
def test_a_filter_is_seen_however_the_agent_is_run(way: str) -> None:
    ran = run_app(f"agents_desk:{way}", FAQ)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


@pytest.mark.parametrize("way", ["patient_tutor", "streaming_tutor"])
def test_a_tripped_guardrail_is_seen_also_where_the_code_catches_it(way: str) -> None:
    ran = run_app(f"agents_team:{way}", HOMEWORK)

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


# `run_sync` uses its event loop again after `shutdown_asyncgens`.
@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")
@pytest.mark.parametrize("way", ["run", "run_sync", "run_streamed"])
def test_an_agent_on_chat_completions_keeps_its_conversation(way: str) -> None:
    ran = run_app("agents_team:chatty", CHAT.replace("WAY", way))

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())


WHY = """
app: {path: [.], run_options: agents_desk:passenger}
turns:
  - user: I am angry
    replies:
      Triage:
        - calls: [look_up: {question: anger}]
        - handoff: {to: Human, payload: PAYLOAD}
    tool_results: {look_up: It passes.}
"""


@pytest.mark.parametrize(
    ("payload", "wrong"),
    [
        ("{reason: [loud]}", "reason: ['loud'] is not of type 'string'"),
        ("{reson: loud}", "'reason' is a required property; Additional properties are not "
         "allowed ('reson' was unexpected)"),
    ],
)  # fmt: skip
def test_a_payload_that_the_handoffs_input_type_refuses_is_told_by_line_and_field(
    payload: str, wrong: str
) -> None:
    ran = run_app("agents_desk:triage", WHY.replace("PAYLOAD", payload))

    assert ran.judgement.findings[0].what == (
        "turn 1 ended with error ModelBehaviorError: Invalid JSON when parsing model output\n"
        "The payload of the handoff to 'Human' under turns[0].replies.Triage[1] is not what "
        f"`transfer_to_human` takes: {wrong}."
    )


def test_options_of_a_run_may_be_plain_values() -> None:
    text = WHY.replace("agents_desk:passenger", "{max_turns: 1}").replace(
        "        - handoff: {to: Human, payload: PAYLOAD}\n", ""
    )

    ran = run_app("agents_desk:triage", f"{text}    expect: {{error: MaxTurnsExceeded}}\n")

    assert ran.judgement.findings == ()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            "handoff: {to: Humam}",
            "agent 'Triage' is offered no tool that passes control to 'Humam'. Did you mean "
            "`Human`? Offered: look_up, ask_the_faq, transfer_to_seat_booking, transfer_to_human.",
        ),
        (
            "calls: [look_up: {question: 1}]",
            "turns[0].replies.Triage[0] calls tool 'look_up' with arguments that its schema "
            "refuses: question: 1 is not of type 'string'. Correct the line: the schema is what "
            "the pipeline sends with the tool.",
        ),
    ],
)
def test_a_line_that_is_misspelt_is_told_with_what_was_near(reply: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        run_app("agents_desk:triage", f"turns: [{{user: Hi, replies: {{Triage: [{{{reply}}}]}}}}]")

    assert message in str(caught.value)


def test_a_payload_that_is_refused_may_be_what_is_claimed() -> None:
    claim = "    expect: {error: ModelBehaviorError}\n"

    ran = run_app("agents_desk:triage", WHY.replace("PAYLOAD", "{reason: [loud]}") + claim)

    assert ran.judgement.findings == ()


async def _skip(self: Any, *args: Any, **kwargs: Any) -> None:
    """Stands for a hook that is not there."""


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for what nobody writes down."""


HOOKS: dict[str, tuple[Any, str, Any, str]] = {
    "agents start": (FlightHooks, "on_agent_start", _skip, "team: an agent whose"),
    "handoffs are made": (FlightHooks, "on_handoff", _skip, "desk: of two handoffs"),
    "agents end": (FlightHooks, "on_agent_end", _skip, "team: an agent that stops"),
    "handoff tools": (FlightHooks, "on_llm_start", _skip, "desk: a conversation"),
    "tools end": (FlightHooks, "on_tool_end", _skip, "desk: a conversation"),
    "tools": (openai_agents_runner, "answered", _nothing, "desk: a conversation"),
    "context objects": (AgentRunLog, "look", _nothing, "desk: a conversation"),
    "parallel runs": (TraceRecorder, "begin_group", lambda self: "", "team: agents that are tools"),
    "failures": (AgentRunLog, "failed", _nothing, "team: a tripwire"),
    "refused tools": (AgentRunLog, "_tell_refusals", _nothing, "team: a tripwire"),
    "sessions": (AgentRunLog, "session_used", _nothing, "desk: a session"),
    "filters of handoffs": (openai_agents_runner, "hear_handoffs", _nothing, "desk: what an input"),
    "filters of a configuration": (
        openai_agents_runner,
        "hear_filters",
        _nothing,
        "desk: filters of a run's",
    ),
    "what filters showed": (AgentRunLog, "model_input", _nothing, "desk: filters of a run's"),
    "nested histories": (
        openai_agents_runner,
        "hear_nesting",
        lambda before: before,
        "desk: what stands in a nested",
    ),
    "the runner": (openai_agents_runner, "_Runner", lambda before: before, "desk: a conversation"),
}


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


def test_a_nested_run_names_the_run_inside_which_it_works() -> None:
    ran = run_app(
        "agents_team:translator",
        """
        turns:
          - user: Hello
            replies:
              Translator: [{calls: [to_spanish: {input: Hello}]}, Hola]
              Spanish: Hola
        """,
    )

    starts = [event for event in ran.trace.events if isinstance(event, e.AgentStarted)]
    assert [(start.agent, start.run, start.parent) for start in starts] == [
        ("Translator", "r1", ""), ("Spanish", "r2", "r1"),
    ]  # fmt: skip


def test_what_an_agents_code_writes_before_it_runs_another_agent_is_its_own() -> None:
    ran = run_app(
        "agents_desk:ask_together",
        """
        turns:
          - user: Put us together
            replies:
              Companions: [{calls: [seat_beside: {seat: 12A}]}, Nobody sits there.]
              FAQ: Nobody.
            expect: {state: {seat: 12A}}
        """,
    )

    writes = [event for event in ran.trace.events if isinstance(event, e.StateUpdated)]
    assert [(write.cause, write.agent, write.update) for write in writes[1:]] == [
        ("writes", "Companions", {"seat": "12A"})
    ]


def test_a_default_runner_of_the_applications_own_is_used_and_put_back() -> None:
    class Own(agents_run.AgentRunner):
        """Counts."""

        calls = 0

        async def run(self, *args: Any, **kwargs: Any) -> Any:
            """Runs an agent."""
            Own.calls += 1
            return await super().run(*args, **kwargs)

    own, before = Own(), agents_run.DEFAULT_AGENT_RUNNER
    agents_run.set_default_agent_runner(own)
    try:
        ran = run_app(
            "agents_team:translator",
            "turns: [{user: Hi, replies: {Translator: Hi}, expect: {agents: [Translator]}}]",
        )

        assert (ran.judgement.passed, Own.calls) == (True, 1)
        assert agents_run.DEFAULT_AGENT_RUNNER is own
    finally:
        agents_run.set_default_agent_runner(before)


def test_nothing_of_a_run_is_exported_as_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    exported: list[Any] = []
    monkeypatch.setattr(BackendSpanExporter, "export", lambda self, items: exported.extend(items))

    assert passes(scenario("team: hooks and configuration"))
    get_trace_provider().force_flush()

    assert exported == []


def test_nothing_is_exported_of_a_run_that_outlives_its_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exported: list[Any] = []
    monkeypatch.setattr(BackendSpanExporter, "export", lambda self, items: exported.extend(items))

    ran = run_app(
        "agents_team:impatient",
        """
        turns:
          - user: Hello
            replies: {Spanish: {calls: [dictionary: {word: hello}]}}
            expect: {reply: That will do.}
        """,
    )
    get_trace_provider().force_flush()

    assert (ran.judgement.findings, exported) == ((), [])


def test_agents_run_outside_a_scenario_are_left_alone() -> None:
    model = ScriptedModel([[assistant_message("Hi")]])
    alone = agents.Agent(name="Alone", model=model)
    untraced = agents.RunConfig(tracing_disabled=True)
    assert passes(scenario("team: a hosted tool"))

    result = asyncio.run(agents.Runner.run(alone, "Hello", run_config=untraced))

    assert result.final_output == "Hi"


REFUSED: dict[str, tuple[str, str]] = {
    "a way that there is not": (
        "app: {path: [.], call: run_stream}\nturns: [{user: Hi}]",
        ":4:24: an agent is run by run, run_sync, run_streamed: not by `run_stream`",
    ),
    "options that are no mapping": (
        "app: {path: [.], run_options: agents_desk:Passenger}\nturns: [{user: Hi}]",
        ":4:31: `agents_desk:Passenger` returns an object of class `Passenger`, not a mapping of "
        "what an agent is run with, by its names",
    ),
    "a tool that nobody has": (
        "turns: [{user: Hi, replies: {Translator: Hi}, tool_results: {to_german: Hallo}}]",
        "no model was offered tool `to_german`. Offered: to_french, to_spanish.",
    ),
    "an output without its key": (
        "turns: [{user: Hi, replies: {Translator: {handoff: {to: Spanish}}}}]",
        "agent 'Translator' is offered no tool that passes control to 'Spanish'. "
        "Offered: to_spanish, to_french.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused(name: str) -> None:
    text, says = REFUSED[name]

    with pytest.raises(SourceError) as caught:
        run_app("agents_team:translator", text)

    assert says in str(caught.value)


@pytest.mark.skipif(bool(missing("openai_agents")), reason=missing("openai_agents") or "-")
def test_a_reply_without_the_key_that_the_sdk_asks_for_is_refused_before_it_is_served() -> None:
    with pytest.raises(SourceError, match="'response' is a required property"):
        run_app(
            "agents_upstream:llm_as_a_judge",
            """
            app: {path: [., upstream/openai_agents]}
            turns:
              - user: A detective in space
                replies:
                  story_outline_generator: A detective flies.
                  evaluator: {json: {feedback: Too short, score: fail}}
            """,
        )


def test_a_tool_of_plain_code_whose_function_is_unknown_would_run_so_it_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        run_app(
            "travel:Desk",
            """
            app: {path: [.], call: ask}
            agents: {triage: {system: {$starts: You are the triage agent}}}
            turns: [{user: Hi, replies: {triage: Hi}, tool_results: {find_flights: none}}]
            """,
        )

    # Where a framework is imported, only the run can tell that it does not offer the tool.
    assert "tool `find_flights`" in str(caught.value)

"""Claims held against a small pipeline; what does not hold comes back as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent, indent
from typing import Any

from msgspec.structs import replace

from simkit.checks.findings import Finding
from simkit.checks.judge import Judgement, judge
from simkit.language.yaml import Document
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.trace.events import AnyEvent, RunStarted
from simkit.trace.store import Trace
from tests.building import prepared

PIPELINE = """
channels:
  messages: {reducer: append, scope: session}
  decision: {scope: turn}
  scratch: {scope: agent_run}
  total: {reducer: add, scope: session}
agents:
  router:
    instructions: Choose.
    output: {type: object}
    context: [instructions, history, current_message]
    writes: {decision: "${run.output}"}
  nutrition:
    instructions: You are a nutrition coach.
    tools: [log_meal]
    context:
      - instructions
      - history: {from: log, filters: [tool_messages, intermediate_ai]}
      - current_message
    writes: {messages: ["${run.final_message}"], scratch: x, total: 1}
  coach:
    instructions: You are a workout coach.
    handoffs: [analyst, archivist]
    context:
      - [instructions, {shared: {from: decision, name: plan}}]
      - history: {window: {messages: 2}}
      - current_message
    writes: {messages: ["${run.final_message}"]}
  analyst:
    instructions: You analyse.
    context: [instructions, handoff, history, current_message]
    writes: {messages: ["${run.final_message}"]}
  archivist: {instructions: You look things up.}
  greeter:
    instructions: Greet.
    before:
      - when: {user: hello}
        writes: {total: 5}
  counter: {function: "tests.checks.judging:count"}
tools:
  log_meal: {args: {type: object}}
contracts:
  - {from: coach, to: analyst, type: analysis, payload: {type: object, required: [km]}}
  - {from: coach, to: archivist, type: lookup, mode: delegate}
flow: {router: {decide: router, to: "${run.output.to}"}}
"""

MEALS = """
turns:
  - user: I ate pizza for lunch
    replies:
      router: {json: {to: nutrition}}
      nutrition:
        - calls: [log_meal: {food: pizza}]
        - Logged your pizza.
    tool_results: {log_meal: {kcal: 800}}
  - user: And now?
    replies:
      router: {json: {to: nutrition}}
      nutrition: Nothing more.
    expect:
"""
"""Two turns with one coach; claims are put on the second."""

WHOLE = f"{MEALS.rstrip().removesuffix('expect:').rstrip()}\nexpect:\n"
"""The same, with claims on the whole run: two calls, the second after a tool result; then one."""

FIRST_MEAL = MEALS.partition("  - user: And now?")[0] + "    expect:\n"
"""One turn with a tool call."""

HANDOFFS = """
turns:
  - user: How was my run?
    replies:
      router: {json: {to: coach}}
      coach:
        - handoff: {to: analyst, payload: {}}
        - handoff: {to: analyst, payload: {km: 8}}
      analyst: 12 % faster.
    expect:
"""
"""One turn in which a handoff is rejected, and then made."""

PARALLEL = """
turns:
  - user: Everybody!
    replies:
      router: {json: {to: {parallel: [nutrition, coach]}}}
      nutrition: Eat.
      coach: Run.
    expect:
"""


def count(_root: Mapping[str, Any]) -> int:
    """A function agent."""
    return 3


def as_code(event: AnyEvent) -> list[AnyEvent]:
    """Edits a trace so that nobody knows of recipes, as where the pipeline is code."""
    if isinstance(event, RunStarted):
        facts = replace(event.pipeline, observes=("runs", "handoffs", "state"))
        return [replace(event, driver="python", pipeline=facts)]
    return [event]


def with_claims(talk: str, claims: str) -> str:
    """Returns a scenario whose last turn makes these claims."""
    return f"{talk.strip()}\n{indent(dedent(claims).strip(), ' ' * 6)}"


def judged(
    scenario: str,
    *,
    pipeline: str = PIPELINE,
    edit: Callable[[AnyEvent], Sequence[AnyEvent]] | None = None,
) -> tuple[Document, Judgement]:
    """Runs and judges a scenario; ``edit`` changes the trace's events in between."""
    ready = prepared(pipeline, scenario)
    trace = run(ready)
    if edit is not None:
        edited = Trace()
        for event in trace.events:
            for changed in edit(event):
                edited.emit(changed)
        trace = edited
    outcome = judge(ready.scenario, ready.document, trace, function_named)
    return ready.document, outcome.judgement


def blind_to(*subject: str) -> Callable[[AnyEvent], list[AnyEvent]]:
    """Edit a trace so that its driver did not see something."""

    def edit(event: AnyEvent) -> list[AnyEvent]:
        if isinstance(event, RunStarted):
            sees = tuple(ability for ability in event.pipeline.observes if ability not in subject)
            facts = replace(event.pipeline, observes=sees)
            return [replace(event, driver="wire", pipeline=facts)]
        return [event]

    return edit


def describe_findings(
    talk: str,
    claims: str = "",
    *,
    pipeline: str = PIPELINE,
    edit: Callable[[AnyEvent], Sequence[AnyEvent]] | None = None,
    noted: bool = False,
    warnings: bool = False,
) -> str:
    """Returns all that is found, or noted or warned of, every finding with everything it says."""
    scenario = with_claims(talk, claims) if claims else talk
    document, judgement = judged(scenario, pipeline=pipeline, edit=edit)
    findings = judgement.findings
    if noted or warnings:
        findings = judgement.noted if noted else judgement.warnings
    return "\n\n".join(_describe(finding, document) for finding in findings)


def text(expected: str) -> str:
    """Returns an expected text without its indentation."""
    return dedent(expected).strip("\n")


def _describe(finding: Finding, document: Document) -> str:
    texts = [f"turn {finding.turn}"] if finding.turn else []
    texts += [finding.agent] if finding.agent else []
    texts += [f"call {finding.call}"] if finding.call is not None else []
    breaks = " (breaks)" if finding.breaks else ""
    lines = [
        f"{finding.id} {finding.severity} [{', '.join(texts)}]{breaks}",
        finding.what,
        f"at `{source_at(finding.where, document)}`",
    ]
    for difference in finding.differences:
        lines.append(
            f"{difference.at or '.'}: wanted {difference.expected}, found {difference.actual}"
        )
        lines += [f"  note: {difference.note}"] if difference.note else []
    lines += [f"| {line}" for line in finding.context]
    lines += [f"-> {finding.fix}"] if finding.fix else []
    return "\n".join(lines)


def source_at(where: str, document: Document) -> str:
    """Returns what the scenario's file says from ``file:line:column`` to the line's end."""
    _, line, column = where.rsplit(":", 2)
    return document._text.split("\n")[int(line) - 1][int(column) - 1 :]

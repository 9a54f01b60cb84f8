"""Observability: a claim on something that the driver does not observe never passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.checks.claims import Writer
from simkit.checks.findings import Finding
from simkit.checks.scope import Path, Scope
from simkit.checks.searching import names_section
from simkit.language.paths import walk
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RunClaims, Selector
from simkit.trace.events import PipelineFacts
from simkit.trace.views import RunView
from simkit.trace.views.naming import CURRENT, HISTORY, INSTRUCTIONS, RUN

CLAIMS: Final[Mapping[str, str]] = {
    "agents": "runs",
    "state": "state",
    "handoffs": "handoffs",
    "logs": "logs",
}
CONTEXT_NEEDS: Final = ("sections", "dropped", "left_out", "share")
"""Claims on contexts that need sections, beside those named after one."""
_NEVER_NAMED: Final = ("dropped", "left_out", "share")
"""Aspects of code's contexts that assigned sections do not provide."""
STATE_OF_RUNS: Final = ("received", "update")
EVENTS: Final[Mapping[str, str]] = {
    "AgentStarted": "runs",
    "AgentFinished": "runs",
    "StateUpdated": "state",
    "HandoffRequested": "handoffs",
    "HandoffRejected": "handoffs",
    "HandoffMade": "handoffs",
    "LogRecorded": "logs",
}
WORDS: Final[Mapping[str, str]] = {
    "sections": "sections of contexts",
    "state": "the state",
    "runs": "runs of agents",
    "handoffs": "handoffs",
    "filters": "what filters drop",
    "logs": "log records",
    "tools": "whether a tool ran that was asked for last",
    "inputs": "what the code gave this run",
    "goals": "for which goal this run works",
}


_ON_MESSAGES: Final = ("includes", "excludes", "messages")
_OF_MESSAGES: Final = "Claim `includes`, `excludes` or `messages`"
_OTHERWISE: Final = "Remove the claim, or run a driver that sees them."


def doubtful_claims(facts: PipelineFacts) -> frozenset[str]:
    """Return the claims of which `unobservable` must decide: the others need nothing unobserved."""
    observes = {*facts.observes} - {*facts.unseen}
    names = {name for name, need in CLAIMS.items() if need not in observes}
    if not observes >= {*EVENTS.values()}:
        names.add("events")
    if facts.is_code:
        names.add("tool_calls")
    return frozenset(names)


def unobservable(scope: Scope, name: str) -> str:
    """Return the aspect that a claim needs and the driver does not observe; empty if none."""
    need = CLAIMS.get(name, "")
    if need and not scope.can_observe(need):
        return need
    if name == "tool_calls" and _has_unseen_tools(scope):
        return "tools"
    if name == "events":
        kinds = [word for path, word in walk(scope.expect.events) if "kind" in path]
        for kind, need in EVENTS.items():
            if not scope.can_observe(need) and kind in kinds:
                return need
    return ""


def _has_unseen_tools(scope: Scope) -> bool:
    """Return whether a tool was requested and its execution, or its result, is unknown.

    Without an adapter a tool's result is only seen if a later request contains it.
    """
    facts = scope.pipeline
    if not facts.is_code or {"state", "filters", "tools"} & {*facts.observes}:
        return False
    ids_of_calls = {tool.call_id for tool in scope.tools}
    return any(
        call.id not in ids_of_calls and not call.is_handoff
        for run in scope.runs
        for message in run.messages
        for call in message.calls
    )


def untold_of_run(scope: Scope, name: str, run: RunView) -> str:
    """Return the field that is null because nobody saw an agent's input; else empty."""
    need = {"input": "inputs", "goal": "goals"}.get(name, "")
    return need if need and getattr(run, name) is None and scope.pipeline.is_code else ""


def unobservable_in_context(scope: Scope, selector: Selector, name: str, matcher: Any) -> str:
    """Return the same for a claim under ``context``, which may need sections."""
    agent = selector.agent
    if selector.run is not None and not scope.can_observe("runs"):
        return "runs"
    if _is_named(scope, agent) and name not in _NEVER_NAMED:
        return ""
    if name == "dropped":
        observes_history = scope.can_observe("filters") or scope.can_observe("sections")
        return "" if observes_history else "filters"
    if scope.can_observe("sections"):
        return ""
    needs = name not in CONTEXT_CLAIMS or name in CONTEXT_NEEDS or names_section(matcher)
    return "sections" if needs else ""


def unobservable_in_run(scope: Scope, name: str) -> str:
    """Return the same for a claim under ``runs``."""
    for need in ("runs", "state") if name in STATE_OF_RUNS else ("runs",):
        if not scope.can_observe(need):
            return need
    return ""


def claims_of(run: RunClaims) -> Iterator[tuple[str, Any]]:
    """Yield the claims on a run, in the order of the format."""
    for name in type(run).model_fields:
        if name in run.model_fields_set:
            yield name, getattr(run, name)


def not_observable(
    scope: Scope, writer: Writer, path: Path, subject: str, need: str, agent: str = ""
) -> Iterator[Finding]:
    """Yield the finding that a claim is not observable; none if that was declared."""
    if need in scope.pipeline.unseen:
        writer.passed_over.append(
            writer.finding(
                path,
                f"{subject} was not looked at: {_why_unseen(scope, need)}",
                turn=scope.turn,
                agent=agent,
                fix="Claim something that the code shows, or report this in the code.",
            )
        )
        return
    driver = f"driver {scope.driver!r}" if scope.driver else "the driver of this trace"
    yield writer.finding(
        path,
        f"{subject} is not observable by {driver}, which does not see {WORDS[need]}",
        turn=scope.turn,
        agent=agent,
        fix=_in_code(need, str(path[-1]), agent) if writer.is_code else _OTHERWISE,
    )


def _why_unseen(scope: Scope, need: str) -> str:
    """Return the author's reason; traces of older versions contain none."""
    reason = " ".join(scope.pipeline.unseen_reasons.get(need, "").split())
    return f"{need}: {reason}" if reason else f"{need}: declared `unseen`"


def _in_code(need: str, claim: str, agent: str) -> str:
    """Describe how code can show it, or what to claim instead."""
    if need == "state":
        return "Report it in the code, `simkit.state(name=value)`, or remove the claim."
    if need == "inputs":
        return "Claim what its model was sent, under `context`, or remove the claim."
    if need == "goals":
        return "Report it with `POST /simkit/started` and `goal`, or remove the claim."
    if need == "tools":
        return "Claim what the model asked for: `runs: {agent: {messages: [{calls: …}]}}`."
    if need == "logs":
        return "Say `app: {logs: true}` where the code runs in this process, or remove the claim."
    if need == "filters":
        return "Claim what is not sent, with `excludes`, or remove the claim."
    if need != "sections":
        return _OTHERWISE
    if claim in _NEVER_NAMED or agent == "*":
        return f"{_OF_MESSAGES}, or remove the claim."
    known = claim in (*CONTEXT_CLAIMS, INSTRUCTIONS, HISTORY, CURRENT, RUN)
    sections = "{}" if known else f"{{{claim}: {{system: {{$starts: …}}}}}}"
    instead = "leave `section` out of it" if claim in _ON_MESSAGES else f"c{_OF_MESSAGES[1:]}"
    return (
        "Say which messages are of which section, "
        f"`agents: {{{agent}: {{sections: {sections}}}}}`, or {instead}."
    )


def _is_named(scope: Scope, agent: str) -> bool:
    """Return whether the pipeline's file assigns an agent's messages to sections."""
    agents = scope.view.pipeline.agents
    return agent in agents and agents[agent].sections is not None

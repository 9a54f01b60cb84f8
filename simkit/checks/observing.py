"""Observability: a claim on something that the driver does not observe never passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.checks.claims import FindingBuilder
from simkit.checks.findings import Finding
from simkit.checks.scope import Path, Scope
from simkit.checks.searching import names_section
from simkit.language.paths import walk
from simkit.spec.scenario.claim_kinds import ASPECTS
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, SECTION_CLAIM, TURN_CLAIMS, Selector
from simkit.trace.views.contexts import CURRENT, HISTORY, INSTRUCTIONS, RUN

EVENTS: Final[Mapping[str, str]] = {
    "AgentStarted": "runs",
    "AgentFinished": "runs",
    "StateUpdated": "state",
    "HandoffRequested": "handoffs",
    "HandoffRejected": "handoffs",
    "HandoffMade": "handoffs",
    "LogRecorded": "logs",
}
_OF_MESSAGES: Final = "Claim `includes`, `excludes` or `messages`"
_OTHERWISE: Final = "Remove the claim, or run a driver that sees them."


def unobservable(scope: Scope, name: str) -> str:
    """Return the aspect that a claim needs and the driver does not observe; empty if none."""
    for need in TURN_CLAIMS[name].needs:
        if not scope.can_observe(need):
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


def unobservable_in_context(scope: Scope, selector: Selector, name: str, matcher: Any) -> str:
    """Return the same for a claim under ``context``, which may need sections."""
    if selector.run is not None and not scope.can_observe("runs"):
        return "runs"
    kind = CONTEXT_CLAIMS.get(name, SECTION_CLAIM)
    if kind.is_assignable and _is_named(scope, selector.agent):
        return ""
    for need in kind.needs:
        if not scope.can_observe(need):
            return need
    if name == "tools" and _is_of_definitions(matcher) and _lacks_definitions(scope):
        return "definitions"
    return "sections" if names_section(matcher) and not scope.can_observe("sections") else ""


def _is_of_definitions(matcher: Any) -> bool:
    """Return whether a claim on tools says more than their names."""
    return any(
        key in ("description", "parameters", "strict") for path, _ in walk(matcher) for key in path
    )


def _lacks_definitions(scope: Scope) -> bool:
    return (
        bool(scope.view.calls)
        and not scope.view.definitions
        and any(call.context.tools for call in scope.all_calls)
    )


def not_observable(
    scope: Scope, builder: FindingBuilder, path: Path, subject: str, need: str, agent: str = ""
) -> Iterator[Finding]:
    """Yield the finding that a claim is not observable; none if that was declared."""
    if need in scope.pipeline.unseen:
        builder.passed_over.append(
            builder.finding(
                path,
                f"{subject} was not looked at: {_why_unseen(scope, need)}",
                turn=scope.turn,
                agent=agent,
                fix="Claim something that the code shows, or report this in the code.",
            )
        )
        return
    driver = f"driver {scope.driver!r}" if scope.driver else "the driver of this trace"
    yield builder.finding(
        path,
        f"{subject} is not observable by {driver}, which does not see {ASPECTS[need].words}",
        turn=scope.turn,
        agent=agent,
        fix=_in_code(need, str(path[-1]), agent) if builder.is_code else _OTHERWISE,
    )


def _why_unseen(scope: Scope, need: str) -> str:
    """Return the author's reason; traces of older versions contain none."""
    reason = " ".join(scope.pipeline.unseen_reasons.get(need, "").split())
    return f"{need}: {reason}" if reason else f"{need}: declared `unseen`"


def _in_code(need: str, claim: str, agent: str) -> str:
    """Describe how code can show it, or what to claim instead."""
    if need != "sections":
        return ASPECTS[need].advice or _OTHERWISE
    kind = CONTEXT_CLAIMS.get(claim, SECTION_CLAIM)
    if not kind.is_assignable or agent == "*":
        return f"{_OF_MESSAGES}, or remove the claim."
    is_known = claim in (*CONTEXT_CLAIMS, INSTRUCTIONS, HISTORY, CURRENT, RUN)
    sections = "{}" if is_known else f"{{{claim}: {{system: {{$starts: …}}}}}}"
    is_of_messages = claim in CONTEXT_CLAIMS and kind.form == "messages"
    instead = "leave `section` out of it" if is_of_messages else f"c{_OF_MESSAGES[1:]}"
    return (
        "Say which messages are of which section, "
        f"`agents: {{{agent}: {{sections: {sections}}}}}`, or {instead}."
    )


def _is_named(scope: Scope, agent: str) -> bool:
    """Return whether the pipeline's file assigns an agent's messages to sections."""
    agents = scope.view.pipeline.agents
    return agent in agents and agents[agent].sections is not None

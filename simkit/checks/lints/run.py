"""Lints on the run itself: does the script fit, and is everything under control?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Final, Literal

from simkit.checks.claims import cut_short
from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, lint
from simkit.checks.lints.handoffs import contract_of, referenced, required_keys
from simkit.checks.selection import meant_agent, meant_tool
from simkit.core.errors import ScriptMisfit
from simkit.core.text import counted, near, short
from simkit.providers.failures import FAILURES
from simkit.spec.scenario.replies import asking_server
from simkit.trace import events as e
from simkit.trace.views import TurnView, View

REFUSED: Final = "the handoff"
"""The beginning of a finding that a handoff was refused."""
_SHOWN_MAX: Final = 5
_UNIQUE_MIN: Final = 16
"""The length from which two scenarios do not say the same by chance."""


class _Misses(list[e.ModelFailed]):
    """Calls without a fitting line."""


@lint("RUN-01", e.RunFinished)
def script_mismatch(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """RUN-01: every reply line and tool result is used, and every call has one.

    The same goes for everything else in the scenario that the pipeline does not do: a rule for an
    agent that does not exist, results of a tool that is not offered. If a call found no fitting
    line, unused lines are not reported as well. In a turn with a planned fault lines may stay
    unused: the pipeline may give up.
    """
    for misfit in event.misfits:
        root, *rest = misfit.path or ("",)
        turn = rest[0] + 1 if root == "turns" and rest and isinstance(rest[0], int) else 0
        agent = str(rest[2]) if len(rest) > 2 and rest[1] == "replies" else ""
        yield Hit("RUN-01", misfit.what, turn, agent, path=misfit.path)


@lint("RUN-01", e.ModelFailed)
def _note_call_without_line(event: e.ModelFailed, facts: Facts) -> None:
    if event.error == "no_reply_line":
        facts.notes_of(_Misses).append(event)


@lint("RUN-01", e.TurnFinished)
def _unused_at_end(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """Report what was not used."""
    misses = facts.notes.get(_Misses, ())
    if not event.unused and not event.unused_results and not misses:
        return ()
    if event.error is not None and event.error.type == ScriptMisfit.__name__:
        return ()  # The misfit kept the turn from using the rest of its lines.
    facts.notes.pop(_Misses, None)
    view = facts.view
    fault = facts.fault.fault if facts.fault and facts.fault.turn == event.turn else ""
    is_disturbed = bool(fault) and not fault.startswith("server ")
    unused = {entry.agent for entry in event.unused}
    hits = [_call_without_line(failed, view, failed.agent in unused) for failed in misses]
    if not is_disturbed:
        hits += _left_over(event, misses, view)
    if hits or is_disturbed:
        # Unused lines call no tools: one cause, one finding.
        return hits
    return [_unused_results(entry, view.turns[-1], view, fault) for entry in event.unused_results]


def _left_over(event: e.TurnFinished, misses: Sequence[e.ModelFailed], view: View) -> Iterable[Hit]:
    """Yield the unused lines of agents whose every call found one."""
    failed_agents = {failed.agent for failed in misses}
    for entry in event.unused:
        if entry.agent not in failed_agents:
            yield _unused_lines(entry, view.turns[-1], view)


def _unused_results(entry: e.UnusedResults, turn: TurnView, view: View, fault: str) -> Hit:
    tool, number = entry.tool, turn.number
    calls = counted(entry.calls, "time") if entry.calls else "not"
    path: tuple[str | int, ...] = ("turns", number - 1, "tool_results", tool)
    if entry.is_list:
        results = counted(len(entry.answers), "unused result")
        which = ", ".join(str(index + 1) for index in entry.answers)
        problem = (
            f"tool {tool!r} has {results} in turn {number}: number {which}. It was called {calls}, "
            "and each result answers one call; one result that is a list is "
            "`{returns: [...]}`."
        )
        path = (*path, entry.answers[0])
    elif server := asking_server(tool):
        problem = (
            f"turn {number} answers server {server!r}, which did not ask. For a real server "
            "over HTTP, only its client can answer."
        )
        path = ("turns", number - 1, "elicits", server)
    elif it := next((each for each in turn.tools if each.tool == tool), None):
        why = it.server and (fault or f"server {it.server!r} did not answer")
        problem = (
            f"tool {tool!r} was called in turn {number} and did not ask for the result that "
            f"the scenario has: {why or 'what it returned is its own'}."
        )
    else:
        called = (tool_view for before in view.turns for tool_view in before.tools)
        nearest = meant_tool(tool, view.calls.values(), called)
        problem = f"tool {tool!r} was not called in turn {number}, but has a result{nearest or '.'}"
    data = {"tool": tool, "answers": list(entry.answers), "calls": entry.calls}
    return Hit("RUN-01", problem, number, data=data, path=path)


def _call_without_line(event: e.ModelFailed, view: View, has_unused: bool) -> Hit:
    index = view.calls[event.call].index
    path: tuple[str | int, ...] = ("turns", event.turn - 1)
    if index or has_unused:
        path = (*path, "replies", event.agent)
    problem = f"{_refusal_before(event, view)}{event.message}"
    return Hit("RUN-01", problem, event.turn, event.agent, index, path=path)


def _refusal_before(event: e.ModelFailed, view: View) -> str:
    """Return the sentence that an agent was asked again because something of it was refused."""
    for earlier in dropwhile(lambda other: other is not event, reversed(view.events)):
        if earlier.agent != event.agent or earlier.run not in ("", event.run):
            continue
        if isinstance(earlier, e.ModelReplied):
            break
        if isinstance(earlier, e.HandoffRejected):
            guess = "".join(
                f"; it has `{key}`: did you mean `{name}`?"
                for key, name in _meant_keys(earlier, view.pipeline)
            )
            return (
                f"{REFUSED} from {earlier.from_agent!r} to {earlier.to_agent!r} was refused in "
                f"turn {event.turn}: {earlier.reason}{guess or '.'}\n"
            )
        if isinstance(earlier, e.ToolFailed):
            return (
                f"the call of tool {earlier.tool!r} by {event.agent!r} failed in turn "
                f"{event.turn}: {earlier.error}\n"
            )
        if isinstance(earlier, e.GuardrailTripped):
            return (
                f"the {earlier.guardrail} of {event.agent!r} was refused in turn {event.turn}: "
                f"{earlier.reason}\n"
            )
    return ""


def _meant_keys(request: e.HandoffRejected, facts: e.PipelineFacts) -> Iterator[tuple[str, str]]:
    """Yield the unknown keys of a refused payload, each with the contract's key that it means."""
    contract = contract_of(request, facts)
    schema = referenced(contract.payload, facts.schemas) if contract is not None else None
    if isinstance(schema, Mapping) and isinstance(request.payload, Mapping):
        declared = {*schema.get("properties", ()), *(required_keys(request, facts) or ())}
        free = declared - {*request.payload}
        pairs = ((key, near(key, free)) for key in request.payload if key not in declared)
        yield from (pair for pair in pairs if pair[1])


def _unused_lines(entry: e.UnusedLines, turn: TurnView, view: View) -> Hit:
    agent, number = entry.agent, turn.number
    lines = counted(len(entry.lines), "reply line")
    which = ", ".join(str(line + 1) for line in entry.lines)
    pronoun = "it" if len(entry.lines) == 1 else "them"
    if entry.calls:
        unused = counted(len(entry.lines), "unused reply line")
        calls = counted(entry.calls, "model call")
        problem = (
            f"agent {agent!r} has {unused} in turn {number}: number {which}. "
            f"It made {calls}. Remove {pronoun}, or let the agent be asked again."
        )
    elif any(run.agent == agent for run in turn.runs):
        problem = (
            f"agent {agent!r} made no model call in turn {number}, but has {lines}. "
            f"Remove {pronoun}, or let the agent ask a model."
        )
    else:
        runs = (run for before in view.turns for run in before.runs)
        nearest = meant_agent(agent, view.pipeline, runs, view.calls.values())
        problem = (
            f"agent {agent!r} never ran in turn {number}, but has {lines}{nearest or '.'} "
            f"Remove {pronoun}, or route the turn to the agent."
        )
        tools = dict.fromkeys(call.tool for call in turn.tools) if view.pipeline.is_code else ()
        if tools:
            problem += (
                f" If the agent is asked inside {' or '.join(f'`{tool}`' for tool in tools)}: a "
                "result under `tool_results` takes the place of the function, and of its agents."
            )
    path = ("turns", number - 1, "replies", agent)
    data = {"lines": list(entry.lines), "calls": entry.calls}
    return Hit("RUN-01", problem, number, agent, data=data, path=path)


@lint("RUN-02", e.UncontrolledEffect)
def uncontrolled(event: e.UncontrolledEffect, facts: Facts) -> Iterable[Hit]:
    """RUN-02: user code uses no thread, process or network that simkit does not control.

    The list of nondeterministic effects is Temporal's.
    """
    actor = f"agent {event.agent!r}" if event.agent else "the pipeline"
    when = f" in turn {event.turn}" if event.turn else ""
    problem = f"{actor} reached {event.effect} at {event.where}{when}"
    return (Hit.at("RUN-02", event, problem, effect=event.effect, where=event.where),)


@lint("RUN-04", e.RunFinished)
def unplayed(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """RUN-04: every recorded interaction of a cassette answers a request.

    After a planned fault the pipeline may make fewer requests. From litellm#37360: unused
    recordings fail at the end.
    """
    if event.unplayed and facts.fault is None:
        number = counted(len(event.unplayed), "recorded interaction")
        problem = f"{number} of the cassette answered nothing"
        yield _hit_of_cassette("RUN-04", problem, event.unplayed)


@lint("RUN-05", e.RunFinished)
def drifted(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """RUN-05: a request equals its recording, also if the policy allows another.

    Unnoticed drift makes recordings stale: konveyor/kai#462.
    """
    if event.drifted:
        problem = f"{counted(len(event.drifted), 'request')} differed from what was recorded"
        yield _hit_of_cassette("RUN-05", problem, event.drifted)


@lint("RUN-06", e.RequestUnread)
def unread(event: e.RequestUnread, facts: Facts) -> Iterable[Hit]:
    """RUN-06: simkit reads every request to a model provider, so that claims see it.

    A path of no known protocol is answered from a recording, or by an allowed host, without a
    context, a reply or a tool call in the trace. It may not have been a model call: a warning.
    """
    problem = (
        f"{event.method} {event.url} is {event.interface}, which simkit does not read: "
        "if it asks a model, no claim sees what was sent and answered"
    )
    return (Hit.at("RUN-06", event, problem, agent="", url=event.url, interface=event.interface),)


@lint("RUN-07", e.ErrorLost)
def lost_error(event: e.ErrorLost, facts: Facts) -> Iterable[Hit]:
    """RUN-07: every error that ends a thread or a task of the pipeline is taken by other code.

    A provider's failure that the scenario plans is none: an application may let such work go. As
    pytest's warning for unhandled exceptions of threads, which passes.
    """
    error = event.error
    if error.type not in FAILURES:
        actor = f" of agent {event.agent!r}" if event.agent else ""
        problem = (
            f"a {event.ended}{actor} ended with an error in turn {event.turn}, and no code took "
            f"it: {error.message}"
        )
        yield Hit.at("RUN-07", event, problem, ended=event.ended, error=error.type)


@lint("RUN-08", e.TextCarriedOver)
def carried_over(event: e.TextCarriedOver, facts: Facts) -> Iterable[Hit]:
    """RUN-08: no text of an earlier scenario of the process reaches a request or reply of this one.

    A short text that no variable of the pipeline's modules was seen to keep is a warning: the code
    may have written the same words itself, `f"Question {number}"`.
    """
    speaker = "the user" if event.said_by == "user" else "a model"
    others = f", and {counted(event.others, 'other text')}" if event.others else ""
    text = short(event.text, SHOWN_MAX)
    problem = (
        f"agent {event.agent!r} is sent {text!r} in turn {event.turn}"
        if event.call
        else f"turn {event.turn} is answered with {text!r}"
    )
    problem += (
        f"{others}: {speaker} said it in the scenario '{event.scenario}', which ran before in this "
        f"process{f', and `{event.variable}` keeps it' if event.variable else ''}"
    )
    data = {"scenario": event.scenario, "variable": event.variable}
    severity: Literal["W"] | None = None
    if not event.variable and len(event.text) < _UNIQUE_MIN:
        severity = "W"
    return (Hit("RUN-08", problem, event.turn, event.agent, severity=severity, data=data),)


def _hit_of_cassette(identity: str, problem: str, lines: Sequence[str]) -> Hit:
    """Return the hit about some interactions, of which the first are shown."""
    text = "\n".join([f"{problem}:", *cut_short(lines, _SHOWN_MAX)])
    return Hit(identity, text, 0, data={"interactions": list(lines)}, path=("cassette",))

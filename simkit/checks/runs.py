"""Claims on agent runs, replies, tool calls, model calls and the end of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simkit.checks.choosing import (
    Check,
    Claim,
    Group,
    check_chosen,
    looked_at,
    meant_agent,
    which_words,
)
from simkit.checks.claims import Writer, differences, listed, listing, no_place
from simkit.checks.findings import Finding
from simkit.checks.observing import claims_of, not_observable, unobservable_in_run, untold_of_run
from simkit.checks.pinning import element_of, end_of, event_at, run_of
from simkit.checks.scope import Scope
from simkit.core.messages import value_said
from simkit.core.text import counted, short
from simkit.language.matching import Mismatch, compile_matcher
from simkit.language.matching.polarity import polarity_of
from simkit.language.matching.values import Content
from simkit.spec.scenario.claims import ALL_AGENTS, EVERY, SOME, Selector, selected
from simkit.trace import events as e
from simkit.trace.views import CallView, RunView

_GROUP: Final = "$unordered"
"""The meaning of a nested list: its agents in any order."""
_OF_LISTS: Final = ("$has", "$in_order", "$unordered", "$not", "$either", "$all", "$in")
"""Operators whose operands contain names of agents, or lists of them."""


def check_agents(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the runs in start order; a nested list is one parallel group in any order."""
    claimed = scope.expect.agents
    groups = groups_of(scope.runs)
    actual = groups
    if _is_whole(claimed) or _has_group(claimed):
        claimed = _with_groups(claimed)
    else:
        actual = [run.agent for run in scope.runs]
    misses = writer.misses(claimed, actual)
    if not misses:
        return
    lines = [f"agents that ran {scope.words}: {listed([_name(group) for group in groups])}"]
    if scope.error is not None:
        lines.append(_error_line(scope))
    at = misses[0].at
    yield writer.finding(
        (*scope.path, "agents"),
        "agents does not match",
        turn=scope.turn,
        context=lines,
        event=_run_at(element_of(claimed, actual, misses), scope, actual is groups),
        differences=[
            replace(difference, expected=difference.expected.replace(f"{_GROUP}: [", "the group ["))
            for difference in differences(misses)
        ],
        fix=_group_advice(scope.expect.agents, groups),
        # The matcher that replaces a nested list here is in no file.
        at=tuple(
            step
            for place, step in enumerate(at)
            if step != _GROUP or place == 0 or isinstance(at[place - 1], str)
        ),
    )


def _run_at(place: int | None, scope: Scope, by_group: bool) -> int | None:
    """Return the start of the run, or of the first one of a group, at an index."""
    if place is None:
        return None
    runs: dict[str, RunView] = {}
    for run in scope.runs:
        runs.setdefault((by_group and run.group) or run.id, run)
    first = list(runs.values())[place]
    return event_at(scope, e.AgentStarted, lambda event: event.run == first.id)


def _group_advice(claimed: Any, groups: list[Any]) -> str:
    """Describe the meaning of a nested list, if the right agents ran in another grouping."""
    if not isinstance(claimed, list) or _names(claimed) != _names(groups):
        return ""
    if _has_group(claimed) == _has_group(groups):
        return ""
    return "A nested list is one parallel group, `[router, [a, b]]`; a flat one is one by one."


def groups_of(runs: Sequence[RunView]) -> list[Any]:
    """Return the agents in start order; a list of several is one parallel group."""
    groups_found: list[Any] = []
    groups: dict[str, list[str]] = {}
    for run in runs:
        if not run.group:
            groups_found.append(run.agent)
        elif run.group in groups:
            # Agents that run inside one of them may have started in between.
            groups[run.group].append(run.agent)
        else:
            groups[run.group] = [run.agent]
            groups_found.append(groups[run.group])
    return groups_found


def _is_whole(matcher: Any) -> bool:
    """Return whether a matcher of agents is a complete list, a denial, or a choice of these."""
    if isinstance(matcher, list):
        return True
    return isinstance(matcher, Mapping) and (
        any(_is_whole(matcher.get(key)) for key in ("$not", "$eq", "$ne"))
        or any(
            _is_whole(element)
            for key in ("$either", "$all", "$in")
            for element in matcher.get(key, ())
        )
    )


def _has_group(matcher: Any, inside: bool = False) -> bool:
    """Return whether a matcher of agents contains a list within a list."""
    if isinstance(matcher, Mapping):
        return any(_has_group(inner, inside) for inner in matcher.values())
    if isinstance(matcher, list):
        return inside or any(_has_group(inner, True) for inner in matcher)
    return False


def _with_groups(matcher: Any) -> Any:
    """Return the matcher with every nested list as a group in any order."""
    if isinstance(matcher, list):
        return [{_GROUP: element} if element.__class__ is list else element for element in matcher]
    if isinstance(matcher, Mapping):
        return {
            key: _with_groups(inner) if key in _OF_LISTS else inner
            for key, inner in matcher.items()
        }
    return matcher


def _names(matcher: Any) -> list[str]:
    if isinstance(matcher, list):
        return sorted(name for inner in matcher for name in _names(inner))
    return [matcher] if isinstance(matcher, str) else []


def _name(element: Any) -> str:
    return f"[{', '.join(element)}]" if isinstance(element, list) else str(element)


def check_reply(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the output of the last finished run."""
    lines = []
    finished = [run for run in scope.runs if run.finished and run.output is not None]
    if scope.error is not None:
        lines.append(_error_line(scope))
    elif scope.reply is None:
        lines.append(f"no run left a reply {scope.words}")
    elif finished:
        last = max(finished, key=lambda run: run.finished_at)
        lines.append(f"the last run with an output is {last.agent}'s")
    yield from writer.compare(
        scope.expect.reply,
        scope.reply,
        (*scope.path, "reply"),
        "reply",
        turn=scope.turn,
        context=lines,
        event=lambda _: end_of(scope) if scope.error else _reply_at(finished, scope),
    )


def _reply_at(finished: Sequence[RunView], scope: Scope) -> int | None:
    """Return the last event of the run that replied."""
    if not finished:
        return None
    last = max(finished, key=lambda run: run.finished_at)
    return run_of(scope, last, "reply")


def _error_line(scope: Scope) -> str:
    assert scope.error is not None
    noun = "turn" if scope.turn else "run"
    return f"the {noun} ended with error {scope.error.type}: {short(scope.error.message, 160)}"


def check_runs(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the inputs and results of an agent's runs."""
    for key, claims in scope.expect.runs.items():
        path = (*scope.path, "runs", key)
        selector = selected(key)
        named = "" if selector.agent == ALL_AGENTS else selector.agent
        observable = []
        for name, matcher in claims_of(claims):
            need = unobservable_in_run(scope, name)
            if need:
                title = f"runs.{key}.{name}"
                yield from not_observable(scope, writer, (*path, name), title, need, named)
            else:
                observable.append((name, matcher))
        groups = _groups(scope, selector) if observable else []
        yield from check_chosen(key, path, observable, groups, _RUNS, scope, writer)


def _groups(scope: Scope, selector: Selector) -> list[Group[RunView]] | str:
    """Return the runs that a key selects, by agent; or why there are none."""
    agent, index = selector.agent, selector.place
    mine: dict[str, list[RunView]] = {}
    for run in scope.runs:
        mine.setdefault(run.agent, []).append(run)
    if agent != ALL_AGENTS and agent not in mine:
        nearest = meant_agent(agent, scope.pipeline, scope.runs, scope.all_calls)
        ran = f"those that did: {listed(list(mine))}{nearest}"
        return f"agent {agent!r} did not run {scope.words}; {ran}"
    chosen = mine if agent == ALL_AGENTS else {agent: mine[agent]}
    groups = [
        Group(name, runs, noun="run")
        for name, runs in chosen.items()
        if index is None or -len(runs) <= index < len(runs)
    ]
    if groups or index is None:
        return groups
    if agent == ALL_AGENTS:
        most = max(map(len, mine.values()), default=0)
        return (
            f"no agent has a run [{index}] {scope.words}: the first is [0], and nobody has more "
            f"than {most}"
        )
    count = len(mine[agent])
    times = "once" if count == 1 else f"{count} times"
    return f"agent {agent!r} ran {times} {scope.words}, {no_place(index, count)}"


_STATUS: Final[Mapping[str, str]] = {
    "handed_off": "the run passed control on, so it has no output and wrote nothing",
    "stood_in": "a `before` rule stood in for the model: no call was made, `after` was skipped",
    "failed": "the run failed",
    "interrupted": "the run was interrupted: it asks the user",
    "timed_out": "the run was stopped: it took longer than its handoff allows",
    "cancelled": "the run was cancelled: it was stopped, or another one failed",
    "running": "the run did not finish",
}


def _check_run(claim: Claim[RunView], writer: Writer) -> list[Finding]:
    run, name, group = claim.item, claim.name, claim.group
    untold = untold_of_run(claim.scope, name, run)
    if untold:
        title = f"runs.{claim.key}.{name}"
        reason = not_observable(claim.scope, writer, claim.path, title, untold, run.agent)
        return list(reason)
    selector, polarity = selected(claim.key), polarity_of(claim.source_matcher)
    value = _value(run, name)
    if writer.holds(claim.looked.matcher, value):
        return []

    def holds(run_view: RunView) -> bool:
        matcher = claim.looked.matcher if claim.looked.is_denial else claim.source_matcher
        return writer.holds(matcher, _value(run_view, name))

    lines = [_STATUS[run.status]] if run.status in _STATUS else []
    if run.status == "handed_off" and run.update:
        lines = ["the run passed control on, so it has no output; its handoff's contract wrote"]
    if name == "update" and not run.update and run.status == "done":
        lines.append("the run wrote nothing")
    looked = list(looked_at(selector, polarity, claim.source_matcher, group))
    is_single = selector.which not in (EVERY, SOME) and selector.agent != ALL_AGENTS
    key = claim.key if is_single else group.name(run)
    return writer.compare(
        claim.looked.matcher,
        value,
        claim.path,
        f"runs.{key}.{name}",
        turn=run.turn,
        agent=run.agent,
        context=[
            *which_words(selector, polarity, claim.looked, group, claim.scope, holds),
            *lines,
        ],
        several=not is_single or any(_value(run_view.item, name) != value for run_view in looked),
        event=lambda misses: run_of(
            claim.scope, run, name, [str(miss.path[0]) for miss in misses if miss.path]
        ),
    )


def _holds(claim: Claim[RunView], run: RunView, writer: Writer) -> bool:
    if untold_of_run(claim.scope, claim.name, run):
        return False
    return writer.holds(claim.source_matcher, _value(run, claim.name))


def _distance(claim: Claim[RunView], _: Writer) -> float:
    """Return the distance of a run from a claim; 0 if it holds."""
    return compile_matcher(claim.source_matcher).distance(_value(claim.item, claim.name))


def _value(run: RunView, name: str) -> Any:
    if name != "reply":
        return getattr(run, name)
    return None if run.message is None else Content(run.message.content, value_said(run.message))


_RUNS: Final[Check[RunView]] = Check(
    lambda _, matcher: polarity_of(matcher),
    lambda claim, writer: _holds(claim, claim.item, writer),
    _check_run,
    _distance,
)


def check_tool_calls(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check tool calls in order."""
    calls_found = [tool.fields() for tool in scope.tools]
    title, otherwise = f"tools called {scope.words}:", f"no tool was called {scope.words}"

    def event(misses: Sequence[Mismatch]) -> int | None:
        place = element_of(scope.expect.tool_calls, calls_found, misses)
        if place is None:
            return None
        tool = scope.tools[place]
        key = tool.call_id, tool.tool, tool.at
        return event_at(
            scope, e.ToolCalled, lambda event_: (event_.call_id, event_.tool, event_.at) == key
        )

    yield from writer.compare(
        scope.expect.tool_calls,
        calls_found,
        (*scope.path, "tool_calls"),
        "tool_calls",
        turn=scope.turn,
        context=listing(title, calls_found, _call_line, otherwise),
        event=event,
    )


def _call_line(call: Mapping[str, Any]) -> str:
    return f"{call['tool']} by {call['agent']}"


def check_model_calls(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the number of each agent's model calls."""
    for agent, expected in (scope.expect.model_calls or {}).items():
        calls_found = scope.calls.get(agent, ())
        actual = len(calls_found)
        if actual == expected:
            continue
        counts = [f"{name} {len(calls)}" for name, calls in scope.calls.items()]
        yield writer.finding(
            (*scope.path, "model_calls", agent),
            f"agent {agent!r} made {counted(actual, 'model call')} {scope.words}, wanted "
            f"{expected}",
            turn=scope.turn,
            agent=agent,
            context=[f"model calls {scope.words}: {listed(counts)}"],
            event=_call_at(calls_found[min(expected, actual - 1)], scope) if actual else None,
        )


def _call_at(call: CallView, scope: Scope) -> int | None:
    return event_at(scope, e.ContextBuilt, lambda event: event.call == call.id)


def check_error(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the error that ended the turn, or the run; a plain text is its type."""
    expected = scope.expect.error
    if isinstance(expected, str):
        expected = {"type": expected}
    actual = None if scope.error is None else error_fields(scope)
    lines = [f"there was no error {scope.words}" if actual is None else _error_line(scope)]
    yield from writer.compare(
        expected,
        actual,
        (*scope.path, "error"),
        "error",
        turn=scope.turn,
        context=lines,
        event=lambda _: end_of(scope) if scope.error else None,
    )


def error_fields(scope: Scope) -> dict[str, Any]:
    """Return the error's fields for claims; an empty field is absent."""
    fields: dict[str, Any] = msgspec.to_builtins(scope.error)
    return {name: value for name, value in fields.items() if value not in ("", 0)}


def check_interrupt(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Check the question with which the turn ended."""
    lines = [] if scope.interrupt is not None else [f"nothing was asked {scope.words}"]
    yield from writer.compare(
        scope.expect.interrupt,
        scope.interrupt,
        (*scope.path, "interrupt"),
        "interrupt",
        turn=scope.turn,
        context=lines,
        event=lambda _: event_at(scope, e.TurnInterrupted, last=True),
    )

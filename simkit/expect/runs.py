"""Claims on agent runs, state, replies and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from simkit.expect.claims import Writer, listed, short
from simkit.expect.findings import Finding
from simkit.expect.scope import Scope, event_fields
from simkit.scenario.claims import selected
from simkit.views import RunView


def check_agents(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """The runs in start order; a nested list is one parallel group in any order."""
    if not scope.expect.has("agents"):
        return
    wanted = scope.expect.agents
    found: list[Any] = _grouped(scope.runs)
    if not isinstance(wanted, list):
        found = [run.agent for run in scope.runs]
    else:
        wanted = [{"$unordered": one} if isinstance(one, list) else one for one in wanted]
    lines = [f"agents that ran {scope.words}: {listed([_name(one) for one in found])}"]
    yield from writer.compare(
        wanted, found, (*scope.path, "agents"), "agents", turn=scope.turn, context=lines
    )


def _grouped(runs: Sequence[RunView]) -> list[Any]:
    found: list[Any] = []
    open_group = ""
    for run in runs:
        if run.group and run.group == open_group:
            found[-1].append(run.agent)
        else:
            found.append([run.agent] if run.group else run.agent)
        open_group = run.group
    return found


def _name(one: Any) -> str:
    return f"[{', '.join(one)}]" if isinstance(one, list) else str(one)


def check_reply(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """The output of the last finished run."""
    if not scope.expect.has("reply"):
        return
    lines = []
    finished = [run for run in scope.runs if run.finished]
    if finished:
        lines.append(f"the last finished run is {finished[-1].agent}'s")
    if scope.error is not None:
        lines.append(f"the turn ended with error {scope.error.type}: {short(scope.error.message)}")
    yield from writer.compare(
        scope.expect.reply, scope.reply, (*scope.path, "reply"), "reply", turn=scope.turn,
        context=lines,
    )  # fmt: skip


def check_runs(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """What an activation of an agent got and gave."""
    for key, claims in scope.expect.runs.items():
        path = (*scope.path, "runs", key)
        agent, which = selected(key)
        mine = [run for run in scope.runs if run.agent == agent]
        if not mine:
            ran = listed(list(dict.fromkeys(run.agent for run in scope.runs)))
            what = f"agent {agent!r} did not run {scope.words}; those that did: {ran}"
            yield writer.finding(path, what, turn=scope.turn, agent=agent)
            continue
        if which != "*" and not -len(mine) <= int(which) < len(mine):
            times = "once" if len(mine) == 1 else f"{len(mine)} times"
            what = f"agent {agent!r} ran {times} {scope.words}, so [{which}] is none"
            yield writer.finding(path, what, turn=scope.turn, agent=agent)
            continue
        for run in mine if which == "*" else [mine[int(which)]]:
            for name in claims.model_fields_set:
                value = run.message if name == "reply" else getattr(run, name)
                yield from writer.compare(
                    getattr(claims, name), value, (*path, name), f"runs.{key}.{name}",
                    turn=run.turn, agent=agent,
                    context=[] if run.status == "done" else [f"the run ended as {run.status}"],
                )  # fmt: skip


def check_state(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """The channels after the turn, or after the run."""
    if not scope.expect.has("state"):
        return
    yield from writer.compare(
        scope.expect.state, scope.state, (*scope.path, "state"), "state", turn=scope.turn
    )


_LISTS = ("$has", "$in_order", "$unordered", "$each")


def check_handoffs(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Requests to pass control, in order; what is not said to be rejected must be made."""
    if not scope.expect.has("handoffs"):
        return
    found = [handoff.fields() for handoff in scope.handoffs]
    lines = [_handoff_line(one) for one in found] or [f"no handoff was requested {scope.words}"]
    yield from writer.compare(
        _made_by_default(scope.expect.handoffs), found, (*scope.path, "handoffs"), "handoffs",
        turn=scope.turn, context=lines,
    )  # fmt: skip


def _made_by_default(wanted: Any) -> Any:
    if isinstance(wanted, list):
        return [_one_made(one) for one in wanted]
    if isinstance(wanted, Mapping):
        return {k: _made_by_default(v) if k in _LISTS else v for k, v in wanted.items()}
    return _one_made(wanted)


def _one_made(wanted: Any) -> Any:
    if isinstance(wanted, Mapping) and not any(key.startswith("$") for key in wanted):
        return {**wanted, "outcome": wanted.get("outcome", "made")}
    return wanted


def _handoff_line(handoff: Mapping[str, Any]) -> str:
    reason = f": {short(handoff['reason'])}" if handoff.get("reason") else ""
    way = f"{handoff['from']} → {handoff['to']} ({handoff['type']})"
    return f"requested: {way}, {handoff['outcome']}{reason}"


def check_tool_calls(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Tool calls in order."""
    if not scope.expect.has("tool_calls"):
        return
    found = [tool.fields() for tool in scope.tools]
    lines = [f"called: {one['agent']} {one['tool']}" for one in found] or ["no tool was called"]
    yield from writer.compare(
        scope.expect.tool_calls, found, (*scope.path, "tool_calls"), "tool_calls",
        turn=scope.turn, context=lines,
    )  # fmt: skip


def check_model_calls(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """How often each agent's model was asked."""
    for agent, wanted in (scope.expect.model_calls or {}).items():
        found = len(scope.calls.get(agent, ()))
        if found != wanted:
            yield writer.finding(
                (*scope.path, "model_calls", agent),
                f"agent {agent!r} made {found} model call{'' if found == 1 else 's'} "
                f"{scope.words}, wanted {wanted}",
                turn=scope.turn, agent=agent,
            )  # fmt: skip


def check_events(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Any fields of the events."""
    if not scope.expect.has("events"):
        return
    found = [event_fields(event) for event in scope.events]
    yield from writer.compare(
        scope.expect.events, found, (*scope.path, "events"), "events", turn=scope.turn
    )


def check_ends(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """The error or the question that the turn, or the run, ends with."""
    if scope.expect.has("error"):
        found = None if scope.error is None else error_fields(scope)
        lines = [] if scope.error is not None else [f"there was no error {scope.words}"]
        yield from writer.compare(
            scope.expect.error, found, (*scope.path, "error"), "error", turn=scope.turn,
            context=lines,
        )  # fmt: skip
    if scope.expect.has("interrupt"):
        yield from writer.compare(
            scope.expect.interrupt, scope.interrupt, (*scope.path, "interrupt"), "interrupt",
            turn=scope.turn,
        )  # fmt: skip


def error_fields(scope: Scope) -> dict[str, Any]:
    """Returns the error as a claim sees it."""
    assert scope.error is not None
    fields: dict[str, Any] = msgspec.to_builtins(scope.error)
    return fields

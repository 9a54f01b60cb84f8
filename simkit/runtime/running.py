"""One agent's run from its start to its end: rules, its function or its model calls, its writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.core import messages as m
from simkit.core.errors import InputInvalid, PipelineError, ScriptBroken, TurnCut
from simkit.runtime.activation import Activation
from simkit.runtime.compiled import CompiledRule
from simkit.runtime.handoff_execution import TurnStopped, hand_off
from simkit.runtime.model_calls import converse
from simkit.runtime.scheduler import Steps
from simkit.trace.store import canonical, copied

_encode = msgspec.json.Encoder().encode


def run_agent(run: Activation) -> Steps:
    """Run an announced agent to its end."""
    try:
        if not _stands_in(run):
            yield from converse(run) if run.agent.function is None else _call_function(run)
        _finish(run)
    except GeneratorExit:
        run.cancel(run.turn.closing)
        raise
    except (TurnStopped, TurnCut):
        run.cancel()
        raise
    except (PipelineError, ScriptBroken):
        run.cancel("failed")
        raise


def _stands_in(run: Activation) -> bool:
    """Check a run's input; return whether a rule writes in place of the agent."""
    agent = run.agent
    if agent.input is not None:
        run.check(agent.input, run.input, InputInvalid, "input")
    if agent.before:
        run.stood_in = _first_that_holds(agent.before, run.root())
    return run.stood_in is not None


def _finish(run: Activation) -> None:
    """Write what a run writes, and end it."""
    agent, turn = run.agent, run.turn
    if run.onward is not None:
        run.end("handed_off")
        return
    if agent.writes is None and not agent.after and run.stood_in is None:
        run.end("done", run.changed)
        return
    root = run.root_with_run()
    rule, cause = run.stood_in, "before"
    if rule is None and agent.after:
        rule, cause = _first_that_holds(agent.after, root), "after"
    update = agent.writes.resolve(root) if agent.writes is not None else {}
    ruled = rule.writes.resolve(root) if rule is not None else None
    if ruled:
        update = {**update, **ruled}
    if update:
        turn.write(update, cause if ruled else "writes", agent.name, run.id, run.branch)
    run.end("done" if run.stood_in is None else "stood_in", run.changed)


def _first_that_holds(
    rules: Sequence[CompiledRule], root: Mapping[str, Any]
) -> CompiledRule | None:
    for rule in rules:
        if rule.holds(root):
            return rule
    return None


def _call_function(run: Activation) -> Steps:
    """Call the user's function that is the agent."""
    root_copy = {key: copied(value) for key, value in run.root().items()}
    state: Mapping[str, Any] = root_copy["state"]
    before = {channel: _encode(canonical(value)) for channel, value in state.items()}
    assert run.agent.function is not None
    run.turn.compiled.functions.caller = run.agent.name
    answer = run.agent.function(root_copy)
    after: Mapping[str, Any] = root_copy["state"]
    run.changed = tuple(
        channel
        for channel in sorted({*before, *after})
        if channel not in after or _encode(canonical(after[channel])) != before.get(channel)
    )
    if isinstance(answer, m.Handoff):
        yield from hand_off(run, answer, kind="")
    elif answer is not None:
        run.output = copied(answer)
        plain = canonical(answer)
        text = answer if isinstance(answer, str) else _encode(plain).decode()
        run.say(text, data=None if isinstance(answer, str) else plain)
    if run.onward is None:
        run.check_output()
